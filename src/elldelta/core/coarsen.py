"""An owner whose table does not pass: merge failing classes with others, leave their records out, or both.

Theorem E allows every union of base classes. Which unions lose least is a search; whether they are safe is
not: every result here carries the certificate of exactly what is published. The search sees which classes
fail, so a merged class tells that something inside it did not pass by itself (see the guide to certificates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.certificate import Certificate, CertificateTerms, certify
from elldelta.core.grouping import grouping_from_merged, merged_classes
from elldelta.core.hull_loss import HullLoss, MassOf
from elldelta.core.unions import check_fits, coarsen_runs, coarsen_unions, unmergeable
from elldelta.errors import InternalError, ParameterError, RefusedError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.choices import OnFailure
    from elldelta.core.partition import Partition

__all__ = [
    "Coarsening",
    "CoarseningCost",
    "HullLoss",
    "MassOf",
    "Unions",
    "coarsen_runs",
    "coarsen_unions",
    "fit",
    "grouping_from_merged",
    "merged_classes",
    "unmergeable",
]

Unions = Literal["runs", "boxes", "any"]
"""Which unions may be published: neighbours in the order, boxes made of boxes, or any."""

WAIT = (
    "Wait for a size or date that was announced beforehand (N, 2N, a quarter's end; not record by record), "
    "or ask for a plan with fewer classes."
)


@dataclass(frozen=True)
class CoarseningCost:
    """What it cost to pass.

    Attributes:
        n_base_classes: R, the classes of the plan.
        n_published: Published classes with a record.
        n_published_before: Base classes with a record: what would have been published had all passed.
        n_failing: Base classes that failed by themselves.
        n_merged: Base classes that are published together with others.
        n_records: Records of the table.
        n_suppressed: Records left out.
        ncp_before: Mean loss of the base classes, over all mass.
        ncp_after: Mean loss of the published classes, over the mass that is not suppressed.
        mass_of: Whose mass weighs both.
    """

    n_base_classes: int
    n_published: int
    n_published_before: int
    n_failing: int
    n_merged: int
    n_records: int
    n_suppressed: int
    ncp_before: float
    ncp_after: float
    mass_of: MassOf

    @property
    def suppressed_share(self) -> float:
        """The share of records left out."""
        return self.n_suppressed / self.n_records if self.n_records else 0.0


@dataclass(frozen=True, eq=False)
class Coarsening:
    """What may be published: a grouping, what is left out, its certificate, and what it cost.

    Attributes:
        certificate: The certificate of what is published; it holds.
        cost: What it cost to pass.
    """

    certificate: Certificate
    cost: CoarseningCost

    @property
    def grouping(self) -> Partition:
        """The published class of every base class."""
        return self.certificate.grouping

    @property
    def suppressed(self) -> NDArray[np.bool_]:
        """Whether the records of a published class are left out, one per published class."""
        return self.certificate.suppressed

    @property
    def is_unchanged(self) -> bool:
        """Whether every base class is published as planned."""
        return self.grouping.n_classes == self.grouping.n_quasi_identifiers and not self.suppressed.any()


def fit(
    counts: ArrayLike,
    terms: CertificateTerms,
    loss: HullLoss,
    *,
    on_failure: OnFailure = "refuse",
    unions: Unions = "runs",
    most_suppressed: float | None = None,
    grouping: Partition | None = None,
) -> Coarsening:
    """Makes an owner's table pass (Theorem E), or refuses. What is returned is certified, always.

    Args:
        counts: The owner's records by base class and sensitive value, R x |S|.
        terms: What the plan asks, or what a ledger has left (`LedgerState.terms_left`).
        loss: Where the base classes lie, and whose mass weighs losses.
        on_failure: "refuse", "coarsen" (merge), "suppress" (leave the records of failing classes out), or
            "coarsen-suppress" (merge, and leave out what cannot be merged).
        unions: Which unions of base classes may be published.
        most_suppressed: The largest share of records that may be left out; None is no limit.
        grouping: An owner's earlier grouping, which it has to keep: nothing is searched, and the only way out
            for a published class that fails is to leave its records out, if `on_failure` allows that.

    Raises:
        RefusedError: It does not pass, or only by leaving more out than is allowed.
    """
    if on_failure not in ("refuse", "coarsen", "suppress", "coarsen-suppress"):
        raise ParameterError("On failure: refuse, coarsen, suppress or coarsen-suppress.")
    if unions not in ("runs", "boxes", "any"):
        raise ParameterError("Unions are runs, boxes or any.")
    if most_suppressed is not None and not 0.0 <= most_suppressed <= 1.0:
        raise ParameterError(
            "The share of records that may be left out must lie between 0 and 1.",
            found=f"It is {most_suppressed}.",
        )
    table = terms.check_counts(counts)
    check_fits(terms, loss)
    certificate = certify(table, terms, grouping)
    if certificate.is_certified:
        return _coarsening(table, terms, loss, certificate)
    may_suppress = on_failure in ("suppress", "coarsen-suppress")
    if on_failure == "refuse" or (grouping is not None and not may_suppress):
        keeps = "The owner has to keep the classes of its earlier release. " if grouping is not None else ""
        return _coarsening(table, terms, loss, certificate.require(remedy=keeps + WAIT))
    if grouping is not None or on_failure == "suppress":
        certificate = certify(table, terms, grouping, certificate.failing_groups)
    elif unions == "runs":
        certificate = coarsen_runs(table, terms, loss)
    else:
        certificate = coarsen_unions(table, terms, loss, boxes=unions == "boxes")
    if not certificate.is_certified:
        raise InternalError("A coarsening does not pass its own certificate.", remedy="Please report this.")
    allowed = (1.0 if most_suppressed is None else most_suppressed) if may_suppress else 0.0
    n_records = int(table.sum())
    if certificate.n_suppressed > allowed * n_records:
        raise RefusedError(
            "No union of classes makes the whole table pass."
            if not may_suppress
            else f"More than {allowed:.3g} of the records would have to be left out.",
            found=f"{certificate.n_suppressed} of {n_records} records lie in classes that miss too many of "
            f"their witnesses however they are merged{' here' if unions != 'any' else ''}.",
            remedy=("Allow to leave records out, or wait" if not may_suppress else "Allow more, or wait")
            + WAIT.removeprefix("Wait"),
        )
    return _coarsening(table, terms, loss, certificate)


def _coarsening(
    table: NDArray[np.int64], terms: CertificateTerms, loss: HullLoss, certificate: Certificate
) -> Coarsening:
    is_alone = certificate.grouping.n_classes == terms.n_classes and not certificate.suppressed.any()
    alone = certificate if is_alone else certify(table, terms)
    sizes = np.bincount(certificate.grouping.class_of)
    cost = CoarseningCost(
        n_base_classes=terms.n_classes,
        n_published=certificate.n_published,
        n_published_before=alone.n_published,
        n_failing=int(alone.fails.sum()),
        n_merged=int(sizes[sizes > 1].sum()),
        n_records=int(table.sum()),
        n_suppressed=certificate.n_suppressed,
        ncp_before=loss.ncp(alone.grouping),
        ncp_after=loss.ncp(certificate.grouping, certificate.suppressed),
        mass_of=loss.mass_of,
    )
    return Coarsening(certificate, cost)
