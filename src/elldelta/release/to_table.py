"""Use case: the records of an owner stay in a database, and the release becomes a table beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elldelta.engines.sources import format_of
from elldelta.files.atomic import AtomicFiles, check_writable
from elldelta.model.counting import count
from elldelta.release.certify import publishable
from elldelta.release.database_table import ReleaseTable, check_target, check_unread, database
from elldelta.release.release import check_paths, manifest_of
from elldelta.release.write import write_quarantine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from elldelta.choices import OnFailure
    from elldelta.engines.database_source import TableName
    from elldelta.engines.table import Engine, Progress
    from elldelta.plan.plan import Plan
    from elldelta.release.manifest import Manifest
    from elldelta.release.write import Order


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
