"""How much information classes keep: sizes, NCP, discernibility, average class size, answers to queries.

Every measure is about classes over the rows of a distribution, whatever their shape: a run is measured by the
hull of its rows, just as a box is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.partition import hulls_by_group
from elldelta.core.tiling import check_positions
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.partition import Partition


ANY_VALUE = -1
"""In place of a sensitive value: the query does not ask for one."""


@dataclass(frozen=True)
class Utility:
    """Measures of one partition; small is good in all but `n_classes`.

    Attributes:
        n_classes: R.
        smallest_class: Records of the smallest class, N P(c) where P is a forecast.
        median_class: Records of the median class.
        largest_class: Records of the largest class.
        ncp_by_attribute: Per attribute, the mean over records of (highest - lowest occupied position of the
            class) / (domain size - 1); 0 for a domain of one position.
        ncp: The mean over attributes: 0 if no class spans two positions, 1 for a single class of everything.
        discernibility: The expected sum of n_c^2: how many records each record cannot be told from.
        average_class_size_ratio: C_avg = N / (R k): how many times larger than necessary classes are.
    """

    n_classes: int
    smallest_class: float
    median_class: float
    largest_class: float
    ncp_by_attribute: tuple[float, ...]
    ncp: float
    discernibility: float
    average_class_size_ratio: float

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Loss and class sizes as plain JSON values, with the names of the attributes."""
        return {
            "ncp": self.ncp,
            "ncp_by_column": dict(zip(names, self.ncp_by_attribute, strict=True)),
            "smallest_class": self.smallest_class,
            "median_class": self.median_class,
            "largest_class": self.largest_class,
        }


def measure_utility(
    distribution: JointDistribution,
    partition: Partition,
    positions: ArrayLike,
    sizes: Sequence[int],
    *,
    k: int,
    n_records: int,
) -> Utility:
    """Measures classes as a forecast for a release.

    Args:
        distribution: P, one row per combination.
        partition: The classes.
        positions: The position of every row in each ordered domain, n x d.
        sizes: The number of positions of each domain.
        k: The class size that the average is compared with: ell, or the k of a k-anonymity.
        n_records: N, the records that are drawn from P; Σ n_c^2 then has the expectation
            Σ (N P(c))^2 + N P(c) (1 - P(c)).
    """
    k = check_whole("the class size to compare with", k)
    total = check_whole("the number of records", n_records)
    class_mass = class_probabilities(distribution, partition)
    records = total * class_mass
    discernibility = float((records**2).sum()) + float((records * (1.0 - class_mass)).sum())
    by_attribute = ncp_by_attribute(distribution, partition, positions, sizes)
    return Utility(
        n_classes=partition.n_classes,
        smallest_class=float(records.min()),
        median_class=float(np.median(records)),
        largest_class=float(records.max()),
        ncp_by_attribute=by_attribute,
        ncp=float(np.mean(by_attribute)),
        discernibility=discernibility,
        average_class_size_ratio=total / (partition.n_classes * k),
    )


def ncp_by_attribute(
    distribution: JointDistribution, partition: Partition, positions: ArrayLike, sizes: Sequence[int]
) -> tuple[float, ...]:
    """NCP of every attribute: Σ_c P(c) (highest - lowest position of c with P > 0) / (domain size - 1)."""
    lows, highs = occupied_hulls(distribution, partition, positions, sizes)
    lengths = (highs - lows) / np.maximum(1, np.array(sizes) - 1)
    return tuple((class_probabilities(distribution, partition) @ lengths).tolist())


