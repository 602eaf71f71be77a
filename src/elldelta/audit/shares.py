"""How far linking leads from a reference: by shares of linked records, and by Bayes' rule.

A reference is what is known before: what a plan says about the classes, what a model of past records says, or
the releases pooled. Theorem G bounds how far the shares of linked records are from it, and nothing else: by
Bayes' rule with independent releases somebody can be led much further. So both are measured; see
`elldelta.core.inference` and `elldelta.core.inference`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.audit.documents import plain
from elldelta.core.closeness import as_limit
from elldelta.core.inference import (
    furthest_in_any_group,
    gain_by_bayes,
    gain_in_shares,
    reference_shares,
    smoothed,
)
from elldelta.core.linkage import ReleasedCounts, distinct_cells
from elldelta.errors import InternalError, ParameterError, counted
from elldelta.files import loaded
from elldelta.model import Model, read_model
from elldelta.pages.page import percent, share_upper
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.audit.overlay import Overlay
    from elldelta.core.inference import Gain

POOLED = "pooled"
"""The reference that needs nothing but the releases: the overall distribution of their sensitive values."""

EQUALLY_LIKELY = "is equally likely to be the person's"
"""What must be true of every record for shares of records to be probabilities."""

MOST_WORST = 20
"""Classes and isolated groups that are listed."""

_MOST_VALUES = 5


@dataclass(frozen=True)
class InferenceRisk:
    """How far linking leads about one value at worst, whichever of the releases somebody is in.

    Attributes:
        name: How the releases are read: "shares of linked records" (of one release "shares of the records of
            a class"), or "Bayes' rule".
        condition: What must be true for the numbers to be probabilities.
        share_surest: The largest share, or probability, of one value; None if nobody is in any release.
        share_before: Of the value that gains the most, what the reference says.
        share_after: Of the same value, what linking makes of it.
        is_exact: Whether some group of releases attains these; if not, no group exceeds them.
    """

    name: str
    condition: str
    share_surest: float | None
    share_before: float | None
    share_after: float | None
    is_exact: bool

    @classmethod
    def of(cls, name: str, condition: str, gain: Gain | None) -> InferenceRisk:
        """What was found; nothing, if nobody is in any release."""
        if gain is None:
            return cls(name, condition, None, None, None, is_exact=True)
        return cls(name, condition, gain.surest, gain.before, gain.after, gain.is_exact)


@dataclass(frozen=True, eq=False)
class ClosenessLimit:
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
    def of(cls, closeness: object, reference: Any) -> ClosenessLimit | None:  # noqa: ANN401 (an object or a file)
        """What was asked for; None if nothing was.

        Args:
            closeness: T, or None; with a plan by default what it promises.
            reference: "pooled" (also None), a plan or a model, or the file of one.
        """
        is_path = isinstance(reference, str | os.PathLike)
        if isinstance(reference, Plan) or (is_path and Path(reference).suffix == ".json"):
            plan = loaded(reference, Plan, read_plan)
            near = [column.closeness for column in plan.columns if column.closeness is not None]
            if not near:
                raise ParameterError(
                    "The plan says nothing that shares could be close to.",
                    found="It promises distinct values only.",
                    remedy="Compare with a model or with the releases pooled, or give a plan for closeness.",
                )
            return cls(as_limit(near[0].limit if closeness is None else closeness), plan=plan)
        if closeness is None:
            if reference is not None:
                raise ParameterError(
                    "A reference is compared with only if a closeness is asked for.",
                    found="There is a reference and no closeness.",
                    remedy="Give a closeness as well, for instance 0.2.",
                    parameter="closeness",
                )
            return None
        allowed = as_limit(closeness)
        if reference is None or reference == POOLED:
            return cls(allowed)
        return cls(allowed, model=loaded(reference, Model, read_model))

    def for_column(self, place: int) -> ClosenessLimit | None:
        """The same for one of several sensitive columns: its own promise, or None if there is none."""
        if self.plan is None or len(self.plan.columns) == 1:
            return self
        near = self.plan.columns[place].closeness
        if near is None:
            return None
        return replace(self, allowed=near.exact_limit, plan=self.plan.for_column(place))

    @property
    def words(self) -> str:
        """What is compared with."""
        if self.plan is not None:
            return "what the plan says about the class"
        if self.model is not None:
            return f"the model of {counted(self.model.n_records, 'past record')}"
        return "the overall distribution of the releases"


@dataclass(frozen=True)
class FarClass:
    """A place where releases meet and shares are far from the reference. It names classes, not people.

    Attributes:
        releases: The names of the releases that are linked here.
        labels: What each of them shows: one label per quasi-identifier.
        records: Linked records.
        distance: Total variation between the linked shares and the reference.
        bound: E, above which no group of releases is here.
        guess_before: The share of the most frequent value by the reference.
        guess_after: The same among the linked records.
        values: The set of values that gains the most: those that linking makes more likely; of many, some,
            and how many more.
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


@dataclass(frozen=True)
class ClosenessResult:
    """How far from a reference shares of linked records can be, whichever of the releases a person is in.

    Attributes:
        allowed: T.
        reference: What it is compared with, in words.
        distance: The largest total variation that was found; None if nobody is in any release.
        bound: The largest E: no group of releases is further away (Theorem G).
        is_complete: Whether every group was asked that could matter; if not, the bound decides.
        classes: Places that were compared: combinations of classes, and of references.
        classes_above: Places where shares are further away than allowed.
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
        """Whether no shares are further from the reference than allowed."""
        return not self.classes_above

    @property
    def words(self) -> str:
        """What was found, in whole percentage points, never too few."""
        found = self.distance if self.is_complete else self.bound
        points = 100 * share_upper(0.0 if found is None else found, 2)
        far = f"{min(points, 100 * self.allowed) if self.holds else points:.10g} percentage points"
        allowed = f"({100 * self.allowed:g} allowed)"
        if self.holds:
            return f"shares of linked records stay within {far} of {self.reference} {allowed}"
        may = "differ" if self.is_complete else "can differ"
        return f"shares of linked records {may} by up to {far} from {self.reference} {allowed}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**plain(self), "holds": self.holds, "words": self.words}


def measure_closeness(
    overlay: Overlay, limit: ClosenessLimit, *, member_of: int | None = None
) -> tuple[ClosenessResult, NDArray[np.bool_]]:
    """Compares shares with the reference, for every group of releases; see `furthest_in_any_group`.

    Args:
        overlay: The releases.
        limit: What is compared.
        member_of: Look only at people who are in this release.

    Returns:
        What was found; and the rows of that release (or of the last) in which somebody is further away.
    """
    cells, reference_of, weights = references(overlay, limit)
    found = furthest_in_any_group(cells, reference_of, weights, limit.allowed, member_of=member_of)
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
            listed[key] = _far(overlay, (group, rows), linked, before, (far[cell], found.bounds[cell]))
    above = np.zeros(len(cells[-1].counts), dtype=bool)
    above[cells[-1].partition.class_of[found.above]] = True
    return ClosenessResult(
        allowed=float(limit.allowed),
        reference=limit.words,
        distance=float(far.max()) if (far >= 0).any() else None,
        bound=float(found.bounds[is_asked].max()) if is_asked.any() else None,
        is_complete=found.is_complete,
        classes=int(is_asked.sum()),
        classes_above=int(found.above.sum()),
        worst=tuple(listed.values()),
        note=_note(overlay, is_complete=found.is_complete),
    ), above


def _note(overlay: Overlay, *, is_complete: bool) -> str:
    notes = []
    if not is_complete:
        notes.append(
            "There are too many groups of releases to ask each: the verdict is that of a bound, which can be "
            "larger than any distance."
        )
    if not overlay.is_disjoint:
        notes.append(
            "Where classes overlap or records are suppressed, the counts of all classes around a person are "
            "added up. Somebody who knows in which of them the person is can be led further."
        )
    return " ".join(notes)


def _far(
    overlay: Overlay,
    where: tuple[list[int], list[int]],
    linked: NDArray[np.int64],
    weights: NDArray[np.int64],
    far: tuple[float, float],
) -> FarClass:
    before, after = weights / weights.sum(), linked / linked.sum()
    gains = after > before
    values = [overlay.values[s] for s in np.flatnonzero(gains)]
    if len(values) > _MOST_VALUES:
        values[_MOST_VALUES:] = [f"{len(values) - _MOST_VALUES:,} more"]
    return FarClass(
        releases=tuple(overlay.names[j] for j in where[0]),
        labels=tuple(overlay.label(j, row) for j, row in zip(*where, strict=True)),
        records=int(linked.sum()),
        distance=float(far[0]),
        bound=float(far[1]),
        guess_before=float(before.max()),
        guess_after=float(after.max()),
        values=tuple(values),
        set_before=float(before[gains].sum()),
        set_after=float(after[gains].sum()),
    )


def references(
    overlay: Overlay, limit: ClosenessLimit
) -> tuple[list[ReleasedCounts], NDArray[np.int64], NDArray[np.int64]]:
    """The releases over one cell per combination of classes and reference; which each has; the weights."""
    releases = overlay.releases
    if limit.plan is not None:
        bases, row_of = np.unique(overlay.bases, return_inverse=True)
        empty = np.zeros((len(bases), len(overlay.values)), dtype=np.int64)
        *cells, laid = distinct_cells([*releases, ReleasedCounts.from_rows(row_of.reshape(-1), empty)])
        near = limit.plan.columns[0].closeness
        if near is None:
            raise InternalError("A plan without references was to be compared with.")
        weights = overlay.by_value(near.promise(limit.plan.n_classes, 1).references[bases])
        return cells, laid.partition.class_of.astype(np.int64), weights
    cells = distinct_cells(releases)
    n_cells = cells[0].partition.n_quasi_identifiers
    if limit.model is None:
        return cells, np.zeros(n_cells, dtype=np.int64), _pooled(overlay)[np.newaxis]
    rows, counts, overall = overlay.model_rows(limit.model)
    classes = np.stack([item.partition.class_of for item in cells], axis=1)
    _, place = np.unique(np.concatenate((classes, rows)), axis=0, return_inverse=True)
    place = place.reshape(-1)
    table = np.zeros((int(place.max()) + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(table, place[n_cells:], counts)
    # One more record, spread like the whole, in whole numbers: a place without a past record has a reference.
    return cells, place[:n_cells].astype(np.int64), table * overall.sum() + overall


def inference_risks(
    overlay: Overlay, limit: ClosenessLimit | None, model: Model | None
) -> tuple[tuple[InferenceRisk, InferenceRisk], str, float]:
    """How far linking leads by shares and by Bayes' rule, from which reference, and what that says at most.

    Compared is with a model that was given for it, or else with what closeness is about, or with the releases
    pooled.

    Returns:
        Both readings; the reference, in words; and the largest share that it gives one value, of a model over
        all of its records.
    """
    against = limit or ClosenessLimit(Fraction(1))
    if model is not None:
        against = ClosenessLimit(Fraction(1), model=model)
    cells, reference_of, weights = references(overlay, against)
    masses = _masses(overlay, against, cells, (reference_of, weights))
    several = len(cells) > 1
    people = f"the other people of {'each release' if several else 'the release'}"
    apart = ", and none of them is in two releases" if several else ""
    drawn = f"{people} are independent draws from the reference{apart}"
    readings = (
        InferenceRisk.of(
            f"shares of {'linked records' if several else 'the records of a class'}",
            f"every {'linked record' if several else 'record of the class'} {EQUALLY_LIKELY}",
            gain_in_shares(cells, reference_of, weights),
        ),
        InferenceRisk.of("Bayes' rule", drawn, gain_by_bayes(cells, reference_of, weights, masses)),
    )
    overall = weights
    if against.model is not None:
        overall = overlay.model_rows(against.model)[2][np.newaxis]
    return readings, against.words, float(reference_shares(overall).max()) if overall.any() else 0.0


def surest_words(
    readings: tuple[InferenceRisk, InferenceRisk],
    reference: str,
    baseline: float,
    *,
    alone: bool,
    digits: int = 1,
) -> str:
    """How far linking leads at worst, and on what conditions; stands beside every verdict."""
    shares, bayes = readings
    if shares.share_surest is None:
        return ""
    shown = partial(percent, digits=digits)
    of = "the records of a class" if alone else "the linked records, in the worst group of releases"
    most = "" if bayes.is_exact else "at most "
    return (
        f"At worst one value has {shown(shares.share_surest)} of {of}. By Bayes' rule one has a "
        f"probability of {most}{shown(bayes.share_surest)}, if {bayes.condition}. The reference is "
        f"{reference}: at most {shown(baseline)} for one value. Largest gain over it: from "
        f"{shown(shares.share_before)} to {shown(shares.share_after)} in shares, from "
        f"{shown(bayes.share_before)} to {most}{shown(bayes.share_after)} by Bayes' rule."
    )


def _pooled(overlay: Overlay) -> NDArray[np.int64]:
    pooled: NDArray[np.int64] = np.sum([counts.sum(axis=0) for counts in overlay.class_counts], axis=0)
    return pooled


def _masses(
    overlay: Overlay,
    against: ClosenessLimit,
    cells: Sequence[ReleasedCounts],
    referred: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> list[NDArray[np.float64]]:
    """P(c_j, s) for the classes of each release, up to a factor: how its other people fall on values."""
    reference_of, weights = referred
    if against.model is not None:
        rows, counts, overall = overlay.model_rows(against.model)
        shares = overall / max(int(overall.sum()), 1)
        tables: list[NDArray[np.float64]] = []
        for j, release in enumerate(cells):
            past = np.zeros(release.counts.shape, dtype=np.int64)
            np.add.at(past, rows[:, j], counts)
            tables.append(smoothed(past, shares))
        return tables
    each = reference_shares(weights)
    near = None if against.plan is None else against.plan.columns[0].closeness
    if near is not None:
        bases = np.unique(overlay.bases)
        each = each * np.maximum(near.past_sizes[bases], 1e-12)[:, np.newaxis]
    found = []
    for release in cells:
        table = np.zeros(release.counts.shape, dtype=np.float64)
        pairs = np.unique(np.stack([release.partition.class_of, reference_of]), axis=1)
        np.add.at(table, pairs[0], each[pairs[1]])  # a class holds every base class that it meets
        found.append(table)
    return found
