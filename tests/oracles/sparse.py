"""The sparse form of a table that is written out, cell by cell."""

from __future__ import annotations

import numpy as np

from elldelta.core.distribution import sparse_rows


def to_sparse(table):
    offsets, values, cells = [0], [], []
    for row in table.tolist():
        values += [value for value, cell in enumerate(row) if cell]
        cells += [cell for cell in row if cell]
        offsets.append(len(values))
    return sparse_rows(
        np.array(offsets),
        np.array(values, dtype=np.int64),
        np.array(cells, dtype=table.dtype),
        table.shape[1],
    )
