"""How many sensitive values classes miss, and records: the class failures of Theorems C, D' and E, and k.

All functions return upper bounds, rounded up, with a relative accuracy of about 1e-9 down to 1e-300. The
statements and proofs are in `docs/theory/sharper.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.core.checks import check_ell, check_releases, check_whole
from elldelta.core.distribution import SparseRows, take_rows, with_floats
from elldelta.core.witnesses import Witnesses
from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.distribution import MassTable

CheckedBy = Literal["nobody", "owner", "ledger"]
"""Who makes sure that linked releases leave ell values in a class, and so what its failure is.

nobody: Releases are published without looking, and may share people in any way. A class fails if their
    linkage shows fewer than ell values (Theorem C).
owner: Every owner checks its own release, which may miss as many witnesses as any other: one allowance. A
    class fails if *one* release misses more (Theorem E).
ledger: One ledger admits all releases, which are drawn independently. A class fails if fewer than ell values
    are shown by all of them (Theorem D').
"""

POISSON_SHIFTS = (1.0, 1.75, 2.5, 3.25)
"""The z tried in Lemma B, lambda = N - z sqrt(N). Every z is valid; the best is flat between these."""

FEWEST_FOR_POISSON = 30
"""Below so many records Lemma B is not tried: it never wins there, and would not fall steadily with N."""

FEW_CLASSES = 256
"""Up to so many classes each may choose its own lambda."""

ROUND_UP = 1.0 + 1e-9
"""The relative error of the library's binomial tails is far below that."""


@dataclass(frozen=True, eq=False)
class ClassFailures:
    """Failure bounds of the classes of one partition.

    Attributes:
        failures_upper: A bound on the failure of each class (`CheckedBy`), read-only, not capped at 1.
        witnesses: A_c, the values for which the bounds hold, from ell to |S| of each class: a prefix of its
            values by falling P(c, s), ties by index. Each of t releases may miss floor((|A_c| - ell) / t) of
            them: the pigeonhole of Theorems C and E then leaves ell values.
    """

    failures_upper: NDArray[np.float64]
    witnesses: Witnesses


def class_failures_upper(
    cells: MassTable,
    ell: int,
    n_records: int,
    releases: int = 1,
    *,
    total: float = 1.0,
    checked_by: CheckedBy = "nobody",
) -> ClassFailures:
    """The failure of every class (Theorem C, E or D', see `CheckedBy`).

    For every class the witness set is the best prefix of the values ranked by P(c, s). Errs upwards.

    Args:
        cells: Mass of every (class, value) cell, R x |S|, dense or sparse: counts or probabilities.
        ell: How many values must survive the linkage.
        n_records: N, the fewest records of any release.
        releases: t, how many releases on these classes are linked.
        total: What turns a mass into a probability: P = mass / total.
        checked_by: Who makes sure that enough values are left.
    """
    cells = _checked_cells(cells)
    ell = check_ell(ell, cells.shape[1])
    releases = check_releases(releases)
    n_records = check_whole("the number of records", n_records)
    from elldelta.core import occupancy_kernels

    n_classes = cells.shape[0]

    def evaluate(some: MassTable, poisson: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
        found: tuple[NDArray[Any], ...] = occupancy_kernels.class_failures(
            some,
            1.0 / total,
            float(n_records),
            poisson,
            ell,
            releases,
            occupancy_kernels.CHECKS[checked_by],
        )
        return found

    poisson = poisson_rates(0.0 if checked_by == "ledger" else n_records)
    if n_classes > FEW_CLASSES and len(poisson):
        # Any lambda is valid, so the one that is best for a sample of the classes serves them all.
        sample = with_floats(take_rows(cells, np.arange(0, n_classes, -(-n_classes // FEW_CLASSES))))
        sums = [float(evaluate(sample, poisson[row : row + 1])[0].sum()) for row in range(len(poisson))]
        best = int(np.argmin(sums))
        poisson = poisson[best : best + 1]
    failures, n_witnesses, values = evaluate(cells, poisson)
    # A class that cannot succeed (fewer than ell possible values) has an infinite bound.
    failures.setflags(write=False)
    return ClassFailures(failures, Witnesses(n_witnesses, values))


def no_witnesses(n_classes: int) -> ClassFailures:
    """Classes of which no distinct values are asked: they have no witnesses and never fail."""
    zeros = np.zeros(n_classes)
    zeros.setflags(write=False)
    return ClassFailures(zeros, Witnesses.none(n_classes))


def poisson_rates(n_records: float) -> NDArray[np.float64]:
    """Rows (lambda, 1 / Pr[Z <= N]) for Lemma B."""
    from scipy.special import pdtr

    rows = []
    if n_records >= FEWEST_FOR_POISSON:
        for shift in POISSON_SHIFTS:
            rate = n_records - shift * n_records**0.5
            # The library's relative error is far below 1e-9; dividing by less is the safe side.
            rows.append((rate, 1.0 / (float(pdtr(n_records, rate)) * (1.0 - 1e-9))))
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


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


def count_chances(chances: ArrayLike, most: int) -> NDArray[np.float64]:
    """The chances that 0, 1, ..., `most` of independent events happen.

    Args:
        chances: That of every event; or of every event a row, for several settings side by side.
        most: The most events that are counted.
    """
    chances = np.asarray(chances, dtype=np.float64)
    found = np.zeros((most + 1, *chances.shape[1:]))
    found[0] = 1.0
    for chance in chances:
        found[1:] = found[1:] * (1.0 - chance) + found[:-1] * chance
        found[0] *= 1.0 - chance
    return found


def shortfalls_upper(masses: ArrayLike, n_records: int, k: int) -> NDArray[np.float64]:
    """P(Bin(N, m) < k) for classes of these probabilities, rounded up; 0 for k = 1, which asks nothing.

    A class of probability m holds Bin(N, m) of N records. One with records, but fewer than k, is not
    published; one without any is nobody's. The chance of fewer than k, none among them, is on the safe side.

    Args:
        masses: m, or lower bounds on it: the chance falls with m.
        n_records: N, or a lower bound on it.
        k: The fewest records of a class.

    >>> shortfalls_upper([0.5, 1.0], 2, 2).round(6).tolist()
    [0.75, 0.0]
    """
    shares = np.clip(np.asarray(masses, dtype=np.float64), 0.0, 1.0)
    if k <= 1 or k > n_records:
        return np.full(shares.shape, float(k > 1))
    from scipy.special import betaincc  # scipy.stats takes half a second to import, and says 0 of 1e-284

    chances: NDArray[np.float64] = np.minimum(1.0, betaincc(k, n_records - k + 1, shares) * ROUND_UP)
    return chances


def least_mass(n_records: int, k: int, limit: float, *, per_class: bool) -> float:
    """The smallest probability of a class that seldom enough holds fewer than k records; more than 1 if none.

    Args:
        n_records: N.
        k: The fewest records of a class.
        limit: The largest chance of a class, or of all classes together: there are at most 1 / m of them.
        per_class: Which of the two it is.
    """
    if k <= 1:
        return 0.0

    def is_enough(mass: float) -> bool:
        chance = float(shortfalls_upper(mass, n_records, k))
        return chance <= (limit if per_class else limit * mass)

    low, high = 0.0, 1.0
    if not is_enough(high):
        return 2.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
