"""The arena's pieces do what its page says: attackers against brute force, rivals, intervals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks._arena_attacks import (
    Published,
    hits,
    interval,
    least_counts,
    linked,
    loss_of,
    naming,
    none_in,
    ranges,
    subtract,
    values_left,
)
from benchmarks._arena_compare import compared
from benchmarks._arena_data import People, Source, draw
from benchmarks._arena_methods import (
    Recoding,
    certain_values,
    choose_recodings,
    common_recoding,
    levels,
    ours,
)
from benchmarks._arena_minimality import (
    Moved,
    downcoding,
    knowing_the_algorithm,
    minimality,
    misses_too_many,
)
from benchmarks._arena_peers import check_twin
from benchmarks._arena_twins import anjana, mondrian, named_by
from benchmarks._processes import PEERS
from benchmarks._result import SIZES as RUNS
from benchmarks.arena import _described
from tests.oracles import moving as oracle
from tests.trees import random_tree

from elldelta.core.box_tree import LEAF
from elldelta.core.promises import Values
from elldelta.plan.wish import Wish

SIZES, N_VALUES = (8, 3), 4


def some_people(rng, n):
    points = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    values = (points[:, 0] // 3 + rng.integers(0, 3, n)) % N_VALUES
    return People(points, values, rng.random(n) < 0.3, np.zeros(n, dtype=np.int64))


@pytest.fixture(scope="module")
def source():
    people = some_people(np.random.default_rng(1), 3000)
    return Source("tiny", ("a", "b"), SIZES, "value", N_VALUES, 2, "some", people, (True, False))


def boxes_of(people, width):
    """A release whose classes are ranges of the first column."""
    starts, class_of = np.unique(people.points[:, 0] // width * width, return_inverse=True)
    counts = np.zeros((len(starts), N_VALUES), dtype=np.int64)
    np.add.at(counts, (class_of, people.values), 1)
    ends = np.column_stack([starts, 0 * starts]), np.column_stack([starts + width - 1, 0 * starts + 2])
    named = ranges(*ends, SIZES)
    return Published(named, counts, naming(named), len(people))


def test_intersection_and_least_counts_are_what_looking_at_every_record_gives(source):
    drawn = draw(source, 3, scale=0.02)
    releases = [boxes_of(drawn.owner(number), width) for number, width in enumerate((2, 3, 4))]
    tables = linked(releases, drawn.is_in, drawn.people.points)
    left, least = values_left(tables), least_counts(tables)
    for person in range(0, len(drawn.people), 7):
        seen = []
        for number, width in enumerate((2, 3, 4)):
            if drawn.is_in[person, number]:
                own = drawn.owner(number)
                near = own.points[:, 0] // width == drawn.people.points[person, 0] // width
                seen.append(np.bincount(own.values[near], minlength=N_VALUES))
        assert left[person].tolist() == [all(each[s] for each in seen) for s in range(N_VALUES)]
        assert least[person].tolist() == [min(each[s] for each in seen) for s in range(N_VALUES)]
        assert left[person, drawn.people.values[person]], "everybody's own value is left"


def test_what_is_published_nowhere_tells_nothing():
    named = [np.zeros((0, size), dtype=bool) for size in SIZES]
    empty = Published(named, np.zeros((0, 3), int), naming(named), 5)
    tables = linked([empty], np.ones((2, 1), dtype=bool), np.zeros((2, 2), dtype=int))
    assert values_left(tables).all()
    assert (least_counts(tables) == 1).all()


def test_guesses_among_equals_are_right_with_their_share():
    assert hits(np.array([[2, 2, 0], [1, 3, 0]]), np.array([0, 1])) == pytest.approx(0.75)
    assert hits(np.array([[2.0, 2.0, 2.0]]), np.array([2])) == pytest.approx(1 / 3)


def test_subtraction_finds_the_rest_of_a_class():
    """The outer class 0-3 holds the inner ones 0-1 and 2-3 and two more people of one value."""
    inner = np.array([[2, 1, 0], [0, 1, 3]])
    rest = np.array([0, 0, 2])
    inside = Published(ranges(np.array([[0], [2]]), np.array([[1], [3]]), (8,)), inner, None, 7)
    counts = np.array([inner.sum(axis=0) + rest, [5, 5, 5]])
    outer = Published(ranges(np.array([[0], [4]]), np.array([[3], [7]]), (8,)), counts, None, 24)
    assert subtract(outer, inside, ell=2) == (2, 2)
    assert subtract(outer, inside, ell=1) == (0, 2)
    wider = Published(ranges(np.array([[0], [1]]), np.array([[1], [4]]), (8,)), inner, None, 7)
    below, _ = subtract(outer, wider, ell=5)
    assert below == 6, "a class that reaches beyond is not within: only the first is subtracted"


def test_subtraction_agrees_with_brute_force(source):
    drawn = draw(source, 5, scale=0.02)
    outer, inner = boxes_of(drawn.owner(0), 4), boxes_of(drawn.owner(2), 2)
    expected = 0
    own = drawn.owner(0)
    both = drawn.is_in[drawn.is_in[:, 0], 2]
    for start in (0, 4):
        others = own.values[(own.points[:, 0] // 4 * 4 == start) & ~both]
        expected += len(others) if 0 < len(set(others.tolist())) < 4 else 0
    assert subtract(outer, inner, ell=4)[0] == expected


def test_the_common_recoding_is_one_for_all_owners(source):
    drawn = draw(source, 2, scale=0.05)
    for made in common_recoding(drawn, 2):
        classes = set()
        for release in made.releases:
            assert (np.count_nonzero(release.counts, axis=1) >= int(made.setting.split()[0])).all()
            sets = [[frozenset(np.flatnonzero(row).tolist()) for row in named] for named in release.named]
            classes |= set(zip(*sets, strict=True))
        for one, other in itertools.combinations(classes, 2):
            assert any(not a & b for a, b in zip(one, other, strict=True)), "equal or disjoint"


def test_the_recoding_that_is_chosen_loses_least(source):
    rng = np.random.default_rng(0)
    history = some_people(rng, 120)
    chosen = choose_recodings(history, SIZES, N_VALUES, [2, 4], 120, np.random.default_rng(1))
    sample = history.take(np.random.default_rng(1).choice(120, 120, replace=False))
    for least, recoding in chosen.items():

        def loss(widths, least=least):
            total = 0.0
            kinds = sample.points // np.array(widths)
            for kind in {tuple(row) for row in kinds.tolist()}:
                own = sample.values[(kinds == kind).all(axis=1)]
                width = [
                    (min((k + 1) * w, size) - 1 - k * w) / (size - 1)
                    for k, w, size in zip(kind, widths, SIZES, strict=True)
                ]
                total += len(own) * (np.mean(width) if len(set(own.tolist())) >= least else 1.0)
            return total

        best = min(loss(widths) for widths in itertools.product(*(levels(size) for size in SIZES)))
        assert loss(recoding.widths.tolist()) == pytest.approx(best)


def test_levels_go_from_every_value_to_one_class():
    assert levels(1) == [1]
    assert levels(5) == [1, 2, 4, 5]
    recoding = Recoding((4, 3), SIZES)
    lows, highs = recoding.boxes(recoding.codes(np.array([[5, 2], [3, 0]])))
    assert lows.tolist() == [[4, 0], [0, 0]]
    assert highs.tolist() == [[7, 2], [3, 2]]


def test_enough_values_in_every_class_are_certain_after_linking():
    """All ways in which three releases can miss values; one value fewer would not be enough."""
    n_values, ell, n_releases = 6, 3, 3
    certain = certain_values(n_values, ell, n_releases)

    def worst(shown):
        sets = [set(each) for each in itertools.combinations(range(n_values), shown)]
        return min(len(set.intersection(*three)) for three in itertools.product(sets, repeat=n_releases))

    assert worst(certain) >= ell > worst(certain - 1)


def test_twins_keep_what_their_peers_keep(source):
    people = some_people(np.random.default_rng(8), 400)
    class_of = mondrian(people.points, people.values, 12, 3, (False, True))
    assert np.bincount(class_of).min() >= 12
    assert all(len(set(people.values[class_of == each].tolist())) >= 3 for each in set(class_of.tolist()))
    named = named_by(class_of, people.points, SIZES, (False, True))
    assert (naming(named)(people.points) == class_of).all(), "everybody is in the class that names them"
    widths = [levels(size) for size in SIZES]
    chosen, shown = anjana(people.points, people.values, 12, 3, 5, widths)
    assert shown.mean() >= 0.95
    for kind in np.unique(people.points[shown] // chosen, axis=0):
        own = people.values[shown & (people.points // chosen == kind).all(axis=1)]
        assert len(own) >= 12
        assert len(set(own.tolist())) >= 3
    assert anjana(people.points, people.values, 401, 3, 5, widths) is None


@pytest.mark.skipif(not PEERS.exists(), reason="needs the peers: make bench installs them")
@pytest.mark.parametrize("tool", ["anonypyx", "anjana"])
def test_twins_make_the_classes_of_their_peers(tool, source, tmp_path):
    _, n_different = check_twin(tool, draw(source, 6, scale=0.02), tmp_path)
    assert n_different == 0


def test_nobody_is_below_ell_under_our_methods(source):
    drawn = draw(source, 1, scale=0.08)
    for made in itertools.islice(ours(drawn), 2):
        left = values_left(linked(made.releases, drawn.is_in, drawn.people.points)).sum(axis=1)
        assert left.min() >= source.ell
        assert all(0 <= loss_of(release) < 1 for release in made.releases)


def test_what_the_page_says_was_the_default_is_the_default(source):
    described = _described(draw(source, 1, scale=0.08), RUNS["quick"], [])
    wish = Wish(ell=5, releases=3, records=1000)
    assert described["default"] == {"kind": wish.kind, "delta": wish.delta, "merge_risk": None}


def test_owners_and_history_are_different_people_and_a_drift_changes_the_history_only(source):
    whole, drifted = draw(source, 4, scale=0.05), draw(source, 4, drift=1.0, scale=0.05)
    assert (whole.is_in == drifted.is_in).all()
    assert (whole.people.points == drifted.people.points).all()
    assert whole.history.is_other.any()
    assert not drifted.history.is_other.any()
    first, second, third = whole.is_in.T
    assert (~third | first).all(), "the third owner's people are all with the first"
    assert (first & second).any()
    assert (first & second & third).any()
    numbered = People(np.arange(3000)[:, None], *(np.zeros(3000, dtype=np.int64) for _ in range(3)))
    plain = Source("numbers", ("a",), (3000,), "value", 1, 1, "none", numbered, (True,))
    apart = draw(plain, 4, scale=0.05)
    assert not set(apart.history.points[:, 0].tolist()) & set(apart.people.points[:, 0].tolist())


def test_intervals_cover_the_mean_as_often_as_they_say():
    """With 2000 intervals at 95 % the share is between 93.5 and 96.5 %, but for a chance of 2 in 1000.

    Half as wide an interval is rejected.
    """
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.302652729911275 / math.sqrt(3)))
    assert interval([1.0]) == (1.0, math.inf)
    rng = np.random.default_rng(1)
    found = [interval(rng.normal(5.0, 2.0, 20).tolist()) for _ in range(2000)]
    covered = np.mean([abs(mean - 5.0) <= half for mean, half in found])
    assert 0.935 < covered < 0.965
    assert np.mean([abs(mean - 5.0) <= half / 2 for mean, half in found]) < 0.935
    assert (1 - none_in(20)) ** 20 == pytest.approx(0.05)


def test_comparisons_are_at_equal_promise_or_equal_loss():
    def tried(promise, losses, below):
        base = {"one": 0.0, "best": 0.0, "queries": 0.0, "subtracted": 0.0, "promise": promise}
        return [{**base, "seed": seed, "loss": loss, "below": below} for seed, loss in enumerate(losses)]

    named = {
        ("elldelta, ledger", "default"): tried("linked", [0.2, 0.3], 0.0),
        ("common recoding", "fine"): tried("single", [0.1, 0.2], 0.4),
        ("common recoding", "middle"): tried("single", [0.3, 0.4], 0.1),
        ("common recoding", "coarse"): tried("single", [0.5, 0.6], 0.0),
        ("common recoding", "certain"): tried("linked", [0.8, 0.9], 0.0),
    }
    for (method, setting), rows in named.items():
        for row in rows:
            row |= {"method": method, "setting": setting}
    found = {item["kind"]: item for item in compared(named)}
    assert {kind: item["setting"] for kind, item in found.items()} == {
        "promise": "certain",
        "unharmed": "coarse",
        "loss": "middle",
    }
    ours_mean, theirs, difference, half = found["loss"]["loss"]
    assert (ours_mean, theirs, difference, half) == pytest.approx((0.25, 0.35, 0.1, 0.0), abs=1e-9)


def test_knowing_that_a_class_fails_is_worked_out_right():
    """Two records in one class, one in the other, three values of one each: all 6 explanations, by hand.

    The first class must show two values and always does. The second must show value 2: it fails in 4 of 6
    explanations, those in which it does not have it.
    """
    table = np.array([[1, 0, 1], [0, 1, 0]])
    witnesses, allowances = np.array([[True, True, True], [False, False, True]]), np.array([1, 0])

    def lacks(tables):
        return misses_too_many(tables, witnesses, allowances, 1).any(axis=1)

    found = minimality(table, lacks, 2, np.random.default_rng(1), n=20_000)
    assert found["value_plain"] == pytest.approx(1.0), "three equal guesses: one record in three"
    gained = 2 * (1 / 2 - 1 / 3) + (1 / 2 - 1 / 3)
    assert found["belief_gain"] == pytest.approx(gained, abs=0.02), "value 2 is in the first class"
    assert found["fewest"] == 2
    located = downcoding(table, np.ones((2, 3)), lacks, np.random.default_rng(2), n=20_000)
    assert located["class_plain"] == pytest.approx(1.5)
    assert located["class_knowing"] >= 1.0


@pytest.mark.parametrize("seed", range(12))
def test_the_attacker_weighs_tables_as_the_rule_makes_them_likely(seed):
    """The chance that a node is published, against all heights of all leaves, in fractions."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, (3, 3), 5)
    if tree.n_leaves == 1:
        tree = random_tree(np.random.default_rng(100), (3, 3), 5)
    order, numbers = iter(tree.attributes.tolist()), iter(range(tree.n_leaves))

    def grow():
        return next(numbers) if next(order) == LEAF else (grow(), grow())

    pairs = grow()
    terms = Values(
        np.ones((tree.n_leaves, 3), dtype=bool), np.ones(tree.n_leaves, dtype=int), ell=2, releases=1
    )
    promise = oracle.shows_values([(0, 1, 2)] * tree.n_leaves, [1] * tree.n_leaves)
    rho, q = Fraction(1, 20), Fraction(1, 10)
    for table in rng.poisson(0.8, (5, tree.n_leaves, 3)):
        passing = frozenset(node for node in oracle.nodes(pairs) if promise(table.tolist(), node))
        chances = oracle.distribution(pairs, passing, rho, q)
        for node in oracle.nodes(pairs):
            if node not in passing:
                continue  # it is never published
            expected = sum(chance for cut, chance in chances.items() if cut is not None and node in cut)
            weigh = Moved(tree, terms, np.array(node), float(rho), float(q))
            beside = chance_beside(pairs, node, passing, rho, q)
            assert weigh(table[None, list(node)])[0] * float(beside) == pytest.approx(float(expected))


