"""Random histories of several owners through one ledger: plain releases, series, withheld classes, copies.

The adversary is written from the definition. It holds every table, and at some owners it is told who came,
went and stayed. It follows everybody who ever was in a table, and crosses out what a table or group does not
show.
"""

import random

import numpy as np
import pytest
from tests.switch import quick_or_all

from elldelta.core.certificate import certify
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown, Values
from elldelta.core.updates import Groups
from elldelta.errors import RefusedError
from elldelta.ledger import LedgerHeader, Revision, first_line, new_nonce, parse_chain, sealed_lines
from elldelta.ledger.admission import admit

PLAN = "sha256:" + "9" * 64
N_BASES = 3
CLASSES = [((0,), (1,), (2,)), ((0, 1), (2,)), ((0,), (1, 2)), ((0, 1, 2),)]
"""Ways to merge base classes."""


class Owner:
    """Who is in the table of an owner as it was last shown, per published class, and what was shown when."""

    def __init__(self, name, classes, is_living):
        self.name, self.classes, self.is_living = name, classes, is_living
        self.shown = {}
        self.tables = []  # per release {class: people}, without classes that show nothing
        self.groups = []  # per update {class: (came, went, stayed)} of the classes that changed
        self.state = None


class World:
    """A ledger for one or two sensitive columns, and people whose values never change."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.sizes = self.rng.choice([(5,), (6,), (5, 4)])
        ells = [self.rng.randint(2, size - 1) for size in self.sizes]
        starts = np.cumsum([0, *self.sizes]).tolist()
        self.promises = tuple(
            Values.of(
                [range(size)] * N_BASES, size, ell=ell, releases=1, column=f"column {start}", start=start
            )
            for size, ell, start in zip(self.sizes, ells, starts[:-1], strict=True)
        )
        self.ells = ells
        self.header = LedgerHeader.of(PLAN, self.promises)
        self.lines, self.owners, self.people, self.n_digests = [first_line(self.header)], {}, [], 0
        self.chain = parse_chain(self.lines[0], "It")
        self.n_refused = 0

    def born(self, n):
        """People of random classes and values; some values are rare."""
        first = len(self.people)
        for _ in range(n):
            values = tuple(min(self.rng.randrange(size), self.rng.randrange(size + 2)) for size in self.sizes)
            self.people.append((self.rng.randrange(N_BASES), values))
        return set(range(first, len(self.people)))

    def digest(self):
        self.n_digests += 1
        return f"sha256:{self.n_digests:064x}"

    def counted(self, groups, n_classes):
        """Records by published class and value, column after column."""
        table = np.zeros((n_classes, sum(self.sizes)), dtype=np.int64)
        starts = [0, *np.cumsum(self.sizes)[:-1].tolist()]
        for row, people in groups.items():
            for who in people:
                for start, value in zip(starts, self.people[who][1], strict=True):
                    table[row, start + value] += 1
        return table

    def split(self, classes, people):
        """Who is in which published class, which is named by its base classes."""
        return {own: {who for who in people if self.people[who][0] in own} for own in classes}

    def step(self):
        """Somebody publishes; refused or not, the ledger and those who know it agree afterwards."""
        name = self.rng.choice("abc")
        owner = self.owners.get(name)
        if owner is None:
            owner, update = Owner(name, self.rng.choice(CLASSES), self.rng.random() < 0.7), None
            known = [who for who in range(len(self.people)) if self.rng.random() < 0.3]
            table = self.split(owner.classes, {*known, *self.born(self.rng.randint(10, 30))})
            shown = table
        elif not owner.is_living:
            with pytest.raises(RefusedError):
                self.admitted(owner, self.split(owner.classes, self.born(20)), None)
            return
        else:
            table, shown, update = self.changed(owner)
        try:
            made = self.admitted(owner, table, update)
        except RefusedError:
            self.n_refused += 1
            return
        self.lines.append(made.line)
        self.chain = parse_chain(b"".join(self.lines), "It")
        for room, known in zip(made.state.rooms, self.chain.rooms, strict=True):
            assert room.tolist() == known.tolist()
        self.owners[name] = owner
        owner.shown = shown
        owner.tables.append(table)
        owner.state = made.entry.update and made.entry.update.state
        if update is not None:
            owner.groups.append(update)

    def changed(self, owner):
        """An update: what is shown, what was shown last of every class, and who came, went and stayed.

        Class by class nothing happens, or a change, or nothing is shown of the class.
        """
        table, shown, update = {}, {}, {}
        for own, old in owner.shown.items():
            share = self.rng.choice((0.1, 0.5, 0.9))
            went = {who for who in old if self.rng.random() < share}
            came = self.split([own], self.born(self.rng.choice((0, 1, 8, 15))))[own]
            kind = self.rng.random()
            table[own] = shown[own] = old
            if kind < 0.1:
                table[own] = set()  # withheld: what it showed last stays what it showed
            elif kind > 0.3 and (came or went):
                table[own] = shown[own] = (old - went) | came
                update[own] = (came, went, old - went)
        return table, shown, update

    def admitted(self, owner, table, update):
        """What the ledger says to a table {class: people} and to who came, went and stayed."""
        rows = {own: row for row, own in enumerate(table)}
        grouping = Partition(
            np.array([next(row for own, row in rows.items() if base in own) for base in range(N_BASES)])
        )
        revision = None
        if owner.is_living:
            groups = None
            if update is not None:
                three = [{rows[own]: found[kind] for own, found in update.items()} for kind in range(3)]
                groups = Groups(*(self.counted(each, len(rows)) for each in three))
            revision = Revision(groups, owner.state or "", self.digest())
        content = self.digest()
        counts = self.counted({rows[own]: people for own, people in table.items()}, len(rows))
        return admit(
            self.chain.snapshot(self.chain.state(self.promises), owner.name, content),
            certify(self.promises, Shown(counts, grouping)),
            owner=owner.name,
            content_digest=content,
            revision=revision,
            nonce=new_nonce(),
        )

    def known_of(self, owner, who):
        """The groups of an owner's updates in which somebody is."""
        for update in owner.groups:
            yield from (people for groups in update.values() for people in groups if who in people)

    def fewest(self):
        """By how much the worst person is above ell, whoever the owner is at whom somebody is told so."""
        worst, n_looked_at = 99, 0
        for who in range(len(self.people)):
            tables = [
                people
                for owner in self.owners.values()
                for table in owner.tables
                for people in table.values()
                if who in people
            ]
            for owner in self.owners.values():
                groups = [*tables, *self.known_of(owner, who)]
                if not groups:
                    continue
                n_looked_at += 1
                for place, ell in enumerate(self.ells):
                    left = set.intersection(
                        *({self.people[one][1][place] for one in people} for people in groups)
                    )
                    worst = min(worst, len(left) - ell)
        return worst, n_looked_at

    def check_copies(self):
        """Whatever is not shown to somebody, the copy can be read, and says no more than it may."""
        numbers = [entry.sequence for entry in self.chain.active]
        hidden = {number for number in numbers if self.rng.random() < 0.6}
        copy = parse_chain(self.lines[0] + b"".join(sealed_lines(self.lines[1:], hidden)), "The copy")
        assert not copy.tail
        assert (copy.head, copy.n_releases) == (self.chain.head, self.chain.n_releases)
        for seen, known in zip(copy.totals.missed, self.chain.totals.missed, strict=True):
            assert not (seen.union & ~known.union).any()
        copy.state(self.promises)


def test_nobody_falls_below_ell_whatever_was_admitted():
    n_refused = n_updates = n_pairs = n_worst = 0
    for seed in range(quick_or_all(20, 80)):
        world = World(seed)
        for _ in range(14):
            world.step()
        world.check_copies()
        worst, looked_at = world.fewest()
        assert worst >= 0
        n_refused, n_pairs = n_refused + world.n_refused, n_pairs + looked_at
        n_updates += sum(bool(group) for owner in world.owners.values() for group in owner.groups)
        n_worst += worst == 0
    assert min(n_refused, n_updates, n_worst) > 3
    assert n_pairs > 1000
