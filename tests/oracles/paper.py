"""Slow and obvious twins of the paper's definitions, written from the text and from nothing of ours."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise, product


def diversity(counts):
    """Definition 1, one class at a time."""
    best = None
    for row in counts:
        if sum(row) > 0:
            shown = sum(1 for cell in row if cell > 0)
            best = shown if best is None else min(best, shown)
    return best


def linked_values(class_maps, count_tables, q):
    """The linkage of one quasi-identifier: {value: n_[t](value)}, or None if some class has no record."""
    rows = [table[class_of[q]] for class_of, table in zip(class_maps, count_tables, strict=True)]
    if any(sum(row) == 0 for row in rows):
        return None
    smallest = {value: min(row[value] for row in rows) for value in range(len(rows[0]))}
    return {value: number for value, number in smallest.items() if number > 0}


def worst_case(n_values, ells):
    """Proposition 1 by trying all sets of values that share value 0 (somebody is in all releases)."""
    choices = [[{0, *others} for others in combinations(range(1, n_values), ell - 1)] for ell in ells]
    return min(len(set.intersection(*chosen)) for chosen in product(*choices))


def admissible(rows, ell, p):
    """Whether the union of these rows has at least ell cells >= p, in exact arithmetic."""
    sums = [sum(column) for column in zip(*rows, strict=True)]
    return sum(1 for cell in sums if cell >= p) >= ell


def most_contiguous_classes(table, ell, p):
    """The most classes of all contiguous admissible partitions, by trying every set of cuts; 0 if none."""
    n_rows = len(table)
    best = 0
    for n_cuts in range(n_rows):
        for cuts in combinations(range(1, n_rows), n_cuts):
            bounds = [0, *cuts, n_rows]
            if all(admissible(table[start:end], ell, p) for start, end in pairwise(bounds)):
                best = max(best, n_cuts + 1)
    return best


def most_classes(table, ell, p):
    """The most classes of all admissible partitions, contiguous or not; 0 if there is none."""

    def grow(row, classes):
        if row == len(table):
            return len(classes) if all(admissible(rows, ell, p) for rows in classes) else 0
        best = grow(row + 1, [*classes, [table[row]]])
        for index in range(len(classes)):
            joined = [*classes[:index], [*classes[index], table[row]], *classes[index + 1 :]]
            best = max(best, grow(row + 1, joined))
        return best

    return grow(0, [])


def printed_greedy(table, ell, p):
    """Algorithm 2 exactly as printed, faults included: the list of classes, each a list of rows."""
    n_rows = len(table)
    classes = {1: []}
    i = j = 1
    while i < n_rows:
        classes.setdefault(j, [])
        while not (classes[j] and admissible([table[row] for row in classes[j]], ell, p)):
            classes[j].append(i - 1)
            i += 1
            if i == n_rows + 1:
                break
        j += 1
    classes.setdefault(j, [])
    if not (classes[j] and admissible([table[row] for row in classes[j]], ell, p)):
        classes[j - 1] = classes.get(j - 1, []) + classes.pop(j)
        n_classes = j - 1
    else:
        n_classes = j
    return [classes.get(k, []) for k in range(1, n_classes + 1)]


def records(m, ell, delta, p):
    """N before rounding up, in 60 digits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        m, delta, p = (Decimal(number) for number in (m, delta, p))
        return (m * ell / delta).ln() / (1 / (1 - p)).ln()


def m_bound(marginal, n_quasi_identifiers, ell, p):
    """The three terms of m in exact fractions."""
    exact = sorted((Fraction(probability) for probability in marginal), reverse=True)
    p = Fraction(p)
    return min(Fraction(n_quasi_identifiers), 1 / (ell * p), sum(exact[ell - 1 :]) / p)


def all_thresholds(table):
    """Every sum of an interval of rows in a column: the only values of p at which anything can change."""
    sums = set()
    for start in range(len(table)):
        for end in range(start + 1, len(table) + 1):
            sums |= {sum(column) for column in zip(*table[start:end], strict=True)}
    return sorted(sums - {0})


def exact_failure_one_release(cells, ell, n_records):
    """Pr[a class shows fewer than ell values], by inclusion-exclusion over the values it shows.

    `cells` are the probabilities of the class's values; the rest of the mass lies outside the class.
    """
    cells = [Fraction(cell) for cell in cells]
    outside = 1 - sum(cells)
    failure = Fraction(0)
    for n_shown in range(ell):
        for shown in combinations(range(len(cells)), n_shown):
            exactly = Fraction(0)
            for size in range(n_shown + 1):
                for inner in combinations(shown, size):
                    mass = outside + sum(cells[value] for value in inner)
                    exactly += (-1) ** (n_shown - size) * mass**n_records
            failure += exactly
    return failure


def is_close(a, b, relative=1e-12):
    return math.isclose(float(a), float(b), rel_tol=relative)
