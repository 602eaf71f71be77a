"""What of an owner's table may be published under a plan: the certificate, and what it takes to pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import certify, missing_witnesses
from elldelta.core.coarsen import fit
from elldelta.core.diversity import class_diversities
from elldelta.core.occupancy import class_failures_upper
from elldelta.core.partition import Partition
from elldelta.errors import FileError, InternalError, ParameterError, RefusedError
from elldelta.files import digest
from elldelta.plan.classes import Boxes, Merged, Runs, class_labels
from elldelta.release.class_map import LEFT_OUT, ClassMap
from elldelta.release.manifest import content_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.choices import OnFailure
    from elldelta.core.certificate import Certificate, CertificateTerms
    from elldelta.core.coarsen import Coarsening
    from elldelta.core.ledger_state import LedgerState
    from elldelta.model.counts import Counts
    from elldelta.plan.classes import Classes
    from elldelta.plan.plan import Plan
    from elldelta.release.published import Published
    from elldelta.schema.schema import Schema


MOST_NAMED = 3
"""How many failing classes a refusal names; their labels are the plan's, not anybody's values."""


@dataclass(frozen=True, eq=False)
class Publishable:
    """What may be published.

    Attributes:
        schema: What the columns mean.
        classes: The published classes: the plan's, or unions of them.
        labels: What the release shows for each of them.
        counts: Records by published class and sensitive value; none where records are left out.
        class_map: Which combination goes where.
        coarsening: The certificate and its cost; None for a probabilistic plan.
    """

    schema: Schema
    classes: Classes
    labels: list[tuple[str, ...]]
    counts: NDArray[np.int64]
    class_map: ClassMap
    coarsening: Coarsening | None

    @property
    def certificate(self) -> Certificate:
        """The certificate of what is published."""
        if self.coarsening is None:
            raise InternalError("A probabilistic release has no certificate.")
        return self.coarsening.certificate

    @cached_property
    def digest(self) -> str:
        """The digest of the content; see `content_digest`."""
        values = self.schema.sensitive.released_values().to_pylist()
        return content_digest(self.labels, values, self.counts)

    @cached_property
    def diversities(self) -> NDArray[np.int64]:
        """Distinct values per class with a record."""
        present = class_diversities(self.counts)
        return present[present > 0]


def base_counts(counts: Counts, plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An owner's records by the plan's classes and sensitive value; and the class of each combination."""
    class_of = plan.class_of(counts.ranks)
    n_values = plan.schema.n_values
    table = np.zeros(plan.n_classes * n_values, dtype=np.int64)
    np.add.at(table, (class_of * n_values)[counts.rows] + counts.values, counts.n)
    return table.reshape(plan.n_classes, n_values), class_of


def default_on_failure(plan: Plan) -> OnFailure:
    """Fine plans are made to be coarsened; others are meant to pass as they are."""
    return "refuse" if plan.waiting_risk is None else "coarsen"


def publishable(
    counts: Counts,
    plan: Plan,
    *,
    on_failure: OnFailure | None = None,
    most_suppressed: float | None = None,
    state: LedgerState | None = None,
    grouping: Partition | None = None,
) -> Publishable:
    """Decides what may be published; nothing has been written yet.

    A release that only had to fit what a ledger has left could use up all room at once. So it must also pass
    the plan's certificate. If passing that is not enough for the ledger, it is coarsened further: under what
    the ledger has left, and at last under the stricter of the two, which implies both (Theorems E and F).

    Args:
        counts: The owner's records.
        plan: The plan.
        on_failure: What to do with classes that do not pass; by default what suits the plan.
        most_suppressed: The largest share of records that may be left out for it.
        state: What the releases of a ledger have left, if a ledger must admit this one.
        grouping: The owner's earlier grouping, which it has to keep.

    Raises:
        RefusedError: Too few records, or the table does not pass.
    """
    if plan.guarantee == "probabilistic":
        if on_failure not in (None, "refuse"):
            raise ParameterError(
                "A probabilistic plan has no certificate, so there is nothing to coarsen or suppress.",
                found=f"on-failure is {on_failure}.",
                remedy="Use a certified plan, or leave the option out.",
            )
        return _as_planned(counts, plan)
    on_failure = on_failure or default_on_failure(plan)
    own = plan.terms
    attempts = [own]
    if state is not None and grouping is None and on_failure != "refuse":
        strict = replace(own, allowances=np.minimum(own.allowances, state.room))
        attempts += [state.terms_left(), strict]
    for terms in attempts:
        made = _fitted(counts, plan, terms, on_failure, most_suppressed, grouping)
        shown = made.certificate
        missed = missing_witnesses(shown.counts, own, shown.grouping)
        if state is None or (state.admits(missed) and not (missed.sum(axis=1) > own.allowances).any()):
            break
    return made  # if no attempt was enough, the ledger refuses it, and says why


