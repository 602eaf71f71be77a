"""How many sensitive values a class misses: Lemmas B and B', and the class failures of Theorems C and D'.

For a class c, a set A of values and N records, `miss` is the number of values of A without a record in c.
All functions return upper bounds, rounded up, with a relative accuracy of about 1e-9 down to 1e-300. The
statements and proofs are in `docs/theory/sharper.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_ell, check_releases, check_whole
from elldelta.core.mass_table import SparseRows, take_rows, to_dense, with_floats
from elldelta.core.witnesses import Witnesses
from elldelta.errors import DistributionError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.mass_table import MassTable

POISSON_SHIFTS = (1.0, 1.75, 2.5, 3.25)
"""The z tried in Lemma B, lambda = N - z sqrt(N). Every z is valid; the best is flat between these."""

FEWEST_FOR_POISSON = 30
"""Below so many records Lemma B is not tried: it never wins there, and would not fall steadily with N."""

FEW_CLASSES = 256
"""Up to so many classes each may choose its own lambda."""


@dataclass(frozen=True, eq=False)
class ClassFailures:
    """Failure bounds of the classes of one partition.

    Attributes:
        failures_upper: One bound per class, read-only, not capped at 1. In a certifiable plan it is the
            chance that *one* release misses more than the allowance; otherwise it is the chance that the
            *linkage* of all releases shows fewer than ell values in this class.
        witnesses: The witness sets for which the bounds hold.
        peaks: The largest P(c, s) of each class, read-only; nothing has been subtracted from it.
    """

    failures_upper: NDArray[np.float64]
    witnesses: Witnesses
    peaks: NDArray[np.float64]


def missing_tail_upper(cells: ArrayLike, n_records: int, allowance: int) -> float:
    """Upper bound on Pr[miss > allowance]: the smaller of Lemmas B and B'.

    Args:
        cells: P(c, s) for the values s of A; they need not sum to 1.
        n_records: N.
        allowance: b, how many values may be missing.

    >>> bound = missing_tail_upper([0.5, 0.25, 0.25], 10, 0)   # by inclusion and exclusion: 0.11258
    >>> 0.112 < bound < 0.114
    True
    """
    return min(lemma_b_upper(cells, n_records, allowance), lemma_b_prime_upper(cells, n_records, allowance))


def lemma_b_prime_upper(cells: ArrayLike, n_records: int, allowance: int) -> float:
    """Lemma B': min over k <= b of E(W - k)^+ / (b + 1 - k), with chances (1 - P)^N in W. Errs upwards."""
    return _tail_upper(cells, n_records, allowance, poissonized=False)


def lemma_b_upper(cells: ArrayLike, n_records: int, allowance: int) -> float:
    """Lemma B: Pr[W > b] / Pr[Z <= N], with chances exp(-lambda P) in W. Errs upwards."""
    return _tail_upper(cells, n_records, allowance, poissonized=True)


