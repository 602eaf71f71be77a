"""How much information plans keep: the three kinds, on generated patients and on UCI Adult.

Of Adult education is in its natural order, other categories by falling frequency. The ratios divide the loss
of boxes by that of the paper's runs.
"""

import numpy as np

from benchmarks._adult import ADULT, adult_model
from benchmarks._result import Fact
from elldelta.errors import RefusedError
from elldelta.model.demo_hospitals import make_region
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

POPULATIONS = {
    "Adult, 3 attributes": ("sex", "education", "age"),
    "Adult, 5 attributes": ("sex", "race", "marital-status", "age", "education"),
}
KINDS = ("paper", "probabilistic", "certified")
ELL, RELEASES, RECORDS = 5, 2, 30_000
SHARE_ALLOWED = 0.6


def run():
    yield from compared("generated patients", patients())
    if not ADULT.exists():
        print("  quality: Adult is skipped, adult.csv is not there")
        return
    for population, names in POPULATIONS.items():
        yield from compared(population, adult_model(*names))


def patients():
    """The past records of the demonstration: 10 postal codes, 3 genders, 100 ages, 20 diseases."""
    table = make_region(np.random.default_rng(1)).past.table()
    return estimate(table, Schema.infer(table, ("postal_code", "gender", "age"), "disease"))


def compared(population, model):
    """Classes and loss of the three kinds of plans."""
    losses = {}
    for kind in KINDS:
        row = {"population": population, "kind": kind, "classes": None, "loss": None}
        try:
            made = plan(model, ell=ELL, releases=RELEASES, records=RECORDS, kind=kind)
        except RefusedError:
            pass
        else:
            losses[kind] = made.loss(model)
            row |= {"classes": made.n_classes, "loss": losses[kind]}
        yield Fact("quality", row)
    if "paper" in losses:
        share = losses["probabilistic"] / losses["paper"]
        yield f"loss of boxes / the paper's runs, {population}", share, SHARE_ALLOWED
