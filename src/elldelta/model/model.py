"""A model of the population: counts of past records, and its file.

The file is one Parquet file that carries its schema and digest.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.engines import Engine, Progress, running
from elldelta.errors import FileError, SchemaError
from elldelta.files import (
    MALFORMED,
    AtomicFiles,
    CsvFormat,
    MisfitError,
    canonical_json,
    changed,
    check_format,
    digest,
    loaded,
    record_from,
    unreadable,
)
from elldelta.model.counting import ShowValues, UnknownPolicy, count
from elldelta.model.counts import Accounting, Counts
from elldelta.model.noise import Protection, check_protection, protected, with_fewer_rows
from elldelta.model.past import Past, Places, added_up
from elldelta.model.persons import count_persons
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.hierarchy_problems import refusal
from elldelta.schema.schema import Categories, Column, Schema
from elldelta.schema.schema_file import read_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution

FORMAT_VERSION = 1
"""Version of the file; others are refused."""
_METADATA_KEY = b"elldelta.model"


@dataclass(frozen=True, eq=False, repr=False)
class Model(Past):
    """What is known about the population: counts of past records, with their schema.

    Attributes:
        counts: Counts by (combination, sensitive value); with noise, in parts of a record.
        noise: How the past records are protected, one entry for each estimate that was merged; none if the
            counts are exact.
    """

    counts: Counts
    noise: tuple[Protection, ...] = ()

    @property
    def schema(self) -> Schema:
        """What the numbers mean."""
        return self.counts.schema

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The occupied combinations, rising: the rows of `to_distribution`."""
        return self.counts.ranks

    @property
    def positions(self) -> NDArray[np.int64]:
        """The positions of each occupied combination, one row per combination."""
        return self.counts.positions

    @property
    def accounting(self) -> Accounting:
        """What became of every record that was read."""
        return self.counts.accounting

    @property
    def n_combinations(self) -> int:
        """The number of combinations that occur."""
        return self.counts.n_combinations

    @property
    def spread(self) -> tuple[Places, ...]:
        """Where the past records lie, by quasi-identifier."""
        return tuple(added_up(column, self.counts.combination_totals) for column in self.positions.T)

    @property
    def value_totals(self) -> NDArray[Any]:
        """The past records with each sensitive value."""
        return np.bincount(self.counts.values, self.counts.n, self.schema.n_values)

    def for_column(self, index: int) -> Model:
        """What is known about one of several sensitive columns."""
        return replace(self, counts=self.counts.for_column(index))

    def to_distribution(self) -> JointDistribution:
        """P(Q, S) over the occupied combinations, in the order of `ranks`."""
        return self.counts.distribution

    def models(self) -> Iterator[Model]:
        """All counts at once: this model itself."""
        yield self

    def whole(self) -> Model:
        """All counts in one memory: this model itself."""
        return self

    @cached_property
    def digest(self) -> str:
        """The digest of schema, counts and account: the same for the same content, however it was stored."""
        counts = self.counts
        return digest(
            {
                "format": FORMAT_VERSION,
                "noise": self.noise_head(),
                "schema": self.schema.digest,
                "accounting": self.accounting.to_dict(),
                "cells": _cells_digest(counts.ranks[counts.rows], counts.values, counts.n),
            }
        )