def class_failures_upper(
    cells: MassTable,
    ell: int,
    n_records: int,
    releases: int = 1,
    *,
    total: float = 1.0,
    certifiable: bool = False,
    shared_records_upper: int | None = None,
    deficit: float = 0.0,
) -> ClassFailures:
    """Theorem C (any dependence between releases), or the smaller of C and D' with `shared_records_upper`.

    For every class the witness set is the best prefix of the values ranked by P(c, s). Errs upwards.

    Args:
        cells: Mass of every (class, value) cell, R x |S|, dense or sparse: counts or probabilities.
        ell: How many values must survive the linkage.
        n_records: N, the fewest records of any release.
        releases: t, how many releases on these classes are linked.
        total: What turns a mass into a probability: P = mass / total.
        certifiable: One allowance for all releases, so that every owner can check its own (Theorem E); the
            bounds are then per release.
        shared_records_upper: U. Says that at most U records of each release are shared with other releases,
            whatever their values are, and that all other records are independent across releases. Leave it
            at None unless that is known; nothing checks it.
        deficit: Subtracted from every P(c, s), down to 0 (the cell-by-cell answer to an error in P).
    """
    cells = _checked_cells(cells)
    ell = check_ell(ell, cells.shape[1])
    releases = check_releases(releases)
    n_records = check_whole("the number of records", n_records)
    n_apart = records_apart(n_records, shared_records_upper)
    from elldelta.core import occupancy_kernels

    n_classes, n_values = cells.shape

    def evaluate(some: MassTable, poisson: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
        found: tuple[NDArray[Any], ...] = occupancy_kernels.class_failures(
            some, 1.0 / total, deficit, float(n_records), n_apart, poisson, ell, releases, certifiable
        )
        return found

    poisson = poisson_rates(n_records, n_apart, releases)
    if n_classes > FEW_CLASSES and len(poisson):
        # Any lambda is valid, so the one that is best for a sample of the classes serves them all.
        sample = take_rows(cells, np.arange(0, n_classes, -(-n_classes // FEW_CLASSES)))
        sums = [float(evaluate(sample, poisson[row : row + 1])[0].sum()) for row in range(len(poisson))]
        best = int(np.argmin(sums))
        poisson = poisson[best : best + 1]
    failures, lengths, witnesses, largest = evaluate(cells, poisson)
    failures.setflags(write=False)
    peaks = largest / total
    peaks.setflags(write=False)
    # A class that cannot succeed (fewer than ell possible values) has an infinite bound and no witnesses.
    return ClassFailures(failures, Witnesses(witnesses, lengths, n_values, ell, releases), peaks)


def records_apart(n_records: int, shared_records_upper: int | None) -> float:
    """N - U, or -1 when nothing is assumed."""
    if shared_records_upper is None:
        return -1.0
    if isinstance(shared_records_upper, bool) or not 0 <= shared_records_upper <= n_records:
        raise ParameterError(
            f"The shared records must be a whole number from 0 to {n_records}, the records of a release.",
            found=f"It is {shared_records_upper}.",
        )
    return float(n_records - int(shared_records_upper))


def poisson_rates(n_records: float, n_apart: float, releases: int) -> NDArray[np.float64]:
    """Rows (lambda, 1 / Pr[Z <= N], and the same for the records apart, all releases) for Lemma B."""
    from scipy.special import pdtr

    rows = []
    for shift in POISSON_SHIFTS:
        if n_records < FEWEST_FOR_POISSON or 0.0 <= n_apart < FEWEST_FOR_POISSON:
            break
        rate = n_records - shift * n_records**0.5
        rate_apart = n_apart - shift * n_apart**0.5 if n_apart >= 0.0 else 0.0
        # The library's relative error is far below 1e-9; dividing by less is the safe side.
        slack = 1.0 / (float(pdtr(n_records, rate)) * (1.0 - 1e-9))
        slack_apart = 1.0
        if n_apart >= 0.0:
            slack_apart = (1.0 / (float(pdtr(n_apart, rate_apart)) * (1.0 - 1e-9))) ** releases
        rows.append((rate, slack, rate_apart, slack_apart))
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _tail_upper(cells: ArrayLike, n_records: int, allowance: int, *, poissonized: bool) -> float:
    row = to_dense(_checked_cells(np.atleast_2d(np.asarray(cells, dtype=np.float64))))
    n_records = check_whole("the number of records", n_records)
    if isinstance(allowance, bool) or int(allowance) != allowance or allowance < 0:
        raise ParameterError("The allowance must be a whole number, 0 or more.", found=f"It is {allowance}.")
    n_values = row.shape[1]
    if allowance >= n_values:
        return 0.0
    from elldelta.core import occupancy_kernels as kernels

    order = np.arange(n_values, dtype=np.int32)
    missing = np.ones(n_values, dtype=np.float64)
    tails = np.empty(n_values + 3, dtype=np.float64)
    kernels.rank(row[0], order)
    n_cells = kernels.missing_chances(row[0], order, 1.0, 0.0, float(n_records), missing)
    # A value that cannot occur is missing for certain: it uses up one of the allowance.
    ell = n_values - int(allowance)
    if ell > n_cells:
        return 1.0
    bounds = [1.0]
    if not poissonized:
        bounds.append(kernels.prefix_bound(missing, n_cells, n_cells - ell, False, tails))
    else:
        for rate, slack, _, _ in poisson_rates(n_records, -1.0, 1):
            kernels.poisson_chances(row[0], order, 1.0, 0.0, rate, n_cells, missing)
            bounds.append(slack * kernels.prefix_bound(missing, n_cells, n_cells - ell, True, tails))
    return min(bounds)


def _checked_cells(cells: MassTable) -> MassTable:
    if not isinstance(cells, SparseRows):
        cells = np.ascontiguousarray(cells)
        if cells.ndim != 2 or cells.size == 0 or cells.dtype.kind not in "if":
            raise DistributionError(
                "Cells must be a table of numbers with one row per class and one column per value.",
                found=f"Shape {cells.shape} of {cells.dtype}.",
            )
        if not (np.isfinite(cells).all() and (cells >= 0).all()):
            raise DistributionError("Cells must be finite and not negative.", found="At least one is not.")
    return with_floats(cells)  # one compiled version of each form is enough here
