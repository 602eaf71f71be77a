"""Lays classes that may overlap over each other: the cells that no class cuts, and who covers each.

`elldelta.core.overlay` asks for classes that do not meet. Releases of others do not promise that: a
suppressed record lies over everything, and ranges of hand-made classes share their ends. Here a cell is a
set of combinations that lie in the same classes, whatever their number, so an adversary who knows a
combination learns nothing more than its cell.

The domain is cut one attribute after the other. What remains to be cut depends only on the classes that are
still in play, so pieces with the same classes are one piece from then on: the work follows the classes that
meet, not the product of the attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_PAIRS = 40_000_000
"""Above this many pairs of a piece and a class in it an arrangement is refused: it would not fit a laptop."""


@dataclass(frozen=True, eq=False)
class LabelRuns:
    """The positions of one attribute that each label names, as runs without gaps.

    Attributes:
        n_positions: The number of positions.
        label: The label of each run, in rising order; every label has at least one run.
        first: The first position of each run.
        last: The last position of each run.
        is_named: For every position, whether a combination with it counts as one that exists.
    """

    n_positions: int
    label: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    is_named: NDArray[np.bool_]

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return int(self.label[-1]) + 1 if self.label.size else 0

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
        named = np.ones(masks.shape[1], dtype=bool) if is_named is None else is_named
        return cls(masks.shape[1], label, first, last, named)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The cells of an arrangement and the classes that cover them.

    Attributes:
        starts: Where the classes of each cell begin in `classes`; one entry more than there are cells.
        classes: The classes of cell after cell, rising within a cell.
        is_named: For each cell, whether a combination in it counts as one that exists.
    """

    starts: NDArray[np.int64]
    classes: NDArray[np.int64]
    is_named: NDArray[np.bool_]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.starts) - 1

    @property
    def cell_of(self) -> NDArray[np.int64]:
        """The cell of each entry of `classes`."""
        return np.repeat(np.arange(self.n_cells, dtype=np.int64), np.diff(self.starts))


def arrange(attributes: Sequence[LabelRuns], labels: NDArray[np.int64]) -> Arrangement:
    """All cells that at least one class covers.

    Args:
        attributes: Per attribute, what its labels name.
        labels: The label of each class in each attribute: classes x attributes.

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
    # Attributes with few labels first: they cut little, and most classes part ways before the others.
    for place in sorted(range(len(attributes)), key=lambda index: attributes[index].n_labels):
        pieces, classes, named = _cut(attributes[place], labels[:, place], pieces, classes, named)
        pieces, classes, named, _ = _merge(pieces, classes, named)
    return _frozen(pieces, classes, named)


def without_last(arrangement: Arrangement, n_kept: int) -> tuple[Arrangement, NDArray[np.int64]]:
    """The cells of the first `n_kept` classes alone, and which of them each cell lies in; -1 for none."""
    keep = arrangement.classes < n_kept
    pieces, classes = arrangement.cell_of[keep], arrangement.classes[keep]
    inside, pieces = np.unique(pieces, return_inverse=True)
    pieces, classes, named, group_of = _merge(pieces.reshape(-1), classes, arrangement.is_named[inside])
    cell_of = np.full(arrangement.n_cells, -1, dtype=np.int64)
    cell_of[inside] = group_of
    return _frozen(pieces, classes, named), cell_of


_State = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.bool_]"]


def _cut(
    attribute: LabelRuns,
    label_of: NDArray[np.int64],
    pieces: NDArray[np.int64],
    classes: NDArray[np.int64],
    named: NDArray[np.bool_],
) -> _State:
    """Cuts every piece where a class in it begins or ends; pairs of (piece, class) in, and out."""
    runs_from = np.searchsorted(attribute.label, np.arange(attribute.n_labels + 1))
    n_runs = np.diff(runs_from)[label_of[classes]]
    _check(int(n_runs.sum()))
    pair = np.repeat(np.arange(len(classes)), n_runs)
    run = runs_from[label_of[classes]][pair] + _within(n_runs)
    width = attribute.n_positions + 1
    begin = pieces[pair] * width + attribute.first[run]
    end = pieces[pair] * width + attribute.last[run] + 1
    cuts = np.unique(np.concatenate((begin, end)))
    low, high = np.searchsorted(cuts, begin), np.searchsorted(cuts, end)
    n_parts = high - low
    _check(int(n_parts.sum()))
    parts = np.repeat(low, n_parts) + _within(n_parts)
    # One number per pair sorts several times faster than two.
    keys = np.sort(parts * len(label_of) + np.repeat(classes[pair], n_parts))
    parts, owners = np.divmod(keys, len(label_of))
    is_first = np.diff(parts, prepend=-1) != 0
    kept = parts[is_first]
    names_before = np.concatenate(([0], np.cumsum(attribute.is_named)))
    parent, from_position = np.divmod(cuts[kept], width)
    to_position = cuts[kept + 1] - parent * width
    is_named = named[parent] & (names_before[to_position] > names_before[from_position])
    return np.cumsum(is_first) - 1, owners, is_named


def _merge(
    pieces: NDArray[np.int64], classes: NDArray[np.int64], named: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Makes pieces with the same classes one piece, named if one of them is; also which one each became."""
    n_pieces = len(named)
    starts = np.searchsorted(pieces, np.arange(n_pieces + 1))
    sizes = np.diff(starts)
    if not n_pieces:
        return pieces, classes, named, np.empty(0, dtype=np.int64)
    keys = np.stack([np.add.reduceat(_scattered(classes, salt), starts[:-1]) for salt in (1, 2)], axis=1)
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


def _scattered(numbers: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """Numbers mixed well (splitmix64), so that sums of different sets of them hardly ever agree."""
    mixed = (numbers.astype(np.uint64) + np.uint64(salt << 32)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _frozen(pieces: NDArray[np.int64], classes: NDArray[np.int64], named: NDArray[np.bool_]) -> Arrangement:
    starts = np.searchsorted(pieces, np.arange(len(named) + 1, dtype=np.int64))
    for array in (starts, classes, named):
        array.setflags(write=False)
    return Arrangement(starts, classes, named)


def _check(n_pairs: int) -> None:
    if n_pairs > MOST_PAIRS:
        raise RefusedError(
            "The classes of the releases meet in too many ways to be laid over each other.",
            found=f"{n_pairs} pairs of a cell and a class, at most {MOST_PAIRS} are possible.",
            remedy="Link fewer releases at a time, or fewer quasi-identifiers.",
        )
