from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core import overlay
from elldelta.core.overlay import NO_CLASS, overlay_boxes, overlay_runs
from elldelta.errors import ParameterError, RefusedError


@given(st.lists(st.sets(st.integers(1, 11)), min_size=1, max_size=4))
def test_runs_cell_by_cell(cuts):
    starts = [np.array(sorted({0, *own})) for own in cuts]
    classes = overlay_runs(starts)
    cells = np.array(sorted(set().union(*cuts) | {0}))
    for rank in range(12):
        cell = np.searchsorted(cells, rank, side="right") - 1
        for own, class_of in zip(starts, classes, strict=True):
            assert class_of[cell] == sum(start <= rank for start in own) - 1


@st.composite
def guillotine(draw, shape):
    """Random disjoint boxes, some of them left out: per box and attribute a set of positions."""
    boxes = [tuple(tuple(range(size)) for size in shape)]
    for _ in range(draw(st.integers(0, 5))):
        index = draw(st.integers(0, len(boxes) - 1))
        attribute = draw(st.integers(0, len(shape) - 1))
        values = boxes[index][attribute]
        if len(values) < 2:
            continue
        chosen = draw(st.sets(st.sampled_from(values), min_size=1, max_size=len(values) - 1))
        box = boxes.pop(index)
        boxes.extend(
            (*box[:attribute], tuple(sorted(part)), *box[attribute + 1 :])
            for part in (chosen, set(values) - chosen)
        )
    keep = draw(st.sets(st.integers(0, len(boxes) - 1), min_size=1))
    return [boxes[index] for index in sorted(keep)]


def as_arrays(boxes, shape):
    masks, labels = [], []
    for attribute, size in enumerate(shape):
        distinct = sorted({box[attribute] for box in boxes})
        masks.append(np.array([[position in values for position in range(size)] for values in distinct]))
        labels.append([distinct.index(box[attribute]) for box in boxes])
    return masks, np.array(labels).T


SHAPE = (3, 2, 4)


@given(st.lists(guillotine(SHAPE), min_size=1, max_size=3))
def test_boxes_position_by_position(releases):
    arrays = [as_arrays(boxes, SHAPE) for boxes in releases]
    classes, coordinates = overlay_boxes([masks for masks, _ in arrays], [labels for _, labels in arrays])
    sizes = [int(coordinate.max()) + 1 for coordinate in coordinates]
    for q in product(*map(range, SHAPE)):
        place = [int(coordinate[position]) for coordinate, position in zip(coordinates, q, strict=True)]
        cell = np.ravel_multi_index(place, sizes)
        for boxes, class_of in zip(releases, classes, strict=True):
            inside = [
                index
                for index, box in enumerate(boxes)
                if all(position in values for position, values in zip(q, box, strict=True))
            ]
            assert class_of[cell] == (inside[0] if inside else NO_CLASS)


def test_overlapping_boxes_are_refused():
    masks, labels = as_arrays([((0, 1), (0,)), ((1, 2), (0,))], (3, 1))
    with pytest.raises(ParameterError, match="overlap"):
        overlay_boxes([masks], [labels])


def test_too_many_cells_are_refused(monkeypatch):
    monkeypatch.setattr(overlay, "MOST_CELLS", 3)
    masks, labels = as_arrays([((0,), (0,)), ((1,), (0,)), ((0,), (1,)), ((1,), (1,))], (2, 2))
    with pytest.raises(RefusedError, match="4 cells"):
        overlay_boxes([masks], [labels])
