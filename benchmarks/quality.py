"""How much information plans keep: measured NCP divided by what was asked for, on UCI Adult.

The facts compare the paper's bound, the sharp one, and certified plans, on generated patients and on Adult.

NCP: per attribute (highest - lowest occupied position of the class) / (domain size - 1), mean over attributes
and records. Education in its natural order, other categories by falling frequency.
"""

import numpy as np

from benchmarks._adult import ADULT, adult_model
from benchmarks._result import Fact
from elldelta.errors import RefusedError
from elldelta.model.demo_hospitals import make_region
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

CASES = (
    (("sex", "education", "age"), 1, 0.021),
    (("sex", "race", "marital-status", "age", "education"), 2, 0.091),
)


KINDS = {"paper": {}, "probabilistic": {}, "certified": {"merge_risk": 0.1}}
ELL, RELEASES, RECORDS = 5, 2, 30_000


def run():
    yield from compared("generated patients", patients())
    if ADULT.exists():
        yield from compared("Adult, 3 attributes", adult_model("sex", "education", "age"))
        yield from compared("Adult, 5 attributes", adult_model(*CASES[1][0]))
    yield from asked_for()


def patients():
    """The past records of the demonstration: 10 postal codes, 3 genders, 100 ages, 20 diseases."""
    table = make_region(np.random.default_rng(1)).past.table()
    return estimate(table, Schema.infer(table, ("postal_code", "gender", "age"), "disease"))


def compared(population, model):
    """Classes and NCP of the three kinds of plans."""
    for kind, wish in KINDS.items():
        row = {"population": population, "kind": kind}
        try:
            made = plan(model, ell=ELL, releases=RELEASES, records=RECORDS, kind=kind, **wish)
        except RefusedError:
            yield Fact("quality", {**row, "classes": None, "loss": None})
            continue
        yield Fact("quality", {**row, "classes": made.n_classes, "loss": made.loss(model)})


def asked_for():
    if not ADULT.exists():
        print("  quality: skipped, adult.csv is not there")
        return
    for names, releases, allowed in CASES:
        model = adult_model(*names)
        wish = {"ell": 5, "releases": releases, "records": 30_000}
        losses = {}
        for kind in ("paper", "probabilistic"):
            made = plan(model, kind=kind, **wish)
            losses[kind] = made.loss(model)
            print(f"  {len(names)} attributes, {kind}: {made.n_classes} classes, loss {losses[kind]:.4f}")
        loss = losses["probabilistic"]
        yield f"loss of boxes / {allowed}, {len(names)} attributes", loss / allowed, 1.0
        yield f"loss of boxes / the paper's runs, {len(names)} attributes", loss / losses["paper"], 0.6
