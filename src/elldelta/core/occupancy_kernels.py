"""Compiled inner loops for missing-value tails.

Import this module inside the function that needs it, as with `kernels`. Everything here works on *masses*
(counts or probabilities) with a `scale` that turns a mass into a probability, adds positive terms only, and
returns bounds rounded up. Tables are dense or sparse (`elldelta.core.distribution.MassTable`); one row at a
time is written out.

The notation is that of `docs/theory/sharper.md`: q_s = (1 - P(c, s))^N is the chance that value s is missing
from class c, W is a sum of independent Bernoulli(q_s), T_k = E(W - k)^+.
"""

from __future__ import annotations

from math import exp, expm1, inf, log, log1p, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.kernels import add_row, compiled, inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable

ROUND_UP = 1.0 + 1e-9
"""Covers all rounding: a term of T_k that has not underflowed is a product of exponentials whose exponents
add up to less than 750, so its relative error is below 750 x a few 1e-16, plus 3 |S| roundings of the sum."""

TINY = 1e-306
"""Added to every bound: more than all terms together that can be lost to underflow."""

FEW_CELLS = 128
"""So few cells are ranked by counting; more are sorted."""

RARE = 0.5
"""Cells below so many times what makes a witness worth having are ranked only if it comes to them."""

NOBODY, OWNER, LEDGER = 0, 1, 2
CHECKS = {"nobody": NOBODY, "owner": OWNER, "ledger": LEDGER}
"""Who makes sure that enough values are left (`elldelta.core.occupancy.CheckedBy`), for compiled code."""

SHORT_RUN = 16
"""Cells that a sort puts in order one by one before it merges."""


