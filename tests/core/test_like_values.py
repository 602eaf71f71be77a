"""Groups of like values: what linking leaves are values, so witnesses are values of different groups."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_promises import releases, shown_of
from tests.oracles import certificate as oracle

from elldelta.core.certificate import certify
from elldelta.core.distribution import JointDistribution, sparse_rows
from elldelta.core.diversity import n_groups_left
from elldelta.core.like_values import largest_of_each, one_of_each
from elldelta.core.linkage import ReleasedCounts, fewest_in_any_group, link
from elldelta.core.linked_state import LinkedState, least_left
from elldelta.core.promises import Shown, Values

CANCERS = np.array([0, 0, 1])  # lung cancer, stomach cancer, flu


def test_counting_groups_release_by_release_is_found_out():
    """Both tables show a cancer and the flu. Linked they leave the flu: nobody has both cancers."""
    first, second = [[3, 0, 4]], [[0, 2, 5]]
    grouped = Values.of([[0, 1]], 2, ell=2, releases=2)
    for table in (first, second):
        by_group = [[table[0][0] + table[0][1], table[0][2]]]
        assert certify([grouped], Shown.of(by_group)).is_certified
    left = oracle.linked([(first, (0,), ()), (second, (0,), ())], 0)
    assert left == {2}
    # Witnesses that are values of different groups: one of the two tables does not pass.
    for witness in (0, 1):
        promise = Values.of([[witness, 2]], 3, ell=2, releases=2)
        assert not all(certify([promise], Shown.of(table)).is_certified for table in (first, second))


@settings(deadline=None)
@given(st.data())
def test_certified_releases_leave_ell_groups(data):
    n_values = data.draw(st.integers(2, 5))
    groups = data.draw(st.lists(st.integers(0, 3), min_size=n_values, max_size=n_values))
    by_group = [[value for value in range(n_values) if groups[value] == group] for group in set(groups)]
    witnesses = [data.draw(st.tuples(*(st.sampled_from(values) for values in by_group))) for _ in range(2)]
    ell = data.draw(st.integers(1, len(by_group)))
    t = data.draw(st.integers(1, 3))
    promise = Values.of(witnesses, n_values, ell=ell, releases=t)
    made = data.draw(st.lists(releases(2, n_values), min_size=1, max_size=t))
    if all(certify([promise], shown_of(*release)).is_certified for release in made):
        for base in range(2):
            left = oracle.linked(made, base)
            assert left is None or len({groups[value] for value in left}) >= ell


@pytest.mark.parametrize("is_sparse", [True, False])
def test_one_value_of_each_group_is_kept(is_sparse):
    dense = np.array([[5, 1, 0, 2], [0, 3, 3, 0], [1, 2, 0, 9]])
    groups = np.array([0, 0, 1, 1])
    distribution = JointDistribution.from_counts(dense)
    if is_sparse:
        rows, values = np.nonzero(dense)
        offsets = np.searchsorted(rows, np.arange(4))
        table = sparse_rows(offsets, values.astype(np.int32), dense[rows, values], 4)
        distribution = JointDistribution(table, distribution.total)

    def written_out(one):
        return np.concatenate([block for _, block in one.dense_blocks()]).tolist()

    one = one_of_each(distribution, groups)  # 6 of either of the first two: the first
    assert written_out(one) == [[5, 0, 0, 2], [0, 0, 0, 0], [1, 0, 0, 9]]
    assert one.quasi_identifier_marginal.tolist() == distribution.quasi_identifier_marginal.tolist()
    each = largest_of_each(distribution, groups)
    assert written_out(each) == [[5, 0, 0, 2], [0, 3, 3, 0], [0, 2, 0, 9]]


def test_groups_are_counted_once():
    left = np.array([[True, True, False], [False, True, True], [False, False, False]])
    assert n_groups_left(left, CANCERS).tolist() == [1, 2, 0]
    assert n_groups_left(left, None).tolist() == [2, 2, 0]


@pytest.mark.parametrize("seed", range(5))
def test_what_linking_leaves_is_counted_in_groups_everywhere(seed):
    """Against the definition: every cell, every group of releases that somebody can be in."""
    rng = np.random.default_rng(seed)
    n_cells, groups = 12, rng.integers(0, 3, 70)
    made = [
        ReleasedCounts.from_rows(
            np.arange(n_cells) % 4 if not j else rng.permutation(n_cells) % 4,
            rng.poisson(0.6, (4, 70)),
            groups,
        )
        for j in range(3)
    ]
    linked = link(made)
    for row, counts in zip(linked.class_diversities, linked.counts, strict=True):
        assert row == len({groups[value] for value in np.flatnonzero(counts)})
    fewest = fewest_in_any_group(made)
    classes = [own.partition.class_of for own in made[:2]]
    states = [LinkedState.empty(4, 70, 1).joined(own.counts) for own in made[:2]]
    running = least_left(made[2].counts[made[2].partition.class_of], states, classes, groups=groups)
    for cell in range(n_cells):
        rows = [own.counts[own.partition.class_of[cell]] > 0 for own in made]
        left = {
            members: np.logical_and.reduce([rows[j] for j in members])
            for n in (1, 2, 3)
            for members in combinations(range(3), n)
        }
        numbers = {key: len({groups[value] for value in np.flatnonzero(own)}) for key, own in left.items()}
        assert fewest[cell] == min((number for number in numbers.values() if number), default=0)
        with_last = [number for key, number in numbers.items() if number and 2 in key]
        assert running[cell] == min(with_last, default=-1)
    assert fewest.min() < 3


def earth_mover(first, second):
    """Earth mover's distance between two distributions of n ordered values, from 0 to 1."""
    shares = [np.array(counts) / sum(counts) for counts in (first, second)]
    return float(np.abs(np.cumsum(shares[0] - shares[1])).sum() / (len(first) - 1))


@pytest.mark.parametrize("n_values", [4, 10, 100])
def test_the_earth_movers_distance_does_not_add_up(n_values):
    """Two tables, each nearly the reference along the order; linked they leave one value, at the end."""
    reference = [1] * n_values
    evens = [2, 0] * (n_values // 2)
    odds = [1, 1, *[0, 2] * (n_values // 2 - 1)]
    linked = np.minimum(evens, odds).tolist()
    assert linked == [1] + [0] * (n_values - 1)
    apart = [earth_mover(table, reference) for table in (evens, odds)]
    assert max(apart) <= 1 / (n_values - 1)
    assert earth_mover(linked, reference) == pytest.approx(0.5)
    # What adds up bounds it, too: nobody has to be moved further than from one end to the other.
    for table in (evens, odds, linked):
        shares = [np.array(counts) / sum(counts) for counts in (table, reference)]
        assert earth_mover(table, reference) <= np.abs(shares[0] - shares[1]).sum() / 2 + 1e-12
