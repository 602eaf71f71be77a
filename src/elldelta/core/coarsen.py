"""An owner whose table does not pass: merge failing classes with others, leave their records out, or both.

Theorem E allows every union of base classes. Which unions lose least is a search; whether they are safe is
not: every result here carries the certificate of exactly what is published. The search sees which classes
fail, so a merged class tells that something inside it did not pass by itself (see the guide to certificates).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.hull_loss import HullLoss
from elldelta.core.partition import Partition
from elldelta.core.several import AnyCertificate, Terms, certify
from elldelta.errors import InternalError, ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from elldelta.choices import OnFailure
    from elldelta.core.coarsen_kernels import Demands, Shape
    from elldelta.core.reserve import Reserve

WAIT = (
    "Wait for a size or date that was announced beforehand (N, 2N, a quarter's end; not record by record), "
    "or ask for a plan with fewer classes."
)

USUAL = 1.0
"""The price of leaving out everything: what a table that tells nothing loses."""

NEVER = 1e9
"""A price of leaving records out at which none is left out that can be published."""


@dataclass(frozen=True, eq=False)
class Coarsening:
    """What may be published: a grouping, what is left out, its certificate, and what it cost to pass.

    Attributes:
        certificate: The certificate of what is published; it holds.
        n_failing: Base classes that failed by themselves.
        n_merged: Base classes that are published together with others.
        ncp: Mean loss of the published classes, over the mass that is not suppressed.
        loss: What the owner loses: the loss of what is published, and the mass of what is left out.
    """

    certificate: AnyCertificate
    n_failing: int
    n_merged: int
    ncp: float
    loss: float

    @property
    def grouping(self) -> Partition:
        """The published class of every base class."""
        return self.certificate.grouping

    @property
    def suppressed(self) -> NDArray[np.bool_]:
        """Whether the records of a published class are left out, one per published class."""
        return self.certificate.suppressed

    @property
    def n_published(self) -> int:
        """Published classes with a record."""
        return self.certificate.n_published

    @property
    def n_suppressed(self) -> int:
        """How many records are left out."""
        return self.certificate.n_suppressed

    @property
    def suppressed_share(self) -> float:
        """The share of records left out."""
        return self.n_suppressed / max(1, self.n_suppressed + self.certificate.n_records)


def fit(
    counts: ArrayLike,
    terms: Terms,
    loss: HullLoss,
    *,
    on_failure: OnFailure = "refuse",
    most_suppressed: float | None = None,
    grouping: Partition | None = None,
    reserve: Reserve | None = None,
) -> Coarsening:
    """Makes an owner's table pass (Theorem E), or refuses. What is returned is certified, always.

    Merging and leaving out are weighed against each other: what is published costs its NCP, what is left out
    its mass. The result costs no more than merging alone or leaving out alone.

    Args:
        counts: The owner's records by base class and sensitive value, R x |S|.
        terms: What the plan asks, or what a ledger has left (`LedgerState.terms_left`).
        loss: Where the base classes lie, and whose mass weighs losses.
        on_failure: "refuse", "coarsen" (merge), "suppress" (leave the records of failing classes out), or
            "coarsen-suppress" (merge, and leave out what cannot be merged).
        most_suppressed: The largest share of records that may be left out; None is no limit.
        grouping: An owner's earlier grouping, which it has to keep: nothing is searched, and the only way out
            for a published class that fails is to leave its records out, if `on_failure` allows that.
        reserve: What must be left for owners who follow, if classes can leave it. What is certified does not
            depend on it.

    Raises:
        RefusedError: It does not pass, or only by leaving more out than is allowed.
    """
    if on_failure not in ("refuse", "coarsen", "suppress", "coarsen-suppress"):
        raise ParameterError("On failure: refuse, coarsen, suppress or coarsen-suppress.")
    if most_suppressed is not None and not 0.0 <= most_suppressed <= 1.0:
        raise ParameterError(
            "The share of records that may be left out must lie between 0 and 1.",
            found=f"It is {most_suppressed}.",
        )
    table = terms.check_counts(counts)
    _check_fits(terms, loss)
    n_records = int(table[:, terms.columns[0]].sum())
    certificate = certify(table, terms, grouping)
    may_suppress = on_failure in ("suppress", "coarsen-suppress")
    may_merge = on_failure in ("coarsen", "coarsen-suppress") and grouping is None
    if certificate.is_certified and (reserve is None or not may_merge):
        return _coarsening(table, terms, loss, certificate)
    if not (may_suppress or may_merge):
        keeps = "The owner has to keep the classes of its earlier release. " if grouping is not None else ""
        return _coarsening(table, terms, loss, certificate.require(remedy=keeps + WAIT))
    allowed = (1.0 if most_suppressed is None else most_suppressed) if may_suppress else 0.0
    found = []
    if may_suppress and (reserve is None or not may_merge):
        found.append(certify(table, terms, grouping, certificate.failing_groups))
    if may_merge:
        for price in (USUAL, NEVER) if may_suppress else (NEVER,):
            found.append(coarsen_boxes(table, terms, loss, price=price, reserve=reserve))
            if found[-1].n_suppressed <= allowed * n_records:
                break
    if not all(certificate.is_certified for certificate in found):
        raise InternalError("A coarsening does not pass its own certificate.", remedy="Please report this.")
    fitting = [one for one in found if one.n_suppressed <= allowed * n_records]
    if not fitting:
        least = min(found, key=lambda one: one.n_suppressed)
        raise _too_much_left_out(least, n_records, allowed, may_suppress=may_suppress)
    return min((_coarsening(table, terms, loss, one) for one in fitting), key=lambda one: one.loss)


def _too_much_left_out(
    certificate: AnyCertificate, n_records: int, allowed: float, *, may_suppress: bool
) -> RefusedError:
    return RefusedError(
        f"More than {allowed:.3g} of the records would have to be left out."
        if may_suppress
        else "No union of classes makes the whole table pass.",
        found=f"{certificate.n_suppressed} of {n_records} records lie in classes that miss too many of "
        "their witnesses however they are merged here.",
        remedy=("Allow more, or wait" if may_suppress else "Allow to leave records out, or wait")
        + WAIT.removeprefix("Wait"),
    )


def _coarsening(
    table: NDArray[np.int64],
    terms: Terms,
    loss: HullLoss,
    certificate: AnyCertificate,
    price: float = USUAL,
) -> Coarsening:
    is_alone = certificate.grouping.n_classes == terms.n_classes and not certificate.suppressed.any()
    alone = certificate if is_alone else certify(table, terms)
    sizes = np.bincount(certificate.grouping.class_of)
    is_out = certificate.suppressed[certificate.grouping.class_of] & table.any(axis=1)
    left_out = float(loss.mass[is_out].sum())
    ncp = loss.ncp(certificate.grouping, certificate.suppressed)
    return Coarsening(
        certificate,
        n_failing=int(alone.fails.sum()),
        n_merged=int(sizes[sizes > 1].sum()),
        ncp=ncp,
        loss=ncp * (1.0 - left_out) + price * left_out,
    )


def unmergeable(counts: NDArray[np.int64], terms: Terms) -> NDArray[np.bool_]:
    """Base classes that no union can satisfy: the whole table misses more of their witnesses than allowed.

    Records in such classes can only be left out, which may take values from the table, and so on: computed
    until nothing changes. The union of all other base classes with a record satisfies every one of them.
    (That the class of all of Q fails says less: it may fail because of a class
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
        found = np.any(
            [
                (part.membership & absent[own]).sum(axis=1) > part.allowances
                for own, part in zip(terms.columns, terms.parts, strict=True)
            ],
            axis=0,
        )
        if not (found & ~out).any():
            return out
        out |= found


def coarsen_boxes(
    counts: ArrayLike,
    terms: Terms,
    loss: HullLoss,
    *,
    price: float = NEVER,
    reserve: Reserve | None = None,
) -> AnyCertificate:
    """Merges failing classes with the partner that costs least loss for what is gained, again and again.

    The hulls of published classes stay disjoint: everything that the hull of a union touches joins it, so
    that boxes stay boxes and labels tell classes apart. Then every box is divided again where that costs
    less, and what is cheaper to leave out is left out.

    Args:
        counts: The owner's records by base class and sensitive value, R x |S|.
        terms: What the plan asks.
        loss: Where base classes lie; they must not overlap.
        price: What leaving out everything would cost.
        reserve: What must be left for owners who follow.

    Returns:
        The certificate of the unions; it holds.
    """
    table = terms.check_counts(counts)
    _check_fits(terms, loss)
    order = _near_order(loss)
    if reserve is not None:
        reserve = replace(reserve, expected=reserve.expected[order])
    near = HullLoss(loss.lows[order], loss.highs[order], loss.sizes, loss.mass[order])
    found = []
    for is_out, group_of in _merged(table[order], terms.taken(order), near, price, reserve):
        group_of[order], is_out[order] = group_of.copy(), is_out.copy()
        _, firsts, numbers = np.unique(group_of, return_index=True, return_inverse=True)
        grouping = Partition(np.argsort(np.argsort(firsts))[numbers])  # numbered by their first base class
        suppressed = np.zeros(grouping.n_classes, dtype=np.bool_)
        suppressed[grouping.class_of[is_out]] = True
        found.append(certify(table, terms, grouping, suppressed))
    return min(found, key=lambda one: _coarsening(table, terms, loss, one, price).loss)


def _near_order(loss: HullLoss) -> NDArray[np.intp]:
    """Base classes along a Z-order curve: near numbers are then near places (Morton 1966)."""
    n_attributes = max(1, len(loss.sizes))
    n_bits = min(16, 62 // n_attributes)
    centres = (loss.lows + loss.highs) / (2.0 * np.maximum(1, np.array(loss.sizes) - 1))
    cells = np.minimum((centres * (1 << n_bits)).astype(np.int64), (1 << n_bits) - 1)
    code = np.zeros(loss.mass.size, dtype=np.int64)
    for bit in range(n_bits - 1, -1, -1):
        for attribute in range(len(loss.sizes)):
            code = (code << 1) | ((cells[:, attribute] >> bit) & 1)
    return np.argsort(code, kind="stable")


def _merged(
    table: NDArray[np.int64], terms: Terms, loss: HullLoss, price: float, reserve: Reserve | None
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Merges until nothing fails, divides again and regroups; whether classes are left out, and their groups.

    What costs least at a price need not: a local search may end elsewhere. So the search that leaves nothing
    out is made as well. With closeness a larger union may be further from the references in it, so that
    merging may get stuck: then the box of everything is divided besides.
    """
    from elldelta.core.box_union_kernels import weigh_box
    from elldelta.core.coarsen_kernels import lacking_of_each
    from elldelta.core.regroup_kernels import regroup

    n_records = table.sum(axis=1)
    shape = _shape(loss)
    demands = _demands(table, terms, reserve)
    lacks = np.where(n_records > 0, lacking_of_each(demands, table, demands[0].expected), 0.0)
    lengths = (shape.highs - shape.lows) @ shape.weights
    starts = [_unions(table, demands, shape, lacks)]
    if _is_near(terms):
        starts.append([np.arange(terms.n_classes, dtype=np.int64)])
    for unions in starts:
        for at_price in sorted({price, NEVER}):
            is_out = (n_records > 0) & ((lacks > 0.0) | (lengths > at_price))
            alone = shape.mass * np.where(is_out, at_price, lengths)
            group_of = np.arange(terms.n_classes, dtype=np.int64)
            for members in unions:
                parts = weigh_box(members, alone, table, demands, shape)
                for part in range(int(parts.max()) + 1):
                    group_of[members[parts == part]] = members[parts == part].min()
            regroup(group_of, alone, is_out, table, demands, shape)
            is_out &= np.bincount(group_of, minlength=terms.n_classes)[group_of] == 1
            yield is_out, group_of


def _is_near(terms: Terms) -> bool:
    """Whether closeness is asked for in any sensitive column."""
    return any(part.closeness is not None for part in terms.parts)


def _unions(
    table: NDArray[np.int64], demands: tuple[Demands, ...], shape: Shape, lacks: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """Unions of several base classes so that nothing fails that has a partner left."""
    from elldelta.core.box_union_kernels import Groups, merge_groups

    n_classes = table.shape[0]
    groups = Groups(
        alive=np.ones(n_classes, dtype=np.bool_),
        blocked=demands[0].barred.copy(),
        lows=shape.lows.copy(),
        highs=shape.highs.copy(),
        mass=shape.mass.copy(),
        counts=table.copy(),
        expected=demands[0].expected.copy(),
        n_records=table.sum(axis=1),
        excess=lacks.copy(),
        heads=np.arange(n_classes, dtype=np.int64),
        tails=np.arange(n_classes, dtype=np.int64),
        following=np.full(n_classes, -1, dtype=np.int64),
        stamps=np.zeros(n_classes, dtype=np.int64),
    )
    merge_groups(groups, demands, shape.weights)
    found = []
    for group in np.flatnonzero(groups.alive & (groups.heads != groups.tails)).tolist():
        chain = [int(groups.heads[group])]
        while (following := int(groups.following[chain[-1]])) >= 0:
            chain.append(following)
        found.append(np.sort(np.array(chain, dtype=np.int64)))
    return found


def _check_fits(terms: Terms, loss: HullLoss) -> None:
    """Refuses losses that are about other base classes than the terms."""
    if loss.mass.size != terms.n_classes:
        raise ParameterError(
            f"The plan has {terms.n_classes} base classes.", found=f"Losses are told for {loss.mass.size}."
        )


def _demands(table: NDArray[np.int64], terms: Terms, reserve: Reserve | None) -> tuple[Demands, ...]:
    """What base classes ask for every sensitive column."""
    from elldelta.core.coarsen_kernels import Demands, lacking_of_each

    barred = unmergeable(table, terms)
    demands = []
    for own, part in zip(terms.columns, terms.parts, strict=True):
        padded = np.zeros((terms.n_classes, -(-terms.n_values // 64) * 64), dtype=np.bool_)
        padded[:, own] = part.membership
        words = np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        near = part.closeness
        is_used = near is not None and near.smallest is not None
        demands.append(
            Demands(
                own.start,
                own.stop,
                words,
                part.allowances.copy(),
                barred,
                part.min_records,
                part.ell,
                np.zeros((0, 0)) if reserve is None else reserve.expected.copy(),
                np.zeros(0) if reserve is None else np.full(terms.n_classes, reserve.risk),
                0 if reserve is None else reserve.followers,
                np.zeros((0, 0)) if near is None else near.shares,
                near.used if near is not None and is_used else np.zeros((0, 0)),
                # What the search counts as close is so exactly: it stops short of the limit by more than
                # rounding errs.
                1.0 if near is None else float(near.limit) - 2.0 * near.rounding,
                1.0 if near is None else float(near.alone or near.limit) - 2.0 * near.rounding,
            )
        )
    if reserve is not None:
        # What not even the union of everything would leave to those who follow cannot be asked for.
        plain = tuple(each._replace(references=np.zeros((0, 0)), used=np.zeros((0, 0))) for each in demands)
        whole = [
            np.ascontiguousarray(np.broadcast_to(each[~barred].sum(axis=0), each.shape))
            for each in (table, reserve.expected)
        ]
        excess = np.where(barred, 0.0, lacking_of_each(plain, *whole))
        demands = [each._replace(risks=each.risks + excess * (1.0 + 1e-9)) for each in demands]
    return tuple(demands)


def _shape(loss: HullLoss) -> Shape:
    from elldelta.core.coarsen_kernels import Shape

    # A class without mass still has a length: a trace of mass makes short unions win where nothing else does.
    mass = loss.mass + 1e-6 / loss.mass.size
    return Shape(loss.lows.copy(), loss.highs.copy(), loss.weights, mass)
