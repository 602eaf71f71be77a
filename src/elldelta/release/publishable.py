"""What of an owner's table may be published under a plan: the certificate, and what it takes to pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.closeness import values_lower
from elldelta.core.coarsen import Coarsening, fit
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.ledger_state import LedgerState
from elldelta.core.occupancy import class_failures_upper
from elldelta.core.partition import Partition
from elldelta.core.reserve import Reserve
from elldelta.core.several import AnyCertificate, AnyState, JointTerms, Terms, certify, certify_shown, joint
from elldelta.errors import InternalError, ParameterError, RefusedError
from elldelta.plan.classes import Classes, Merged, class_labels
from elldelta.plan.movers import common_of
from elldelta.release.content import content_digest, diversities_by_column, released_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.choices import OnFailure
    from elldelta.core.certificate import CertificateTerms
    from elldelta.model import Counts
    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema

LEFT_OUT = -1
"""The class number of a combination whose records are not released."""

MOST_NAMED = 3
"""How many failing classes a refusal names; their labels are the plan's, not anybody's values."""


@dataclass(frozen=True, eq=False)
class Publishable:
    """What may be published of an owner's records.

    Attributes:
        records: The owner's records, counted.
        class_of: The published class of each combination that occurs, or `LEFT_OUT`.
        classes: The published classes: the plan's, or unions of them.
        labels: What the release shows for each of them, one label per quasi-identifier. No two classes may
            have the same labels: a reader could not tell them apart.
        coarsening: The certificate and its cost; None for a probabilistic plan.
    """

    records: Counts
    class_of: NDArray[np.int64]
    classes: Classes
    labels: Sequence[tuple[str, ...]]
    coarsening: Coarsening | None = None

    def __post_init__(self) -> None:
        class_of = np.array(self.class_of, dtype=np.int64, copy=True)
        class_of.setflags(write=False)
        object.__setattr__(self, "class_of", class_of)
        object.__setattr__(self, "labels", tuple(map(tuple, self.labels)))
        n_classes, n_columns = len(self.labels), len(self.schema.names)
        if class_of.shape != self.records.ranks.shape:
            raise ParameterError(
                "The classes do not cover the combinations of the table.",
                found=f"{self.records.n_combinations} occur, {class_of.size} have a class.",
            )
        if class_of.size and not LEFT_OUT <= class_of.min() <= class_of.max() < n_classes:
            raise ParameterError(
                f"Class numbers run from 0 to {n_classes - 1}, or are {LEFT_OUT} for records left out.",
                found=f"They run from {class_of.min()} to {class_of.max()}.",
            )
        if len(set(self.labels)) < n_classes or any(len(labels) != n_columns for labels in self.labels):
            raise ParameterError(
                f"Every class needs labels of its own, one for each of {n_columns} quasi-identifiers.",
                found=f"{n_classes} classes have {len(set(self.labels))} different sets of labels.",
            )

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.records.schema

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Records by published class and sensitive value; none where records are left out."""
        return self.records.by_class(self.class_of, len(self.labels))

    @property
    def n_records(self) -> int:
        """The number of records that are released."""
        return int(self.schema.by_column(self.counts)[0].sum())

    @cached_property
    def persons_lower(self) -> NDArray[np.int64] | None:
        """At least so many persons are in each published class; None if records were counted.

        Those who are counted in one class only, or all who share a value, whichever are more.
        """
        if self.records.persons is None:
            return None
        shown = self.class_of >= 0
        once = np.bincount(self.class_of[shown], self.records.persons[shown], minlength=len(self.labels))
        lower: NDArray[np.int64] = np.maximum(once.astype(np.int64), self.counts.max(axis=1, initial=0))
        return lower

    @property
    def certificate(self) -> AnyCertificate:
        """The certificate of what is published."""
        if self.coarsening is None:
            raise InternalError("A probabilistic release has no certificate.")
        return self.coarsening.certificate

    @cached_property
    def digest(self) -> str:
        """The digest of the content, by which manifest and ledger know it."""
        return content_digest(self.labels, released_values(self.schema), self.counts)


