"""Releases with several sensitive columns: how their rows come from counts, and whether rows are such ones.

Per-column promises hold only if rows do not tie the columns together. So a release is generated from the
counts of each column by itself, and whoever reads one checks that its rows are just those: other rows with
the same counts could tell which values belong to one person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.diversity import class_diversities
from elldelta.engines.sliced_rows import SlicedRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema


def sliced_rows(schema: Schema, labels: Sequence[tuple[str, ...]], counts: NDArray[np.int64]) -> SlicedRows:
    """The rows of a release, from the counts of each of its sensitive columns."""
    import pyarrow as pa

    classes = np.arange(len(counts))
    return SlicedRows(
        tuple(
            (name, classes, pa.array([row[place] for row in labels], pa.string()))
            for place, name in enumerate(schema.names)
        ),
        tuple(
            tuple(
                (column.name, codes, column.released_values())
                for column, codes in zip(
                    unit.columns, unit.split(unit.start + np.arange(unit.size)), strict=True
                )
            )
            for unit in schema.units
        ),
        tuple(schema.by_unit(counts)),
    )


def diversities_by_unit(schema: Schema, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """How many values every class shows, for each unit; of tied columns, of the one that shows fewest."""
    if not schema.also_sensitive:
        return [class_diversities(counts, schema.value_groups)]
    found = []
    for unit, own in zip(schema.units, schema.by_unit(counts), strict=True):
        table = own.reshape(len(own), *unit.place.widths)
        axes = range(1, table.ndim)
        parts = [class_diversities(table.sum(axis=tuple(a for a in axes if a != axis))) for axis in axes]
        found.append(np.min(parts, axis=0))
    return found


def made_rows(schema: Schema, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The class of every row that counts lead to, and its value in every unit, in the order of a release."""
    parts = [(numbers, *own) for numbers, own in sliced_rows(schema, (), counts).coded()]
    return [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else []


def is_sliced(
    schema: Schema,
    counts: NDArray[np.int64],
    classes: NDArray[np.int64],
    values: Sequence[NDArray[np.int64]],
    n: NDArray[np.int64],
) -> bool:
    """Whether rows are just those that the counts of each column by itself lead to.

    Args:
        schema: What the columns mean.
        counts: Records by class and sensitive value.
        classes: The class of every different row.
        values: Its value in every unit, numbered among all values.
        n: How often it occurs.
    """
    expected = made_rows(schema, counts)
    found = [classes, *(own - unit.start for own, unit in zip(values, schema.units, strict=True))]
    keys = np.zeros(n.size + (expected[0].size if expected else 0), dtype=np.int64)
    for own, others in zip(found, expected, strict=True):
        both = np.concatenate([own, others])
        # One column at a time, numbered again: numbers stay small.
        _, keys = np.unique(keys * (int(both.max(initial=0)) + 1) + both, return_inverse=True)
    differences = np.zeros(int(keys.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(differences, keys[: n.size], n)
    np.subtract.at(differences, keys[n.size :], 1)
    return not differences.any()
