"""Trees of cuts for tests: at random, from boxes, over small grids; and classes that move up them."""

from __future__ import annotations

import numpy as np

from elldelta.core.box_tree import LEAF, BoxTree
from elldelta.core.certificate import certify
from elldelta.core.movers import clean_cut
from elldelta.core.moving import move_up
from elldelta.core.promises import Shown
from elldelta.errors import RefusedError


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


def halved(*sizes):
    """A tree whose leaves are the cells of a grid: the longest side is cut in the middle, again and again."""
    nodes = []

    def cut(lows, highs):
        side = int(np.argmax(np.subtract(highs, lows)))
        if lows[side] == highs[side]:
            nodes.append((-1, 0))
            return
        middle = (lows[side] + highs[side]) // 2
        nodes.append((side, middle))
        cut(lows, [middle if place == side else high for place, high in enumerate(highs)])
        cut([middle + 1 if place == side else low for place, low in enumerate(lows)], highs)

    cut([0] * len(sizes), [size - 1 for size in sizes])
    attributes, places = zip(*nodes, strict=True)
    return BoxTree(np.array(attributes), np.array(places), sizes)


def moved(table, promises, tree, rng, rho=0.1):
    """The verdict on classes that move up until they pass; everything is left out if that is never."""
    heights = rng.geometric(0.7, tree.n_leaves) * (rng.random(tree.n_leaves) < rho)
    try:
        grouping = move_up(
            tree, heights, lambda found: ~certify(promises, Shown.of(table, found)).failing_groups
        )
    except RefusedError:
        return certify(promises, Shown.of(table, None, np.ones(tree.n_leaves, dtype=np.bool_)))
    return certify(promises, Shown.of(table, grouping))


def left_out(table, promises, tree, rng, rho=0.5):
    """The verdict on any nodes of the tree, without those that do not pass."""
    heights = rng.geometric(0.7, tree.n_leaves) * (rng.random(tree.n_leaves) < rho)
    everything = np.ones(tree.n_leaves, dtype=np.bool_)
    grouping = move_up(tree, heights, lambda found: everything[: found.n_classes])
    return without_failing(table, promises, grouping)


def without_failing(table, promises, grouping=None):
    """The verdict on a release without the published classes that do not pass."""
    failing = certify(promises, Shown.of(table, grouping)).failing_groups
    return certify(promises, Shown.of(table, grouping, failing))
