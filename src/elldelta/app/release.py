"""Use case: an owner applies a plan to its own records. Everything is checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta._version import __version__
from elldelta.app.engine import running
from elldelta.core.diversity import class_diversities
from elldelta.data.atomic import AtomicFiles, check_writable
from elldelta.data.class_map import ClassMap
from elldelta.data.counting import count
from elldelta.data.json_file import as_bytes
from elldelta.data.manifest import Manifest, content_digest, manifest_path
from elldelta.data.release import release_frame, write_quarantine, write_release
from elldelta.data.sources import format_of
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.data.counting import CountedTable, UnknownPolicy
    from elldelta.data.csv_format import CsvFormat
    from elldelta.data.plan_file import Plan
    from elldelta.data.release import Order, ReleaseAccount
    from elldelta.data.table import Engine, Progress


@dataclass(frozen=True, eq=False)
class Release:
    """A release in memory: the table, of the kind that was given, and its manifest."""

    table: Any
    manifest: Manifest


def release(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    plan: Plan,
    *,
    unknown: UnknownPolicy = "refuse",
    order: Order = "sorted",
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Applies a plan to an owner's records and returns the release in memory.

    Args:
        source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
        plan: The plan.
        unknown: What to do with a record that has a value outside its domain: "refuse" the table, or leave
            the record out and count it ("quarantine").
        order: "sorted", or "any" for speed with kept columns.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Raises:
        RefusedError: Too few records, or a class with too few values. Nothing is published.
    """
    with running(engine) as active:
        counted = count(active.open(source, csv_format), plan.schema, unknown=unknown, progress=progress)
        checked = _check(counted, plan)
        table, account = release_frame(counted, checked.class_map, order=order)
    return Release(table, _manifest(plan, checked, account))


def release_to_file(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    plan: Plan,
    output: Path,
    *,
    quarantine: Path | None = None,
    order: Order = "sorted",
    overwrite: bool = False,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Applies a plan to an owner's records and writes the release and its manifest, both or neither.

    Records with a value outside its domain go to the file `quarantine` if one is named; otherwise the table
    is refused.
    """
    output = Path(output)
    format_of(output)
    for path in (output, manifest_path(output), *([quarantine] if quarantine else [])):
        check_writable(path, overwrite=overwrite)
    unknown: UnknownPolicy = "refuse" if quarantine is None else "quarantine"
    with running(engine) as active:
        counted = count(active.open(source, csv_format), plan.schema, unknown=unknown, progress=progress)
        checked = _check(counted, plan)
        with AtomicFiles(overwrite=overwrite) as files:
            account = write_release(counted, checked.class_map, output, files, order=order, progress=progress)
            if quarantine is not None and account.accounting.n_quarantined:
                write_quarantine(counted, quarantine, files, progress=progress)
            manifest = _manifest(plan, checked, account)
            files.stage(manifest_path(output)).write_bytes(as_bytes(manifest.to_dict()))
    return manifest


@dataclass(frozen=True, eq=False)
class _Checked:
    """What may be published: the class map, and the counts by class and sensitive value."""

    class_map: ClassMap
    counts: NDArray[np.int64]

    @property
    def diversities(self) -> NDArray[np.int64]:
        """Distinct values per class with a record."""
        present = class_diversities(self.counts)
        return present[present > 0]


def _check(counted: CountedTable, plan: Plan) -> _Checked:
    """Refuses too few records and classes with too few values."""
    counts = counted.counts
    if counts.n_records < plan.records:
        raise RefusedError(
            f"The plan asks for {plan.records} records.",
            found=f"The table has {counts.n_records} that can be used; "
            f"{plan.records - counts.n_records} are missing.",
            remedy="Wait until there are enough, or ask for a plan for fewer records.",
        )
    class_of = plan.class_of(counts.ranks)
    table = np.zeros((plan.n_classes, plan.schema.n_values), dtype=np.int64)
    np.add.at(table, (class_of[counts.rows], counts.values), counts.n)
    checked = _Checked(ClassMap(counts.ranks, class_of, tuple(plan.labels)), table)
    n_below = int((checked.diversities < plan.ell).sum())
    if n_below:
        raise RefusedError(
            f"The release would not show {plan.ell} values in every class.",
            found=f"{n_below} of {checked.diversities.size} classes show fewer; "
            f"the plan allows for that with probability at most {plan.failure_upper:.3g}.",
            remedy=f"Wait until a size that was announced beforehand, such as {2 * plan.records} records, "
            "or ask for a plan with fewer classes.",
        )
    return checked


def _manifest(plan: Plan, checked: _Checked, account: ReleaseAccount) -> Manifest:
    accounting = account.accounting
    values = plan.schema.sensitive.released_values().to_pylist()
    return Manifest(
        schema=plan.schema,
        classes=plan.classes,
        software=f"elldelta {__version__}",
        plan_digest=plan.digest,
        content_digest=content_digest(plan.labels, values, checked.counts),
        ell=plan.ell,
        delta=plan.delta,
        releases=plan.releases,
        failure_upper=plan.failure_upper,
        records_read=accounting.n_read,
        records_released=account.n_released,
        records_suppressed=accounting.n_suppressed,
        records_quarantined=accounting.n_quarantined,
        records_left_out=account.n_left_out,
        classes_published=int(checked.diversities.size),
        diversity=int(checked.diversities.min()) if checked.diversities.size else None,
        order=account.order,
        nulls=accounting.nulls,
        unknown=accounting.unknown,
    )
