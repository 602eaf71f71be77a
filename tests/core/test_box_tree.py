"""Trees of cuts: every combination in one leaf, nodes that are boxes, cuts of the tree that are groupings."""

from __future__ import annotations

import numpy as np
import pytest
from tests.trees import random_tree

from elldelta.core import box_tree
from elldelta.core.box_tree import BoxTree
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError


def slow(tree):
    """From the definition: of every node its parent, its ends, its leaves; by recursion."""
    found = []

    def grow(parent, low, high):
        node = len(found)
        found.append({"parent": parent, "low": list(low), "high": list(high), "leaves": []})
        attribute, place = tree.attributes[node], tree.places[node]
        if attribute < 0:
            found[node]["leaves"] = [node]
            found[node]["steps"] = 0
            return node
        upper, lower = list(high), list(low)
        upper[attribute], lower[attribute] = place, place + 1
        sides = [grow(node, low, upper), grow(node, lower, high)]
        found[node]["leaves"] = [leaf for side in sides for leaf in found[side]["leaves"]]
        found[node]["steps"] = 1 + min(found[side]["steps"] for side in sides)
        return node

    grow(-1, [0] * len(tree.sizes), [size - 1 for size in tree.sizes])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_every_node_is_a_box_and_every_combination_lies_in_one_leaf(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
    tree = random_tree(rng, sizes)
    nodes = slow(tree)
    assert tree.n_nodes == len(nodes)
    assert tree.parents.tolist() == [node["parent"] for node in nodes]
    assert tree.lows.tolist() == [node["low"] for node in nodes]
    assert tree.highs.tolist() == [node["high"] for node in nodes]
    assert tree.steps_to_leaf.tolist() == [node["steps"] for node in nodes]
    leaves = tree.leaves.tolist()
    assert leaves == nodes[0]["leaves"]
    assert tree.n_leaves == len(leaves)
    for node, (start, stop) in zip(nodes, zip(*tree.leaf_ranges, strict=True), strict=True):
        assert leaves[start:stop] == node["leaves"]
    every = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    inside = [
        [number for number, leaf in enumerate(leaves) if _holds(nodes[leaf], point)]
        for point in every.tolist()
    ]
    assert [[leaf] for leaf in tree.locate(every).tolist()] == inside
    assert [[leaf] for leaf in tree.painted.tolist()] == inside
    monkeypatch.setattr(box_tree, "_FEW_COMBINATIONS", 0)
    tree = BoxTree(tree.attributes, tree.places, sizes)
    for at_once in (1000, 3):
        monkeypatch.setattr(box_tree, "_AT_ONCE", at_once)
        assert [[leaf] for leaf in tree.locate(every).tolist()] == inside
    assert tree.locate(every[:0]).tolist() == []


def _holds(node, point):
    return all(low <= x <= high for low, x, high in zip(node["low"], point, node["high"], strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_of_the_tree_is_a_grouping_of_leaves_by_the_topmost_nodes(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, (4, 4), 12)
    nodes = slow(tree)
    chosen = {int(node) for node in rng.integers(0, tree.n_nodes, 3)} | set(tree.leaves.tolist())

    def top(leaf):
        found, node = leaf, leaf
        while node >= 0:
            found = node if node in chosen else found
            node = nodes[node]["parent"]
        return found

    tops = [top(leaf) for leaf in tree.leaves.tolist()]
    assert tree.topmost(np.array(sorted(chosen))).tolist() == sorted(set(tops))
    numbers = {node: number for number, node in enumerate(dict.fromkeys(tops))}
    grouping = tree.grouping(np.array(sorted(chosen)))
    assert grouping.class_of.tolist() == [numbers[node] for node in tops]


@pytest.mark.parametrize(
    ("attributes", "places", "words"),
    [
        ([0, -1], [0, 0], "two sides"),
        ([-1, -1], [0, 0], "one root"),
        ([2, -1, -1], [0, 0, 0], "one of 2 attributes"),
        ([-2], [0], "one of 2 attributes"),
        ([0, -1, -1], [3, 0, 0], "both sides"),
        ([0, -1, -1], [-1, 0, 0], "both sides"),
        ([0, 0, -1, -1, -1], [1, 1, 0, 0, 0], "both sides"),
        ([-1], [1], "both sides"),
        ([], [], "needs an attribute"),
        ([-1], [0, 0], "needs an attribute"),
    ],
)
def test_cuts_that_are_no_tree_are_refused(attributes, places, words):
    with pytest.raises(ParameterError, match=words):
        BoxTree(np.array(attributes, dtype=np.int64), np.array(places, dtype=np.int64), (4, 2))


def test_nodes_that_leave_something_out_are_no_cut():
    tree = BoxTree(np.array([0, -1, -1]), np.array([1, 0, 0]), (4,))
    with pytest.raises(ParameterError, match="every leaf"):
        tree.grouping(np.array([1]))


@pytest.mark.parametrize("seed", range(30))
def test_groupings_are_read_back_as_nodes_or_refused(seed):
    """From the definition: every class is all leaves below one node, and classes are numbered along them."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, tuple(rng.integers(1, 4, 2).tolist()))
    below = {tuple(node["leaves"]): number for number, node in enumerate(slow(tree))}
    leaves, n_refused = tree.leaves, 0
    for _ in range(60):
        group_of = np.cumsum(rng.random(tree.n_leaves) < rng.random())
        group_of -= group_of[0]
        if rng.random() < 0.2:
            group_of = group_of.max() - group_of
        classes = [tuple(leaves[group_of == group].tolist()) for group in range(group_of.max() + 1)]
        expected = [below.get(members) for members in classes]
        if None in expected or (np.diff(group_of) < 0).any():
            n_refused += 1
            with pytest.raises(ParameterError, match="nodes of the tree only"):
                tree.nodes_of(Partition(group_of))
            continue
        assert tree.nodes_of(Partition(group_of)).tolist() == expected
    assert n_refused or tree.n_leaves < 3
    with pytest.raises(ParameterError, match="nodes of the tree only"):
        tree.nodes_of(Partition(np.arange(tree.n_leaves + 1)))


def test_more_attributes_than_an_array_may_have():
    sizes = (3, *[1] * 64)
    tree = BoxTree(np.array([0, -1, -1]), np.array([0, 0, 0]), sizes)
    points = np.zeros((3, 65), dtype=np.int64)
    points[:, 0] = range(3)
    assert tree.locate(points).tolist() == [0, 1, 1]
