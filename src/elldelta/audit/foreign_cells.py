"""What releases of any origin show about every combination: counts per common cell.

An adversary who knows somebody's combination cannot tell which of the classes that contain it the person is
in: ranges overlap, groups are nested, and a suppressed record (`*` in every column) can be anybody's. So what
a release shows about a cell is the sum over all its classes that contain the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.arrangement import Arrangement, arrange, without_last
from elldelta.errors import DataError, InternalError, RefusedError
from elldelta.schema.foreign_labels import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.audit.foreign_release import ForeignRelease, Understanding
    from elldelta.schema.foreign_columns import ForeignColumn

MOST_COUNTS = 120_000_000
"""Above this many counts a table of all cells is refused: it would not fit a laptop."""

_FEWEST_TOGETHER = 16


@dataclass(frozen=True, eq=False)
class ReleaseClasses:
    """The classes of one release, and the cells that each of them covers.

    Attributes:
        name: Words for the release.
        labels: The labels of every class, as they are written; in one way, if there are several.
        counts: Records by class and sensitive value.
        starts: Where the classes of each cell begin in `classes`; one entry more than there are cells.
        classes: The classes of cell after cell; a cell can have none, one or several.
    """

    name: str
    labels: tuple[tuple[str | None, ...], ...]
    counts: NDArray[np.int64]
    starts: NDArray[np.int64]
    classes: NDArray[np.int64]

    @property
    def n_overlapping(self) -> int:
        """The number of cells that several classes cover."""
        return int((np.diff(self.starts) > 1).sum())

    def over_cells(self, cells: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """What the release shows about cells: the sum over the classes that cover each."""
        from scipy.sparse import csr_array

        n_cells = len(self.starts) - 1
        ones = np.ones(len(self.classes), dtype=np.int64)
        covers = csr_array((ones, self.classes, self.starts), shape=(n_cells, len(self.counts)))
        return np.asarray((covers if cells is None else covers[cells]) @ self.counts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Several releases over common cells.

    Attributes:
        columns: The label columns.
        values: The sensitive values; None for a missing one, which comes last.
        releases: The classes of each release, and their cells.
        is_named: For each cell, whether labels other than `*` name a combination in it. The others can only
            hold somebody whose values no release names.
    """

    columns: tuple[ForeignColumn, ...]
    values: tuple[str | None, ...]
    releases: tuple[ReleaseClasses, ...]
    is_named: NDArray[np.bool_]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.is_named)

    @property
    def names(self) -> tuple[str, ...]:
        """Words for the releases."""
        return tuple(release.name for release in self.releases)

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], ...]:
        """Per release, what it shows about every cell: cells x sensitive values.

        Raises:
            RefusedError: The tables would be too large; ask `ReleaseClasses.over_cells` for parts of them.
        """
        n_counts = self.n_cells * len(self.values) * len(self.releases)
        if n_counts > MOST_COUNTS:
            raise RefusedError(
                "The releases are cut in too many different ways to be laid over each other.",
                found=f"{n_counts} counts in {self.n_cells} cells, at most {MOST_COUNTS} are possible.",
                remedy="Link fewer releases at a time, or fewer quasi-identifiers.",
            )
        tables = tuple(release.over_cells() for release in self.releases)
        for table in tables:
            table.setflags(write=False)
        return tables

    def classes_of(self, cell: int) -> tuple[tuple[int, ...], ...]:
        """Per release, the classes that cover a cell."""
        return tuple(
            tuple(release.classes[release.starts[cell] : release.starts[cell + 1]].tolist())
            for release in self.releases
        )

    def masks(self, cell: int) -> tuple[NDArray[np.bool_], ...]:
        """Per column, the positions that all classes of the cell name: no combination of it lies outside."""
        classes = self.classes_of(cell)
        masks = []
        for place, column in enumerate(self.columns):
            mask = np.ones(column.runs.n_positions, dtype=bool)
            code_of = column.code_of
            for release, own in zip(self.releases, classes, strict=True):
                for label in {release.labels[number][place] for number in own}:
                    mask &= column.runs.mask(code_of[label])
            masks.append(mask)
        return tuple(masks)

    def describe(self, cell: int) -> tuple[str, ...]:
        """Words for a cell, column by column, made from the labels of the releases."""
        return tuple(
            column.describe(mask) for column, mask in zip(self.columns, self.masks(cell), strict=True)
        )


@dataclass(frozen=True, eq=False)
class PeopleCells:
    """The cells in which people can be, by what is known about each.

    Attributes:
        starts: Where the cells of each person begin in `cells`; one entry more than there are people.
        cells: The cells of person after person, rising; several if something about the person is unknown,
            none if no class of any release contains them.
        is_named: For each entry of `cells`, whether labels other than `*` name a combination in the cell that
            the person can have.
    """

    starts: NDArray[np.int64]
    cells: NDArray[np.int64]
    is_named: NDArray[np.bool_]


