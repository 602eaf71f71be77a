"""Use cases: check one release from its file, and link several to see what an adversary would see."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.audit.evidence import OwnReleases
from elldelta.audit.foreign_evidence import ForeignColumns
from elldelta.audit.gate import gate
from elldelta.audit.measures import summarize
from elldelta.audit.result import Audit
from elldelta.audit.targets import audit_targets, candidate_values, known_columns, read_people, values_left
from elldelta.core.checks import check_whole
from elldelta.engines import Query, TableName, is_frame, running
from elldelta.errors import DataError, ParameterError
from elldelta.files import check_writable, loaded
from elldelta.model.model import Model, read_model
from elldelta.plan.plan import Plan, read_plan
from elldelta.release.database_table import read_table_manifest
from elldelta.release.manifest import manifest_path, read_manifest
from elldelta.release.published import Verification, read_published, verify_published
from elldelta.release.release import Release
from elldelta.schema.foreign_rules import rules_of
from elldelta.schema.schema import Schema
from elldelta.schema.schema_file import read_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from elldelta.audit.evidence import Evidence
    from elldelta.audit.foreign_release import Understanding
    from elldelta.audit.gate import Gate
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.release.manifest import Manifest
    from elldelta.release.published import Published

__all__ = ["Audit", "Verification", "audit", "audit_before", "explain", "gather", "open_published", "verify"]


def audit(
    releases: Sequence[Any],
    *,
    ell: int | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    model: Model | str | os.PathLike[str] | None = None,
    foreign: ForeignColumns | None = None,
    same_records: Sequence[Sequence[int | str]] = (),
    targets: Any = None,  # noqa: ANN401 (a file or a table in memory)
    targets_output: Path | None = None,
    overwrite: bool = False,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Links releases as the adversary of the paper would, whatever their classes.

    Args:
        releases: Files with a manifest beside them, `Release` objects, or tables in memory.
        ell: The diversity to compare with; by default the largest that a manifest promises.
        schema: What the columns mean, for releases without a manifest.
        model: Where the adversary's distribution comes from; by default the releases pooled.
        foreign: Which columns to link by and what their labels mean, for releases that neither a manifest
            nor a schema describes.
        same_records: Sets of releases, by their places from 0 or their names, that hold the same records
            under different classes; subtraction is tried on them.
        targets: People about whom the adversary knows quasi-identifiers.
        targets_output: A file for what is left for each target.
        overwrite: Whether that file may be replaced.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    if targets_output is not None:
        if targets is None:
            raise ParameterError(
                "There is nothing to write about targets.",
                found="No targets were given.",
                remedy="Give --targets FILE.",
            )
        check_writable(targets_output, overwrite=overwrite)
    same = [_places(group, releases) for group in same_records]
    known = None if model is None else loaded(model, Model, read_model)
    people = None if targets is None else read_people(targets, csv_format=csv_format, engine=engine)
    evidence = gather(
        releases,
        schema=schema,
        foreign=foreign,
        people=people,
        csv_format=csv_format,
        engine=engine,
        progress=progress,
    )
    wanted = _wanted(ell, evidence)
    totals = None
    if people is not None:
        totals = audit_targets(evidence, people, wanted, output=targets_output, overwrite=overwrite)
    return summarize(evidence, wanted, model=known, same_records=same, targets=totals)


def targets(
    releases: Sequence[Any],
    people: Any,  # noqa: ANN401 (a file or a table in memory)
    *,
    schema: Schema | str | os.PathLike[str] | None = None,
    foreign: ForeignColumns | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Which values are left for particular people who are in all the releases.

    Args:
        releases: As in `audit`.
        people: Columns named like the quasi-identifiers; a missing column or an empty cell is unknown. Other
            columns are carried along.
        schema: What the columns mean, for releases without a manifest.
        foreign: Which columns to link by, for releases that nothing else describes.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Returns:
        An Arrow table with a line per person and candidate value: how many values are left for the person,
        the value, the fewest records that show it, and their share. It is about single people.
    """
    sought = read_people(people, csv_format=csv_format, engine=engine)
    evidence = gather(
        releases,
        schema=schema,
        foreign=foreign,
        people=sought,
        csv_format=csv_format,
        engine=engine,
        progress=progress,
    )
    known_columns(evidence, sought)
    return candidate_values(sought, values_left(evidence, evidence.find(sought)), evidence.values)


