"""Which waiting risk to plan with: the one whose releases lose least information after coarsening.

A larger risk makes more and smaller classes, of which owners then have to merge more. Where that stops
paying is found by trying: owners are drawn from the model, their releases coarsened, their loss measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.coarsen import fit
from elldelta.errors import RefusedError
from elldelta.plan.planner import Planner

if TYPE_CHECKING:
    from elldelta.model.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.plan.wish import PlanRequest

CANDIDATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Waiting risks to try, rising; theory says that the best lies inside."""


@dataclass(frozen=True)
class ExpectedLoss:
    """What owners of N records are expected to publish under one waiting risk."""

    waiting_risk: float
    base_classes: int
    published_classes: float
    ncp: float


def expected_loss(plan: Plan, model: Model, rng: np.random.Generator, n_owners: int = 4) -> ExpectedLoss:
    """Draws owners of N records from the model, coarsens their releases, and averages what they publish."""
    counts = model.counts
    class_of = plan.class_of(counts.ranks)
    cells = np.zeros((plan.n_classes, plan.schema.n_values))
    np.add.at(cells, (class_of[counts.rows], counts.values), counts.n)
    terms, loss = plan.terms, plan.hull_loss
    published, losses = [], []
    for _ in range(n_owners):
        table = rng.multinomial(plan.records, cells.ravel() / cells.sum()).reshape(cells.shape)
        fitted = fit(table, terms, loss, on_failure="coarsen-suppress", unions=plan.unions)
        published.append(fitted.cost.n_published)
        # A record that is left out tells nothing: it counts as a loss of 1.
        share = fitted.cost.suppressed_share
        losses.append(fitted.cost.ncp_after * (1.0 - share) + share)
    risk = plan.waiting_risk if plan.waiting_risk is not None else 0.0
    return ExpectedLoss(risk, plan.n_classes, float(np.mean(published)), float(np.mean(losses)))


def choose_waiting_risk(
    model: Model, request: PlanRequest, *, seed: int = 0
) -> tuple[float, tuple[ExpectedLoss, ...]]:
    """The waiting risk with the least expected loss, and all that were tried.

    Args:
        model: The model.
        request: The wish; its own waiting risk does not matter.
        seed: Seed of the owners that are drawn, the same for every candidate.
    """
    tried: list[ExpectedLoss] = []
    for risk in CANDIDATES:
        planner = Planner(model, replace(request, waiting_risk=risk))
        try:
            plan = planner.plan("sharp", planner.records())
        except RefusedError:
            continue
        tried.append(expected_loss(plan, model, np.random.default_rng(seed)))
        if len(tried) > 2 and tried[-1].ncp > tried[-2].ncp > tried[-3].ncp:
            break  # past the lowest point
    if not tried:
        raise RefusedError(
            f"No certified plan with {request.ell} values is possible for these records.",
            found=f"Not even a single class passes except with probability {CANDIDATES[-1]:g}.",
            remedy="Wait for more records, or choose a smaller ell or fewer releases.",
        )
    best = min(tried, key=lambda loss: loss.ncp)
    return best.waiting_risk, tuple(tried)
