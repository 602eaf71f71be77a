"""Owners who publish one after the other through one ledger, each leaving a reserve for those who follow.

UCI Adult (ell = 5, owners of 30,000 records drawn from the model, every category in the order in which a
schema is inferred), and a population of 3000 combinations and 50 diseases. The loss of an owner is the NCP of
what it publishes plus what it leaves out. Ratios: the mean loss divided by its aim, the loss of the owner who
loses most in any draw divided by the mean, and ell divided by the fewest values that linking all leaves.
"""

import tempfile
from pathlib import Path

import numpy as np
from elldelta.core.coarsen import fit
from elldelta.core.reserve import Reserve

from benchmarks._adult import ADULT, adult_table, owners
from benchmarks._tables_data import make_people
from elldelta.core.ledger_state import LedgerState
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

QUASI_IDENTIFIERS = ("sex", "race", "marital-status", "age", "education")
ELL, RECORDS, N_DRAWS, N_DRAWS_QUICK = 5, 30_000, 20, 3
AIMS = {2: 0.034, 3: 0.037, 5: 0.041}
FINE_AIM, PLAIN_AIM = 0.0137, 0.041


def by_class(made, model, table):
    base = np.zeros((made.n_classes, table.shape[1]), dtype=np.int64)
    np.add.at(base, made.class_of(model.ranks), table)
    return base


def publish(made, model, tables):
    """What owners publish one after the other; a table's place says how many are still to come."""
    state = LedgerState.empty(made.terms)
    for number, table in enumerate(tables):
        terms, followers = state.terms_left(), len(tables) - 1 - number
        reserve = Reserve.keep(made.cells(), terms, n_records=made.records, followers=followers)
        fitted = fit(
            by_class(made, model, table),
            terms,
            made.hull_loss,
            on_failure="coarsen-suppress",
            reserve=reserve,
        )
        state = state.admit(fitted.certificate.missed)
        yield fitted


def measure(model, n_owners, n_draws):
    """The losses, draws x owners; the classes of each owner; the fewest values that linking all leaves."""
    made = plan(model, ell=ELL, records=RECORDS, owners=n_owners)
    losses, classes, fewest = [], [], model.schema.n_values
    for draw in range(n_draws):
        fitted = list(publish(made, model, owners(model, n_owners, RECORDS, seed=100 + draw)))
        losses.append([item.loss for item in fitted])
        classes.append([item.n_published for item in fitted])
        linked = link([ReleasedCounts(item.grouping, item.certificate.counts) for item in fitted])
        fewest = min(fewest, linked.diversity)
    return np.array(losses), np.mean(classes, axis=0), fewest


def ratios(name, model, n_owners, aim, n_draws):
    losses, classes, fewest = measure(model, n_owners, n_draws)
    told = ", ".join(
        f"{loss:.4f} ({n:.0f} classes)" for loss, n in zip(losses.mean(axis=0), classes, strict=True)
    )
    print(f"  {name}, {n_owners} owners: {told}; mean {losses.mean():.4f}, fewest values linked {fewest}")
    yield f"mean loss / aim, {name}, {n_owners} owners", losses.mean() / aim, 1.0
    yield f"worst owner / mean, {name}, {n_owners} owners", losses.max() / losses.mean(), 1.3
    yield f"ell / fewest values linked, {name}, {n_owners} owners", ELL / fewest, 1.0


def run(size):
    n_draws = N_DRAWS_QUICK if size.name == "quick" else N_DRAWS
    if ADULT.exists():
        table = adult_table()
        schema = Schema.infer(table, QUASI_IDENTIFIERS, "occupation", widen={"age": "no"})
        model = estimate(table, schema)
        for n_owners, aim in AIMS.items():
            yield from ratios("Adult", model, n_owners, aim, n_draws)
        made = plan(model, ell=ELL, releases=2, records=RECORDS)
        plain = [
            fit(
                by_class(made, model, table),
                made.terms,
                made.hull_loss,
                on_failure="coarsen-suppress",
            )
            for table in owners(model, n_draws, RECORDS, seed=7)
        ]
        loss = np.mean([item.loss for item in plain])
        print(f"  Adult, certificates for 2, {made.n_classes} classes: {loss:.4f}")
        yield "mean loss / aim, Adult, certificates alone", loss / PLAIN_AIM, 1.0
    else:
        print("  looking ahead: Adult skipped, adult.csv is not there")
    with tempfile.TemporaryDirectory() as folder:
        past = make_people(Path(folder) / "past.parquet", 1_000_000)
        schema = Schema.infer(past, ("postal_code", "gender", "age"), "disease")
        model = estimate(past, schema)
    yield from ratios("50 diseases", model, 2, FINE_AIM, n_draws)
