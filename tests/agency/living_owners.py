"""Owners whose tables change and who register them with an agency: what each of them sends, made once."""

from functools import cached_property

import pandas as pd
from tests.agency.registrations import Agency
from tests.ledger.living import World

import elldelta as ed
from elldelta.agency.admission import ledger_export
from elldelta.agency.registration import registration_of


class LivingOwners:
    """Two owners, an agency that keeps everything in memory, and what was sent to it, as bytes."""

    def __init__(self, folder):
        self.world = World(folder, 1)
        self.folder = folder
        self.plan = self.world.plan
        self.agency = Agency(self.plan)
        self.sent = {}
        for owner in ("a", "b"):
            self.world.change(owner, 4000, 0.1)
            self.send(f"{owner}0", owner)
        self.world.change("a", 700, 0.1)
        self.fork = self.made("fork", "a", "a0")
        self.world.change("a", 100, 0.1)
        self.send("a1", "a", "a0")
        self.world.change("a", 500, 0.0)
        shown = set(pd.read_parquet(self.state("a1"))["who"].dropna().str.removeprefix("canary-"))
        table = self.world.tables["a"]
        gone = table["who"].isin(shown) & ~table["who"].isin(shown).cumsum().gt(1)  # one, who must go at once
        self.world.tables["a"] = table[~gone]
        self.erased = folder / "erased.csv"
        ("canary-" + table[gone]["who"]).to_frame("who").to_csv(self.erased, index=False)
        self.send("a2", "a", "a1", erase=self.erased)
        self.world.change("a", 2500, 0.6)
        self.send("a3", "a", "a2")

    def state(self, name):
        return self.folder / f"{name}.state.parquet"

    def made(self, name, owner, since=None, *, ledger=None, erase=None):
        """A release of what an owner has now, against a copy of the agency's ledger; as a registration."""
        if ledger is None:
            copy = self.folder / f"{name}.ledger"
            copy.write_bytes(ledger_export(self.plan, self.agency.lines(self.plan)))
            ledger = ed.Ledger(copy, owner, is_copy=True)
        table = self.world.tables[owner]
        made = ed.release(
            table.assign(who="canary-" + table["who"]),
            self.plan,
            to=self.folder / f"{name}.parquet",
            person="who",
            updates=ed.UpdatePolicy(
                self.state(name), since=None if since is None else self.state(since), erase=erase
            ),
            ledger=ledger,
        )
        if not ledger.is_copy:
            return made
        return registration_of(made, self.plan, state=self.state(name))

    def send(self, name, owner, since=None, **choices):
        registration = self.sent[name] = self.made(name, owner, since, **choices)
        self.agency.register(self.plan, registration, owner)

    @cached_property
    def entries(self):
        """The lines of the agency, by what was sent."""
        return {
            name: item.entry
            for name, item in zip(self.sent, self.agency.entries[self.plan.digest], strict=True)
        }
