"""Audits of releases that others made: the peer's intersection attack, and ten million rows.

The first ratios compare with `anonypyx` (the extra `bench`): 100 times our time divided by its time for the
same 20,000 people, so that 1 means 100 times faster; and people about whom the two disagree. The others audit
five releases of ten million rows each: time against the bare GROUP BY of all five, memory in GiB.
"""

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._adult import ADULT
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.core.partition import Partition
from elldelta.data.engines.duckdb import connect
from elldelta.data.foreign_cells import cell_counts, people_cells
from elldelta.data.foreign_columns import ColumnRules
from elldelta.data.foreign_release import read_foreign, understand

N_TARGETS, N_TIMED = 20_000, 1_000
N_RELEASES, N_ROWS = 5, 10_000_000
COLUMNS = ("age", "education", "marital-status", "sex")
SENSITIVE = "occupation"


def run():
    yield from against_peer()
    yield from ten_million_rows()


def against_peer():
    try:
        import anonypyx  # noqa: F401
    except ImportError:
        print("  audit: the peer is not installed (pip install 'elldelta[bench]'); not compared")
        return
    if not ADULT.exists():
        print("  audit: adult.csv is not there; not compared with the peer")
        return
    people, readable, attacked = peer_releases()
    start = time.perf_counter()
    ours, values = our_candidates(readable, people)
    own_time = time.perf_counter() - start
    # The peer needs the same time for every target; its preparation, which is quadratic in their number, is
    # left out, and so are 19 of 20 targets: both are to its advantage.
    peers, peer_time = peer_candidates(people.head(N_TIMED), *attacked)
    peer_time *= N_TARGETS / N_TIMED
    print(f"  {N_TARGETS} people in 2 releases: {own_time:.2f} s, anonypyx {peer_time:.0f} s")
    yield "100 x our time / anonypyx, 20,000 people", 100 * own_time / peer_time, 1.0
    wrong = sum(
        {values[place] for place in np.flatnonzero(row)} != found
        for row, found in zip(ours[:N_TIMED], peers, strict=True)
    )
    yield f"people about whom we disagree with anonypyx, of {N_TIMED}", float(wrong), 0.0


def peer_releases():
    """Two overlapping parts of Adult, 3-diverse by the peer's Mondrian, in both of its forms."""
    import anonypyx
    import pandas as pd
    from anonypyx.generalisation import HumanReadable, MachineReadable

    adult = pd.read_csv(ADULT)[[*COLUMNS, SENSITIVE]]
    for name in COLUMNS[1:]:
        adult[name] = adult[name].astype("category")
    rng = np.random.default_rng(1)
    chosen = [np.sort(rng.permutation(len(adult))[:26_000]) for _ in range(2)]
    people = adult.iloc[np.intersect1d(*chosen)[:N_TARGETS]].drop(columns=SENSITIVE).reset_index(drop=True)
    machine = MachineReadable.create_for_data(adult, list(COLUMNS))
    readable, coded = [], []
    for rows in chosen:
        part = adult.iloc[rows].reset_index(drop=True)
        made = anonypyx.Anonymiser(part, k=3, l=3, feature_columns=list(COLUMNS), sensitive_column=SENSITIVE)
        classes = made.algorithm.partition(made.parameters)
        texts = HumanReadable.create_for_data(part, list(COLUMNS)).generalise(part.copy(), classes)
        readable.append(texts.loc[texts.index.repeat(texts["count"])].drop(columns="count").astype(str))
        coded.append(machine.generalise(part.copy(), classes))
    return people, readable, (coded, machine)


def our_candidates(releases, people):
    """From tables in memory to the values left for every person, labels and all."""
    texts = list(people.astype(str).itertuples(index=False, name=None))
    with connect() as engine:
        tables = [engine.open(pa.Table.from_pandas(item, preserve_index=False)) for item in releases]
        read = [read_foreign(table, str(i), COLUMNS, SENSITIVE) for i, table in enumerate(tables)]
    rules = {name: ColumnRules(kind="text", separators="sets") for name in COLUMNS[1:]}
    counts = cell_counts(read, understand(read, rules, people=texts))
    places = people_cells(counts, texts)
    assert (np.diff(places.starts) == 1).all()
    left = np.minimum.reduce([table[places.cells] for table in counts.counts])
    return left > 0, counts.values


def peer_candidates(people, releases, schema):
    from anonypyx.attackers.intersection_attacker import IntersectionAttacker

    known = schema._preprocess(people.copy())
    known["ID"] = np.arange(len(known))
    attacker = IntersectionAttacker(known, list(COLUMNS), SENSITIVE, schema)
    everybody = list(range(len(known)))
    start = time.perf_counter()
    for release in releases:
        attacker.observe(release, [*COLUMNS, SENSITIVE], everybody)
    found = [set(attacker.predict(person, SENSITIVE)) for person in everybody]
    return found, time.perf_counter() - start


def ten_million_rows():
    """In processes of their own, so that the memory is that of an audit and not of making the data."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(1, maxtasksperchild=1) as pool:
        paths = [Path(folder) / f"release_{number}.parquet" for number in range(N_RELEASES)]
        pool.starmap(write_release, enumerate(paths))
        bare = min(pool.apply(bare_group_by, (paths,)) for _ in range(2))
        audited = [pool.apply(audit_all, (paths,)) for _ in range(2)]
    seconds = min(each[0] for each in audited)
    print(f"  5 x 10,000,000 rows: GROUP BY {bare:.2f} s, audit {seconds:.2f} s, {audited[0][2]} cells")
    yield "audit of 5 x 10,000,000 rows / bare GROUP BY of all", seconds / bare, 6.0
    yield "its memory, GiB", max(each[1] for each in audited), 2.0


def write_release(number, path):
    """3000 combinations; the first release shows them all, the others cut ages, each differently."""
    rng = np.random.default_rng(number)
    width = 1 if number == 0 else 4 + number
    lows = np.arange(0, 100, width)
    ages = pa.array([str(low) if width == 1 else f"{low}-{min(low + width - 1, 99)}" for low in lows])
    codes = pa.array([f"56{place:02d}**" for place in range(15)])
    ill = pa.array([f"disease {place}" for place in range(50)])
    size = 1_000_000
    with pq.ParquetWriter(
        path, pa.schema({"age": pa.string(), "code": pa.string(), "sex": pa.string(), "ill": pa.string()})
    ) as writer:
        for _ in range(N_ROWS // size):
            columns = (
                ages.take(pa.array(rng.integers(0, len(lows), size))),
                codes.take(pa.array(rng.integers(0, 15, size))),
                pa.array(["F", "M"]).take(pa.array(rng.integers(0, 2, size))),
                ill.take(pa.array(rng.geometric(0.1, size) % 50)),
            )
            writer.write_table(pa.table(dict(zip(("age", "code", "sex", "ill"), columns, strict=True))))


def bare_group_by(paths):
    with connect() as engine:
        tables = [engine.open(path) for path in paths]
        start = time.perf_counter()
        for table in tables:
            engine.store(
                f"SELECT age, code, sex, ill, count(*) AS n FROM {table.relation} GROUP BY ALL"  # noqa: S608
            )
        return time.perf_counter() - start


def audit_all(paths):
    with connect() as engine:
        start = time.perf_counter()
        read = [read_foreign(engine.open(path), path.name, ("age", "code", "sex"), "ill") for path in paths]
        counts = cell_counts(read, understand(read))
        everything = Partition(np.arange(counts.n_cells))
        link([ReleasedCounts(everything, table) for table in counts.counts])
        seconds = time.perf_counter() - start
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return seconds, gib, counts.n_cells
