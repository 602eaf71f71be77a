"""Temporary files and folders that need no cleaning: making one removes what killed processes left beside it.

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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TEMPORARY = re.compile(r"[.].+[.][0-9a-f]{16}[.]staged[.]part|elldelta-[0-9a-f]{16}[.]engine")
"""Names that we give to what we lock, and nobody else gives to anything."""

STAGED = ".staged.part"
"""The end of the names of files that are not whole yet."""


def staged_name(name: str) -> str:
    """A hidden name for a file that is not whole yet."""
    return f".{name[:80]}.{secrets.token_hex(8)}{STAGED}"


def journaled_name(path: Path) -> Path:
    """The name that such a file gets once a journal tells what becomes of it: nobody else removes it."""
    return path.with_name(path.name.removesuffix(STAGED) + ".part")


def engine_name() -> str:
    """A name for the folder of an engine."""
    return f"elldelta-{secrets.token_hex(8)}.engine"


def create(path: Path, mode: int, *, folder: bool) -> int | None:
    """Makes and locks something temporary.

    Returns:
        What ends the lock when it is given up; None where nothing locks.
    """
    while True:
        if folder:
            path.mkdir(mode)
        else:
            path.touch(mode, exist_ok=False)
        descriptor = _locked(path, wait=True)
        if path.exists():
            return descriptor
        give_up(descriptor)  # another process has removed it, before it was locked


def give_up(descriptor: int | None) -> None:
    """Ends a lock."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def remove_left(folder: Path) -> None:
    """Removes what killed processes have left in a folder: our names, this user's, locked by no process."""
    try:
        found = sorted(folder.iterdir())
    except OSError:  # one may write into some folders and not list them
        return
    for path in found:
        if not _TEMPORARY.fullmatch(path.name) or not _belongs_to_user(path):
            continue
        descriptor = _locked(path, wait=False)
        if descriptor is None:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        give_up(descriptor)


def _locked(path: Path, *, wait: bool) -> int | None:
    try:
        import fcntl

        # Somebody else may have put a pipe or a link under the name: neither is waited for nor followed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _belongs_to_user(path: Path) -> bool:
    """Whether something is a file or a folder of this user, as we make them; no link, no pipe."""
    try:
        found = path.lstat()
    except OSError:
        return False
    is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return is_plain and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