def chance_beside(tree, node, passing, rho, q):
    """The chance that the leaves beside a node end beside it: nothing that the node itself decides."""
    total = Fraction(0)
    upwards = [oracle.path(tree, leaf) for leaf in oracle.leaves(tree)]
    beside = [leaf for leaf in oracle.leaves(tree) if leaf not in node]
    for heights in itertools.product(*(range(len(upwards[leaf])) for leaf in beside)):
        chance, start = Fraction(1), {node}
        for leaf, height in zip(beside, heights, strict=True):
            chance *= oracle.chance_of_height(height, len(upwards[leaf]) - 1, rho, q)
            start.add(upwards[leaf][height])
        (end,) = oracle.final_cuts(tree, oracle.topmost(start), passing)
        total += chance if end is not None and node in end else 0
    return total


def test_fixed_classes_tell_nothing_and_decoys_leave_every_explanation_possible(source):
    found = {}
    for seed in range(6):
        for row in knowing_the_algorithm(draw(source, seed, scale=0.05), seed):
            if not row.get("refused"):
                found.setdefault(row["method"], []).append(row)
    assert all((row["merged"], row["impossible"], row["odds"]) == (0, 0, 1) for row in found["fixed classes"])
    decoys, none = found["moving, with decoys"], found["moving, without decoys"]
    assert any(row["odds"] > 1 for row in decoys), "something moved that the rule tells about"
    assert all(row["impossible"] == 0 and row["odds"] is not None for row in decoys)
    assert any(row["impossible"] > 0 for row in none)
