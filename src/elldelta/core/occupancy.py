"""How many sensitive values classes miss: the class failures of Theorems C and D', and their total.

All functions return upper bounds, rounded up, with a relative accuracy of about 1e-9 down to 1e-300. The
statements and proofs are in `docs/theory/sharper.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_ell, check_eta, check_releases, check_whole
from elldelta.core.distribution import SparseRows, take_rows, with_floats
from elldelta.errors import DistributionError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.distribution import MassTable

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
        n_witnesses: How many witnesses each class has, from ell to |S|, read-only.
        values: The witnesses of the first class by falling P(c, s), ties by index, then those of the second,
            and so on, read-only: a prefix of the values of a class by falling P(c, s).
        peaks: The largest P(c, s) of each class, read-only.
    """

    failures_upper: NDArray[np.float64]
    n_witnesses: NDArray[np.int32]
    values: NDArray[np.int32]
    peaks: NDArray[np.float64]

    @cached_property
    def witnesses(self) -> tuple[tuple[int, ...], ...]:
        """A_c of every class: the values for which the bounds hold, most probable first.

        Each of t releases may miss floor((|A_c| - ell) / t) of them: the pigeonhole of Theorems C and E then
        leaves ell values.
        """
        ends = np.cumsum(self.n_witnesses, dtype=np.int64).tolist()
        values = self.values.tolist()
        return tuple(tuple(values[start:stop]) for start, stop in pairwise([0, *ends]))


def class_failures_upper(
    cells: MassTable,
    ell: int,
    n_records: int,
    releases: int = 1,
    *,
    total: float = 1.0,
    certifiable: bool = False,
    shared_records_upper: int | None = None,
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
            bounds are then per release. Together with no shared records: one ledger admits all releases, and
            the bounds are for the chance that fewer than ell values are shown by all of them.
        shared_records_upper: U. Says that at most U records of each release are shared with other releases,
            chosen without looking at their values, and that all other records are independent across
            releases. Theorem D' alone would allow shared records of any values; Theorem C asks that *all*
            records of a release are drawn from P. Leave it at None unless that is known; nothing checks it.
    """
    cells = _checked_cells(cells)
    ell = check_ell(ell, cells.shape[1])
    releases = check_releases(releases)
    n_records = check_whole("the number of records", n_records)
    n_apart = records_apart(n_records, shared_records_upper)
    from elldelta.core import occupancy_kernels

    n_classes = cells.shape[0]

    def evaluate(some: MassTable, poisson: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
        found: tuple[NDArray[Any], ...] = occupancy_kernels.class_failures(
            some,
            1.0 / total,
            float(n_records),
            n_apart,
            poisson,
            ell,
            releases,
            certifiable,
        )
        return found

    by_ledger = certifiable and n_apart >= 0.0
    poisson = poisson_rates(0.0 if by_ledger else n_records, n_apart, releases)
    if n_classes > FEW_CLASSES and len(poisson):
        # Any lambda is valid, so the one that is best for a sample of the classes serves them all.
        sample = take_rows(cells, np.arange(0, n_classes, -(-n_classes // FEW_CLASSES)))
        sums = [float(evaluate(sample, poisson[row : row + 1])[0].sum()) for row in range(len(poisson))]
        best = int(np.argmin(sums))
        poisson = poisson[best : best + 1]
    failures, n_witnesses, values, largest = evaluate(cells, poisson)
    # A class that cannot succeed (fewer than ell possible values) has an infinite bound.
    found = ClassFailures(failures, n_witnesses, values, largest / total)
    for array in (failures, n_witnesses, values, found.peaks):
        array.setflags(write=False)
    return found


def no_witnesses(n_classes: int) -> ClassFailures:
    """Classes of which no distinct values are asked: they have no witnesses and never fail."""
    zeros = np.zeros(n_classes)
    zeros.setflags(write=False)
    counts = zeros.astype(np.int32)
    return ClassFailures(zeros, counts, counts[:0], zeros)


def total_failure_upper(failures_upper: ArrayLike, peaks: ArrayLike, n_records: int, eta: float) -> float:
    """Upper bound on the summed failure of all classes when P is off by at most eta; pays once.

    Total variation eta means that cells where the planned P is too large exceed the true one by at most eta
    *in total*; the worst case puts the whole error into one class.

    sum_c f_c + max_c f_c (exp(N eta / (1 - peak_c)) - 1), for the witnesses and allowances that gave f_c.

    Args:
        failures_upper: f_c of every class, computed with the P at hand.
        peaks: The largest P(c, s) of every class.
        n_records: N.
        eta: Total variation between the P at hand and the true one.
    """
    failures = np.asarray(failures_upper, dtype=np.float64)
    total = float(failures.sum())
    if check_eta(eta) == 0.0:
        return total
    with np.errstate(over="ignore", divide="ignore"):
        growth = np.expm1(n_records * eta / np.maximum(0.0, 1.0 - np.asarray(peaks, dtype=np.float64)))
    return total + float((failures * growth).max()) * (1.0 + 1e-9)


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
