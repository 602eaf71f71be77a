"""Files that are read as a whole, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from elldelta.errors import FileError, ParameterError, counted
from elldelta.files.temporary import create, give_up, remove_left, staged_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

T = TypeVar("T")

MOST_BYTES, MOST_TEXT = 1 << 32, 1 << 26
"""The most bytes of a document, and of one that a person writes."""
_AT_ONCE = 1 << 20
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How addresses begin: s3://bucket/file; a path has only one of the slashes."""


class AtomicFiles:
    """Writes one or several files that appear together, when the block ends without an error.

    Every file is written under a temporary name in its own folder, brought to the disk and renamed at the
    end. After an error or Ctrl-C the temporary files are gone and what was there before is unchanged::

        with AtomicFiles(overwrite=False) as files:
            write_table(files.stage("release.parquet"))
            files.stage("release.json").write_text(manifest)

    Args:
        overwrite: Whether an existing file may be replaced; otherwise it is refused before writing begins.

    Attributes:
        place: Brings the files to their places instead, if it is set before the block ends: it is given the
            final name of every temporary file, in the order in which they were staged. For whoever has to do
            more in the same moment. What has the same temporary name afterwards is removed.
    """

    def __init__(self, *, overwrite: bool = False) -> None:
        self._overwrite = overwrite
        self.place: Callable[[Mapping[Path, Path]], object] | None = None
        self._staged: dict[Path, Path] = {}
        self._locks: list[int | None] = []
        self._made: list[Path] = []

    def make_folder(self, path: str | os.PathLike[str]) -> Path:
        """Makes a folder for files, and those above it, where they are missing; after an error they go."""
        folder = Path(path)
        missing = itertools.takewhile(lambda part: not part.exists(), (folder, *folder.parents))
        try:
            for part in reversed(list(missing)):
                self._made.append(part)  # before it is there: an interrupt after this still removes it
                part.mkdir(exist_ok=True)
            folder.mkdir(exist_ok=True)  # refuses a file of this name
        except OSError as problem:
            raise unwritable(folder, problem) from None
        return folder

    def stage(self, path: str | os.PathLike[str], *, private: bool = False, folder: bool = False) -> Path:
        """The temporary name under which to write a file; refuses where the file cannot come to stand.

        Args:
            path: Where the file is to stand.
            private: Whether only its owner may read it: for records that are not released.
            folder: Whether it is to be a new folder, to be filled before the block ends.
        """
        target = Path(path)
        if target in self._staged:
            raise ParameterError("Two files cannot have one name.", found=f"{target} is to be written twice.")
        check_writable(target, overwrite=self._overwrite, folder=folder)
        if all(other.parent != target.parent for other in self._staged):
            remove_left(target.parent)
        temporary = target.with_name(staged_name(target.name))
        self._staged[target] = temporary  # before it is there: an interrupt after this still removes it
        try:
            mode = (0o777 if folder else 0o666) & (0o700 if private else 0o777)
            self._locks.append(create(temporary, mode, folder=folder))
        except OSError as problem:
            del self._staged[target]
            raise unwritable(target, problem) from None
        return temporary

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
                self._made.clear()
        finally:
            for temporary in self._staged.values():
                remove(temporary)
            for descriptor in self._locks:
                give_up(descriptor)
            for folder in reversed(self._made):
                with contextlib.suppress(OSError):  # somebody else may use it by now
                    folder.rmdir()
        if isinstance(problem, OSError) and self._staged:
            raise unwritable(next(iter(self._staged)), problem) from None
        if isinstance(problem, FileError):
            self._rename_in(problem)

    def _rename_in(self, problem: FileError) -> None:
        """Raises the problem again with the name that the user asked for, if it tells a temporary one."""
        for target, temporary in self._staged.items():
            if str(temporary) in problem.problem:
                words = problem.problem.replace(str(temporary), str(target))
                raise FileError(words, found=problem.found, remedy=problem.remedy) from None

    def _commit(self) -> None:
        if self.place is not None:
            self.place({temporary: target for target, temporary in self._staged.items()})
            return
        placed: list[Path] = []
        try:
            for target, temporary in self._staged.items():
                to_disk(temporary)
                check_writable(target, overwrite=self._overwrite, folder=temporary.is_dir())
            for target, temporary in self._staged.items():
                existed = target.exists()
                temporary.replace(target)
                if not existed:
                    placed.append(target)
            folders_to_disk(target.parent for target in self._staged)
        except BaseException as problem:
            for target in placed:
                remove(target)
            if isinstance(problem, OSError):
                raise unwritable(next(iter(self._staged)), problem) from None
            raise


def read_bytes(path: str | os.PathLike[str], kind: str, most: int = MOST_BYTES) -> bytes:
    """The content of a file.

    Args:
        path: The file.
        kind: What it is, for messages: "plan".
        most: The most bytes that such a file can have.

    Raises:
        FileError: It is not there, cannot be read, or is larger.
    """
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"A {kind} is read from a file.", found=f"It is of type {type(path).__name__}.")
    try:
        with Path(path).open("rb") as file:
            return read_whole(file, path, kind, most)
    except OSError as problem:
        raise unreadable(path, kind, problem) from None


