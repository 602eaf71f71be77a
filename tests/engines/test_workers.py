"""Jobs on processes: in their order, with their errors, and none of them left behind."""

import math
import multiprocessing
import os
import time
from functools import partial

import pytest

from elldelta.core.checks import check_whole
from elldelta.engines.workers import Workers
from elldelta.errors import InputError, ParameterError


def squares_of(number, progress=None):
    if progress is not None:
        progress(1.0)
    return number * number


def test_results_come_in_the_order_of_their_jobs():
    expected = [math.sqrt(number) for number in range(5)]
    assert list(Workers(processes=2).run(math.sqrt, 5)) == expected
    seen = []
    assert list(Workers().run(squares_of, 4, seen.append)) == [0, 1, 4, 9]
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_errors_of_jobs_are_told_and_lost_processes_named():
    with pytest.raises(ParameterError, match="The job must be a whole number, 1 or more"):
        list(Workers(processes=2).run(partial(check_whole, "the job"), 2))
    with pytest.raises(InputError, match="has ended") as caught:
        list(Workers(processes=2).run(os._exit, 2))
    assert caught.value.parameter == ("processes",)
    assert not multiprocessing.active_children()


def test_an_interrupt_ends_the_processes():
    """Each waiting for as many seconds as its number says, for minutes together."""
    seen = []

    def interrupt(share):
        seen.append(share)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Workers(processes=2).run(time.sleep, 60, interrupt))
    assert not multiprocessing.active_children()
