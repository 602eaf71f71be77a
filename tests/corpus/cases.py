"""The cases of the corpus: what a few hundred random small worlds are planned, released and judged like.

A case is a kind of story and a seed. `run` tells it again and returns its facts; a refusal is a fact, too.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tests.coins import KEY
from tests.corpus import facts
from tests.corpus.worlds import DISEASES, GROUPS, JOBS, TOWNS, Shape, World, random_shape

import elldelta as ed
from elldelta.audit.columns import ForeignColumns
from elldelta.schema.label_columns import ColumnRules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


WAYS = (False, True)
"""Whether owners leave classes out that do not pass; where classes move, they never do."""
UNCHECKED = (False, False, False, False, True)


class Bench:
    """Where a case is tried: a folder of its own, an engine, and its random numbers."""

    def __init__(self, seed: tuple[int, int], folder: Path, engine: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.folder, self.engine = folder, engine

    def one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def model(self, world: World, n_past: int = 3000) -> ed.Model:
        past = world.everything(n_past)
        return ed.estimate(past, world.schema(past), engine=self.engine)

    def release(self, table: pd.DataFrame, plan: ed.Plan, name: str, **options: Any) -> ed.Release:
        kind = self.one("csv", "csv", "csv", "parquet")
        if plan.moving is not None:
            options = {**options, "leave_out": False, "key": KEY, "announced": name}
        return ed.release(table, plan, to=self.folder / f"{name}.{kind}", engine=self.engine, **options)

    def audit(self, releases: Any, **options: Any) -> dict[str, Any]:
        return facts.of_audit(ed.audit(releases, engine=self.engine, **options))


def planned(model: ed.Model, kind: str, **wish: Any) -> ed.Plan:
    """All plans of the corpus are asked for here."""
    return ed.plan(model, kind=kind, **{"releases": 1} | wish)


def tried(act: Callable[[], Any]) -> Any:
    """What came out, or what kind of error."""
    try:
        return act()
    except ed.ElldeltaError as error:
        return f"{type(error).__name__} {error.exit_code}"


def _ell(bench: Bench, names: tuple[str, ...], most: int = 4) -> Any:
    """One number, or one for each of several columns."""
    if len(names) == 1:
        return int(bench.rng.integers(2, most + 1))
    return {name: int(bench.rng.integers(1 if place else 2, 4)) for place, name in enumerate(names)}


def _limits(bench: Bench, names: tuple[str, ...]) -> Any:
    limits = [bench.one(0.2, 0.35, 0.5) for _ in names]
    return limits[0] if len(names) == 1 else dict(zip(names, limits, strict=True))


def _published(
    bench: Bench, world: World, plan: ed.Plan, found: dict[str, Any], ways: tuple[Any, ...] = WAYS
) -> list[ed.Release]:
    """Owners publish under a plan; then anybody verifies and links what they have published."""
    made: list[ed.Release] = []
    for owner in range(int(bench.one(1, 2, 2, 3))):
        table = world.born(int(plan.records * bench.one(0.9, 1.0, 1.0, 1.2, 2.0)))
        name = f"release {owner}"
        release = tried(partial(bench.release, table, plan, name, leave_out=bench.one(*ways)))
        if isinstance(release, str):
            found[name] = release
            continue
        made.append(release)
        verified = ed.verify(release, plan, engine=bench.engine)
        found[name] = {**facts.of_release(release), "verified": facts.of_verification(verified)}
    if made:
        found["audit"] = tried(lambda: bench.audit(made, ell=2))
    if len(made) > 1:
        gate = tried(lambda: ed.audit_before(made[-1], made[:-1], ell=2, engine=bench.engine))
        found["gate"] = gate if isinstance(gate, str) else facts.of_gate(gate)
    return made


def certified(bench: Bench) -> dict[str, Any]:
    """Plans whose releases are checked, of all shapes of worlds."""
    shape = random_shape(bench.rng)
    world = World(bench.rng, shape)
    wish = {
        "ell": _ell(bench, shape.sensitive),
        "releases": bench.one(1, 2, 2, 3),
        "records": bench.one(400, 800, 1500),
        "min_records": bench.one(1, 1, 1, 2),
        **bench.one({}, {"merge_risk": 0.1}, {"merge_risk": 0.3}, {"delta": 0.01}, {"delta": 0.1}),
    }
    plan = planned(bench.model(world), "certified", **wish)
    found = {"plan": facts.of_plan(plan)}
    _published(bench, world, plan, found)
    return found


def probabilistic(bench: Bench) -> dict[str, Any]:
    """Plans whose releases are published at N records without looking."""
    shape = random_shape(bench.rng)
    world = World(bench.rng, shape)
    wish = {
        "ell": _ell(bench, shape.sensitive),
        "releases": bench.one(1, 2, 3),
        "records": bench.one(800, 2000, 5000),
        **bench.one({}, {"delta": 0.001}, {"delta": 0.2}),
    }
    plan = planned(bench.model(world), "probabilistic", **wish)
    found = {"plan": facts.of_plan(plan)}
    _published(bench, world, plan, found, UNCHECKED)
    return found


def paper(bench: Bench) -> dict[str, Any]:
    """The paper as it stands: runs, its bound, its N."""
    shape = random_shape(bench.rng, most_sensitive=1, groups=False)
    world = World(bench.rng, shape)
    wish = {
        "ell": _ell(bench, shape.sensitive),
        "releases": bench.one(1, 2, 3),
        "delta": bench.one(0.01, 0.1),
        **bench.one({"p": 0.002}, {"p": 0.01}, {"beta": 0.05}, {"beta": 0.3}),
    }
    plan = planned(bench.model(world), "paper", **wish)
    found = {"plan": facts.of_plan(plan)}
    if plan.records <= 20_000:
        _published(bench, world, plan, found, UNCHECKED)
    return found


def closeness(bench: Bench) -> dict[str, Any]:
    """Plans for closeness, alone or beside ell."""
    shape = random_shape(bench.rng, most_sensitive=2, groups=bool(bench.rng.random() < 0.15))
    world = World(bench.rng, shape)
    wish = {
        "closeness": _limits(bench, shape.sensitive),
        "closeness_to": bench.one("class", "overall"),
        "releases": bench.one(1, 1, 2),
        "records": bench.one(800, 2000),
        **bench.one({}, {}, {"ell": _ell(bench, shape.sensitive, 3)}),
        **bench.one({}, {"merge_risk": 0.2}),
    }
    plan = planned(bench.model(world), "certified", **wish)
    found = {"plan": facts.of_plan(plan)}
    made = _published(bench, world, plan, found)
    if made and len(shape.sensitive) == 1:
        found["believed"] = tried(
            lambda: bench.audit(made, ell=1, closeness=0.4, closeness_to=plan)["closeness"]
        )
    table = world.born(600)
    columns = ForeignColumns(shape.quasi_identifiers, shape.sensitive[0])
    raw = table.drop(columns="who").astype(str)
    if len(shape.sensitive) == 1 and "admitted" not in shape.quasi_identifiers and not shape.missing:
        found["raw"] = tried(lambda: bench.audit([raw], ell=2, closeness=0.4, columns=columns))
    return found


def persons(bench: Bench) -> dict[str, Any]:
    """People with several records, each of whom is shown once per value."""
    shape = random_shape(bench.rng, most_sensitive=1)
    world = World(bench.rng, shape)
    past = world.everything(3000)
    model = ed.estimate(past, world.schema(past), person="who", engine=bench.engine)
    wish = {"ell": bench.one(2, 3), "releases": bench.one(1, 2), "records": bench.one(400, 900)}
    plan = planned(model, "certified", min_records=bench.one(1, 1, 2), **wish)
    found = {"plan": facts.of_plan(plan)}
    repeated = world.born(round(1.7 * plan.records), records_per_person=1.6)
    for leave_out in WAYS:
        name = "left out" if leave_out else "whole"
        made = tried(partial(bench.release, repeated, plan, name, person="who", leave_out=leave_out))
        found[name] = made if isinstance(made, str) else facts.of_release(made)
    return found


def ledger(bench: Bench) -> dict[str, Any]:
    """Owners who publish through one ledger until it is full; one of them comes again with another table."""
    shape = random_shape(bench.rng, most_sensitive=2)
    world = World(bench.rng, shape)
    expected = bench.one(None, None, 3) if len(shape.sensitive) == 1 else None
    wish = {"ell": _ell(bench, shape.sensitive), "releases": 1, "records": bench.one(400, 800)}
    close = {"closeness": 0.5} if len(shape.sensitive) == 1 and bench.rng.random() < 0.2 else {}
    how = {"owners": expected} if expected and not close else bench.one({}, {"merge_risk": 0.3})
    plan = planned(bench.model(world), "certified", **wish, **close, **how)
    found: dict[str, Any] = {"plan": facts.of_plan(plan)}
    made = []
    for number in range(5):
        owner = "a" if number == 3 else "abcde"[number]
        table = world.born(int(plan.records * bench.one(1.0, 1.3, 2.0)))
        leave_out = bench.one(*WAYS)
        name, through = f"release {number}", ed.Ledger(bench.folder / "releases.ledger", owner)
        admitted = tried(partial(bench.release, table, plan, name, ledger=through, leave_out=leave_out))
        found[name] = admitted if isinstance(admitted, str) else facts.of_release(admitted)
        if not isinstance(admitted, str):
            made.append(admitted)
    if made:
        found["audit"] = tried(lambda: bench.audit(made))
    return found


def movers(bench: Bench) -> dict[str, Any]:
    """People who move among classes. Which witnesses classes share may be found in other ways: what is kept
    is that whoever is in two admitted releases, in whichever classes, is left with ell values."""
    names = tuple(bench.rng.permutation(["age", "sex", "town"])[: bench.one(1, 2, 3)].tolist())
    changes = bench.one((), names[:1], names[-1:])
    shape = Shape(names, tree=bench.one(True, False), groups=bench.one(False, False, True), changes=changes)
    world = World(bench.rng, shape)
    ell = bench.one(2, 3)
    plan = planned(
        bench.model(world, 6000), "certified", ell=ell, releases=2, records=bench.one(1500, 3000),
        movers="declared" if changes else "any",
    )  # fmt: skip
    made = []
    for number in range(2):
        table = world.born(2 * plan.records)
        made.append(bench.release(table, plan, f"release {number}", leave_out=True))
    stays = [name for name in names if changes and name not in changes]
    shown = [_shown(release, names) for release in made]
    pairs = [(one, other) for one in shown[0] for other in shown[1] if _meet(one, other, names, stays)]
    counts_as = GROUPS if shape.groups else DISEASES
    group_of = dict(zip(DISEASES, counts_as, strict=True))
    left = [len({group_of[value] for value in shown[0][one] & shown[1][other]}) for one, other in pairs]
    return {
        "kept": min(left) >= ell,
        "verified": [ed.verify(release, plan, engine=bench.engine).is_certified for release in made],
        "holds": ed.audit(made, engine=bench.engine).holds,
    }


def _shown(release: ed.Release, names: tuple[str, ...]) -> dict[tuple[str, ...], set[str]]:
    """The values that every class of a release shows."""
    read = pd.read_csv if release.place.suffix == ".csv" else pd.read_parquet
    return read(release.place).astype(str).groupby(list(names))["disease"].agg(set).to_dict()


def _meet(one: Any, other: Any, names: tuple[str, ...], stays: list[str]) -> bool:
    """Whether somebody can be in both: where a column stays the same, equal labels say that for sure."""
    keys = [key if isinstance(key, tuple) else (key,) for key in (one, other)]
    return all(keys[0][names.index(name)] == keys[1][names.index(name)] for name in stays)


def living(bench: Bench) -> dict[str, Any]:
    """Two owners whose tables change, three times each."""
    names = bench.one(("age", "sex"), ("town", "sex"), ("age",))
    world = World(bench.rng, Shape(names, tree=bench.one(True, False), groups=bench.one(False, False, True)))
    plan = planned(bench.model(world, 4000), "certified", ell=bench.one(2, 3), records=1500)
    found: dict[str, Any] = {"plan": facts.of_plan(plan)}
    longest, returns = bench.one(None, None, 1), bench.one(False, False, True)
    gone = dict.fromkeys("ab", pd.DataFrame())
    tables = {owner: world.born(2500) for owner in "ab"}
    last: dict[str, ed.Release] = {}
    for period in range(3):
        for owner in "ab":
            table, erase = tables[owner], None
            if period:
                stay = table[bench.rng.random(len(table)) >= bench.one(0.02, 0.1, 0.9)]
                if period == 2 and bench.rng.random() < 0.5:
                    erase = bench.folder / f"erase {owner}.csv"
                    table.loc[~table.index.isin(stay.index), ["who"]].head(1).to_csv(erase, index=False)
                back = gone[owner].head(20 if returns else 0)
                gone[owner] = table[~table.index.isin(stay.index)].tail(30)
                table = pd.concat([stay, back, world.born(bench.one(50, 400, 800))], ignore_index=True)
                tables[owner] = table
            state = [bench.folder / f"state {owner} {number}.parquet" for number in (period, period - 1)]
            rules = ed.UpdatePolicy(state[0], state[1] if period else None, erase, longest_wait=longest)

            name = f"{owner} {period}"
            options = {
                "person": "who", "updates": rules, "ledger": ed.Ledger(bench.folder / "ledger", owner),
                "leave_out": not period,
            }  # fmt: skip
            made = tried(partial(bench.release, table, plan, name, **options))
            if isinstance(made, str):
                found[name] = made
                return found
            last[owner] = made
            found[name] = facts.of_release(made)
            if returns:  # how many wait who have been there before is counted elsewhere
                found[name] = {fact: found[name][fact] for fact in ("file", "classes", "diversity")}
            elif period:
                found[name]["update"] = [made.manifest.update[each] for each in UPDATED]
    found["audit"] = tried(lambda: bench.audit(list(last.values())))
    return found


UPDATED = (
    "classes_changed", "classes_unchanged", "classes_waiting", "classes_withheld", "records_joined",
    "records_left", "records_waiting", "records_lingering",
)  # fmt: skip


def _labelled(bench: Bench, people: pd.DataFrame) -> pd.DataFrame:
    """People as somebody else has generalized them: ages in bands, towns in groups, some of it left out."""
    width, at_once = bench.one(2, 3, 6), bench.one(1, 2, 7)
    low = people["age"] // width * width
    sets = [TOWNS[place : place + at_once] for place in people["town"] // at_once * at_once]
    frame = pd.DataFrame(
        {
            "age": [f"{a}-{a + width - 1}" for a in low],
            "town": [each[0] if len(each) == 1 else "{" + ", ".join(each) + "}" for each in sets],
            "job": people["job"].to_numpy(),
        }
    )
    if bench.one(True, False, False):
        frame.loc[bench.rng.random(len(frame)) < 0.03, ["age", "town"]] = "*"
    return frame


def _people(bench: Bench, n: int) -> pd.DataFrame:
    values = JOBS[: bench.one(3, 4, 6)]
    drawn = [bench.rng.integers(0, most, n) for most in (12, len(TOWNS), len(values))]
    return pd.DataFrame({"age": drawn[0], "town": drawn[1], "job": np.array(values)[drawn[2]]})


def foreign(bench: Bench) -> dict[str, Any]:
    """Audits of what others have published, without any plan or manifest."""
    people = _people(bench, int(bench.rng.integers(30, 200)))
    tables = [_labelled(bench, people)]
    for _ in range(bench.one(0, 1, 1, 2)):
        if bench.one(True, False):
            people = pd.concat([people.iloc[bench.one(0, 9) :], _people(bench, 12)], ignore_index=True)
        tables.append(_labelled(bench, people))
    columns = ForeignColumns(("age", "town"), "job", rules={"age": ColumnRules(kind="number")})
    ell = bench.one(2, 3)
    asked = {"ell": ell, "columns": columns}
    found = {"audit": tried(lambda: bench.audit(tables, **asked))}
    found["close"] = tried(lambda: bench.audit(tables, closeness=bench.one(0.3, 0.6), **asked)["closeness"])
    sought = _people(bench, 8).drop(columns="job")
    sought["town"] = np.array(TOWNS)[sought["town"]]
    found["targets"] = tried(lambda: bench.audit(tables, targets=sought, **asked)["targets"])
    left = tried(lambda: ed.targets(tables, sought, columns=columns, engine=bench.engine))
    found["left"] = left if isinstance(left, str) else facts.digest(list(map(str, left.to_pylist())))
    if len(tables) > 1:
        gate = tried(lambda: ed.audit_before(tables[-1], tables[:-1], engine=bench.engine, **asked))
        found["gate"] = gate if isinstance(gate, str) else facts.of_gate(gate)
        found["same"] = tried(lambda: bench.audit(tables, contained=[[0, 1]], **asked)["subtraction"])
        order = list(range(len(tables)))
        found["series"] = tried(lambda: bench.audit(tables, series=[order], **asked)["series"])
    return found


def merged(bench: Bench) -> dict[str, Any]:
    """Releases of several plans, models that were added up, and what the plans promise together."""
    shape = random_shape(bench.rng, most_sensitive=2, groups=False)
    world = World(bench.rng, shape)
    past = world.everything(2400)
    schema = world.schema(past)
    halves = [ed.estimate(part, schema, engine=bench.engine) for part in (past[:1000], past[1000:])]
    model = ed.merge_models(halves)
    plans = [
        planned(model, kind, ell=_ell(bench, shape.sensitive, 3), records=bench.one(1000, 2500), **more)
        for kind, more in (("certified", {"merge_risk": 0.2}), ("probabilistic", {"delta": 0.1}))
    ]
    found = {f"plan {number}": facts.of_plan(plan) for number, plan in enumerate(plans)}
    numbers = [bench.one(1, 2), bench.one(1, 3)]
    composed = tried(lambda: ed.compose(list(zip(plans, numbers, strict=True))).to_dict())
    if not isinstance(composed, str):
        composed = [[line["delta"] for line in each["profile"]] for each in composed["columns"]]
    found["together"] = composed
    made = []
    for number, plan in enumerate(plans):
        name, table = f"release {number}", world.born(round(1.2 * plan.records))
        release = tried(partial(bench.release, table, plan, name))
        found[name] = release if isinstance(release, str) else facts.of_release(release)
        made += [] if isinstance(release, str) else [release]
    if made:
        found["audit"] = tried(lambda: bench.audit(made, ell=2))
    return found


def checked(bench: Bench) -> dict[str, Any]:
    """One table, measured as it is."""
    shape = random_shape(bench.rng, most_sensitive=1)
    world = World(bench.rng, shape)
    table = world.born(int(bench.rng.integers(50, 800)), records_per_person=1.3)
    person = bench.one(None, "who")
    told = ed.check(table, list(shape.quasi_identifiers), "disease", person=person, engine=bench.engine)
    return facts.numbers_of(told.to_dict())


def refused(bench: Bench) -> dict[str, Any]:
    """What is not done, each with its kind of error."""
    shape = random_shape(bench.rng, most_sensitive=1, groups=False)
    world = World(bench.rng, shape)
    model = bench.model(world, 1500)
    plan = planned(model, "certified", ell=2, releases=2, records=400)
    table = world.born(500)
    wrong, few, other = table.copy(), table[:200], table.rename(columns={"disease": "illness"})
    wrong["disease"] = "plague"
    one_value = table.assign(disease="flu")
    taken = bench.folder / "taken.csv"
    taken.write_text("mine\n")
    made = bench.release(table, plan, "good", leave_out=True)
    text = made.place.read_bytes()
    changed = bench.folder / f"changed{made.place.suffix}"
    changed.write_bytes(text[:-20] + text[-20:].replace(b"\n", b"\r\n", 1) + b"x")
    beside = [place.with_name(f"{place.name}.manifest.json") for place in (made.place, changed)]
    beside[1].write_bytes(beside[0].read_bytes())
    once = planned(model, "certified", ell=2, records=400)
    moving = planned(model, "certified", ell=2, records=400, merge_risk=0.2)
    through = ed.Ledger(bench.folder / "full.ledger", "a")
    engine = bench.engine
    acts: dict[str, Callable[[], Any]] = {
        "too many values": lambda: planned(model, "certified", ell=20, records=400),
        "too few records": lambda: planned(model, "certified", ell=8, records=3, delta=1e-9),
        "no promise": lambda: planned(model, "certified", records=400),
        "too sure": lambda: planned(model, "probabilistic", ell=6, releases=3, records=5, delta=1e-6),
        "delta of one": lambda: planned(model, "probabilistic", ell=2, records=400, delta=1.0),
        "risk of one": lambda: planned(model, "certified", ell=2, records=400, merge_risk=1.0),
        "no releases": lambda: planned(model, "certified", ell=2, releases=0, records=400),
        "beta above one": lambda: planned(model, "paper", ell=2, beta=1.5),
        "p too large": lambda: planned(model, "paper", ell=2, p=0.9),
        "risk without a check": lambda: planned(model, "probabilistic", ell=2, records=400, merge_risk=0.1),
        "owners and releases": lambda: planned(model, "certified", ell=2, releases=2, records=400, owners=3),
        "closeness and owners": lambda: planned(model, "certified", closeness=0.2, records=400, owners=3),
        "closeness too near": lambda: planned(model, "certified", closeness=0.001, records=50),
        "unknown value": lambda: ed.release(wrong, plan, engine=engine),
        "few records": lambda: ed.release(few, plan, engine=engine),
        "another column": lambda: ed.release(other, plan, engine=engine),
        "one value": lambda: ed.release(one_value, plan, leave_out=True, engine=engine),
        "refuse": lambda: ed.release(one_value, plan, engine=engine),
        "one value that moves": lambda: bench.release(one_value, moving, "moved"),
        "no key": lambda: ed.release(table, moving, engine=engine),
        "file is there": lambda: ed.release(table, plan, to=taken, engine=engine),
        "person not there": lambda: ed.release(table, plan, person="nobody", engine=engine),
        "ledger without a file": lambda: ed.release(table, once, ledger=through, engine=engine),
        "changed": lambda: ed.verify(changed, plan, engine=engine),
        "another plan": lambda: ed.verify(made, once, engine=engine),
        "no file": lambda: ed.audit([bench.folder / "nothing.csv"], engine=engine),
        "no columns": lambda: ed.audit([table], ell=2, engine=engine),
        "ell of none": lambda: ed.audit([made], ell=0, engine=engine),
        "no such plan": lambda: ed.read_plan(bench.folder / "nothing.json"),
        "schema": lambda: ed.Schema.infer(table, ["disease"], "disease", engine=engine),
        "model": lambda: ed.estimate(wrong, plan.schema, engine=engine),
    }
    found = {name: tried(act) for name, act in acts.items()}
    return {name: each if isinstance(each, str) else "done" for name, each in found.items()}


STORIES = {
    certified: 60, probabilistic: 30, paper: 20, closeness: 30, persons: 15, ledger: 30, movers: 16,
    living: 16, foreign: 48, merged: 20, checked: 20, refused: 4,
}  # fmt: skip
CASES = [(story.__name__, seed) for story, number in STORIES.items() for seed in range(number)]


def run(story: str, seed: int, folder: Path, engine: Any) -> Any:
    """The facts of a case."""
    known = {each.__name__: (place, each) for place, each in enumerate(STORIES)}
    place, tell = known[story]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return facts.plain(tried(lambda: tell(Bench((place, seed), folder, engine))))