def read_whole(file: IO[bytes], path: str | os.PathLike[str], kind: str, most: int = MOST_BYTES) -> bytes:
    """The content of an open file; see `read_bytes`."""
    about = os.fstat(file.fileno())
    is_device = stat.S_ISCHR(about.st_mode)
    content = b""
    if stat.S_ISREG(about.st_mode) and about.st_size <= most:
        content = file.read()
    elif not is_device:  # a pipe may never end
        content = b"".join(
            itertools.takewhile(bool, (file.read(_AT_ONCE) for _ in range(most // _AT_ONCE + 1)))
        )
    if is_device or max(len(content), about.st_size) > most:
        raise FileError(
            f"The {kind} {os.fspath(path)} cannot be read.",
            found="It is a device." if is_device else f"It is larger than {counted(most, 'byte')}.",
            remedy=f"Give a {kind} that is a file; none that elldelta has written is so large.",
        )
    return content


def read_text(path: str | os.PathLike[str], kind: str, *, remedy: str) -> str:
    """The text of a file in UTF-8; the mark that some editors put before it is left out.

    Args:
        path: The file.
        kind: What it is, for messages: "schema".
        remedy: What to give instead of something that is no text.

    Raises:
        FileError: It is not there, cannot be read, or is no text.
    """
    try:
        return read_bytes(path, kind, MOST_TEXT).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(
            f"The {kind} {os.fspath(path)} cannot be read as text.",
            found="It is not written in UTF-8.",
            remedy=remedy,
        ) from None


def unreadable(path: str | os.PathLike[str], kind: str, problem: OSError) -> FileError:
    """The error for a file that is not there, or that the system does not let us read."""
    if isinstance(problem, FileNotFoundError):
        return FileError(
            f"There is no {kind} {os.fspath(path)}.",
            found="The file does not exist.",
            remedy="Check its name.",
        )
    return FileError(
        f"The {kind} {os.fspath(path)} cannot be read.",
        found=f"The system says: {os.strerror(problem.errno or errno.EIO)}.",
        remedy="Ask for permission to read it."
        if isinstance(problem, PermissionError)
        else "Check that it is a file, and that its disk is there.",
    )


def no_file(path: str | os.PathLike[str]) -> FileError:
    """The error for a file that is not there, or not on this machine."""
    address = _ADDRESS.match(os.fspath(path))
    if address is None:
        return FileError(
            f"There is no file {os.fspath(path)}.", found="It does not exist.", remedy="Check its name."
        )
    return FileError(
        "This is an address, and files are read and written on this machine.",
        found=f"It begins with {address[1]}:.",
        remedy="Copy the file, or mount what holds it. Spark reads addresses, and Python takes tables that "
        "others have read.",
        parameter="engine",
    )


def loaded(given: object, kind: type[T], read: Callable[[Any], T], name: str = "") -> T:
    """The object that a caller gave, or what the file at its path holds.

    Args:
        given: An object of the kind, or the path of its file.
        kind: The type that is needed.
        read: Reads it from a path.
        name: What people call it, if not as its type.
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str | os.PathLike):
        return read(given)
    name = name or kind.__name__
    raise ParameterError(
        f"A {name.lower()} is given as a {name}, or as the path of its file.",
        found=f"It is of type {type(given).__name__}.",
    )


def check_writable(path: str | os.PathLike[str], *, overwrite: bool, folder: bool = False) -> None:
    """Refuses an output that is in the way or has no folder, so that nobody waits for a long run in vain.

    Args:
        path: The output.
        overwrite: Whether it may replace what is there.
        folder: Whether it is a folder, which replaces nothing.
    """
    target = Path(path)
    if not target.parent.is_dir():
        if _ADDRESS.match(os.fspath(path)):
            raise no_file(path)
        raise FileError(
            f"The folder of {target} does not exist.",
            found=f"There is no folder {target.parent}.",
            remedy="Create it, or choose another output.",
        )
    if target.is_dir() and not folder:
        raise FileError(f"{target} cannot be written.", found="It is a folder.", remedy="Name a file.")
    if target.exists() and folder:
        raise FileError(
            f"{target} exists already.",
            found="A folder is written as a whole, and replaces nothing.",
            remedy="Choose another name, or remove it first.",
        )
    if target.exists() and not overwrite:
        raise FileError(
            f"{target} exists already.",
            found="It would be overwritten.",
            remedy="Choose another name, or allow to replace it.",
            parameter="overwrite",
        )


def unwritable(path: str | os.PathLike[str], problem: OSError) -> FileError:
    """An error for a file that cannot be written, told by the system's error number."""
    if problem.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return FileError(
            f"There is no room for {os.fspath(path)}.",
            found="The disk is full, or a limit on the size of files was reached.",
            remedy="Make room, or choose another output.",
        )
    reason = os.strerror(problem.errno) if problem.errno else "the system gave no reason"
    return FileError(
        f"{os.fspath(path)} cannot be written.",
        found=f"The system says: {reason}.",
        remedy="Check the folder and its permissions, or choose another output.",
    )


def to_disk(path: Path) -> None:
    """Brings a file, or a folder with its files, to the disk."""
    if not path.is_dir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        return
    for part in path.iterdir():
        to_disk(part)
    folders_to_disk([path])


def remove(path: Path) -> None:
    """Removes a file or a folder of ours, if it is there; what cannot be removed stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def folders_to_disk(folders: Iterable[Path]) -> None:
    """Brings renamings to the disk."""
    for folder in set(folders):
        # Not every file system can synchronise a folder; the rename has happened all the same.
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
