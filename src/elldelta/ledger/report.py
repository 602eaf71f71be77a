"""Reading a ledger: what it promises, how much room is left, and whether the chain is intact."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elldelta.errors import FileError
from elldelta.ledger.chain import (
    LedgerChain,
    LedgerHeader,
    check_plan,
    check_state,
    damaged,
    other_plan,
    parse_chain,
)
from elldelta.ledger.lock import lock
from elldelta.ledger.pending import pending_path

if TYPE_CHECKING:
    from elldelta.core.certificate import CertificateTerms


@dataclass(frozen=True, eq=False)
class LedgerReport:
    """What a ledger says: the chain, and whether a commit was interrupted."""

    chain: LedgerChain
    is_pending: bool

    @property
    def n_releases(self) -> int:
        """Releases that count."""
        return len(self.chain.active)

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners of these releases, sorted."""
        return tuple(sorted({entry.owner for entry in self.chain.active}))

    @property
    def promise(self) -> str:
        """What the ledger promises, in words."""
        header = self.chain.header
        each = f", with at least {header.min_records} linked records each" if header.min_records > 1 else ""
        return (
            f"Any of the {self.n_releases} releases in this ledger, linked in any way, leave everybody who "
            f"is in all of them among at least {header.ell} sensitive values{each}."
        )


def verify_ledger(
    path: str | os.PathLike[str],
    *,
    plan_digest: str | None = None,
    terms: CertificateTerms | None = None,
    head: str | None = None,
    timeout: float | None = None,
) -> LedgerReport:
    """Reads a ledger and checks everything that can be checked; changes nothing.

    Args:
        path: The ledger.
        plan_digest: The plan it must be about.
        terms: The plan's witnesses: misses that are no witnesses are then noticed too.
        head: The hash of a line that must be there, for instance the one that a release keeps: shows whether
            lines were cut off at the end, or the release was taken back.
        timeout: Seconds to wait for a process that is publishing; None waits as long as it takes.

    Raises:
        FileError: The file cannot be read, the chain is broken, or it is about another plan.
    """
    source = f"The ledger {os.fspath(path)}"
    try:
        with Path(path).open("rb") as file:
            lock(file.fileno(), source, exclusive=False, timeout=timeout)
            is_pending = pending_path(path).exists()
            chain = parse_chain(file.read(), source)
    except FileNotFoundError:
        raise FileError(
            f"There is no ledger {os.fspath(path)}.",
            found="The file does not exist.",
            remedy="Check its name.",
        ) from None
    except OSError as problem:
        raise FileError(f"{source} cannot be read.", found=f"The system says: {problem.strerror}.") from None
    if chain.tail and not is_pending:
        raise damaged(source, chain.n_lines + 1)
    if plan_digest is not None and terms is not None:
        check_plan(chain, LedgerHeader.of(plan_digest, terms), source)
        check_state(chain, terms, source)
    elif plan_digest is not None and chain.header.plan_digest != plan_digest:
        raise other_plan(source)
    if head is not None and head in {entry.hash for entry in chain.entries if entry.sequence in chain.voided}:
        raise FileError(
            f"{source} does not count a release that it must count.",
            found="A later line takes it back, as if nobody had ever seen it, and makes room for others.",
            remedy="Whoever holds the release shows that it was published: restore the ledger from a copy.",
        )
    if head is not None and head not in {chain.head, *(entry.hash for entry in chain.entries)}:
        raise FileError(
            f"{source} does not hold a line that it must hold.",
            found=f"None of its {len(chain.entries)} releases has the given hash.",
            remedy="Lines were cut off at the end, or it is another ledger: restore it from a copy.",
        )
    return LedgerReport(chain, is_pending)
