"""Use cases: link releases to see what an adversary would see, and ask before one more is published."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.audit.evidence import Evidence, check_schemas
from elldelta.audit.gate import gate
from elldelta.audit.measures import summarize
from elldelta.audit.releases import ForeignColumns, ReadRelease, read_release, understand
from elldelta.audit.targets import audit_targets, candidate_values, known_columns, read_people, values_left
from elldelta.core.checks import check_whole
from elldelta.engines import Query, TableName, is_frame, running
from elldelta.errors import DataError, FileError, ParameterError
from elldelta.files import check_writable, loaded
from elldelta.model import Model, read_model
from elldelta.plan.plan import Plan, read_plan
from elldelta.release import (
    Verification,
    manifest_path,
    read_manifest,
    read_published,
    read_table_manifest,
    verify_published,
)
from elldelta.release.release import Release
from elldelta.schema.label_columns import rules_of
from elldelta.schema.schema import Schema
from elldelta.schema.schema_file import read_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from elldelta.audit.gate import Gate
    from elldelta.audit.releases import Understanding
    from elldelta.audit.result import Audit
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.release import Manifest, Published

    SchemaOrPath = Schema | str | os.PathLike[str]


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
        model=known,
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
    schema: SchemaOrPath | None = None,
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
    schema: SchemaOrPath | None = None,
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
    schema: SchemaOrPath | None = None,
    foreign: ForeignColumns | None = None,
    people: pa.Table | None = None,
    model: Model | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Reads releases and lays them over each other.

    The classes of a release are those of its manifest, where it has one; the others are read by their labels,
    which mean what a schema or a manifest says, or else what can be read in one way only.
    """
    found = _located(releases, engine)
    given = None if schema is None else loaded(schema, Schema, read_schema)
    if people is None and model is None and all(item.manifest is not None for item in found):
        return Evidence.from_published([_published(item, csv_format, engine, progress) for item in found])
    columns, known = _described(found, foreign, given)
    read = []
    for item in found:
        if item.manifest is not None:
            published = _published(item, csv_format, engine, progress)
            read.append(ReadRelease.from_published(published, columns))
        else:
            with running(engine) as active:
                table = active.open(item.source, csv_format)
                read.append(read_release(table, item.name, columns, given, progress))
    return Evidence.from_releases(read, columns, schema=known, people=people, model=model)


def explain(
    releases: Sequence[Any],
    foreign: ForeignColumns | None = None,
    *,
    schema: SchemaOrPath | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Understanding:
    """How the labels of releases are understood."""
    found = _located(releases, engine)
    columns, _ = _described(found, foreign, None if schema is None else loaded(schema, Schema, read_schema))
    with running(engine) as active:
        read = [
            read_release(active.open(item.source, csv_format), item.name, columns, progress=progress)
            for item in found
        ]
    return understand(read, columns)


def open_published(
    item: Any,  # noqa: ANN401 (a file or a Release)
    *,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Published:
    """Reads one release and compares it with its manifest."""
    return _published(_locate(item, engine), csv_format, engine, progress)


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
    published = open_published(item, csv_format=csv_format, engine=engine, progress=progress)
    return verify_published(published, known)


class _Located(NamedTuple):
    """Where the records of a release are, words for it, and its manifest if it has one."""

    source: Any
    name: str
    manifest: Manifest | None


def _located(releases: Sequence[Any], engine: Engine | None) -> list[_Located]:
    if isinstance(releases, Release | str | os.PathLike | Query | TableName) or is_frame(releases):
        raise ParameterError(
            "An audit takes a list of releases.",
            found="It is a single one.",
            remedy="Give [first, second, ...], or [first] for one release by itself.",
        )
    if not releases:
        raise ParameterError("An audit needs at least one release.", found="None was given.")
    return [_locate(item, engine) for item in releases]


def _locate(item: Any, engine: Engine | None) -> _Located:  # noqa: ANN401
    if isinstance(item, Release):
        if item.table is not None:
            return _Located(item.table, item.name, item.manifest)
        item = item.place
    # An engine that reads tables and no files takes every name for a table's.
    reads_tables = engine is not None and "files" not in engine.capabilities
    if isinstance(item, str | os.PathLike) and reads_tables:
        item = TableName.parse(os.fspath(item))
    if isinstance(item, Query):
        return _Located(item, "a query", None)
    if isinstance(item, TableName):
        with running(engine) as active:
            return _Located(item, str(item), read_table_manifest(active, item))
    if is_frame(item):
        return _Located(item, "a release in memory", None)
    if not isinstance(item, str | os.PathLike):
        raise ParameterError(
            "A release is given as a file, as a Release, or as a table in memory.",
            found=f"It is of type {type(item).__name__}.",
        )
    beside = manifest_path(Path(item))
    return _Located(item, Path(item).name, read_manifest(beside) if beside.exists() else None)


def _published(
    item: _Located, csv_format: CsvFormat | None, engine: Engine | None, progress: Progress | None
) -> Published:
    if item.manifest is None:
        raise FileError(
            f"The release {item.name} comes without a manifest.",
            found="Nothing says under which plan it was made.",
            remedy="Put the manifest beside it.",
        )
    with running(engine) as active:
        return read_published(active.open(item.source, csv_format), item.name, item.manifest, progress)


def _described(
    found: Sequence[_Located], foreign: ForeignColumns | None, schema: Schema | None
) -> tuple[ForeignColumns, Schema | None]:
    """The columns to link by and what is said about them; and the schema, where a manifest has or is one."""
    described = foreign or ForeignColumns()
    schemas = [(item.name, item.manifest.schema) for item in found if item.manifest is not None]
    schemas += [] if schema is None else [("the schema given", schema)]
    check_schemas(schemas)
    known = schemas[0][1] if schemas else None
    if known is not None:
        linked = described.quasi_identifiers or known.names
        said = {column.name: rules_of(column) for column in known.quasi_identifiers if column.name in linked}
        described = replace(
            described,
            quasi_identifiers=linked,
            sensitive=described.sensitive or known.sensitive.name,
            rules={**said, **described.rules},  # what somebody says here comes first
        )
    if not described.quasi_identifiers or not described.sensitive:
        raise DataError(
            f"The release {found[0].name} comes without a manifest.",
            found="Nothing says what its columns mean.",
            remedy="Put the manifest beside it, give the schema (--schema), or name the columns to link by "
            "and the sensitive one (--qi and --sensitive).",
        )
    described.check([item.name for item in found])
    return described, known


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
