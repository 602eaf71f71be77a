"""Waiting for an engine so that Ctrl-C is heard."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Task(Generic[Result]):
    """An action in a thread of its own: inside a long statement the main thread would be deaf to Ctrl-C."""

    def __init__(self, action: Callable[[], Result]) -> None:
        self.done = threading.Event()
        self._action = action
        self._results: list[Result] = []
        self._problem: BaseException | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def result(self) -> Result:
        """What the action returned or raised; to be asked once, when it is done."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        return self._results.pop()

    def _work(self) -> None:
        try:
            self._results.append(self._action())
        except BaseException as problem:  # noqa: BLE001 (raised again where the result is asked for)
            self._problem = problem
        finally:
            self.done.set()
