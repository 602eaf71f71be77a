"""A world of owners whose tables change, and an adversary who holds everything and is told more.

The adversary is written from the definition and reads files only: releases, and the owners' states, from
which it is told what came, went and stayed in every class (in truth nobody would tell it that).
"""

from collections import defaultdict
from itertools import product

import numpy as np
import pandas as pd

import elldelta as ed

VALUES = tuple("abcdefgh")
CHANCES = np.array([8, 6, 5, 4, 3, 2, 2, 1]) / 31


class World:
    """People with an age, a sex and a value that never change, and owners who see some of them."""

    def __init__(self, folder, seed, *, ell=3, owners=("a", "b"), n_past=6000, **policy):
        self.rng = np.random.default_rng(seed)
        self.folder, self.owners, self.policy = folder, owners, policy
        self.people = self.born(n_past)
        schema = ed.Schema.infer(self.people, ["age", "sex"], "value", widen={"age": "no"})
        model = ed.estimate(self.people, schema)
        self.plan = ed.plan(model, ell=ell, releases=1, records=min(n_past // 2, 4000))
        self.tables = dict.fromkeys(owners, self.people.iloc[:0])
        self.period = dict.fromkeys(owners, -1)
        self.releases = defaultdict(list)

    def born(self, n, first=0):
        """People who were not there before."""
        return pd.DataFrame(
            {
                "who": [f"p{first + place}" for place in range(n)],
                "age": self.rng.integers(20, 32, n),
                "sex": np.array(["F", "M"])[self.rng.integers(0, 2, n)],
                "value": np.array(VALUES)[self.rng.choice(len(VALUES), n, p=CHANCES)],
            }
        )

    def change(self, owner, n_new, share_leaving, share_known=0.3):
        """Some leave; new people come, and people whom other owners know."""
        table = self.tables[owner]
        stay = table[self.rng.random(len(table)) >= share_leaving]
        new = self.born(n_new, first=len(self.people))
        self.people = pd.concat([self.people, new], ignore_index=True)
        known = self.people.iloc[self.rng.choice(len(self.people), int(share_known * n_new), replace=False)]
        self.tables[owner] = (
            pd.concat([stay, new, known])
            .drop_duplicates("who")
            .sample(frac=1, random_state=int(self.rng.integers(1 << 30)))
        )

    def name(self, kind, owner, period):
        return self.folder / f"{kind}_{owner}_{period}.parquet"

    def publish(self, owner, *, erase=None, table=None):
        """Releases what an owner has now."""
        before = self.period[owner]
        updates = ed.UpdatePolicy(
            self.name("state", owner, before + 1),
            since=None if before < 0 else self.name("state", owner, before),
            erase=erase,
            **self.policy,
        )
        made = ed.release(
            self.tables[owner] if table is None else table,
            self.plan,
            to=self.name("release", owner, before + 1),
            person="who",
            updates=updates,
            ledger=ed.Ledger(self.folder / "ledger", owner),
        )
        self.period[owner] += 1
        self.releases[owner].append(made.manifest)
        return made.manifest

    def run(self, n_periods, *, n_first=4000, n_new=700, turnover=(0.1, 0.9)):
        """Everybody publishes in every period; now and then nearly everybody leaves."""
        for period in range(n_periods):
            for owner in self.owners:
                share = turnover[self.rng.random() < 0.35]
                self.change(owner, n_first if period == 0 else n_new, share)
                self.publish(owner)


class Adversary:
    """Holds all releases of a world and is told who came, went and stayed: numbers per class and value."""

    def __init__(self, world):
        self.world = world
        self.shown, self.groups = defaultdict(list), defaultdict(list)
        self.cells = {
            owner: [self.classes_of(each) for each in world.releases[owner]] for owner in world.owners
        }
        for owner in world.owners:
            self._read(owner)

    def _read(self, owner):
        before = None
        for period in range(self.world.period[owner] + 1):
            release = pd.read_parquet(self.world.name("release", owner, period))
            state = pd.read_parquet(self.world.name("state", owner, period))
            state = state[(state["shown"] == 1) & state["who"].notna()].set_index(["who", "val"])["home"]
            whole = release.groupby(["age", "sex"])["value"].agg(set).to_dict()
            self.shown[owner].append(whole)
            if before is not None:
                assert self.cells[owner][period - 1] == self.cells[owner][period]  # classes stay as they are
                groups = [
                    state.drop(before.index, errors="ignore"),
                    before.drop(state.index, errors="ignore"),
                    state[state.index.isin(before.index)],
                ]
                changed = {*groups[0], *groups[1]}
                told = [
                    {home: set(part.index.get_level_values("val")) for home, part in group.groupby(group)}
                    for group in groups
                ]
                self.groups[owner].append(
                    [{home: values for home, values in group.items() if home in changed} for group in told]
                )
            before = state

    def classes_of(self, manifest):
        """The label of the published class of every (age, sex), from the manifest."""
        schema, classes = manifest.schema, manifest.classes
        cells = list(product(range(20, 32), ("F", "M")))
        positions = np.array(
            [[age - 20, schema.quasi_identifiers[1].domain.values.index(sex)] for age, sex in cells]
        )
        numbers = classes.class_of(schema, schema.ranks(positions))
        labels = manifest.labels
        return {cell: (int(number), labels[number]) for cell, number in zip(cells, numbers, strict=True)}

    def histories(self, owner):
        """How each person came to and went from the published table of an owner: (first, last) period."""
        stays = defaultdict(list)
        for period in range(self.world.period[owner] + 1):
            state = pd.read_parquet(self.world.name("state", owner, period))
            for who in state[(state["shown"] == 1) & state["who"].notna()]["who"]:
                stays[who].append(period)
        return stays

    def fewest(self):
        """The fewest values that are left for anybody, and for how many histories that was looked at."""
        world = self.world
        values = world.plan.schema.sensitive.value_labels
        seen, fewest, n_pairs = {}, len(values), 0
        histories = {owner: self.histories(owner) for owner in world.owners}
        people = world.people.set_index("who")[["age", "sex"]].apply(tuple, axis=1).to_dict()
        for owner in world.owners:
            for who, periods in histories[owner].items():
                key = (people[who], owner, tuple(periods))
                n_pairs += 1
                if key not in seen:
                    seen[key] = self._left(*key, values)
                fewest = min(fewest, seen[key])
        return fewest, n_pairs

    def _left(self, cell, owner, periods, values):
        """What is left for somebody: in all whole tables with people there, and in the groups it was in."""
        left = set(values)
        for each in self.world.owners:
            for whole, cells in zip(self.shown[each], self.cells[each], strict=True):
                left &= whole.get(cells[cell][1], left)
        for period, (joiners, leavers, stayers) in enumerate(self.groups[owner], start=1):
            was, is_in = period - 1 in periods, period in periods
            group = stayers if was and is_in else joiners if is_in else leavers if was else {}
            home, _ = self.cells[owner][period][cell]
            if home in group:
                left &= {values[place] for place in group[home]}
        return len(left)
