"""Killed before any of its steps, a release leaves nothing that the next run does not remove or complete."""

import itertools
import multiprocessing
import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from elldelta.core.certificate import certify
from elldelta.core.promises import Shown, Values
from elldelta.errors import FileError
from elldelta.files import AtomicFiles
from elldelta.ledger.ledger import OpenLedger, verify_ledger
from elldelta.ledger.pending import pending_path

PLAN = "sha256:" + "1" * 64
PROMISES = (Values.of([[0, 1, 2, 3], [1, 2, 3, 4]], 5, ell=2, releases=2),)
SHOWN = Shown.of(np.ones((2, 5), dtype=np.int64))
STEPS = {"open", "os.rename", "os.remove", "os.link"}


def release(folder, name):
    """Two files in two folders, as a release and its quarantine, and a line."""
    with OpenLedger.open(folder / "ledger", PLAN, PROMISES) as ledger:
        admission = ledger.check(
            certify(PROMISES, SHOWN), owner=name, content_digest="sha256:" + f"{ord(name):064d}"
        )
        with AtomicFiles(overwrite=True) as files:
            files.stage(folder / "private" / f"{name}.csv", private=True).write_text("rows about persons")
            files.stage(folder / f"{name}.csv").write_text("rows")
            files.place = partial(ledger.commit, admission, overwrite=True)


def killed_before(step, folder, name):
    """Ends the process before one of the steps in which it touches files of the folder."""
    steps = itertools.count()

    def hook(event, arguments):
        if event in STEPS and str(folder) in str(arguments[0]) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    release(folder, name)


@pytest.mark.parametrize("is_again", [False, True], ids=["new", "again"])
def test_what_a_killed_release_leaves_is_gone_after_the_next(tmp_path, is_again):
    context = multiprocessing.get_context("fork")
    left, outcomes = [], set()
    for step in itertools.count():
        folder = tmp_path / str(step)
        (folder / "private").mkdir(parents=True)
        if is_again:
            release(folder, "a")
            (folder / "a.csv").unlink()
        process = context.Process(target=killed_before, args=(step, folder, "a"))
        process.start()
        process.join()
        if not process.exitcode:
            break
        assert process.exitcode == -signal.SIGKILL
        release(folder, "b")  # the next run
        files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        left += [name for name in files if "part" in name or "pending" in name]
        owners = verify_ledger(folder / "ledger").owners
        assert (owners == ("a", "b")) == ("private/a.csv" in files)
        assert is_again or ("a.csv" in files) == ("private/a.csv" in files)
        outcomes.add("a.csv" in files)
    assert step > 15
    assert outcomes == {False, True}
    assert not left, f"{len(left)} after {step} kills"
    assert not pending_path(folder / "ledger").exists()


def test_a_release_whose_files_cannot_get_their_names_is_completed_by_the_next(tmp_path, monkeypatch):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.csv").write_text("the old one, which is gone once it is replaced")
    replace = Path.replace

    def broken(path, target):
        if Path(target) == tmp_path / "a.csv":
            raise OSError(5, "broken")
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", broken)
        with pytest.raises(FileError, match="not all of its files"):
            release(tmp_path, "a")
    release(tmp_path, "b")
    assert verify_ledger(tmp_path / "ledger").owners == ("a", "b")
    assert (tmp_path / "a.csv").read_text() == "rows"
    assert not list(tmp_path.rglob(".*"))
