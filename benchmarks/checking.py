"""Checking k-anonymity and l-diversity side by side with a peer, pycanon.

Every peer runs in `.venv-peers` (see peers.txt), one process per task, on the same tables as we do: 3 quasi-
identifiers with 3000 combinations, 50 diseases, made from a seed. A peer that takes too long or needs too
much memory is ended, and that is its result.

What is compared favours the peers. Their clock runs for the work alone, on a table that is in memory already.
Ours includes reading the file and writing the release, and adds up all threads. Ratios are our processor time
divided by theirs.
"""

import math

from benchmarks._result import Fact
from benchmarks._workbench import ELL, RELEASES, workbench

FASTER = 1 / 30
"""What our time may be at most, as a share of pycanon's, for ten million records."""


def run(size):
    with workbench(size) as bench:
        if bench is not None:
            for n_rows in size.peer_rows:
                yield from checking(bench, n_rows)


def checking(bench, n_rows):
    """k and ell of the release that we made of the table."""
    table, release = bench.table(n_rows), bench.folder / f"ours_{n_rows}.parquet"
    asked = {"table": str(table), "output": str(release), "ell": ELL, "releases": RELEASES}
    bench.own("anonymize", **asked, records=n_rows)
    ours = bench.own("verify", table=str(release))
    yield Fact("checking", {"records": n_rows, "tool": "verify", **ours})
    answer = bench.peer("pycanon_check", n_rows, table=str(release))
    yield Fact("checking", {"records": n_rows, "tool": "pycanon", **answer})
    took = answer.get("seconds", answer.get("at_least_seconds"))
    if took is not None:
        limit = FASTER if n_rows >= 10_000_000 else math.inf
        yield f"verify: our time / pycanon's, {n_rows:,} records", ours["seconds"] / took, limit
    if "seconds" in answer:
        wrong = (answer["k"], answer["ell"]) != (ours["k"], ours["ell"])
        yield f"k and ell differ from pycanon's, {n_rows:,} records", float(wrong), 0.0
