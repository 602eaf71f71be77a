"""Slow twins of the measures of an audit, from their definitions: exact fractions, plain loops."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations


def entropy(row):
    """Shannon entropy in natural logarithms, one record at a time."""
    total = sum(row)
    return -sum(n / total * math.log(n / total) for n in row if n)


def is_recursive(row, c, ell):
    """r_1 < c (r_ell + ... + r_m), the definition of recursive (c, ell)-diversity."""
    falling = sorted(row, reverse=True)
    return falling[0] < c * sum(falling[ell - 1 :])


def total_variation(row, overall):
    """The largest difference in probability of any set of values."""
    n, whole = sum(row), sum(overall)
    shares = [Fraction(a, n) - Fraction(b, whole) for a, b in zip(row, overall, strict=True)]
    subsets = (subset for size in range(len(row) + 1) for subset in combinations(shares, size))
    return max(sum(subset, Fraction(0)) for subset in subsets)


def earth_mover(row, overall):
    """Moves surplus from left to right, one unit step at a time; the whole way costs 1."""
    n, whole = sum(row), sum(overall)
    carried, cost = Fraction(0), Fraction(0)
    for a, b in zip(row, overall, strict=True):
        cost += abs(carried)
        carried += Fraction(a, n) - Fraction(b, whole)
    return cost / max(len(row) - 1, 1)


def linked(group, cell):
    """Min-counts of a cell over a group of (class_of, counts)."""
    rows = [counts[class_of[cell]] for class_of, counts in group]
    if any(sum(row) == 0 for row in rows):
        return None
    return [min(numbers) for numbers in zip(*rows, strict=True)]


def groups(releases, containing=None):
    """All groups of releases, or those that contain one."""
    for size in range(1, len(releases) + 1):
        for chosen in combinations(range(len(releases)), size):
            if containing is None or containing in chosen:
                yield [releases[j] for j in chosen]


def fewest_in_any_group(releases, cell, containing=None):
    """The fewest values over every group in which anybody of the cell can be; 0 if nobody can."""
    found = []
    for group in groups(releases, containing):
        row = linked(group, cell)
        if row is not None and any(row):
            found.append(sum(n > 0 for n in row))
    return min(found, default=0)


def least_left(releases, cell, containing, also_in, min_records):
    """The fewest values with enough linked records, over groups in which anybody can be; None if nobody can.

    Groups contain one release and at least one of some others.
    """
    found = []
    for size in range(1, len(releases) + 1):
        for chosen in combinations(range(len(releases)), size):
            if containing in chosen and set(also_in) & set(chosen):
                row = linked([releases[j] for j in chosen], cell)
                if row is not None and any(row):
                    found.append(sum(n >= min_records for n in row))
    return min(found, default=None)


def linkage_classes(group):
    """The min-counts of every distinct combination of classes that links a record."""
    found = {}
    for cell in range(len(group[0][0])):
        row = linked(group, cell)
        if row is not None and any(row):
            found[tuple(class_of[cell] for class_of, _ in group)] = row
    return found


def shares(rows, ell):
    """Share of the linked records below ell, and with one value."""
    total = sum(map(sum, rows))
    below = sum(sum(row) for row in rows if sum(n > 0 for n in row) < ell)
    exposed = sum(sum(row) for row in rows if sum(n > 0 for n in row) == 1)
    return (below / total, exposed / total) if total else (0.0, 0.0)


def bayes(prior, counts, probabilities):
    """The belief about a person's value, by writing down the probability of the other people's records.

    `counts[j]` is the class of the person in release j, `probabilities[j]` how a random other person of that
    release falls into its cells (they may sum to less than 1: the rest falls elsewhere). A person of value s
    is one of the n_j(s) records; the others are a multinomial draw.
    """
    weights = []
    for s, belief in enumerate(prior):
        weight = Fraction(belief)
        for row, chances in zip(counts, probabilities, strict=True):
            rest = [n - (place == s) for place, n in enumerate(row)]
            if min(rest) < 0:
                weight = Fraction(0)
                break
            weight *= math.factorial(sum(rest))
            for n, chance in zip(rest, chances, strict=True):
                weight *= Fraction(chance) ** n / math.factorial(n)
        weights.append(weight)
    total = sum(weights)
    return [weight / total for weight in weights] if total else weights


def determined_pairs(pairs, n_first, n_second):
    """The pairs of classes whose common total follows from the totals of all classes: a rank test."""
    import numpy as np

    rows = np.zeros((n_first + n_second, len(pairs)))
    for column, (a, b) in enumerate(pairs):
        rows[a, column] = rows[n_first + b, column] = 1
    rank = np.linalg.matrix_rank(rows)
    found = set()
    for column, pair in enumerate(pairs):
        unit = np.zeros((1, len(pairs)))
        unit[0, column] = 1
        if np.linalg.matrix_rank(np.concatenate([rows, unit])) == rank:
            found.add(pair)
    return found


def subtractions(own, other):
    """All unions of classes of one release less a class or a union of the other, of which one is a class.

    Yields the classes of `own`, those of `other` that are subtracted, and what is left by value, wherever the
    people of the subtracted classes can all be in the others: they share a value with no other class there,
    and with those that they share one with they fit.
    """
    pairs = set(zip(own.partition.class_of.tolist(), other.partition.class_of.tolist(), strict=True))
    touched = [
        {a for a, c in pairs if c == b and ((own.counts[a] > 0) & (other.counts[b] > 0)).any()}
        for b in range(len(other.counts))
    ]
    for outer in _unions(len(own.counts)):
        for inner in _unions(len(other.counts)):
            near = set().union(*(touched[b] for b in inner))
            if min(len(outer), len(inner)) > 1 or not near <= {*outer} or not all(touched[b] for b in inner):
                continue
            taken = other.counts[list(inner)].sum(axis=0)
            if (own.counts[list(near)].sum(axis=0) >= taken).all():
                yield outer, inner, (own.counts[list(outer)].sum(axis=0) - taken).tolist()


def _unions(n_classes):
    return [each for n in range(1, n_classes + 1) for each in combinations(range(n_classes), n)]
