"""The tree of cuts that the boxes of a plan come from: its leaves are the classes, its root is everything.

A box is cut in two along one attribute, again and again. Every node of the tree is a box, so that classes
that are published together as a node keep a range in every attribute. The tree is public: it is part of the
plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.core.partition import Partition
from elldelta.errors import DataError, ParameterError, counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

LEAF = -1
"""Stands for the attribute of a node that is not cut."""

_MOST_ENDS = 1 << 26
"""Nodes times attributes of the largest tree: the ends of all boxes take 1 GiB."""

_FEW_COMBINATIONS = 1 << 22
"""Up to this many combinations the leaf of every one is written down: 32 MB."""

_MOST_DIMENSIONS = 64
"""Of an array; more attributes than these are looked up in the tree."""

_AT_ONCE = 1 << 15
"""Combinations that are looked up together: what is known of them fits into a processor's cache."""


@dataclass(frozen=True, eq=False)
class BoxTree:
    """Cuts in preorder: a node, then all of its lower side, then all of its upper side.

    Every combination lies in exactly one leaf, by construction. Leaves are numbered in this order, so that
    the leaves below a node have consecutive numbers.

    Attributes:
        attributes: The attribute along which each node is cut, or `LEAF`; read-only.
        places: The last position of the lower side of each cut, 0 for a leaf; read-only.
        sizes: The number of positions of each attribute.
    """

    attributes: NDArray[np.int64]
    places: NDArray[np.int64]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        attributes = frozen(self.attributes, np.int64, copy=True)
        places = frozen(self.places, np.int64, copy=True)
        sizes = tuple(int(size) for size in self.sizes)
        if attributes.ndim != 1 or attributes.size == 0 or attributes.shape != places.shape:
            raise ParameterError(
                "Every node of a tree of cuts needs an attribute and a place.",
                found=f"Shapes {attributes.shape} and {places.shape}.",
            )
        if not sizes or min(sizes) < 1 or attributes.min() < LEAF or attributes.max() >= len(sizes):
            raise ParameterError(
                f"Cuts go through one of {len(sizes)} attributes.",
                found=f"Attributes from {attributes.min()} to {attributes.max()}.",
            )
        if attributes.size * len(sizes) > _MOST_ENDS:
            raise ParameterError(
                "The tree of cuts is too large.",
                found=f"It has {counted(attributes.size, 'node')} over {counted(len(sizes), 'attribute')}.",
            )
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "sizes", sizes)
        inner = np.flatnonzero(attributes >= 0)
        lows, highs = (ends[inner, attributes[inner]] for ends in (self.lows, self.highs))
        if not ((lows <= places[inner]) & (places[inner] < highs)).all() or places[self.leaves].any():
            raise ParameterError("Every cut must leave something of its box on both sides.")

    @cached_property
    def _links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The parent of every node, the first node of its upper side, and how many cuts lie above it."""
        parents = np.full(self.n_nodes, LEAF, dtype=np.int64)
        uppers = np.full(self.n_nodes, LEAF, dtype=np.int64)
        depths = np.zeros(self.n_nodes, dtype=np.int64)
        places = [(LEAF, False)]  # where the next nodes belong: the parent, and whether on its upper side
        for node, attribute in enumerate(self.attributes.tolist()):
            if not places:
                raise ParameterError("A tree of cuts has one root.", found="Nodes follow after its end.")
            parent, is_upper = places.pop()
            if parent >= 0:
                parents[node], depths[node] = parent, depths[parent] + 1
                if is_upper:
                    uppers[parent] = node
            if attribute >= 0:
                places += [(node, True), (node, False)]
        if places:
            raise ParameterError("Every cut of a tree needs two sides.", found=f"{len(places)} are missing.")
        return frozen(parents, np.int64), frozen(uppers, np.int64), frozen(depths, np.int64)

    @property
    def n_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return int(self.attributes.size)

    @property
    def n_leaves(self) -> int:
        """The number of leaves, R."""
        return (self.n_nodes + 1) // 2

    @property
    def parents(self) -> NDArray[np.int64]:
        """The parent of every node; `LEAF` for the root."""
        return self._links[0]

    @property
    def _uppers(self) -> NDArray[np.int64]:
        return self._links[1]

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """The node of every leaf."""
        return frozen(np.flatnonzero(self.attributes == LEAF), np.int64)

    @cached_property
    def leaf_ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of every node the number of its first leaf, and of the first leaf behind it."""
        is_leaf = self.attributes == LEAF
        starts = np.cumsum(is_leaf) - is_leaf
        n_below = is_leaf.astype(np.int64)
        for nodes in reversed(self._levels[1:]):
            np.add.at(n_below, self.parents[nodes], n_below[nodes])
        return frozen(starts, np.int64), frozen(starts + n_below, np.int64)

    @cached_property
    def steps_to_leaf(self) -> NDArray[np.int64]:
        """How many steps every node is above the nearest leaf below it; 0 for leaves."""
        steps = np.where(self.attributes == LEAF, 0, self.n_nodes)
        for nodes in reversed(self._levels[1:]):
            np.minimum.at(steps, self.parents[nodes], steps[nodes] + 1)
        return frozen(steps, np.int64)

    @cached_property
    def _levels(self) -> list[NDArray[np.intp]]:
        """The nodes by the number of cuts above them."""
        depths = self._links[2]
        order = np.argsort(depths, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(depths[order])) + 1)

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lows = np.zeros((self.n_nodes, len(self.sizes)), dtype=np.int64)
        highs = np.tile(np.array(self.sizes, dtype=np.int64) - 1, (self.n_nodes, 1))
        for nodes in self._levels[1:]:
            parents = self.parents[nodes]
            lows[nodes], highs[nodes] = lows[parents], highs[parents]
            is_upper = self._uppers[parents] == nodes
            for side, ends, beyond in ((~is_upper, highs, 0), (is_upper, lows, 1)):
                cuts = parents[side]
                ends[nodes[side], self.attributes[cuts]] = self.places[cuts] + beyond
        return frozen(lows, np.int64), frozen(highs, np.int64)

    @property
    def lows(self) -> NDArray[np.int64]:
        """First position of each node per attribute, nodes x d."""
        return self._ends[0]

    @property
    def highs(self) -> NDArray[np.int64]:
        """Last position of each node, inclusive, nodes x d."""
        return self._ends[1]

    def grouping(self, nodes: NDArray[np.int64]) -> Partition:
        """The published class of every leaf if these nodes are published; one below another goes into it.

        Args:
            nodes: Nodes that together hold every leaf.
        """
        return Partition(np.repeat(*self._spans(self.topmost(nodes))))

    def nodes_of(self, grouping: Partition) -> NDArray[np.int64]:
        """The nodes that a grouping of the leaves publishes, class by class.

        Raises:
            ParameterError: Some class is no node, or they are not numbered along the leaves.
        """
        firsts, behind = self.leaf_ranges
        keys = firsts * (self.n_leaves + 1) + behind  # no two nodes hold the same leaves
        order = np.argsort(keys)
        if grouping.n_quasi_identifiers == self.n_leaves and grouping.is_contiguous:
            starts = grouping.starts
            wanted = starts * (self.n_leaves + 1) + np.append(starts[1:], self.n_leaves)
            found = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), self.n_nodes - 1)]
            if (keys[found] == wanted).all():
                return frozen(found, np.int64)
        raise ParameterError("Classes are published as nodes of the tree only, in its order.")

    def topmost(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the nodes that do not lie below another of them, in preorder."""
        found = np.unique(nodes)
        starts, stops = (ends[found] for ends in self.leaf_ranges)
        covered = np.concatenate(([0], np.maximum.accumulate(stops)[:-1]))
        return found[starts >= covered]

    def _spans(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts, stops = (ends[nodes] for ends in self.leaf_ranges)
        if int((stops - starts).sum()) != self.n_leaves:
            raise ParameterError("The nodes of a cut must hold every leaf.")
        return np.arange(nodes.size), stops - starts

    def locate(self, positions: ArrayLike) -> NDArray[np.intp]:
        """The leaf of each combination, occupied or not, given by its position in every domain."""
        points = check_positions(positions, self.sizes)
        if self.painted is not None:
            found: NDArray[np.intp] = self.painted.reshape(self.sizes)[tuple(points.T)]
            return found
        parts = [self._walk(part) for part in np.split(points, range(_AT_ONCE, len(points), _AT_ONCE))]
        return self.leaf_ranges[0].take(np.concatenate(parts)).astype(np.intp, copy=False)

    def _walk(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """The node of the leaf of each combination: all go down the tree together."""
        n_attributes = len(self.sizes)
        found = np.zeros(len(points), dtype=np.int64)
        ends, nodes = points.ravel(), found
        rows = np.arange(0, ends.size, n_attributes)
        while rows.size:
            attributes = self.attributes.take(nodes)
            is_cut = attributes >= 0
            if 2 * np.count_nonzero(is_cut) < rows.size:  # who has arrived stays there, until most have
                found[rows // n_attributes] = nodes
                rows, nodes, attributes = rows[is_cut], nodes[is_cut], attributes[is_cut]
            is_above = ends.take(rows + attributes) > self.places.take(nodes)
            nodes = self._children.take(2 * nodes + is_above)
        return found

    @cached_property
    def _children(self) -> NDArray[np.int64]:
        """The lower and the upper side of every node in turn; a leaf is its own."""
        nodes = np.arange(self.n_nodes)
        is_cut = self.attributes >= 0
        sides = np.where(is_cut, nodes + 1, nodes), np.where(is_cut, self._uppers, nodes)
        return frozen(np.stack(sides, axis=1).ravel(), np.int64)

    @cached_property
    def painted(self) -> NDArray[np.intp] | None:
        """The leaf of every combination, in lexicographic order; None where these are too many.

        Quicker than any search.
        """
        if prod(self.sizes) > _FEW_COMBINATIONS or len(self.sizes) > _MOST_DIMENSIONS:
            return None
        cells = np.empty(self.sizes, dtype=np.intp)
        lows, highs = self.lows[self.leaves], self.highs[self.leaves] + 1
        for leaf, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
            cells[tuple(map(slice, low, high))] = leaf
        return frozen(cells.ravel(), np.intp)


@dataclass(frozen=True, eq=False)
class CutTree:
    """A hierarchy over an ordered domain in which every node is a run of positions.

    A domain is cut from the root downwards: siblings stay together until their parent is alone. An interval
    that is cut only at its largest depth (`depths`), starting from the whole domain, is always one node or a
    run of sibling nodes (`docs/theory/boxes.md`).

    Attributes:
        levels: Group numbers, one row per level from the leaves to the root, one column per position,
            read-only. Every group is a run of positions and lies inside one group of the next level.
    """

    levels: NDArray[np.int64]

    def __post_init__(self) -> None:
        levels = frozen(self.levels, np.int64, copy=True)
        if levels.ndim != 2 or levels.size == 0:
            raise ParameterError(
                "A hierarchy needs one row of group numbers per level.",
                found=f"An array of shape {levels.shape}.",
            )
        changes = levels[:, 1:] != levels[:, :-1]
        n_runs = 1 + changes.sum(axis=1)
        n_groups = np.array([np.unique(level).size for level in levels])
        if (n_runs != n_groups).any():
            raise ParameterError(
                "Every group of a hierarchy must be a run of neighbouring positions.",
                found=f"{counted(int((n_runs - n_groups).sum()), 'group is', 'groups are')} interrupted.",
                remedy="Order the domain by the hierarchy, from the root to the leaves.",
            )
        if (changes[1:] & ~changes[:-1]).any():
            raise ParameterError(
                "Every group of a hierarchy must lie inside one group of the next level.",
                found=f"In two lie {counted(int((changes[1:] & ~changes[:-1]).sum()), 'group')}.",
            )
        if n_groups[0] != levels.shape[1] or n_groups[-1] != 1:
            raise ParameterError(
                "A hierarchy begins with one group per position and ends with a single group.",
                found=f"{counted(n_groups[0], 'group')} for {levels.shape[1]} positions, and "
                f"{n_groups[-1]} at the end.",
            )
        object.__setattr__(self, "levels", levels)

    @property
    def size(self) -> int:
        """The number of positions."""
        return int(self.levels.shape[1])

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """Per position, the coarsest level at which it and the next one are apart; 0 for the last."""
        changes = self.levels[:, 1:] != self.levels[:, :-1]
        depths = np.zeros(self.size, dtype=np.int32)
        # Groups are nested, so the levels at which two neighbours differ are the first few.
        depths[:-1] = changes.sum(axis=0) - 1
        depths.setflags(write=False)
        return depths


def check_positions(positions: ArrayLike, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Returns positions as an n x d table of whole numbers inside their domains, or raises."""
    table = np.asarray(positions)
    if table.ndim != 2 or table.shape[1] != len(sizes) or table.dtype.kind not in "iu":
        raise DataError(
            f"Positions must be a table of whole numbers with {counted(len(sizes), 'column')}.",
            found=f"Shape {table.shape} of {table.dtype}.",
        )
    columns = zip(table.T, sizes, strict=True)  # one after the other: three times as fast as all at once
    if table.size and not all(0 <= column.min() <= column.max() < size for column, size in columns):
        outside = int(((table < 0) | (table >= np.array(sizes))).any(axis=1).sum())
        raise DataError(
            "Positions must lie inside their domains.",
            found=f"{counted(outside, 'row does', 'rows do')} not.",
        )
    return table.astype(np.int64, copy=False)
