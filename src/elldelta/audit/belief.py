"""What somebody may believe about a person after linking: best guesses, and their distance from a reference.

A reference says what is believed before: what a plan says about the classes, what a model of past records
says, or the releases pooled. Theorem G compares it with the shares among the linked records; see
`elldelta.core.belief`.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.belief import furthest_in_any_group
from elldelta.core.closeness import as_limit
from elldelta.core.exposure import distinct_cells
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.posterior import CONDITION, posterior, smoothed
from elldelta.errors import InternalError, ParameterError
from elldelta.files import loaded
from elldelta.model import Model, read_model
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from elldelta.audit.evidence import Evidence
    from elldelta.core.linkage import Linkage

POOLED = "pooled"
"""The reference that needs nothing but the releases: the overall distribution of their sensitive values."""

EQUALLY_LIKELY = "every record that fits is equally likely to be the person's"
"""What must be true for shares of linked records to be beliefs."""

MOST_WORST = 20
"""Classes and isolated groups that are listed."""

_MOST_VALUES = 5


@dataclass(frozen=True)
class BestGuess:
    """How well an adversary can guess the value of somebody who is in all releases.

    Attributes:
        name: Which belief the guess is taken from.
        worst: The largest belief in one value, over all linkage classes; None if nobody is in all releases.
        mean: The mean of the largest belief over the linked records.
        condition: What must be true for the numbers to mean that.
        source: Where the distribution comes from, or an empty text if none is needed.
    """

    name: str
    worst: float | None
    mean: float | None
    condition: str
    source: str = ""


@dataclass(frozen=True, eq=False)
class Asked:
    """A closeness that is asked for, and the reference it is about.

    Attributes:
        allowed: T, the largest distance.
        plan: A plan whose references are used.
        model: A model whose distribution in every place is used.
    """

    allowed: Fraction
    plan: Plan | None = None
    model: Model | None = None

    @classmethod
    def of(cls, closeness: object, reference: Any) -> Asked | None:  # noqa: ANN401 (an object or a file)
        """What was asked for; None if nothing was.

        Args:
            closeness: T, or None; with a plan by default what it promises.
            reference: "pooled" (also None), a plan or a model, or the file of one.
        """
        is_path = isinstance(reference, str | os.PathLike)
        if isinstance(reference, Plan) or (is_path and Path(reference).suffix == ".json"):
            plan = loaded(reference, Plan, read_plan)
            if plan.closeness is None:
                raise ParameterError(
                    "The plan says nothing that beliefs could be close to.",
                    found="It promises distinct values only.",
                    remedy="Compare with a model or with the releases pooled, or give a plan for closeness.",
                )
            return cls(as_limit(plan.closeness.limit if closeness is None else closeness), plan=plan)
        if closeness is None:
            if reference is not None:
                raise ParameterError(
                    "A reference is compared with only if a closeness is asked for.",
                    found="`closeness_to` was given without `closeness`.",
                    remedy="Give `closeness=T` as well, for instance 0.2.",
                )
            return None
        allowed = as_limit(closeness)
        if reference is None or reference == POOLED:
            return cls(allowed)
        return cls(allowed, model=loaded(reference, Model, read_model))

    @property
    def words(self) -> str:
        """What is compared with."""
        if self.plan is not None:
            return "what the plan says about the class"
        if self.model is not None:
            return f"the model of {self.model.n_records:,} past records"
        return "the overall distribution of the releases"


@dataclass(frozen=True)
class FarClass:
    """A place where releases meet and beliefs are far from the reference. It names classes, not people.

    Attributes:
        releases: The names of the releases that are linked here.
        labels: What each of them shows: one label per quasi-identifier.
        records: Linked records.
        distance: Total variation between the linked shares and the reference.
        bound: E, above which no group of releases is here.
        guess_before: The share of the most frequent value by the reference.
        guess_after: The same among the linked records.
        values: The set of values that gains the most: those that linking makes more likely.
        set_before: What the reference says about the set.
        set_after: The share of the set among the linked records.
    """

    releases: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    records: int
    distance: float
    bound: float
    guess_before: float
    guess_after: float
    values: tuple[str, ...]
    set_before: float
    set_after: float

    def to_dict(self, *, labels: bool) -> dict[str, Any]:
        """Plain JSON values; labels and values only where they may be shown."""
        named = [*self.values[:_MOST_VALUES]]
        if len(self.values) > _MOST_VALUES:
            named.append(f"{len(self.values) - _MOST_VALUES:,} more")
        return {
            **asdict(self),
            "labels": [list(row) for row in self.labels] if labels else [],
            "values": named if labels else [],
        }


@dataclass(frozen=True)
class ClosenessFound:
    """How far from a reference anybody's belief can be, whichever of the releases a person is in.

    Attributes:
        allowed: T.
        reference: What it is compared with, in words.
        distance: The largest total variation that was found; None if nobody is in any release.
        bound: The largest E: no group of releases is further away (Theorem G).
        is_complete: Whether every group was asked that could matter; if not, the bound decides.
        classes: Places that were compared: combinations of classes, and of references.
        classes_above: Places where somebody's belief is further away than allowed.
        worst: The places that are furthest away.
        note: What a reader should know about how it was computed; may be empty.
    """

    allowed: float
    reference: str
    distance: float | None
    bound: float | None
    is_complete: bool
    classes: int
    classes_above: int
    worst: tuple[FarClass, ...]
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether nobody's belief is further from the reference than allowed."""
        return not self.classes_above

    @property
    def words(self) -> str:
        """What was found, in whole percentage points, never too few."""
        found = self.distance if self.is_complete else self.bound
        points = _points(0.0 if found is None else found)
        far = f"{min(points, 100 * self.allowed) if self.holds else points:g} percentage points"
        allowed = f"({100 * self.allowed:g} allowed)"
        if self.holds:
            return f"what somebody may believe stays within {far} of {self.reference} {allowed}"
        may = "differs" if self.is_complete else "can differ"
        return f"what somebody may believe {may} by up to {far} from {self.reference} {allowed}"

    def to_dict(self, *, labels: bool) -> dict[str, Any]:
        """Plain JSON values; labels and values only where they may be shown."""
        return {
            **asdict(self),
            "holds": self.holds,
            "words": self.words,
            "condition": EQUALLY_LIKELY,
            "worst": [item.to_dict(labels=labels) for item in self.worst],
        }


