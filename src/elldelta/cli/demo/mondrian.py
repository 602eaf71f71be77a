"""A plain Mondrian: what a hospital does that makes its own table diverse and nothing else.

It is part of the demonstration, to show what goes wrong. Do not publish with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema


def mondrian(
    positions: NDArray[np.int64], values: NDArray[np.int64], sizes: tuple[int, ...], ell: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]]:
    """Halves boxes at the median while both halves show at least ell values.

    Yields:
        The records of each final box, and its lowest and highest position in each attribute.
    """
    stack = [(np.arange(len(values)), np.zeros(len(sizes), np.int64), np.array(sizes, np.int64) - 1)]
    while stack:
        rows, low, high = stack.pop()
        for attribute in np.argsort(-(high - low) / np.maximum(np.array(sizes) - 1, 1), kind="stable"):
            own = positions[rows, attribute]
            cut = int(np.median(own))
            left = own <= cut
            halves = (rows[left], rows[~left])
            if cut < high[attribute] and all(np.unique(values[half]).size >= ell for half in halves):
                upper, lower = high.copy(), low.copy()
                upper[attribute], lower[attribute] = cut, cut + 1
                stack += [(halves[0], low, upper), (halves[1], lower, high)]
                break
        else:
            yield rows, low, high


def anonymize_alone(
    schema: Schema, positions: NDArray[np.int64], values: NDArray[np.int64], ell: int
) -> pa.Table:
    """A release that is ell-diverse by itself, with labels as the schema writes them."""
    import pyarrow as pa

    columns: list[list[str]] = [[] for _ in schema.names]
    shown: list[NDArray[np.int64]] = []
    for rows, low, high in mondrian(positions, values, schema.sizes, ell):
        for place, column in enumerate(schema.quasi_identifiers):
            columns[place] += [column.label(int(low[place]), int(high[place]))] * len(rows)
        shown.append(np.sort(values[rows]))
    sensitive = schema.sensitive.released_values().take(pa.array(np.concatenate(shown)))
    return pa.table({**dict(zip(schema.names, columns, strict=True)), schema.sensitive.name: sensitive})
