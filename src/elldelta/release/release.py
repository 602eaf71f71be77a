"""Use case: an owner applies a plan to its own records. Everything is checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from elldelta._version import __version__
from elldelta.engines.running import running
from elldelta.engines.sources import format_of
from elldelta.errors import ParameterError
from elldelta.files.atomic import AtomicFiles, check_writable
from elldelta.files.json_file import as_bytes
from elldelta.model.counting import count
from elldelta.release.certify import publishable, publishable_in_ledger
from elldelta.release.manifest import Manifest, content_digest, manifest_path
from elldelta.release.write import release_frame, write_quarantine, write_release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from elldelta.choices import OnFailure
    from elldelta.engines.table import Engine, Progress
    from elldelta.files.csv_format import CsvFormat
    from elldelta.model.counting import UnknownPolicy
    from elldelta.plan.plan import Plan
    from elldelta.release.certify import Publishable
    from elldelta.release.write import Order, ReleaseAccount


class AdmittingLedger(Protocol):
    """A ledger as a release needs it; `elldelta.ledger` has the one that is a file."""

    @property
    def owner(self) -> str:
        """Who publishes."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that it writes."""

    def open(self, plan: Plan) -> AbstractContextManager[Any]:
        """Locks it: gives `state`, `grouping_of`, `check` and `commit`."""


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
    on_failure: OnFailure | None = None,
    most_suppressed: float | None = None,
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
        on_failure: What to do with classes that do not pass the plan's certificate: "refuse", "coarsen",
            "suppress" or "coarsen-suppress"; by default what suits the plan.
        most_suppressed: The largest share of records that may be left out for it.
        order: "sorted", or "any" for speed with kept columns.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Raises:
        RefusedError: Too few records, or the table does not pass. Nothing is published.
    """
    with running(engine) as active:
        counted = count(active.open(source, csv_format), plan.schema, unknown=unknown, progress=progress)
        checked = publishable(counted.counts, plan, on_failure=on_failure, most_suppressed=most_suppressed)
        table, account = release_frame(counted, checked.class_map, order=order)
    return Release(table, manifest_of(plan, checked, account))


def release_to_file(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    plan: Plan,
    output: Path,
    *,
    quarantine: Path | None = None,
    ledger: AdmittingLedger | None = None,
    on_failure: OnFailure | None = None,
    most_suppressed: float | None = None,
    order: Order = "sorted",
    overwrite: bool = False,
    read_only: Sequence[Path] = (),
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Applies a plan to an owner's records and writes the release and its manifest, both or neither.

    Args:
        source: Files, folders, globs, or a table in memory.
        plan: The plan.
        output: The release, a .parquet or .csv file; its manifest lies beside it.
        quarantine: Where records with a value outside its domain go; without it such a table is refused.
        ledger: A ledger that must admit the release (`elldelta.Ledger`): then any number of admitted
            releases may be linked, and the certificate's limit of t no longer matters.
        on_failure: What to do with classes that do not pass; see `release`.
        most_suppressed: The largest share of records that may be left out for it.
        order: "sorted", or "any" for speed with kept columns.
        overwrite: Whether existing files may be replaced.
        read_only: Other files that must not be written, such as the one the plan was read from.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Raises:
        RefusedError: Too few records, the table does not pass, or the ledger does not admit it.
    """
    output = Path(output)
    format_of(output)
    if ledger is not None and plan.guarantee != "certified":
        raise ParameterError("A ledger admits releases of certified plans only.", found="The plan is not.")
    written = [output, manifest_path(output), *([quarantine] if quarantine else [])]
    untouched = [*written, *(ledger.files if ledger else ())]
    check_paths((), read_only, untouched)
    in_parts = engine is not None and "write folder" in engine.capabilities
    for path in written:
        check_writable(path, overwrite=overwrite, folder=in_parts and path != manifest_path(output))
    unknown: UnknownPolicy = "refuse" if quarantine is None else "quarantine"

    def write(checked: Publishable, files: AtomicFiles, line: Mapping[str, Any] | None) -> Manifest:
        account = write_release(counted, checked.class_map, output, files, order=order, progress=progress)
        if quarantine is not None and account.accounting.n_quarantined:
            write_quarantine(counted, quarantine, files, progress=progress)
        manifest = manifest_of(plan, checked, account, line)
        files.stage(manifest_path(output)).write_bytes(as_bytes(manifest.to_dict()))
        return manifest

    with running(engine) as active:
        table = active.open(source, csv_format)
        check_paths(table.files, read_only, untouched)
        counted = count(table, plan.schema, unknown=unknown, progress=progress)
        if ledger is None:
            checked = publishable(
                counted.counts, plan, on_failure=on_failure, most_suppressed=most_suppressed
            )
            with AtomicFiles(overwrite=overwrite) as files:
                return write(checked, files, None)
        with ledger.open(plan) as book:
            checked = publishable_in_ledger(
                counted.counts,
                plan,
                book.state,
                on_failure=on_failure,
                most_suppressed=most_suppressed,
                grouping=book.grouping_of(ledger.owner),
            )
            admission = book.check(
                checked.certificate, owner=ledger.owner, content_digest=_content_digest(plan, checked)
            )
            line = {"sequence": admission.entry.sequence, "hash": admission.entry.hash, "owner": ledger.owner}

            def place(staged: Mapping[Path, Path]) -> None:
                # The table goes last, so that a release that is taken back was never visible.
                book.commit(admission, dict(reversed(list(staged.items()))), overwrite=overwrite)

            with AtomicFiles(overwrite=overwrite, place=place) as files:
                return write(checked, files, line)