def measure_closeness(
    evidence: Evidence, asked: Asked, *, member_of: int | None = None
) -> tuple[ClosenessFound, NDArray[np.bool_]]:
    """Compares beliefs with the reference, for every group of releases; see `furthest_in_any_group`.

    Args:
        evidence: The releases.
        asked: What is compared.
        member_of: Look only at people who are in this release.

    Returns:
        What was found; and the rows of that release (or of the last) in which somebody is further away.
    """
    cells, reference_of, weights = references(evidence, asked)
    found = furthest_in_any_group(cells, reference_of, weights, asked.allowed, member_of=member_of)
    is_asked = ~np.isnan(found.bounds)
    far = np.where(np.isnan(found.distances), -1.0, found.distances)
    listed: dict[Any, FarClass] = {}
    for cell in np.argsort(-far, kind="stable").tolist():
        if far[cell] < 0 or len(listed) == MOST_WORST:
            break
        group = np.flatnonzero(found.groups[cell]).tolist()
        rows = [int(cells[j].partition.class_of[cell]) for j in group]
        key = (*zip(group, rows, strict=True), int(reference_of[cell]))
        if key not in listed:
            tables = [cells[j].counts[row] for j, row in zip(group, rows, strict=True)]
            linked, before = np.min(tables, axis=0), weights[reference_of[cell]]
            listed[key] = _far(evidence, (group, rows), linked, before, (far[cell], found.bounds[cell]))
    above = np.zeros(len(cells[-1].counts), dtype=bool)
    above[cells[-1].partition.class_of[found.above]] = True
    return ClosenessFound(
        allowed=float(asked.allowed),
        reference=asked.words,
        distance=float(far.max()) if (far >= 0).any() else None,
        bound=float(found.bounds[is_asked].max()) if is_asked.any() else None,
        is_complete=found.is_complete,
        classes=int(is_asked.sum()),
        classes_above=int(found.above.sum()),
        worst=tuple(listed.values()),
        note=_note(evidence, is_complete=found.is_complete),
    ), above


def _note(evidence: Evidence, *, is_complete: bool) -> str:
    told = []
    if not is_complete:
        told.append(
            "There are too many groups of releases to ask each: the verdict is that of a bound, which can be "
            "larger than any distance."
        )
    if not evidence.is_disjoint:
        told.append(
            "Where classes overlap or records are suppressed, the counts of all classes around a person are "
            "added up. Somebody who knows in which of them the person is may believe more."
        )
    return " ".join(told)


def _far(
    evidence: Evidence,
    where: tuple[list[int], list[int]],
    linked: NDArray[np.int64],
    weights: NDArray[np.int64],
    far: tuple[float, float],
) -> FarClass:
    before, after = weights / weights.sum(), linked / linked.sum()
    gains = after > before
    return FarClass(
        releases=tuple(evidence.names[j] for j in where[0]),
        labels=tuple(evidence.label(j, row) for j, row in zip(*where, strict=True)),
        records=int(linked.sum()),
        distance=float(far[0]),
        bound=float(far[1]),
        guess_before=float(before.max()),
        guess_after=float(after.max()),
        values=tuple(evidence.values[s] for s in np.flatnonzero(gains)),
        set_before=float(before[gains].sum()),
        set_after=float(after[gains].sum()),
    )


