"""The thread that an engine's statement runs in: heard, stopped, and never left half begun."""

import contextlib
import random
import signal
import threading
import time

import pytest

from elldelta.engines.task import Task


class Statement:
    """An action of an engine: may be stopped, and forgets a wish to stop from before it has begun."""

    def __init__(self, seconds):
        self.n_begun = self.n_ended = 0
        self._seconds = seconds
        self._stopped = threading.Event()

    def __call__(self):
        self._stopped.clear()
        self.n_begun += 1
        self._stopped.wait(self._seconds)
        self.n_ended += 1
        return "done"

    def stop(self):
        self._stopped.set()


@contextlib.contextmanager
def interrupt_after(seconds):
    """Ctrl-C, by the clock."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_it_returns_and_raises():
    assert Task(lambda: 5).run(stop=lambda: None) == 5
    with pytest.raises(ZeroDivisionError):
        Task(lambda: 1 / 0).run(stop=lambda: None)


def test_somebody_may_watch():
    seen = []
    assert Task(Statement(0.5)).run(stop=lambda: None, watch=lambda: seen.append(1)) == "done"
    assert seen


def test_what_goes_wrong_while_watching_stops_the_action():
    statement = Statement(3600)

    def watch():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Task(statement).run(statement.stop, watch=watch)
    assert statement.n_ended == 1


def test_an_interrupt_at_any_moment_leaves_nothing_running():
    rng = random.Random(1)
    n_heard = 0
    for turn in range(2000):
        statement = Statement(rng.choice([0.0, 0.001, 3600.0]))
        task = Task(statement)
        # Most of them while the thread starts, where an interrupt does most harm.
        delay = rng.choice([2e-4, 2e-3]) * rng.random()
        try:
            with interrupt_after(delay):
                task.run(statement.stop)
                time.sleep(0.01)
        except KeyboardInterrupt:
            n_heard += 1
        assert not task.is_running, turn
        n_begun = statement.n_begun
        assert n_begun == statement.n_ended, turn
        if turn % 100 == 0:
            time.sleep(0.01)
            assert statement.n_begun == n_begun, turn  # what has not begun does not begin later
    assert n_heard > 1000


def test_an_action_that_does_not_stop_is_left_to_itself():
    free = threading.Event()
    wishes = []
    task = Task(free.wait)
    with interrupt_after(0.2), pytest.raises(KeyboardInterrupt):
        task.run(lambda: wishes.append(1), max_stop_attempts=3)
    assert len(wishes) == 3
    assert task.is_running
    free.set()


def test_an_engine_that_cannot_be_told_to_stop_does_not_hide_the_interrupt():
    free = threading.Event()

    def stop():
        free.set()
        raise OSError("no connection")

    task = Task(free.wait)
    with interrupt_after(0.2), pytest.raises(KeyboardInterrupt):
        task.run(stop)
    assert not task.is_running
