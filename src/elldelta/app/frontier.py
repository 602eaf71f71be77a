"""Use case: how many classes how many records buy, under the three bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_delta, check_ell, check_releases
from elldelta.core.frontier import most_classes
from elldelta.core.generalize.runs import fewest_records_for_classes, sharp_runs
from elldelta.core.generalize.sweep import SharpOptions
from elldelta.core.union import union_runs
from elldelta.data.plan_file import BOUNDS
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from elldelta.data.model import Model
    from elldelta.data.plan_file import Bound


@dataclass(frozen=True)
class FrontierRow:
    """For one number of records, the classes that each bound can promise; None where it can promise none."""

    records: int
    classes: dict[Bound, int | None]


@dataclass(frozen=True)
class BoundFrontier:
    """Classes against records for one model, ell, delta and number of releases."""

    ell: int
    delta: float
    releases: int
    rows: tuple[FrontierRow, ...]


def compare_bounds(
    model: Model,
    *,
    ell: int,
    delta: float = 0.01,
    releases: int = 1,
    records: tuple[int, ...] | None = None,
    eta: float = 0.0,
    n_points: int = 12,
) -> BoundFrontier:
    """Classes under each bound for several numbers of records.

    Args:
        model: The model.
        ell: Sensitive values to be left.
        delta: Failure probability of one release.
        releases: How many releases may be linked.
        records: The numbers of records to try; by default `n_points` of them, from the fewest that promise
            anything to ten times the records of the model.
        eta: An error of the model in total variation.
        n_points: How many numbers of records to try by default.
    """
    distribution = model.to_distribution()
    ell = check_ell(ell, distribution.n_values)
    delta, releases = check_delta(delta), check_releases(releases)
    options = SharpOptions(eta=eta)
    budget = releases * delta
    if records is None:
        fewest = fewest_records_for_classes(distribution, 1, ell, releases, budget, options).n_records
        most = 10 * max(model.n_records, fewest)
        records = tuple(np.unique(np.geomspace(fewest, most, n_points).astype(int)).tolist())
    rows = []
    for n_records in records:
        classes: dict[Bound, int | None] = {}
        for bound in BOUNDS:
            try:
                if bound == "sharp":
                    made = sharp_runs(distribution, ell, n_records, releases, budget, options)
                    classes[bound] = made.n_classes
                else:
                    search = most_classes if bound == "paper" else union_runs
                    classes[bound] = search(distribution, ell, delta, n_records, eta)[0].n_classes
            except RefusedError:
                classes[bound] = None
        rows.append(FrontierRow(n_records, classes))
    return BoundFrontier(ell, delta, releases, tuple(rows))