def references(
    evidence: Evidence, asked: Asked
) -> tuple[list[ReleasedCounts], NDArray[np.int64], NDArray[np.int64]]:
    """The releases over one cell per combination of classes and reference; which each has; the weights."""
    releases = evidence.releases
    if asked.plan is not None:
        bases, row_of = np.unique(evidence.bases, return_inverse=True)
        empty = np.zeros((len(bases), len(evidence.values)), dtype=np.int64)
        *cells, laid = distinct_cells([*releases, ReleasedCounts.from_rows(row_of.reshape(-1), empty)])
        references = asked.plan.terms.closeness
        if references is None:
            raise InternalError("A plan without references was to be compared with.")
        weights = evidence.by_value(references.references[bases])
        return cells, laid.partition.class_of.astype(np.int64), weights
    cells = distinct_cells(releases)
    n_cells = cells[0].partition.n_quasi_identifiers
    if asked.model is None:
        overall = np.sum([counts.sum(axis=0) for counts in evidence.class_counts], axis=0)
        return cells, np.zeros(n_cells, dtype=np.int64), overall[np.newaxis]
    rows, counts = evidence.model_rows(asked.model)
    own = np.stack([item.partition.class_of for item in cells], axis=1)
    _, place = np.unique(np.concatenate((own, rows)), axis=0, return_inverse=True)
    place = place.reshape(-1)
    table = np.zeros((int(place.max()) + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(table, place[n_cells:], counts)
    # One more record, spread like the whole, in whole numbers: a place without a past record has a reference.
    overall = table.sum(axis=0)
    return cells, place[:n_cells].astype(np.int64), table * overall.sum() + overall


def surest_words(surest: float | None, guesses: Sequence[BestGuess], baseline: float, *, alone: bool) -> str:
    """How sure somebody can be at worst, and on what conditions; stands beside every verdict."""
    if surest is None:
        return ""
    where = "in the worst class" if alone else "in the worst group of releases"
    told = (
        f"At worst one value has a probability of {_points(surest)} % ({where}, if {EQUALLY_LIKELY}); the "
        f"most frequent value of all has {_points(baseline)} %."
    )
    bayes = guesses[-1]
    if bayes.worst is not None:
        told += (
            f" By Bayes' rule it is {_points(bayes.worst)} % at worst for somebody in "
            f"{'the release' if alone else 'all releases'}, if {bayes.condition.partition(': ')[2]} "
            f"(P: {bayes.source.partition(':')[0]})."
        )
    return told


def _points(share: float) -> int:
    """A share in whole percents, rounded up but for the error of floating point."""
    return min(100, math.ceil(100 * share - 1e-9))


def best_guesses(
    evidence: Evidence,
    cells: Sequence[ReleasedCounts],
    linkage: Linkage,
    overall: NDArray[np.int64],
    model: Model | None,
) -> tuple[BestGuess, ...]:
    """The best guess under the paper's min-counts, and by Bayes' rule."""
    records = linkage.counts.sum(axis=1)
    is_linked = records > 0
    records, classes = records[is_linked], linkage.classes[is_linked]
    own = [release.counts[classes[:, j]] for j, release in enumerate(cells)]
    shares = linkage.counts[is_linked] / np.maximum(records, 1)[:, np.newaxis]
    marginal = overall / max(int(overall.sum()), 1)
    if model is None:
        # With P(q, s) = P(q) P(s) all that depends on s is the overall distribution.
        prior = np.broadcast_to(marginal, shares.shape)
        masses = [prior] * len(cells)
        source = (
            "the releases pooled: the overall distribution of the sensitive column, "
            "taken as independent of the quasi-identifiers"
        )
    else:
        prior, masses = _model_masses(evidence, cells, classes, marginal, model)
        source = f"the model of {model.n_records:,} past records"
    beliefs = posterior(prior, own, masses)

    def best(table: NDArray[np.float64]) -> tuple[float | None, float | None]:
        if not len(table):
            return None, None
        largest = table.max(axis=1)
        return float(largest.max()), float((largest * records).sum() / records.sum())

    return (
        BestGuess(
            "largest share of the min-counts",
            *best(shares),
            f"the paper's adversary: {EQUALLY_LIKELY}",
        ),
        BestGuess("posterior", *best(beliefs), CONDITION, source),
    )


def _model_masses(
    evidence: Evidence,
    cells: Sequence[ReleasedCounts],
    classes: NDArray[np.intp],
    marginal: NDArray[np.float64],
    model: Model,
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """P(s | cell) and P(c_j, s), up to factors that do not depend on s, for each linkage class."""
    rows, counts = evidence.model_rows(model)
    masses = []
    for j, release in enumerate(cells):
        by_class = np.zeros(release.counts.shape, dtype=np.int64)
        np.add.at(by_class, rows[:, j], counts)
        masses.append(smoothed(by_class, marginal)[classes[:, j]])
    number = {key: place for place, key in enumerate(map(tuple, classes.tolist()))}
    distinct, place_of = np.unique(rows, axis=0, return_inverse=True)
    by_cell = np.zeros((len(distinct), counts.shape[1]), dtype=np.int64)
    np.add.at(by_cell, place_of.reshape(-1), counts)
    prior = np.zeros((len(classes), counts.shape[1]), dtype=np.int64)
    for key, own in zip(map(tuple, distinct.tolist()), by_cell, strict=True):
        if key in number:
            prior[number[key]] = own
    return smoothed(prior, marginal), masses
