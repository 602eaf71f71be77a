"""Theorem H: witnesses in common for classes among which somebody may move."""

from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_promises import releases, shown_of
from tests.oracles import certificate as oracle

from elldelta.core.certificate import certify
from elldelta.core.distribution import JointDistribution, sparse_rows
from elldelta.core.generalize.bounds import SharpBound, holds
from elldelta.core.generalize.boxes import position_weights
from elldelta.core.ledger_state import LedgerState, Missed
from elldelta.core.movers import CommonWitnesses, common_boxes, ranges_of
from elldelta.core.promises import Shown, Values
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError, RefusedError


@st.composite
def common_values(draw, most_releases=3):
    """A promise about one to three classes in one or two ranges, and t."""
    ranges = draw(st.sampled_from([(0,), (0, 0), (0, 1), (0, 0, 0), (0, 0, 1), (0, 1, 0)]))
    n_values = draw(st.integers(2, 5))
    ell = draw(st.integers(1, n_values))
    t = draw(st.integers(1, most_releases))
    r = draw(st.integers(1, 2))
    values = st.lists(st.integers(0, n_values - 1), min_size=ell, unique=True)
    each = [draw(values) for _ in range(max(ranges) + 1)]
    witnesses = [each[number] for number in ranges]
    return Values.of(witnesses, n_values, ell=ell, releases=t, min_records=r, ranges=np.array(ranges))


@settings(deadline=None)
@given(st.data())
def test_certified_releases_leave_ell_values_on_every_path(data):
    promise = data.draw(common_values())
    shape = promise.witnesses.shape
    made = data.draw(st.lists(releases(*shape), min_size=1, max_size=promise.releases))
    if all(certify([promise], shown_of(*release)).is_certified for release in made):
        fewest = oracle.fewest_on_any_path(made, promise.ranges.tolist(), promise.min_records)
        assert fewest is None or fewest >= promise.ell


@settings(deadline=None)
@given(st.data())
def test_every_subset_of_what_is_admitted_leaves_ell_values_on_every_path(data):
    promise = data.draw(common_values())
    ranges, state = promise.ranges.tolist(), LedgerState.empty([promise])
    admitted = []
    for release in data.draw(st.lists(releases(*promise.witnesses.shape), max_size=4)):
        shown = shown_of(*release)
        # From the definition: what any release misses in any class of a range, or the worst class of each.
        witnesses = witnesses_of(promise)
        lines = [oracle.missed(witnesses, *own, promise.min_records) for own in [*admitted, release]]
        is_enough = all(enough(promise, lines, ranges, number) for number in set(ranges))
        assert state.admits(shown) == is_enough
        if certify(state.left(), shown).is_certified:
            assert is_enough
        if is_enough:
            state = state.admit(shown)
            admitted.append(release)
    for subset in chain.from_iterable(combinations(admitted, n) for n in range(1, len(admitted) + 1)):
        fewest = oracle.fewest_on_any_path(subset, ranges, promise.min_records)
        assert fewest is None or fewest >= promise.ell


def witnesses_of(promise):
    return [np.flatnonzero(row).tolist() for row in promise.witnesses]


def enough(promise, lines, ranges, number):
    classes = [base for base, own in enumerate(ranges) if own == number]
    witnesses = set(witnesses_of(promise)[classes[0]])
    union = set().union(*(line[base] for line in lines for base in classes))
    worst = sum(max(len(line[base]) for base in classes) for line in lines)
    return len(witnesses - union) >= promise.ell or len(witnesses) - worst >= promise.ell


def test_a_ledger_that_counts_class_by_class_is_found_out():
    """The same tables, the same judge: what is enough for those who stay is not for those who move."""
    common = Values.of([[0, 1, 2]] * 2, 3, ell=2, releases=1, ranges=np.zeros(2, int))
    by_class = Values.of([[0, 1, 2]] * 2, 3, ell=2, releases=1)
    first, second = ([[0, 1, 1], [1, 1, 1]], (0, 1), ()), ([[1, 1, 1], [1, 0, 1]], (0, 1), ())
    state, broken = LedgerState.empty([common]), LedgerState.empty([by_class])
    for table, _, _ in (first, second):
        broken = broken.admit(Shown.of(table))
    assert oracle.linked([first, second], 0) == oracle.linked([second, first], 0) == {1, 2}
    assert oracle.fewest_on_any_path([first, second], [0, 0]) == 1
    state = state.admit(Shown.of(first[0]))
    with pytest.raises(RefusedError, match="Too few of the values"):
        state.admit(Shown.of(second[0]))