def _fitted(
    counts: Counts,
    plan: Plan,
    terms: CertificateTerms,
    on_failure: OnFailure,
    most_suppressed: float | None,
    grouping: Partition | None,
) -> Publishable:
    if on_failure == "refuse":
        _require_records(counts, plan)
    table, class_of = base_counts(counts, plan)
    if on_failure == "refuse" and grouping is None:
        _require_certificate(certify(table, terms), plan)
    fitted = fit(
        table,
        terms,
        plan.hull_loss,
        on_failure=on_failure,
        unions=plan.unions,
        most_suppressed=most_suppressed,
        grouping=grouping,
    )
    group_of = fitted.grouping.class_of
    whole = fitted.grouping.n_classes == plan.n_classes
    classes: Classes = plan.classes if whole else Merged(plan.classes, group_of)
    labels = class_labels(plan.schema, classes)
    # Without a merge every class keeps its number, so that plan and release speak of the same ones.
    numbers = np.arange(plan.n_classes) if whole else group_of
    left_out = fitted.suppressed if not whole else fitted.suppressed[group_of]
    shown = fitted.certificate.counts if not whole else fitted.certificate.counts[group_of]
    published = numbers[class_of]
    published = np.where(left_out[published], LEFT_OUT, published)
    return Publishable(
        plan.schema, classes, labels, shown, ClassMap(counts.ranks, published, tuple(labels)), fitted
    )


def check_published(published: Published, plan: Plan) -> None:
    """Checks the certificate of a release from what it shows; needs nothing that its owner keeps.

    Raises:
        FileError: Its classes are not unions of the plan's.
        RefusedError: A class misses more witness values than it may.
    """
    classes, terms = published.classes, plan.terms
    check_classes(published, plan)
    group_of = classes.group_of if isinstance(classes, Merged) else np.arange(plan.n_classes)
    missed = missing_witnesses(published.counts, terms, Partition(group_of)).sum(axis=1)
    n_failing = int((missed > terms.allowances).sum())
    if n_failing:
        raise RefusedError(
            f"The release {published.name} does not pass the certificate of its plan.",
            found=f"{n_failing} of {plan.n_classes} planned classes miss more witness values than they may.",
            remedy="Do not rely on this release.",
        )


def check_classes(published: Published, plan: Plan) -> None:
    """Checks that a release uses the plan's schema, and its classes or unions of them that labels can tell.

    Raises:
        FileError: It does not.
    """
    classes = published.classes
    base = classes.base if isinstance(classes, Merged) else classes
    if published.schema.digest != plan.schema.digest:
        found = "It describes its columns differently."
    elif not isinstance(base, Runs | Boxes) or digest(base.to_dict()) != digest(plan.classes.to_dict()):
        found = "Its classes are not unions of the plan's classes."
    elif isinstance(classes, Merged) and not _tells_apart(classes):
        found = "It merges classes whose union no label can tell from other classes."
    else:
        return
    raise FileError(
        f"The release {published.name} does not follow the plan.",
        found=found,
        remedy="Give the plan that the release was made with.",
    )


