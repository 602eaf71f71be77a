"""Mean weights from their definition: slow, one record after the other, with exact fractions."""

from fractions import Fraction
from itertools import product
from math import floor


def groups(counts, fewest):
    """Lists of (class, value), each list a group that shares a mean."""
    done, waiting = [], []
    for number, row in enumerate(counts):
        cells = sorted((n, value) for value, n in enumerate(row) if n)
        closed_here = False
        for _, value in cells:
            waiting.append((number, value))
            if sum(counts[c][v] for c, v in waiting) >= fewest:
                done.append(waiting)
                waiting, closed_here = [], True
        if closed_here:
            done[-1] += waiting
            waiting = []
    if waiting and done:
        done[-1] += waiting
    elif waiting:
        done = [waiting]
    return done


def steps(weights, step):
    """The total weight of the records of a group, in whole steps: halves go up, the ends are never shown."""
    total = floor(sum(map(Fraction, weights)) / Fraction(step) + Fraction(1, 2))
    return min(max(total, 1), max(1, len(weights) - 1))


def means(counts, weights_of, step, fewest):
    """The mean that is shown for every (class, value), from a list of weights for each."""
    shown = {}
    for cells in groups(counts, fewest):
        weights = [weight for cell in cells for weight in weights_of[cell]]
        shown |= dict.fromkeys(cells, Fraction(steps(weights, step)) * Fraction(step) / len(weights))
    return shown


def weightings(counts, levels):
    """Every way to give the records of a table weights from a few levels."""
    cells = [
        (number, value) for number, row in enumerate(counts) for value, n in enumerate(row) for _ in range(n)
    ]
    for chosen in product(levels, repeat=len(cells)):
        weights_of = {}
        for cell, weight in zip(cells, chosen, strict=True):
            weights_of.setdefault(cell, []).append(weight)
        yield weights_of
