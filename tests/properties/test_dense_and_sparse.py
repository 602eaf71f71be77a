"""One table in two forms, dense and sparse: the same classes, witnesses and bounds, to the last bit.

Counts are whole numbers, so their sums have no rounding and nothing may depend on the form. The sparse
results are also judged by the definitions (`tests.oracles`), so that the two cannot be wrong together.
"""

import numpy as np
import pytest
from tests.oracles import boxes as oracle
from tests.oracles.sparse import to_sparse
from tests.planned import evaluate_sharp, fewest_records, intervals
from tests.planned import make_boxes as boxes
from tests.switch import quick_or_all

from elldelta.core import distribution as tables
from elldelta.core.accountant import ReleaseEvent, profile_of
from elldelta.core.distribution import JointDistribution, SparseRows
from elldelta.core.generalize import boxes as boxes_module
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.partition import Partition, greedy
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.parameters import PLAN_KINDS
from elldelta.plan.planner import make_plan
from elldelta.plan.wish import Wish
from elldelta.schema.schema import Categories, Column, Integers, Schema

SEEDS = range(quick_or_all(2, 4))


@pytest.fixture(autouse=True)
def _every_table_is_large(monkeypatch):
    """Sums of sparse rows stay sparse, and are read in small blocks, however small the table of a test."""
    monkeypatch.setattr(tables, "LARGE_TABLE", 0)
    monkeypatch.setattr(tables, "BLOCK", 100)


def random_table(seed, n_rows=300, density=None):
    """Counts of which from nearly none to nearly all are above zero; every row and every value occurs."""
    rng = np.random.default_rng(seed)
    n_values = int(rng.integers(4, 40))
    density = density or float(rng.choice([0.03, 0.1, 0.4, 0.9]))
    table = rng.geometric(0.3, (n_rows, n_values)) * (rng.random((n_rows, n_values)) < density)
    table[np.arange(n_rows), rng.integers(0, n_values, n_rows)] += 1
    table[rng.integers(0, n_rows, n_values), np.arange(n_values)] += 1
    return table


def written_out(distribution):
    return np.concatenate([block for _, block in distribution.dense_blocks()])


def both_forms(table):
    dense = JointDistribution.from_counts(table)
    sparse = JointDistribution(to_sparse(dense.mass), dense.total)
    return dense, sparse


def same_plan(one, other):
    assert one.partition == other.partition
    assert one.failure_upper == other.failure_upper
    assert one.n_records == other.n_records
    assert one.class_failures_upper.tolist() == other.class_failures_upper.tolist()
    for own, others in zip(one.witnesses, other.witnesses, strict=True):
        assert own.tolist() == others.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy(seed):
    dense, sparse = both_forms(random_table(seed))
    p_ell = float(dense.ranked_marginal[2])
    for share in (1.0, 0.3, 0.05, 0.01):
        partition = greedy(dense, 3, share * p_ell)
        assert partition == greedy(sparse, 3, share * p_ell)
        assert isinstance(sparse.generalized(partition).mass, SparseRows)
        assert (written_out(sparse.generalized(partition)) == dense.generalized(partition).mass).all()
        assert partition.snapped_p(sparse, 3) == partition.snapped_p(dense, 3)
        assert partition.is_admissible(sparse, 3, share * p_ell)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("checked_by", ["nobody", "owner", "ledger"])
def test_one_column(seed, checked_by):
    table, options = random_table(seed), {"checked_by": checked_by}
    dense, sparse = both_forms(table)
    one, other = (intervals(d, 2, 3000, 2, 0.05, options) for d in (dense, sparse))
    same_plan(one, other)
    assert one.n_classes > 1
    same_plan(*(evaluate_sharp(d, one.partition, 2, 2000, 3, options) for d in (dense, sparse)))
    same_plan(*(fewest_records(d, one.partition, 2, 2, 0.05, options) for d in (dense, sparse)))
    same_plan(*(intervals(d, 2, 3000, 2, 0.05, {**options, "per_class": True}) for d in (dense, sparse)))
    masses = written_out(sparse.generalized(one.partition)) / sparse.total
    exact = [oracle.chance_of_too_few(cells[cells > 0], 2, 3000) for cells in masses[:5]]
    assert (
        other.class_failures_upper[:5] * (2 if checked_by == "owner" else 1) >= np.array(exact) - 1e-12
    ).all()


