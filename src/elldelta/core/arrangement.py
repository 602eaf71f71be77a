"""Lays classes over each other: the cells that no class cuts, and who covers each.

Classes may overlap: in releases of others a suppressed record lies over everything, and ranges of hand-made
classes share their ends. A cell is a set of combinations that lie in the same classes, whatever their number,
so an adversary who knows a combination learns nothing more than its cell.

The domain is cut one attribute after the other. What remains to be cut depends only on the classes that are
still in play, so pieces with the same classes are one piece from then on: the work follows the classes that
meet, not the product of the attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.errors import RefusedError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    _Numbers = NDArray[np.int64]

MOST_PAIRS = 40_000_000
"""Above this many pairs of a piece and a class in it an arrangement is refused: it would not fit a laptop."""

_FEWEST_TOGETHER = 16


@dataclass(frozen=True, eq=False)
class LabelRuns:
    """The positions of one attribute that each label names, as runs without gaps.

    Attributes:
        n_positions: The number of positions.
        label: The label of each run, in rising order; every label has at least one run.
        first: The first position of each run.
        last: The last position of each run.
        is_named: For every position, whether a combination with it counts as one that exists; None if all do.
    """

    n_positions: int
    label: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    is_named: NDArray[np.bool_] | None = None

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return int(self.label[-1]) + 1 if self.label.size else 0

    @classmethod
    def from_ends(
        cls, lows: NDArray[np.int64], highs: NDArray[np.int64]
    ) -> tuple[LabelRuns, NDArray[np.int64]]:
        """One label per range that occurs, and the label of each range that was given.

        Positions that no range tells apart are one: a domain may have 2^62 of them.
        """
        ends = np.stack((lows, highs + 1), axis=1)
        cuts = np.unique(ends)
        distinct, label_of = np.unique(ends, axis=0, return_inverse=True)
        first, behind = np.searchsorted(cuts, distinct).T
        label = np.arange(len(distinct), dtype=np.int64)
        return cls(len(cuts), label, first, behind - 1), label_of.reshape(-1).astype(np.int64)

    def mask(self, label: int) -> NDArray[np.bool_]:
        """The positions of one label."""
        mask = np.zeros(self.n_positions, dtype=bool)
        for run in np.flatnonzero(self.label == label):
            mask[self.first[run] : self.last[run] + 1] = True
        return mask

    @classmethod
    def from_masks(cls, masks: NDArray[np.bool_], is_named: NDArray[np.bool_] | None = None) -> LabelRuns:
        """The runs of a table of labels x positions.

        >>> runs = LabelRuns.from_masks(np.array([[True, True, False, True]]))
        >>> runs.first.tolist(), runs.last.tolist()
        ([0, 3], [1, 3])
        """
        edges = np.diff(np.pad(masks.astype(np.int8), ((0, 0), (1, 1))), axis=1)
        label, first = np.nonzero(edges == 1)
        last = np.nonzero(edges == -1)[1] - 1
        return cls(masks.shape[1], label, first, last, is_named)

    def intervals(
        self, labels: NDArray[np.int64], most_pairs: int
    ) -> tuple[NDArray[np.intp], _Numbers, _Numbers]:
        """The runs of labels, one after the other: whose each is, where it begins, and behind its end."""
        runs_from = np.searchsorted(self.label, np.arange(self.n_labels + 1))
        n_runs = np.diff(runs_from)[labels]
        _check(n_runs, most_pairs)
        owner = np.repeat(np.arange(len(labels)), n_runs)
        run = runs_from[labels][owner] + _within(n_runs)
        return owner, self.first[run], self.last[run] + 1


class _Stage(NamedTuple):
    """How one attribute cuts pieces: where the parts lie, and which piece of the next stage each becomes."""

    place: int
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    becomes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The cells of an arrangement and the classes that cover them.

    Attributes:
        starts: Where the classes of each cell begin in `classes`; one entry more than there are cells.
        classes: The classes of cell after cell, rising within a cell.
        is_named: For each cell, whether a combination in it counts as one that exists.
        attributes: What the labels of each attribute name.
        stages: How the cells came about, attribute after attribute.
    """

    starts: NDArray[np.int64]
    classes: NDArray[np.int64]
    is_named: NDArray[np.bool_]
    attributes: tuple[LabelRuns, ...]
    stages: tuple[_Stage, ...]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.starts) - 1

    @property
    def cell_of(self) -> NDArray[np.int64]:
        """The cell of each entry of `classes`."""
        return np.repeat(np.arange(self.n_cells, dtype=np.int64), np.diff(self.starts))

    def find(self, labels: NDArray[np.int64], *, most_pairs: int = MOST_PAIRS) -> tuple[_Numbers, _Numbers]:
        """The cells in which somebody can be of whom labels are known: a few at a time if they meet much.

        Args:
            labels: The label of each person in each attribute.
            most_pairs: Pairs of a person and a piece that may be held at once.

        Returns:
            Pairs of a person and a cell, sorted. Whom no class covers has none.
        """
        try:
            return self._find(labels, most_pairs)
        except RefusedError:
            if len(labels) < _FEWEST_TOGETHER:
                raise
        half = len(labels) // 2
        first, second = (self.find(part, most_pairs=most_pairs) for part in (labels[:half], labels[half:]))
        return np.concatenate((first[0], second[0] + half)), np.concatenate((first[1], second[1]))

    def _find(self, labels: NDArray[np.int64], most_pairs: int) -> tuple[_Numbers, _Numbers]:
        person = np.arange(len(labels) if self.n_cells else 0, dtype=np.int64)
        piece = np.zeros(len(person), dtype=np.int64)
        for place, begin, end, becomes in self.stages:
            attribute = self.attributes[place]
            pair, first, behind = attribute.intervals(labels[person, place], most_pairs)
            offset = piece[pair] * (attribute.n_positions + 1)
            low = np.searchsorted(end, offset + first, side="right")
            high = np.searchsorted(begin, offset + behind, side="left")
            n_parts = np.maximum(high - low, 0)
            _check(n_parts, most_pairs)
            part = np.repeat(low, n_parts) + _within(n_parts)
            n_pieces = int(becomes.max(initial=0)) + 1
            keys = np.unique(np.repeat(person[pair], n_parts) * n_pieces + becomes[part])
            person, piece = np.divmod(keys, n_pieces)
        return person, piece


