"""How sure linked releases make somebody of one value: by shares of linked records, and by Bayes' rule.

Somebody may be in some of the releases only, so every group of them is asked. Linked shares are g = m / M
with m(s) = min_j n_j(s) over the group and M = sum m. The distance from a reference distribution is total
variation, the largest |g(B) - pi(B)| over all sets B of values.

Somebody who knows the distribution P can do more than count: a value that a class shows more often than P
leads one to expect is more likely to be the person's. For releases whose other records are independent draws
from P, Bayes' rule gives

    posterior(s) ∝ P(s | q) · Π_j n_j(c_j, s) / P(c_j, s).

Why: without the person, the counts of a class are multinomial; with a person of value s, one of the n_j(s)
records is theirs, and the probability of the rest differs from that of the whole by n_j(s) / P(c_j, s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.closeness import linked_excess
from elldelta.core.distribution import frozen
from elldelta.errors import DistributionError, ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.linkage import ReleasedCounts

    _Floats = NDArray[np.float64]
    _Tables = NDArray[np.int64]

MOST_COUNTS = 2_000_000_000
"""Counts that a search through all groups may touch."""

_COUNTS_AT_ONCE = 1 << 18
_NEAR = 1e-9

MOST_PROBABILITIES = 200_000_000
"""Probabilities that a search through all groups may compute."""

_LEAST = 1e-12
"""What a reference that excludes a value is taken to say of it, because a release may show it."""


@dataclass(frozen=True)
class Gain:
    """How far linking leads about one value, in the worst place and the worst group of releases.

    Attributes:
        surest: The largest share, or probability, of one value.
        before: Of the value that gains the most, what the reference says.
        after: Of the same value, what linking makes of it.
        is_exact: Whether some group attains these; if not, no group exceeds them.
    """

    surest: float
    before: float
    after: float
    is_exact: bool = True

    @property
    def gain(self) -> float:
        """How much more the value has than the reference says."""
        return self.after - self.before


class LargestGain:
    """The largest share and the largest gain among tables that are shown to it one after the other."""

    def __init__(self) -> None:
        self.surest = 0.0
        self.before, self.after = 0.0, -1.0

    def take(self, after: _Floats, before: _Floats) -> None:
        """Looks at shares of any shape, and at what the reference says of each; 0 is nobody's."""
        gain = np.where(after > 0.0, after - before, -1.0)
        if gain.size and gain.max() > self.after - self.before:
            place = np.unravel_index(int(gain.argmax()), gain.shape)
            self.before, self.after = float(before[place]), float(after[place])
        self.surest = max(self.surest, float(after.max(initial=0.0)))

    def found(self, *, is_exact: bool = True) -> Gain | None:
        """What was found; None if nobody was shown."""
        return Gain(self.surest, self.before, self.after, is_exact) if self.surest > 0.0 else None


