"""Small things that many ask for at once, done together: one thread and one transaction for all of them.

Whoever comes while nothing is under way is served at once; whoever comes meanwhile waits, without a thread,
and all who wait are served next. Nobody gets an answer before the transaction with their part has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from starlette.concurrency import run_in_threadpool

from elldelta.errors import ElldeltaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_TOGETHER = 100
"""More would keep others who write waiting for too long."""

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class Together(Generic[_Asked, _Answer]):
    """Collects what is asked for in one event loop.

    Args:
        do: Does several things, in a thread; an answer for each, or the error that is meant for it alone.
            What it raises is meant for all of them.
    """

    def __init__(self, do: Callable[[Sequence[_Asked]], Sequence[_Answer | ElldeltaError]]) -> None:
        self._do = do
        self._waiting: deque[tuple[_Asked, asyncio.Future[_Answer]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, asked: _Asked) -> _Answer:
        """Waits until it is done."""
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                n_taken = min(len(self._waiting), MOST_TOGETHER)
                await self._serve([self._waiting.popleft() for _ in range(n_taken)])
        finally:
            self._worker = None

    async def _serve(self, taken: list[tuple[_Asked, asyncio.Future[_Answer]]]) -> None:
        found: Sequence[_Answer | ElldeltaError | BaseException]
        try:
            found = await run_in_threadpool(self._do, [asked for asked, _ in taken])
        except Exception as error:  # noqa: BLE001 (whoever asked raises it again; nobody may wait for ever)
            found = [error] * len(taken)
        except asyncio.CancelledError:
            for _, answer in taken:
                answer.cancel()
            raise
        for (_, answer), value in zip(taken, found, strict=True):
            if answer.done():  # whoever asked has gone
                continue
            if isinstance(value, BaseException):
                answer.set_exception(value)
            else:
                answer.set_result(value)
