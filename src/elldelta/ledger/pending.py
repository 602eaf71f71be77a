"""The pending file of a ledger: what a commit is about to do, so that a crash can be made good.

It lies beside the ledger from the moment all files of a release are on the disk under temporary names until
they have their final ones. With it the next process that opens the ledger can finish the commit, or undo it.

Files that are being written have names that anybody removes once their process has ended. So they are renamed
when the pending file tells of them, and not before: at no moment is there one that nobody would remove.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError, ParameterError
from elldelta.files import (
    STAGED,
    AtomicFiles,
    as_bytes,
    changed,
    check_writable,
    folders_to_disk,
    journaled_name,
    read_json,
    remove,
    seal,
    to_disk,
    unseal,
    unwritable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PENDING_VERSION = 1
"""Version of the pending file, which lives from a commit to its end."""

PENDING_KIND = "pending release"


@dataclass(frozen=True)
class StagedFile:
    """A file on its way from the name it was written under to its final name; the mark survives renaming."""

    staged: Path
    final: Path
    mark: tuple[int, int, int]

    @property
    def temporary(self) -> Path:
        """Its name in between, under which it waits for its line."""
        return journaled_name(self.staged)

    def is_at(self, path: Path) -> bool:
        """Whether the file has this name now."""
        try:
            return _mark(path) == self.mark
        except OSError:
            return False

    @property
    def is_ours(self) -> bool:
        """Whether the names are such as a release uses: a hidden part file beside its final name.

        A pending file that somebody else has put into a shared folder could otherwise name any file, and the
        next owner would move or remove it.
        """
        name = self.staged.name
        if self.staged.parent != self.final.parent or not (name.startswith(".") and name.endswith(STAGED)):
            return False
        for path in (self.staged, self.temporary, self.final):
            if path.is_symlink() or (path.exists() and not path.is_file()):
                return False
        return True


@dataclass(frozen=True)
class Pending:
    """The pending file: which line is about to be added, and which files of a release wait for it."""

    ledger: Path
    n_bytes: int
    hash: str
    files: tuple[StagedFile, ...]
    overwrite: bool

    @classmethod
    def of(
        cls, ledger: Path, n_bytes: int, line_hash: str, staged: Mapping[Path, Path], *, overwrite: bool
    ) -> Pending:
        """Brings temporary files to the disk and refuses final names that are in the way."""
        files = []
        for path, final in staged.items():
            check_writable(final, overwrite=overwrite)
            try:
                to_disk(Path(path))
                files.append(StagedFile(Path(path).absolute(), Path(final).absolute(), _mark(Path(path))))
            except OSError as problem:
                raise unwritable(final, problem) from None
        if len({file.final for file in files}) < len(files):
            raise ParameterError("Two files cannot have one name.")
        return cls(ledger, n_bytes, line_hash, tuple(files), overwrite)

    def begin(self) -> None:
        """Takes the files over: from now on nobody removes them but who opens the ledger."""
        try:
            replace(self, hash="").write()  # no line has this hash: a crash from here undoes
            for file in self.files:
                try:
                    file.staged.replace(file.temporary)
                except OSError as problem:
                    raise unwritable(file.final, problem) from None
            folders_to_disk(file.final.parent for file in self.files)
            self.write()
        except BaseException:
            self.undo()
            raise

    def write(self) -> None:
        """Puts the pending file beside the ledger, whole, and on the disk."""
        content: dict[str, Any] = {
            "n_bytes": self.n_bytes,
            "hash": self.hash,
            "overwrite": self.overwrite,
            "files": [[str(file.staged), str(file.final), *file.mark] for file in self.files],
        }
        with AtomicFiles(overwrite=True) as files:
            files.stage(pending_path(self.ledger)).write_bytes(
                as_bytes(seal(PENDING_KIND, PENDING_VERSION, content))
            )

    def place(self) -> tuple[Path, ...]:
        """Renames what is not yet renamed; may be repeated. Returns final names whose file is nowhere."""
        lost = []
        for file in self.files:
            if file.is_at(file.temporary):
                if not self.overwrite and file.final.exists():
                    raise FileError(
                        f"{file.final} exists already.",
                        found="It appeared while a release was about to get this name.",
                        remedy="Move it away, then open the ledger again: that completes the release.",
                    )
                try:
                    file.temporary.replace(file.final)
                except OSError as problem:
                    raise unwritable(file.final, problem) from None
            elif not file.is_at(file.final):
                lost.append(file.final)
        folders_to_disk(file.final.parent for file in self.files)
        return tuple(lost)

    def take_back(self) -> bool:
        """Gives files their temporary names back; False if that is impossible or the release was visible.

        The last file is the table: once it is in its place, the release counts as seen. A file that may
        have replaced an older one stays too, for the older one is gone.
        """
        placed = [file for file in self.files if file.is_at(file.final)]
        waiting = [file for file in self.files if file.is_at(file.temporary)]
        if len(placed) + len(waiting) < len(self.files) or not waiting or waiting[-1] != self.files[-1]:
            return False
        if placed and self.overwrite:
            return False
        try:
            for file in placed:
                file.final.replace(file.temporary)
        except OSError:
            return False
        return True

    def undo(self) -> None:
        """Removes the files of a release that was never published, and ends the commit."""
        for file in self.files:
            for path in (file.staged, file.temporary):
                if file.is_at(path):
                    remove(path)
        self.remove()

    @classmethod
    def read(cls, ledger: Path) -> Pending | None:
        """The pending file beside a ledger, or None."""
        target = pending_path(ledger)
        if not target.exists():
            return None
        source = f"The pending file {target}"
        content = unseal(PENDING_KIND, PENDING_VERSION, read_json(target, PENDING_KIND), source)
        try:
            files = tuple(
                StagedFile(Path(staged), Path(final), (int(one), int(two), int(three)))
                for staged, final, one, two, three in content["files"]
            )
            found = cls(ledger, content["n_bytes"], content["hash"], files, content["overwrite"])
        except (KeyError, TypeError, ValueError):
            raise changed(source) from None
        if not _is_trusted(target, ledger) or not all(file.is_ours for file in files):
            raise FileError(
                f"{source} was not written by a release.",
                found="It names files that no release would name, or belongs to somebody else.",
                remedy="Find out who put it there; remove it if no release was interrupted.",
            )
        return found

    def remove(self) -> None:
        """Ends the commit. If that fails the next opening finds everything done and ends it."""
        with contextlib.suppress(OSError):
            pending_path(self.ledger).unlink(missing_ok=True)
            folders_to_disk([self.ledger.parent])


def pending_path(ledger: str | os.PathLike[str]) -> Path:
    """Where the pending file of a ledger lies while a release is committed."""
    path = Path(ledger)
    return path.with_name(f".{path.name}.pending")


def _is_trusted(pending: Path, ledger: Path) -> bool:
    """Whether a pending file belongs to this user, or to whoever owns the ledger."""
    if not hasattr(os, "getuid"):
        return True
    owner = pending.lstat().st_uid
    return not pending.is_symlink() and owner in {os.getuid(), Path(ledger).stat().st_uid}


def _mark(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
