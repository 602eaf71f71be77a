"""What is left after linking: two tables that share 1000 people, anonymized by each tool, then linked.

How many values are left for the people who are in both is what each tool guarantees in the end. It is
measured with our audit for all of them. anonypyx has an attack of its own on such releases: it must come to
the same sets, and its time is compared with ours.
"""

import re

import numpy as np
import pyarrow.parquet as pq

from benchmarks._result import Fact
from benchmarks._tables_data import FIRST_AGE, FIRST_CODE, N_AGES, N_CODES
from benchmarks._workbench import ELL, NAMES, RELEASES, levels, workbench
from elldelta.core.utility import information_loss

N_COMMON, N_OWNER, N_TARGETS = 1_000, 30_000, 20_000


def run(size):
    with workbench(size) as bench:
        if bench is not None:
            yield from linking(bench)


def linking(bench):
    """Two tables with 1000 people in common, anonymized by each tool, linked; and the peer's attack."""
    first, second = (bench.table(N_OWNER, first=first) for first in (0, N_OWNER - N_COMMON))
    people = bench.table(N_COMMON, first=N_OWNER - N_COMMON)
    past = bench.table(1_000_000, seed=3)
    releases = {tool: [bench.folder / f"{tool}_{side}.parquet" for side in "ab"] for tool in
                ("elldelta", "anjana", "anonypyx")}  # fmt: skip
    answers = {"elldelta": {}}
    # The plan comes from other people's records, as it should; both owners use it.
    plan_from = bench.folder / "past_release.parquet"
    bench.own(
        "anonymize", table=str(past), output=str(plan_from), ell=ELL, releases=RELEASES, records=N_OWNER
    )
    for table, output in zip((first, second), releases["elldelta"], strict=True):
        bench.own(
            "release", table=str(table), output=str(output), plan=str(plan_from.with_suffix(".plan.json"))
        )
    for table, output in zip((first, second), releases["anjana"], strict=True):
        answers["anjana"] = bench.peer("anjana_anonymize", N_OWNER, table=str(table), output=str(output),
                                      **levels({}))  # fmt: skip
    answers["anonypyx"] = attacked = bench.peer(
        "anonypyx_mondrian", N_OWNER, tables=[str(first), str(second)],
        outputs=list(map(str, releases["anonypyx"])), people=str(people), times=3,
    )  # fmt: skip
    for tool, paths in releases.items():
        problem = answers[tool].get("problem")
        if problem:
            yield Fact("linking", {"tool": tool, "problem": problem})
            continue
        found = attack(bench, paths, people, N_COMMON)
        yield Fact("linking", {"tool": tool, **_described(paths[0]), **_shares(found["n_left"])})
        if tool == "elldelta":
            below = sum(0 < n < ELL for n in found["n_left"])
            yield f"people left with fewer than {ELL} values under our plan", float(below), 0.0
        if tool == "anonypyx":
            wrong = sum(map(lambda a, b: sorted(a) != sorted(b), found["left"], attacked["left"]))
            yield (
                f"people about whom we disagree with anonypyx's attack, of {N_COMMON}",
                float(wrong),
                0.0,
            )
    if "problem" not in attacked:
        yield from attacking(bench, releases["anonypyx"], first, attacked)


def attacking(bench, paths, first, attacked):
    # The peer needs the same time for everybody; its preparation, quadratic in their number, is left out.
    targets = bench.folder / "targets.parquet"
    pq.write_table(pq.read_table(first, columns=NAMES).slice(0, N_TARGETS), targets)
    ours = attack(bench, paths, targets, 0)
    peer = attacked["attack_seconds"] * N_TARGETS / N_COMMON
    yield Fact("attacking", {"people": N_TARGETS, "tool": "audit", "seconds": ours["seconds"],
                             "peak_bytes": ours["peak_bytes"]})  # fmt: skip
    yield Fact("attacking", {"people": N_TARGETS, "tool": "anonypyx", "seconds": peer,
                             "peak_bytes": attacked["peak_bytes"], "timed_people": N_COMMON})  # fmt: skip
    yield f"audit: our time / anonypyx's, {N_TARGETS:,} people", ours["seconds"] / peer, 0.01


def attack(bench, paths, people, n_listed):
    return bench.own("attack", outputs=list(map(str, paths)), people=str(people), texts=["gender"],
                    listed=n_listed)  # fmt: skip


def _described(path):
    """Classes and information loss of a release, from its labels."""
    columns = pq.read_table(path, columns=NAMES).group_by(NAMES).aggregate([([], "count_all")]).to_pydict()
    records = np.array(columns["count_all"])
    ends = ((FIRST_CODE, FIRST_CODE + N_CODES - 1), (0, 1), (FIRST_AGE, FIRST_AGE + N_AGES - 1))
    named = zip(NAMES, ends, strict=True)
    spans = np.array([[_width(str(label), *each) for label in columns[name]] for name, each in named]).T
    n_left_out = N_OWNER - int(records.sum())
    return {"classes": len(records), "loss": information_loss(records, spans, n_left_out),
            "records": int(records.sum()), "left_out": n_left_out / N_OWNER}  # fmt: skip


def _width(label, first, last):
    """The share of its domain that a label spans: `1003`, `1000-1009`, `1020+`, `<=1009`, `*`, `F`, `F,M`."""
    if label == "*" or "," in label:
        return 1.0
    ends = re.fullmatch(r"(?:(\d+)-(\d+)|(\d+)[+]|<=(\d+))", label)
    if ends is None:
        return 0.0
    low, high = ends[1] or ends[3] or first, ends[2] or ends[4] or last
    return (int(high) - int(low)) / (last - first)


def _shares(n_left):
    present = [n for n in n_left if n > 0]
    return {
        "people": len(n_left),
        "people_in_both": len(present),
        "below_ell": sum(n < ELL for n in present) / len(present),
        "one_value": sum(n == 1 for n in present) / len(present),
        "fewest": min(present),
    }
