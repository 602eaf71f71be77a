"""A model whose table would not fit is made all the same: nothing on the way writes its zeros out."""

import tracemalloc

import numpy as np
import pytest

from elldelta.core import distribution
from elldelta.core.distribution import SparseRows
from elldelta.errors import DataError
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model, read_model, write_model
from elldelta.plan.planner import make_plan
from elldelta.plan.wish import Wish
from elldelta.schema.schema import Categories, Column, Integers, Schema

N_VALUES = 1000


@pytest.fixture
def model_file(tmp_path):
    """6,000 combinations x 1000 values, of which some 24,000 cells are above zero: 48 MB if written out."""
    rng = np.random.default_rng(1)
    ranks = np.repeat(np.sort(rng.choice(75 * 100, 6000, replace=False)), 4)
    values = (N_VALUES * rng.random(ranks.size) ** 6).astype(np.int64)
    n = rng.integers(1, 4, ranks.size)
    schema = Schema(
        quasi_identifiers=(Column("code", Integers(0, 74)), Column("age", Integers(0, 99))),
        sensitive=Column("value", Categories(tuple(f"v{value:03d}" for value in range(N_VALUES)))),
    )
    accounting = Accounting(int(n.sum()), int(n.sum()))
    path = tmp_path / "model.parquet"
    write_model(Model(Counts.from_cells(schema, ranks, values, n, accounting)), path)
    return path


@pytest.mark.parametrize("kind", ["certified", "paper"])
def test_zeros_take_no_memory(model_file, kind, monkeypatch):
    monkeypatch.setattr(distribution, "BLOCK", 1 << 16)
    wish = Wish(ell=3, releases=2, records=6000, kind=kind, delta=0.02)
    make_plan(read_model(model_file), wish)  # what the compiler needs is no part of the question
    tracemalloc.start()
    try:
        model = read_model(model_file)
        assert isinstance(model.to_distribution().mass, SparseRows)
        made = make_plan(model, wish)
        loss = made.loss(model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.n_classes > 10
    assert 0.0 < loss < 1.0
    assert peak < 6000 * N_VALUES * 8 / 4


def test_what_needs_the_whole_table_says_that_it_does_not_fit(model_file):
    with pytest.raises(DataError, match="zeros included, does not fit") as caught:
        read_model(model_file).counts.dense(most_cells=6000 * N_VALUES - 1)
    assert "6,000 combinations" in caught.value.found
