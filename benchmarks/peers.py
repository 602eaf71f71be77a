"""Side by side with the peers: pycanon for checking, anjana and anonypyx for anonymizing and attacking.

Every peer runs in `.venv-peers` (see peers.txt), one process per task, on the same tables as we do: 3 quasi-
identifiers with 3000 combinations, 50 diseases, made from a seed. A peer that takes too long or needs too
much memory is ended, and that is its result.

What is compared favours the peers. Their clock runs for the work alone, on a table that is in memory already.
Ours includes reading the file and writing the release. Ratios are our time divided by theirs.

After anonymizing, two tables that share 1000 people are linked: how many values are left for these people is
what each tool guarantees in the end. That is measured with our audit for all, and the peer's own attack must
come to the same sets.
"""

import json
import math
import subprocess
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks._processes import PEERS, run_own, run_peer
from benchmarks._result import Fact
from benchmarks._tables_data import COLUMNS, FIRST_AGE, FIRST_CODE, N_AGES, N_CODES, make_people

NAMES, SENSITIVE = list(COLUMNS[:3]), COLUMNS[3]
ELL, RELEASES = 5, 2
N_COMMON, N_OWNER, N_TARGETS = 1_000, 30_000, 20_000
MOST_SUPPRESSED = 1
FINE = {"n_codes": 600, "n_ages": 100}
"""A table with 120,000 combinations, where classes must be wide."""
FASTER = 1 / 20
"""What our time may be at most, as a share of a peer's, where the project has promised it."""


def run(size):
    if not PEERS.exists():
        print("  peers: not installed (`make bench` installs them into .venv-peers); not compared")
        return
    with tempfile.TemporaryDirectory(prefix="elldelta-peers-") as folder:
        bench = _Bench(Path(folder), size.peer_seconds)
        yield Fact("peer_versions", bench.versions())
        yield from bench.linking()
        for n_rows in size.peer_rows:
            yield from bench.anonymizing(n_rows)
            yield from bench.checking(n_rows)
        if size.name != "quick":
            yield from bench.anonymizing(1_000_000, **FINE)


