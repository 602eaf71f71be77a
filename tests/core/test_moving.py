"""Classes that move up a tree against an oracle, and the coins of their decoys."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.oracles import moving as oracle
from tests.trees import random_tree

from elldelta.core.box_tree import LEAF, BoxTree
from elldelta.core.certificate import certify
from elldelta.core.ledger_state import LedgerState
from elldelta.core.moving import Moving, decoy_heights, move_up
from elldelta.core.partition import Partition
from elldelta.core.promises import Close, Shown, Size, Values
from elldelta.errors import ParameterError, RefusedError

SECRET = bytes(range(32))
PLAN = "sha256:0123456789abcdef"
USUAL = Moving(merge_risk=0.1)
FALSE_ALARM = 1e-6


def as_pairs(tree):
    """The tree of the oracle: nested pairs of leaf numbers."""
    order = iter(tree.attributes.tolist())
    numbers = iter(range(tree.n_leaves))

    def grow():
        return next(numbers) if next(order) == LEAF else (grow(), grow())

    return grow()


def trees(rng, most_leaves):
    """A random tree of at least two and at most so many leaves."""
    while True:
        sizes = tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())
        tree = random_tree(rng, sizes)
        if 2 <= tree.n_leaves <= most_leaves:
            return tree


def cut_of(grouping):
    return frozenset(tuple(members.tolist()) for members in grouping)


def passing_nodes(tree, passes, n_leaves):
    """The nodes that the real check lets pass, each asked by itself."""
    found = []
    for node in oracle.nodes(tree):
        group_of = np.where(np.isin(np.arange(n_leaves), node), 0, -1)
        group_of[group_of < 0] = 1 + np.arange((group_of < 0).sum())
        numbers = np.unique(group_of, return_inverse=True)[1]
        if passes(Partition(numbers))[numbers[node[0]]]:
            found.append(node)
    return frozenset(found)


def promises(rng, kind, n_leaves, n_values):
    """Promises, and the same from their definition."""
    ell = int(rng.integers(1, n_values + 1))
    witnesses = [
        sorted(rng.choice(n_values, rng.integers(ell, n_values + 1), replace=False).tolist())
        for _ in range(n_leaves)
    ]
    everything = [list(range(n_values))] * n_leaves
    references = rng.integers(1, 5, (n_leaves, n_values))
    limit = Fraction(int(rng.integers(1, 8)), 10)
    if kind == "values":
        values = Values.of(witnesses, n_values, ell=ell, releases=2)
        return [values], oracle.shows_values(witnesses, values.allowances.tolist())
    if kind == "closeness":
        k = int(rng.integers(1, 4))
        near = Close(references, limit)
        return [near, Size(k, near.values)], oracle.is_close(references.tolist(), limit, k)
    # Two releases with every class by itself have been admitted before.
    state = LedgerState.empty([Values.of(everything, n_values, ell=ell, releases=1)])
    for _ in range(2):
        earlier = Shown.of(rng.poisson(1.5, (n_leaves, n_values)))
        if state.admits(earlier):
            state = state.admit(earlier)
    gone = [np.flatnonzero(row).tolist() for row in state.linked[0].missed.union]
    return state.left(), oracle.shows_values_beside(everything, ell, gone)


@pytest.mark.parametrize("kind", ["values", "closeness", "ledger"])
@pytest.mark.parametrize("seed", range(40))
def test_the_final_cut_is_the_oracles(kind, seed):
    rng = np.random.default_rng(seed)
    tree = trees(rng, 8)
    pairs, n_leaves, n_values = as_pairs(tree), tree.n_leaves, int(rng.integers(2, 5))
    counts = rng.poisson(0.8, (n_leaves, n_values))
    counts[rng.random(n_leaves) < 0.2] = 0
    asked, promise = promises(rng, kind, n_leaves, n_values)

    def passes(grouping):
        return ~certify(asked, Shown.of(counts, grouping)).failing_groups

    passing = frozenset(node for node in oracle.nodes(pairs) if promise(counts.tolist(), node))
    assert passing_nodes(pairs, passes, n_leaves) == passing  # what passes depends on the node alone
    for _ in range(6):
        heights = np.where(rng.random(n_leaves) < 0.4, rng.integers(0, 5, n_leaves), 0)
        paths = [oracle.path(pairs, leaf) for leaf in range(n_leaves)]
        start = {above[min(h, len(above) - 1)] for h, above in zip(heights.tolist(), paths, strict=True)}
        (expected,) = oracle.final_cuts(pairs, oracle.topmost(start), passing)
        if expected is oracle.REFUSED:
            with pytest.raises(RefusedError):
                move_up(tree, heights, passes)
        else:
            assert cut_of(move_up(tree, heights, passes)) == expected


def test_every_height_of_a_small_tree_adds_up_to_the_oracles_distribution():
    # Three leaves, the first two under one node: heights up to the root and beyond it.
    tree = BoxTree(np.array([0, 0, LEAF, LEAF, LEAF]), np.array([1, 0, 0, 0, 0]), (3,))
    rho, q = Fraction(1, 20), Fraction(1, 10)
    for n_passing in range(2**4):
        nodes = oracle.nodes(((0, 1), 2))
        passing = frozenset(
            [nodes[0], *(node for place, node in enumerate(nodes[1:]) if n_passing >> place & 1)]
        )

        def passes(grouping, passing=passing):
            return np.array([tuple(members.tolist()) in passing for members in grouping])

        found = {}
        for heights in product(range(4), repeat=3):
            chances = [
                oracle.chance_of_height(h, 10, rho, q) if h < 3 else rho * q**2 for h in heights
            ]  # 3 stands for 3 and more
            cut = cut_of(move_up(tree, np.array(heights), passes))
            found[cut] = found.get(cut, 0) + np.prod(chances)
        assert found == oracle.distribution(((0, 1), 2), passing, rho, q)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_what_is_published_passes_and_is_no_finer_than_the_decoys(seed):
    rng = np.random.default_rng(seed)
    tree = trees(rng, 12)
    heights = rng.integers(0, 3, tree.n_leaves) * (rng.random(tree.n_leaves) < 0.3)
    alone = set(np.flatnonzero(rng.random(tree.n_nodes) < 0.6).tolist()) | {0}
    starts, stops = tree.leaf_ranges
    is_passing = {(int(starts[node]), int(stops[node])) for node in alone}

    def passes(grouping):
        return np.array([(int(own[0]), int(own[-1]) + 1) in is_passing for own in grouping])

    published = move_up(tree, heights, passes)
    assert passes(published).all()
    nothing = move_up(tree, np.zeros_like(heights), passes)
    for grouping in (nothing, move_up(tree, heights, lambda each: np.ones(each.n_classes, dtype=bool))):
        for members in grouping:
            assert np.unique(published.class_of[members]).size == 1


def full(steps, first=0):
    """A tree whose leaves are all so many steps below its root."""
    if steps == 0:
        return first
    return (full(steps - 1, first), full(steps - 1, first + 2 ** (steps - 1)))


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("is_root", [False, True])
def test_k_is_the_oracles(steps, is_root):
    node = full(steps)
    tree = node if is_root else (node, 2**steps)

    expected = oracle.odds_bound(tree, oracle.leaves(node), Fraction(1, 20), Fraction(1, 10))

    assert USUAL.odds_upper(steps, is_root=is_root) == pytest.approx(float(expected), rel=1e-12)


def test_k_of_the_usual_chances():
    assert [round(USUAL.odds_upper(steps)) for steps in (0, 1, 2, 3)] == [1, 22, 222, 2222]
    assert USUAL.k1 == USUAL.odds_upper(1)


def heights_of(**changed):
    known = {"moving": USUAL, "secret": SECRET, "plan_digest": PLAN, "announced": "2026, first quarter"}
    return decoy_heights(**{**known, **changed}, n_leaves=20_000)


OTHERS = [
    pytest.param({"secret": bytes(range(1, 33))}, id="another key"),
    pytest.param({"plan_digest": PLAN + "0"}, id="another plan"),
    pytest.param({"announced": "2026, second quarter"}, id="another name"),
]


def test_the_same_key_plan_and_name_give_the_same_heights():
    assert np.array_equal(heights_of(), heights_of())
    # A longer plan begins with the same coins: there is nothing else that they could come from.
    assert np.array_equal(decoy_heights(USUAL, SECRET, PLAN, "2026, first quarter", 7), heights_of()[:7])


@pytest.mark.parametrize("changed", OTHERS)
def test_another_key_plan_or_name_gives_unrelated_heights(changed):
    one, other = heights_of() > 0, heights_of(**changed) > 0
    both = int((one & other).sum())
    # Unrelated decoys meet in rho^2 of all leaves: 50. Exactly binomial: alarms once in a million by chance.
    assert stats.binomtest(both, one.size, 0.05**2).pvalue > FALSE_ALARM
    # The same heights, or those of a neighbour, would be noticed.
    assert stats.binomtest(int((one & one).sum()), one.size, 0.05**2).pvalue < FALSE_ALARM
    for shift in (1, 2, 64):
        assert (
            stats.binomtest(int((one & np.roll(other, shift)).sum()), one.size, 0.05**2).pvalue > FALSE_ALARM
        )


def test_plan_and_name_cannot_take_each_others_letters():
    assert not np.array_equal(
        heights_of(plan_digest="ab", announced="c"), heights_of(plan_digest="a", announced="bc")
    )


def test_a_short_secret_is_refused():
    with pytest.raises(ParameterError, match="at least 16 bytes"):
        heights_of(secret=b"too short")


@pytest.mark.parametrize("name", ["merge_risk", "rho", "q"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, float("nan")])
def test_chances_lie_strictly_between_0_and_1(name, value):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        Moving(**{"merge_risk": 0.1, name: value})


def test_heights_are_one_per_leaf():
    tree = BoxTree(np.array([0, LEAF, LEAF]), np.array([0, 0, 0]), (2,))
    for wrong in ([0], [0, -1]):
        with pytest.raises(ParameterError, match="its height"):
            move_up(tree, np.array(wrong), lambda grouping: np.ones(grouping.n_classes, dtype=bool))
