"""The next process removes what a killed one has left; nothing that is in use, a ledger's or the user's."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from elldelta.engines import connect
from elldelta.files import AtomicFiles, journaled_name, temporary

KILLED = """
import os, signal, sys
from elldelta.engines import connect
from elldelta.files import AtomicFiles
engine = connect("duckdb")
with AtomicFiles() as files:
    files.place = print  # a ledger places them, once they are whole
    files.stage(os.path.join(sys.argv[1], "release.csv")).write_text("a record")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """A place for temporary folders that no other test uses."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def stage_another(folder):
    """Another process of ours begins to write, and gives up."""
    with contextlib.suppress(ZeroDivisionError), AtomicFiles() as files:
        files.stage(folder / "other.csv")
        raise ZeroDivisionError


def test_what_a_killed_process_leaves_is_removed_by_the_next(tmp_path, own_place):
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "TMPDIR": str(own_place)}
    ended = subprocess.run([sys.executable, "-c", KILLED, work], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(work.iterdir())) == 1
    [left] = own_place.iterdir()
    stage_another(work)
    assert not list(work.iterdir())
    with connect("duckdb"):
        assert left not in own_place.iterdir()
    assert not list(own_place.iterdir())


def test_what_a_journal_knows_has_a_name_that_is_never_removed(tmp_path):
    def place(files):
        [staged] = files
        staged.replace(journaled_name(staged))
        stage_another(tmp_path)
        assert journaled_name(staged).read_text() == "a record"
        journaled_name(staged).replace(files[staged])

    with AtomicFiles() as files:
        files.place = place
        files.stage(tmp_path / "release.csv").write_text("a record")
    assert (tmp_path / "release.csv").read_text() == "a record"


def test_what_is_in_use_stays(tmp_path):
    with AtomicFiles() as files, connect("duckdb", temp_directory=tmp_path):
        files.stage(tmp_path / "release.csv").write_text("half")
        used = set(tmp_path.iterdir())
        stage_another(tmp_path)
        assert set(tmp_path.iterdir()) == used
    assert (tmp_path / "release.csv").read_text() == "half"


def test_what_another_process_takes_for_left_is_made_again(tmp_path, monkeypatch):
    """Between making a file and locking it there is a moment in which nobody holds it."""
    lock, taken = temporary._locked, []

    def locked(path, *, wait):
        if wait and not taken:
            taken.append(path)
            path.unlink()
        return lock(path, wait=wait)

    monkeypatch.setattr(temporary, "_locked", locked)
    with AtomicFiles() as files:
        files.stage(tmp_path / "release.csv").write_text("a record")
    assert taken
    assert (tmp_path / "release.csv").read_text() == "a record"


def test_what_is_not_ours_stays(tmp_path):
    """Names of the user, and of releases that a ledger completes after a crash."""
    names = (
        "release.csv",
        ".hidden.part",
        ".release.csv.0123456789abcdef.part",
        ".release.csv.0123456789abcdef.old",
        "elldelta-notes",
        "elldelta-0123456789abcdef",
    )
    for name in names:
        (tmp_path / name).write_text("mine")
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (tmp_path / ".link.csv.0123456789abcdef.staged.part").symlink_to(secret)
    there = set(tmp_path.iterdir())
    stage_another(tmp_path)
    assert set(tmp_path.iterdir()) == there
    assert secret.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_under_one_of_our_names_is_not_waited_for(tmp_path):
    pipe = tmp_path / ".pipe.csv.0123456789abcdef.staged.part"
    os.mkfifo(pipe)
    stage_another(tmp_path)
    assert pipe.exists()