CRITERIA = {
    "total": SharpBound(2, 3000, 1, 0.05),
    "total, certifiable": SharpBound(2, 3000, 2, 0.05, checked_by="owner"),
    "each": SharpBound(2, 3000, 2, 0.1, per_class=True, checked_by="owner"),
}


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA.keys())
@pytest.mark.parametrize("many", [False, True], ids=["few rows", "many rows"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_boxes(criterion, many, seed, monkeypatch):
    if many:
        monkeypatch.setattr(boxes_module, "MANY_ROWS", 1)
    rng = np.random.default_rng(seed)
    table, sizes = random_table(seed, n_rows=200), (12, 11, 9)
    ranks = np.sort(rng.choice(np.prod(sizes), len(table), replace=False))
    positions = np.stack(np.unravel_index(ranks, sizes), axis=1)
    if seed == 1:
        table[5:9] = 0  # rows that never occur belong to the box around them
    dense, sparse = both_forms(table)
    one, other = (boxes(d, positions, sizes, criterion) for d in (dense, sparse))
    assert one.n_classes > 1
    assert one.partition == other.partition
    assert one.loss == other.loss
    assert (one.lows == other.lows).all()
    assert (one.highs == other.highs).all()
    same_plan(one, other)
    assert other.loss == pytest.approx(
        oracle.ncp(table, positions, sizes, other.partition.class_of), rel=1e-9, abs=1e-12
    )


def test_the_accountant():
    dense, sparse = both_forms(random_table(1))
    partition = greedy(dense, 3, float(dense.ranked_marginal[2]) / 5)
    profiles = [
        profile_of([ReleaseEvent(partition, written_out(d.generalized(partition)) / d.total, 500, 2)])
        for d in (dense, sparse)
    ]
    assert profiles[0].failures_upper.tolist() == profiles[1].failures_upper.tolist()


def test_a_form_that_loses_a_cell_is_noticed():
    """What these tests would catch: one record fewer in one cell changes the plan."""
    dense, sparse = both_forms(random_table(2))
    cells = sparse.mass.cells.copy()
    cells[int(np.argmax(cells))] -= 1
    broken = JointDistribution(sparse.mass._replace(cells=cells), dense.total)
    partition = Partition.single(dense.n_quasi_identifiers)
    one, other = (evaluate_sharp(d, partition, 2, 40) for d in (dense, broken))
    assert one.failure_upper != other.failure_upper


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_a_plan_is_the_same_file_whatever_the_form(kind, monkeypatch):
    table = random_table(4, n_rows=250, density=0.3)
    rows, values = np.nonzero(table)
    ranks = np.sort(np.random.default_rng(4).choice(30 * 20, len(table), replace=False))
    schema = Schema(
        quasi_identifiers=(Column("code", Integers(0, 29)), Column("age", Integers(0, 19))),
        sensitive=Column("value", Categories(tuple(f"v{value:02d}" for value in range(table.shape[1])))),
    )
    n = table[rows, values]
    accounting = Accounting(int(n.sum()), int(n.sum()))
    wish = Wish(ell=2, releases=2, delta=0.02, records=5000, kind=kind)

    def made():
        return make_plan(Model(Counts.from_cells(schema, ranks[rows], values, n, accounting)), wish)

    def form():
        return Counts.from_cells(schema, ranks[rows], values, n, accounting).distribution.mass

    assert isinstance(form(), SparseRows)
    sparse = made()
    monkeypatch.setattr(tables, "LARGE_TABLE", 1 << 22)
    assert isinstance(form(), np.ndarray)
    dense = made()
    assert sparse.digest == dense.digest
    assert sparse.n_classes > 1
