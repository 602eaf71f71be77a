"""How much a caller may ask: the rate of requests, and the size and speed of bodies."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from typing import TYPE_CHECKING

from elldelta.agency.server.errors import HttpError, TooLargeError, TooManyError, TooSlowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

MOST_KEYS = 50_000
"""Callers that are remembered; whoever was longest away is forgotten, which gives them a full bucket."""


class RateLimit:
    """A bucket of permits per key, that fills at a steady rate.

    Each process counts for itself: with several of them a caller can get as many times the rate.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Takes one permit.

        Raises:
            TooManyError: There is none; it says when there will be one.
        """
        now = self._clock()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1.0:
            self._buckets[key] = (left, now)
            raise TooManyError(max(1, math.ceil((1.0 - left) / self._rate)))
        self._buckets[key] = (left - 1.0, now)
        while len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)


async def read_body(request: Request, *, most_bytes: int, seconds: float, pause_seconds: float) -> bytes:
    """Reads a body as it arrives and stops as soon as it is too large or too slow.

    Raises:
        TooLargeError: It is larger than allowed, or says that it will be.
        TooSlowError: It pauses for too long, or takes too long altogether.
        HttpError: The sender went away before its end.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most_bytes:
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    n_bytes = 0
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        left = deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(pause_seconds, left)):
                message = await request.receive()
        except TimeoutError:
            raise TooSlowError from None
        if message["type"] == "http.disconnect":
            raise HttpError("The request ended before its body was complete.", remedy="Send it again.")
        chunks.append(message.get("body", b""))
        n_bytes += len(chunks[-1])
        if n_bytes > most_bytes:
            raise _too_large(most_bytes)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large(most_bytes: int) -> TooLargeError:
    return TooLargeError(
        "The request is too large.",
        found=f"It is larger than {most_bytes} bytes.",
        remedy="Send less, or ask whoever runs the service for a larger limit.",
    )
