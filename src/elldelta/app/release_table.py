"""Use case: the records of an owner stay in a database, and the release becomes a table beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elldelta.app.certify import publishable
from elldelta.app.release import check_paths, manifest_of
from elldelta.data.atomic import AtomicFiles, check_writable
from elldelta.data.counting import count
from elldelta.data.release import write_quarantine
from elldelta.data.release_table import ReleaseTable, check_target, check_unread, database
from elldelta.data.sources import format_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from elldelta.choices import OnFailure
    from elldelta.data.database_source import TableName
    from elldelta.data.manifest import Manifest
    from elldelta.data.plan_file import Plan
    from elldelta.data.release import Order
    from elldelta.data.table import Engine, Progress


def release_to_table(
    source: Any,  # noqa: ANN401 (a table by its name, a query, or a table in memory)
    plan: Plan,
    output: TableName,
    *,
    engine: Engine,
    quarantine: Path | None = None,
    on_failure: OnFailure | None = None,
    most_suppressed: float | None = None,
    order: Order = "sorted",
    overwrite: bool = False,
    read_only: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Manifest:
    """Applies a plan to records in a database and writes release and manifest there, in one transaction.

    Args:
        source: The records: a table by its name, a query, or a table in memory.
        plan: The plan.
        output: The table of the release; its manifest is in a table whose name ends in `_manifest`.
        engine: The database.
        quarantine: A file for records with a value outside its domain; without it such a table is refused.
        on_failure: What to do with classes that do not pass; see `elldelta.release`.
        most_suppressed: The largest share of records that may be left out for it.
        order: "sorted", or "any" for speed with kept columns.
        overwrite: Whether existing tables, and the file of the quarantine, may be replaced.
        read_only: Files that must not be written, such as the one the plan was read from.
        progress: Is told how far the work is.

    Raises:
        RefusedError: Too few records, or the table does not pass. Nothing is published.
    """
    active = database(engine, f"write the table {output}")
    target = check_target(active, output, overwrite=overwrite)
    if quarantine is not None:
        format_of(quarantine)
        check_paths((), read_only, [quarantine])
        check_writable(quarantine, overwrite=overwrite)
    table = active.open(source)
    check_unread(active, target)
    counted = count(
        table, plan.schema, unknown="refuse" if quarantine is None else "quarantine", progress=progress
    )
    checked = publishable(counted.counts, plan, on_failure=on_failure, most_suppressed=most_suppressed)
    with active.publication(f"the table {target}"):
        written = ReleaseTable(active, target)
        account = written.write(counted, checked.class_map, order=order, progress=progress)
        manifest = manifest_of(plan, checked, account)
        written.finish(manifest, overwrite=overwrite)
        # Its file comes to stand before the release does: no release without it.
        if quarantine is not None and account.accounting.n_quarantined:
            with AtomicFiles(overwrite=overwrite) as files:
                write_quarantine(counted, quarantine, files, progress=progress)
    return manifest
