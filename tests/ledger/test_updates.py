"""Tables that live: what an adversary learns who is told who came, went and stayed; and what goes wrong."""

import hashlib
import itertools
import json
import signal
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.cli.test_ledger_release import KILLED_AT_STEP
from tests.ledger.living import VALUES, Adversary, World
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.core.updates import Groups, Update
from elldelta.errors import DataError, FileError, ParameterError, RefusedError
from elldelta.ledger import OpenLedger, verify_ledger


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """Two owners, five periods."""
    world = World(tmp_path_factory.mktemp("lived"), 1)
    world.run(5)
    return world


def test_nobody_is_left_with_fewer_values_than_promised(lived):
    fewest, n_pairs = Adversary(lived).fewest()
    assert fewest >= lived.plan.columns[0].ell
    assert n_pairs > 10_000
    changed = [manifest.update.get("classes_changed", 0) for manifest in lived.releases["a"]]
    waiting = [manifest.update.get("classes_waiting", 0) for manifest in lived.releases["a"]]
    assert sum(changed) > 20  # otherwise nothing was tried
    assert sum(waiting) > 5


@pytest.mark.slow
def test_nobody_in_a_hundred_thousand_histories_is_left_with_fewer(tmp_path):
    n_pairs = 0
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, 100 + seed, owners=("a", "b", "c"), n_past=9000)
        world.run(6, n_first=6000, n_new=1200, turnover=(0.15, 0.95))
        fewest, n_more = Adversary(world).fewest()
        assert fewest >= world.plan.columns[0].ell
        n_pairs += n_more
    assert n_pairs >= 100_000


@pytest.mark.parametrize(
    "skipped", ["stayers", *(pytest.param(name, marks=pytest.mark.slow) for name in ("leavers", "joiners"))]
)
def test_a_variant_that_skips_a_group_is_caught(tmp_path, monkeypatch, skipped):
    honest = Groups.missed

    def careless(self, terms, grouping):
        found = honest(self, terms, grouping)
        groups = {name: getattr(found, name) for name in ("joiners", "leavers", "stayers")}
        return Update(**{**groups, skipped: np.zeros_like(groups[skipped])})

    monkeypatch.setattr(Groups, "missed", careless)
    world = World(tmp_path, 2)
    world.run(4, turnover=(0.05, 0.97))
    fewest, _ = Adversary(world).fewest()
    assert fewest < world.plan.columns[0].ell


def test_publishing_naively_isolates_people(tmp_path):
    """The same plan and tables without a state: each release is certified, and subtraction shows people."""
    world = World(tmp_path, 3, owners=("a",))
    left = []
    for period in range(3):
        world.change("a", 4000 if period == 0 else 60, 0.01)
        made = ed.release(world.tables["a"], world.plan, person="who")
        left.append((world.tables["a"], made))
    joined = left[2][0][~left[2][0]["who"].isin(left[1][0]["who"])]
    assert joined.groupby(["age", "sex"])["value"].nunique().min() < world.plan.columns[0].ell


def test_releases_show_what_the_state_says(lived):
    for owner in lived.owners:
        for period in range(5):
            path = lived.name("release", owner, period)
            assert ed.verify(path, lived.plan).is_certified
            state = pd.read_parquet(lived.name("state", owner, period))
            shown = state[state["shown"] == 1]
            assert len(pd.read_parquet(path)) == len(shown)  # nothing is withheld here
            assert not shown.duplicated(["who", "val"]).any()
            mode = stat.S_IMODE(lived.name("state", owner, period).stat().st_mode)
            assert mode == 0o600
    chain = verify_ledger(
        lived.folder / "ledger", plan_digest=lived.plan.digest, promises=lived.plan.promises
    )
    assert "came to and left the tables of one owner" in chain.promise
    assert [entry.update.updates for entry in chain.active if entry.owner == "b"] == [None, 2, 4, 6, 8]


def next_release(world, owner="a", **changes):
    """Another release of an owner, with something wrong."""
    period = world.period[owner]
    options = {
        "state": world.folder / "next_state.parquet",
        "since": world.name("state", owner, period),
        **{name: value for name, value in changes.items() if name in ("since", "erase")},
    }
    return ed.release(
        changes.get("table", world.tables[owner]),
        world.plan,
        to=world.folder / "next.parquet",
        person=changes.get("person", "who"),
        updates=ed.UpdatePolicy(**options),
        ledger=ed.Ledger(world.folder / changes.get("ledger", "ledger"), changes.get("owner", owner)),
        leave_out=changes.get("leave_out", False),
    )


