"""One process at a time: advisory locks on files."""

from __future__ import annotations

import time

from elldelta.errors import FileError


def lock(descriptor: int, source: str, *, exclusive: bool, timeout: float | None) -> None:
    """Locks an open file until it is closed; several processes may share a lock that is not exclusive.

    Args:
        descriptor: The open file.
        source: What it is, for messages.
        exclusive: Whether to write.
        timeout: Seconds to wait for others; None waits as long as it takes.

    Raises:
        FileError: Others hold it for longer, or the system cannot lock files for writing.
    """
    try:
        import fcntl
    except ImportError:
        if not exclusive:
            return
        raise FileError(
            "Ledgers need a system that can lock files.",
            found="This one has no flock (it is neither Linux nor macOS).",
            remedy="Keep the ledger on Linux or macOS, or publish with certificates alone.",
        ) from None
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    if timeout is None:
        fcntl.flock(descriptor, kind)
        return
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise FileError(
                    f"{source} is in use.",
                    found=f"Another process has held it for more than {timeout:g} seconds.",
                    remedy="Wait until its release is written, then try again.",
                ) from None
            time.sleep(0.02)
        else:
            return
