"""Random histories of several owners through one ledger: plain releases, series, withheld classes, copies.

The adversary is written from the definition. It holds every table, and at some owners it is told who came,
went and stayed. It follows everybody who ever was in a table, and crosses out what a table or group does not
show.
"""

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.switch import quick_or_all

from elldelta.core.certificate import CertificateTerms
from elldelta.core.partition import Partition
from elldelta.core.several import joint
from elldelta.core.updates import Groups
from elldelta.errors import RefusedError
from elldelta.ledger import LedgerHeader, first_line, parse_chain, sealed_lines
from elldelta.ledger.admission import admit
from elldelta.release import Revision

PLAN = "sha256:" + "9" * 64
N_BASES = 3


class Owner:
    """Who is in the table of an owner as it was last shown, per published class, and what was shown when."""

    def __init__(self, name, grouping, is_living):
        self.name, self.grouping, self.is_living = name, grouping, is_living
        self.shown = {}
        self.tables = []  # per release {class: people}, without classes that show nothing
        self.groups = []  # per update {class: (came, went, stayed)} of the classes that changed
        self.stays = Counter()
        self.state = None


class World:
    """A ledger for one or two sensitive columns, and people whose values never change."""

    def __init__(self, seed, *, at_once=1, stays=1):
        self.rng = random.Random(seed)
        self.sizes = self.rng.choice([(5,), (6,), (5, 4)])
        ells = [self.rng.randint(2, size - 1) for size in self.sizes]
        self.terms = joint(
            [
                replace(
                    CertificateTerms.from_lists([range(size)] * N_BASES, size, ell=ell, releases=1),
                    name="" if len(self.sizes) == 1 else f"column {place}",
                )
                for place, (size, ell) in enumerate(zip(self.sizes, ells, strict=True))
            ]
        )
        self.ells, self.rules = ells, (at_once, stays)
        self.header = LedgerHeader.of(PLAN, self.terms)
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

    def split(self, owner, people):
        """Who is in which published class."""
        found = {}
        for who in people:
            found.setdefault(int(owner.grouping.class_of[self.people[who][0]]), set()).add(who)
        return found

    def step(self):
        """Somebody publishes; refused or not, the ledger and those who know it agree afterwards."""
        name = self.rng.choice("abc")
        owner = self.owners.get(name)
        if owner is None:
            numbers = [self.rng.randrange(2) for _ in range(N_BASES)]
            order = sorted(set(numbers), key=numbers.index)
            grouping = Partition(np.array([order.index(number) for number in numbers]))
            owner = Owner(name, grouping, self.rng.random() < 0.7)
            known = [who for who in range(len(self.people)) if self.rng.random() < 0.3]
            owner.next = self.split(owner, {*known, *self.born(self.rng.randint(10, 30))})
            update = None
        elif not owner.is_living:
            with pytest.raises(RefusedError):
                self.admitted(owner, self.split(owner, self.born(20)), None)
            return
        else:
            update = self.changed(owner)
        try:
            made = self.admitted(owner, owner.next, update)
        except RefusedError:
            self.n_refused += 1
            return
        self.lines.append(made.line)
        self.chain = parse_chain(b"".join(self.lines), "It")
        for part, room in zip(made.state.parts, self.chain.rooms, strict=True):
            assert part.room.tolist() == room.tolist()
        owner.tables.append({row: people for row, people in owner.next.items() if people})
        owner.state = made.entry.update and made.entry.update.state
        self.owners[name] = owner
        for people in owner.next.values():
            owner.stays.update(people - set().union(*owner.shown.values()))
        if update is not None:
            owner.groups.append(update)
        for row in range(owner.grouping.n_classes):
            if row in owner.next and (update is None or row not in owner.withheld):
                owner.shown[row] = owner.next[row]

    def changed(self, owner):
        """An update, class by class: nothing, a change, or nothing is shown of the class."""
        owner.next, owner.withheld, update = {}, set(), {}
        for row in range(owner.grouping.n_classes):
            old = owner.shown.get(row, set())
            went = {who for who in old if self.rng.random() < self.rng.choice((0.1, 0.5, 0.9))}
            back = [who for who, n in owner.stays.items() if who not in old and n < self.rules[1]]
            came = {who for who in back if self.rng.random() < 0.3}
            came |= self.born(self.rng.choice((0, 1, 8, 15)))
            came = self.split(owner, came).get(row, set())
            kind = self.rng.random()
            if kind < 0.25 or not (came or went):
                owner.next[row] = old
            elif kind < 0.35:
                owner.next[row] = set()
                owner.withheld.add(row)
            else:
                owner.next[row] = (old - went) | came
                update[row] = (came, went, old - went)
        return update

    def admitted(self, owner, table, update):
        n_classes = owner.grouping.n_classes
        revision = None
        if owner.is_living:
            groups = None
            if update is not None:
                three = [
                    self.counted({row: own[kind] for row, own in update.items()}, n_classes)
                    for kind in range(3)
                ]
                groups = Groups(*three)
            revision = Revision(groups, owner.state or "", self.digest(), *self.rules)
        content = self.digest()
        return admit(
            self.chain.standing(self.terms, owner.name, content),
            owner.grouping,
            self.counted(table, n_classes),
            owner=owner.name,
            content_digest=content,
            revision=revision,
        )

    def known_of(self, owner, who):
        """The groups of an owner's updates in which somebody is."""
        row = int(owner.grouping.class_of[self.people[who][0]])
        for update in owner.groups:
            yield from (people for people in update.get(row, ()) if who in people)

    def fewest(self):
        """By how much the worst person is above ell, whoever the owners are at whom somebody is told so."""
        worst, n_looked_at = 99, 0
        for who in range(len(self.people)):
            tables = [
                people
                for owner in self.owners.values()
                for table in owner.tables
                for people in table.values()
                if who in people
            ]
            for told in combinations(self.owners.values(), min(self.rules[0], len(self.owners))):
                groups = [*tables, *(group for owner in told for group in self.known_of(owner, who))]
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
        copy = parse_chain(
            self.lines[0] + b"".join(sealed_lines(self.lines[1:], hidden, self.header)), "The copy"
        )
        assert not copy.tail
        assert (copy.head, copy.n_releases) == (self.chain.head, self.chain.n_releases)
        assert not (self.chain.missed & ~copy.missed).any()
        copy.state(self.terms)


