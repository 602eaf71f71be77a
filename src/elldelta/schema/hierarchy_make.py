"""Hierarchies made by a rule: ranges of whole numbers, months and years of dates, prefixes of codes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from elldelta.errors import ParameterError
from elldelta.schema.domains import Dates, Integers
from elldelta.schema.hierarchy import Hierarchy

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from elldelta.choices import DateUnit

ROOT = "*"
MOST_LEAVES = 1_000_000


def integer_hierarchy(low: int, high: int, widths: Sequence[int], *, start: int = 0) -> Hierarchy:
    """Ranges of whole numbers, from narrow to wide.

    Args:
        low: The smallest number.
        high: The largest number.
        widths: The widths of the ranges, each a multiple of the one before.
        start: A number at which ranges of every width begin; those at the ends are cut off at low and high.

    >>> integer_hierarchy(17, 90, [5, 10]).rows[3]
    ('20', '20-24', '20-29', '*')
    """
    domain = Integers(low, high)
    _check_leaves(domain.size)
    if (
        not widths
        or widths[0] < 2
        or any(wide % narrow or wide == narrow for narrow, wide in pairwise(widths))
    ):
        raise ParameterError(
            "Widths must grow, each a multiple of the one before, from 2 on.",
            found=f"They are {', '.join(map(str, widths)) or 'missing'}.",
            remedy="Use for example 5,10,20.",
        )
    rows = []
    for number in range(low, high + 1):
        names = [str(number)]
        for width in widths:
            first = start + (number - start) // width * width
            ends = max(first, low), min(first + width - 1, high)
            names.append(domain.label(ends[0] - low, ends[1] - low))
        rows.append((*names, ROOT))
    return Hierarchy(tuple(rows))


def date_hierarchy(low: dt.date, high: dt.date, unit: DateUnit = "day") -> Hierarchy:
    """Days in months, months in years, years in decades, beginning with the unit.

    >>> import datetime as dt
    >>> date_hierarchy(dt.date(2020, 1, 31), dt.date(2020, 2, 1)).rows[0]
    ('2020-01-31', '2020-01', '2020', '2020s', '*')
    """
    domain = Dates(low, high, unit)
    _check_leaves(domain.size)
    rows = []
    for place in range(domain.size):
        leaf = domain.label(place, place)
        above = [leaf[:length] for length in (7, 4) if length < len(leaf)]
        rows.append((leaf, *above, f"{leaf[:3]}0s", ROOT))
    return Hierarchy(tuple(rows))


def code_hierarchy(codes: Sequence[str], lengths: Sequence[int] | None = None) -> Hierarchy:
    """Prefixes of codes: postal codes, diagnoses, occupations.

    Codes of one length are filled up with stars, so that a reader sees how much is hidden; others end in one
    star. A code that is no longer than a prefix is a group of its own.

    Args:
        codes: The codes, each once.
        lengths: The lengths of the prefixes, falling; every length below the longest code if None.

    >>> code_hierarchy(["560012", "560034"], [4, 2]).rows[0]
    ('560012', '5600**', '56****', '*')
    """
    _check_leaves(len(codes))
    if not codes or not all(codes):
        raise ParameterError(
            "Codes must be texts that are not empty.",
            found="There is no code." if not codes else "Some codes are empty.",
        )
    longest = max(map(len, codes))
    lengths = list(range(longest - 1, 0, -1)) if lengths is None else list(lengths)
    if any(short >= long for long, short in pairwise(lengths)) or not all(0 < n < longest for n in lengths):
        raise ParameterError(
            f"Lengths of prefixes must fall, from {longest - 1} or less to 1 or more.",
            found=f"They are {', '.join(map(str, lengths))}, and the longest code has {longest} characters.",
            remedy=f"Use for example {', '.join(map(str, range(longest - 1, 0, -2)))}.",
        )
    is_even = min(map(len, codes)) == longest
    rows = []
    for code in codes:
        groups = [
            code[:length] + "*" * (longest - length if is_even else 1) if len(code) > length else code
            for length in lengths
        ]
        rows.append((code, *groups, ROOT))
    return Hierarchy(tuple(rows))


def _check_leaves(n_leaves: int) -> None:
    if n_leaves > MOST_LEAVES:
        raise ParameterError(
            f"A hierarchy may have at most {MOST_LEAVES:,} leaves.",
            found=f"It would have {n_leaves:,}.",
            remedy="Use wider ranges or coarser dates as leaves.",
        )
