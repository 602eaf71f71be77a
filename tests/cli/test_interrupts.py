"""Ctrl-C is heard in compiled code and in the compiler, and leaves nothing. Long work tells how far it is."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import elldelta as ed
from elldelta.engines.task import computed, part


def test_an_interrupt_does_not_wait_for_what_is_computed():
    go_on, ended = threading.Event(), []

    def deaf(tell):
        _thread.interrupt_main()
        go_on.wait()  # as compiled code, which hears nothing
        try:
            tell(0.5)
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        computed(deaf, None)
    assert not ended
    go_on.set()  # now it may tell how far it is, and learns that nobody waits
    while not ended:
        time.sleep(0.01)


def test_what_is_computed_is_returned_raised_and_told():
    seen = []
    assert computed(lambda tell: (tell(0.5), 7)[1], seen.append) == 7
    with pytest.raises(ed.RefusedError, match="no"):
        computed(lambda _: (_ for _ in ()).throw(ed.RefusedError("no")), None)
    assert part(None, 0.0, 1.0) is None
    part(seen.append, 0.2, 0.4)(0.5)
    assert seen[-1] == pytest.approx(0.3)


def test_plans_and_frontiers_tell_how_far_they_are(story, monkeypatch):
    monkeypatch.setattr("elldelta.engines.task.WAIT_SECONDS", 0.001)
    for make in (
        lambda tell: ed.plan(story.model, ell=3, releases=2, records=2500, progress=tell),
        lambda tell: ed.frontier(story.model, ell=3, releases=2, progress=tell),
    ):
        seen = []
        make(seen.append)
        assert seen == sorted(seen)
        assert 0.0 < seen[-1] <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "frontier", "demo"])
def test_an_interrupt_inside_the_compiler_is_heard(in_process, story, tmp_path, command):
    """The compiler calls back into Python and would swallow the interrupt there."""
    cache, out = tmp_path / "cache", tmp_path / "out"
    cache.mkdir()
    out.mkdir()
    arguments = {
        "plan": (story.model, "--ell", "3", "--releases", "1", "--records", "2500", "-o", out / "plan.json"),
        "frontier": (story.model, "--ell", "3", "--releases", "2", "--picture", out / "frontier.png"),
        "demo": ("-o", out),
    }[command]
    running = in_process(command, *arguments, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)})
    while not any(cache.rglob("*.nbc")):  # something is compiled, more is to come
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert "Interrupted. Nothing was left half written." in err
    assert "Traceback" not in err
    assert not list(out.iterdir())


def test_a_demonstration_that_was_interrupted_leaves_nothing_in_the_way(elldelta, tmp_path, monkeypatch):
    """Its files appear together at the end."""

    def interrupted(past, *_, **__):
        assert past.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("elldelta.cli.demo.estimate", interrupted)
    assert elldelta("demo", "-o", tmp_path, code=130).out == ""
    assert not list(tmp_path.iterdir())


def test_an_interrupt_while_the_program_is_loaded(elldelta, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("elldelta.cli.commands.load_commands", interrupted)
    assert "Interrupted" in elldelta("plan", code=130).err


SWALLOWS = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)  # compiled modules are imported so: what is raised there is lost, or leaves half of them
except BaseException:
    pass
"""
IMPORTS = """
import sys, time
from elldelta.cli import main
from elldelta.cli import commands

def load_commands():
    import swallows
    print("imported", flush=True)
    time.sleep(60)

commands.load_commands = load_commands
main.run()
"""


def test_an_interrupt_inside_an_import_is_heard_when_that_has_ended(tmp_path):
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    command = [sys.executable, "-c", IMPORTS]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert found.returncode == 130
    assert found.stdout == "imported\n"
    assert found.stderr == "Interrupted. Nothing was left half written.\n"


ALARMED = "import signal, time; from elldelta.cli import main; "
ALARM = "signal.setitimer(signal.ITIMER_REAL, main.IMPORT_SECONDS)"
"""What an interrupt inside an import leaves for later."""
CLEANS_UP = f"""
{ALARMED}main.listen(); {ALARM}
try:
    signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("cleaned up")
"""
ENDS = f"""
{ALARMED}
import atexit

def execute(_):
    {ALARM}
    return 0

main.execute = execute
atexit.register(time.sleep, 0.3)
main.run()
"""


@pytest.mark.parametrize(
    ("code", "out"), [(CLEANS_UP, "cleaned up\n"), (ENDS, "")], ids=["cleans up", "ends"]
)
def test_an_interrupt_that_waits_disturbs_neither_cleaning_up_nor_the_end(code, out):
    """The one that waits for an import: a second one was heard meanwhile, or the command has ended."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, out, "")


def test_what_a_command_was_started_to_ignore_does_not_end_it():
    """As `nohup` does."""
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from elldelta.cli import main; "
    code += "main.listen(); signal.raise_signal(signal.SIGHUP); print('goes on')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "goes on\n"