def audit_before(
    new: Any,  # noqa: ANN401 (a file, a Release, or a table in memory)
    published: Sequence[Any],
    *,
    ell: int | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    foreign: ForeignColumns | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Gate:
    """Whether publishing a new release would take anybody below ell, given those already published."""
    evidence = gather(
        [*published, new],
        schema=schema,
        foreign=foreign,
        csv_format=csv_format,
        engine=engine,
        progress=progress,
    )
    return gate(evidence, _wanted(ell, evidence))


def gather(
    releases: Sequence[Any],
    *,
    schema: Schema | str | os.PathLike[str] | None = None,
    foreign: ForeignColumns | None = None,
    people: pa.Table | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Reads releases and lays them over each other.

    Where neither a manifest nor a schema describes one of them, all are read by their labels alone.
    """
    found = _found(releases, engine)
    schema = None if schema is None else loaded(schema, Schema, read_schema)
    if schema is not None or all(manifest is not None for _, _, manifest in found):
        return OwnReleases.overlay(
            [
                open_published(item, schema=schema, csv_format=csv_format, engine=engine, progress=progress)
                for item in releases
            ]
        )
    described = _described(found, foreign)
    with running(engine) as active:
        tables = [(name, active.open(source, csv_format)) for source, name, _ in found]
        return described.read(tables, people=people, progress=progress)


def explain(
    releases: Sequence[Any],
    foreign: ForeignColumns | None = None,
    *,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Understanding:
    """How the labels of releases would be understood that nothing but their labels describes."""
    found = _found(releases, engine)
    described = _described(found, foreign)
    with running(engine) as active:
        tables = [(name, active.open(source, csv_format)) for source, name, _ in found]
        return described.understand(tables, progress=progress)[1]


def _described(
    found: Sequence[tuple[Any, str, Manifest | None]], foreign: ForeignColumns | None
) -> ForeignColumns:
    """The columns to link by: those that were named, or else those of a release that has a manifest."""
    described = foreign or ForeignColumns()
    manifests = [manifest for _, _, manifest in found if manifest is not None]
    if not described.quasi_identifiers and manifests:
        described = replace(described, quasi_identifiers=manifests[0].schema.names)
    if not described.sensitive and manifests:
        described = replace(described, sensitive=manifests[0].schema.sensitive.name)
    if manifests:  # its labels mean what its schema says; what somebody says here comes first
        said = {column.name: rules_of(column) for column in manifests[0].schema.quasi_identifiers}
        linked = {name: rules for name, rules in said.items() if name in described.quasi_identifiers}
        described = replace(described, rules={**linked, **described.rules})
    if not described.quasi_identifiers or not described.sensitive:
        raise _nothing_described(found[0][1])
    return described


def _places(names: Sequence[int | str], releases: Sequence[Any]) -> list[int]:
    """The places of releases that are named together."""
    places = []
    for name in names:
        found = [
            place
            for place, item in enumerate(releases)
            if name == place
            or (isinstance(item, str | os.PathLike) and name in (os.fspath(item), Path(item).name))
        ]
        if len(found) != 1:
            raise ParameterError(
                f"--same-records names {name!r}.",
                found=f"{len(found)} of the releases are called so.",
                remedy="Name releases of this audit as they are given, separated by commas.",
            )
        places += found
    if len(set(places)) < 2:
        raise ParameterError(
            "--same-records needs at least two releases.", remedy="Write them with a comma: a.csv,b.csv."
        )
    return places


def _wanted(ell: int | None, evidence: Evidence) -> int:
    if ell is not None:
        return check_whole("ell", ell)
    if evidence.promised is None:
        raise ParameterError(
            "There is no ell to compare with.",
            found="No release has a manifest.",
            remedy="Give --ell (in Python: ell=...).",
        )
    return evidence.promised


def open_published(
    item: Any,  # noqa: ANN401 (a file, a Release, or a table in memory)
    *,
    schema: Schema | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Published:
    """Reads one release, with its manifest where it has one."""
    source, name, manifest = _located(item, engine)
    if manifest is not None:
        schema = manifest.schema
    elif schema is None:
        raise _nothing_described(name)
    with running(engine) as active:
        return read_published(active.open(source, csv_format), name, schema, manifest, progress)


def _found(releases: Sequence[Any], engine: Engine | None) -> list[tuple[Any, str, Manifest | None]]:
    """Where the releases of an audit are; see `_located`."""
    if isinstance(releases, Release | str | os.PathLike | Query | TableName) or is_frame(releases):
        raise ParameterError(
            "An audit takes a list of releases.",
            found="It is a single one.",
            remedy="Give [first, second, ...], or [first] for one release by itself.",
        )
    if not releases:
        raise ParameterError("An audit needs at least one release.", found="None was given.")
    return [_located(item, engine) for item in releases]


def _located(item: Any, engine: Engine | None) -> tuple[Any, str, Manifest | None]:  # noqa: ANN401
    """Where the records of a release are, words for it, and its manifest if it has one."""
    if isinstance(item, Release):
        if item.table is not None:
            return item.table, item.name, item.manifest
        item = item.place
    # An engine that reads tables and no files takes every name for a table's.
    reads_tables = engine is not None and "files" not in engine.capabilities
    if isinstance(item, str | os.PathLike) and reads_tables:
        item = TableName.parse(os.fspath(item))
    if isinstance(item, Query):
        return item, "a query", None
    if isinstance(item, TableName):
        with running(engine) as active:
            return item, str(item), read_table_manifest(active, item)
    if is_frame(item):
        return item, "a release in memory", None
    if not isinstance(item, str | os.PathLike):
        raise ParameterError(
            "A release is given as a file, as a Release, or as a table in memory.",
            found=f"It is of type {type(item).__name__}.",
        )
    beside = manifest_path(Path(item))
    return item, Path(item).name, read_manifest(beside) if beside.exists() else None


def _nothing_described(name: str) -> DataError:
    return DataError(
        f"The release {name} comes without a manifest.",
        found="Nothing says what its columns mean.",
        remedy="Put the manifest beside it, give the schema (--schema), or name the columns to link by and "
        "the sensitive one (--qi and --sensitive).",
    )


def verify(
    item: Any,  # noqa: ANN401 (a file or a Release)
    plan: Plan | str | os.PathLike[str] | None = None,
    *,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Re-checks a release as an outsider would: content against manifest, manifest against plan, diversity.

    With a certified plan the certificate itself is checked again, from the published table.

    Raises:
        FileError: The manifest is missing, or release, manifest and plan do not belong together.
        RefusedError: A class shows fewer values than were promised, or the certificate does not hold.
    """
    known = None if plan is None else loaded(plan, Plan, read_plan)
    published = open_published(
        item,
        schema=known.schema if known else None,
        csv_format=csv_format,
        engine=engine,
        progress=progress,
    )
    return verify_published(published, known)
