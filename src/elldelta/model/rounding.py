"""Random rounding: a model whose counts are near the true ones, and that may be asked any question.

A count lies between two rungs of a ladder (`elldelta.core.distribution`). It goes to one of them at random,
to the nearer one more likely, so that it is right on average and so are sums of many.
What is computed from the rounded counts, however often, tells no more about a count than its rung does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.ladder import ladder
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rounded(model: Model, random: np.random.Generator) -> Model:
    """The model with every count at a rung; it may be left without a record."""
    counts = model.counts
    rungs = ladder(int(counts.n.max(initial=0)))
    above = np.searchsorted(rungs, counts.n)  # n lies above the rung before, and not above this one
    low, high = rungs[np.maximum(above - 1, 0)], rungs[above]
    n = np.where(random.random(counts.n.size) * (high - low) < counts.n - low, high, low)
    n = n if len(model.schema.sensitives) == 1 else _balanced(counts, n)
    kept = n > 0
    total = int(n[counts.values < model.schema.sensitive.size].sum())
    # Only whether somebody has several records, and several values, not how many people have.
    repeated, further = (min(1, n) for n in (model.accounting.n_repeated, model.accounting.n_further))
    return Model(
        Counts.from_cells(
            model.schema,
            counts.ranks[counts.rows][kept],
            counts.values[kept],
            n[kept],
            Accounting(total + repeated, total, n_repeated=repeated, n_further=further),
        )
    )


def _balanced(counts: Counts, n: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rounded counts of several sensitive columns, so that every combination has as many records in each.

    Only rounded counts are looked at, so nothing more is told. The first column decides how many records
    there are; a combination that has lost all records of a column is left out.
    """
    starts = [values.start for values in counts.schema.value_slices]
    column_of = np.searchsorted(starts, counts.values, side="right") - 1
    sums = np.zeros((counts.n_combinations, len(starts)), dtype=np.int64)
    np.add.at(sums, (counts.rows, column_of), n)
    wanted = np.where((sums > 0).all(axis=1), sums[:, 0], 0)
    scaled: NDArray[np.int64] = n * wanted[counts.rows] // np.maximum(sums[counts.rows, column_of], 1)
    short = np.repeat(wanted[:, np.newaxis], len(starts), axis=1)
    np.subtract.at(short, (counts.rows, column_of), scaled)
    # What is left over goes to the largest cell of the column there.
    order = np.lexsort((-n, column_of, counts.rows))
    place = counts.rows[order] * len(starts) + column_of[order]
    first = order[np.flatnonzero(np.diff(place, prepend=-1))]
    scaled[first] += short[counts.rows[first], column_of[first]]
    return scaled
