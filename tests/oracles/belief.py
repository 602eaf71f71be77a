"""What somebody may believe, from the definition: every group, every set of values, in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from tests.oracles import exposure


def shares(row):
    """Exact shares of a row of counts or weights."""
    total = sum(row)
    return [Fraction(int(n), int(total)) for n in row]


def furthest_set(linked, reference):
    """The largest |g(B) - pi(B)| over every set B of values."""
    belief, before = shares(linked), shares(reference)
    sets = (chosen for size in range(len(linked) + 1) for chosen in combinations(range(len(linked)), size))
    return max(abs(sum((belief[s] - before[s] for s in chosen), Fraction(0))) for chosen in sets)


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


def largest_share(releases, cell):
    """The largest share of one value over every group in which anybody of the cell can be."""
    found = [Fraction(0)]
    for group in exposure.groups(releases):
        row = exposure.linked(group, cell)
        if row is not None and any(row):
            found.append(Fraction(max(row), sum(row)))
    return max(found)
