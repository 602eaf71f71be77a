"""The ledger file: admits releases as long as every subset of them links to at least ell values (Theorem F).

One release is one transaction, under an exclusive lock:

1. `OpenLedger.open` locks the file, checks the chain, and finishes or undoes what a crash has left behind;
2. `OpenLedger.check` decides whether the release is admitted, without changing anything;
3. the caller writes the release files under temporary names;
4. `OpenLedger.commit` brings them to the disk, writes down in a *pending* file beside the ledger which
   temporary file is to become which, appends the line, and renames the files.

The line on the disk is the moment at which the release exists. A crash before it leaves a pending file and no
line (or part of one): the next `open` removes the part and the temporary files. A crash after it leaves a
pending file and the line: the next `open` renames what is not yet renamed. Nothing else is ever repaired: a
last line that is not intact without a pending file that announced it is damage, and refused.

A line is never dropped because files are missing. Somebody may have moved a release that was published;
counting a release that nobody saw costs room, forgetting one that somebody saw costs the promise.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from elldelta.errors import ElldeltaError, FileError, InternalError, RefusedError, counted
from elldelta.files import (
    AtomicFiles,
    folders_to_disk,
    read_whole,
    remove_left,
    to_disk,
    unreadable,
    unwritable,
)
from elldelta.ledger.admission import Admission, ReadLedger, check_owner
from elldelta.ledger.chain import (
    LedgerChain,
    check_plan,
    counted_line,
    damaged,
    first_line,
    other_plan,
    parse_chain,
)
from elldelta.ledger.lines import LedgerEntry, LedgerHeader
from elldelta.ledger.pending import Pending, pending_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elldelta.core.promises import Promise
    from elldelta.plan.plan import Plan


Recovery = Literal["completed", "undone", "incomplete"]
"""What opening a ledger did about a commit that was interrupted: the release and its line are both there; or
neither is; or the line stands, but files that it announced were found under neither of their names: they may
have been published and moved, so the line keeps counting."""


class OpenLedger(ReadLedger):
    """A ledger that this process holds the lock of; use it as a context manager.

    ::

        with OpenLedger.open("releases.ledger", plan.digest, plan.promises) as ledger:
            verdict = certify(plan.promises, Shown.of(counts))
            admission = ledger.check(verdict, owner=owner, content_digest=...)
            ...                                                       # write the files, temporary names
            ledger.commit(admission, {temporary: final, ...})

    Attributes:
        path: The file.
        recovered: What opening did about an interrupted commit, or None.
    """

    def __init__(self, path: Path, promises: Sequence[Promise], descriptor: int) -> None:
        self.path = path
        self.promises = promises
        self.recovered: Recovery | None = None
        self._descriptor = descriptor
        self._source = f"The ledger {path}"

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        plan_digest: str,
        promises: Sequence[Promise],
        *,
        timeout: float | None = None,
    ) -> Self:
        """Opens a ledger, or begins one, and locks it; finishes or undoes an interrupted commit.

        Args:
            path: The file; it is made if it does not exist.
            plan_digest: The plan. One ledger is about one plan.
            promises: What the plan promises.
            timeout: Seconds to wait for another process that holds the ledger; None waits as long as
                it takes.

        Raises:
            FileError: It is no ledger, has been changed, is about another plan, or stays locked.
        """
        target = Path(path)
        header = LedgerHeader.of(plan_digest, promises)
        source = f"The ledger {target}"
        remove_left(target.parent)
        if not target.exists():
            _create(target, header)
        while True:
            try:
                descriptor = os.open(target, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            except OSError as problem:
                raise unwritable(target, problem) from None
            try:
                _lock(descriptor, source, exclusive=True, timeout=timeout)
                # Whoever replaces the file while we wait leaves us with a lock on nothing.
                if target.exists() and os.path.samestat(os.fstat(descriptor), target.stat()):
                    ledger = cls(target, promises, descriptor)
                    ledger._begin(plan_digest)
                    return ledger
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def close(self) -> None:
        """Gives the lock back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def commit(
        self,
        admission: Admission,
        staged: Mapping[Path, Path],
        *,
        overwrite: bool = False,
    ) -> LedgerEntry:
        """Adds the line of a release and lets its files appear: both, or neither.

        Args:
            admission: What `check` returned since the ledger was opened or last committed to.
            staged: The final name of every temporary file. They are renamed in this order: the table goes
                last, so that an undone release was never visible.
            overwrite: Whether final names may exist.

        Returns:
            The line; its hash is worth keeping beside the release.

        Raises:
            FileError: A file cannot be brought to its place; nothing was published, and the line is gone.
        """
        if self._descriptor < 0:
            raise InternalError("The ledger is closed.")
        if admission.is_new and admission.previous != self.chain.head:
            raise InternalError("The ledger has changed since the release was checked.")
        pending = Pending.of(self.path, self.chain.n_bytes, admission.entry.hash, staged, overwrite=overwrite)
        pending.begin()
        if admission.is_new:
            try:
                self._append(admission.line)
                self.chain = self.chain.followed_by(admission.entry, len(admission.line))
            except ElldeltaError:
                self._cut(pending.n_bytes)
                pending.undo()
                raise
            except BaseException:
                # Interrupted: the line is whole or it is not, and the chain tells which.
                self._load()
                if self.chain.head == admission.entry.hash:
                    pending.place()
                    pending.remove()
                else:
                    pending.undo()
                raise
        try:
            pending.place()
        except FileError as problem:
            raise self._taken_back(admission, pending, problem) from None
        except BaseException:
            pending.place()
            pending.remove()
            raise
        pending.remove()
        return admission.entry

    def _taken_back(self, admission: Admission, pending: Pending, error: FileError) -> FileError:
        """Takes back a release whose files cannot get their names, and returns the error to raise."""
        if not pending.take_back():
            return FileError(
                "The release is in the ledger, but not all of its files have their names yet.",
                found=error.problem,
                remedy="Make room for them, then open the ledger again: that completes the release.",
            )
        if admission.is_new:
            self._cut(pending.n_bytes)  # whoever reads has waited for the lock, so nobody has seen the line
        pending.undo()
        return error

    def _begin(self, plan_digest: str) -> None:
        self._load(judge_tail=False)
        pending = Pending.read(self.path)
        is_torn = bool(self.chain.tail)
        if is_torn and (pending is None or pending.n_bytes > self.chain.n_bytes):
            raise damaged(self._source, self.chain.n_lines + 1)
        self._computed = self.chain, check_plan(self.chain, plan_digest, self.promises, self._source)
        if is_torn or not self.chain.ends_in_newline:
            self._repair()
        if pending is None:
            return
        if any(pending.hash == entry.hash for entry in self.chain.active):
            self.recovered = "incomplete" if pending.place() else "completed"
            pending.remove()
        else:
            pending.undo()
            self.recovered = "undone"

    def _load(self, *, judge_tail: bool = True) -> None:
        try:
            size = os.fstat(self._descriptor).st_size
            content = os.pread(self._descriptor, size, 0)
            while len(content) < size and (more := os.pread(self._descriptor, size, len(content))):
                content += more
        except OSError as problem:
            raise unreadable(self.path, "ledger", problem) from None
        self.chain = parse_chain(content, self._source)
        if self.chain.sealed:
            raise RefusedError(
                f"{self._source} holds lines that are not shown.",
                found=f"{counted(len(self.chain.sealed), 'line is', 'lines are')} sealed: it is a "
                "copy that an agency has handed "
                "out, and what they miss cannot be checked here.",
                remedy="Publish through the agency, which has all lines.",
            )
        if judge_tail and self.chain.tail:
            self._repair()

    def _repair(self) -> None:
        """Cuts off a line that was never finished, and gives the last whole one its newline."""
        try:
            os.ftruncate(self._descriptor, self.chain.n_bytes)
            if not self.chain.ends_in_newline:
                _write_all(self._descriptor, b"\n", self.chain.n_bytes)
            os.fsync(self._descriptor)
        except OSError as problem:
            raise unwritable(self.path, problem) from None
        self._load(judge_tail=False)

    def _cut(self, n_bytes: int) -> None:
        """Takes a line off again that could not be brought to the disk."""
        try:
            os.ftruncate(self._descriptor, n_bytes)
            os.fsync(self._descriptor)
        except OSError as problem:
            raise unwritable(self.path, problem) from None
        self._load()

    def _append(self, line: bytes) -> None:
        try:
            _write_all(self._descriptor, line, self.chain.n_bytes)
            os.fsync(self._descriptor)
        except OSError as problem:
            raise unwritable(self.path, problem) from None