def _content_digest(plan: Plan, checked: Publishable) -> str:
    values = plan.schema.sensitive.released_values().to_pylist()
    return content_digest(checked.labels, values, checked.counts)


def manifest_of(
    plan: Plan, checked: Publishable, account: ReleaseAccount, line: Mapping[str, Any] | None = None
) -> Manifest:
    """The manifest of a release: what was checked and what became of the records."""
    accounting = account.accounting
    return Manifest(
        schema=plan.schema,
        classes=checked.classes,
        software=f"elldelta {__version__}",
        plan_digest=plan.digest,
        content_digest=_content_digest(plan, checked),
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
        guarantee=plan.guarantee,
        min_records=plan.min_records,
        coarsening=_cost(checked, plan),
        utility=_utility(checked, plan),
        ledger=line,
        nulls=accounting.nulls,
        unknown=accounting.unknown,
    )


def _cost(checked: Publishable, plan: Plan) -> dict[str, int | float] | None:
    """What it cost to pass, as plain numbers; None for a probabilistic plan."""
    if checked.coarsening is None:
        return None
    cost = checked.coarsening.cost
    # Over all classes, also those left out: weighing by what is left would tell which ones those are.
    after = plan.hull_loss.ncp(checked.coarsening.grouping)
    return {
        "base_classes": cost.n_base_classes,
        "base_classes_failing": cost.n_failing,
        "base_classes_merged": cost.n_merged,
        "records_suppressed": cost.n_suppressed,
        "ncp_before": cost.ncp_before,
        "ncp_after": after,
    }


def _utility(checked: Publishable, plan: Plan) -> dict[str, object] | None:
    """How much information the published classes keep, from nothing but what the release shows.

    Where the records lie inside their classes would make the classes look better, and give that away.
    """
    sizes = checked.counts.sum(axis=1)
    if not sizes.any():
        return None
    lows, highs = checked.classes.hulls(plan.schema)
    widths = (highs - lows) / np.maximum(1, np.array(plan.schema.sizes) - 1)
    by_column = sizes @ widths / sizes.sum()
    present = sizes[sizes > 0]
    return {
        "ncp": float(by_column.mean()),
        "ncp_by_column": dict(zip(plan.schema.names, by_column.tolist(), strict=True)),
        "smallest_class": int(present.min()),
        "median_class": float(np.median(present)),
        "largest_class": int(present.max()),
        "discernibility": int((present.astype(object) ** 2).sum()),
        "average_class_size_ratio": float(present.sum() / (present.size * plan.ell)),
    }


def check_paths(files: Sequence[Path], plan_files: Sequence[Path], written: Sequence[Path]) -> None:
    """Refuses outputs that are each other, or that are what is read: one would destroy the other."""
    read = [path.resolve() for path in files]
    targets = [path.resolve() for path in written]
    if len(set(targets)) < len(targets):
        raise ParameterError(
            "Release, manifest, quarantine and ledger must be different files.",
            found="Two of them have the same name.",
            remedy="Choose another name for one of them.",
        )
    inputs = {*read, *(path.resolve() for path in plan_files)}
    # An output may be a folder, and what is read may lie inside.
    if set(targets) & {*inputs, *(folder for path in inputs for folder in path.parents)}:
        raise ParameterError(
            "A file that is read cannot be written at the same time.",
            found="An output is one of the inputs.",
            remedy="Choose another name for the output; the input stays as it is.",
        )
