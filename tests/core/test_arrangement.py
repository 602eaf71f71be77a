"""Cells of classes that may overlap, against every combination in turn."""

import itertools

import numpy as np
import pytest

from elldelta.core import arrangement
from elldelta.core.arrangement import LabelRuns, arrange, without_last
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


@pytest.mark.parametrize("seed", range(200))
def test_cells_are_the_sets_of_classes_that_meet(seed):
    masks, named, labels = random_case(np.random.default_rng(seed))
    assert as_dict(arrange(runs_of(masks, named), labels)) == by_definition(masks, named, labels)


@pytest.mark.parametrize("seed", range(50))
def test_classes_can_be_taken_away_again(seed):
    masks, named, labels = random_case(np.random.default_rng(1000 + seed))
    n_kept = 1 + len(labels) // 2
    fine = arrange(runs_of(masks, named), labels)
    coarse, cell_of = without_last(fine, n_kept)
    alone = arrange(runs_of(masks, named), labels[:n_kept])
    assert as_dict(coarse) == as_dict(alone)
    assert np.array_equal(coarse.classes, alone.classes), "cells are numbered by what they hold"
    for cell in range(fine.n_cells):
        kept = [n for n in fine.classes[fine.starts[cell] : fine.starts[cell + 1]].tolist() if n < n_kept]
        if kept:
            low, high = coarse.starts[cell_of[cell]], coarse.starts[cell_of[cell] + 1]
            assert coarse.classes[low:high].tolist() == kept
        else:
            assert cell_of[cell] == -1


def test_equal_keys_of_different_classes_are_not_merged(monkeypatch):
    monkeypatch.setattr(arrangement, "_scattered", lambda numbers, salt: np.zeros(len(numbers), np.uint64))
    for seed in range(50):
        masks, named, labels = random_case(np.random.default_rng(seed))
        cells = arrange(runs_of(masks, named), labels)
        found = {
            tuple(cells.classes[low:high].tolist()) for low, high in itertools.pairwise(cells.starts.tolist())
        }
        assert found == set(by_definition(masks, named, labels))


def test_too_many_meetings_are_refused(monkeypatch):
    monkeypatch.setattr(arrangement, "MOST_PAIRS", 10)
    sides = LabelRuns.from_masks(np.eye(8, dtype=bool) | (np.arange(8) == 7)[:, None])
    with pytest.raises(RefusedError, match="too many ways"):
        arrange([sides, sides], np.array(list(itertools.product(range(8), repeat=2))))


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
