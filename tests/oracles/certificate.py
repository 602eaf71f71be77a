"""Slow, obvious twins of certificates and the ledger, written from Theorems E and F.

A release is a table (list of rows of counts per base class), the published class of each base class, and the
published classes whose records are left out.
"""

import math
from itertools import product


def shown(table, group_of, left_out, group):
    """The records that a published class shows, per value."""
    n_values = len(table[0])
    if group in left_out:
        return [0] * n_values
    return [
        sum(int(row[value]) for row, own in zip(table, group_of, strict=True) if own == group)
        for value in range(n_values)
    ]


def missed(witnesses, table, group_of, left_out=(), min_records=1):
    """M(c): per base class the set of its witnesses that its published class does not show."""
    result = []
    for own, group in zip(witnesses, group_of, strict=True):
        counts = shown(table, group_of, left_out, group)
        result.append({value for value in own if counts[value] < min_records} if sum(counts) else set())
    return result


def passes(witnesses, allowances, table, group_of, left_out=(), min_records=1):
    """Theorem E's condition."""
    return all(
        len(values) <= allowance
        for values, allowance in zip(
            missed(witnesses, table, group_of, left_out, min_records), allowances, strict=True
        )
    )


def linked(releases, base, min_records=1):
    """The values that survive for somebody in a base class; None if some release has nobody there."""
    counts = [shown(table, group_of, left_out, group_of[base]) for table, group_of, left_out in releases]
    if not all(sum(own) for own in counts):
        return None
    return {value for value in range(len(counts[0])) if min(own[value] for own in counts) >= min_records}


def fewest_on_any_path(releases, moves, min_records=1):
    """The fewest values that survive for somebody who is anywhere in one range in each release (Theorem H).

    Every path through the classes of a range is tried; None if nobody can be in all releases.
    """
    fewest = None
    for number in set(moves):
        classes = [base for base, own in enumerate(moves) if own == number]
        for path in product(classes, repeat=len(releases)):
            counts = [
                shown(table, group_of, left_out, group_of[base])
                for base, (table, group_of, left_out) in zip(path, releases, strict=True)
            ]
            if all(sum(own) for own in counts):
                left = sum(
                    min(own[value] for own in counts) >= min_records for value in range(len(counts[0]))
                )
                fewest = left if fewest is None else min(fewest, left)
    return fewest


def groupings(n):
    """All partitions of n things, as the number of the part of each."""

    def extend(prefix, used):
        if len(prefix) == n:
            yield tuple(prefix)
            return
        for part in range(used + 1):
            yield from extend([*prefix, part], max(used, part + 1))

    return extend([], 0)


def run_groupings(n):
    """All partitions of n things into runs."""
    for cuts in product((0, 1), repeat=n - 1):
        group_of = [0]
        for cut in cuts:
            group_of.append(group_of[-1] + cut)
        yield tuple(group_of)


def best(witnesses, allowances, table, candidates, loss_of, min_records=1):
    """The fewest records left out, then the least loss, over all groupings; what fails is left out.

    `loss_of(members)` is the loss of one published class.
    """
    optimum = None
    for group_of in candidates:
        n_left_out, loss = 0, 0.0
        for group in set(group_of):
            members = [base for base, own in enumerate(group_of) if own == group]
            counts = shown(table, group_of, (), group)
            misses = [
                len([value for value in witnesses[base] if counts[value] < min_records]) for base in members
            ]
            fails = sum(counts) and any(n > allowances[base] for n, base in zip(misses, members, strict=True))
            if fails:
                n_left_out += sum(counts)
            else:
                loss += loss_of(members)
        if optimum is None or (n_left_out, loss) < (optimum[0], optimum[1] - 1e-12):
            optimum = (n_left_out, loss)
    return optimum


def passes_alone(witnesses, allowances, table, members, r=1):
    """Whether some base classes may be published together, whatever happens to the others."""
    shown = [sum(table[base][value] for base in members) >= r for value in range(len(table[0]))]
    return all(sum(not shown[value] for value in witnesses[base]) <= allowances[base] for base in members)


def fewer_than(chances, ell):
    """The chance that fewer than ell of some independent events happen, by adding up all outcomes."""
    total = 0.0
    for outcome in product((False, True), repeat=len(chances)):
        if sum(outcome) < ell:
            total += math.prod(p if happens else 1.0 - p for p, happens in zip(chances, outcome, strict=True))
    return total