@pytest.mark.parametrize("rules", [(1, 1), (2, 1), (1, 2)])
def test_nobody_falls_below_ell_whatever_was_admitted(rules):
    n_refused = n_updates = n_pairs = n_worst = 0
    for seed in range(quick_or_all(10, 400)):
        world = World(seed, at_once=rules[0], stays=rules[1])
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


def test_a_copy_can_be_read_where_groups_together_miss_more_than_one_person_could_lose():
    """Who came misses one value, who came later another one: nobody is in both groups."""
    world = World(0)
    world.terms = CertificateTerms.from_lists([range(5)], 5, ell=4, releases=1)
    world.header = LedgerHeader.of(PLAN, world.terms)
    lines, single, before = [first_line(world.header)], Partition.single(1), ""
    for missing in (None, 4, 0):
        came, went = (np.array([[int(value != other) for value in range(5)]]) for other in (missing, 4))
        groups = None if missing is None else Groups(came, went, 2 - came)
        state, content = world.digest(), world.digest()
        made = admit(
            parse_chain(b"".join(lines), "It").standing(world.terms, "a", content),
            single,
            np.full((1, 5), 2),
            owner="a",
            content_digest=content,
            revision=Revision(groups, before, state, 1, 1),
        )
        lines.append(made.line)
        before = state
    copy = parse_chain(lines[0] + b"".join(sealed_lines(lines[1:], {1, 2, 3}, world.header)), "The copy")
    assert copy.room.tolist() == parse_chain(b"".join(lines), "It").room.tolist() == [0]
