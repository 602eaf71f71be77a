"""Work that needs much memory or a whole processor: only so much of it at a time in one process."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from elldelta.agency.server.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Queues:
    """Queues in which threads wait for those that are about the same thing; a few for all things.

    Args:
        most: How many queues there are, and so how many threads are at work at a time.
        seconds: How long somebody waits.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._queues = tuple(Turns(1, seconds) for _ in range(most))

    def turn(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Waits until nobody is at work on the thing of this number, or on another one in its queue."""
        return self._queues[number % len(self._queues)].turn()


class Turns:
    """A few turns that threads take.

    Args:
        most: How many have one at a time.
        seconds: How long somebody waits for one.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._seconds = seconds

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for a turn, and has it.

        Raises:
            BusyError: There was none in time.
        """
        if not self._free.acquire(timeout=self._seconds):
            raise BusyError("Too many others ask for the same; nothing was changed.")
        try:
            yield
        finally:
            self._free.release()