def publishable(
    counts: Counts,
    plan: Plan,
    *,
    on_failure: OnFailure | None = None,
    most_suppressed: float | None = None,
    state: AnyState | None = None,
    grouping: Partition | None = None,
    to_come: int | None = None,
) -> Publishable:
    """Decides what may be published; nothing has been written yet.

    A release that only had to fit what a ledger has left could use up all room at once. If it is known how
    many owners will follow, it keeps a reserve for them (`Reserve`). Otherwise it must also pass the plan's
    certificate, and if that is not enough for the ledger, it is coarsened further: under what the ledger has
    left, and at last under the stricter of the two, which implies both (Theorems E and F).

    Args:
        counts: The owner's records.
        plan: The plan.
        on_failure: What to do with classes that do not pass; by default what suits the plan.
        most_suppressed: The largest share of records that may be left out for it.
        state: What the releases of a ledger have left, if a ledger must admit this one.
        grouping: The owner's earlier grouping, which it has to keep.
        to_come: How many owners will still publish through the ledger, if that is known.

    Raises:
        RefusedError: Too few records, or the table does not pass.
    """
    if not plan.is_certified:
        if on_failure not in (None, "refuse"):
            raise ParameterError(
                "A probabilistic plan has no certificate, so there is nothing to coarsen or suppress.",
                found=f'`on_failure="{on_failure}"` was asked for.',
                remedy="Use a certified plan, or leave the option out.",
            )
        return _require_persons(_as_planned(counts, plan), plan)
    # Fine plans are made to be coarsened; others are meant to pass as they are.
    if on_failure is None and any(face.closeness is not None for face in plan.faces):
        on_failure = "coarsen-suppress"  # a union need not be closer to what the plan says of its classes
    on_failure = on_failure or ("refuse" if plan.moving is None else "coarsen")
    if on_failure == "refuse":
        _require_records(counts, plan)
    fitted = partial(_fitted, counts, plan, on_failure, most_suppressed, grouping)
    own, reserve = plan.all_terms, None
    attempts = [own]
    if plan.owners is not None and state is None:  # for a ledger that is kept elsewhere: as the first of them
        state, to_come = LedgerState.empty(plan.terms), plan.owners - 1
    left = None if state is None else state.terms_left()
    if left is not None and to_come is not None:
        if isinstance(left, JointTerms):
            raise ParameterError(
                "A reserve for owners to come is kept for one sensitive column.",
                found=f"The plan has {len(left.parts)}, and {to_come} owners are still expected.",
                remedy="Use a ledger without a number of owners.",
            )
        _require_one_release(plan)
        attempts = [left]
        reserve = Reserve.keep(plan.cells(), left, n_records=plan.records, followers=to_come)
    elif left is not None and grouping is None and on_failure != "refuse":
        both = zip(own.parts, left.parts, strict=True)
        attempts += [left, joint([_stricter(alone, together) for alone, together in both])]
    for terms in attempts:
        made = fitted(terms, reserve)
        shown = made.certificate
        again = certify_shown(shown.counts, own, shown.grouping)
        seen = (again.counts, again.grouping)
        if state is None or (state.admits(again.missed, seen) and again.is_certified):
            break
    if again.too_far.any():  # a ledger may have room for what a certificate does not allow
        raise _not_certified(again, plan)
    made = _require_persons(made, plan)
    if made.n_records == 0:
        raise RefusedError(
            "Nothing would be left to release.",
            found=f"None of {counts.n_records} records is in a class that passes the certificate.",
            remedy='Wait for more records, merge classes instead (`on_failure="coarsen"`), or ask for a plan '
            "with fewer classes.",
        )
    return made  # if no attempt was enough, the ledger refuses it, and says why


