"""How much at a time: the rate of each caller, and work that needs much memory or a whole processor.

Every process counts for itself: with several of them a caller can get as many times the rate.
"""

from __future__ import annotations

import contextlib
import math
import threading
from typing import TYPE_CHECKING

from cachetools import LRUCache

from elldelta.agency.server.errors import BusyError, TooManyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_KEYS = 50_000
"""Callers that are remembered; whoever was longest away is forgotten, which gives them a full bucket."""


class RateLimit:
    """A bucket of permits per key, that fills at a steady rate (a token bucket)."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float], *, most_keys: int = MOST_KEYS
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(most_keys)
        self._lock = threading.Lock()

    def take(self, key: str) -> None:
        """Takes one permit.

        Raises:
            TooManyError: There is none; it says when there will be one.
        """
        with self._lock:
            now = self._clock()
            left, since = self._buckets.get(key, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._rate)
            has_one = left >= 1.0
            self._buckets[key] = (left - has_one, now)
        if not has_one:
            raise TooManyError(max(1, math.ceil((1.0 - left) / self._rate)))


class ConcurrencyLimit:
    """Lets a few threads at a time do something.

    Attributes:
        most: How many.
        seconds: How long another one waits.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self._free = threading.BoundedSemaphore(most)

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Waits for a slot, and has it.

        Raises:
            BusyError: There was none in time.
        """
        if not self._free.acquire(timeout=self.seconds):
            raise BusyError("Too many others ask for the same; nothing was changed.")
        try:
            yield
        finally:
            self._free.release()


class StripedLock:
    """Locks for things that have numbers; a few for all of them, so that only so many threads are at work.

    Args:
        stripes: How many locks there are.
        seconds: How long somebody waits.
    """

    def __init__(self, stripes: int, seconds: float) -> None:
        self._stripes = tuple(ConcurrencyLimit(1, seconds) for _ in range(stripes))

    def hold(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Waits until nobody is at work on the thing of this number, or on another one of its stripe."""
        return self._stripes[number % len(self._stripes)].slot()
