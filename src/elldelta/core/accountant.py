"""Accounting: what all releases together promise, as a profile ell -> failure.

An *event* says what happened: releases with so many records were made on these classes. `profile_of` says
what events promise together. The theory is in `docs/theory/accounting.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_releases, check_whole
from elldelta.core.occupancy import poisson_rates
from elldelta.errors import ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.partition import Partition


@dataclass(frozen=True, eq=False)
class ReleaseEvent:
    """Releases of equal size on one partition, planned with one P.

    Attributes:
        partition: The classes.
        cells: P(c, s), R x |S|, read-only. Owners with different distributions make different events.
        n_records: N, the fewest records of these releases.
        releases: How many releases.
    """

    partition: Partition
    cells: NDArray[np.float64]
    n_records: int
    releases: int = 1

    def __post_init__(self) -> None:
        check_whole("the number of records", self.n_records)
        check_releases(self.releases)
        cells = np.array(self.cells, dtype=np.float64, order="C", copy=True)
        if cells.ndim != 2 or cells.shape[0] != self.partition.n_classes:
            raise ParameterError(
                "An event needs one row of cells for each of its "
                f"{counted(self.partition.n_classes, 'class', 'classes')}.",
                found=f"Shape {cells.shape}.",
            )
        if not (np.isfinite(cells).all() and (cells >= 0.0).all() and cells.sum() <= 1.0 + 1e-6):
            raise ParameterError(
                "Cells must be probabilities that sum to at most 1.", found="They are not, or do not."
            )
        cells.setflags(write=False)
        object.__setattr__(self, "cells", cells)

    def is_like(self, other: ReleaseEvent) -> bool:
        """Whether both are releases of the same size on the same classes with the same P."""
        return (
            self.n_records == other.n_records
            and self.partition == other.partition
            and np.array_equal(self.cells, other.cells)
        )


@dataclass(frozen=True, eq=False)
class Profile:
    """For every ell, how likely the linkage of all releases shows fewer than ell values somewhere.

    Attributes:
        failures_upper: Bounds for ell = 1, 2, ..., |S|; rising, at most 1, read-only.
        releases: How many releases are linked.
    """

    failures_upper: NDArray[np.float64]
    releases: int


def profile_of(events: Sequence[ReleaseEvent]) -> Profile:
    """The promise of all events together, by Theorem C on their linkage classes. Errs upwards.

    Releases may depend on each other in any way.

    Args:
        events: What happened.
    """
    if not events:
        raise ParameterError("There is no release to account for.", remedy="Give at least one event.")
    shapes = {(event.partition.n_quasi_identifiers, event.cells.shape[1]) for event in events}
    if len(shapes) > 1:
        raise ParameterError(
            "All releases must be over the same quasi-identifiers and sensitive values.",
            found="Tables of " + " and ".join(f"{n} x {s}" for n, s in sorted(shapes)) + " cells.",
            remedy="Plan all of them with models that use one schema.",
        )
    summed = _summed_failures(_grouped(events)) * (1.0 + 1e-12)
    # Fewer than ell values are also fewer than ell + 1: a bound for a larger ell serves a smaller one.
    failures = np.minimum.accumulate(np.minimum(1.0, summed)[::-1])[::-1].copy()
    failures.setflags(write=False)
    return Profile(failures, sum(event.releases for event in events))


def _grouped(events: Sequence[ReleaseEvent]) -> list[ReleaseEvent]:
    """Events that are alike become one event of more releases."""
    groups: list[ReleaseEvent] = []
    for event in events:
        for index, group in enumerate(groups):
            if group.is_like(event):
                groups[index] = replace(group, releases=group.releases + event.releases)
                break
        else:
            groups.append(event)
    # The order in which releases happened must not show in the result, not even in the last digit.
    return sorted(
        groups, key=lambda g: (g.n_records, g.releases, g.partition.class_of.tobytes(), g.cells.tobytes())
    )


def _linkage_classes(groups: list[ReleaseEvent]) -> NDArray[np.int64]:
    """Every combination of classes, one per group, that some quasi-identifier has."""
    number = groups[0].partition.class_of.astype(np.int64)
    tuples = np.arange(groups[0].partition.n_classes, dtype=np.int64)[:, np.newaxis]
    for group in groups[1:]:
        keys, number = np.unique(
            number * group.partition.n_classes + group.partition.class_of, return_inverse=True
        )
        before, group_class = np.divmod(keys, group.partition.n_classes)
        tuples = np.column_stack((tuples[before], group_class))
    return np.ascontiguousarray(tuples)


def _summed_failures(groups: list[ReleaseEvent]) -> NDArray[np.float64]:
    """The failures of all linkage classes added up, for every ell."""
    from elldelta.core import accountant_kernels

    tuples = _linkage_classes(groups)
    n_values = groups[0].cells.shape[1]
    failures = np.empty((len(tuples), n_values), dtype=np.float64)
    sizes = [group.partition.n_classes for group in groups]
    accountant_kernels.linkage_failures(
        np.concatenate([group.cells for group in groups]),
        np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64),
        tuples,
        np.array([group.n_records for group in groups], dtype=np.float64),
        np.array([group.releases for group in groups], dtype=np.int64),
        poisson_rates(groups[0].n_records),
        failures,
    )
    total: NDArray[np.float64] = failures.sum(axis=0)
    return total
