"""What engines need so that Ctrl-C is heard at any moment, stops what it interrupts, and leaves nothing."""

from __future__ import annotations

import _thread
import contextlib
import itertools
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from elldelta.files import create, engine_name, give_up, remove_left, unwritable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from elldelta.engines.table import Progress

Result = TypeVar("Result")

WAIT_SECONDS = 0.1
"""How long the main thread waits at a time: afterwards it can tell how far the action is."""
MAX_STOP_ATTEMPTS = 50
"""How often a stopped action is given time to end, before it is left to itself."""


def private_folder(owner: object, place: str | os.PathLike[str] | None) -> tuple[Path, Callable[[], object]]:
    """A folder that only this user may read, and what removes it; it goes with its owner at the latest."""
    place = Path(place if place is not None else tempfile.gettempdir()).absolute()
    remove_left(place)
    folder = place / engine_name()
    locks: list[int | None] = []
    # Announced before it exists: an interrupt at any moment after this still removes the folder.
    removal = weakref.finalize(owner, _remove, folder, locks)
    try:
        locks.append(create(folder, 0o700, folder=True))
    except OSError as problem:
        raise unwritable(place, problem) from None
    return folder, removal


def _remove(folder: Path, locks: list[int | None]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    while locks:
        give_up(locks.pop())


def part(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """What to tell the progress of a part of some work to, whose shares run from start to stop."""
    return None if progress is None else lambda share: progress(start + share * (stop - start))


def computed(action: Callable[[Callable[[float], None]], Result], progress: Progress | None) -> Result:
    """What a long computation returns; inside it Ctrl-C is heard at once, and its progress is told.

    Compiled code, and even more the compiler, would hold an interrupt back for minutes, or lose it. The
    computation must change nothing that anybody else sees: after an interrupt it goes on by itself until it
    next tells how far it is, or the process ends.

    Args:
        action: The computation; it is given what to tell the share of the work to that is done.
        progress: Is told that share from time to time, by the thread that waits.
    """
    shares = [0.0]
    stopped: list[bool] = []

    def tell(share: float) -> None:
        if stopped:
            raise KeyboardInterrupt
        shares[0] = share

    def watch() -> None:
        if progress is not None:
            progress(shares[0])

    return Task(lambda: action(tell)).run(lambda: stopped.append(True), watch=watch, max_stop_attempts=1)


class Task(Generic[Result]):
    """An action in a thread of its own: inside a long statement the main thread would be deaf to Ctrl-C.

    Threads and events of the standard library are not safe here: interrupted while they wait, they may keep a
    lock, and nobody could tell whether the thread has begun.

    Args:
        action: What is to be done; it must not touch what the main thread uses meanwhile.
    """

    def __init__(self, action: Callable[[], Result]) -> None:
        self._action = action
        self._results: list[Result] = []
        self._problem: BaseException | None = None
        self._turn = _thread.allocate_lock()
        self._has_ended = False
        self._ended = _thread.allocate_lock()
        self._ended.acquire()

    @property
    def is_running(self) -> bool:
        """Whether the action goes on although nobody waits for it: what it uses must not be touched again."""
        return self._turn.locked() and not self._has_ended

    def run(
        self,
        stop: Callable[[], object],
        *,
        watch: Callable[[], object] = lambda: None,
        max_stop_attempts: int = MAX_STOP_ATTEMPTS,
    ) -> Result:
        """What the action returns or raises.

        Args:
            stop: Makes the action end early. Called again and again if the wait is interrupted, because an
                engine forgets a request that comes before its statement has begun.
            watch: Called from time to time while the action runs.
            max_stop_attempts: How often an action that was told to stop is waited for.
        """
        try:
            _thread.start_new_thread(self._work, ())
            while not self._wait():
                watch()
        except BaseException:
            # Whoever takes the turn first has it: an action that has not begun by now never does.
            if self._turn.acquire(blocking=False):
                self._has_ended = True
            for _ in itertools.takewhile(lambda _: not self._has_ended, range(max_stop_attempts)):
                with contextlib.suppress(Exception):  # the interrupt is what is to be told
                    stop()
                self._wait()
            raise
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        return self._results.pop()

    def _wait(self) -> bool:
        if not self._has_ended:
            self._ended.acquire(timeout=WAIT_SECONDS)
        return self._has_ended

    def _work(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._results.append(self._action())
        except BaseException as problem:  # noqa: BLE001 (raised again where the result is asked for)
            self._problem = problem
        finally:
            self._has_ended = True
            self._ended.release()
