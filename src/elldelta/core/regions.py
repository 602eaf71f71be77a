"""Regions: parts of the population that are planned by themselves and joined into one tree of cuts.

A partition made from P alone keeps every theorem, so classes may be made region by region. Each region gets
the share of the failure budget that it has of the mass. One in which not even a single class keeps its share
stays together with a neighbour; that is decided from sums over regions (`docs/theory/boxes.md`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.core.box_tree import BoxTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


class Cut(NamedTuple):
    """A cut that separates regions: the last position below it."""

    place: int


class Area(NamedTuple):
    """Regions that are planned together, mostly one: the number of the first, and that behind the last."""

    start: int
    stop: int


def upper_cuts(
    occupied: NDArray[np.int64],
    size: int,
    depths: NDArray[np.int32] | None,
    passes: Callable[[int, int], bool],
) -> list[Cut | Area]:
    """The cuts that separate regions, with the areas that they leave, in preorder.

    Regions are halved where that is allowed and both sides pass; otherwise as evenly as they can be.

    Args:
        occupied: The positions of the regions, rising.
        size: The number of positions.
        depths: The depths of a hierarchy (`CutTree`); None if every cut is allowed.
        passes: Whether the regions from one number up to another one can be an area of their own.
    """
    nodes: list[Cut | Area] = []
    pending = [(0, occupied.size, 0, size - 1)]
    while pending:
        start, stop, low, high = pending.pop()
        for n_below, place in _cuts(occupied[start:stop], depths, low, high):
            if passes(start, start + n_below) and passes(start + n_below, stop):
                nodes.append(Cut(place))
                pending.append((start + n_below, stop, place + 1, high))
                pending.append((start, start + n_below, low, place))
                break
        else:
            nodes.append(Area(start, stop))
    return nodes


def _cuts(
    occupied: NDArray[np.int64], depths: NDArray[np.int32] | None, low: int, high: int
) -> Iterator[tuple[int, int]]:
    """How many regions lie below each allowed cut, and its place; the most even cut first.

    Cuts are allowed as in the search for boxes: at the coarsest depth, nearest to the middle of a gap.
    """
    gaps = list(pairwise(occupied.tolist()))
    deepest = 0 if depths is None else depths[low:high].max(initial=0)
    for gap in sorted(range(len(gaps)), key=lambda gap: (abs(2 * (gap + 1) - occupied.size), gap)):
        before, after = gaps[gap]
        middle = (before + after - 1) // 2
        if depths is None:
            yield gap + 1, middle
            continue
        allowed = before + np.flatnonzero(depths[before:after] == deepest)
        if allowed.size:
            yield gap + 1, int(allowed[np.argmin(np.abs(allowed - middle))])


def joined_tree(
    nodes: Sequence[Cut | Area],
    attribute: int,
    trees: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    sizes: tuple[int, ...],
) -> BoxTree:
    """One tree: cuts along an attribute that separate areas, and below them the trees of the areas.

    Args:
        nodes: What `upper_cuts` found.
        attribute: The attribute of the regions.
        trees: The attributes and places of the tree of every area, in the order of the areas.
        sizes: The number of positions of each attribute.
    """
    below = iter(trees)
    parts = [([attribute], [node.place]) if isinstance(node, Cut) else next(below) for node in nodes]
    attributes, places = (np.concatenate(each) for each in zip(*parts, strict=True))
    return BoxTree(attributes, places, sizes)
