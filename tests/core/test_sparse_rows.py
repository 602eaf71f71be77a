"""Tables of mass: whatever is asked of sparse rows is what numpy says about the same table written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.oracles.sparse import to_sparse

from elldelta.core import distribution as module
from elldelta.core.distribution import (
    JointDistribution,
    SparseRows,
    is_sparse_better,
    sparse_rows,
    sum_by_group,
    take_rows,
    with_floats,
)
from elldelta.core.partition import Partition
from elldelta.errors import DistributionError

tables = npst.arrays(
    np.int64,
    npst.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
    elements=st.sampled_from([0, 0, 0, 0, 1, 2, 9]),  # empty rows and columns among them
)


def written_out(table):
    return np.concatenate([block for _, block in JointDistribution(table, 1).dense_blocks()])


@given(tables, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_both_forms_say_the_same(table, random):
    sparse = to_sparse(table)
    assert sparse.shape == table.shape
    assert sparse.dtype == table.dtype
    assert (written_out(sparse) == table).all()
    rows = np.array([random.randrange(len(table)) for _ in range(len(table) + 2)])
    assert (written_out(take_rows(sparse, rows)) == table[rows]).all()
    assert with_floats(sparse).dtype == with_floats(table).dtype == np.float64
    for form in (sparse, table):
        distribution = JointDistribution(form, 7)
        assert distribution.row_sums.tolist() == table.sum(axis=1).tolist()
        assert distribution.value_marginal.tolist() == (table.sum(axis=0) / 7).tolist()
        kept = distribution.without_below(2)
        assert kept.total == 7
        assert (written_out(kept.mass) == np.where(table < 2, 0, table)).all()


@given(tables, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
@pytest.mark.parametrize("large", [0, 1 << 22])
def test_sums_by_group(large, table, random):
    """Rows of group -1 are left out, a group without rows sums to nothing, in any order of the groups."""
    n_groups = random.randint(1, len(table) + 2)
    group_of = np.array([random.randrange(-1, n_groups) for _ in range(len(table))], dtype=np.intp)
    if random.random() < 0.5:
        group_of.sort()
    expected = [
        [int(table[group_of == g][:, v].sum()) for v in range(table.shape[1])] for g in range(n_groups)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGE_TABLE", large)
        summed = sum_by_group(to_sparse(table), group_of, n_groups)
        assert isinstance(summed, SparseRows) == (large == 0)
        assert written_out(summed).tolist() == expected
        assert sum_by_group(table, group_of, n_groups).tolist() == expected


def test_groups_of_few_and_of_many_values_come_out_sorted(monkeypatch):
    monkeypatch.setattr(module, "LARGE_TABLE", 0)
    rng = np.random.default_rng(1)
    table = rng.integers(1, 5, (400, 200)) * (rng.random((400, 200)) < 0.05)
    group_of = rng.integers(0, 60, 400) // 3  # groups from some 10 to some 150 values
    group_of[:3] = [20, 21, 22]
    summed = sum_by_group(to_sparse(table), group_of, 23)
    again = sparse_rows(*summed[:3], summed.shape[1])  # checks that values rise
    assert (written_out(again) == [table[group_of == group].sum(axis=0) for group in range(23)]).all()


def test_rows_come_in_blocks_that_fit_into_memory(monkeypatch):
    table = np.arange(1, 71).reshape(10, 7)
    monkeypatch.setattr(module, "BLOCK", 21)
    sparse = JointDistribution(to_sparse(table), 1)
    blocks = list(sparse.dense_blocks())
    assert [start for start, _ in blocks] == [0, 3, 6, 9]
    assert (np.concatenate([block for _, block in blocks]) == table).all()
    assert (sparse.largest_cells(3)[:, 0] == table[:, 4]).all()
    assert (np.sort(sparse.largest_cells(3)) == table[:, 4:]).all()


@pytest.mark.parametrize(
    ("offsets", "values", "cells", "match"),
    [
        ([0, 1, 3], [0, 1], [1, 1], "cover"),
        ([1, 2], [0, 1], [1, 1], "cover"),
        ([0, 2, 1, 2], [0, 1], [1, 1], "cover"),
        ([0], [], [], "fit"),
        ([0, 2], [0, 1], [1], "fit"),
        ([0, 2], [1, 0], [1, 1], "rise"),
        ([0, 2], [1, 1], [1, 1], "rise"),
        ([0, 2], [0, 3], [1, 1], "outside"),
        ([0, 2], [-1, 0], [1, 1], "outside"),
        ([0, 2], [0, 2**32 + 1], [1, 1], "outside"),
        ([0, 2], [0, 1], [1, 0], "above zero"),
        ([0, 2], [0, 1], [-1, 2], "above zero"),
    ],
)
def test_contradictions_are_refused(offsets, values, cells, match):
    arrays = (np.array(part, dtype=np.int64) for part in (offsets, values, cells))
    with pytest.raises(DistributionError, match=match):
        JointDistribution.from_cells(*arrays, 3)


def test_a_distribution_of_sparse_rows():
    table = np.array([[0, 3, 0], [0, 0, 0], [2, 0, 5]])
    sparse = JointDistribution(to_sparse(table), 10)
    dense = JointDistribution.from_counts(table)
    made = JointDistribution.from_cells([0, 1, 1, 3], [1, 0, 2], [3, 2, 5], 3)
    for distribution in (sparse, made):
        assert distribution.total == dense.total
        assert distribution.is_counted
        assert (distribution.n_quasi_identifiers, distribution.n_values) == (3, 3)
        assert distribution.value_marginal.tolist() == dense.value_marginal.tolist()
        assert distribution.quasi_identifier_marginal.tolist() == dense.quasi_identifier_marginal.tolist()
        assert Partition.single(3).snapped_p(distribution, 2) == Partition.single(3).snapped_p(dense, 2)
    with pytest.raises(DistributionError, match="whole numbers"):
        JointDistribution.from_cells([0, 1], [0], [0.5], 1)
    with pytest.raises(DistributionError, match="empty"):
        JointDistribution.from_cells([0, 0], np.empty(0, int), np.empty(0, int), 1)


def test_arrays_are_shared_and_cannot_be_changed():
    counts = np.array([3, 1, 4])
    counts.setflags(write=False)
    distribution = JointDistribution.from_cells([0, 2, 3], [0, 1, 1], counts, 2)
    assert np.shares_memory(distribution.mass.cells, counts)
    for array in distribution.mass[:3]:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_sparse_is_for_large_tables_that_are_mostly_zeros():
    assert not is_sparse_better(1000, 1000, 1000)  # small: dense is quickest
    assert is_sparse_better(10_000, 1000, 200_000)
    assert not is_sparse_better(10_000, 1000, 7_000_000)  # 12 bytes each: dense is smaller
