import errno
import os
import subprocess
import sys

import pytest

from elldelta.errors import FileError, ParameterError
from elldelta.files import AtomicFiles
from elldelta.ledger.pending import Pending


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_appear_together_at_the_end(tmp_path):
    with AtomicFiles() as files:
        files.stage(tmp_path / "a").write_text("1")
        files.stage(tmp_path / "b").write_text("2")
        assert not (tmp_path / "a").exists()
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "1"


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_error(tmp_path, problem):
    (tmp_path / "old").write_text("precious")

    def fail():
        with AtomicFiles(overwrite=True) as files:
            files.stage(tmp_path / "a").write_text("1")
            files.stage(tmp_path / "old").write_text("2")
            raise problem

    with pytest.raises(problem):
        fail()
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "precious"


def test_an_existing_file_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "a").write_text("precious")
    with AtomicFiles() as files, pytest.raises(FileError, match="exists"):
        files.stage(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "precious"


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    def race():
        with AtomicFiles() as files:
            files.stage(tmp_path / "a").write_text("1")
            files.stage(tmp_path / "b").write_text("2")
            (tmp_path / "b").write_text("precious")

    with pytest.raises(FileError, match="exists"):
        race()
    assert names(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "precious"


def test_a_failing_rename_takes_the_others_back(tmp_path, monkeypatch):
    from pathlib import Path

    replace = Path.replace

    def fail_for_b(self, target):
        if Path(target).name == "b":
            raise OSError(errno.EIO, "broken")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_for_b)

    def write():
        with AtomicFiles() as files:
            files.stage(tmp_path / "a").write_text("1")
            files.stage(tmp_path / "b").write_text("2")

    with pytest.raises(FileError, match="cannot be written"):
        write()
    assert names(tmp_path) == []


def test_places_where_nothing_can_be_written(tmp_path):
    with AtomicFiles() as files:
        with pytest.raises(FileError, match="does not exist"):
            files.stage(tmp_path / "none" / "a")
        with pytest.raises(FileError, match="folder"):
            files.stage(tmp_path)
        files.stage(tmp_path / "a")
        with pytest.raises(ParameterError, match="one name"):
            files.stage(tmp_path / "a")


def test_a_folder_that_takes_no_files_is_named(tmp_path):
    # Permissions do not stop the superuser; the system's own folders do.
    folder = "/proc" if os.geteuid() == 0 else tmp_path / "locked"
    if os.geteuid():
        folder.mkdir(mode=0o500)
    with AtomicFiles() as files, pytest.raises(FileError, match="cannot be written"):
        files.stage(f"{folder}/a")


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    code = """
import resource, sys
from elldelta.files import AtomicFiles
from elldelta.errors import FileError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with AtomicFiles() as files:
        files.stage(sys.argv[1]).write_bytes(b"x" * 5000)
except FileError as refusal:
    sys.exit(f"{refusal}")
"""
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "There is no room" in run.stderr
    assert names(tmp_path) == []


def test_folders_that_were_made_for_files_go_with_them(tmp_path):
    def interrupted(folder, name=None):
        with AtomicFiles() as files:
            made = files.make_folder(tmp_path / folder)
            (made / name if name else files.stage(made / "a")).write_text("1")
            raise KeyboardInterrupt

    (tmp_path / "old").mkdir()
    for folder in ("old", "old/new", "new/new"):
        with pytest.raises(KeyboardInterrupt):
            interrupted(folder)
        assert names(tmp_path) == ["old"]
        assert names(tmp_path / "old") == []
    with pytest.raises(KeyboardInterrupt):
        interrupted("shared", "of_others")
    assert names(tmp_path / "shared") == ["of_others"]


def test_folders_that_were_made_for_files_stay_with_them(tmp_path):
    with AtomicFiles() as files:
        files.stage(files.make_folder(tmp_path / "new" / "new") / "a").write_text("1")
    assert names(tmp_path / "new" / "new") == ["a"]
    for place in ("a", "a/below"):
        with pytest.raises(FileError, match="cannot be written"), AtomicFiles() as files:
            files.make_folder(tmp_path / "new" / "new" / place)
    assert names(tmp_path / "new" / "new") == ["a"]


def test_a_folder_appears_by_one_renaming(tmp_path):
    with AtomicFiles() as files:
        staged = files.stage(tmp_path / "evidence", folder=True)
        (staged / "page.html").write_text("1")
        files.stage(tmp_path / "r.json").write_text("{}")
        assert staged.parent == tmp_path
        assert not (tmp_path / "evidence").exists()
    assert names(tmp_path) == ["evidence", "r.json"]
    assert names(tmp_path / "evidence") == ["page.html"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_staged_folder_is_gone_after_an_error_with_whatever_is_in_it(tmp_path, problem):
    def fail():
        with AtomicFiles() as files:
            staged = files.stage(tmp_path / "evidence", folder=True)
            (staged / "deep" / "er").mkdir(parents=True)
            (staged / "deep" / "page.html").write_text("1")
            raise problem

    with pytest.raises(problem):
        fail()
    assert names(tmp_path) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_replaces_nothing(tmp_path, overwrite):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "thesis.tex").write_text("precious")
    with AtomicFiles(overwrite=overwrite) as files, pytest.raises(FileError, match="exists"):
        files.stage(tmp_path / "evidence", folder=True)
    with AtomicFiles(overwrite=overwrite) as files, pytest.raises(FileError, match="folder"):
        files.stage(tmp_path / "evidence")
    assert (tmp_path / "evidence" / "thesis.tex").read_text() == "precious"


def test_a_private_folder_is_closed_to_others(tmp_path):
    with AtomicFiles() as files:
        files.stage(tmp_path / "q", private=True, folder=True)
    assert (tmp_path / "q").stat().st_mode & 0o077 == 0


def test_a_ledger_does_not_take_folders_for_files_of_a_release(tmp_path):
    temporary = tmp_path / ".a.csv.x.staged.part"
    temporary.write_text("1")
    waiting = Pending.of(tmp_path / "ledger", 0, "", {temporary: tmp_path / "a.csv"}, overwrite=True)
    assert all(file.is_ours for file in waiting.files)
    (tmp_path / "a.csv").mkdir()
    assert not any(file.is_ours for file in waiting.files)