def estimate(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    schema: Schema | str | os.PathLike[str],
    *,
    person: str | None = None,
    epsilon: float | None = None,
    delta_dp: float | None = None,
    domains_are_public: bool = False,
    rows_per_person: int = 1,
    unknown: UnknownPolicy = "refuse",
    show_values: ShowValues | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Model:
    """Counts past records by (quasi-identifiers, sensitive value).

    Args:
        source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
        schema: What the columns mean, or the file that says so.
        person: The column that tells persons apart, if some have several records: every person counts once
            per sensitive value; with epsilon, every person with all records is hidden, and not only each
            record. It is never written anywhere.
        epsilon: Protect the past records: only counts with noise are kept, so that nobody can tell whether a
            record was there (differential privacy). Useful values are 0.1 to 3, and less protects more.
        delta_dp: With epsilon: show only combinations whose noisy count is above a threshold, which fails
            with at most this chance, such as 1e-6. For many records in a domain that is far too large.
        domains_are_public: With epsilon, somebody has to say so: the values in the schema are known to
            everybody, or were declared by hand, or inferred from a public table; not from these records.
        rows_per_person: With epsilon: how many records of a person are counted at most; more cost noise.
        unknown: What to do with a value outside its domain: "refuse", or leave the record out and count it
            ("quarantine").
        show_values: Is told every column with such values, and examples of them, which are personal data.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    described = loaded(schema, Schema, read_schema)
    check_protection(epsilon, delta_dp, domains_are_public=domains_are_public)
    with running(engine) as active:
        table = active.open(source, csv_format)
        if epsilon is not None and person is not None:
            table = with_fewer_rows(described.composed(table), described, person, rows_per_person)
        counted = count(table, described, unknown=unknown, show_values=show_values, progress=progress)
        if epsilon is None and person is not None:
            counted = count_persons(counted, person, progress)
    if epsilon is None:
        counted.counts.accounting.require_records()
        return Model(counted.counts)
    noisy, protection = protected(
        counted.counts,
        epsilon,
        delta_dp,
        unit="record" if person is None else "person",
        most_rows=1 if person is None else rows_per_person,
    )
    return Model(noisy, (protection,))


def reordered(model: Model, schema: Schema) -> Model:
    """The same counts under a schema that orders or groups the same values in another way.

    Categories are found by their text, so the schema of a plan fits the model that the plan was made from,
    whatever hierarchies and orders were chosen in between.

    Raises:
        SchemaError: The schema has other columns or other values.
    """
    old, new = model.schema, schema
    if new.digest == old.digest:
        return model
    if len(old.quasi_identifiers) != len(new.quasi_identifiers):
        raise _other_schema("Their quasi-identifiers differ.")
    counts = model.counts
    positions = np.empty_like(counts.positions)
    for place, (before, after) in enumerate(zip(old.quasi_identifiers, new.quasi_identifiers, strict=True)):
        positions[:, place] = _moved(before, after, counts.positions[:, place])
    values = _moved_values(old, new, counts.values)
    ranks = new.ranks(positions)[counts.rows]
    return replace(model, counts=Counts.from_cells(new, ranks, values, counts.n, counts.accounting))


def with_hierarchies(model: Model, hierarchies: Mapping[str, HierarchyRows | Hierarchy]) -> Model:
    """The model with hierarchies for some quasi-identifiers, in the order that they ask for.

    Raises:
        SchemaError: Lists everything that is wrong with any of the hierarchies.
    """
    if not hierarchies:
        return model
    written = {
        name: HierarchyRows(given.rows) if isinstance(given, Hierarchy) else given
        for name, given in hierarchies.items()
    }
    schema = model.schema
    found = {name: rows.problems(schema.quasi_identifier(name).domain) for name, rows in written.items()}
    wrong = [name for name, problems in found.items() if problems]
    if wrong:
        problems = [
            replace(each, words=f"Column {name!r}: {each.words}") for name in wrong for each in found[name]
        ]
        unit = "line" if all(written[name].lines for name in wrong) else "row"
        sources = " and ".join(written[name].source for name in wrong)
        raise refusal(f"{sources} cannot be used.", problems, unit)
    columns = tuple(
        replace(column, hierarchy=written[column.name].checked(column.domain))
        if column.name in written
        else column
        for column in schema.quasi_identifiers
    )
    return reordered(model, replace(schema, quasi_identifiers=columns))


def _moved_values(old: Schema, new: Schema, values: NDArray[Any]) -> NDArray[Any]:
    """Positions of sensitive values as positions of the other schema."""
    if len(old.sensitives) != len(new.sensitives):
        raise _other_schema("Their sensitive columns differ.")
    moved: NDArray[Any] = np.empty_like(values)
    for place, (before, after) in enumerate(zip(old.value_slices, new.value_slices, strict=True)):
        in_column = (values >= before.start) & (values < before.stop)
        columns = old.sensitives[place], new.sensitives[place]
        moved[in_column] = _moved(*columns, values[in_column] - before.start) + after.start
    return moved


def write_model(
    model: Model, path: str | os.PathLike[str], *, overwrite: bool = False, is_region: bool = False
) -> None:
    """Writes a model, or one region of a model by region, as one Parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts = model.counts
    head = {
        "format": FORMAT_VERSION,
        "noise": model.noise_head(),
        "schema": model.schema.to_dict(),
        "schema_digest": model.schema.digest,
        "accounting": model.accounting.to_dict(),
        "digest": model.digest,
        **({"region": True} if is_region else {}),
    }
    names = ("rank", "value", "n")
    columns = (counts.ranks[counts.rows], counts.values, counts.n)
    arrays = [pa.array(column, pa.int64()) for column in columns]
    arrow_schema = pa.schema([(name, pa.int64()) for name in names], {_METADATA_KEY: canonical_json(head)})
    table = pa.Table.from_arrays(arrays, schema=arrow_schema)
    with AtomicFiles(overwrite=overwrite) as files:
        # Counts by combination are nearly records: for their owner's eyes.
        pq.write_table(table, files.stage(path, private=True), compression="zstd")


def read_model(path: str | os.PathLike[str], *, is_region: bool = False) -> Model:
    """Reads a model; refuses other files, other versions, and content that does not match its digest.

    Args:
        path: The file.
        is_region: Whether it is one region of a model by region. By itself that is no model: what was left
            out, whether persons were counted, and how noise protects is about all regions together.
    """
    path = Path(path)
    if path.is_dir():
        raise FileError(
            f"{path} is a folder, and not a model in one file.",
            found="Models by region are shown and planned, and nothing else.",
            remedy=f"Add its regions up: elldelta model merge {path} -o model.parquet",
        )
    if not path.is_file():
        if path.exists():
            raise _not_a_model(path, "It is a device.")
        raise unreadable(path, "model", FileNotFoundError())
    try:
        return _read(lambda: path, path, is_region=is_region)
    except PermissionError as problem:
        raise unreadable(path, "model", problem) from None


def model_from_bytes(content: bytes) -> Model:
    """Reads the content of a model's file as `read_model` reads the file; nothing is written anywhere."""
    import pyarrow as pa

    return _read(lambda: pa.BufferReader(content), "that was sent")


def _read(opened: Callable[[], Any], name: Path | str, *, is_region: bool = False) -> Model:
    """Reads a model from what can be opened again and again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(opened()).metadata
    except PermissionError:
        raise
    except (pa.ArrowException, OSError):
        raise _not_a_model(name, "It is not a whole, readable Parquet file.") from None
    head = _head(name, metadata)
    if head.get("region") and not is_region:
        raise FileError(
            f"{name if isinstance(name, Path) else f'The file {name}'} is one region of a model by region.",
            found="What was left out and who was counted stands in the head of its folder.",
            remedy="Give the folder, with all regions.",
        )
    try:
        schema = Schema.from_dict(head["schema"])
        # Column by column: the whole table beside its arrays would take twice the memory.
        ranks, values, n = (_column(opened(), column) for column in ("rank", "value", "n"))
        n_cells = n.size
        counts = Counts.from_cells(schema, ranks, values, n, record_from(Accounting, head["accounting"]))
        del ranks, values, n
        model = Model(counts, record_from(tuple[Protection, ...], head["noise"]))
        intact = (
            schema.digest == head["schema_digest"]
            and model.digest == head["digest"]
            and counts.n.size == n_cells
        )
    except (pa.ArrowException, OSError):
        raise _not_a_model(name, "It is not a whole, readable Parquet file.") from None
    except MisfitError as misfit:
        raise changed(f"The model {name}", misfit.words) from None
    except MALFORMED:
        intact = False
    if not intact:
        raise changed(f"The model {name}")
    return model


def _moved(before: Column, after: Column, positions: NDArray[Any]) -> NDArray[Any]:
    """Positions of a column as positions of the other one."""
    if (before.name, before.nulls, before.missing) != (after.name, after.nulls, after.missing):
        raise _other_schema(f"Column {before.name!r} has another name, or treats missing values otherwise.")
    if before.domain == after.domain:
        return positions
    match before.domain, after.domain:
        case Categories(old), Categories(new) if set(old) == set(new):
            at = {value: place for place, value in enumerate(new)}
            places = np.array([*(at[value] for value in old), len(old)], dtype=np.int64)  # the last: missing
            return np.take(places, positions)
    raise _other_schema(f"Column {before.name!r} has other values.")


def _other_schema(found: str) -> SchemaError:
    return SchemaError(
        "A model can only be put into another order, not under another schema.",
        found=found,
        remedy="Use the model that the schema belongs to, or estimate it again.",
    )


def _head(name: Path | str, metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    text = (metadata or {}).get(_METADATA_KEY)
    if text is None:
        raise _not_a_model(name, "It is a Parquet file of another kind.")
    try:
        head = json.loads(text)
        version = head["format"]
    except MALFORMED:
        raise _not_a_model(name, "Its description cannot be read.") from None
    check_format(f"The model {name}", version, FORMAT_VERSION)
    return dict(head)


def _column(source: Any, name: str) -> NDArray[np.int64]:  # noqa: ANN401 (whatever pyarrow opens)
    """A column as an array, in ways that do not load pandas, as reading a data set and `to_numpy` do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        column = file.read(columns=[name]).column(name).combine_chunks()
    if column.type != pa.int64() or column.null_count:
        raise TypeError
    array = np.from_dlpack(column).astype(np.int64, copy=False)
    array.setflags(write=False)
    return array


def _cells_digest(*arrays: NDArray[Any]) -> str:
    import hashlib

    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array, dtype="<i8").data)
    return "sha256:" + state.hexdigest()


def _not_a_model(name: Path | str, found: str) -> FileError:
    return FileError(
        f"{name if isinstance(name, Path) else f'The file {name}'} is not a model.",
        found=found,
        remedy="Give a file that 'elldelta estimate' has written.",
    )
