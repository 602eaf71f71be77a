"""The closeness that a plan promises, and the public references that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray  # noqa: TC002 (records are read by their annotations)

from elldelta.core.closeness import (
    FEWEST_PAST,
    LARGEST_REFERENCE,
    SMOOTHING,
    as_limit,
    public_references,
)
from elldelta.core.distribution import frozen
from elldelta.core.generalize.bounds import ClosenessBound
from elldelta.core.ladder import rungs_below
from elldelta.core.promises import Close, Shown
from elldelta.errors import ParameterError
from elldelta.files import NumberColumn, fields_of, record_from, whole_numbers_of
from elldelta.parameters import ClosenessTo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.bounds import BoundResult
    from elldelta.core.partition import Partition
    from elldelta.plan.wish import Wish

_DIGITS = 3
"""Digits of the distances that a manifest tells."""


Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class ClosenessShown(TypedDict):
    """How far a release is from what its plan says of values."""

    limit: Share
    to: ClosenessTo
    allowed: Share
    distance: Share


@dataclass(frozen=True, eq=False)
class Closeness:
    """The closeness that a plan promises for its sensitive column.

    Attributes:
        limit: T, in total variation, after linking.
        to: What the references are: the distribution of each class, or that of everybody.
        references: Whole numbers in proportion to the shares of all values: a row per class, or one for all;
            read-only.
        past_sizes: About how many past records each class has, at most; read-only.
    """

    limit: float
    to: ClosenessTo
    references: NDArray[np.int64]
    past_sizes: NDArray[np.int64]

    @classmethod
    def promised(cls, wish: Wish, classes: JointDistribution, overall: NDArray[Any]) -> Closeness:
        """The closeness of a plan for a wish that asks for it: references and masses, rounded.

        Args:
            wish: The wish.
            classes: The past records by class and value.
            overall: All past records by value.
        """
        table = np.concatenate([np.asarray(block) for _, block in classes.dense_blocks()])
        rows = overall[np.newaxis] if wish.closeness_to == "overall" else table
        references = public_references(rows, overall=overall)
        return cls(
            float(as_limit(wish.closeness)), wish.closeness_to, references, rungs_below(table.sum(axis=1))
        )

    @classmethod
    def joined(cls, parts: Sequence[Closeness]) -> Closeness:
        """The same of the classes of several parts of the population, one part after the other."""
        first = parts[0]
        references = [part.references for part in parts[: 1 if first.to == "overall" else None]]
        sizes = [part.past_sizes for part in parts]
        return cls(first.limit, first.to, np.concatenate(references), np.concatenate(sizes))

    def judged(self, sharp: BoundResult, classes: JointDistribution) -> BoundResult:
        """What classes promise and what is expected of them, with these references and masses.

        Args:
            sharp: What they promise of values.
            classes: P of the classes.
        """
        if sharp.bound.closeness is None:
            return sharp
        rows = self.class_shares(classes.n_quasi_identifiers)
        near = ClosenessBound(sharp.bound.closeness.limit, n_past=sharp.bound.closeness.n_past)
        far = near.chances(classes, sharp.bound.whole_records, rows)
        return sharp.with_far(far).with_masses(self.past_sizes / classes.total)

    def __post_init__(self) -> None:
        for name in ("references", "past_sizes"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64, copy=True))

    def check(self, n_classes: int, n_values: int) -> None:
        """Refuses what does not fit the classes and values of a plan."""
        as_limit(self.limit)
        n_rows = 1 if self.to == "overall" else n_classes
        if (
            self.references.shape != (n_rows, n_values)
            or not 0 <= self.references.min() <= self.references.max() <= LARGEST_REFERENCE
            or not self.references.any(axis=1).all()
            or self.past_sizes.shape != (n_classes,)
            or self.past_sizes.min() < 0
        ):
            raise ParameterError("Every class of a plan for closeness needs its reference and its size.")

    @property
    def exact_limit(self) -> Fraction:
        """T as the decimal number that it is."""
        return as_limit(self.limit)

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The references as distributions: a row per class, or one for all."""
        shares: NDArray[np.float64] = self.references / self.references.sum(axis=1, keepdims=True)
        return shares

    def class_shares(self, n_classes: int) -> NDArray[np.float64]:
        """The references as distributions, a row for every class."""
        return np.broadcast_to(self.shares, (n_classes, self.shares.shape[1]))

    def promise(self, n_classes: int, releases: int, column: str = "", start: int = 0) -> Close:
        """What each of t releases must keep, checked alone: T / t.

        Args:
            n_classes: The number of classes.
            releases: t.
            column: The name of the sensitive column.
            start: Where its values begin in a table of counts.
        """
        table = np.broadcast_to(self.references, (n_classes, self.references.shape[1]))
        return Close(np.ascontiguousarray(table), self.exact_limit, releases, column=column, start=start)

    def shown(self, counts: NDArray[np.int64], grouping: Partition, releases: int) -> ClosenessShown:
        """What a release shows of it, for its manifest: how far its classes are from their references.

        Args:
            counts: Records by published class and value.
            grouping: The published class of every class of the plan.
            releases: t.
        """
        promise = self.promise(grouping.n_quasi_identifiers, releases)
        distance = float(promise.distances_upper(Shown(counts, grouping)).max())
        # Rounded up, so that other machines find the same number.
        return {
            "limit": self.limit,
            "to": self.to,
            "allowed": float(promise.allowed),
            "distance": float(_up(np.array([distance]))[0]),
        }

    def words(self, sensitive: str, who: str) -> str:
        """The promise about the shares of linked records."""
        of = "everybody" if self.to == "overall" else "people of that class"
        return (
            f"the share that any set of values of {sensitive!r} has among the records linked to {who} "
            f"differs from what this plan already says of {of} by at most {100.0 * self.limit:g} percentage "
            "points"
        )

    CONDITION = (
        "Closeness bounds shares of linked records: of every value the fewest that a linked release shows in "
        "the person's class. It does not bound a conclusion by Bayes' rule, which can go much further where "
        "the other people of the releases differ; 'elldelta audit' computes both."
    )

    def to_dict(self) -> dict[str, Any]:
        """The closeness as plain JSON values and columns of numbers."""
        return {
            **fields_of(self),
            "references": NumberColumn.of(self.references.ravel()),
            "past_sizes": NumberColumn.of(self.past_sizes),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], n_values: int) -> Closeness:
        """Reads what `to_dict` wrote of a column with so many values."""
        references = whole_numbers_of(document, "references")
        return record_from(
            cls,
            {
                **document,
                "references": references.reshape(-1, n_values),
                "past_sizes": whole_numbers_of(document, "past_sizes"),
            },
        )


def closeness_bound(wish: Wish, past: JointDistribution) -> ClosenessBound:
    """What classes must keep for a wish that asks for closeness, while they are made.

    Args:
        wish: The wish.
        past: The past records.
    """
    marginal, is_overall = past.value_marginal, wish.closeness_to == "overall"
    return ClosenessBound(
        float(as_limit(wish.closeness) / wish.n_linked),
        reference=marginal if is_overall else None,
        prior=SMOOTHING * marginal,
        least_mass=0.0 if is_overall else min(1.0, FEWEST_PAST / past.total),
        n_past=past.total,
    )


def _up(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances with a few decimals, none of them smaller than it was."""
    scale = 10.0**_DIGITS
    return np.minimum(1.0, np.ceil(distances * scale + 1e-9) / scale)
