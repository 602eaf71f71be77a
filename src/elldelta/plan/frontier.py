"""Use case: how many classes how many records buy, under the three bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.choices import BOUNDS
from elldelta.errors import RefusedError
from elldelta.plan.planner import Planner
from elldelta.plan.wish import PlanRequest

if TYPE_CHECKING:
    from elldelta.choices import Bound, ShapeName
    from elldelta.model.model import Model


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
    shape: ShapeName
    rows: tuple[FrontierRow, ...]


def compare_bounds(
    model: Model,
    *,
    ell: int,
    delta: float = 0.01,
    releases: int = 1,
    records: tuple[int, ...] | None = None,
    eta: float = 0.0,
    shape: ShapeName = "runs",
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
        shape: The shape of the classes.
        n_points: How many numbers of records to try by default.
    """
    options: dict[str, Any] = {"delta": delta, "releases": releases, "eta": eta, "shape": shape}
    if records is None:
        fewest = Planner(model, PlanRequest(ell=ell, classes=1, **options)).records()
        most = 10 * max(model.n_records, fewest)
        records = tuple(np.unique(np.geomspace(fewest, most, n_points).astype(int)).tolist())
    planner = Planner(model, PlanRequest(ell=ell, records=records[0], **options))
    rows = []
    for n_records in records:
        classes: dict[Bound, int | None] = {}
        for bound in BOUNDS:
            try:
                classes[bound] = planner.plan(bound, n_records).n_classes
            except RefusedError:
                classes[bound] = None
        rows.append(FrontierRow(n_records, classes))
    return BoundFrontier(ell, delta, releases, shape, tuple(rows))