def _stricter(alone: CertificateTerms, together: CertificateTerms) -> CertificateTerms:
    """What a release must show that passes a certificate and for which a ledger has room."""
    strict = replace(alone, allowances=np.minimum(alone.allowances, together.allowances))
    if together.closeness is None or alone.closeness is None:
        return strict
    return replace(strict, closeness=replace(together.closeness, alone=alone.closeness.limit))


def republished(counts: Counts, plan: Plan, grouping: Partition) -> Publishable:
    """A table whose classes were decided upon one by one; refuses it if one of them does not pass."""
    return _fitted(counts, plan, "refuse", None, grouping, plan.terms, None)


def _fitted(
    counts: Counts,
    plan: Plan,
    on_failure: OnFailure,
    most_suppressed: float | None,
    grouping: Partition | None,
    terms: Terms,
    reserve: Reserve | None,
) -> Publishable:
    class_of = plan.class_of(counts.ranks)
    table = counts.by_class(class_of, plan.n_classes)
    try:
        fitted = fit(
            table,
            terms,
            plan.hull_loss,
            on_failure=on_failure,
            most_suppressed=most_suppressed,
            grouping=grouping,
            reserve=reserve,
        )
    except RefusedError:
        if on_failure != "refuse" or grouping is not None:
            raise
        raise _not_certified(certify(table, terms), plan) from None
    group_of = fitted.grouping.class_of
    is_left_out = fitted.suppressed[group_of]
    # Without a merge every class keeps its number, so that plan and release speak of the same ones.
    is_whole = fitted.grouping.n_classes == plan.n_classes
    classes: Classes = plan.classes if is_whole else Merged(plan.classes, group_of)
    numbers = np.where(is_left_out, LEFT_OUT, np.arange(plan.n_classes) if is_whole else group_of)
    return Publishable(counts, numbers[class_of], classes, class_labels(plan.schema, classes), fitted)


def _require_persons(made: Publishable, plan: Plan) -> Publishable:
    """Refuses classes of fewer persons than a table of one record each would have there.

    There ell witnesses with r records each are ell r persons. Where people have several records, all values
    of a class may be those of one person.
    """
    if made.persons_lower is None:
        return made
    least = fewest_persons(plan)
    shown = made.counts.any(axis=1)
    few = shown & (made.persons_lower < least)
    if few.any():
        raise RefusedError(
            f"Every class needs {least} persons.",
            found=f"{int(few.sum())} of {int(shown.sum())} classes may have fewer; somebody with values "
            "in several classes counts in one of them.",
            remedy="Wait for more people, or ask for a plan with fewer classes or more records per witness.",
        )
    return made


def fewest_persons(plan: Plan) -> int:
    """How many persons every published class has to have, where persons are counted.

    As many as a table of one record each would have: a witness is one person's, and shares that are close to
    their references show some number of values.
    """
    least = max(plan.ells) * plan.min_records
    for face in plan.faces:
        if face.closeness is not None:
            near = values_lower(face.closeness.shares, face.closeness.limit / face.releases)
            least = max(least, 2, int(near.min()))
    return least


def _as_planned(counts: Counts, plan: Plan) -> Publishable:
    """A probabilistic plan: N records, and every class must show ell values, or nothing is published."""
    _require_records(counts, plan)
    made = Publishable(counts, plan.class_of(counts.ranks), plan.classes, plan.labels)
    shown = np.array(diversities_by_column(made.schema, made.counts))
    n_below = int(((shown > 0) & (shown < np.array(plan.ells)[:, None])).any(axis=0).sum())
    verdict = certify_shown(made.counts, plan.all_terms, Partition(np.arange(plan.n_classes)))
    n_far = int(verdict.too_far.sum())
    if n_below or n_far:
        few = f"{n_below} of {int((shown[0] > 0).sum())} classes show fewer" if n_below else ""
        far = f"{n_far} of {plan.n_classes} classes are further away" if n_far else ""
        raise RefusedError(
            f"The release would not show {', '.join(map(str, plan.ells))} values in every class."
            if n_below
            else "The release would be further from what the plan says of its classes than it may be.",
            found=f"{few or far}; "
            f"the plan allows for that with probability at most {plan.failure_upper:.3g}.",
            remedy=f"Wait until a size that was announced beforehand, such as {2 * plan.records} records, "
            "or ask for a plan with fewer classes.",
        )
    return made