def test_states_that_are_not_the_last_one_are_refused(lived, tmp_path):
    before, enough = (lived.folder / "ledger").read_bytes(), lived.born(lived.plan.records)
    for old in range(4):
        with pytest.raises(RefusedError, match="not that of the last release"):
            next_release(lived, since=lived.name("state", "a", old))
    with pytest.raises(RefusedError, match="belongs to another owner"):
        next_release(lived, since=lived.name("state", "b", 4))
    with pytest.raises(RefusedError, match="has published under this plan before"):
        next_release(lived, since=None, table=enough)
    with pytest.raises(RefusedError, match="must tell what has changed"):
        ed.release(
            enough, lived.plan, to=tmp_path / "r.parquet", person="who",
            ledger=ed.Ledger(lived.folder / "ledger", "a"),
        )  # fmt: skip
    with pytest.raises(RefusedError, match="has not published under this plan"):
        next_release(lived, ledger="other ledger")
    with pytest.raises(FileError, match="no state"):
        next_release(lived, since=tmp_path / "nothing.parquet")
    with pytest.raises(RefusedError, match="is no state at all"):
        next_release(lived, since=lived.name("release", "a", 4))
    forged = tmp_path / "forged.parquet"
    content = lived.name("state", "a", 4).read_bytes()
    for place in (10, len(content) // 2, len(content) - 6, len(content) - 60):
        forged.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        with pytest.raises(RefusedError, match="is damaged"):
            next_release(lived, since=forged)
    table = pq.read_table(lived.name("state", "a", 4))
    pq.write_table(table.slice(1), forged)
    with pytest.raises(RefusedError, match="not that of the last release"):
        next_release(lived, since=forged)
    assert (lived.folder / "ledger").read_bytes() == before
    assert not list(lived.folder.glob("next*"))
    assert not list(lived.folder.glob(".*part"))


def test_persons_are_told_apart_as_before(lived):
    before, table = (lived.folder / "ledger").read_bytes(), lived.tables["a"]
    for other, person in (
        (table.assign(who=table.who.str[1:].astype(int)), "who"),
        (table.rename(columns={"who": "id"}), "id"),
    ):
        with pytest.raises(RefusedError, match="everybody would be somebody new"):
            next_release(lived, table=other, person=person)
    assert (lived.folder / "ledger").read_bytes() == before
    assert not list(lived.folder.glob("next*"))


def test_what_a_series_needs_is_told(lived, tmp_path):
    updates = ed.UpdatePolicy(tmp_path / "s.parquet")
    for arguments in ({"person": "who"}, {"ledger": ed.Ledger(tmp_path / "l", "a")}):
        with pytest.raises(ParameterError, match="needs a ledger, and a column"):
            ed.release(lived.tables["a"], lived.plan, to=tmp_path / "r.parquet", updates=updates, **arguments)
    with pytest.raises(ParameterError, match="erased"):
        ed.UpdatePolicy("s.parquet", erase="people.csv")
    with pytest.raises(ParameterError, match="left out of the first release"):
        next_release(lived, leave_out=True)
    with pytest.raises(ParameterError):
        ed.UpdatePolicy("s.parquet", longest_wait=0)


@pytest.mark.parametrize("name", ["q0.state", "q0.csv", "q0", "q0.parquet.gz"])
def test_a_state_that_could_not_be_read_again_is_refused(name):
    with pytest.raises(ParameterError, match="A state is a Parquet file") as refused:
        ed.UpdatePolicy(name)
    assert f"{name}.parquet" in refused.value.remedy


def test_who_must_go_is_gone_from_release_and_state(tmp_path):
    world = World(tmp_path, 4, owners=("a",))
    world.change("a", 4000, 0)
    world.publish("a")
    table = world.tables["a"]
    gone = table[(table.age == 20) & (table.sex == "F")].iloc[:1]
    gone[["who"]].to_csv(tmp_path / "erase.csv", index=False)
    table = world.tables["a"] = table[table.who != gone.who.item()]
    manifest = world.publish("a", erase=tmp_path / "erase.csv")
    assert manifest.update["classes_withheld"] == 1  # one person alone cannot leave a class
    state = pd.read_parquet(world.name("state", "a", 1))
    assert gone.who.item() not in set(state.who)
    assert state.who.isna().sum() == 1
    [label] = [
        label for cell, (_, label) in Adversary(world).classes_of(manifest).items() if cell == (20, "F")
    ]
    release = pd.read_parquet(world.name("release", "a", 1))
    assert not ((release.age == label[0]) & (release.sex == label[1])).any()
    # The class comes back when enough people have left with them; nobody publishes the erased one again.
    world.tables["a"] = table[~((table.age == 20) & (table.sex == "F") & (np.arange(len(table)) % 2 == 0))]
    manifest = world.publish("a")
    assert manifest.update["classes_withheld"] == 0
    assert not pd.read_parquet(world.name("state", "a", 2)).who.isna().any()
    assert ed.verify(world.name("release", "a", 2), world.plan).is_certified


def test_who_must_go_is_known_and_no_longer_in_the_table(lived, tmp_path):
    before = (lived.folder / "ledger").read_bytes()
    inside, wrong = lived.tables["a"].who.iloc[0], "nobody-of-this-name"
    wanted = {
        "Of 0 people to erase": [],
        "Of 1 person to erase, the state of the last release knows 0": [wrong],
        "1 of the 2 people to erase are in the table": [wrong, inside],
    }
    for found, names in wanted.items():
        erase = tmp_path / "erase.csv"
        erase.write_text("\n".join(["who", *names, ""]))
        with pytest.raises(DataError, match=found) as problem:
            next_release(lived, erase=erase)
        assert not any(name in str(problem.value) for name in names)
    assert (lived.folder / "ledger").read_bytes() == before
    assert not list(lived.folder.glob("next*"))


def test_a_class_that_cannot_change_stays_as_it_was(tmp_path):
    world = World(tmp_path, 5, owners=("a",))
    world.change("a", 4000, 0)
    world.publish("a")
    before = pd.read_parquet(world.name("release", "a", 0))
    table = world.tables["a"]
    one = world.born(1, first=10**6)
    world.people = pd.concat([world.people, one], ignore_index=True)
    world.tables["a"] = pd.concat([table.iloc[1:], one])  # one leaves, one comes
    manifest = world.publish("a")
    assert pd.read_parquet(world.name("release", "a", 1)).equals(before)
    assert manifest.update["records_waiting"] == manifest.update["records_lingering"] == 1
    assert manifest.update["classes_changed"] == 0
    state = pd.read_parquet(world.name("state", "a", 1)).set_index("who")
    assert state.loc[one.who.item()][["shown", "waited"]].tolist() == [0, 1]
    assert state.loc[table.who.iloc[0]][["shown", "waited"]].tolist() == [1, 1]
    # Nothing has changed, and the next state still follows from a line of the ledger.
    assert world.publish("a").update["longest_wait"] == 1


@pytest.mark.parametrize("group", ["joiners", "leavers", "stayers"])
def test_one_person_with_many_values_is_no_group(tmp_path, group):
    world = World(tmp_path, 9, owners=("a",))
    world.change("a", 4000, 0)
    crowd = world.tables["a"]
    one = pd.DataFrame({"who": "one", "age": 20, "sex": "F", "value": list(VALUES)})
    with_one = pd.concat([crowd, one])
    world.publish("a", table=crowd if group == "joiners" else with_one)
    after = {"joiners": with_one, "leavers": crowd}
    others = pd.concat([world.born(4000, first=10**6), one])
    update = world.publish("a", table=after.get(group, others)).update
    assert update["classes_waiting"] == 1
    if group != "stayers":
        assert update["classes_changed"] == 0
        waits = "records_waiting" if group == "joiners" else "records_lingering"
        assert update[waits] == len(VALUES)


def test_people_who_come_back_or_change_their_value_or_class(tmp_path):
    world = World(tmp_path, 6, owners=("a",))
    world.change("a", 4000, 0)
    world.publish("a")
    table = world.tables["a"]
    half = table.sample(frac=0.5, random_state=1)
    world.tables["a"] = half
    assert world.publish("a").update["records_left"] > 1500
    world.tables["a"] = table  # all come back, and are not shown a second time
    for _ in range(2):
        back = world.publish("a")
        assert back.update["records_joined"] == 0
        n_back = back.update["records_returned"]
        assert n_back > 1500
        assert f"{n_back:,} came back and are not shown again" in " ".join(back.sentences)
    moved = table.copy()
    moved["age"] = 20 + (moved["age"] - 20 + 6) % 12
    world.tables["a"] = moved
    assert world.publish("a").update["records_moved"] > 1000
    changed = table.copy()
    changed["value"] = changed["value"].map(dict(zip("abcdefgh", "bcdefgha", strict=True)))
    world.tables["a"] = changed
    manifest = world.publish("a")
    assert manifest.update["records_left"] > 1000
    assert manifest.update["records_joined"] > 1000


def test_nobody_waits_longer_than_was_announced(tmp_path):
    world = World(tmp_path, 7, owners=("a",), longest_wait=2)
    world.change("a", 4000, 0)
    world.publish("a")
    one = world.born(1, first=10**6)
    world.people = pd.concat([world.people, one], ignore_index=True)
    world.tables["a"] = pd.concat([world.tables["a"], one])
    updates = [world.publish("a").update for _ in range(4)]
    assert [update["classes_waiting"] for update in updates[:2]] == [1, 1]
    assert [update["classes_withheld"] for update in updates] == [0, 0, 1, 1]


def test_of_two_updates_at_the_same_time_one_wins(tmp_path):
    """Both have the state of the last release; whoever is second finds another one, and writes nothing."""
    world = World(tmp_path, 9, owners=("a",))
    world.change("a", 4000, 0)
    world.publish("a")
    ed.write_plan(world.plan, tmp_path / "plan.json")
    started = []
    for name in ("one", "two"):
        world.change("a", 1500, 0.3)
        world.tables["a"].to_parquet(tmp_path / f"table_{name}.parquet")
        command = [
            sys.executable, "-c", "from elldelta.cli.main import run; run()", "release", "--json",
            str(tmp_path / f"table_{name}.parquet"), "--plan", str(tmp_path / "plan.json"), "--person", "who",
            "--ledger", str(tmp_path / "ledger"), "--owner", "a", "--since", str(world.name("state", "a", 0)),
            "--state", str(tmp_path / f"state_{name}.parquet"), "-o", str(tmp_path / f"{name}.parquet"),
        ]  # fmt: skip
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    told = [json.loads(process.communicate(timeout=300)[0]) for process in started]
    codes = [process.returncode for process in started]
    assert sorted(codes) == [0, 3]
    for name, code, said in zip(("one", "two"), codes, told, strict=True):
        files = [f"state_{name}.parquet", f"{name}.parquet", f"{name}.parquet.manifest.json"]
        assert [(tmp_path / file).exists() for file in files] == [code == 0] * 3
        if code == 3:
            assert "not that of the last release" in said["error"]["problem"]
        else:
            [*_, last] = verify_ledger(tmp_path / "ledger").active
            state = (tmp_path / files[0]).read_bytes()
            assert last.update.state == "sha256:" + hashlib.sha256(state).hexdigest()
            ed.verify(tmp_path / files[1], world.plan)
    assert len(verify_ledger(tmp_path / "ledger").active) == 2
    assert not list(tmp_path.glob(".*.part"))


def test_kill_9_leaves_release_state_and_ledger_all_old_or_all_new(tmp_path):
    """Killed before one of its steps; whoever opens the ledger next finds all of it, or nothing."""
    world = World(tmp_path, 8, owners=("a",))
    world.change("a", 4000, 0)
    world.publish("a")
    world.plan_file = tmp_path / "plan.json"
    ed.write_plan(world.plan, world.plan_file)
    world.change("a", 1500, 0.3)
    table, ledger = tmp_path / "table.parquet", tmp_path / "ledger"
    world.tables["a"].to_parquet(table)
    since, outcomes = world.name("state", "a", 0), []
    for step in itertools.count(1, quick_or_all(7, 2)):
        n_lines = len(ledger.read_text().splitlines())
        state, target = tmp_path / f"next_{step}.parquet", tmp_path / f"release_{step}.parquet"
        manifest = target.with_name(target.name + ".manifest.json")
        finished = subprocess.run(
            [
                sys.executable, "-c", KILLED_AT_STEP, str(step), "release", str(table), "--json",
                "--plan", str(world.plan_file), "--person", "who", "--ledger", str(ledger), "--owner", "a",
                "--since", str(since), "--state", str(state), "-o", str(target),
            ],
            stdout=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
        assert not target.exists() or (manifest.exists() and state.exists())
        with OpenLedger.open(ledger, world.plan.digest, world.plan.promises) as book:
            is_new = book.chain.n_lines > n_lines
            last = book.chain.active[-1]
        assert [path.exists() for path in (state, target, manifest)] == [is_new] * 3
        outcomes.append(is_new)
        if is_new:
            assert last.update.state == "sha256:" + hashlib.sha256(state.read_bytes()).hexdigest()
            since = state
        if finished.returncode == 0:
            break
        assert finished.returncode == -signal.SIGKILL
    assert outcomes[-1]
    assert not all(outcomes)


def test_a_plain_release_whose_file_is_lost_can_be_made_again(tmp_path):
    """Also where the ledger has little room: what is left out follows from what it knew at that time."""
    world, n_left_out = World(tmp_path, 3, owners=(), n_past=3000), 0
    for owner, value in zip("abcdefg", VALUES, strict=False):
        table, place = world.born(world.plan.records + 400), tmp_path / f"{owner}.parquet"
        table = table[(table["age"] > 25) | (table["value"] != value)]  # each owner misses another value

        def publish(rows, owner=owner, place=place):
            book = ed.Ledger(tmp_path / "ledger", owner)
            made = ed.release(rows, world.plan, to=place, ledger=book, leave_out=True, overwrite=True)
            return made.manifest.to_dict()

        made = publish(table)
        n_left_out += made["records_left_out"]
        place.unlink()
        assert publish(table) == made
        with pytest.raises(ed.RefusedError, match="has published under this plan before"):
            publish(table.iloc[60:])
    assert n_left_out > 0
