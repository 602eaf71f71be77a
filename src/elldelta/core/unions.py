"""Which base classes to publish together: the search for unions that pass and lose little.

Whether a union is safe is not a matter of search: what is returned is certified, from the counts that are
published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import Certificate, CertificateTerms, certify
from elldelta.core.grouping import grouping_from_merged
from elldelta.core.hull_loss import HullLoss
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.coarsen_kernels import Demands, Records, Shape

WINDOW = 64
"""Runs of up to so many occupied base classes are all tried."""

MOST_MEMBERS = 256
"""Larger groups are left as merging made them; looking for members that can leave takes cubic time."""


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
    check_fits(terms, loss)
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
            union touches joins it, so that boxes stay boxes and labels tell classes apart; boxes that turn
            out larger than they need to be are cut again. Otherwise classes without a record never join, and
            members that a group turns out not to need leave it again.

    Returns:
        The certificate of the unions; it holds. It leaves out only records of classes that cannot be merged.
    """
    table = terms.check_counts(counts)
    check_fits(terms, loss)
    order = _near_order(loss)
    merged, is_out = _merge(
        table[order],
        CertificateTerms(
            terms.membership[order], terms.allowances[order], terms.ell, terms.releases, terms.min_records
        ),
        HullLoss(loss.lows[order], loss.highs[order], loss.sizes, loss.mass[order]),
        boxes=boxes,
    )
    grouping = grouping_from_merged([order[members].tolist() for members in merged], terms.n_classes)
    suppressed = np.zeros(grouping.n_classes, dtype=np.bool_)
    suppressed[grouping.class_of[order[is_out]]] = True
    return certify(table, terms, grouping, suppressed)


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


def _merge(
    table: NDArray[np.int64], terms: CertificateTerms, loss: HullLoss, *, boxes: bool
) -> tuple[list[NDArray[np.intp]], NDArray[np.bool_]]:
    """Merges until nothing fails; returns the merged classes, and a member of each class to leave out."""
    from elldelta.core.merge_kernels import Groups, merge_groups, release_members

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
    is_out = barred & (n_records > 0)
    merged: list[NDArray[np.intp]] = []
    for group in np.flatnonzero(groups.alive & (groups.heads != groups.tails)).tolist():
        chain = [int(groups.heads[group])]
        while (following := int(groups.following[chain[-1]])) >= 0:
            chain.append(following)
        members = np.sort(chain)
        if boxes and not stuck[group]:
            merged.extend(part for part in _cut_again(members, table, terms, shape) if part.size > 1)
        else:
            merged.append(members)
    is_out[groups.heads[stuck]] = True
    return merged, is_out


def _cut_again(
    members: NDArray[np.intp], table: NDArray[np.int64], terms: CertificateTerms, shape: Shape
) -> list[NDArray[np.intp]]:
    """Cuts a box that passes into smaller ones that pass too, where most loss is removed; as long as it can.

    What joined only because the hull touched it is often not needed, and merging looks one step ahead only.
    """
    pending, done = [members], []
    while pending:
        box = pending.pop()
        best: tuple[float, NDArray[np.bool_]] | None = None
        for attribute in range(shape.weights.size if box.size > 1 else 0):
            for place in np.unique(shape.highs[box, attribute])[:-1].tolist():
                is_below = shape.highs[box, attribute] <= place
                if (shape.lows[box[~is_below], attribute] <= place).any():
                    continue  # goes through a base class
                sides = box[is_below], box[~is_below]
                if all(_passes(side, table, terms) for side in sides):
                    left = sum(_loss(side, shape) for side in sides)
                    if best is None or left < best[0]:
                        best = left, is_below
        if best is None:
            done.append(box)
        else:
            pending.extend((box[best[1]], box[~best[1]]))
    return done


def _passes(members: NDArray[np.intp], table: NDArray[np.int64], terms: CertificateTerms) -> bool:
    shown = table[members].sum(axis=0)
    missed = (terms.membership[members] & (shown < terms.min_records)).sum(axis=1)
    return not shown.any() or bool((missed <= terms.allowances[members]).all())


def _loss(members: NDArray[np.intp], shape: Shape) -> float:
    lengths = shape.highs[members].max(axis=0) - shape.lows[members].min(axis=0)
    return float(shape.mass[members].sum() * (lengths @ shape.weights))


def check_fits(terms: CertificateTerms, loss: HullLoss) -> None:
    """Refuses losses that are about other base classes than the terms."""
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
