"""The range of every quasi-identifier that was seen in the past: what information is measured against.

A domain may be wider than its people: ages of 0 to 120 where nobody is older than 90. Who is known to be
between 17 and 90 is told nothing by a class of all ages. So loss is measured over what was seen, and so the
search for classes weighs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.schema.domains import Categories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.model import Model
    from elldelta.schema.schema import Schema

FEWER = 5
"""Fewer past records than this lie below the range, and fewer above it: a plan tells the range, and must not
tell the extreme value of one of the people behind it."""

Ranges = tuple[tuple[int, int], ...]
"""The first and the last position of every quasi-identifier."""


def seen_ranges(model: Model) -> Ranges:
    """The shortest ranges that leave fewer than `FEWER` past records on each side.

    Categories without an order have no range: all of them count.
    """
    positions, totals = model.positions, model.counts.combination_totals
    found = list(whole_ranges(model.schema))
    for place, column in enumerate(model.schema.quasi_identifiers):
        if isinstance(column.domain, Categories) and not column.domain.ordered:
            continue
        records = np.bincount(positions[:, place], totals, minlength=column.size)
        low = int(np.searchsorted(np.cumsum(records), FEWER))
        high = column.size - 1 - int(np.searchsorted(np.cumsum(records[::-1]), FEWER))
        if low <= high:  # otherwise there are next to no records
            found[place] = low, high
    return tuple(found)


def whole_ranges(schema: Schema) -> Ranges:
    """The ranges of whole domains."""
    return tuple((0, size - 1) for size in schema.sizes)


def lengths_of(seen: Ranges) -> tuple[int, ...]:
    """How many positions every range has."""
    return tuple(high - low + 1 for low, high in seen)


def clipped(seen: Ranges, ends: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lowest and highest positions of classes inside the ranges, counted from their beginning."""
    lows, highs = np.array(seen, dtype=np.int64).T
    first, last = (np.clip(positions, lows, highs) - lows for positions in ends)
    return first, last
