"""How far linking leads, from the definition: every group, every set of values, every world, in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import prod

from tests.oracles import exposure


def shares(row):
    """Exact shares of a row of counts or weights."""
    total = sum(row)
    return [Fraction(int(n), int(total)) for n in row]


def furthest_set(linked, reference):
    """The largest |g(B) - pi(B)| over every set B of values."""
    after, before = shares(linked), shares(reference)
    sets = (chosen for size in range(len(linked) + 1) for chosen in combinations(range(len(linked)), size))
    return max(abs(sum((after[s] - before[s] for s in chosen), Fraction(0))) for chosen in sets)


def furthest(releases, cell, reference, containing=None):
    """The largest distance over every group in which anybody of the cell can be; None if nobody can."""
    found = []
    for group in exposure.groups(releases, containing):
        row = exposure.linked(group, cell)
        if row is not None and any(row):
            found.append(furthest_set(row, reference))
    return max(found, default=None)


def excess(releases, cell, reference):
    """E of Theorem G: what any release with a record shows too little of."""
    rows = [counts[class_of[cell]] for class_of, counts in releases]
    rows = [shares(row) for row in rows if sum(row)]
    return sum(
        (max([Fraction(0), *(pi - row[s] for row in rows)]) for s, pi in enumerate(shares(reference))),
        Fraction(0),
    )


def led_by_shares(releases, cell):
    """Per group in which anybody of the cell can be: the share of every value among the linked records."""
    for group in exposure.groups(releases):
        row = exposure.linked(group, cell)
        if row is not None and any(row):
            yield shares(row)


def led_by_bayes(releases, cell, reference, chances):
    """Per group: the probability of every value, if the other records are independent draws.

    `chances[j]` is how somebody else of release j falls on the values of the person's class there.
    """
    members = range(len(releases))
    for size in range(1, len(releases) + 1):
        for group in combinations(members, size):
            rows = [releases[j][1][releases[j][0][cell]] for j in group]
            led = exposure.bayes(shares(reference), rows, [chances[j] for j in group])
            if any(led):
                yield led


def led_by_odds(releases, cell, reference, chances):
    """The same for counts of any size: n_j(s) / P_j(s) of every release multiplies what was before."""
    before = shares(reference)
    for group in exposure.groups(list(zip(releases, chances, strict=True))):
        rows = [(counts[class_of[cell]], own) for (class_of, counts), own in group]
        odds = [
            pi * prod((Fraction(row[s]) / own[s] for row, own in rows), start=Fraction(1)) if pi else 0
            for s, pi in enumerate(before)
        ]
        if any(odds):
            yield [each / sum(odds) for each in odds]


def surest_and_gain(led, reference):
    """The largest number of any group, and the largest excess over what the reference says."""
    before, every = shares(reference), list(led)
    if not every:
        return None
    return (
        max(max(after) for after in every),
        max(x - y for after in every for x, y in zip(after, before, strict=True) if x),
    )


def by_enumeration(reference, shown):
    """The probability of each value by listing every world: who else is in each release, with which values.

    A person of unknown value is in every release; the others of each are different people, drawn one by one.
    A world counts if it shows the counts of every release.
    """
    prior = shares(reference)
    values = range(len(prior))
    weights = []
    for own in values:
        weight = prior[own]
        for counts in shown:
            likely = Fraction(0)
            for others in product(values, repeat=sum(counts) - 1):
                if all((*others, own).count(value) == counts[value] for value in values):
                    likely += prod((prior[value] for value in others), start=Fraction(1))
            weight *= likely
        weights.append(weight)
    return [weight / sum(weights) for weight in weights]
