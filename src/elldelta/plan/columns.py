"""What a plan promises of one sensitive column; of several columns each has its own, with the same classes.

Releases are *sliced*: inside a class they show the values of every column, but not which of them belong to
one person. Then what linking tells about one column is what it would tell if the others were not there, and
the promises hold side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: TC002 (records are read by their annotations)
from numpy.typing import NDArray  # noqa: TC002

from elldelta.core.checks import check_ell
from elldelta.core.distribution import frozen
from elldelta.core.promises import Values
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError
from elldelta.files import NumberColumn, fields_of, record_from, whole_numbers_of
from elldelta.plan.closeness import Closeness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.core.promises import Promise
    from elldelta.schema.column import Column

APART = (
    "All linked releases show their sensitive columns apart: which values of different columns belong to one "
    "person is not told, and nothing public ties them (a drug that names its disease)."
)
"""What must be true where there are several sensitive columns."""

_MOST_RECORDS = 1 << 53
"""More past records than there can be: whole numbers below are floats, too."""


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """What a plan promises of one sensitive column.

    Attributes:
        ell: Sensitive values left for everybody who is in all linked releases.
        failure_upper: Bound on the probability that linking t releases leaves somebody below ell; in a
            certified plan, that one of t releases, or of those of all owners, with N records each is refused
            for its values or sizes of classes. Closeness, whose chances are only estimated, is not in it.
        p: What ell cells of every class of a paper plan reach.
        witnesses: Per class, the values that the proof counts, most probable first.
        past_counts: How often each of them occurs in the past records of its class, so that promises can be
            recomputed and composed from plans alone; read-only.
        past_records: How many past records there are.
        closeness: What is promised about shares of linked records, if that was asked for. With ell = 1 it is
            all that is promised, and there are no witnesses.
    """

    ell: int
    failure_upper: float
    p: float | None
    witnesses: Witnesses
    past_counts: NDArray[np.integer[Any]]
    past_records: int
    closeness: Closeness | None = None

    def __post_init__(self) -> None:
        """Plans come from files: numbers must be possible before anything is computed with them."""
        if not all(n is None or 0.0 <= n <= 1.0 for n in (self.failure_upper, self.p)):
            raise ParameterError("A probability of the plan does not lie between 0 and 1.")
        counts = self.past_counts
        if counts.shape != self.witnesses.values.shape:
            raise ParameterError("Every witness value of a plan needs the number of its past records.")
        if not 0 <= counts.min(initial=0) <= counts.max(initial=0) <= self.past_records < _MOST_RECORDS:
            raise ParameterError("A witness cannot have more past records than there are.")
        object.__setattr__(self, "past_counts", frozen(counts, counts.dtype, copy=True))

    def check(self, n_classes: int, column: Column) -> None:
        """Refuses what does not fit the classes of a plan and the values of its column."""
        check_ell(self.ell, column.n_groups)
        counts = self.witnesses.counts
        if (
            counts.size != n_classes
            or (counts.min() < self.ell if self.promises_values else counts.any())
            or self.witnesses.values.max(initial=0) >= column.size
            or self.witnesses.repeat_any()
        ):
            raise ParameterError("Every class of a plan needs at least ell different witness values.")
        if self.closeness is not None:
            self.closeness.check(n_classes, column.size)

    @property
    def promises_values(self) -> bool:
        """Whether distinct values are promised, and not only closeness."""
        return self.closeness is None or self.ell > 1

    @cached_property
    def witness_cells(self) -> NDArray[np.float64]:
        """P(c, s) of every witness, at least: as its past records tell."""
        return frozen(self.past_counts / self.past_records)

    @property
    def masses_lower(self) -> NDArray[np.float64]:
        """How probable each class is at least: as its witnesses are together, or as closeness tells."""
        if self.closeness is not None:
            return self.closeness.past_sizes / self.past_records
        return self.witnesses.sums(self.witness_cells)

    def cells(self, n_values: int) -> NDArray[np.float64]:
        """P(c, s), classes x values; 0 for values that are no witnesses, which errs on the safe side."""
        return self.witnesses.table(n_values, self.witness_cells)

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
                Values.of(
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
        """What is promised of the column, as plain JSON values and columns of numbers."""
        return {
            **fields_of(self),
            "witnesses": {
                name: NumberColumn.of(numbers) for name, numbers in fields_of(self.witnesses).items()
            },
            "past_counts": NumberColumn.of(self.past_counts),
            "closeness": None if self.closeness is None else self.closeness.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], column: Column) -> ColumnPlan:
        """Reads what `to_dict` wrote of a column."""
        witnesses, near = document["witnesses"], document["closeness"]
        return record_from(
            cls,
            {
                **document,
                "witnesses": Witnesses(
                    whole_numbers_of(witnesses, "counts"), whole_numbers_of(witnesses, "values")
                ),
                "past_counts": whole_numbers_of(document, "past_counts"),
                "closeness": None if near is None else Closeness.from_dict(near, column.size),
            },
        )
