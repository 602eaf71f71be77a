"""Slow, obvious twins of the missing-value tails, the class failures and the accountant.

Everything is written from the definitions: all multinomial outcomes are enumerated, with exact fractions;
the worst dependence between two releases is a linear programme over all joint distributions.
"""

from fractions import Fraction
from itertools import combinations, product
from math import factorial

import numpy as np
from scipy.optimize import linprog


def outcomes(n_records, n_cells):
    """All ways to put n_records into n_cells."""
    if n_cells == 1:
        yield (n_records,)
        return
    for first in range(n_records + 1):
        for rest in outcomes(n_records - first, n_cells - 1):
            yield (first, *rest)


def seen_sets(cells, n_records):
    """Exact distribution of the set of values seen in a class; `cells` are fractions summing to at most 1."""
    cells = [*cells, 1 - sum(cells, Fraction(0))]
    chances = {}
    for counts in outcomes(n_records, len(cells)):
        chance = Fraction(factorial(n_records))
        for count, cell in zip(counts, cells, strict=True):
            chance *= cell**count / Fraction(factorial(count))
        seen = frozenset(s for s in range(len(cells) - 1) if counts[s])
        chances[seen] = chances.get(seen, Fraction(0)) + chance
    return chances


def missing_tail(cells, n_records, allowance):
    """Pr[miss > allowance], exactly."""
    return sum(
        (
            chance
            for seen, chance in seen_sets(cells, n_records).items()
            if len(cells) - len(seen) > allowance
        ),
        Fraction(0),
    )


def excess(chances, k):
    """E(W - k)^+ for a sum W of independent indicators, from all 2^n outcomes."""
    total = Fraction(0)
    for outcome in product((0, 1), repeat=len(chances)):
        weight = Fraction(1)
        for hit, chance in zip(outcome, chances, strict=True):
            weight *= chance if hit else 1 - chance
        total += weight * max(0, sum(outcome) - k)
    return total


def excess_by_poisson_binomial(chances, k):
    """The same from the distribution of W, for longer lists."""
    weights = [Fraction(1)]
    for chance in chances:
        longer = [Fraction(0)] * (len(weights) + 1)
        for hits, weight in enumerate(weights):
            longer[hits] += weight * (1 - chance)
            longer[hits + 1] += weight * chance
        weights = longer
    return sum((weight * max(0, hits - k) for hits, weight in enumerate(weights)), Fraction(0))


def lemma_b_prime(cells, n_records, allowance):
    chances = [(1 - cell) ** n_records for cell in cells]
    return min(excess_by_poisson_binomial(chances, k) / (allowance + 1 - k) for k in range(allowance + 1))


def pooled_failure(cells, ell, sizes):
    """Theorem C in its pooled form: the best over *all* witness sets and *all* vectors k."""
    best = None
    n_values = len(cells[0])
    for size in range(ell, n_values + 1):
        spare = size - ell
        for witnesses in combinations(range(n_values), size):
            tails = [
                [
                    excess_by_poisson_binomial([(1 - own[s]) ** n for s in witnesses], k)
                    for k in range(spare + 1)
                ]
                for own, n in zip(cells, sizes, strict=True)
            ]
            for ks in product(range(spare + 1), repeat=len(sizes)):
                if sum(ks) <= spare:
                    bound = sum(tails[j][k] for j, k in enumerate(ks)) / (spare + 1 - sum(ks))
                    best = bound if best is None else min(best, bound)
    return best


def certifiable_failure(cells, ell, n_records, releases):
    """One release, one allowance floor((a - ell) / t): the best over all witness sets."""
    return min(
        lemma_b_prime([cells[s] for s in witnesses], n_records, (size - ell) // releases)
        for size in range(ell, len(cells) + 1)
        for witnesses in combinations(range(len(cells)), size)
    )


def links_below(seen, ell):
    """Whether releases that saw these sets, all of them something, link to fewer than ell values."""
    return all(seen) and len(frozenset.intersection(*seen)) < ell


def identical_copies(cells, ell, n_records):
    return sum(
        (chance for seen, chance in seen_sets(cells, n_records).items() if links_below([seen], ell)),
        Fraction(0),
    )


def partly_shared(cells, ell, n_records, n_shared):
    """Two releases that share n_shared records and are independent otherwise."""
    shared = seen_sets(cells, n_shared) if n_shared else {frozenset(): Fraction(1)}
    own = seen_sets(cells, n_records - n_shared) if n_shared < n_records else {frozenset(): Fraction(1)}
    return sum(
        (
            a * b * c
            for (common, a), (first, b), (second, c) in product(shared.items(), own.items(), own.items())
            if links_below([common | first, common | second], ell)
        ),
        Fraction(0),
    )


def worst_dependence(first_cells, second_cells, ell, first_n, second_n):
    """The largest failure of two releases over all joint distributions with the given margins."""
    first = list(seen_sets(first_cells, first_n).items())
    second = list(seen_sets(second_cells, second_n).items())
    gain = np.array([[links_below([a, b], ell) for b, _ in second] for a, _ in first], dtype=float)
    rows = np.kron(np.eye(len(first)), np.ones(len(second)))
    columns = np.kron(np.ones(len(first)), np.eye(len(second)))
    margins = np.array([float(chance) for _, chance in first + second])
    margins[: len(first)] /= margins[: len(first)].sum()
    margins[len(first) :] /= margins[len(first) :].sum()
    solved = linprog(-gain.ravel(), A_eq=np.vstack((rows, columns)), b_eq=margins, method="highs")
    assert solved.status == 0
    return -solved.fun


def best_prefix(chances, ell, releases, certifiable, poissonized):
    """The smallest bound over every prefix of the rising chances of missing, with every k tried for each.

    In floats, for lists too long for fractions. Lemma B' (or Lemma B, `poissonized`): certifiable for one
    release, otherwise pooled over all of them, or with the allowance spread over them as evenly as it goes.
    """
    best = np.inf
    weights = np.ones(1)  # of W = 0, 1, ...
    for length, chance in enumerate(chances, start=1):
        weights = np.convolve(weights, [1.0 - chance, chance])
        if length < ell:
            continue
        hits = np.arange(weights.size)
        spare = length - ell
        share, rest = divmod(spare, releases)
        if poissonized:
            tails = [weights[hits > share + extra].sum() for extra in (0, 1)]
            if certifiable:
                best = min(best, tails[0])
            else:
                best = min(best, (releases - rest) * tails[0] + rest * tails[1])
            continue
        excess = [(weights * np.maximum(0, hits - k)).sum() for k in range(share + 2)]
        if certifiable:
            best = min(best, *(excess[k] / (share + 1 - k) for k in range(share + 1)))
        else:
            best = min(best, (releases - rest) * excess[share] + rest * excess[share + 1])
            best = min(best, *(releases * excess[k] / (spare + 1 - releases * k) for k in range(share + 1)))
    return best
