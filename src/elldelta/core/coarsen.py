"""An owner whose table does not pass: merge failing classes with others, leave their records out, or both.

Theorem E allows every union of base classes. Which unions lose least is a search; whether they are safe is
not: every result here carries the certificate of exactly what is published. The search sees which classes
fail, so a merged class tells that something inside it did not pass by itself (see the guide to certificates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.certificate import Certificate, CertificateTerms, certify, read_only
from elldelta.core.partition import Partition
from elldelta.errors import InternalError, ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.coarsen_kernels import Demands, Records, Shape

OnFailure = Literal["refuse", "coarsen", "suppress", "coarsen-suppress"]
"""What to do with a table that does not pass."""

Unions = Literal["runs", "boxes", "any"]
"""Which unions may be published: neighbours in the order, boxes made of boxes, or any."""

MassOf = Literal["plan", "owner"]
"""Whose mass weighs the losses: what the plan expects, or the owner's records."""

WINDOW = 64
"""Runs of up to so many occupied base classes are all tried."""

MOST_MEMBERS = 256
"""Larger groups are left as merging made them; looking for members that can leave takes cubic time."""

WAIT = (
    "Wait for a size or date that was announced beforehand (N, 2N, a quarter's end; not record by record), "
    "or ask for a plan with fewer classes."
)


