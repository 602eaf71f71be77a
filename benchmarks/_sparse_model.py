"""A seeded sparse model: postal codes x ages, a thousand diagnoses, twenty of them per combination."""

import numpy as np

from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.schema.schema import Categories, Column, Integers, Schema

N_AGES, N_VALUES = 100, 1000
CELLS_PER_COMBINATION = 20


def schema(n_postal_codes):
    return Schema(
        quasi_identifiers=(
            Column("postal_code", Integers(0, n_postal_codes - 1)),
            Column("age", Integers(0, N_AGES - 1)),
        ),
        sensitive=Column("diagnosis", Categories(tuple(f"D{value:04d}" for value in range(N_VALUES)))),
    )


def sparse_model(n_cells, seed=1):
    """A model with just so many cells above zero, in n_cells / 20 combinations, nearly all that are possible.

    Diagnoses are skewed (the r-th most frequent one in proportion to 1 / (r + 20)), differ by age, and
    combinations differ in how many records they have.
    """
    n_rows = n_cells // CELLS_PER_COMBINATION
    n_postal_codes = -(-n_rows // (N_AGES - 1))
    rng = np.random.default_rng(seed)
    ranks = np.sort(rng.choice(n_postal_codes * N_AGES, n_rows, replace=False))
    weights = 1.0 / (np.arange(N_VALUES) + 20.0)
    cumulated = np.cumsum(weights) / weights.sum()
    # Ages of one decade have their diagnoses in one order; the next decade's differs a little.
    orders = np.argsort(np.arange(N_VALUES) + rng.normal(0.0, 60.0, (N_AGES // 10, N_VALUES)), axis=1)
    rows, values, counts = [], [], []
    for start in range(0, n_rows, 50_000):
        stop = min(n_rows, start + 50_000)
        n_draws = 1 + rng.poisson(rng.gamma(2.0, 12.0, stop - start))
        row = np.repeat(np.arange(start, stop), n_draws)
        value = orders[ranks[row] % N_AGES // 10, np.searchsorted(cumulated, rng.random(row.size))]
        cells, n = np.unique(row * N_VALUES + value, return_counts=True)
        rows.append(cells // N_VALUES)
        values.append(cells % N_VALUES)
        counts.append(n)
    rows, values, counts = (np.concatenate(parts) for parts in (rows, values, counts))
    # Leave out random cells until exactly as many are left as were asked for; the first of each row stays.
    first = np.diff(rows, prepend=-1) > 0
    spare = rng.permutation(np.flatnonzero(~first))[: rows.size - n_cells]
    keep = np.ones(rows.size, dtype=np.bool_)
    keep[spare] = False
    rows, values, counts = rows[keep], values[keep], counts[keep]
    n_records = int(counts.sum())
    accounting = Accounting(n_records, n_records)
    return Model(Counts.from_cells(schema(n_postal_codes), ranks[rows], values, counts, accounting))
