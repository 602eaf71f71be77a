"""Honest owners of a probabilistic plan are refused by an agency as rarely as the plan says.

A trial: t owners draw N records each from the distribution of the model. It fails if a class of one of them
shows fewer than ell values, or if the ledger has no room for all of them (Theorem F). The plan bounds the
chance of that by `failure_upper`.

False alarms: the number of failures is at most Binomial(n_trials, failure_upper); a run fails by chance with
probability below 1e-6. Rejects: owners that stop at a tenth of N.
"""

import numpy as np
import pytest
from scipy.stats import binom

import elldelta as ed
from elldelta.core.ledger_state import LedgerState
from elldelta.core.promises import Shown
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

N_TRIALS = 1500
FALSE_ALARM = 1e-6


def make_model():
    schema = Schema(
        (Column("age", Integers(0, 39)),), Column("disease", Categories(tuple(f"d{n}" for n in range(8))))
    )
    table = np.random.default_rng(1).integers(1, 60, size=(40, 8))
    rows, values = np.nonzero(table)
    n_records = int(table.sum())
    accounting = Accounting(n_records, n_records)
    return Model(
        Counts.from_cells(
            schema, rows.astype(np.int64), values.astype(np.int64), table[rows, values], accounting
        )
    ), table


def n_failures(plan, probabilities, n_records, rng):
    """Trials in which not all of t owners are admitted."""
    failures = 0
    for _ in range(N_TRIALS):
        state = LedgerState.empty(plan.promises)
        for _ in range(plan.releases):
            counts = rng.multinomial(n_records, probabilities.ravel()).reshape(probabilities.shape)
            shown, diversities = Shown.of(counts), np.count_nonzero(counts, axis=1)
            is_diverse = (diversities[diversities > 0] >= plan.columns[0].ell).all()
            if not is_diverse or not state.admits(shown):
                failures += 1
                break
            state = state.admit(shown)
    return failures


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["probabilistic", "paper"])
def test_honest_owners_are_admitted(kind):
    model, table = make_model()
    plan = ed.plan(model, ell=3, delta=0.05, releases=2, records=700, kind=kind)
    assert plan.n_classes > 1
    probabilities = np.zeros((plan.n_classes, 8))
    np.add.at(probabilities, plan.class_of(np.arange(40)), table / table.sum())
    rng = np.random.default_rng(2)
    most = binom.isf(FALSE_ALARM, N_TRIALS, plan.failure_upper)
    assert n_failures(plan, probabilities, plan.records, rng) <= most
    assert n_failures(plan, probabilities, plan.records // 10, rng) > most
