"""How much at a time: the rate of each caller, and work that needs much memory or a whole processor.

Every process counts for itself: with several of them a caller can get as many times the rate.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from cachetools import LRUCache

from elldelta.agency.server.errors import TooManyError

if TYPE_CHECKING:
    from collections.abc import Callable

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
