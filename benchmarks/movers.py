"""People who move between two releases: a birthday, five years, a marriage.

UCI Adult (ell = 5, two releases of 30,000 records drawn from the model, every category in the order in which
a schema is inferred). Everybody in Adult is in both releases, in the second one with another age or marital
status. Counted are people who are left with fewer than five values although both releases are certified:
with a plan that knows of no changes, with one whose schema declares them, and with one for any changes.
Ratios: the classes wanted of the last one divided by its published classes, its loss divided by what it may
lose, and one more than the people below five, which must be one.
"""

from dataclasses import replace

import numpy as np

from benchmarks._adult import ADULT, adult_table, owners
from benchmarks._publishing import by_class, publish
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

QUASI_IDENTIFIERS = ("sex", "race", "marital-status", "age", "education")
ELL, RECORDS, N_OWNERS = 5, 30_000, 8
FEWEST_CLASSES, MOST_LOSS = 165, 0.087
CHANGING = ("age", "marital-status")
MARRIED = "Married-civ-spouse"


def moved(schema, positions):
    """Where everybody is in the second release, by what has happened to them."""
    age, marital = (schema.names.index(name) for name in CHANGING)
    later = {}
    for name, place, years in (("age + 1", age, 1), ("age + 5", age, 5)):
        later[name] = positions.copy()
        later[name][:, place] = np.minimum(positions[:, place] + years, schema.sizes[place] - 1)
    later["marrying"] = positions.copy()
    later["marrying"][:, marital] = schema.quasi_identifiers[marital].domain.values.index(MARRIED)
    return later


def below(made, model, first, second, later):
    """People in both releases who are left with fewer than ell values, and the fewest that anybody has."""
    people = model.counts.dense().sum(axis=1)
    shown = []
    for fitted, positions in ((first, model.positions), (second, later)):
        classes = made.class_of(made.schema.ranks(positions))
        shown.append(fitted.shown.counts[fitted.grouping.class_of[classes]])
    is_in_both = shown[0].any(axis=1) & shown[1].any(axis=1)
    left = ((shown[0] > 0) & (shown[1] > 0)).sum(axis=1)
    return int(people[is_in_both & (left < ELL)].sum()), int(left[is_in_both].min())


def run():
    if not ADULT.exists():
        print("  movers: skipped, adult.csv is not there")
        return
    table = adult_table()
    schema = Schema.infer(table, QUASI_IDENTIFIERS, "occupation", widen={"age": "no"})
    columns = tuple(replace(column, changes=column.name in CHANGING) for column in schema.quasi_identifiers)
    declared = replace(schema, quasi_identifiers=columns)
    asked = {"ell": ELL, "releases": 2, "records": RECORDS}
    for name, known, more in (
        ("nobody, merge risk 0.1", schema, {"merge_risk": 0.1}),
        ("nobody", schema, {}),
        ("declared", declared, {}),
        ("any", declared, {"movers": "any"}),
    ):
        model = estimate(table, known)
        made = plan(model, **asked, **more)
        tables = owners(model, N_OWNERS, RECORDS, seed=7)
        fitted = [publish(made, by_class(made, model, own), seed=seed) for seed, own in enumerate(tables)]
        n_classes = np.mean([item.shown.n_published for item in fitted])
        loss = np.mean([item.loss for item in fitted])
        print(f"  {name}: {n_classes:.0f} classes, loss {loss:.4f}")
        for what, later in moved(known, model.positions).items():
            found = [below(made, model, *pair, later) for pair in zip(fitted[::2], fitted[1::2], strict=True)]
            told = ", ".join(f"{n} (fewest {fewest})" for n, fewest in found)
            print(f"    {what}: people below {ELL} of {model.n_records}, per pair of owners: {told}")
            if made.movers is not None:
                yield f"1 + people below, {name}, {what}", 1 + max(n for n, _ in found), 1.0
        if name == "any":
            yield "classes wanted / published, any", FEWEST_CLASSES / n_classes, 1.0
            yield "loss / allowed, any", loss / MOST_LOSS, 1.0
