"""Jobs on processes: in their order, with their errors, and none of them left behind."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
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


SCRIPT = """
import math, os, sys
from elldelta.engines.workers import Workers

print("once", flush=True)
print(sum(Workers(processes=2).run(math.sqrt, 3)))
"""


def test_a_script_runs_once_whoever_plans_for_it(tmp_path):
    """Without `if __name__ == "__main__"`: the library would run it again in every process."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    for how in ({"args": [sys.executable, path]}, {"args": [sys.executable, "-"], "input": SCRIPT}):
        found = subprocess.run(**how, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout.split() == ["once", str(1 + math.sqrt(2))]


LONELY = """
import os, time
from elldelta.engines.workers import Workers

def seen(share):
    if share == 0.0 and not os.path.exists("ready"):
        open("ready", "w").close()

list(Workers(processes=2).run(time.sleep, 600, seen))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="only there a process can be killed so")
def test_no_process_outlives_the_one_that_started_it(tmp_path):
    """They hold counts of people in memory, and the standard output of the command."""
    with subprocess.Popen([sys.executable, "-c", LONELY], cwd=tmp_path, stdout=subprocess.PIPE) as running:
        while not (tmp_path / "ready").exists():
            assert running.poll() is None
            time.sleep(0.05)
        running.kill()
        out, _ = running.communicate(timeout=50)  # which ends when nobody can write there any more
    assert out == b""
