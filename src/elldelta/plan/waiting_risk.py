"""Which waiting risk to plan with: the one whose releases lose least information after coarsening.

A larger risk makes more and smaller classes, of which owners then have to merge more. Where that stops
paying is found by trying: owners are drawn from the model, their releases coarsened, their loss measured. All
risks are tried with the same owners, and from a usual one on downhill, so few have to be tried.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.coarsen import fit
from elldelta.core.generalize.boxes import MANY_ROWS
from elldelta.core.ledger_state import LedgerState
from elldelta.core.reserve import Reserve
from elldelta.engines.task import part
from elldelta.errors import RefusedError
from elldelta.plan.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from elldelta.engines import Progress
    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.plan.wish import Wish

CANDIDATES = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
WITH_LEDGER = (*CANDIDATES, 0.6, 0.7, 0.9)
"""Waiting risks to try, rising. With a ledger the risk is that one of all owners has to merge a class."""

USUAL, USUAL_WITH_LEDGER = 0.2, 0.6
"""Where the search begins."""

CAUTIOUS = 0.01
"""What very many classes are planned with, without a search: merging takes time that grows with the square of
their number, also for the owners."""

MOST_CLASSES = 2000
"""From here on there are very many classes."""

CLEARLY = 0.99
"""Drafted classes are kept where the loss is below this share."""

N_OWNERS = 4
"""How many owners are drawn, or rounds of owners who share a ledger; fewer where there are many classes."""


def expected_loss(
    plan: Plan,
    model: Model,
    owners: int | None = None,
    n_rounds: int = N_OWNERS,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> float:
    """Draws owners of N records from the model, coarsens their releases, and averages what they lose.

    Args:
        plan: The plan.
        model: The model.
        owners: How many owners share a ledger, each leaving a reserve for those who follow; None: each owner
            passes the plan's certificate by itself.
        n_rounds: How many owners are drawn, or rounds of owners who share a ledger.
        seed: Seed of the owners: the same for every plan of a model.
        progress: Is told how far the work is.
    """
    losses: list[float] = []
    for round_ in range(n_rounds):
        for loss in _losses(plan, model, owners, seed + round_):
            losses.append(loss)
            if progress is not None:
                progress(len(losses) / (n_rounds * (owners or 1)))
    return float(np.mean(losses))


def _losses(plan: Plan, model: Model, owners: int | None, seed: int) -> Iterator[float]:
    """What one owner loses, or one after the other those who share a ledger."""
    state = None if owners is None else LedgerState.empty(plan.terms)
    rng = np.random.default_rng(seed)
    for number in range(owners or 1):
        table = _drawn(plan, model, rng)
        terms, reserve = plan.all_terms, None
        if state is not None and owners is not None:
            terms = left = state.terms_left()
            reserve = Reserve.keep(plan.cells(), left, n_records=plan.records, followers=owners - 1 - number)
        fitted = fit(table, terms, plan.hull_loss, on_failure="coarsen-suppress", reserve=reserve)
        if state is not None:
            shown = fitted.certificate
            state = state.admit(shown.missed, (shown.counts, shown.grouping))
        yield fitted.loss


def _drawn(plan: Plan, model: Model, rng: np.random.Generator) -> NDArray[np.int64]:
    """The records of an owner by class and value; the same combinations whatever the classes are."""
    if model.schema.also_sensitive:
        return _drawn_apart(plan, model, rng)
    table, counts = model.counts.table, model.counts
    drawn = rng.multinomial(plan.records, table.cells / table.cells.sum())
    class_of = plan.class_of(counts.ranks)
    cells = np.zeros((plan.n_classes, plan.schema.n_values), dtype=np.int64)
    np.add.at(cells, (np.repeat(class_of, np.diff(table.offsets)), table.values), drawn)
    return cells


def _drawn_apart(plan: Plan, model: Model, rng: np.random.Generator) -> NDArray[np.int64]:
    """The same for several sensitive columns: the combinations of records, then every column by itself."""
    totals = model.counts.combination_totals
    drawn = rng.multinomial(plan.records, totals / totals.sum())
    class_of = plan.class_of(model.ranks)
    parts = []
    for table in model.schema.by_column(model.counts.dense()):
        values = rng.multinomial(drawn, table / totals[:, np.newaxis])
        cells = np.zeros((plan.n_classes, table.shape[1]), dtype=np.int64)
        np.add.at(cells, class_of, values)
        parts.append(cells)
    return np.concatenate(parts, axis=1)


def choose_waiting_risk(model: Model, wish: Wish, progress: Progress | None = None) -> tuple[float, bool]:
    """The waiting risk with the least expected loss among the candidates near the usual one.

    And whether classes that are drafted lose clearly less with it than those of the whole search, which looks
    for little loss before owners merge: small differences there may cost more in merging.

    Args:
        model: The model.
        wish: The wish; its own waiting risk does not matter.
        progress: Is told how far the work is; how many risks are tried, nobody knows before.
    """
    n_tried = 0
    candidates, usual = (CANDIDATES, USUAL) if wish.owners is None else (WITH_LEDGER, USUAL_WITH_LEDGER)

    @cache
    def draft(place: int) -> Plan | None:
        try:
            return Planner(model, replace(wish, waiting_risk=candidates[place]), is_draft=True).made()
        except RefusedError:
            return None

    @cache
    def loss(place: int) -> float:
        nonlocal n_tried
        n_tried += 1
        # A part of what is left for each: it never ends too early.
        own = part(progress, 1.0 - 0.7 ** (n_tried - 1), 1.0 - 0.7**n_tried)
        plan = draft(place)
        return np.inf if plan is None else expected_loss(plan, model, wish.owners, n_rounds, progress=own)

    if model.counts.n_combinations >= MANY_ROWS:
        return CAUTIOUS, False
    best = candidates.index(usual)
    first = draft(best)
    n_classes = 1 if first is None else first.n_classes
    if n_classes > MOST_CLASSES:
        return CAUTIOUS, False
    n_rounds = max(1, min(N_OWNERS, MOST_CLASSES // n_classes))
    while np.isinf(loss(best)) and best + 1 < len(candidates):
        best += 1  # few records: only a large risk allows a plan at all
    for step in (1, -1):
        while 0 <= best + step < len(candidates) and loss(best + step) < loss(best):
            best += step
    # If no risk allows a plan, making one with the largest says what is missing.
    if np.isinf(loss(best)):
        return candidates[best], False
    searched = Planner(model, replace(wish, waiting_risk=candidates[best])).made()
    return candidates[best], loss(best) < CLEARLY * expected_loss(searched, model, wish.owners, n_rounds)
