"""Mean weights beside a release: the fast version is the definition, and no weight rules a value out."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import weights as oracle

from elldelta.core.weights import UNITS, MeanWeights, mean_weights, weight_groups
from elldelta.errors import InternalError

tables = st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=5)


def as_sets(group_of):
    found = defaultdict(set)
    for (number, value), group in np.ndenumerate(group_of):
        if group >= 0:
            found[group].add((number, value))
    return [found[group] for group in sorted(found)]


@given(tables, st.integers(2, 12))
def test_groups_are_those_of_the_definition(counts, fewest):
    found = as_sets(weight_groups(np.array(counts, dtype=np.int64), fewest))
    assert found == [set(cells) for cells in oracle.groups(counts, fewest)]


@given(tables, st.integers(2, 12))
def test_groups_hold_enough_records_unless_the_whole_release_does_not(counts, fewest):
    table = np.array(counts, dtype=np.int64)
    groups = MeanWeights.groups_of(table, fewest, 1.0)
    assert groups.records.sum() == table.sum()
    assert (groups.records >= min(fewest, table.sum())).all()
    own = [counts[number][value] >= fewest for number, value in oracle_cells(counts)]
    if all(own):
        assert groups.records.size == len(own), "no value waits for another one without need"


def oracle_cells(counts):
    return [(number, value) for number, row in enumerate(counts) for value, n in enumerate(row) if n]


@given(tables, st.integers(2, 9), st.data())
def test_means_are_those_of_the_definition(counts, fewest, data):
    table, step = np.array(counts, dtype=np.int64), 8
    weights = {
        cell: data.draw(st.lists(st.integers(1, 8), min_size=counts[cell[0]][cell[1]], max_size=50))[
            : counts[cell[0]][cell[1]]
        ]
        for cell in oracle_cells(counts)
    }
    units = np.zeros_like(table)
    for cell, each in weights.items():
        units[cell] = sum(weight * UNITS // step for weight in each)
    shown = mean_weights(table, units, float(step), fewest)
    for cell, mean in oracle.means(counts, weights, step, fewest).items():
        assert shown.means[shown.group_of[cell]] == pytest.approx(float(mean), rel=1e-12)


LEVELS = (Fraction(1, 100), Fraction(1, 3), Fraction(3, 4), Fraction(1))
"""Weights as shares of the largest one: the ends, and what is between."""


@pytest.mark.parametrize("counts", [[[2, 1, 3]], [[1, 1], [2, 1]], [[1, 1]], [[3, 3]]])
def test_whoever_knows_a_weight_can_rule_no_value_out(counts):
    """Theorem W: of every release, and of every value in it, somebody with any weight may be the one."""
    release_of = defaultdict(set)
    for weights_of in oracle.weightings(counts, LEVELS):
        shown = frozenset(oracle.means(counts, weights_of, 1, 3).items())
        release_of[shown] |= {(cell, weight) for cell, each in weights_of.items() for weight in each}
    everything = {(cell, weight) for cell in oracle_cells(counts) for weight in LEVELS}
    assert all(possible == everything for possible in release_of.values())


def test_means_that_are_only_rounded_would_rule_values_out():
    """The broken variant: without the ends left out, a group that weighs all it can tells every weight."""
    release_of = defaultdict(set)
    for weights_of in oracle.weightings([[2, 3]], LEVELS):
        shown = tuple(round(sum(each)) for each in weights_of.values())
        release_of[shown] |= {(cell, weight) for cell, each in weights_of.items() for weight in each}
    everything = {(cell, weight) for cell in ((0, 0), (0, 1)) for weight in LEVELS}
    assert not all(possible == everything for possible in release_of.values())


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_whoever_knows_all_others_learns_on_which_side_of_one_number_a_weight_lies(others):
    shown = [oracle.steps([*others, weight], 40) for weight in range(1, 41)]
    assert len(set(shown)) <= 2
    assert shown == sorted(shown), "one number divides those with the one from those with the other"


def test_a_total_that_told_the_weights_of_single_records_is_our_own_mistake():
    for steps in (0, 3):
        with pytest.raises(InternalError, match="would tell"):
            MeanWeights(np.zeros((1, 1)), np.array([3]), np.array([steps]), 1.0)
