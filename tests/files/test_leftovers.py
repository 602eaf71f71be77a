"""Leftovers of killed processes are removed; nothing of a running process, of a ledger or of the user is."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from elldelta.cli.main import execute
from elldelta.engines import connect
from elldelta.errors import FileError
from elldelta.files import AtomicFiles, clean, hidden_folder

KILLED = """
import os, signal, sys
from elldelta.engines import connect
from elldelta.files import AtomicFiles
engine = connect("duckdb")
with AtomicFiles(place=print) as files:  # a ledger places them, once they are whole
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


def test_what_a_killed_process_leaves_is_removed(tmp_path, own_place, capsys):
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "TMPDIR": str(own_place)}
    ended = subprocess.run([sys.executable, "-c", KILLED, work], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    [left] = work.iterdir()
    [folder] = own_place.iterdir()
    assert execute(["clean", str(work)]) == 0
    told = capsys.readouterr().out
    assert f"Removed {left}" in told
    assert f"Removed {folder}" in told
    assert not list(work.iterdir())
    assert not list(own_place.iterdir())


def test_what_a_journal_knows_has_a_name_that_is_never_cleaned(tmp_path):
    def place(files):
        [temporary] = files
        assert temporary.read_text() == "a record"
        assert clean([tmp_path]) == ([], [])
        temporary.replace(files[temporary])

    with AtomicFiles(place=place) as files:
        files.stage(tmp_path / "release.csv").write_text("a record")
        assert clean([tmp_path]) == ([], list(tmp_path.glob(".release.csv.*.part")))
    assert (tmp_path / "release.csv").read_text() == "a record"


def test_what_is_in_use_stays(tmp_path, own_place):
    with AtomicFiles() as files, connect("duckdb"), hidden_folder(tmp_path) as work:
        files.stage(tmp_path / "release.csv").write_text("half")
        removed, used = clean([tmp_path])
        assert removed == []
        assert len(used) == 3
        assert work.is_dir()
    assert (tmp_path / "release.csv").read_text() == "half"
    assert clean([tmp_path]) == ([], [])


def test_what_is_not_ours_stays(tmp_path):
    """Names of the user, of other versions, and of releases that a ledger completes after a crash."""
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
    assert clean([tmp_path]) == ([], [])
    assert secret.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_under_one_of_our_names_is_not_waited_for(tmp_path):
    pipe = tmp_path / ".pipe.csv.0123456789abcdef.staged.part"
    os.mkfifo(pipe)
    assert clean([tmp_path]) == ([], [])
    assert pipe.exists()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="There is no folder"):
        clean([tmp_path / "nowhere"])
