"""Slow, obvious twins of certificates and the ledger, written from Theorems E and F.

A release is a table (list of rows of counts per base class), the published class of each base class, and the
published classes whose records are left out.
"""

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
