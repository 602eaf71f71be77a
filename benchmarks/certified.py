"""Certified releases on UCI Adult: what owners publish, what it costs, and that linking never goes below ell.

Plans for ell = 5, t = 2, N = 30,000 on (sex, race, marital-status, age, education), boxes: fixed classes, and
classes that move up the tree of the plan. Ratios are the loss divided by what was measured when plans began
to name only values that five past people or more have; the loss of two owners who publish through one ledger
divided by that with certificates alone; and ell divided by the fewest values that linking any two of four
owners leaves (at most 1: the promise holds).
"""

from itertools import combinations

import numpy as np

from benchmarks._adult import ADULT, adult_table, owners
from benchmarks._publishing import by_class, publish
from elldelta.core.ledger_state import LedgerState
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

MOST_LOSS = {None: 0.071, 0.1: 0.063}
"""By merge risk; None stands for fixed classes."""
QUASI_IDENTIFIERS = ("sex", "race", "marital-status", "age", "education")
ELL, RELEASES, RECORDS = 5, 2, 30_000


def published(made, model, tables):
    """What each owner publishes: classes, loss, and its counts over the plan's classes."""
    return [publish(made, by_class(made, model, table), seed=seed) for seed, table in enumerate(tables)]


def fewest_values_of_pairs(results):
    releases = [ReleasedCounts(item.grouping, item.shown.counts) for item in results]
    return min(link(pair).diversity for pair in combinations(releases, 2))


def describe(name, made, model, tables):
    results = published(made, model, tables)
    classes = np.mean([item.shown.n_published for item in results])
    loss = np.mean([item.loss for item in results])
    left_out = np.mean([item.left_out for item in results])
    fewest = fewest_values_of_pairs(results)
    planned = made.loss(model)
    print(
        f"  {name}: {made.n_classes} planned, {classes:.0f} published, loss {loss:.4f} "
        f"(planned {planned:.4f}), {left_out:.2%} left out, fewest values linked {fewest}"
    )
    return loss, fewest


def through_one_ledger(made, model, tables):
    """The mean loss of owners who publish one after the other, each two through a ledger of their own."""
    losses = []
    for number, table in enumerate(tables):
        if number % RELEASES == 0:
            state = LedgerState.empty(made.promises)
        done = publish(made, by_class(made, model, table), state.left(), seed=number)
        state = state.admit(done.shown)
        losses.append(done.loss)
    return np.mean(losses)


def run():
    if not ADULT.exists():
        print("  certified: skipped, adult.csv is not there")
        return
    table = adult_table()
    model = estimate(table, Schema.infer(table, QUASI_IDENTIFIERS, "occupation", widen={"age": "no"}))
    tables = owners(model, 4, RECORDS, seed=1)
    wish = {"ell": ELL, "releases": RELEASES, "records": RECORDS}
    for risk, most in MOST_LOSS.items():
        name = "fixed classes" if risk is None else f"merge risk {risk}"
        loss, fewest = describe(name, plan(model, merge_risk=risk, **wish), model, tables)
        yield f"loss / measured before, {name}", loss / most, 1.02
        yield f"ell / fewest values of any pair, {name}", ELL / fewest, 1.0
        shared = plan(model, ell=ELL, owners=RELEASES, records=RECORDS, merge_risk=risk)
        together = through_one_ledger(shared, model, tables)
        print(f"  through one ledger, {name}: {shared.n_classes} planned, loss {together:.4f}")
        yield f"loss through one ledger / with certificates alone, {name}", together / loss, 1.0
    made = plan(model, merge_risk=0.1, **wish)
    rng = np.random.default_rng(2)
    # A wrong model: owners whose sensitive values are distributed quite differently from the plan's.
    tilt = rng.uniform(0.1, 1.0, size=model.schema.n_values)
    wrong = [rng.binomial(table, tilt) for table in owners(model, 4, 2 * RECORDS, seed=4)]
    _, fewest = describe("a wrong distribution", made, model, wrong)
    yield "ell / fewest values of any pair, wrong distribution", ELL / fewest, 1.0
    # Households: every record four times, so there is a quarter of the information in as many records.
    households = [4 * table for table in owners(model, 4, RECORDS // 4, seed=3)]
    _, fewest = describe("households of four equal records", made, model, households)
    yield "ell / fewest values of any pair, households", ELL / fewest, 1.0