def _not_certified(certificate: AnyCertificate, plan: Plan) -> RefusedError:
    """The refusal of a table that does not pass: which classes fail, how many records are likely needed."""
    failing = np.flatnonzero(certificate.fails)
    named = "; ".join(
        ", ".join(
            f"{name} {label}" for name, label in zip(plan.schema.names, plan.labels[index], strict=True)
        )
        for index in failing[:MOST_NAMED].tolist()
    )
    more = f", and {failing.size - MOST_NAMED} more" if failing.size > MOST_NAMED else ""
    is_close = any(face.closeness is not None for face in plan.faces)
    enough = None if is_close else likely_enough(plan)
    wait = (
        f"About {enough} records are likely to be enough: wait for a size that was announced beforehand, "
        "not record by record"
        if enough is not None
        else "More records alone are unlikely to help"
        if not is_close
        else "Wait for a size that was announced beforehand, not record by record"
    )
    return RefusedError(
        "The release does not pass the certificate of its plan: linked with others it could "
        f"{certificate.broken_promise}.",
        found=f"Of {plan.n_classes} classes {' and '.join(certificate.reasons)}: {named}{more}.",
        remedy=f'{wait}. Or merge failing classes (`on_failure="coarsen"`), or leave their records out '
        '(`on_failure="suppress"`).',
    )


def likely_enough(plan: Plan, chance: float = 0.1) -> int | None:
    """The first multiple of N with which a release passes, by the plan's own bound, except with `chance`.

    Multiples of N, because those can be announced beforehand; None if not even 64 N are enough.
    """
    for multiple in (2, 3, 4, 6, 8, 16, 32, 64):
        # As in planning: r records of a value in a release are one in each of r parts of it.
        part, releases = multiple * plan.records // plan.min_records, plan.releases * plan.min_records
        failure = 0.0
        for face in plan.faces:
            cells, common = face.cells(), common_of(face)
            if common is None:
                failures = class_failures_upper(cells, face.ell, part, releases, checked_by="owner")
            else:
                bound = SharpBound(face.ell, part, releases, checked_by="owner")
                failures = common.evaluate(JointDistribution(cells, 1.0), bound).classes
            failure += float(failures.failures_upper.sum())
        if plan.min_records * failure <= chance:
            return multiple * plan.records
    return None


def _require_one_release(plan: Plan) -> None:
    """With a reserve a release passes for the ledger, not for t releases outside of it."""
    if plan.releases > 1:
        raise ParameterError(
            "Leaving something for owners to come needs a plan for one release; the ledger allows others.",
            found=f"The plan is for {plan.releases} releases.",
            remedy="Make the plan with `owners`, or do without `to_come`.",
        )


def _require_records(counts: Counts, plan: Plan) -> None:
    if counts.n_records >= plan.records:
        return
    way_out = ' A certified plan can be released with fewer by coarsening (`on_failure="coarsen"`).'
    account = counts.accounting
    left_out = account.n_read - counts.n_records
    why = (
        f" Of {account.n_read} records {left_out} were left out: {account.n_suppressed} with a missing "
        f"value, {account.n_quarantined} with a value outside its domain."
    )
    raise RefusedError(
        f"The plan asks for {plan.records} records.",
        found=f"The table has {counts.n_records} that can be used; "
        f"{plan.records - counts.n_records} are missing.{why if left_out else ''}",
        remedy="Wait until there are enough, or ask for a plan for fewer records."
        + (way_out if plan.is_certified else ""),
    )