class _Bench:
    def __init__(self, folder, seconds):
        self.folder = folder
        self.seconds = seconds
        self.known = {}

    def versions(self):
        asked = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in "
        asked += "('pycanon', 'anjana', 'anonypyx', 'numpy', 'pandas')}))"
        done = subprocess.run([PEERS, "-c", asked], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    # The three comparisons

    def anonymizing(self, n_rows, **shape):
        table = self.table(n_rows, **shape)
        ours = self.folder / f"ours_{table.stem}.parquet"
        asked = {"table": str(table), "output": str(ours), "ell": ELL, "releases": RELEASES}
        whole = self.own("anonymize", **asked, records=n_rows)
        again = self.own("release", **asked, plan=str(ours.with_suffix(".plan.json")))
        what = f"{n_rows:,} records" + (", 120,000 combinations" if shape else "")
        yield Fact(
            "anonymizing", {"records": n_rows, "fine": bool(shape), "tool": "plan and release", **whole}
        )
        yield Fact("anonymizing", {"records": n_rows, "fine": bool(shape), "tool": "release", **again})
        for tool, driver in (("anjana", "anjana_anonymize"), ("anonypyx", "anonypyx_mondrian")):
            if self.is_hopeless(driver, n_rows, shape):
                answer = {"problem": f"not tried: took too long with {self.known[driver]:,} records"}
            else:
                where = {"tables": [str(table)], "outputs": [str(self.folder / "x.parquet")]}
                answer = self.peer(driver, n_rows, table=str(table), **where, **_request(shape))
            yield Fact("anonymizing", {"records": n_rows, "fine": bool(shape), "tool": tool, **answer})
            took = answer.get("seconds", answer.get("at_least_seconds"))
            if took is None:
                continue
            for name, own in (("plan and release", whole), ("release", again)):
                is_goal = n_rows == 1_000_000 and not shape and name == "release"
                at_most = "" if "seconds" in answer else " (at most: it was ended)"
                yield (
                    f"{name}: our time / {tool}'s, {what}{at_most}",
                    own["seconds"] / took,
                    FASTER if is_goal else math.inf,
                )

    def checking(self, n_rows):
        """k and ell of the release that we made of the table."""
        release = self.folder / f"ours_{self.table(n_rows).stem}.parquet"
        ours = self.own("verify", table=str(release))
        yield Fact("checking", {"records": n_rows, "tool": "verify", **ours})
        answer = self.peer("pycanon_check", n_rows, table=str(release))
        yield Fact("checking", {"records": n_rows, "tool": "pycanon", **answer})
        took = answer.get("seconds", answer.get("at_least_seconds"))
        if took is not None:
            limit = FASTER if n_rows >= 10_000_000 else math.inf
            yield f"verify: our time / pycanon's, {n_rows:,} records", ours["seconds"] / took, limit
        if "seconds" in answer:
            wrong = (answer["k"], answer["ell"]) != (ours["k"], ours["ell"])
            yield f"k and ell differ from pycanon's, {n_rows:,} records", float(wrong), 0.0

    def linking(self):
        """Two tables with 1000 people in common, anonymized by each tool, linked; and the peer's attack."""
        first, second = (self.table(N_OWNER, first=first) for first in (0, N_OWNER - N_COMMON))
        people = self.table(N_COMMON, first=N_OWNER - N_COMMON)
        past = self.table(1_000_000, seed=3)
        releases = {tool: [self.folder / f"{tool}_{side}.parquet" for side in "ab"] for tool in
                    ("elldelta", "anjana", "anonypyx")}  # fmt: skip
        answers = {"elldelta": {}}
        # The plan comes from other people's records, as it should; both owners use it.
        plan_from = self.folder / "past_release.parquet"
        self.own(
            "anonymize", table=str(past), output=str(plan_from), ell=ELL, releases=RELEASES, records=N_OWNER
        )
        for table, output in zip((first, second), releases["elldelta"], strict=True):
            self.own(
                "release", table=str(table), output=str(output), plan=str(plan_from.with_suffix(".plan.json"))
            )
        for table, output in zip((first, second), releases["anjana"], strict=True):
            answers["anjana"] = self.peer("anjana_anonymize", N_OWNER, table=str(table), output=str(output),
                                          **_request({}))  # fmt: skip
        answers["anonypyx"] = attacked = self.peer(
            "anonypyx_mondrian", N_OWNER, tables=[str(first), str(second)],
            outputs=list(map(str, releases["anonypyx"])), people=str(people), times=3,
        )  # fmt: skip
        for tool, paths in releases.items():
            problem = answers[tool].get("problem")
            if problem:
                yield Fact("linking", {"tool": tool, "problem": problem})
                continue
            found = self.attack(paths, people, N_COMMON)
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
            yield from self.attacking(releases["anonypyx"], first, attacked)

    def attacking(self, paths, first, attacked):
        # The peer needs the same time for everybody; its preparation, quadratic in their number, is left out.
        targets = self.folder / "targets.parquet"
        pq.write_table(pq.read_table(first, columns=NAMES).slice(0, N_TARGETS), targets)
        ours = self.attack(paths, targets, 0)
        peer = attacked["attack_seconds"] * N_TARGETS / N_COMMON
        yield Fact("attacking", {"people": N_TARGETS, "tool": "audit", "seconds": ours["seconds"],
                                 "peak_bytes": ours["peak_bytes"]})  # fmt: skip
        yield Fact("attacking", {"people": N_TARGETS, "tool": "anonypyx", "seconds": peer,
                                 "peak_bytes": attacked["peak_bytes"], "timed_people": N_COMMON})  # fmt: skip
        yield f"audit: our time / anonypyx's, {N_TARGETS:,} people", ours["seconds"] / peer, 0.01

    # Processes

    def own(self, step, **request):
        return run_own(step=step, columns=NAMES, sensitive=SENSITIVE, **request)

    def attack(self, paths, people, n_listed):
        return self.own("attack", outputs=list(map(str, paths)), people=str(people), texts=["gender"],
                        listed=n_listed)  # fmt: skip

    def peer(self, driver, n_rows, *, times=1, **request):
        print(f"  {driver}, {n_rows:,} records ...", flush=True)
        asked = {"columns": NAMES, "sensitive": SENSITIVE, "ell": ELL, **request}
        answer = run_peer(driver, seconds=times * self.seconds, **asked)
        if "at_least_seconds" in answer:
            self.known[driver] = n_rows
        return answer

    def is_hopeless(self, driver, n_rows, shape):
        """Whether it took too long with fewer records already, or with as many and fewer combinations."""
        return self.known.get(driver, math.inf) < n_rows + bool(shape)

    def table(self, n_rows, **options):
        name = "_".join([str(n_rows), *(f"{key}{value}" for key, value in sorted(options.items()))])
        path = self.folder / f"people_{name}.parquet"
        return path if path.exists() else make_people(path, n_rows, **options)


def _request(shape):
    """What anjana wants besides: levels for whole columns, from exact to nothing, all written as ranges."""
    codes = range(FIRST_CODE, FIRST_CODE + shape.get("n_codes", N_CODES))
    ages = range(FIRST_AGE, FIRST_AGE + shape.get("n_ages", N_AGES))
    hierarchies = {
        "postal_code": [list(codes), *(_ranges(codes, width) for width in (5, 10, 100)), ["*"] * len(codes)],
        "gender": [["F", "M"], ["*", "*"]],
        "age": [list(ages), *(_ranges(ages, width) for width in (5, 10, 25)), ["*"] * len(ages)],
    }
    return {"hierarchies": hierarchies, "suppressed": MOST_SUPPRESSED}


def _ranges(numbers, width):
    lows = [number - (number - numbers[0]) % width for number in numbers]
    return [f"{low}-{min(low + width - 1, numbers[-1])}" for low in lows]


def _described(path):
    """Classes and NCP of a release, from its labels."""
    columns = pq.read_table(path, columns=NAMES).group_by(NAMES).aggregate([([], "count_all")]).to_pydict()
    total = sum(columns["count_all"])
    loss = 0.0
    for n, *labels in zip(columns["count_all"], *(columns[name] for name in NAMES), strict=True):
        widths = (_width(label, size) for label, size in zip(labels, (N_CODES, 2, N_AGES), strict=True))
        loss += n * sum(widths) / len(labels)
    return {"classes": len(columns["count_all"]), "ncp": loss / total, "records": total,
            "left_out": 1 - total / N_OWNER}  # fmt: skip


def _width(label, size):
    """The share of its domain that a label spans: `1003`, `1000-1009`, `*`, `F`, `F,M`, `{F, M}`."""
    low, dash, high = str(label).partition("-")
    if dash:
        return (int(high) - int(low)) / (size - 1)
    return float(label == "*" or "," in label)


def _shares(n_left):
    present = [n for n in n_left if n > 0]
    return {
        "people": len(n_left),
        "people_in_both": len(present),
        "below_ell": sum(n < ELL for n in present) / len(present),
        "one_value": sum(n == 1 for n in present) / len(present),
        "fewest": min(present),
    }
