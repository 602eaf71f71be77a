"""What anybody can check again about a release: by itself, against its plan, and against its ledger."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError
from elldelta.ledger.admission import check_line
from elldelta.ledger.ledger import verify_ledger
from elldelta.plan.signature import given_plan
from elldelta.release import open_published, verify_published

if TYPE_CHECKING:
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.plan.plan import Plan
    from elldelta.release import Published, Verification


def verify(
    item: Any,  # noqa: ANN401 (a file or a Release)
    plan: Plan | str | os.PathLike[str] | None = None,
    *,
    ledger: str | os.PathLike[str] | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Re-checks a release as an outsider would: content against manifest, manifest against plan, diversity.

    With a certified plan the certificate itself is checked again, from the published table.

    Args:
        item: The file of a release, with its manifest beside it, or a `Release`.
        plan: The plan that it claims to follow.
        ledger: The ledger that its manifest names: it must hold its line, and what the line says must be so.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Raises:
        FileError: The manifest is missing; release, manifest and plan do not belong together; or the ledger
            has not admitted the release.
        RefusedError: A class shows fewer values than were promised, or the certificate does not hold.
    """
    known = None if plan is None else given_plan(plan, to_use=False)[0]
    published = open_published(item, csv_format=csv_format, engine=engine, progress=progress)
    found = verify_published(published, known)
    if ledger is not None:
        _check_line(published, known, ledger)
    return replace(found, is_line_checked=ledger is not None)


def _check_line(published: Published, plan: Plan | None, ledger: str | os.PathLike[str]) -> None:
    """Refuses a release whose line the ledger does not hold, or that the line is not about."""
    line, source = published.manifest.ledger, f"The ledger {os.fspath(ledger)}"
    if line is None:
        raise FileError(
            f"The release {published.name} was not admitted by a ledger.",
            found="Its manifest names no line.",
            remedy="Verify it without a ledger, and link it only as its plan allows without one.",
            parameter="ledger",
        )
    chain = verify_ledger(
        ledger,
        plan_digest=published.manifest.plan_digest,
        promises=None if plan is None else plan.promises,
    )
    check_line(chain, published, line["hash"], line["owner"], plan, source)
