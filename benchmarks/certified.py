"""Certified releases on UCI Adult: what owners publish, what it costs, and that linking never goes below ell.

Plans for ell = 5, t = 2, N = 30,000 on (sex, race, marital-status, age, education), boxes. Ratios are the
reference's published classes divided by ours (below 1: we publish more), and ell divided by the fewest values
that linking any two of four owners leaves (at most 1: the promise holds).
"""

from itertools import combinations

import numpy as np
from elldelta.core.coarsen import fit

from benchmarks._adult import ADULT, adult_model, owners
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.core.partition import Partition
from elldelta.plan.planner import plan

REFERENCE = {0.01: 349, 0.05: 438, 0.1: 496, 0.2: 530}
ELL, RELEASES, RECORDS = 5, 2, 30_000


def published(made, model, tables):
    """What each owner publishes: classes, loss, and its counts over the plan's classes."""
    class_of = made.class_of(model.ranks)
    results = []
    for table in tables:
        base = np.zeros((made.n_classes, table.shape[1]), dtype=np.int64)
        np.add.at(base, class_of, table)
        results.append(fit(base, made.terms, made.hull_loss, on_failure="coarsen-suppress"))
    return results


def fewest_values_of_pairs(results):
    releases = [ReleasedCounts(item.grouping, item.certificate.counts) for item in results]
    return min(link(pair).diversity for pair in combinations(releases, 2))


def describe(name, made, model, tables):
    results = published(made, model, tables)
    classes = np.mean([item.n_published for item in results])
    loss = np.mean([item.ncp for item in results])
    left_out = np.mean([item.suppressed_share for item in results])
    fewest = fewest_values_of_pairs(results)
    planned = made.hull_loss.ncp(Partition(np.arange(made.n_classes)))
    print(
        f"  {name}: {made.n_classes} planned, {classes:.0f} published, NCP {loss:.4f} "
        f"(planned {planned:.4f}), {left_out:.2%} left out, fewest values linked {fewest}"
    )
    return classes, fewest


def run():
    if not ADULT.exists():
        print("  certified: skipped, adult.csv is not there")
        return
    model = adult_model("sex", "race", "marital-status", "age", "education")
    tables = owners(model, 4, RECORDS, seed=1)
    wish = {"ell": ELL, "releases": RELEASES, "records": RECORDS}
    for risk, reference in REFERENCE.items():
        made = plan(model, merge_risk=risk, **wish)
        classes, fewest = describe(f"waiting risk {risk}", made, model, tables)
        yield f"reference / published classes, waiting risk {risk}", reference / classes, 1.02
        yield f"ell / fewest values of any pair, waiting risk {risk}", ELL / fewest, 1.0
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
