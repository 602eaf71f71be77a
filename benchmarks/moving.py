"""What fixed classes lose, what classes that move up the plan's tree lose, and what one ledger saves.

UCI Adult (sex, race, marital status, age, education; ell = 5, two releases of 30,000 records, every category
in the order in which a schema is inferred). The loss is the NCP of the labels that owners publish over the
range that was seen, the mean of owners whose records are drawn from the model. Ratios: loss over its aim.
"""

import numpy as np

from benchmarks._adult import ADULT, adult_table, owners
from benchmarks._publishing import by_class, publish
from benchmarks._timing import best_time
from elldelta.core.ledger_state import LedgerState
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

QUASI_IDENTIFIERS = ("sex", "race", "marital-status", "age", "education")
WISH = {"ell": 5, "releases": 1, "records": 30_000}
N_OWNERS, MERGE_RISK, TOLERANCE = 4, 0.1, 0.001
FIXED_AIM, FEWEST_CLASSES, MOVED_AIM, DECOYS_AIM = 0.067, 255, 0.043, 0.047


def measured(made, model, *, rho=None, ledger=1):
    """The mean loss of owners, `ledger` of them one after the other through one, with what is left out."""
    losses = []
    for number, table in enumerate(owners(model, N_OWNERS, WISH["records"], seed=7)):
        if number % ledger == 0:
            state = LedgerState.empty(made.promises)
        promises = made.promises if ledger == 1 else state.left()
        done = publish(made, by_class(made, model, table), promises, seed=number, rho=rho)
        state = state.admit(done.shown) if ledger > 1 else state
        losses.append(done.loss)
    return float(np.mean(losses))


def run():
    if not ADULT.exists():
        print("  moving: skipped, adult.csv is not there")
        return
    table = adult_table()
    model = estimate(table, Schema.infer(table, QUASI_IDENTIFIERS, "occupation"))
    seconds = best_time(lambda: plan(model, releases=2, **WISH))
    fixed = plan(model, releases=2, **WISH)
    moving = plan(model, releases=2, merge_risk=MERGE_RISK, **WISH)
    alone = {"fixed": measured(fixed, model), "moving": measured(moving, model)}
    print(f"  fixed: {fixed.n_classes} classes, loss {alone['fixed']:.4f}, planned in {seconds:.2f} s")
    yield "loss / aim, fixed", alone["fixed"] / (FIXED_AIM + TOLERANCE), 1.0
    yield "classes wanted / classes, fixed", FEWEST_CLASSES / fixed.n_classes, 1.0
    without = measured(moving, model, rho=0.0)
    print(f"  moving: {moving.n_classes} leaves, {without:.4f} without decoys, {alone['moving']:.4f} with")
    yield "loss / aim, moving without decoys", without / (MOVED_AIM + TOLERANCE), 1.0
    yield "loss / aim, moving", alone["moving"] / (DECOYS_AIM + TOLERANCE), 1.0
    for kind, more in (("fixed", {}), ("moving", {"merge_risk": MERGE_RISK})):
        made = plan(model, owners=2, **WISH, **more)
        found = measured(made, model, ledger=2)
        print(f"  one ledger, {kind}: {made.n_classes} classes, loss {found:.4f}")
        yield f"one ledger / certificates alone, {kind}", found / alone[kind], 1.0
