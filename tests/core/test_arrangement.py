"""Cells of classes that may overlap, against every combination in turn."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.switch import quick_or_all

from elldelta.core import arrangement
from elldelta.core.arrangement import LabelRuns, arrange, overlay_runs
from elldelta.errors import RefusedError


def random_case(rng):
    masks = []
    for _ in range(rng.integers(1, 4)):
        mask = rng.random((4, rng.integers(1, 6))) < 0.5
        mask[np.arange(4), rng.integers(0, mask.shape[1], 4)] = True  # no label is empty
        masks.append(mask)
    named = [rng.random(mask.shape[1]) < 0.7 for mask in masks]
    labels = rng.integers(0, 4, (rng.integers(1, 9), len(masks)))
    return masks, named, labels


def by_definition(masks, named, labels):
    """Which classes every combination lies in, and whether one of the combinations is named."""
    found = {}
    for combination in itertools.product(*(range(mask.shape[1]) for mask in masks)):
        inside = tuple(
            number
            for number, row in enumerate(labels)
            if all(mask[label, place] for mask, label, place in zip(masks, row, combination, strict=True))
        )
        is_named = all(own[place] for own, place in zip(named, combination, strict=True))
        if inside:
            found[inside] = found.get(inside, False) or is_named
    return found


def as_dict(cells):
    ends = itertools.pairwise(cells.starts.tolist())
    found = [tuple(cells.classes[low:high].tolist()) for low, high in ends]
    assert len(set(found)) == len(found), "every set of classes is one cell"
    return dict(zip(found, cells.is_named.tolist(), strict=True))


def runs_of(masks, named):
    return [LabelRuns.from_masks(mask, own) for mask, own in zip(masks, named, strict=True)]


@pytest.mark.parametrize("seed", range(quick_or_all(40, 80)))
def test_cells_are_the_sets_of_classes_that_meet(seed):
    masks, named, labels = random_case(np.random.default_rng(seed))
    assert as_dict(arrange(runs_of(masks, named), labels)) == by_definition(masks, named, labels)


@pytest.mark.parametrize("seed", range(quick_or_all(30, 60)))
def test_people_can_be_in_the_cells_of_the_combinations_they_may_have(seed):
    """Most labels name several positions, as they do for people of whom not everything is known."""
    rng = np.random.default_rng(1000 + seed)
    masks, named, labels = random_case(rng)
    people = rng.integers(0, 4, (rng.integers(0, 40), len(masks)))
    cells = arrange(runs_of(masks, named), labels)
    person, cell = cells.find(people, most_pairs=200 if seed % 2 else 1_000_000)  # some at a time, or all
    found = list(zip(person.tolist(), cell.tolist(), strict=True))
    assert found == sorted(set(found))
    place_of = {inside: number for number, inside in enumerate(as_dict(cells))}
    assert set(found) == {
        (number, place_of[inside])
        for number, known in enumerate(people)
        for inside in by_definition(
            [mask[:, mask[label]] for mask, label in zip(masks, known, strict=True)],
            [own[mask[label]] for own, mask, label in zip(named, masks, known, strict=True)],
            labels,
        )
    }


@given(st.lists(st.sets(st.integers(1, 11)), min_size=1, max_size=4))
def test_runs_cell_by_cell(cuts):
    starts = [np.array(sorted({0, *own})) for own in cuts]
    classes = overlay_runs(starts)
    cells = np.array(sorted(set().union(*cuts) | {0}))
    for rank in range(12):
        cell = np.searchsorted(cells, rank, side="right") - 1
        for own, class_of in zip(starts, classes, strict=True):
            assert class_of[cell] == sum(start <= rank for start in own) - 1


def test_equal_keys_of_different_classes_are_not_merged(monkeypatch):
    monkeypatch.setattr(arrangement, "scattered", lambda numbers, salt: np.zeros(len(numbers), np.uint64))
    for seed in range(50):
        masks, named, labels = random_case(np.random.default_rng(seed))
        cells = arrange(runs_of(masks, named), labels)
        found = {
            tuple(cells.classes[low:high].tolist()) for low, high in itertools.pairwise(cells.starts.tolist())
        }
        assert found == set(by_definition(masks, named, labels))


def test_too_many_meetings_are_refused():
    sides = LabelRuns.from_masks(np.eye(8, dtype=bool) | (np.arange(8) == 7)[:, None])
    with pytest.raises(RefusedError, match="too many ways"):
        arrange([sides, sides], np.array(list(itertools.product(range(8), repeat=2))), most_pairs=10)


def test_many_disjoint_boxes_of_two_releases():
    """A grid of 10,000 boxes over a shifted one: the meetings are counted by hand."""
    n, wide = 100, 10
    first = np.arange(n) * wide
    low = np.concatenate((first, first + wide // 2))
    runs = LabelRuns(n * wide + wide, np.arange(2 * n), low, low + wide - 1, np.ones(n * wide + wide, bool))
    one = np.array(list(itertools.product(range(n), repeat=2)))
    cells = arrange([runs, runs], np.concatenate((one, one + n)))
    both = np.diff(cells.starts) == 2
    assert int(both.sum()) == (2 * n - 1) ** 2
    # What only one release covers: each box of the first row and column has a part outside the other grid.
    assert cells.n_cells - int(both.sum()) == 2 * (2 * n - 1)
