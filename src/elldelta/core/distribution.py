"""The joint distribution P(Q, S) of quasi-identifiers and sensitive values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.mass_table import column_sums, frozen, row_sums, sparse_rows
from elldelta.errors import DistributionError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.mass_table import MassTable

SUM_TOLERANCE = 1e-9
"""How far probabilities may be from summing to 1."""

RELATIVE_TOLERANCE = 1e-9
"""A cell counts as reaching p from p (1 - RELATIVE_TOLERANCE) on.

Sums of probabilities carry rounding errors, and p itself is often such a sum; without a tolerance a class
is lost whenever the two differ in the last bit. Whoever uses the tolerance computes the promise from the
*snapped* p, the smallest cell that was really accepted, so the tolerance never buys privacy.
"""


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """P(Q, S) as a table with one row per quasi-identifier, in their fixed order, and one column per value.

    Integer counts stay integers: class sums are then exact and `P(c, s) >= p` is decided on integers.
    Create it with `from_counts`, `from_cells`, `from_probabilities` or `product`.

    Attributes:
        mass: The table, |Q| x |S|, read-only: counts (int64) or probabilities (float64); a dense array, or
            sparse rows that store only the cells above zero.
        total: What the table sums to: the number of records, or 1.0.
    """

    mass: MassTable
    total: float

    @classmethod
    def from_counts(cls, counts: ArrayLike) -> JointDistribution:
        """Estimates P by the relative frequencies of a table of whole-number counts.

        >>> JointDistribution.from_counts([[3, 1], [0, 4]]).n_quasi_identifiers
        2
        """
        table = _as_table(counts)
        if table.dtype.kind not in "iu":
            raise DistributionError(
                "Counts must be whole numbers.",
                found=f"The table holds numbers of type {table.dtype}.",
                remedy="Use from_probabilities for probabilities, or convert the counts to integers.",
            )
        if table.dtype.kind == "u" and table.max() > np.iinfo(np.int64).max:
            raise _overflow()
        table = table.astype(np.int64)
        if (table < 0).any():
            raise _negative(int((table < 0).sum()))
        return cls(_frozen(table), _total(table))

    @classmethod
    def from_cells(
        cls, offsets: ArrayLike, values: ArrayLike, counts: ArrayLike, n_values: int
    ) -> JointDistribution:
        """The same for counts given as sparse rows: what does not occur takes no memory.

        Args:
            offsets: Where the cells of each quasi-identifier begin, and at last where they end.
            values: The sensitive value of each cell, rising for each quasi-identifier.
            counts: The whole-number count of each cell, at least 1; a read-only array is shared, not copied.
            n_values: |S|.

        >>> JointDistribution.from_cells([0, 2, 3], [0, 1, 1], [3, 1, 4], 2).value_marginal.tolist()
        [0.375, 0.625]
        """
        cells = np.asarray(counts)
        if cells.dtype.kind not in "iu":
            raise DistributionError("Counts must be whole numbers.", found=f"They are of type {cells.dtype}.")
        table = sparse_rows(np.asarray(offsets), np.asarray(values), cells, n_values)
        return cls(table, _total(table.cells))

    @classmethod
    def from_probabilities(cls, probabilities: ArrayLike) -> JointDistribution:
        """Takes P as given: finite, non-negative, summing to 1 within 1e-9."""
        return cls(_frozen(_probabilities(probabilities)), 1.0)

    @classmethod
    def product(cls, quasi_identifiers: ArrayLike, values: ArrayLike) -> JointDistribution:
        """The product distribution of two marginals: Q and S independent."""
        return cls.from_probabilities(np.outer(check_marginal(quasi_identifiers), check_marginal(values)))

    @property
    def n_quasi_identifiers(self) -> int:
        """|Q|."""
        return int(self.mass.shape[0])

    @property
    def n_values(self) -> int:
        """|S|."""
        return int(self.mass.shape[1])

    @property
    def n_cells(self) -> int:
        """The cells that are stored: all of them, or those above zero."""
        return int(self.mass.size) if isinstance(self.mass, np.ndarray) else int(self.mass.cells.size)

    @property
    def is_counted(self) -> bool:
        """Whether the table holds integer counts, so that sums are exact."""
        return bool(self.mass.dtype.kind == "i")

    @cached_property
    def value_marginal(self) -> NDArray[np.float64]:
        """P_S, one probability per sensitive value."""
        return _frozen(column_sums(self.mass) / self.total)

    @cached_property
    def quasi_identifier_marginal(self) -> NDArray[np.float64]:
        """P_Q, one probability per quasi-identifier."""
        return _frozen(row_sums(self.mass) / self.total)

    @cached_property
    def ranked_marginal(self) -> NDArray[np.float64]:
        """p_1 >= p_2 >= ...: P_S sorted from large to small."""
        return ranked(self.value_marginal)

    def probability(self, mass: Any) -> Any:  # noqa: ANN401 (a scalar or an array, as given)
        """Turns a mass (a sum of cells) into a probability."""
        return mass / self.total

    def threshold(self, p: float) -> float:
        """The smallest mass that counts as probability p, within `RELATIVE_TOLERANCE`.

        For counts this is a whole number, so that the comparison is exact.
        """
        mass = p * self.total * (1.0 - RELATIVE_TOLERANCE)
        return max(1, int(np.ceil(mass))) if self.is_counted else mass


def uniform_marginal(n_values: int) -> NDArray[np.float64]:
    """The uniform distribution on `n_values` values."""
    n_values = check_whole("the number of values", n_values)
    return _frozen(np.full(n_values, 1.0 / n_values))


def geometric_marginal(n_values: int, ratio: float) -> NDArray[np.float64]:
    """P_S(s) proportional to ratio^(s-1), as in the paper's Section 5."""
    n_values = check_whole("the number of values", n_values)
    if not 0.0 < ratio < 1.0:
        raise ParameterError(
            "The ratio of a geometric marginal must lie strictly between 0 and 1.",
            found=f"It is {ratio}.",
            remedy="The paper uses 0.95. A ratio of 1 is the uniform marginal.",
        )
    weights = ratio ** np.arange(n_values)
    return _frozen(weights / weights.sum())


