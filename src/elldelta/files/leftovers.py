"""What killed processes leave behind: files under temporary names, folders of engines; and how it is cleaned.

Whoever makes something temporary locks it for as long as it is in use. The system gives such a lock up when a
process ends, however it ends. So what has one of our names and no lock belongs to nobody any more.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from elldelta.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEFTOVER = re.compile(r"[.].+[.][0-9a-f]{16}[.]staged[.]part|elldelta-[0-9a-f]{16}[.]engine")
"""Names that this version gives to what it locks, and nobody else gives to anything."""

_STAGED = ".staged.part"


def staged_name(name: str) -> str:
    """A hidden name for a file that is not whole yet; it is cleaned once nobody holds it."""
    return f".{name[:80]}.{secrets.token_hex(8)}{_STAGED}"


def journaled_name(path: Path) -> Path:
    """The name of such a file from when a journal says how its writing is completed: it is never cleaned."""
    return path.with_name(path.name.removesuffix(_STAGED) + ".part")


def engine_name() -> str:
    """A name for the folder of an engine."""
    return f"elldelta-{secrets.token_hex(8)}.engine"


def claim(path: Path) -> int | None:
    """Locks a file or folder of ours; whoever made it closes the descriptor. None where nothing locks."""
    try:
        import fcntl

        # Somebody else may have put a pipe or a link under the name: neither is waited for nor followed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def give_up(descriptor: int | None) -> None:
    """Ends a claim."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)


@contextmanager
def hidden_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder inside another, for as long as its block lasts."""
    work = folder / staged_name("elldelta")
    descriptor = None
    try:
        work.mkdir(0o700)
        descriptor = claim(work)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        give_up(descriptor)


def clean(folders: list[Path]) -> tuple[list[Path], list[Path]]:
    """Removes what killed processes have left in some folders, and folders of engines in the system's place.

    Only names that nobody else uses are looked at, and only what this user owns and no process has locked is
    removed. Files whose writing a ledger will complete are not touched.

    Returns:
        What was removed, and what is still in use.
    """
    removed, used = [], []
    for folder in [*folders, Path(tempfile.gettempdir())]:
        if not folder.is_dir():
            raise FileError(
                f"There is no folder {folder}.", found="It does not exist.", remedy="Check its name."
            )
        for path in sorted(folder.iterdir()):
            if not _LEFTOVER.fullmatch(path.name) or not _is_own(path):
                continue
            descriptor = claim(path)
            if descriptor is None:
                used.append(path)
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            give_up(descriptor)
            removed.append(path)
    return removed, used


def _is_own(path: Path) -> bool:
    """Whether something is a file or a folder of this user, as we make them; no link, no pipe."""
    try:
        found = path.lstat()
    except OSError:
        return False
    is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return is_plain and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
