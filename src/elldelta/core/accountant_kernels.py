"""Compiled inner loop of the accountant: the failure of one linkage class for every ell at once."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.kernels import compiled, one_more
from elldelta.core.occupancy_kernels import ROUND_UP, TINY, missing_chances, poisson_chances, rank

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def spread(
    tails: NDArray[np.float64],
    releases: NDArray[np.int64],
    length: int,
    given: NDArray[np.int64],
    parts: NDArray[np.float64],
) -> None:
    """Spreads 0, 1, 2, ... units over the releases so that the sum of E(W_j - k_j)^+ falls fastest.

    `tails[j, k]` is E(W_j - k)^+ of every release in group j. After K units, `parts[j, K]` is what group j
    contributes to the sum. The terms are convex in k, so taking the largest fall each time is optimal; any
    other spread would be valid as well, only larger.
    """
    n_groups = releases.size
    given[:] = 0
    for units in range(length):
        if units:
            best_fall, best_group = -1.0, 0
            for group in range(n_groups):
                k = given[group] // releases[group]
                fall = tails[group, k] - tails[group, k + 1]
                if fall > best_fall:
                    best_fall, best_group = fall, group
            given[best_group] += 1
        for group in range(n_groups):
            k = given[group] // releases[group]
            extra = given[group] - k * releases[group]
            parts[group, units] = (releases[group] - extra) * tails[group, k] + extra * tails[group, k + 1]


@compiled
def improve(
    missing: NDArray[np.float64],
    n_cells: int,
    releases: NDArray[np.int64],
    tails: NDArray[np.float64],
    given: NDArray[np.int64],
    parts: NDArray[np.float64],
    best: NDArray[np.float64],
) -> None:
    """Lowers `best[ell - 1]` to the bound of every prefix of one order of the values, for every ell.

    `missing[j, i]` is the chance that a release of group j misses the i-th value. For a prefix of length a
    and spare = a - ell, Theorem C is: min over K <= spare of (sum after K units) / (spare + 1 - K).
    """
    n_groups = releases.size
    for group in range(n_groups):
        tails[group, 0] = 1.0  # shifted by one: tails[j, 1 + k] is T_k, tails[j, 0] is T_{-1} = E W + 1
        for k in range(1, n_cells + 2):
            tails[group, k] = 0.0
    for length in range(1, n_cells + 1):
        for group in range(n_groups):
            q = missing[group, length - 1]
            one_more(tails[group], length, q)
            tails[group, 0] += q
        spread(tails[:, 1:], releases, length, given, parts)
        units = 0
        for spare in range(length):
            current = 0.0
            for group in range(n_groups):
                current += parts[group, units]
            while units < spare:
                following = 0.0
                for group in range(n_groups):
                    following += parts[group, units + 1]
                if following * (spare + 1 - units) > current * (spare - units):
                    break
                units += 1
                current = following
            bound = current / (spare + 1 - units) * ROUND_UP + TINY
            ell = length - spare
            best[ell - 1] = min(best[ell - 1], bound)


@compiled
def improve_poissonized(
    missing: NDArray[np.float64],
    n_cells: int,
    releases: int,
    slack: float,
    tails: NDArray[np.float64],
    best: NDArray[np.float64],
) -> None:
    """Lowers `best[ell - 1]` by Lemma B, for releases that are all alike; the spare is split evenly."""
    tails[0] = 1.0  # tails[1 + b] is Pr[W > b]
    for b in range(1, n_cells + 2):
        tails[b] = 0.0
    for length in range(1, n_cells + 1):
        one_more(tails, length, missing[length - 1])
        for spare in range(length):
            b = spare // releases
            extra = spare - b * releases
            bound = (releases - extra) * tails[1 + b] + extra * tails[2 + b]
            bound = bound * slack * ROUND_UP + TINY
            ell = length - spare
            best[ell - 1] = min(best[ell - 1], bound)


@compiled
def linkage_failures(
    cells: NDArray[np.float64],
    first_cell: NDArray[np.int64],
    tuples: NDArray[np.int64],
    n_records: NDArray[np.float64],
    releases: NDArray[np.int64],
    poisson: NDArray[np.float64],
    failures: NDArray[np.float64],
) -> None:
    """For every linkage class (a row of `tuples`: its class in each group) and every ell, the failure bound.

    Witness orders tried: by min_j N_j P(c_j, s), and by each group's own P(c_j, s). `failures[i, ell - 1]` is
    the bound. `poisson` (rows: lambda and 1 / Pr[Z <= N]) is used only when there is one group.
    """
    n_tuples, n_groups = tuples.shape
    n_values = cells.shape[1]
    order = np.arange(n_values).astype(np.int32)
    scores = np.empty(n_values, dtype=np.float64)
    possible = np.empty(n_values, dtype=np.bool_)
    missing = np.empty((n_groups, n_values), dtype=np.float64)
    tails = np.empty((n_groups, n_values + 3), dtype=np.float64)
    parts = np.empty((n_groups, n_values + 1), dtype=np.float64)
    given = np.empty(n_groups, dtype=np.int64)
    for i in range(n_tuples):
        failures[i, :] = inf
        n_possible = 0
        for value in range(n_values):
            possible[value] = True
            for group in range(n_groups):
                if cells[first_cell[group] + tuples[i, group], value] <= 0.0:
                    possible[value] = False
            n_possible += possible[value]
        for way in range(n_groups + 1 if n_groups > 1 else 1):
            for value in range(n_values):
                scores[value] = -1.0
                if possible[value]:
                    if way < n_groups:
                        scores[value] = cells[first_cell[way] + tuples[i, way], value]
                    else:
                        scores[value] = inf
                        for group in range(n_groups):
                            cell = cells[first_cell[group] + tuples[i, group], value]
                            scores[value] = min(scores[value], n_records[group] * cell)
            rank(scores, order, 0.0)
            for group in range(n_groups):
                row = cells[first_cell[group] + tuples[i, group]]
                missing_chances(row, order[:n_possible], 1.0, n_records[group], missing[group])
            improve(missing, n_possible, releases, tails, given, parts, failures[i])
        if n_groups == 1:
            row = cells[first_cell[0] + tuples[i, 0]]
            for z in range(poisson.shape[0]):
                poisson_chances(row, order, 1.0, poisson[z, 0], n_possible, missing[0])
                improve_poissonized(missing[0], n_possible, releases[0], poisson[z, 1], tails[0], failures[i])