def arrange(
    attributes: Sequence[LabelRuns], labels: NDArray[np.int64], *, most_pairs: int = MOST_PAIRS
) -> Arrangement:
    """All cells that at least one class covers.

    Args:
        attributes: Per attribute, what its labels name.
        labels: The label of each class in each attribute: classes x attributes.
        most_pairs: Pairs of a piece and a class in it that may be held at once.

    Raises:
        RefusedError: The classes meet in too many ways.

    >>> sides = LabelRuns.from_masks(np.array([[True, False], [False, True], [True, True]]))
    >>> cells = arrange([sides], np.array([[0], [1], [2]]))
    >>> sorted(cells.classes[a:b].tolist() for a, b in zip(cells.starts, cells.starts[1:]))
    [[0, 2], [1, 2]]
    """
    n_classes = len(labels)
    pieces = np.zeros(n_classes, dtype=np.int64)
    classes = np.arange(n_classes, dtype=np.int64)
    named = np.ones(min(n_classes, 1), dtype=bool)
    stages = []
    # Attributes with few labels first: they cut little, and most classes part ways before the others.
    for place in sorted(range(len(attributes)), key=lambda index: attributes[index].n_labels):
        pieces, classes, named, begin, end = _cut(
            attributes[place], labels[:, place], pieces, classes, named, most_pairs
        )
        pieces, classes, named, becomes = _merge(pieces, classes, named)
        stages.append(_Stage(place, begin, end, becomes))
    starts = np.searchsorted(pieces, np.arange(len(named) + 1, dtype=np.int64))
    for array in (starts, classes, named):
        array.setflags(write=False)
    return Arrangement(starts, classes, named, tuple(attributes), tuple(stages))