@dataclass(frozen=True, eq=False)
class HullLoss:
    """NCP of unions of base classes: Σ mass(C) · mean over attributes of (high - low) / (size - 1).

    Attributes:
        lows: First position of each base class per attribute, R x d, read-only.
        highs: Last position, inclusive, R x d, read-only.
        sizes: The number of positions of each attribute.
        mass: The mass of each base class, read-only; scaled to a sum of 1 where there is any.
        mass_of: Whose mass it is, for the report. With the plan's mass the merges depend on the owner's
            records only through which values classes show.
    """

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    sizes: tuple[int, ...]
    mass: NDArray[np.float64]
    mass_of: MassOf = "plan"

    def __post_init__(self) -> None:
        lows, highs = read_only(self.lows, np.int64), read_only(self.highs, np.int64)
        mass = np.array(self.mass, dtype=np.float64)
        sizes = tuple(int(size) for size in self.sizes)
        if lows.ndim != 2 or lows.shape != highs.shape or lows.shape != (mass.size, len(sizes)):
            raise ParameterError(
                "Losses need a low and a high end per attribute, and a mass, for every base class.",
                found=f"Shapes {lows.shape}, {highs.shape} and {mass.shape} for {len(sizes)} attributes.",
            )
        if (lows < 0).any() or (lows > highs).any() or (highs >= np.array(sizes)).any():
            raise ParameterError("The ends of a class must rise and lie inside the domain.")
        if not np.isfinite(mass).all() or (mass < 0.0).any():
            raise ParameterError("Masses must be finite and not negative.")
        total = float(mass.sum())
        object.__setattr__(self, "lows", lows)
        object.__setattr__(self, "highs", highs)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "mass", read_only(mass / total if total else mass, np.float64))

    @property
    def weights(self) -> NDArray[np.float64]:
        """Loss per position of length, one per attribute; 0 for a domain of one position."""
        weights = [1.0 / ((size - 1) * len(self.sizes)) if size > 1 else 0.0 for size in self.sizes]
        return np.array(weights, dtype=np.float64)

    def hulls(self, grouping: Partition) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of every published class, two tables of its rows x d."""
        order = np.argsort(grouping.class_of, kind="stable")
        starts = np.searchsorted(grouping.class_of[order], np.arange(grouping.n_classes))
        return np.minimum.reduceat(self.lows[order], starts), np.maximum.reduceat(self.highs[order], starts)

    def ncp(self, grouping: Partition, suppressed: NDArray[np.bool_] | None = None) -> float:
        """The mean loss over the mass of the classes that are published: 0 is exact, 1 tells nothing.

        Suppressed classes do not count here; how many records they hold is told beside it.
        """
        lows, highs = self.hulls(grouping)
        lengths = (highs - lows) @ self.weights
        mass = self.mass
        if suppressed is not None:
            mass = np.where(suppressed[grouping.class_of], 0.0, mass)
        total = float(mass.sum())
        return float(mass @ lengths[grouping.class_of] / total) if total else 0.0


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
    _check_fits(terms, loss)
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


def unmergeable(counts: NDArray[np.int64], terms: CertificateTerms) -> NDArray[np.bool_]:
    """Base classes that no union can satisfy: the whole table misses more of their witnesses than allowed.

    Records in such classes can only be left out, which may take values from the table, and so on: computed
    until nothing changes. The union of all other base classes with a record satisfies every one of them. So
    if any unions are allowed, a table can be coarsened without leaving records out exactly if no base class
    with a record is in this set. (That the class of all of Q fails says less: it may fail because of a class
    without a record, which need not be merged with anything.)

    Args:
        counts: The owner's records by base class and sensitive value, R x |S|.
        terms: What the plan asks.

    Returns:
        One bool per base class; also for those without a record, which must then stay by themselves.
    """
    out = np.zeros(terms.n_classes, dtype=np.bool_)
    while True:
        absent = counts[~out].sum(axis=0) < terms.min_records
        found = (terms.membership & absent).sum(axis=1) > terms.allowances
        if not (found & ~out).any():
            return out
        out |= found


def coarsen_runs(
    counts: ArrayLike, terms: CertificateTerms, loss: HullLoss, *, window: int = WINDOW
) -> Certificate:
    """Merges neighbours in the order, at the least loss; leaves out only what no run can hold.

    Fewest records left out first, then the least loss, over all ways to cut the base classes into runs of up
    to `window` classes with records each (longer runs begin and end at multiples of 8, 64, ... of these).

    Returns:
        The certificate of the runs; it holds.
    """
    from elldelta.core.coarsen_kernels import best_runs

    table = terms.check_counts(counts)
    _check_fits(terms, loss)
    alone = certify(table, terms)
    units = np.flatnonzero(alone.published)
    if not units.size:
        return alone
    begins, left_out = best_runs(
        units.astype(np.int64),
        ~alone.fails[units],
        _demands(terms, unmergeable(table, terms)),
        _records(table),
        _shape(loss),
        window,
    )
    ends = np.append(np.flatnonzero(np.diff(begins)), units.size - 1)
    starts = begins[ends]
    depth = np.zeros(terms.n_classes + 1, dtype=np.int64)
    np.add.at(depth, units[starts] + 1, 1)
    np.add.at(depth, units[ends] + 1, -1)
    is_inside = np.cumsum(depth)[:-1] > 0  # belongs to the run of the class before it
    grouping = Partition(np.cumsum(~is_inside) - 1)
    suppressed = np.zeros(grouping.n_classes, dtype=np.bool_)
    suppressed[grouping.class_of[units[left_out]]] = True
    return certify(table, terms, grouping, suppressed)


def coarsen_unions(
    counts: ArrayLike, terms: CertificateTerms, loss: HullLoss, *, boxes: bool = True
) -> Certificate:
    """Merges failing classes with the partner that costs least loss per witness gained, again and again.

    Args:
        counts: The owner's records by base class and sensitive value, R x |S|.
        terms: What the plan asks.
        loss: Where base classes lie; for boxes they must not overlap.
        boxes: Whether the hulls of published classes must stay disjoint: then everything that the hull of a
            union touches joins it, so that boxes stay boxes and labels tell classes apart. Otherwise classes
            without a record never join, and members that a group turns out not to need leave it again.

    Returns:
        The certificate of the unions; it holds. It leaves out only records of classes that cannot be merged.
    """
    from elldelta.core.merge_kernels import LEFT, Groups, merge_groups, release_members

    table = terms.check_counts(counts)
    _check_fits(terms, loss)
    alone = certify(table, terms)
    barred = unmergeable(table, terms)
    n_records = table.sum(axis=1)
    n_classes = terms.n_classes
    shape = _shape(loss)
    demands = _demands(terms, barred)
    groups = Groups(
        alive=np.ones(n_classes, dtype=np.bool_),
        blocked=barred.copy(),
        lows=shape.lows.copy(),
        highs=shape.highs.copy(),
        mass=shape.mass.copy(),
        counts=table.copy(),
        n_records=n_records.copy(),
        excess=np.maximum(0, alone.n_missed - terms.allowances),
        heads=np.arange(n_classes, dtype=np.int64),
        tails=np.arange(n_classes, dtype=np.int64),
        following=np.full(n_classes, -1, dtype=np.int64),
        stamps=np.zeros(n_classes, dtype=np.int64),
    )
    stuck = merge_groups(groups, demands, shape.weights, boxes)
    if not boxes:
        release_members(groups, demands, shape, table, ~alone.fails, MOST_MEMBERS)
    group_of = np.arange(n_classes)
    for group in np.flatnonzero(groups.alive & (groups.heads != groups.tails)).tolist():
        member = int(groups.heads[group])
        while member >= 0:
            group_of[member] = n_classes + group  # apart from the numbers of classes by themselves
            member = int(groups.following[member])
    group_of[groups.following == LEFT] = np.flatnonzero(groups.following == LEFT)
    is_stuck = np.zeros(2 * n_classes, dtype=np.bool_)
    is_stuck[group_of[barred & (n_records > 0)]] = True
    is_stuck[group_of[groups.heads[stuck]]] = True
    _, first, renumbered = np.unique(group_of, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    grouping = Partition(rank[renumbered.reshape(-1)])
    suppressed = np.zeros(grouping.n_classes, dtype=np.bool_)
    suppressed[grouping.class_of[is_stuck[group_of]]] = True
    return certify(table, terms, grouping, suppressed)


def merged_classes(grouping: Partition) -> list[list[int]]:
    """The published classes that hold several base classes: a short way to write a grouping down."""
    sizes = np.bincount(grouping.class_of)
    return [part.members.tolist() for part in grouping if sizes[part.index] > 1]


def grouping_from_merged(merged: Sequence[Sequence[int]], n_classes: int) -> Partition:
    """Reads what `merged_classes` wrote; published classes are numbered by their first base class."""
    first = np.arange(n_classes)
    seen: set[int] = set()
    for members in merged:
        if len(members) < 2 or len(set(members)) < len(members) or seen & set(members):
            raise ParameterError("Merged classes must be disjoint and hold at least two base classes each.")
        if not all(0 <= member < n_classes for member in members):
            raise ParameterError(f"Merged classes must be numbers from 0 to {n_classes - 1}.")
        seen |= set(members)
        first[list(members)] = min(members)
    return Partition(np.unique(first, return_inverse=True)[1].reshape(-1))


def _coarsening(
    table: NDArray[np.int64], terms: CertificateTerms, loss: HullLoss, certificate: Certificate
) -> Coarsening:
    alone = certify(table, terms)
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


def _check_fits(terms: CertificateTerms, loss: HullLoss) -> None:
    if loss.mass.size != terms.n_classes:
        raise ParameterError(
            f"The plan has {terms.n_classes} base classes.", found=f"Losses are told for {loss.mass.size}."
        )


def _demands(terms: CertificateTerms, barred: NDArray[np.bool_]) -> Demands:
    from elldelta.core.coarsen_kernels import Demands

    padded = np.zeros((terms.n_classes, -(-terms.n_values // 64) * 64), dtype=np.bool_)
    padded[:, : terms.n_values] = terms.membership
    words = np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return Demands(words, terms.allowances.copy(), barred, terms.min_records)


def _records(table: NDArray[np.int64]) -> Records:
    from elldelta.core.coarsen_kernels import Records

    rows, values = np.nonzero(table)
    places = np.searchsorted(rows, np.arange(table.shape[0] + 1)).astype(np.int64)
    return Records(places, values.astype(np.int64), table[rows, values], int(table.shape[1]))


def _shape(loss: HullLoss) -> Shape:
    from elldelta.core.coarsen_kernels import Shape

    # A class without mass still has a length: a trace of mass makes short unions win where nothing else does.
    mass = loss.mass + 1e-6 / loss.mass.size
    return Shape(loss.lows.copy(), loss.highs.copy(), loss.weights, mass)
