"""Slow, obvious twins of closeness, from the definition of belief: exact fractions, every set of values.

Nothing here uses Theorem G: the linked records are counted, and all sets of values are looked at.
"""

from fractions import Fraction
from itertools import chain, combinations

from tests.oracles.certificate import shown


def shares(row):
    """A row of whole numbers as a distribution."""
    total = sum(map(int, row))
    return [Fraction(int(n), total) for n in row]


def furthest_set(one, other):
    """The largest difference that two distributions make to the probability of any set of values."""
    places = range(len(one))
    sets = chain.from_iterable(combinations(places, n) for n in range(len(one) + 1))
    return max(abs(sum(one[place] - other[place] for place in chosen)) for chosen in sets)


def linked_counts(releases, base):
    """m(s): the linked records of somebody in a base class; None if some release has nobody there."""
    counts = [shown(table, group_of, left_out, group_of[base]) for table, group_of, left_out in releases]
    if not all(sum(own) for own in counts):
        return None
    return [min(own[value] for own in counts) for value in range(len(counts[0]))]


def sizes(releases, base):
    """The records of the published class of a base class, per release."""
    return [sum(shown(table, group_of, out, group_of[base])) for table, group_of, out in releases]


def passes(references, limit, table, group_of, left_out=()):
    """Whether every base class is within the limit of what its published class shows, for every set."""
    for base, reference in enumerate(references):
        counts = shown(table, group_of, left_out, group_of[base])
        if sum(counts) and furthest_set(shares(counts), shares(reference)) > limit:
            return False
    return True


def passes_for_one_only(references, limit, table, group_of, left_out=()):
    """A broken certificate: a union is compared with the reference of only one of its base classes."""
    seen = set()
    for base, reference in enumerate(references):
        if group_of[base] in seen:
            continue
        seen.add(group_of[base])
        counts = shown(table, group_of, left_out, group_of[base])
        if sum(counts) and furthest_set(shares(counts), shares(reference)) > limit:
            return False
    return True
