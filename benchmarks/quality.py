"""How much information plans keep on UCI Adult: measured NCP divided by what was asked for.

NCP: per attribute (highest - lowest occupied position of the class) / (domain size - 1), mean over attributes
and records. Education in its natural order, other categories by falling frequency.
"""

from benchmarks._adult import ADULT, adult_model
from elldelta.app.compare import compare_plans
from elldelta.app.plan import plan

CASES = (
    (("sex", "education", "age"), 1, 0.021),
    (("sex", "race", "marital-status", "age", "education"), 2, 0.091),
)


def run():
    if not ADULT.exists():
        print("  quality: skipped, adult.csv is not there")
        return
    for names, releases, allowed in CASES:
        model = adult_model(*names)
        wish = {"ell": 5, "releases": releases, "records": 30_000, "guarantee": "probabilistic"}
        plans = {
            "paper runs": plan(model, bound="paper", shape="runs", **wish),
            "sharp runs": plan(model, shape="runs", **wish),
            "paper boxes": plan(model, bound="paper", shape="boxes", **wish),
            "sharp boxes": plan(model, shape="boxes", **wish),
        }
        measured = dict(zip(plans, compare_plans(list(plans.values()), model), strict=True))
        for name, item in measured.items():
            print(
                f"  {len(names)} attributes, {name}: {item.utility.n_classes} classes, "
                f"NCP {item.utility.ncp:.4f}, median query error {item.queries.median:.1%}"
            )
        ncp = measured["sharp boxes"].utility.ncp
        yield f"NCP of boxes / {allowed}, {len(names)} attributes", ncp / allowed, 1.0
        yield (
            f"NCP of boxes / sharp runs, {len(names)} attributes",
            ncp / measured["sharp runs"].utility.ncp,
            0.6,
        )
