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


def write_parts(folder, *texts):
    for place, text in enumerate(texts):
        (folder / f"part-{place:05}.csv").write_text(text)


def test_a_folder_of_parts_appears_by_one_renaming(tmp_path):
    with AtomicFiles() as files:
        staged = files.stage(tmp_path / "r.csv", folder=True)
        write_parts(staged, "1", "2")
        files.stage(tmp_path / "r.json").write_text("{}")
        assert staged.parent == tmp_path
        assert not (tmp_path / "r.csv").exists()
    assert names(tmp_path) == ["r.csv", "r.json"]
    assert names(tmp_path / "r.csv") == ["part-00000.csv", "part-00001.csv"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_staged_folder_is_gone_after_an_error_with_whatever_is_in_it(tmp_path, problem):
    (tmp_path / "r.csv").mkdir()
    write_parts(tmp_path / "r.csv", "precious")

    def fail():
        with AtomicFiles(overwrite=True) as files:
            staged = files.stage(tmp_path / "r.csv", folder=True)
            (staged / "_temporary" / "0").mkdir(parents=True)
            write_parts(staged, "1")
            raise problem

    with pytest.raises(problem):
        fail()
    assert names(tmp_path) == ["r.csv"]
    assert (tmp_path / "r.csv" / "part-00000.csv").read_text() == "precious"


def test_a_folder_replaces_a_table_and_nothing_else(tmp_path):
    (tmp_path / "r.csv").mkdir()
    write_parts(tmp_path / "r.csv", "old", "old")
    (tmp_path / "r.csv" / "_SUCCESS").touch()
    with AtomicFiles() as files, pytest.raises(FileError, match="exists"):
        files.stage(tmp_path / "r.csv", folder=True)
    with AtomicFiles(overwrite=True) as files:
        write_parts(files.stage(tmp_path / "r.csv", folder=True), "new")
    assert names(tmp_path) == ["r.csv"]
    assert names(tmp_path / "r.csv") == ["part-00000.csv"]
    (tmp_path / "file.csv").write_text("old")
    with AtomicFiles(overwrite=True) as files:
        write_parts(files.stage(tmp_path / "file.csv", folder=True), "new")
    assert names(tmp_path / "file.csv") == ["part-00000.csv"]
    with AtomicFiles(overwrite=True) as files, pytest.raises(FileError, match="folder"):
        files.stage(tmp_path / "file.csv")
    (tmp_path / "r.csv" / "thesis.tex").write_text("precious")
    with AtomicFiles(overwrite=True) as files, pytest.raises(FileError, match="holds more"):
        files.stage(tmp_path / "r.csv", folder=True)
    assert (tmp_path / "r.csv" / "thesis.tex").read_text() == "precious"


def test_a_replaced_folder_comes_back_if_the_rest_cannot_be_placed(tmp_path, monkeypatch):
    (tmp_path / "r.csv").mkdir()
    write_parts(tmp_path / "r.csv", "old")
    replace = type(tmp_path).replace

    def fail_for_the_manifest(path, target):
        if target.name == "r.json":
            raise OSError(errno.EIO, "")
        return replace(path, target)

    monkeypatch.setattr(type(tmp_path), "replace", fail_for_the_manifest)

    def write():
        with AtomicFiles(overwrite=True) as files:
            write_parts(files.stage(tmp_path / "r.csv", folder=True), "new")
            files.stage(tmp_path / "r.json").write_text("{}")

    with pytest.raises(FileError, match="cannot be written"):
        write()
    assert names(tmp_path) == ["r.csv"]
    assert (tmp_path / "r.csv" / "part-00000.csv").read_text() == "old"


def test_a_private_folder_is_closed_to_others(tmp_path):
    with AtomicFiles() as files:
        write_parts(files.stage(tmp_path / "q.csv", private=True, folder=True), "1")
    assert (tmp_path / "q.csv").stat().st_mode & 0o077 == 0


def test_a_ledger_places_takes_back_and_discards_folders_like_files(tmp_path):
    def staged(name):
        temporary = tmp_path / f".{name}.x.part"
        temporary.mkdir()
        write_parts(temporary, "1")
        return Pending.of(tmp_path / "ledger", 0, "", {temporary: tmp_path / name}, overwrite=True)

    waiting = staged("a.csv")
    assert all(file.is_ours for file in waiting.files)
    assert waiting.place() == ()
    assert names(tmp_path) == ["a.csv"]
    assert waiting.place() == ()  # again, as after a crash
    with pytest.raises(FileError, match="exists"):  # a folder cannot be replaced by one renaming
        staged("a.csv")
    staged("b.csv").discard()
    assert names(tmp_path) == [".a.csv.x.part", "a.csv"]
    (tmp_path / "a.csv" / "thesis.tex").touch()
    assert not any(file.is_ours for file in waiting.files)