def gain_in_shares(
    releases: Sequence[ReleasedCounts], reference_of: ArrayLike, weights: ArrayLike
) -> Gain | None:
    """The largest share of one value that any group of releases leaves to anybody, and the largest gain.

    Exact, and None if there is nobody. Let a group leave k records of value s. Every release in it shows at
    least k of s; adding all others that do changes nothing about s and can only take other values away. So
    for each s it is enough to ask the groups of all releases that show s at least k times: as many as there
    are releases, not 2^t - 1. What the reference says of s does not depend on the group.

    Args:
        releases: Releases over the same cells and values.
        reference_of: The reference of each cell.
        weights: References x values: numbers that are proportional to the reference distribution.
    """
    before_of = reference_shares(weights)
    of, best = np.asarray(reference_of, dtype=np.int64), LargestGain()
    for tables, cells in parts_of(releases):
        n_releases, _, n_values = tables.shape
        before, linked = before_of[of[cells]], _linked(tables)
        for counts in (linked, *tables):
            best.take(counts / np.maximum(counts.sum(axis=1), 1)[:, None], before)
        # No group leaves fewer of the other values than all releases together.
        highest = tables.max(axis=0)
        others = linked.sum(axis=1, keepdims=True) - linked
        bound = np.where(highest > 0, highest / np.maximum(highest + others, 1), 0.0)
        places, values = np.nonzero((bound > best.surest) | (bound - before > best.after - best.before))
        step = max(1, _COUNTS_AT_ONCE // (n_releases * n_values))
        for start in range(0, len(places), step):
            place, value = places[start : start + step], values[start : start + step]
            shown = tables[:, place].swapaxes(0, 1)  # pairs x releases x values
            counts_of = tables[:, place, value].T
            order = np.argsort(-counts_of, axis=1, kind="stable")
            counts_of = np.take_along_axis(counts_of, order, axis=1)
            left = np.minimum.accumulate(np.take_along_axis(shown, order[:, :, None], axis=1), axis=1)
            shares = counts_of / np.maximum(left.sum(axis=2), 1)
            best.take(shares, np.broadcast_to(before[place, value][:, None], shares.shape))
    return best.found()


def reference_shares(weights: ArrayLike) -> _Floats:
    """References as distributions; one without any record says nothing of any value."""
    table = np.asarray(weights, dtype=np.float64)
    total = table.sum(axis=1, keepdims=True)
    shares: _Floats = table / np.where(total > 0.0, total, 1.0)
    return shares


@dataclass(frozen=True, eq=False)
class Distances:
    """How far from a reference the shares of linked records can be, cell by cell. NaN where nobody can be.

    Attributes:
        bounds: E of all releases that hold a record: no group is further away (Theorem G), read-only.
        distances: The largest total variation of the groups that were asked, read-only.
        groups: Cells x releases: the group that attains it, read-only.
        above: Whether some group is further away than allowed, decided with exact fractions; where not every
            group was asked, whether the bound is.
        is_complete: Whether every group was asked that could be further away than allowed, or the furthest.
    """

    bounds: NDArray[np.float64]
    distances: NDArray[np.float64]
    groups: NDArray[np.bool_]
    above: NDArray[np.bool_]
    is_complete: bool


def furthest_in_any_group(
    releases: Sequence[ReleasedCounts],
    reference_of: ArrayLike,
    weights: ArrayLike,
    allowed: Fraction,
    *,
    member_of: int | None = None,
    most_work: int = MOST_COUNTS,
) -> Distances:
    """The largest distance between linked shares and a reference, over every group of releases.

    For every cell the bound E of Theorem G is computed, which covers all groups at once, and the distance of
    some groups. Only where the bound is larger than what is allowed, or than what was found, all groups are
    asked. If that is too much work, the bound decides: it errs on the safe side.

    Args:
        releases: Releases over the same cells and values.
        reference_of: The reference of each cell.
        weights: References x values: whole numbers that are proportional to the reference distribution.
        allowed: T.
        member_of: Look only at people who are in this release, and so at groups that contain it.
        most_work: Counts that the search through all groups may touch.
    """
    table, of = np.asarray(weights, dtype=np.int64), np.asarray(reference_of, dtype=np.int64)
    if (table < 0).any() or (table.sum(axis=1) == 0).any() or table.shape[1] != releases[0].counts.shape[1]:
        raise ParameterError("A reference needs a weight for every value, and one above 0.")
    n_cells = releases[0].partition.n_quasi_identifiers
    bounds, distances = np.full(n_cells, np.nan), np.full(n_cells, np.nan)
    groups, above = np.zeros((n_cells, len(releases)), dtype=bool), np.zeros(n_cells, dtype=bool)
    found = _Found(distances, groups, above, allowed)
    for tables, cells in parts_of(releases):
        reference = table[of[cells]]
        there = tables.sum(axis=2) > 0
        is_asked = there.any(axis=0) if member_of is None else there[member_of]
        bounds[cells] = np.where(is_asked, _excess(tables, there, reference), np.nan)
        shown = np.where(is_asked[:, None], tables, 0)
        found.take(cells, _linked(shown), reference, there.T)
        for j in range(len(releases)) if member_of is None else (member_of,):
            found.take(cells, shown[j], reference, np.arange(len(releases)) == j)
    limit = min(float(allowed), float(np.nanmax(distances, initial=0.0)))
    candidates = np.flatnonzero(bounds > limit - _NEAR)
    n_groups = 2 ** min(len(releases), 62) - 1
    is_complete = n_groups * candidates.size * table.shape[1] <= most_work
    if is_complete:
        for tables, cells in parts_of(releases, candidates):
            for members, linked in _all_groups(tables, member_of):
                found.take(cells, linked, table[of[cells]], np.isin(np.arange(len(releases)), members))
    else:
        above |= _bound_exceeds(releases, of, table, bounds, allowed)
    return Distances(
        frozen(bounds, np.float64),
        frozen(distances, np.float64),
        frozen(groups, np.bool_),
        frozen(above, np.bool_),
        is_complete,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """The furthest group of each cell so far; its arrays are filled."""

    distances: _Floats
    groups: NDArray[np.bool_]
    above: NDArray[np.bool_]
    allowed: Fraction

    def take(
        self, cells: NDArray[np.intp], linked: _Tables, weights: _Tables, group: NDArray[np.bool_]
    ) -> None:
        """Compares what one group leaves in some cells with their references."""
        n_linked = linked.sum(axis=1)
        with np.errstate(invalid="ignore"):
            gain = weights / weights.sum(axis=1)[:, None] - linked / n_linked[:, None]
        distance = np.where(n_linked > 0, np.maximum(gain, 0.0).sum(axis=1), np.nan)
        is_above = distance > float(self.allowed) + _NEAR
        near = np.flatnonzero(np.abs(distance - float(self.allowed)) <= _NEAR)
        if near.size:  # floating point cannot tell; whole numbers without a limit can
            reference, left = weights[near].astype(object), linked[near].astype(object)
            n, total = left.sum(axis=1), reference.sum(axis=1)
            excess = np.maximum(reference * n[:, None] - left * total[:, None], 0).sum(axis=1)
            is_above[near] = excess * self.allowed.denominator > self.allowed.numerator * n * total
        self.above[cells] |= is_above
        further = (n_linked > 0) & ~(distance <= self.distances[cells])
        self.distances[cells[further]] = distance[further]
        self.groups[cells[further]] = np.broadcast_to(group, self.groups[cells].shape)[further]


def parts_of(
    releases: Sequence[ReleasedCounts], cells: NDArray[np.intp] | None = None, *, numbers_each: int = 0
) -> Iterator[tuple[_Tables, NDArray[np.intp]]]:
    """What the releases show in some cells at a time: releases x cells x values."""
    asked = np.arange(releases[0].partition.n_quasi_identifiers) if cells is None else cells
    step = max(1, _COUNTS_AT_ONCE // max(numbers_each, len(releases) * releases[0].counts.shape[1]))
    for start in range(0, len(asked), step):
        part = asked[start : start + step]
        yield np.stack([item.counts[item.partition.class_of[part]] for item in releases]), part


def _linked(tables: _Tables) -> _Tables:
    """The min-counts of all releases that hold a record in the cell."""
    there = tables.any(axis=2, keepdims=True)
    least = np.where(there, tables, np.iinfo(np.int64).max).min(axis=0)
    return np.where(there.any(axis=0), least, 0)


def _excess(tables: _Tables, there: NDArray[np.bool_], weights: _Tables) -> _Floats:
    """E of every cell, in floating point."""
    with np.errstate(invalid="ignore"):
        shares = np.where(there[:, :, None], tables / tables.sum(axis=2)[:, :, None], np.inf).min(axis=0)
        excess: _Floats = np.maximum(weights / weights.sum(axis=1)[:, None] - shares, 0.0).sum(axis=1)
    return excess


def _bound_exceeds(
    releases: Sequence[ReleasedCounts], of: _Tables, table: _Tables, bounds: _Floats, allowed: Fraction
) -> NDArray[np.bool_]:
    """Whether E is above what is allowed, exactly."""
    above: NDArray[np.bool_] = bounds > float(allowed) + _NEAR
    for cell in np.flatnonzero(np.abs(bounds - float(allowed)) <= _NEAR).tolist():
        rows = [item.counts[item.partition.class_of[cell]].tolist() for item in releases]
        above[cell] = linked_excess(table[of[cell]].tolist(), rows) > allowed
    return above


def _all_groups(tables: _Tables, member_of: int | None) -> Iterator[tuple[list[int], _Tables]]:
    """Every group of releases, or of those with one of them, and its min-counts; one minimum per group."""
    others = [j for j in range(len(tables)) if j != member_of]
    start = ([], None) if member_of is None else ([member_of], tables[member_of])
    waiting: list[tuple[list[int], _Tables | None, int]] = [(*start, 0)]
    while waiting:
        members, linked, place = waiting.pop()
        if linked is not None:
            yield members, linked
        for index in range(place, len(others)):
            table = tables[others[index]]
            both = table if linked is None else np.minimum(linked, table)
            waiting.append(([*members, others[index]], both, index + 1))


def posterior(
    prior: NDArray[np.float64],
    counts: Sequence[NDArray[np.int64]],
    masses: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """The probability of each value, for somebody who is in all releases.

    Args:
        prior: P(s | q) for each cell: cells x values. Rows need not sum to 1.
        counts: Per release n_j(c_j, s), in the same cells.
        masses: Per release P(c_j, s), or anything proportional to it within a row.

    Returns:
        Cells x values; rows sum to 1, or are 0 where no value is possible.
    """
    for table, mass in zip(counts, masses, strict=True):
        if ((table > 0) & ~(mass > 0)).any():
            raise DistributionError(
                "A release shows a value that has probability 0.",
                found=f"{counted(int(((table > 0) & ~(mass > 0)).sum()), 'cell')}.",
                remedy="Use a distribution that gives every value that occurs a positive probability.",
            )
    possible = prior > 0
    for table in counts:
        possible = possible & (table > 0)
    # In logarithms: a product over many releases leaves the range of floating point.
    with np.errstate(divide="ignore"):
        log_weight = np.where(possible, np.log(np.where(possible, prior, 1.0)), -np.inf)
        for table, mass in zip(counts, masses, strict=True):
            log_weight += np.log(np.where(possible, table, 1)) - np.log(np.where(possible, mass, 1.0))
    return _normalized(log_weight)


def _normalized(log_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of logarithms as distributions; a row without any weight is 0."""
    highest = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(highest), highest, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return weight / np.where(total > 0, total, 1.0)


def gain_by_bayes(
    releases: Sequence[ReleasedCounts],
    reference_of: ArrayLike,
    weights: ArrayLike,
    masses: Sequence[NDArray[np.float64]],
    *,
    most_work: int = MOST_PROBABILITIES,
) -> Gain | None:
    """The largest probability of one value in any group of releases, and the largest gain; None for nobody.

    Every group is asked. If that is too much work, a bound takes its place, which is never smaller: against
    each other value on its own, the worst group holds the releases that speak against that one.

    Args:
        releases: Releases over the same cells and values.
        reference_of: The reference of each cell: P(s | q).
        weights: References x values: numbers that are proportional to the reference distribution.
        masses: Per release, for each of its classes, P(c_j, s) up to a factor.
        most_work: Probabilities that the search through all groups may compute.
    """
    prior_of = _positive(weights)
    expected = [_positive(table) for table in masses]
    of, best = np.asarray(reference_of, dtype=np.int64), LargestGain()
    n_cells, n_values = len(of), prior_of.shape[1]
    is_exact = (2 ** min(len(releases), 62) - 1) * n_cells * n_values <= most_work
    for tables, cells in parts_of(releases, numbers_each=0 if is_exact else n_values**2):
        prior = prior_of[of[cells]]
        masses_here = [
            mass[item.partition.class_of[cells]] for mass, item in zip(expected, releases, strict=True)
        ]
        if not is_exact:
            best.take(_bounds(prior, tables, masses_here), prior)
            continue
        with np.errstate(divide="ignore"):
            ratios = [np.log(table) - np.log(mass) for table, mass in zip(tables, masses_here, strict=True)]
        waiting = [(np.log(prior), 0)]  # every group once, from the one that lacks its last release
        while waiting:
            weight, place = waiting.pop()
            for index in range(place, len(releases)):
                with_it = weight + ratios[index]
                best.take(_uncertain(with_it), prior)
                waiting.append((with_it, index + 1))
    return best.found(is_exact=is_exact)


def _uncertain(log_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of logarithms as distributions; 1 only where no other value is possible, whatever the rounding."""
    found, several = _normalized(log_weight), np.isfinite(log_weight).sum(axis=1, keepdims=True) > 1
    return np.where(several, np.minimum(found, np.nextafter(1.0, 0.0)), found)


def smoothed(table: NDArray[np.int64], overall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Records per cell and value, with one more record per cell spread as the whole is.

    An estimate from past records gives many cells probability 0; that alone must make nobody certain.
    """
    return table + overall


def _bounds(
    prior: NDArray[np.float64], tables: NDArray[np.int64], masses: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """What the probability of each value is at most, whichever group of releases somebody is in."""
    shape = (*prior.shape, prior.shape[1])
    against = np.broadcast_to(np.log(prior)[:, None, :] - np.log(prior)[:, :, None], shape).copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        for table, mass in zip(tables, masses, strict=True):
            ratio = np.log(table) - np.log(mass)
            step = ratio[:, None, :] - ratio[:, :, None]  # of every value against each
            shows = (table > 0)[:, :, None]  # nobody with another value is in this release
            against += np.where(shows, np.minimum(step, 0.0), 0.0)
    bounds: NDArray[np.float64] = 1.0 / np.exp(against).sum(axis=2)
    return np.where(tables.any(axis=0), bounds, 0.0)


def _positive(table: ArrayLike) -> NDArray[np.float64]:
    """Rows as distributions in which no value is impossible."""
    shares = np.maximum(reference_shares(table), _LEAST)
    positive: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return positive
