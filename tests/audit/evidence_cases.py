"""Small publications of many kinds, each with the folder that somebody signs."""

import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import elldelta as ed
from elldelta.audit.evidence import evidence
from elldelta.audit.evidence_form import write_form
from elldelta.files import PrivateKey

AGES = 12
DISEASES = ("flu", "gout", "mumps", "rash")
STATES = ("home", "ward")
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def people(seed, n, *, skew=0.4, states=False):
    """A table of people of twelve ages, whose diseases depend on the age."""
    rng = np.random.default_rng(seed)
    rest = (1.0 - skew) / 3
    age = rng.integers(0, AGES, n)
    value = (age // 5 + rng.choice(4, n, p=[skew, rest, rest, rest])) % 4
    columns = {"age": age, "disease": np.array(DISEASES)[value]}
    if states:
        columns["state"] = np.array(STATES)[(rng.random(n) < 0.3).astype(int)]
    return pa.table(columns)


def form(folder, threshold, contained):
    """A form that was filled in."""
    write_form(folder / "plan.json", folder / "about.toml", today=dt.date(2026, 1, 1))
    text = (folder / "about.toml").read_text(encoding="utf-8")
    text = re.sub(r'= ""', '= "as we said"', text).replace("= 0.09 ", f"= {threshold} ")
    text = text.replace('contained  = "?"', f'contained  = "{contained}"')
    (folder / "about.toml").write_text(text, encoding="utf-8")
    return folder / "about.toml"


def publish(folder, *, seed=1, wish=None, n=3000, items=1, published=0, threshold=1.0, contained="no", **how):
    """A plan, releases of it, and the folder of evidence about the last ones.

    `how` has: skew of the diseases, states (a second sensitive column), less (people who are missing in the
    published table), raw (a published table as it is, of so many people), ledger, leave_out, other (the wish
    of a plan that the published releases follow).
    """
    wish = {"ell": 2, "releases": 2} | (wish or {})
    options = {"skew": how.get("skew", 0.4), "states": how.get("states", False)}
    sensitive = ["disease", "state"] if options["states"] else "disease"
    past = people(seed, 8000, **options)
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive=sensitive)
    model = ed.estimate(past, schema)
    enough = n - how.get("less", 0)
    plan = ed.plan(model, records=enough, **wish)
    ed.write_plan(plan, folder / "plan.json")
    other = plan if "other" not in how else ed.plan(model, records=enough, **how["other"])
    names = []
    for number in range(published + items):
        is_old = number < published
        name = folder / f"{'old' if is_old else 'new'}_{number}.parquet"
        table = people(100 * seed + number, n, **options)
        if is_old and how.get("less"):
            table = people(100 * seed + published, n, **options).slice(how["less"])
        own = {"leave_out": how.get("leave_out", False)}
        if how.get("person"):  # everybody comes twice, half of them with the same value
            again = table.take([n // 2 * 2 for n in range(len(table))])
            both = pa.concat_tables([table, again])
            table = both.append_column("id", pa.array([n % len(table) for n in range(len(both))]))
            own["person"] = "id"
        if how.get("ledger"):
            own["ledger"] = ed.Ledger(folder / "the.ledger", owner=f"owner{number}")
        if "merge_risk" in wish:
            own |= {"key": PrivateKey.create(), "announced": f"release {number}"}
        ed.release(table, other if is_old else plan, to=name, **own)
        names.append(name)
    if how.get("raw"):
        raw = people(7, how["raw"])
        pq.write_table(
            raw.set_column(0, "age", pa.array([str(a) for a in raw["age"].to_pylist()])),
            folder / "raw.parquet",
        )
        names.insert(0, folder / "raw.parquet")
        published += 1
    record = evidence(
        names[published:],
        folder / "plan.json",
        about=form(folder, threshold, contained),
        to=folder / "out",
        published=names[:published],
        ledger=folder / "the.ledger" if how.get("ledger") else None,
        now=MOMENT,
    )
    return record, plan, names, published


CASES = {
    "one release": {},
    "two releases": {"items": 2, "seed": 2},
    "beside one that is published": {"published": 1, "seed": 3},
    "closeness": {"wish": {"ell": None, "closeness": 0.4}, "items": 2, "seed": 4},
    "both": {"wish": {"closeness": 0.3}, "published": 1, "seed": 5},
    "more than the plan says": {"published": 2, "seed": 6},
    "beside a stricter plan": {"published": 1, "seed": 7, "other": {"ell": 4, "releases": 1}},
    "a table as it is": {"raw": 60, "seed": 8},
    "closeness and a table as it is": {"wish": {"ell": None, "closeness": 0.2}, "raw": 300, "seed": 9},
    "a risk above": {"threshold": 0.001, "seed": 10},
    "open": {"published": 1, "less": 3, "seed": 11, "contained": "?"},
    "contained": {"published": 1, "less": 3, "seed": 12, "contained": "new_1.parquet,old_0.parquet"},
    "denied": {"published": 1, "less": 3, "seed": 13},
    "moving": {"wish": {"merge_risk": 0.2, "releases": 1}, "seed": 14, "n": 400},
    "ledger": {"wish": {"owners": 2, "releases": 1}, "items": 2, "ledger": True, "seed": 15},
    "left out": {"wish": {"ell": 4}, "leave_out": True, "seed": 16},
    "a single record": {"wish": {"ell": None, "closeness": 0.95, "k": 1, "releases": 1}, "n": 40, "seed": 19},
    "persons": {"person": True, "n": 1000, "seed": 20},
    "two columns": {"states": True, "seed": 17},
    "two columns, both close": {"states": True, "wish": {"closeness": 0.4}, "items": 2, "seed": 18},
}
