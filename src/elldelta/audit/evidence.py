"""What somebody who holds several releases can work with: common cells, names of classes, the way to people.

Audits, gates and targets ask for nothing else, so releases of elldelta and those of others are treated alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from elldelta.core.linkage import ReleasedCounts
from elldelta.core.overlay import NO_CLASS
from elldelta.core.partition import Partition
from elldelta.errors import DataError, RefusedError
from elldelta.plan.common_cells import common_cells
from elldelta.schema.domains import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.model.model import Model
    from elldelta.release.published import Published
    from elldelta.schema.schema import Schema

MOST_COMPLETIONS = 5_000_000
"""Combinations that all targets together may stand for; more would not fit a laptop."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Where people can be: one line per person and combination of rows they may have.

    Attributes:
        n_people: The number of people.
        person: The person of each line, rising.
        rows: The row of each release's table, lines x releases.
        tables: Per release what each row shows: rows x values.
        n_outside: People with a value that no release can show: they are in none.
    """

    n_people: int
    person: NDArray[np.int64]
    rows: NDArray[np.int64]
    tables: tuple[NDArray[np.int64], ...]
    n_outside: int


class Evidence(Protocol):
    """Releases laid over each other."""

    @property
    def names(self) -> tuple[str, ...]:
        """Words for each release."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The quasi-identifiers."""

    @property
    def values(self) -> tuple[str, ...]:
        """What the sensitive values are called."""

    @property
    def releases(self) -> tuple[ReleasedCounts, ...]:
        """The releases over common cells; a row of counts is what somebody sees who knows the cell."""

    @property
    def class_counts(self) -> tuple[NDArray[np.int64], ...]:
        """Per release its own classes x values, every record once."""

    @property
    def promised(self) -> int | None:
        """The largest ell that a release promises, or None."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What reading the releases took for granted, in words."""

    @property
    def is_disjoint(self) -> bool:
        """Whether the classes of each release are disjoint."""

    @property
    def labels(self) -> tuple[tuple[str, str, str], ...]:
        """How labels were understood where nothing but the labels says so: column, label, meaning."""

    def label(self, release: int, row: int) -> tuple[str, ...]:
        """What a release shows for the people of a row of its counts: one label per quasi-identifier."""

    def find(self, people: pa.Table) -> Candidates:
        """Where the people of a table can be; a column that is missing or a cell that is empty is unknown."""

    def model_cells(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The records of a model: the rows that each of its combinations has, and its counts by value."""


@dataclass(frozen=True, eq=False)
class OwnReleases:
    """Releases that a manifest or a schema describes; see `Evidence`."""

    published: tuple[Published, ...]
    releases: tuple[ReleasedCounts, ...]
    used: tuple[NDArray[np.int64], ...]

    is_disjoint = True
    labels = ()

    @classmethod
    def overlay(cls, published: Sequence[Published]) -> OwnReleases:
        """Lays releases of one schema over each other.

        Raises:
            DataError: The releases do not have the same schema.
            RefusedError: There are too many cells.
        """
        schema = published[0].schema
        for other in published[1:]:
            if other.schema.digest != schema.digest:
                raise DataError(
                    "The releases were made with different schemas.",
                    found=f"{published[0].name} and {other.name} describe their columns differently.",
                    remedy="Link releases that use the same columns and domains.",
                )
        releases, all_used = [], []
        for item, cells in zip(
            published, common_cells(schema, [item.classes for item in published]), strict=True
        ):
            used, class_of = np.unique(cells, return_inverse=True)
            counts = item.counts[used]
            counts[used == NO_CLASS] = 0  # cells without a class form one that has no record
            releases.append(ReleasedCounts(Partition(class_of.reshape(-1)), counts))
            all_used.append(used)
        return cls(tuple(published), tuple(releases), tuple(all_used))

    @property
    def schema(self) -> Schema:
        """The schema of all releases."""
        return self.published[0].schema

    @property
    def names(self) -> tuple[str, ...]:
        """Words for each release."""
        return tuple(item.name for item in self.published)

    @property
    def columns(self) -> tuple[str, ...]:
        """The quasi-identifiers."""
        return self.schema.names

    @property
    def values(self) -> tuple[str, ...]:
        """What the sensitive values are called."""
        return self.schema.sensitive.value_labels

    @property
    def class_counts(self) -> tuple[NDArray[np.int64], ...]:
        """Per release its own classes x values."""
        return tuple(item.counts for item in self.published)

    @property
    def promised(self) -> int | None:
        """The largest ell that a manifest promises."""
        return max((item.manifest.ell for item in self.published if item.manifest is not None), default=None)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What reading the releases took for granted."""
        without = [item.name for item in self.published if item.manifest is None]
        read = (
            f"{', '.join(without)}: no manifest was there; the labels were understood by the schema given."
            if without
            else "Every release is the one that its manifest describes: its content was compared."
        )
        kept = sorted({name for item in self.published for name in item.schema.kept})
        if not kept:
            return (read,)
        return (
            read,
            f"Columns that are kept unchanged ({', '.join(kept)}) were not looked at: they can name people.",
        )

    @cached_property
    def _labels(self) -> list[list[tuple[str, ...]]]:
        return [item.labels for item in self.published]

    def label(self, release: int, row: int) -> tuple[str, ...]:
        """What a release shows for a row of its counts."""
        own = int(self.used[release][row])
        return ("no class",) * len(self.columns) if own == NO_CLASS else self._labels[release][own]

    def find(self, people: pa.Table) -> Candidates:
        """Where the people of a table can be."""
        columns = self.schema.quasi_identifiers
        positions = np.full((people.num_rows, len(columns)), _ANY, dtype=np.int64)
        is_outside = np.zeros(people.num_rows, dtype=bool)
        for place, column in enumerate(columns):
            if column.name in people.column_names:
                cells = people.column(column.name).combine_chunks()
                known = ~cells.is_null().to_numpy(zero_copy_only=False)
                found = column.encode(cells)
                positions[known, place] = found[known]
                is_outside |= known & (found == UNKNOWN)
        inside = np.flatnonzero(~is_outside)
        distinct, kind = np.unique(positions[inside], axis=0, return_inverse=True)
        owner, ranks = _completed(self.schema, distinct)
        rows = self._rows_of(ranks)
        lines = np.unique(np.column_stack([owner, rows]), axis=0)
        # every person gets the lines of their kind
        starts = np.searchsorted(lines[:, 0], np.arange(len(distinct) + 1))
        n_lines = np.diff(starts)[kind.reshape(-1)]
        person = np.repeat(inside, n_lines)
        within = np.arange(len(person)) - np.repeat(np.cumsum(n_lines) - n_lines, n_lines)
        picked = np.repeat(starts[kind.reshape(-1)], n_lines) + within
        tables = tuple(release.counts for release in self.releases)
        return Candidates(people.num_rows, person, lines[picked, 1:], tables, int(is_outside.sum()))

    def model_cells(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that each combination of a model has, and its counts by value."""
        if model.schema.digest != self.schema.digest:
            raise DataError(
                "The model and the releases were made with different schemas.",
                remedy="Use the model that the plan of the releases was made from, or leave it out.",
            )
        return self._rows_of(model.ranks), model.counts.dense()

    def _rows_of(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = [
            np.searchsorted(used, item.classes.class_of(self.schema, ranks))
            for item, used in zip(self.published, self.used, strict=True)
        ]
        return np.stack(rows, axis=1).astype(np.int64)


_ANY = -9
"""A position that the adversary does not know; apart from the marks of `elldelta.schema.domains`."""


def _completed(schema: Schema, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every combination that partly known positions can stand for: whose it is, and its rank."""
    sizes = np.array(schema.sizes)
    n_each = np.where(positions == _ANY, sizes, 1).prod(axis=1, dtype=object) if len(positions) else []
    total = sum(int(n) for n in n_each)
    if total > MOST_COMPLETIONS:
        raise RefusedError(
            "Too little is known about the targets: they can stand for too many combinations.",
            found=f"{total} combinations, at most {MOST_COMPLETIONS} are possible.",
            remedy="Give more columns, or fewer targets at a time.",
        )
    owners, ranks = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    is_open = positions == _ANY
    for pattern in np.unique(is_open, axis=0):
        chosen = np.flatnonzero((is_open == pattern).all(axis=1))
        n_more = math.prod(sizes[pattern].tolist())
        full = np.repeat(positions[chosen], n_more, axis=0)
        if pattern.any():
            more = np.stack(np.unravel_index(np.arange(n_more), sizes[pattern]), axis=1)
            full[:, pattern] = np.tile(more, (len(chosen), 1))
        owners.append(np.repeat(chosen, n_more))
        ranks.append(schema.ranks(full))
    return np.concatenate(owners), np.concatenate(ranks)