def occupied_hulls(
    distribution: JointDistribution, partition: Partition, positions: ArrayLike, sizes: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lowest and highest position of every class, R x d each, over its rows with P > 0.

    A class without any such row weighs nothing; its hull is that of all its rows.
    """
    points = check_positions(positions, tuple(sizes))
    if points.shape[0] != partition.n_quasi_identifiers:
        raise ParameterError(
            f"The partition covers {partition.n_quasi_identifiers} rows.",
            found=f"There are {points.shape[0]} rows of positions.",
        )
    counts = distribution.quasi_identifier_marginal > 0.0
    if not counts.all():
        counts |= ~np.isin(partition.class_of, partition.class_of[counts])
    class_of = partition.class_of[counts]
    placed = points[counts]
    return hulls_by_group(class_of, placed, placed)


def class_probabilities(distribution: JointDistribution, partition: Partition) -> NDArray[np.float64]:
    """P(c) of every class."""
    if distribution.n_quasi_identifiers != partition.n_quasi_identifiers:
        raise ParameterError(
            f"The partition covers {partition.n_quasi_identifiers} quasi-identifiers.",
            found=f"The distribution has {distribution.n_quasi_identifiers}.",
        )
    shares: NDArray[np.float64] = np.zeros(partition.n_classes)
    np.add.at(shares, partition.class_of, distribution.quasi_identifier_marginal)
    return shares


@dataclass(frozen=True, eq=False)
class Workload:
    """Queries "how many records lie in this range of every attribute (and have this sensitive value)?".

    Attributes:
        lows: First position per query and attribute, read-only; an attribute that is not asked for has its
            whole domain.
        highs: Last position, inclusive, read-only.
        values: The sensitive value asked for, or `ANY_VALUE`, read-only.
        sizes: The number of positions of each domain.
    """

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    values: NDArray[np.int64]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("lows", "highs", "values"):
            array = np.array(getattr(self, name), dtype=np.int64, copy=True)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if (
            self.lows.ndim != 2
            or self.lows.shape != self.highs.shape
            or self.lows.shape[1] != len(self.sizes)
        ):
            raise ParameterError("A workload needs a range of every attribute per query.")
        if self.values.shape != self.lows.shape[:1] or (self.lows > self.highs).any():
            raise ParameterError("A workload needs one value per query, and ranges that rise.")

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.values.size)


@dataclass(frozen=True)
class WorkloadError:
    """Relative errors |answer - truth| / max(truth, sanity) over a workload.

    Attributes:
        n_queries: How many queries were asked.
        median: The median of the relative errors.
        mean: Their mean.
        sanity_share: The floor under the truth, as a share of all records: without it, queries that hardly
            any record fulfils would decide everything.
        n_below_sanity: How many queries the floor applied to.
    """

    n_queries: int
    median: float
    mean: float
    sanity_share: float
    n_below_sanity: int


def random_workload(
    rng: np.random.Generator,
    sizes: Sequence[int],
    n_values: int,
    *,
    n_queries: int = 1000,
    selectivity: float = 0.1,
    value_share: float = 0.5,
) -> Workload:
    """Random ranges on random subsets of the attributes.

    Each query asks for a number of attributes from 1 to d, all equally likely, any of them equally likely;
    of a domain of n positions it asks for round(n selectivity^(1/m)) neighbouring ones, m being the number
    of attributes it asks for, at a random place, so that about the share `selectivity` of all combinations
    is asked for. With probability `value_share` it also asks for one sensitive value, any equally likely.
    """
    n_queries = check_whole("the number of queries", n_queries)
    for name, share in (("selectivity", selectivity), ("the share of queries with a value", value_share)):
        if not 0.0 <= share <= 1.0:
            raise ParameterError(f"{name[0].upper()}{name[1:]} must lie in [0, 1].", found=f"It is {share}.")
    domain = np.array([check_whole("the size of a domain", size) for size in sizes])
    n_asked = rng.integers(1, domain.size + 1, n_queries)
    ranks = np.argsort(rng.random((n_queries, domain.size)), axis=1)
    is_asked = ranks < n_asked[:, np.newaxis]
    shares = selectivity ** (1.0 / n_asked)
    lengths = np.clip(np.rint(domain * shares[:, np.newaxis]), 1, domain).astype(np.int64)
    lengths = np.where(is_asked, lengths, domain)
    lows = rng.integers(0, domain - lengths + 1)
    values = np.where(rng.random(n_queries) < value_share, rng.integers(0, n_values, n_queries), ANY_VALUE)
    return Workload(lows, lows + lengths - 1, values, tuple(domain.tolist()))


def true_shares(
    distribution: JointDistribution, positions: ArrayLike, workload: Workload
) -> NDArray[np.float64]:
    """The share of all records that fulfils each query."""
    columns = np.ascontiguousarray(check_positions(positions, workload.sizes).T.astype(np.int32))
    row_mass = distribution.quasi_identifier_marginal
    shares = np.empty(workload.n_queries)
    whole = (workload.lows == 0) & (workload.highs == np.array(workload.sizes) - 1)
    for query, value in enumerate(workload.values.tolist()):
        inside = np.ones(row_mass.size, dtype=np.bool_)
        for attribute in np.flatnonzero(~whole[query]).tolist():
            places = columns[attribute]
            inside &= (places >= workload.lows[query, attribute]) & (
                places <= workload.highs[query, attribute]
            )
        if value == ANY_VALUE:
            shares[query] = row_mass[inside].sum()
        else:
            rows, cells = distribution.column(value)
            shares[query] = cells[inside[rows]].sum() / distribution.total
    return shares


def answered_shares(
    distribution: JointDistribution,
    partition: Partition,
    lows: ArrayLike,
    highs: ArrayLike,
    workload: Workload,
) -> NDArray[np.float64]:
    """What a reader answers who knows the classes, their ends and their sensitive values.

    The records of a class are taken to be spread evenly over the volume of the box lows..highs, so that a
    query that covers a part of the box gets that part of its records. A class that is no box is answered
    from the box around it.
    """
    first, last = np.asarray(lows, dtype=np.int64), np.asarray(highs, dtype=np.int64)
    if first.shape != (partition.n_classes, len(workload.sizes)) or last.shape != first.shape:
        raise ParameterError(
            "Every class needs a low and a high end for every attribute.",
            found=f"Shapes {first.shape} and {last.shape} for {partition.n_classes} classes.",
        )
    classes = distribution.generalized(partition)
    class_mass = classes.row_sums
    lengths = last - first + 1
    shares = np.empty(workload.n_queries)
    for query, value in enumerate(workload.values.tolist()):
        common = np.minimum(last, workload.highs[query]) - np.maximum(first, workload.lows[query]) + 1
        covered = (np.maximum(common, 0) / lengths).prod(axis=1)
        if value == ANY_VALUE:
            shares[query] = covered @ (class_mass / distribution.total)
        else:
            rows, cells = classes.column(value)
            shares[query] = covered[rows] @ (cells / distribution.total)
    return shares


def workload_error(truth: ArrayLike, answers: ArrayLike, *, sanity_share: float = 0.001) -> WorkloadError:
    """Compares answers with the truth, both as shares of all records.

    >>> workload_error([0.1, 0.2], [0.1, 0.1]).median
    0.25
    """
    right, given = np.asarray(truth, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    if right.shape != given.shape or right.ndim != 1 or right.size == 0:
        raise ParameterError(
            "There must be one answer per query.", found=f"Shapes {right.shape} and {given.shape}."
        )
    if not 0.0 < sanity_share <= 1.0:
        raise ParameterError(
            "The floor under the truth must lie in (0, 1], a share of all records.",
            found=f"It is {sanity_share}.",
            remedy="A usual choice is 0.001.",
        )
    errors = np.abs(given - right) / np.maximum(right, sanity_share)
    return WorkloadError(
        n_queries=int(errors.size),
        median=float(np.median(errors)),
        mean=float(errors.mean()),
        sanity_share=sanity_share,
        n_below_sanity=int((right < sanity_share).sum()),
    )
