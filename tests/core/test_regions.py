"""Trees that separate regions: which cuts are made, what they leave, and what is joined below them."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core.box_tree import CutTree
from elldelta.core.distribution import JointDistribution, frozen
from elldelta.core.generalize.bounds import BoundResult, SharpBound
from elldelta.core.regions import Area, Cut, joined_tree, upper_cuts

LEAF = (np.array([-1]), np.array([0]))


@st.composite
def regions(draw):
    """Positions that occur, a hierarchy or none, and the mass of each region."""
    size = draw(st.integers(1, 12))
    occupied = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    masses = draw(st.lists(st.integers(1, 9), min_size=len(occupied), max_size=len(occupied)))
    if size == 1 or draw(st.booleans()):
        return size, occupied, masses, None
    parents = np.cumsum(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return size, occupied, masses, CutTree(np.array([np.arange(size), parents, np.zeros(size, int)]))


@given(regions(), st.integers(1, 12))
def test_areas_keep_what_is_asked_and_follow_the_hierarchy(given_regions, least):
    size, occupied, masses, tree = given_regions

    def passes(start, stop):
        return sum(masses[start:stop]) >= least

    depths = None if tree is None else tree.depths
    nodes = upper_cuts(np.array(occupied), size, depths, passes)
    areas = [node for node in nodes if isinstance(node, Area)]
    assert [place for area in areas for place in range(*area)] == list(range(len(occupied)))
    joined = joined_tree(nodes, 0, [LEAF for _ in areas], (size,))
    for area, low, high in zip(areas, joined.lows[joined.leaves], joined.highs[joined.leaves], strict=True):
        inside = [place for place in occupied if low[0] <= place <= high[0]]
        assert inside == occupied[slice(*area)]
        assert len(areas) == 1 or passes(*area)
        if tree is not None:  # a node, or a run of siblings
            assert _is_run_of_siblings(tree.levels, low[0], high[0])
        for place in range(low[0], high[0]):  # nothing more could be cut
            may_be_cut = tree is None or tree.depths[place] == tree.depths[low[0] : high[0]].max()
            n_below = sum(other <= place for other in inside)
            if may_be_cut and 0 < n_below < len(inside):
                below = area.start + n_below
                assert not (passes(area.start, below) and passes(below, area.stop))


def _is_run_of_siblings(levels, low, high):
    """Whether an interval is made of whole groups of one level inside one group of the next."""
    for groups, parents in pairwise(levels):
        whole = all(
            low <= place <= high
            for place in range(levels.shape[1])
            if groups[place] in groups[low : high + 1]
        )
        if whole and len(set(parents[low : high + 1].tolist())) == 1:
            return True
    return False


def test_regions_are_halved_in_the_middle_of_their_gaps():
    nodes = upper_cuts(np.array([0, 10, 20, 23]), 30, None, lambda start, stop: True)
    assert nodes == [Cut(14), Cut(4), Area(0, 1), Area(1, 2), Cut(21), Area(2, 3), Area(3, 4)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.sampled_from([1, 4]), st.integers(0, 99))
def test_what_parts_promise_is_joined_to_what_all_promise(sizes, k, seed):
    rng = np.random.default_rng(seed)
    tables = [rng.integers(1, 9, (n_rows, 5)) for n_rows in sizes]
    bound = SharpBound(2, 40, 2, checked_by="owner", k=k)
    total = sum(table.sum() for table in tables)
    parts = [bound.evaluate(JointDistribution(frozen(table), total)) for table in tables]
    joined = BoundResult.joined(parts)
    whole = bound.evaluate(JointDistribution(frozen(np.concatenate(tables)), total))
    assert list(map(list, joined.witnesses)) == list(map(list, whole.witnesses))
    np.testing.assert_array_equal(joined.failures, whole.failures)
    assert joined.failure_upper == whole.failure_upper