@dataclass(frozen=True)
class Ledger:
    """A ledger and the owner who publishes through it: what a release is given so that it is admitted.

    Attributes:
        path: The file; it is begun with the first release.
        owner: The name under which the ledger knows the owner.
        is_copy: It is a copy of the ledger of an agency, as `elldelta remote ledger` fetches it: the release
            is made to fit it, so that it can be registered there, and nothing is written to the copy.
    """

    path: Path
    owner: str
    is_copy: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        check_owner(self.owner)

    @property
    def files(self) -> tuple[Path, ...]:
        """What it writes: the ledger, and beside it what an interrupted commit has left."""
        return () if self.is_copy else (self.path, pending_path(self.path))

    def open(self, plan: Plan) -> ReadLedger:
        """Locks the ledger for a release of a plan (`OpenLedger.open`), or reads the copy."""
        if self.is_copy:
            chain = verify_ledger(self.path, plan_digest=plan.digest, promises=plan.promises)
            return ReadLedger(plan.promises, chain)
        return OpenLedger.open(self.path, plan.digest, plan.promises)


def verify_ledger(
    path: str | os.PathLike[str],
    *,
    plan_digest: str | None = None,
    promises: Sequence[Promise] | None = None,
    head: str | None = None,
    timeout: float | None = None,
) -> LedgerChain:
    """Reads a ledger and checks everything that can be checked; changes nothing.

    Args:
        path: The ledger.
        plan_digest: The plan it must be about.
        promises: Those of the plan: misses that are no witnesses are then noticed too.
        head: The hash of a line that must be there, for instance the one that a release keeps: shows whether
            lines were cut off at the end, or the release was taken back.
        timeout: Seconds to wait for a process that is publishing; None waits as long as it takes.

    Raises:
        FileError: The file cannot be read, the chain is broken, or it is about another plan.
    """
    source = f"The ledger {os.fspath(path)}"
    try:
        with Path(path).open("rb") as file:
            _lock(file.fileno(), source, exclusive=False, timeout=timeout)
            is_pending = pending_path(path).exists()
            chain = replace(parse_chain(read_whole(file, path, "ledger"), source), is_pending=is_pending)
    except OSError as problem:
        raise unreadable(path, "ledger", problem) from None
    if chain.tail and not chain.is_pending:
        raise damaged(source, chain.n_lines + 1)
    if plan_digest is not None and promises is not None:
        check_plan(chain, plan_digest, promises, source)
    elif plan_digest is not None and chain.header.plan_digest != plan_digest:
        raise other_plan(source)
    if head is not None and head != chain.head:
        counted_line(chain, head, source)
    return chain


def _create(path: Path, header: LedgerHeader) -> None:
    """Begins a ledger; of several processes that do so at the same time one succeeds, the others go on."""

    def link(staged: Mapping[Path, Path]) -> None:
        [temporary] = staged
        try:
            to_disk(temporary)
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
        except OSError as problem:
            raise unwritable(path, problem) from None
        folders_to_disk([path.parent])

    with AtomicFiles(overwrite=True) as files:
        files.stage(path).write_bytes(first_line(header))
        files.place = link


def _write_all(descriptor: int, content: bytes, offset: int) -> None:
    while content:
        n_written = os.pwrite(descriptor, content, offset)
        content, offset = content[n_written:], offset + n_written


def _lock(descriptor: int, source: str, *, exclusive: bool, timeout: float | None) -> None:
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