def overlay_runs(starts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """The class of every common cell, per release, for runs given by the ranks at which they begin.

    >>> [classes.tolist() for classes in overlay_runs([np.array([0, 4]), np.array([0, 2, 4])])]
    [[0, 0, 1], [0, 1, 2]]
    """
    cells = np.unique(np.concatenate(starts))
    return [np.searchsorted(first, cells, side="right").astype(np.int64) - 1 for first in starts]


def _cut(
    attribute: LabelRuns,
    label_of: NDArray[np.int64],
    pieces: NDArray[np.int64],
    classes: NDArray[np.int64],
    named: NDArray[np.bool_],
    most_pairs: int,
) -> tuple[_Numbers, _Numbers, NDArray[np.bool_], _Numbers, _Numbers]:
    """Cuts every piece where a class in it begins or ends; pairs of (piece, class) in, and out.

    Also returns where every part begins and ends, on a line on which the pieces follow each other.
    """
    pair, first, behind = attribute.intervals(label_of[classes], most_pairs)
    width = attribute.n_positions + 1
    begin, end = pieces[pair] * width + first, pieces[pair] * width + behind
    cuts = np.unique(np.concatenate((begin, end)))
    low, high = np.searchsorted(cuts, begin), np.searchsorted(cuts, end)
    n_parts = high - low
    _check(n_parts, most_pairs)
    parts = np.repeat(low, n_parts) + _within(n_parts)
    # One number per pair sorts several times faster than two.
    keys = np.sort(parts * len(label_of) + np.repeat(classes[pair], n_parts))
    parts, owners = np.divmod(keys, len(label_of))
    is_first = np.diff(parts, prepend=-1) != 0
    kept = parts[is_first]
    begin, end = cuts[kept], cuts[kept + 1]
    parent = begin // width
    is_named = named[parent]
    if attribute.is_named is not None:
        names_before = np.concatenate(([0], np.cumsum(attribute.is_named)))
        is_named = is_named & (names_before[end - parent * width] > names_before[begin - parent * width])
    return np.cumsum(is_first) - 1, owners, is_named, begin, end


def _merge(
    pieces: NDArray[np.int64], classes: NDArray[np.int64], named: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Makes pieces with the same classes one piece, named if one of them is; also which one each became."""
    n_pieces = len(named)
    starts = np.searchsorted(pieces, np.arange(n_pieces + 1))
    sizes = np.diff(starts)
    if not n_pieces:
        return pieces, classes, named, np.empty(0, dtype=np.int64)
    keys = np.stack([np.add.reduceat(scattered(classes, salt), starts[:-1]) for salt in (1, 2)], axis=1)
    order = np.lexsort((keys[:, 1], keys[:, 0], sizes))
    same = (np.diff(keys[order], axis=0) == 0).all(axis=1) & (np.diff(sizes[order]) == 0)
    group_first = np.concatenate(([True], ~same))
    group = np.cumsum(group_first) - 1
    example = order[group_first][group]  # the piece that stands for each piece, in the sorted order
    # Equal keys make equal classes all but certain; only what is equal for certain is merged.
    pair = np.repeat(np.arange(n_pieces), sizes[order])
    offset = _within(sizes[order])
    differs = classes[starts[order][pair] + offset] != classes[starts[example][pair] + offset]
    wrong = np.bincount(pair, weights=differs, minlength=n_pieces) > 0
    group[wrong] = group.max() + 1 + np.arange(int(wrong.sum()))
    group_of = np.empty(n_pieces, dtype=np.int64)
    group_of[order] = group
    # Numbered by what they hold, so that the numbers do not depend on how the pieces came about.
    _, examples, group_of = np.unique(group_of, return_index=True, return_inverse=True)
    group_of = group_of.reshape(-1).astype(np.int64)
    merged_named = np.zeros(len(examples), dtype=bool)
    np.logical_or.at(merged_named, group_of, named)
    n_kept = sizes[examples]
    kept = np.repeat(starts[examples], n_kept) + _within(n_kept)
    merged = np.repeat(np.arange(len(examples), dtype=np.int64), n_kept)
    return merged, classes[kept], merged_named, group_of


def _within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ..., for each of several lists, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - lengths, lengths)


def scattered(numbers: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """Numbers mixed well (splitmix64), so that sums of different sets of them hardly ever agree."""
    mixed = (numbers.astype(np.uint64) + np.uint64(salt << 32)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _check(n_each: NDArray[np.int64], most_pairs: int) -> None:
    n_pairs = int(n_each.sum())
    if n_pairs > most_pairs:
        raise RefusedError(
            "The classes of the releases meet in too many ways to be laid over each other.",
            found=f"{counted(n_pairs, 'pair')} of a cell and a class, at most {most_pairs} are possible.",
            remedy="Link fewer releases at a time, or fewer quasi-identifiers.",
        )
