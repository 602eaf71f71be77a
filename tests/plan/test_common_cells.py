"""Common cells of classes of any shape, against every combination in turn."""

import numpy as np
import pytest
from tests.switch import quick_or_all
from tests.trees import random_tree

from elldelta.plan.classes import Boxes, Merged, Runs
from elldelta.plan.common_cells import boxes_of, common_cells
from elldelta.schema.schema import Column, Integers, Schema


def random_schema(rng):
    sizes = rng.integers(1, 6, rng.integers(1, 5))
    columns = tuple(Column(f"c{place}", Integers(0, int(size) - 1)) for place, size in enumerate(sizes))
    return Schema(columns, Column("s", Integers(0, 1)))


def random_runs(rng, schema):
    return Runs(np.unique(np.append(0, rng.integers(0, schema.n_combinations, rng.integers(0, 8)))))


def random_boxes(rng, schema):
    return Boxes(random_tree(rng, schema.sizes))


def random_classes(rng, schema):
    classes = (random_runs if rng.random() < 0.5 else random_boxes)(rng, schema)
    if rng.random() < 0.4:
        group_of = rng.integers(0, classes.n_classes, classes.n_classes)
        classes = Merged(classes, np.unique(group_of, return_inverse=True)[1])
    return classes


@pytest.mark.parametrize("seed", range(quick_or_all(40, 80)))
def test_classes_are_disjoint_boxes(seed):
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    classes = random_classes(rng, schema)
    everything = np.arange(schema.n_combinations)
    positions = schema.unrank(everything)[:, np.newaxis]
    lows, highs, class_of = boxes_of(schema, classes)
    inside = ((positions >= lows) & (positions <= highs)).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()
    assert np.array_equal(class_of[inside.argmax(axis=1)], classes.class_of(schema, everything))


@pytest.mark.parametrize("seed", range(quick_or_all(40, 80)))
def test_cells_are_the_combinations_of_classes_that_meet(seed):
    rng = np.random.default_rng(1000 + seed)
    schema = random_schema(rng)
    covers = [random_classes(rng, schema) for _ in range(rng.integers(1, 4))]
    if seed % 3 == 0:  # releases of one plan
        covers = [covers[0], Merged(covers[0], np.zeros(covers[0].n_classes, np.int64))]
        covers = [covers[0], covers[0]] if isinstance(covers[0], Merged) else covers
    everything = np.arange(schema.n_combinations)
    wanted = set(zip(*(cover.class_of(schema, everything).tolist() for cover in covers), strict=True))
    cells = common_cells(schema, covers)
    assert set(zip(*(own.tolist() for own in cells), strict=True)) == wanted