@inner
def merge_ranked(cells: NDArray[Any], order: NDArray[np.int32]) -> None:
    """Fills in the indices by falling cells, ties by index: short runs by insertion, then merged."""
    n_cells = cells.size
    for start in range(0, n_cells, SHORT_RUN):
        for i in range(start, min(start + SHORT_RUN, n_cells)):
            j = i
            while j > start and cells[order[j - 1]] < cells[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    merged = np.empty(n_cells, dtype=np.int32)
    length = SHORT_RUN
    while length < n_cells:
        for start in range(0, n_cells, 2 * length):
            left, middle = start, min(start + length, n_cells)
            right, stop = middle, min(start + 2 * length, n_cells)
            for i in range(start, stop):
                if right >= stop or (left < middle and cells[order[left]] >= cells[order[right]]):
                    merged[i] = order[left]
                    left += 1
                else:
                    merged[i] = order[right]
                    right += 1
        for i in range(n_cells):  # a slice would bring code that puts two shapes into words
            order[i] = merged[i]
        length *= 2


@compiled
def rank_positive(cells: NDArray[Any], order: NDArray[np.int32]) -> None:
    """Fills in the indices by falling cells, ties by index.

    Of few cells every one counts those before it: quadratic, but without branches, and faster than a sort.
    """
    if cells.size > FEW_CELLS:
        merge_ranked(cells, order)
        return
    order[:] = -1
    for i in range(cells.size):
        cell = cells[i]
        place = 0
        for j in range(cells.size):
            place += cells[j] > cell
        while order[place] >= 0:  # an equal cell of smaller index sits there
            place += 1
        order[place] = i


@compiled
def rank(cells: NDArray[Any], order: NDArray[np.int32], least: float) -> int:
    """Rearranges `order` so that the cells above `least` come first and fall, ties by index.

    On entry `order` must hold every index once. The order of the previous class often still holds. Returns
    how many cells are in their place for certain.
    """
    n_cells = cells.size
    is_ranked = True
    for i in range(1, n_cells):
        before, after = cells[order[i - 1]], cells[order[i]]
        if before < after or (before == after and order[i - 1] > order[i]):
            is_ranked = False
            break
    if is_ranked:
        return n_cells
    n_positive = 0
    for i in range(n_cells):
        n_positive += cells[i] > least
    if n_positive == n_cells:
        rank_positive(cells, order)
        return n_cells
    # The others come last, in their order: they need no ranks.
    positive = np.empty(n_positive, dtype=cells.dtype)
    places = np.empty(n_positive, dtype=np.int32)
    ranks = np.empty(n_positive, dtype=np.int32)
    n_positive = 0
    n_ranked = positive.size
    for i in range(n_cells):
        if cells[i] > least:
            positive[n_positive] = cells[i]
            places[n_positive] = i
            n_positive += 1
        else:
            order[n_ranked] = i
            n_ranked += 1
    rank_positive(positive, ranks)
    for i in range(n_positive):
        order[i] = places[ranks[i]]
    return n_positive if least > 0.0 else n_cells


@inner
def missing_chances(
    cells: NDArray[Any],
    order: NDArray[np.int32],
    scale: float,
    n_records: float,
    missing: NDArray[np.float64],
) -> int:
    """Fills in q_s = (1 - P)^N for the positive cells in order and returns how many there are.

    A value of probability 0 is always missing; as a witness it adds one to the allowance and one to W,
    which never lowers a bound, so it is left out.
    """
    n_cells = 0
    for i in range(order.size):
        p = cells[order[i]] * scale
        if p <= 0.0:
            break
        if p < 3e-4:
            # -log(1 - p) without its terms from p^5 on: smaller, so q is on the safe side
            rate = p * (1.0 + p * (0.5 + p * (1.0 / 3.0 + p * 0.25)))
            missing[i] = exp(-n_records * rate)
        elif p < 1.0:
            missing[i] = exp(n_records * log1p(-p))
        else:
            missing[i] = 0.0
        n_cells += 1
    return n_cells


@inner
def prefix_bound(
    tails: NDArray[np.float64],
    top: int,
    share: int,
    rest: int,
    releases: int,
    best_k: int,
    poissonized: bool,
) -> tuple[float, int]:
    """The failure bound of one witness set, and the k that it was found at (`best_prefix`).

    Pooled (Theorem C): min over k of t T_k / (a - ell + 1 - t k), and the same with the whole allowance
    spread over the releases. By the owner: min over k of T_k / (b + 1 - k), b = (a - ell) / t, per release.
    Each of the releases may miss `share` witnesses, and `rest` of them one more. For convex T the quotient
    falls, then rises in k, so the search goes from the best k of the last prefix to where it rises. Stopping
    early would give a larger bound, never a wrong one.
    """
    spread = (releases - rest) * tails[top - share]
    if rest:
        spread += rest * tails[top - share - 1]
    if poissonized:
        return spread, best_k
    k = min(best_k, share)
    bound = releases * tails[top - k] / (rest + 1 + releases * (share - k))
    while k > 0:
        lower = releases * tails[top - k + 1] / (rest + 1 + releases * (share - k + 1))
        if lower >= bound:
            break
        bound = lower
        k -= 1
    if k == min(best_k, share):
        while k < share:
            lower = releases * tails[top - k - 1] / (rest + 1 + releases * (share - k - 1))
            if lower >= bound:
                break
            bound = lower
            k += 1
    if rest:
        bound = min(bound, spread)
    return bound, k


@inner
def best_prefix(
    missing: NDArray[np.float64],
    n_cells: int,
    ell: int,
    releases: int,
    by_owner: bool,
    poissonized: bool,
    enough: float,
    tails: NDArray[np.float64],
) -> tuple[float, int, int]:
    """The smallest failure bound over all witness sets that are prefixes, and the length of that prefix.

    The third number says how many cells were looked at; those behind them cannot matter if it is not all.

    `tails[i]` holds T_{top - i} and `tails[top + 1]` holds T_{-1} = E W + 1; in this direction the update
    T_k <- (1 - q) T_k + q T_{k-1} runs forward over memory, in place. With T_{-1} = 1 throughout the same
    recurrence gives the tail Pr[W > k] itself, which is what Lemma B needs (`poissonized`).

    Prefixes that cannot win are left out. No quotient is below Pr[W > b] = T_b - T_{b+1}, b = (a - ell) / t
    rounded down. And once q >= 1 / t, no longer prefix has less than half of Pr[W > b + 1]: chances rise, so
    that m more witnesses miss m / t, rounded down, or more of them with probability at least a half (the
    median of such a sum is next to its mean). What exceeds `enough` need not be the smallest.
    """
    spare = n_cells - ell
    if spare < 0:
        return inf, 0, n_cells
    top = spare // releases + 1
    for i in range(top + 1):
        tails[i] = 0.0
    tails[top + 1] = 1.0
    best, best_length, best_k = inf, 0, top
    for length in range(1, n_cells + 1):
        q = missing[length - 1]
        keep = 1.0 - q
        changed = tails[max(0, top - length + 1) : top + 2]
        for i in range(changed.size - 1):  # from 0 on, or the compiler would not take several at once
            changed[i] = keep * changed[i] + q * changed[i + 1]
        if not poissonized:
            tails[top + 1] += q
        if length < ell:
            continue
        spare = length - ell
        share = spare // releases
        rest = spare - share * releases
        if q * releases >= 1.0 and share + 2 <= top:
            surplus = tails[top - share - 1] - tails[top - share - 2]
            if 0.499 * surplus > min(best, enough):
                return best, best_length, length
        if 0.999 * (tails[top - share] - tails[top - share - 1]) > best:
            continue
        if by_owner and rest:  # one witness fewer has the same allowance
            continue
        bound, best_k = prefix_bound(
            tails, top, share, rest, 1 if by_owner else releases, best_k, poissonized
        )
        if bound < best:
            best = bound
            best_length = length
            if best == 0.0:
                return best, best_length, length
    return best, best_length, n_cells


@inner
def ledger_failure(
    cells: NDArray[Any],
    scale: float,
    n_records: float,
    ell: int,
    releases: int,
    chances: NDArray[np.float64],
) -> tuple[float, int]:
    """The chance that fewer than ell values are shown by all of t independent releases, rounded up.

    Lemma B for each release: with Poisson(lambda) records, lambda = N - 3 sqrt(N), values come independently,
    and no release has more than N records with a chance of at least (1 - exp(-9/2))^t.

    Returns:
        The bound, and how many values are possible.
    """
    rate = n_records - 3.0 * sqrt(n_records)
    chances[0] = 1.0
    chances[1:ell] = 0.0
    n_possible = 0
    for value in range(cells.size):
        p = cells[value] * scale
        if p <= 0.0:
            continue
        n_possible += 1
        if rate <= 0.0:
            continue
        missed = exp(-rate * p)  # by one release; then by some release, without losing what is small
        missed = -expm1(releases * log1p(-missed)) if missed < 1.0 else 1.0
        for n in range(ell - 1, 0, -1):
            chances[n] = missed * chances[n] + (1.0 - missed) * chances[n - 1]
        chances[0] *= missed
    bound = 0.0
    for n in range(ell):
        bound += chances[n]
    return bound / (1.0 - exp(-4.5)) ** releases * ROUND_UP + TINY, n_possible


@compiled
def class_failure(
    cells: NDArray[Any],
    order: NDArray[np.int32],
    scale: float,
    n_records: float,
    poisson: NDArray[np.float64],
    ell: int,
    releases: int,
    checked_by: int,
    enough: float,
    missing: NDArray[np.float64],
    tails: NDArray[np.float64],
) -> tuple[float, int]:
    """Failure bound of one class, rounded up, and the number of witnesses; fills in `order` as far as needed.

    Above `enough` it may be larger than need be: that is too much anyway.

    Where a ledger checks, `order` is left as it is. Each row of `poisson` holds, for one choice of lambda in
    Lemma B, lambda and 1 / Pr[Z <= N].
    """
    if checked_by == LEDGER:
        return ledger_failure(cells, scale, n_records, ell, releases, tails)
    n_modes = 1 + poisson.shape[0]
    least = 0.0
    if n_modes == 1 and releases > 1:  # rare cells hardly ever matter, and there are many of them
        least = RARE * log(releases) / (n_records * scale)
    n_ranked = rank(cells, order, least)
    n_cells = 0
    best = inf
    best_length = 0
    mode = 0
    while mode < n_modes:  # one loop, so that the compiler meets `best_prefix` once
        slack = 1.0
        if mode == 0:
            n_cells = missing_chances(cells, order[:n_ranked], scale, n_records, missing)
        else:
            slack = poisson[mode - 1, 1]
            poisson_chances(cells, order, scale, poisson[mode - 1, 0], n_cells, missing)
        bound, length, n_read = best_prefix(
            missing, n_cells, ell, releases, checked_by == OWNER, mode > 0, enough, tails
        )
        if n_read == n_ranked and n_ranked < cells.size:
            n_ranked = rank(cells, order, 0.0)
            continue
        if bound * slack < best:
            best = bound * slack
            best_length = length
        mode += 1
    return best * ROUND_UP + TINY, best_length


@inner
def poisson_chances(
    cells: NDArray[Any],
    order: NDArray[np.int32],
    scale: float,
    rate: float,
    n_cells: int,
    missing: NDArray[np.float64],
) -> None:
    """Fills in exp(-lambda P), the chance that a value is missing from Poisson(lambda) records."""
    for i in range(n_cells):
        missing[i] = exp(-rate * (cells[order[i]] * scale))


@compiled
def class_failures(
    table: MassTable,
    scale: float,
    n_records: float,
    poisson: NDArray[np.float64],
    ell: int,
    releases: int,
    checked_by: int,
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    """`class_failure` for every row of a table R x |S|.

    Returns the bounds, the numbers of witnesses (at least ell), and the witnesses class after class.
    """
    n_rows, n_values = table.shape
    sums = np.empty((1, n_values), dtype=np.float64)
    cells = sums[0]
    order = np.arange(n_values).astype(np.int32)
    missing = np.empty(n_values, dtype=np.float64)
    tails = np.empty(n_values + 3, dtype=np.float64)
    failures = np.empty(n_rows, dtype=np.float64)
    lengths = np.empty(n_rows, dtype=np.int32)
    witnesses = np.empty(n_values + n_rows * ell, dtype=np.int32)
    n_filled = 0
    for row in range(n_rows):
        cells[:] = 0.0
        add_row(table, row, sums, 0)
        failures[row], length = class_failure(
            cells,
            order,
            scale,
            n_records,
            poisson,
            ell,
            releases,
            checked_by,
            inf,
            missing,
            tails,
        )
        if checked_by == LEDGER:
            rank(cells, order, 0.0)
        length = max(length, ell)
        lengths[row] = length
        if n_filled + length > witnesses.size:
            larger = np.empty(2 * witnesses.size, dtype=np.int32)
            for i in range(n_filled):
                larger[i] = witnesses[i]
            witnesses = larger
        for i in range(length):
            witnesses[n_filled + i] = order[i]
        n_filled += length
    return failures, lengths, witnesses[:n_filled].copy()