def cell_counts(releases: Sequence[ForeignRelease], understanding: Understanding) -> CellCounts:
    """Lays releases over each other, whether or not their classes overlap.

    Raises:
        DataError: A label has no clear meaning.
        RefusedError: There are too many cells.
    """
    understanding.check()
    columns = understanding.columns
    merged = [_merged(_codes(columns, release.found.labels), columns) for release in releases]
    codes = [own for own, _, _ in merged]
    cells = arrange([column.runs for column in columns], np.concatenate(codes))
    offsets = np.cumsum([0, *map(len, codes)])
    owner = np.searchsorted(offsets, cells.classes, side="right") - 1
    cell_of = cells.cell_of
    shown = []
    for number, (release, value_of) in enumerate(zip(releases, understanding.value_of, strict=True)):
        found, (_, examples, class_of) = release.found, merged[number]
        counts = np.zeros((len(examples), len(understanding.values)), dtype=np.int64)
        np.add.at(counts, (class_of[found.classes], value_of[found.value_of]), found.n)
        labels = tuple(found.labels[example] for example in examples)
        own = owner == number
        starts = np.searchsorted(cell_of[own], np.arange(cells.n_cells + 1))
        classes = cells.classes[own] - offsets[number]
        for array in (counts, starts, classes):
            array.setflags(write=False)
        shown.append(ReleaseClasses(release.name, labels, counts, starts, classes))
    return CellCounts(columns, understanding.values, tuple(shown), cells.is_named)


def people_cells(counts: CellCounts, people: Sequence[Sequence[str | None]]) -> PeopleCells:
    """The cells in which people can be; None or `*` stands for what is not known about a person.

    Raises:
        DataError: Something known about people was not given to `understand`.
    """
    known = [tuple(EVERYTHING if label is None else label for label in row) for row in people]
    distinct = {row: number for number, row in enumerate(dict.fromkeys(known))}
    targets = _codes(counts.columns, list(distinct))
    base = np.concatenate([_codes(counts.columns, release.labels) for release in counts.releases])
    person, cell, named = _incidence(counts, base, targets)
    starts_of = np.searchsorted(person, np.arange(len(targets) + 1))
    which = np.array([distinct[row] for row in known], dtype=np.int64)
    lengths = np.diff(starts_of)[which]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(starts_of[which] - starts[:-1], lengths) + np.arange(int(starts[-1]))
    return PeopleCells(starts, cell[places], named[places])


def _incidence(
    counts: CellCounts, base: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs of a target and a cell in which it can be, sorted; a few targets at a time if they meet much."""
    try:
        fine = arrange([column.runs for column in counts.columns], np.concatenate((base, targets)))
    except RefusedError:
        if len(targets) < _FEWEST_TOGETHER:
            raise
        half = len(targets) // 2
        first, second = (_incidence(counts, base, part) for part in (targets[:half], targets[half:]))
        return (
            np.concatenate((first[0], second[0] + half)),
            np.concatenate((first[1], second[1])),
            np.concatenate((first[2], second[2])),
        )
    coarse, cell_of = without_last(fine, len(base))
    _check_same(counts, coarse)
    fine_cell = fine.cell_of
    mine = (fine.classes >= len(base)) & (cell_of[fine_cell] >= 0)
    n_cells = max(counts.n_cells, 1)
    pairs = (fine.classes[mine] - len(base)) * n_cells + cell_of[fine_cell[mine]]
    keys, place = np.unique(pairs, return_inverse=True)
    named = np.zeros(len(keys), dtype=bool)
    np.logical_or.at(named, place.reshape(-1), fine.is_named[fine_cell[mine]])
    return keys // n_cells, keys % n_cells, named


def _check_same(counts: CellCounts, coarse: Arrangement) -> None:
    # Cells are numbered by the classes they hold, so both arrangements number them alike.
    n_classes = sum(np.diff(release.starts) for release in counts.releases)
    if not np.array_equal(n_classes, np.diff(coarse.starts)):
        raise InternalError("Cells were numbered differently.", remedy="Please report this.")


def _merged(
    codes: NDArray[np.int64], columns: Sequence[ForeignColumn]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Makes classes one whose labels mean the same in other words, as `20-40` and `[20, 40]` do.

    Returns:
        The codes of the classes, an example of each among those given, and which one each became.
    """
    same = np.stack([column.same_meaning[codes[:, place]] for place, column in enumerate(columns)], axis=1)
    _, examples, class_of = np.unique(same, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(examples)  # in the order in which they were given
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return same[examples[order]], examples[order], rank[class_of.reshape(-1)]


def _codes(columns: Sequence[ForeignColumn], labels: Sequence[Sequence[str | None]]) -> NDArray[np.int64]:
    """The number of every label of every class: classes x columns."""
    codes = np.empty((len(labels), len(columns)), dtype=np.int64)
    for place, column in enumerate(columns):
        code_of = column.code_of
        try:
            codes[:, place] = [code_of[row[place]] for row in labels]
        except KeyError:
            unknown = True
        else:
            unknown = False
        if unknown:  # raised out here: the error above quotes a label
            raise DataError(
                f"Labels of column {column.name!r} were not understood before.",
                remedy="Give releases and people to `understand` first.",
            )
    return codes
