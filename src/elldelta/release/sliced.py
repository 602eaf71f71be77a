"""Releases with several sensitive columns: what each shows, and whether rows tie them together.

Per-column promises hold only if rows do not tie the columns together. So a release is generated from the
counts of each column by itself, and whoever reads one checks that its rows are just those: other rows with
the same counts could tell which values belong to one person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.diversity import class_diversities
from elldelta.release.rows import ReleaseRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema


def diversities_by_column(schema: Schema, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """How many values, or groups of like values, every class shows of each sensitive column."""
    tables = zip(schema.sensitives, schema.by_column(counts), strict=True)
    return [class_diversities(own, column.value_groups) for column, own in tables]


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
        values: Its value in every sensitive column, numbered among all values.
        n: How often it occurs.
    """
    parts = list(zip(*ReleaseRows(schema, (), counts).coded(), strict=True))
    expected = [np.concatenate(column) for column in parts]
    found = [classes, *(own - places.start for own, places in zip(values, schema.value_slices, strict=True))]
    keys = np.zeros(n.size + (expected[0].size if expected else 0), dtype=np.int64)
    for own, others in zip(found, expected, strict=True):
        both = np.concatenate([own, others])
        # One column at a time, numbered again: numbers stay small.
        _, keys = np.unique(keys * (int(both.max(initial=0)) + 1) + both, return_inverse=True)
    differences = np.zeros(int(keys.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(differences, keys[: n.size], n)
    np.subtract.at(differences, keys[n.size :], 1)
    return not differences.any()
