"""Counting a table: group by the columns in the engine, find the positions of what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.core.weights import UNITS
from elldelta.engines import Progress, Table, ValueKind, sql
from elldelta.engines.cells import as_text
from elldelta.errors import DataError, counted
from elldelta.model.counts import Accounting, Counts
from elldelta.schema.domains import NULL, UNKNOWN, Bins, Categories, Dates, Integers
from elldelta.schema.weight import WRONG_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.schema.schema import Column, Schema

UnknownPolicy = Literal["refuse", "quarantine"]

ShowValues = Callable[[str, Sequence[str]], None]
"""Is told a column and values of people that it holds: for the owner's eyes, never for a file or a log."""

REMEDY = "Correct the data, or extend the domains in the schema."

Cells = tuple["NDArray[np.int64]", "NDArray[Any]", "NDArray[np.int64]"]
"""Ranks, sensitive values and numbers of records."""

MOST_SHOWN = 5
"""How many values of a column are shown."""

MOST_REPEATED = 1 << 20
"""So many cells of a column are remembered at most that may be there twice."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """Which distinct cells of a column, as the engine groups them, are at which position."""

    cells: pa.Array
    positions: NDArray[np.int64]

    def usable(self) -> dict[str, Any]:
        """The cells at a position, as a relation (raw, position)."""
        import pyarrow as pa

        usable = self.positions >= 0
        return {"raw": self.cells.filter(pa.array(usable)), "position": self.positions[usable]}

    def unknown_texts(self) -> list[str]:
        """Examples of cells outside the domain; they are values of people."""
        import pyarrow as pa

        texts: list[str] = as_text(self.cells.filter(pa.array(self.positions == UNKNOWN))).to_pylist()
        return texts[:MOST_SHOWN]


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A table together with its counts, and what is needed to find its records again.

    Attributes:
        table: The table, opened in its engine.
        counts: The counts, with the account of every record.
        encodings: For every counted column, the positions of its distinct cells.
        pairs: Where persons are counted: the relation (who, val, cell, n) that says which value of which
            person counts at which combination. It stays in the engine.
        relations: What the engine holds for that, to be discarded after use.
    """

    table: Table
    counts: Counts
    encodings: tuple[Encoding, ...]
    pairs: str | None = None
    relations: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """What the counts mean."""
        return self.counts.schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The SQL expressions by which the table was grouped."""
        return _keys(self.table, self.schema)


def count(
    table: Table,
    schema: Schema,
    *,
    unknown: UnknownPolicy = "refuse",
    remedy: str = REMEDY,
    helpful: tuple[str, ...] = (),
    show_values: ShowValues | None = None,
    weighted: bool = False,
    progress: Progress | None = None,
) -> CountedTable:
    """Counts a table by (quasi-identifiers, sensitive); the records are read once.

    Args:
        table: The table.
        schema: Roles and domains of its columns; columns that it does not name are not read.
        unknown: What to do with a value outside its domain: refuse the table, or leave its record out.
        remedy: What somebody can do whose table is refused for it.
        helpful: The parameters that are for that.
        show_values: Is told every column with such values, and examples of them.
        weighted: Whether the weights of the records are added up, if the schema names a column of them.
        progress: Is told how far the reading is.

    Raises:
        DataError: A column is missing; a value lies outside its domain or is missing where that is refused; a
            weight is none.
    """
    tally = _Tally(schema)
    table, accounting, encodings = _tallied(
        tally, table, schema, unknown, remedy, helpful, show_values, progress, weighted=weighted
    )
    return CountedTable(table, tally.counts(accounting), encodings)


def count_into(
    keep: Callable[[Cells], object],
    table: Table,
    schema: Schema,
    *,
    unknown: UnknownPolicy = "refuse",
    show_values: ShowValues | None = None,
    progress: Progress | None = None,
) -> Accounting:
    """Counts a table as `count` does, but hands the cells on batch by batch, and keeps none in memory.

    Args:
        keep: Is given some cells, in any order.
        table: The table.
        schema: See `count`, also for the rest.
        unknown: See there.
        show_values: See there.
        progress: See there.
    """
    tally = _Tally(schema, keep)
    return _tallied(tally, table, schema, unknown, REMEDY, (), show_values, progress)[1]


def _tallied(
    tally: _Tally,
    table: Table,
    schema: Schema,
    unknown: UnknownPolicy,
    remedy: str,
    helpful: tuple[str, ...],
    show_values: ShowValues | None,
    progress: Progress | None,
    *,
    weighted: bool = False,
) -> tuple[Table, Accounting, tuple[Encoding, ...]]:
    """The table with composite columns, the account, and the positions of the distinct cells."""
    columns = schema.counted_columns
    table = schema.composed(table)
    table.require(column.name for column in columns)
    engine = table.engine
    weight = schema.weight if weighted else None
    sums = () if weight is None else sql.weight_sums(weight.number(table), weight.largest, UNITS)
    grouped = engine.store(sql.count_by_keys(table.relation, _keys(table, schema), sums), progress)
    with engine.discarding([grouped]):
        encoders = [_Encoder(column) for column in columns]
        for batch in engine.fetch(grouped):
            positions = [encoder.encode(batch.column(place)) for place, encoder in enumerate(encoders)]
            n, *added = (column.to_numpy() for column in batch.columns[len(columns) :])
            tally.add(positions, n, added)
    accounting = tally.accounting()
    encodings = tuple(encoder.encoding() for encoder in encoders)
    if show_values is not None:
        for column, encoding in zip(columns, encodings, strict=True):
            if column.name in accounting.unknown and not isinstance(column.domain, Bins):
                show_values(column.name, encoding.unknown_texts())
    _refuse(schema, accounting, unknown, remedy, helpful)
    if weight is not None:
        weight.check(dict(zip(WRONG_WEIGHTS, tally.n_wrong, strict=True)), accounting.n_counted)
    table.check_read(accounting.n_read)
    return table, accounting, encodings


class _Encoder:
    """Finds positions batch by batch and remembers the distinct cells."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._seen: list[pa.Array] = []

    def encode(self, cells: pa.Array) -> NDArray[np.int64]:
        import pyarrow as pa

        if pa.types.is_nested(cells.type):
            return self._column.encode(cells)  # refuses: lists and structures are in no domain
        if not isinstance(cells, pa.DictionaryArray):
            cells = cells.dictionary_encode(null_encoding="encode")
        distinct = cells.dictionary
        self._seen.append(distinct)
        if sum(map(len, self._seen)) > 2 * len(self._seen[0]) + MOST_REPEATED:
            self._seen = [self._distinct()]
        positions: NDArray[np.int64] = self._positions(distinct)[cells.indices.to_numpy()]
        return positions

    def encoding(self) -> Encoding:
        import pyarrow as pa

        if not self._seen:
            return Encoding(pa.array([], pa.string()), np.empty(0, np.int64))
        cells = self._distinct()
        return Encoding(cells, self._positions(cells))

    def _distinct(self) -> pa.Array:
        """All cells so far, each once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = pa.chunked_array(self._seen).combine_chunks()
        if pa.types.is_floating(cells.type):
            cells = pc.add(cells, pa.scalar(0.0, cells.type))  # -0.0 and 0.0 are one cell to every engine
        return pc.unique(cells)

    def _positions(self, distinct: pa.Array) -> NDArray[np.int64]:
        if not isinstance(self._column.domain, Bins):
            return self._column.encode(distinct)
        # The engine has already found the bin; only the place of missing values is left to find.
        positions: NDArray[np.int64] = distinct.to_numpy(zero_copy_only=False).astype(np.int64)
        if self._column.has_missing:
            positions[positions == NULL] = self._column.domain.size
        return positions


class _Tally:
    """Adds up batches of positions and their numbers of records, or hands their cells on."""

    def __init__(self, schema: Schema, keep: Callable[[Cells], object] | None = None) -> None:
        self._schema = schema
        width = len(schema.counted_columns)
        self._parts: list[Cells] = []
        self._keep = keep or self._parts.append
        self._nulls = np.zeros(width, dtype=np.int64)
        self._unknown = np.zeros(width, dtype=np.int64)
        self._n_read = self._n_counted = self._n_suppressed = self._n_quarantined = 0
        self._weights: list[NDArray[np.int64]] = []
        self.n_wrong = [0] * len(WRONG_WEIGHTS)

    def add(
        self,
        positions: Sequence[NDArray[np.int64]],
        n: NDArray[np.int64],
        sums: Sequence[NDArray[np.int64]] = (),
    ) -> None:
        """Adds a batch: for every column the position of each cell, and how many records they stand for.

        Beside them may be their weights, added up, and how many of these are wrong, by what is wrong.
        """
        self._n_read += int(n.sum())
        # Column by column, which is how they lie in memory: several times as fast as row by row.
        usable = np.ones(n.size, dtype=np.bool_)
        for column in positions:
            usable &= column >= 0
        if not usable.all():
            bad, n_bad = np.stack([column[~usable] for column in positions], axis=1), n[~usable]
            unknown = (bad == UNKNOWN).any(axis=1)
            self._nulls += ((bad == NULL) * n_bad[:, np.newaxis]).sum(axis=0)
            self._unknown += ((bad == UNKNOWN) * n_bad[:, np.newaxis]).sum(axis=0)
            self._n_quarantined += int(n_bad[unknown].sum())
            self._n_suppressed += int(n_bad[~unknown].sum())
            positions, n = [column[usable] for column in positions], n[usable]
            sums = [column[usable] for column in sums]
        self._n_counted += int(n.sum())
        first = len(self._schema.names)
        ranks = self._schema.ranks_of_columns(positions[:first])
        for column, values in zip(positions[first:], self._schema.value_slices, strict=True):
            self._keep((ranks, column + values.start if values.start else column, n))
        if sums:
            weights, *wrong = sums
            self._weights += [weights] * len(self._schema.sensitives)
            self.n_wrong = [known + int(more.sum()) for known, more in zip(self.n_wrong, wrong, strict=True)]

    def accounting(self) -> Accounting:
        names = [column.name for column in self._schema.counted_columns]
        return Accounting(
            n_read=self._n_read,
            n_counted=self._n_counted,
            n_suppressed=self._n_suppressed,
            n_quarantined=self._n_quarantined,
            nulls=dict(zip(names, self._nulls.tolist(), strict=True)),
            unknown=dict(zip(names, self._unknown.tolist(), strict=True)),
        )

    def counts(self, accounting: Accounting) -> Counts:
        empty = np.empty(0, dtype=np.int64)
        ranks, values, n = (
            np.concatenate([empty, *(part[place] for part in self._parts)]) for place in range(3)
        )
        counts = Counts.from_cells(self._schema, ranks, values, n, accounting)
        if not self._weights:
            return counts
        n_values = self._schema.n_values
        cells = np.searchsorted(
            counts.rows * n_values + counts.values, np.searchsorted(counts.ranks, ranks) * n_values + values
        )
        weights = np.zeros(counts.n.size, dtype=np.int64)
        np.add.at(weights, cells, np.concatenate(self._weights))
        weights.setflags(write=False)
        return replace(counts, weights=weights)


def _keys(table: Table, schema: Schema) -> tuple[str, ...]:
    return tuple(grouping_key(column, table.kind_of(column.name)) for column in schema.counted_columns)


def grouping_key(column: Column, kind: ValueKind) -> str:
    """The SQL expression by which a column is grouped and joined.

    Mostly the column itself. Real numbers become their bin, and moments their day, inside the engine:
    grouping by the raw values would bring nearly every record back.
    """
    name = sql.identifier(column.name)
    if isinstance(column.domain, Bins):
        if kind not in {"integer", "real", "text"}:
            raise DataError(
                f"Column {column.name!r} does not hold numbers that could be put into bins.",
                found=f"Its values are of kind {kind}.",
                remedy="Correct the kind of the column in the schema, or convert the column.",
            )
        return sql.bin_of(name, kind, column.domain.edges, column.missing, missing=NULL, unknown=UNKNOWN)
    if isinstance(column.domain, Dates) and kind == "timestamp":
        return f"CAST({name} AS DATE)"
    if isinstance(column.domain, Integers) and kind == "real":
        # As Python reads it. Exact numbers of any length, which some engines have, would not come back.
        return f"CAST({name} AS DOUBLE)"
    return name


def _refuse(
    schema: Schema, accounting: Accounting, unknown: UnknownPolicy, remedy: str, helpful: tuple[str, ...]
) -> None:
    forbidden = {
        column.name: accounting.nulls[column.name]
        for column in schema.counted_columns
        if column.nulls == "refuse" and column.name in accounting.nulls
    }
    if forbidden:
        raise DataError(
            "The table has missing values where the schema allows none.",
            found=f"{_listed(forbidden)}, of {counted(accounting.n_read, 'record')}.",
            remedy="Fill these cells, or take these records out of the table. A schema can allow them (nulls "
            '= "category" or "suppress"); that of a plan is sealed, so ask whoever made it for a new plan.',
        )
    if unknown == "refuse" and accounting.unknown:
        raise DataError(
            "The table has values outside their domains.",
            found=f"{_listed(accounting.unknown, _domains(schema))}, of "
            f"{counted(accounting.n_read, 'record')}.",
            remedy=f"{remedy} Examples can be shown.",
            parameter=(*helpful, "show_values"),
        )


def _listed(tally: Mapping[str, int], domains: Mapping[str, str] | None = None) -> str:
    beside = {name: f" (its domain is {words})" for name, words in (domains or {}).items()}
    return ", ".join(f"column {name!r}: {n}{beside.get(name, '')}" for name, n in tally.items())


def _domains(schema: Schema) -> dict[str, str]:
    """What each column may hold: a range, or how many values; the schema and the plan list them."""
    return {
        column.name: f"{counted(column.domain.size, 'value')}"
        if isinstance(column.domain, Categories)
        else column.domain.label(0, column.domain.size - 1)
        for column in schema.counted_columns
    }
