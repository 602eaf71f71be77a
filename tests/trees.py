"""Trees of cuts for tests: at random, and from boxes that are written down."""

from __future__ import annotations

import numpy as np

from elldelta.core.box_tree import LEAF, BoxTree
from elldelta.core.tiling import clean_cut


def random_tree(rng, sizes, most_leaves=9):
    """Cuts boxes at random places, at most so many leaves."""
    attributes, places = [], []
    n_left = int(rng.integers(0, most_leaves))  # cuts
    pending = [([0] * len(sizes), [size - 1 for size in sizes])]
    while pending:
        low, high = pending.pop()
        can = [place for place in range(len(sizes)) if low[place] < high[place]]
        if not can or n_left == 0 or rng.random() < 0.2:
            attributes.append(LEAF)
            places.append(0)
            continue
        n_left -= 1
        attribute = int(rng.choice(can))
        cut = int(rng.integers(low[attribute], high[attribute]))
        attributes.append(attribute)
        places.append(cut)
        upper, lower = list(high), list(low)
        upper[attribute], lower[attribute] = cut, cut + 1
        pending += [(lower, high), (low, upper)]
    return BoxTree(np.array(attributes), np.array(places), tuple(sizes))


def tree_of(boxes, sizes):
    """The tree of boxes (low, high) that straight cuts divide; its leaves must be in the order given."""
    attributes, places, order = [], [], []
    pending = [np.arange(len(boxes))]
    lows, highs = (np.array(ends).reshape(len(boxes), len(sizes)) for ends in zip(*boxes, strict=True))
    while pending:
        own = pending.pop()
        cut = clean_cut(lows[own], highs[own])
        attributes.append(LEAF if cut is None else cut[0])
        places.append(0 if cut is None else cut[1])
        if cut is None:
            order += own.tolist()
        else:
            is_below = highs[own, cut[0]] <= cut[1]
            pending += [own[~is_below], own[is_below]]
    assert order == list(range(len(boxes)))
    return BoxTree(np.array(attributes), np.array(places), tuple(sizes))
