"""Trees of cuts over small grids, and releases whose classes move up them: for tests of whatever passes."""

from __future__ import annotations

import numpy as np

from elldelta.core.box_tree import BoxTree
from elldelta.core.moving import move_up
from elldelta.core.several import certify
from elldelta.errors import RefusedError


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


def moved(table, terms, tree, rng, rho=0.1):
    """The certificate of classes that move up until they pass; everything is left out if that is never."""
    heights = rng.geometric(0.7, tree.n_leaves) * (rng.random(tree.n_leaves) < rho)
    try:
        grouping = move_up(tree, heights, lambda found: ~certify(table, terms, found).failing_groups)
    except RefusedError:
        return certify(table, terms, None, np.ones(terms.n_classes, dtype=np.bool_))
    return certify(table, terms, grouping)


def left_out(table, terms, tree, rng, rho=0.5):
    """The certificate of any nodes of the tree, without those that do not pass."""
    heights = rng.geometric(0.7, tree.n_leaves) * (rng.random(tree.n_leaves) < rho)
    everything = np.ones(tree.n_leaves, dtype=np.bool_)
    grouping = move_up(tree, heights, lambda found: everything[: found.n_classes])
    return certify(table, terms, grouping, certify(table, terms, grouping).failing_groups)