def test_what_the_same_values_miss_everywhere_is_counted_once():
    """Either count is enough: the union here, where adding up would refuse the third release."""
    promise = Values.of([[0, 1, 2, 3]] * 2, 4, ell=2, releases=1, ranges=np.zeros(2, int))
    state = LedgerState.empty([promise])
    for _ in range(5):
        state = state.admit(Shown.of([[0, 1, 1, 1]] * 2))
    assert state.rooms[0].tolist() == [1, 1]
    assert state.left()[0].witnesses.tolist() == [[False, True, True, False]] * 2


def test_witnesses_that_are_not_in_common_are_refused():
    with pytest.raises(ParameterError, match="in common"):
        Values.of([[0, 1], [1, 2]], 3, ell=1, releases=1, ranges=np.zeros(2, int))
    with pytest.raises(ParameterError, match="does not fit"):  # a ledger that has forgotten what it counted
        Missed(np.array([[True, False, False], [False, False, False]]), np.zeros(2, int))


def test_ranges_are_what_no_cut_through_columns_that_stay_keeps_apart():
    lows = np.array([[0, 0], [0, 5], [2, 0], [2, 5], [1, 5]])
    highs = np.array([[1, 4], [0, 9], [3, 4], [3, 9], [1, 9]])
    assert ranges_of(lows, highs, [0]).tolist() == [0, 0, 1, 1, 0]
    assert ranges_of(lows, highs, [1]).tolist() == [0, 1, 0, 1, 1]
    assert ranges_of(lows, highs, []).tolist() == [0] * 5
    assert len(set(ranges_of(lows, highs, [0, 1]).tolist())) == 5


def model(seed=0, n_values=6):
    """Two columns of 4 and 12 positions; the values of the first half differ from those of the second."""
    rng = np.random.default_rng(seed)
    positions = np.array(list(product(range(4), range(12))))
    chances = np.where((positions[:, :1] < 2) == (np.arange(n_values) % 2 == 0), 5.0, 1.0)
    counts = rng.poisson(40 * chances)
    return JointDistribution.from_counts(counts), positions


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_boxes_have_their_witnesses_in_common_and_keep_the_limit(per_class, is_sparse):
    distribution, positions = model()
    if is_sparse:
        dense = distribution.mass
        rows, values = np.nonzero(dense)
        offsets = np.searchsorted(rows, np.arange(len(dense) + 1))
        table = sparse_rows(offsets, values.astype(np.int32), dense[rows, values], dense.shape[1])
        distribution = JointDistribution(table, distribution.total)
    bound = SharpBound(2, 600, 2, 0.1, per_class=per_class, checked_by="owner")
    partition, tree, values = common_boxes(
        distribution, positions, (4, 12), bound, trees=[None, None], weights=position_weights((4, 12))
    )
    assert partition.n_classes == tree.n_leaves > 4
    common = CommonWitnesses(np.zeros(tree.n_leaves, dtype=np.int64), Witnesses.of([values]))
    made = common.evaluate(distribution.generalized(partition), bound)
    assert holds((made,))
    assert [own.tolist() for own in made.witnesses] == [values.tolist()] * tree.n_leaves
    assert len(values) >= 2


def test_too_few_values_in_common_are_refused():
    distribution, positions = model()
    bound = SharpBound(6, 5, 2, 0.1, per_class=True, checked_by="owner")
    with pytest.raises(RefusedError, match="in common"):
        common_boxes(
            distribution, positions, (4, 12), bound, trees=[None, None], weights=position_weights((4, 12))
        )


def test_the_failure_of_common_witnesses_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    cells = rng.dirichlet(np.ones(20)).reshape(4, 5)
    bound = SharpBound(2, 9, 1, checked_by="owner")
    common = CommonWitnesses(np.array([0, 0, 1, 1]), Witnesses.of([(0, 1, 2), (4, 2)]))
    found = common.evaluate(JointDistribution(cells, 1.0), bound).classes.failures_upper
    draws = rng.multinomial(9, cells.reshape(-1), size=40_000).reshape(-1, 4, 5)
    for row, values in enumerate(common.witnesses[number] for number in common.range_of):
        misses = (draws[:, row, values] == 0).sum(axis=1)
        chance = (misses > len(values) - 2).mean()
        assert chance <= found[row] * 1.03
        assert found[row] <= 2.0 * chance + 0.01