def _tells_apart(merged: Merged) -> bool:
    """Whether every union is again a run, or a box: then its labels name just its members."""
    order = np.argsort(merged.group_of, kind="stable")
    starts = np.searchsorted(merged.group_of[order], np.arange(merged.n_classes))
    if isinstance(merged.base, Runs):
        first = np.minimum.reduceat(order, starts)
        last = np.maximum.reduceat(order, starts)
        return bool((last - first + 1 == np.bincount(merged.group_of)).all())
    if not isinstance(merged.base, Boxes):
        return False
    tiling = merged.base.tiling
    lows = np.minimum.reduceat(tiling.lows[order], starts)
    highs = np.maximum.reduceat(tiling.highs[order], starts)
    volumes = (tiling.highs - tiling.lows + 1).astype(object).prod(axis=1)
    sums = np.add.reduceat(volumes[order], starts)
    return bool(((highs - lows + 1).astype(object).prod(axis=1) == sums).all())


def _as_planned(counts: Counts, plan: Plan) -> Publishable:
    """A probabilistic plan: N records, and every class must show ell values, or nothing is published."""
    _require_records(counts, plan)
    table, class_of = base_counts(counts, plan)
    made = Publishable(
        plan.schema,
        plan.classes,
        plan.labels,
        table,
        ClassMap(counts.ranks, class_of, tuple(plan.labels)),
        None,
    )
    n_below = int((made.diversities < plan.ell).sum())
    if n_below:
        raise RefusedError(
            f"The release would not show {plan.ell} values in every class.",
            found=f"{n_below} of {made.diversities.size} classes show fewer; "
            f"the plan allows for that with probability at most {plan.failure_upper:.3g}.",
            remedy=f"Wait until a size that was announced beforehand, such as {2 * plan.records} records, "
            "or ask for a plan with fewer classes.",
        )
    return made


def _require_certificate(certificate: Certificate, plan: Plan) -> None:
    """Refuses a table that does not pass; says which classes fail and how many records are likely needed."""
    if certificate.is_certified:
        return
    failing = np.flatnonzero(certificate.fails)
    named = "; ".join(
        ", ".join(
            f"{name} {label}" for name, label in zip(plan.schema.names, plan.labels[index], strict=True)
        )
        for index in failing[:MOST_NAMED].tolist()
    )
    more = f", and {failing.size - MOST_NAMED} more" if failing.size > MOST_NAMED else ""
    enough = likely_enough(plan)
    wait = (
        f"About {enough} records are likely to be enough: wait for a size that was announced beforehand, "
        "not record by record"
        if enough is not None
        else "More records alone are unlikely to help"
    )
    raise RefusedError(
        "The release does not pass the certificate of its plan: linked with others it could show fewer than "
        f"{plan.ell} values.",
        found=f"{failing.size} of {plan.n_classes} classes miss more witness values than they may: "
        f"{named}{more}.",
        remedy=f"{wait}. Or merge failing classes (--on-failure coarsen), or leave their records out "
        "(--on-failure suppress).",
    )


def likely_enough(plan: Plan, chance: float = 0.1) -> int | None:
    """The first multiple of N with which a release passes, by the plan's own bound, except with `chance`.

    Multiples of N, because those can be announced beforehand; None if not even 64 N are enough.
    """
    cells = plan.cells()
    for multiple in (2, 3, 4, 6, 8, 16, 32, 64):
        # As in planning: r records of a value in a release are one in each of r parts of it.
        part, releases = multiple * plan.records // plan.min_records, plan.releases * plan.min_records
        failures = class_failures_upper(cells, plan.ell, part, releases, certifiable=True)
        if plan.min_records * failures.failures_upper.sum() <= chance:
            return multiple * plan.records
    return None


def _require_records(counts: Counts, plan: Plan) -> None:
    if counts.n_records >= plan.records:
        return
    way_out = " A certified plan can be released with fewer by coarsening (--on-failure coarsen)."
    raise RefusedError(
        f"The plan asks for {plan.records} records.",
        found=f"The table has {counts.n_records} that can be used; "
        f"{plan.records - counts.n_records} are missing.",
        remedy="Wait until there are enough, or ask for a plan for fewer records."
        + (way_out if plan.guarantee == "certified" else ""),
    )
