"""What a release holds: its records by class and sensitive value, and the digest of these counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.diversity import class_diversities
from elldelta.engines.cells import as_spelled
from elldelta.errors import DataError, counted
from elldelta.files import canonical_json, digest_of_parts
from elldelta.release.runs import count_runs
from elldelta.schema.domains import NULL
from elldelta.schema.labels import shows_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Progress, Table
    from elldelta.schema.schema import Column, Schema

CELLS_AT_ONCE = 1 << 18
"""Cells whose text is joined at a time."""


@dataclass(frozen=True, eq=False)
class ReleaseCounts:
    """The content of a release, as anyone who holds it sees it. Classes are told apart by their labels.

    Attributes:
        labels: For every class its labels, in the order of the columns; None where there is none. Sorted.
        values: The sensitive values that occur, as text; None for a missing one, which comes last. Sorted.
        counts: Records by class and sensitive value.
    """

    labels: tuple[tuple[str | None, ...], ...]
    values: tuple[str | None, ...]
    counts: NDArray[np.int64]

    @property
    def n_records(self) -> int:
        """The number of records of the release."""
        return int(self.counts.sum())

    def with_values(self, values: Sequence[str | None], *, keep_missing: bool) -> ReleaseCounts:
        """The same with other names of the sensitive values; records without one may be left out.

        Values of one name are one value; classes of which nothing is left are none.
        """
        shown = dict.fromkeys(value for value in values if keep_missing or value is not None)
        place = {value: number for number, value in enumerate(shown)}
        counts = np.zeros((len(self.labels), len(place)), dtype=np.int64)
        for value, column in zip(values, self.counts.T, strict=True):
            if value in place:
                counts[:, place[value]] += column
        filled = np.flatnonzero(counts.any(axis=1))
        labels = tuple(self.labels[row] for row in filled.tolist())
        return ReleaseCounts(labels, tuple(place), counts[filled])


def values_shown(values: Sequence[str | None], tokens: Sequence[str]) -> list[str | None]:
    """Sensitive values of a release; None where a text stands for a missing one."""
    return [None if value is None or shows_nothing(value, tokens) else value for value in values]


def count_release(
    table: Table, quasi_identifiers: Sequence[str], sensitive: str, *, progress: Progress | None = None
) -> ReleaseCounts:
    """Counts a release by (labels, sensitive value), in one spelling; the file is read once."""
    labels, classes, [(value_of, values)], n = different_rows(
        table, quasi_identifiers, [sensitive], progress, normalized=True
    )
    counts = np.zeros((len(labels), len(values)), dtype=np.int64)
    np.add.at(counts, (classes, value_of), n)
    counts.setflags(write=False)
    return ReleaseCounts(labels, values, counts)


Coded = tuple["NDArray[np.int64]", tuple[str | None, ...]]


def different_rows(
    table: Table,
    quasi_identifiers: Sequence[str],
    sensitive: Sequence[str],
    progress: Progress | None,
    *,
    normalized: bool = False,
) -> tuple[tuple[tuple[str | None, ...], ...], NDArray[np.int64], list[Coded], NDArray[np.int64]]:
    """The labels of classes; of every different row its class, its coded values, and how often it occurs."""
    import pyarrow as pa

    names = (*quasi_identifiers, *sensitive)
    cells = count_runs(table, names, progress)
    if cells is None:
        cells = pa.Table.from_batches(table.count_texts(names, progress))
    columns = [cells.column(place).combine_chunks() for place in range(len(names))]
    coded = [_coded(as_spelled(column) if normalized else column) for column in columns]
    n = cells.column(len(names)).to_numpy().astype(np.int64)
    table.check_read(int(n.sum()))
    known, values = coded[: len(quasi_identifiers)], coded[len(quasi_identifiers) :]
    # Numbers the rows one column at a time: numbers stay small, and sorting rows is slow.
    classes, examples = np.zeros(n.size, dtype=np.int64), np.zeros(0, dtype=np.intp)
    for codes, texts in known:
        classes, distinct = _in_order(pa.array(classes * max(len(texts), 1) + codes))
        examples = np.zeros(len(distinct), dtype=np.intp)
        examples[classes] = np.arange(n.size)
    labels = tuple(
        zip(*([texts[code] for code in codes[examples].tolist()] for codes, texts in known), strict=True)
    )
    return labels, classes, values, n


def sensitive_texts(schema: Schema) -> tuple[str | None, ...]:
    """The sensitive values of a schema, as releases spell them."""
    return column_texts(schema.sensitive)


def column_texts(column: Column) -> tuple[str | None, ...]:
    """The values of a sensitive column, as releases spell them."""
    return tuple(None if value is None else str(value) for value in column.released_values().to_pylist())


def values_of_schema(schema: Schema, values: Sequence[str | None]) -> list[str | None]:
    """Sensitive values that anybody wrote, as releases spell them; unchanged where the schema has none."""
    import pyarrow as pa

    known = sensitive_texts(schema)
    column = schema.sensitive
    positions = column.encode(pa.array(values, pa.string())).tolist()
    return [
        value if value in known else None if place == NULL else known[place] if place >= 0 else value
        for value, place in zip(values, positions, strict=True)
    ]


def diversities_by_column(schema: Schema, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """How many values, or groups of like values, every class shows of each sensitive column."""
    tables = zip(schema.sensitives, schema.by_column(counts), strict=True)
    return [class_diversities(table, column.value_groups) for column, table in tables]


def unknown_values(column: Column, name: str, n_values: int) -> DataError:
    """The error for a release with sensitive values that its schema does not hold."""
    return DataError(
        f"The sensitive column {column.name!r} holds values that the schema does not know.",
        found=f"{counted(n_values, 'different value')} in {name}.",
        remedy="Use the schema that the release was made with.",
    )


def _coded(texts: pa.Array) -> Coded:
    """Codes of texts in sorted order, a missing one last."""
    codes, distinct = _in_order(texts)
    return codes, tuple(distinct.to_pylist())


def _in_order(values: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """The place of each value among the different ones, and these in their order, a missing one last."""
    import pyarrow.compute as pc

    coded = values.dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(coded.dictionary)
    return np.argsort(order)[coded.indices.to_numpy()], coded.dictionary.take(order)


def released_values(schema: Schema) -> list[Any]:
    """The sensitive values as releases show them; of several columns with the name of their own."""
    if not schema.also_sensitive:
        return list(schema.sensitive.released_values().to_pylist())
    return [
        [column.name, value] for column in schema.sensitives for value in column.released_values().to_pylist()
    ]


def content_digest(
    labels: Sequence[tuple[str, ...]],
    values: Sequence[Any],
    counts: NDArray[np.int64],
    *,
    at_once: int = CELLS_AT_ONCE,
) -> str:
    """The digest of a release's content: every (labels, sensitive value) with its count, in a fixed order.

    It does not depend on the file format, the order of the rows or the engine, nor on how many cells are
    joined at once.
    """
    # The digest of the list of all [*labels, value, n], sorted by their repr: written without making the
    # lists, of which there may be millions. No repr of a class or of a value is the beginning of another one,
    # so that sorting classes and values by theirs sorts the cells.
    class_order = sorted(range(len(labels)), key=[f"{list(texts)!r}" for texts in labels].__getitem__)
    value_order = sorted(range(len(values)), key=[f"{value!r}, " for value in values].__getitem__)
    json_of = {text: _json(text) for text in {text for texts in labels for text in texts}}
    class_texts = [f"[{','.join(map(json_of.__getitem__, labels[place]))}," for place in class_order]
    value_texts = [f"{_json(values[place])}," for place in value_order]
    ordered = counts[np.ix_(class_order, value_order)]
    places = np.flatnonzero(ordered > 0)  # three times as fast as looking for numbers that are not 0
    return digest_of_parts(_cells(class_texts, value_texts, places, np.ravel(ordered)[places], at_once))


def _cells(
    class_texts: list[str],
    value_texts: list[str],
    places: NDArray[np.int64],
    n: NDArray[np.int64],
    at_once: int,
) -> Iterator[bytes | memoryview]:
    """The bytes of the list of all cells with a record, joined by the thousand and not one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, columns = np.divmod(places, len(value_texts))
    first, second = (pa.array(texts, pa.large_string()) for texts in (class_texts, value_texts))
    yield b"["
    for start in range(0, n.size, at_once):
        part = slice(start, start + at_once)
        cells = pc.binary_join_element_wise(
            first.take(pa.array(rows[part])),
            second.take(pa.array(columns[part])),
            pa.array(n[part]).cast(pa.large_string()),
            pa.scalar("],", pa.large_string()),
            pa.scalar("", pa.large_string()),
        )
        texts = memoryview(cells.buffers()[2])[: int(pc.sum(pc.binary_length(cells)).as_py())]
        yield texts if start + at_once < n.size else texts[:-1]
    yield b"]"


def _json(value: Any) -> str:  # noqa: ANN401 (plain JSON)
    return canonical_json(value).decode()
