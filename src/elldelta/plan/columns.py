"""What a plan promises of one sensitive column; of several columns each has its own, with the same classes.

Releases are *sliced*: inside a class they show the values of every column, but not which of them belong to
one person. Then what linking tells about one column is what it would tell if the others were not there, and
the promises hold side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_ell
from elldelta.core.promises import Values
from elldelta.errors import ParameterError
from elldelta.files import fields_of
from elldelta.plan.closeness import Closeness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.promises import Promise
    from elldelta.schema.column import Column

APART = (
    "All linked releases show their sensitive columns apart: which values of different columns belong to one "
    "person is not told, and nothing public ties them (a drug that names its disease)."
)
"""What must be true where there are several sensitive columns."""


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """What a plan promises of one sensitive column.

    Attributes:
        ell: Sensitive values left for everybody who is in all linked releases.
        failure_upper: Bound on the probability that linking t releases leaves somebody below ell; in a
            certified plan, that one of t releases, or of those of all owners, with N records each is refused.
        p: What ell cells of every class of a paper plan reach.
        witnesses: Per class, the values that the proof counts, most probable first.
        witness_cells: Their probabilities P(c, s) in the model, so that promises can be recomputed and
            composed from plans alone.
        closeness: What is promised about shares of linked records, if that was asked for. With ell = 1 it is
            all that is promised, and there are no witnesses.
    """

    ell: int
    failure_upper: float
    p: float | None
    witnesses: tuple[tuple[int, ...], ...]
    witness_cells: tuple[tuple[float, ...], ...]
    closeness: Closeness | None = None

    def __post_init__(self) -> None:
        """Plans come from files: numbers must be possible before anything is computed with them."""
        if not all(n is None or 0.0 <= n <= 1.0 for n in (self.failure_upper, self.p)):
            raise ParameterError("A probability of the plan does not lie between 0 and 1.")
        if list(map(len, self.witnesses)) != list(map(len, self.witness_cells)):
            raise ParameterError("Every witness value of a plan needs its probability.")
        try:
            cells = self.witness_arrays[2]
        except OverflowError:
            raise ParameterError("A number of the plan is too large.") from None
        if not ((cells >= 0.0) & (cells <= 1.0)).all():
            raise ParameterError("The probability of a witness must lie between 0 and 1.")

    def check(self, n_classes: int, column: Column) -> None:
        """Refuses what does not fit the classes of a plan and the values of its column."""
        check_ell(self.ell, column.n_groups)
        values = self.witness_arrays[1]
        lengths = [len(values) for values in self.witnesses]
        if (
            len(lengths) != n_classes
            or (min(lengths) < self.ell if self.promises_values else any(lengths))
            or not all(len(set(values)) == len(values) for values in self.witnesses)
            or (values.size and not 0 <= values.min() <= values.max() < column.size)
        ):
            raise ParameterError("Every class of a plan needs at least ell different witness values.")
        if self.closeness is not None:
            self.closeness.check(n_classes, column.size)

    @property
    def promises_values(self) -> bool:
        """Whether distinct values are promised, and not only closeness."""
        return self.closeness is None or self.ell > 1

    @cached_property
    def witness_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The witnesses of all classes, one class after the other: where each begins, values and cells."""
        offsets = np.cumsum([0, *map(len, self.witnesses)])
        values = np.fromiter(chain.from_iterable(self.witnesses), np.int64, offsets[-1])
        cells = np.fromiter(chain.from_iterable(self.witness_cells), np.float64, offsets[-1])
        return offsets, values, cells

    def by_class(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """What numbers of all witnesses, as in `witness_arrays`, add up to in each class."""
        n_classes = len(self.witnesses)
        classes = np.repeat(np.arange(n_classes), np.diff(self.witness_arrays[0]))
        sums: NDArray[np.float64] = np.bincount(classes, cells, n_classes).astype(np.float64)
        return sums

    @property
    def masses_lower(self) -> NDArray[np.float64]:
        """How probable each class is at least: as its witnesses are together, or as closeness tells."""
        if self.closeness is not None:
            return np.array(self.closeness.masses)
        return self.by_class(self.witness_arrays[2])

    def cells(self, n_values: int) -> NDArray[np.float64]:
        """P(c, s), classes x values; 0 for values that are no witnesses, which errs on the safe side."""
        table = np.zeros((len(self.witnesses), n_values))
        offsets, values, cells = self.witness_arrays
        table[np.repeat(np.arange(len(table)), np.diff(offsets)), values] = cells
        return table

    def promises(
        self,
        column: Column,
        start: int,
        *,
        releases: int,
        min_records: int,
        ranges: NDArray[np.int64] | None,
    ) -> tuple[Promise, ...]:
        """What each of t releases must show of it.

        Args:
            column: The sensitive column.
            start: Where its values begin in a table of counts.
            releases: t.
            min_records: With how many records a witness counts as shown.
            ranges: The classes among which people move.
        """
        promises: list[Promise] = []
        if self.promises_values:
            promises.append(
                Values.from_lists(
                    self.witnesses,
                    column.size,
                    ell=self.ell,
                    releases=releases,
                    min_records=min_records,
                    ranges=ranges,
                    column=column.name,
                    start=start,
                )
            )
        if self.closeness is not None:
            promises.append(self.closeness.promise(len(self.witnesses), releases, column.name, start))
        return tuple(promises)

    def summary(self) -> dict[str, Any]:
        """What is promised of the column, without its classes and witnesses."""
        near = self.closeness
        return {
            "ell": self.ell,
            "failure_upper": self.failure_upper,
            "p": self.p,
            **({} if near is None else {"closeness": near.limit, "closeness_to": near.to}),
        }

    def to_dict(self) -> dict[str, Any]:
        """What is promised of the column, as plain JSON values."""
        return {
            **fields_of(self),
            "witnesses": list(map(list, self.witnesses)),
            "witness_cells": list(map(list, self.witness_cells)),
            "closeness": None if self.closeness is None else self.closeness.to_dict(),
        }