def check_marginal(marginal: ArrayLike) -> NDArray[np.float64]:
    """Returns a one-dimensional distribution as a read-only array, or raises."""
    array = np.atleast_1d(np.asarray(marginal, dtype=np.float64))
    if array.ndim != 1:
        raise DistributionError(
            "A marginal must be a single row of probabilities.", found=f"It has {array.ndim} dimensions."
        )
    return _frozen(_probabilities(array[np.newaxis, :])[0])


def ranked(marginal: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities from large to small: p_1 >= p_2 >= ..."""
    return _frozen(np.sort(marginal)[::-1])


def _as_table(cells: ArrayLike) -> NDArray[Any]:
    try:
        table = np.asarray(cells)
    except ValueError:
        raise DistributionError(
            "A table must have rows of equal length.",
            found="The rows differ in length.",
            remedy="Give one row per quasi-identifier and one column per sensitive value.",
        ) from None
    if table.ndim != 2 or table.size == 0:
        raise DistributionError(
            "A table must have at least one row and one column.",
            found=f"Its shape is {table.shape}.",
            remedy="Give one row per quasi-identifier and one column per sensitive value.",
        )
    if table.dtype.kind not in "iuf":
        raise DistributionError("A table must hold numbers.", found=f"It holds {table.dtype}.")
    return table


def _probabilities(probabilities: ArrayLike) -> NDArray[np.float64]:
    table = _as_table(probabilities).astype(np.float64)
    if not np.isfinite(table).all():
        raise DistributionError(
            "Probabilities must be finite.",
            found=f"{int((~np.isfinite(table)).sum())} cells are infinite or not a number.",
        )
    if (table < 0).any():
        raise _negative(int((table < 0).sum()))
    total = float(table.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise DistributionError(
            f"Probabilities must sum to 1 within {SUM_TOLERANCE:g}.",
            found=f"They sum to {total!r}.",
            remedy="Divide by the sum, or use from_counts for counts.",
        )
    return table


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    return frozen(array, array.dtype)


def _total(counts: NDArray[Any]) -> int:
    """The number of records; a table without any is refused, and so is one too large to add up."""
    if counts.sum(dtype=np.float64) >= 2.0**62:
        raise _overflow()
    total = int(counts.sum())
    if total == 0:
        raise DistributionError(
            "The table of counts is empty.",
            found="All counts are zero.",
            remedy="Estimate from at least one record.",
        )
    return total


def _negative(n_cells: int) -> DistributionError:
    return DistributionError("Mass must not be negative.", found=f"{n_cells} cells are negative.")


def _overflow() -> DistributionError:
    return DistributionError("The counts are too large.", found="Their sum does not fit 62 bits.")
