"""Which waiting risk to plan with: the one whose releases lose least information after coarsening.

A larger risk makes more and smaller classes, of which owners then have to merge more. Where that stops
paying is found by trying: owners are drawn from the model, their releases coarsened, their loss measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.coarsen import fit
from elldelta.errors import RefusedError
from elldelta.plan.planner import Planner

if TYPE_CHECKING:
    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.plan.wish import Wish

CANDIDATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Waiting risks to try, rising; theory says that the best lies inside."""


def expected_loss(plan: Plan, model: Model, rng: np.random.Generator, n_owners: int = 4) -> float:
    """Draws owners of N records from the model, coarsens their releases, and averages what they lose."""
    counts = model.counts
    cells = counts.by_class(plan.class_of(counts.ranks), plan.n_classes)
    losses = []
    for _ in range(n_owners):
        table = rng.multinomial(plan.records, cells.ravel() / cells.sum()).reshape(cells.shape)
        fitted = fit(table, plan.terms, plan.hull_loss, on_failure="coarsen-suppress", unions=plan.unions)
        # A record that is left out tells nothing: it counts as a loss of 1.
        share = fitted.cost.suppressed_share
        losses.append(fitted.cost.ncp_after * (1.0 - share) + share)
    return float(np.mean(losses))


def choose_waiting_risk(model: Model, wish: Wish, *, seed: int = 0) -> float:
    """The waiting risk with the least expected loss among the candidates.

    Args:
        model: The model.
        wish: The wish; its own waiting risk does not matter.
        seed: Seed of the owners that are drawn, the same for every candidate.
    """
    risks: list[float] = []
    losses: list[float] = []
    for risk in CANDIDATES:
        try:
            plan = Planner(model, replace(wish, waiting_risk=risk)).made()
        except RefusedError:
            continue
        risks.append(risk)
        losses.append(expected_loss(plan, model, np.random.default_rng(seed)))
        if len(losses) > 2 and losses[-1] > losses[-2] > losses[-3]:
            break  # past the lowest point
    if not risks:
        raise RefusedError(
            f"No certified plan with {wish.ell} values is possible for these records.",
            found=f"Not even a single class passes except with probability {CANDIDATES[-1]:g}.",
            remedy="Wait for more records, or choose a smaller ell or fewer releases.",
        )
    return risks[int(np.argmin(losses))]
