"""Value hierarchies: groups of values, groups of groups, up to a root, each with a name a reader knows.

A hierarchy is one row per leaf, from the leaf to the root: ``("Bachelors", "Undergraduate", "Higher
education", "*")``. Put on a domain it says where boxes may be cut, and names the runs of positions that are
exactly one of its groups.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.box_tree import CutTree
from elldelta.engines.cells import spelling
from elldelta.errors import SchemaError
from elldelta.schema import labels
from elldelta.schema.domains import UNKNOWN, Bins, Categories, Dates, Domain, Integers
from elldelta.schema.hierarchy_problems import problem_of, refusal, structural_problems, usual_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elldelta.schema.hierarchy_problems import Problem


_WHOLE_RANGE = re.compile(r"(-?[0-9]{1,19})(?:(?:-|\.\.)(-?[0-9]{1,19}))?")


@dataclass(frozen=True)
class Hierarchy:
    """One row per leaf: its name, the names of the groups it lies in, and the root.

    Attributes:
        rows: The rows; all have the same number of levels and end in the same root.

    >>> Hierarchy((("F", "*"), ("M", "*"))).n_levels
    2
    """

    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        rows = tuple(tuple(row) for row in self.rows)
        if not all(isinstance(name, str) for row in rows for name in row):
            raise SchemaError(
                "The rows of a hierarchy must be lists of texts.",
                found="Some entries are not texts.",
                remedy="Put every name in quotes.",
            )
        rows = tuple(tuple(map(spelling, row)) for row in rows)
        problems = structural_problems(rows, range(1, len(rows) + 1))
        if problems:
            raise refusal("A hierarchy contradicts itself.", problems)
        object.__setattr__(self, "rows", rows)

    @property
    def n_levels(self) -> int:
        """The number of levels, leaves and root included."""
        return len(self.rows[0])


@dataclass(frozen=True)
class HierarchyRows:
    """Rows as somebody wrote them, right or wrong.

    Attributes:
        rows: Names from the leaf to the root.
        lines: The line of each row in its file; empty if the rows come from elsewhere.
        source: What the rows are called in messages.
    """

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...] = ()
    source: str = "The hierarchy"

    def __post_init__(self) -> None:
        if all(isinstance(name, str) for row in self.rows for name in row):
            object.__setattr__(self, "rows", tuple(tuple(map(spelling, row)) for row in self.rows))

    @property
    def unit(self) -> str:
        """What messages count: lines of a file, or rows."""
        return "line" if self.lines else "row"

    def problems(self, domain: Domain | None = None) -> tuple[Problem, ...]:
        """Everything that is wrong, with the rows by themselves and for a domain."""
        lines = self.lines or range(1, len(self.rows) + 1)
        structural = structural_problems(self.rows, lines)
        return structural if domain is None else (*structural, *fit_problems(self.rows, domain))

    def checked(self, domain: Domain | None = None, *, naming: bool = True) -> Hierarchy:
        """The hierarchy, if nothing is wrong with it; `naming` says whether messages may quote values.

        Raises:
            SchemaError: Lists everything that is wrong.
        """
        if not all(isinstance(name, str) for row in self.rows for name in row):
            return Hierarchy(self.rows)  # which says so
        problems = self.problems(domain)
        if problems:
            raise refusal(f"{self.source} cannot be used.", problems, self.unit, naming=naming)
        return Hierarchy(self.rows)


class FittedHierarchy:
    """A hierarchy on the positions of a domain.

    Attributes:
        domain: The domain; unordered categories are put into an order in which siblings are neighbours.
        hierarchy: One row per position, in the order of the positions, other leaves left out.
    """

    def __init__(self, hierarchy: Hierarchy, domain: Domain, owner: str = "A column") -> None:
        problems = fit_problems(hierarchy.rows, domain)
        if problems:
            raise refusal(f"{owner} and its hierarchy do not fit.", problems)
        placed = _Placed(hierarchy.rows, domain)
        self.domain = _in_order(domain, placed.order)
        self.hierarchy = Hierarchy(
            tuple((leaf_name(domain, place), *placed.row(place)[1:]) for place in placed.order)
        )
        self._names = {
            ends: _spelling(self.domain, ends, name) for ends, name in _nodes(self.hierarchy.rows).items()
        }

    def label(self, low: int, high: int) -> str | None:
        """The name of the group that is exactly the positions from `low` to `high`, as a label.

        None for one position, which has its own label, and where there is no such group.
        """
        return self._names.get((low, high))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The leaves of every group that has a label of its own, by the label."""
        leaves = tuple(row[0] for row in self.hierarchy.rows)
        return {label: leaves[low : high + 1] for (low, high), label in self._names.items()}

    def cut_tree(self, *, has_missing: bool) -> CutTree:
        """Where boxes may be cut; a position for missing values is a child of the root by itself."""
        columns = list(zip(*self.hierarchy.rows, strict=True))
        levels = [np.arange(self.domain.size)]
        levels += [np.unique(names, return_inverse=True)[1].reshape(-1) for names in columns[1:]]
        table = np.array(levels, dtype=np.int64)
        if has_missing:
            missing = np.full((len(levels), 1), self.domain.size, dtype=np.int64)
            missing[-1] = table[-1, 0]
            table = np.concatenate((table, missing), axis=1)
        return CutTree(table)


def fit_problems(rows: Sequence[Sequence[str]], domain: Domain) -> tuple[Problem, ...]:
    """What is wrong with rows for a domain; rows that are wrong by themselves are passed over."""
    if not rows or usual_length(rows) < 2:
        return ()
    placed = _Placed(rows, domain)
    found = [*placed.missing(), *placed.torn_apart()]
    levels = [[placed.row(place)[level] for place in placed.order] for level in range(1, placed.n_levels - 1)]
    if not _is_unordered(domain):
        found += _interrupted(levels)
    if not found and not structural_problems(rows, range(len(rows))):
        ordered = tuple(placed.row(place) for place in placed.order)
        found += _ambiguous(_in_order(domain, placed.order), ordered)
    return tuple(found)


def leaf_name(domain: Domain, position: int) -> str:
    """How a hierarchy names one position: the category itself, or the label of the number, date or bin."""
    if isinstance(domain, Categories):
        return domain.values[position]
    return domain.label(position, position)


class _Placed:
    """Which row stands for which position, in the order that the hierarchy asks for."""

    def __init__(self, rows: Sequence[Sequence[str]], domain: Domain) -> None:
        self.n_levels = usual_length(rows)
        self._domain = domain
        regular: dict[str, tuple[str, ...]] = {}
        for row in rows:
            if len(row) == self.n_levels:
                regular.setdefault(row[0], tuple(row))
        self._rows: dict[int, tuple[str, ...]] = {}
        self._torn: dict[int, None] = {}
        for row, place in zip(regular.values(), _positions(list(regular), domain), strict=True):
            if place >= 0 and self._rows.setdefault(place, row)[1:] != row[1:]:
                self._torn[place] = None
        self.order = self._ordered()

    def row(self, position: int) -> tuple[str, ...]:
        return self._rows[position]

    def missing(self) -> list[Problem]:
        n_missing = self._domain.size - len(self._rows)
        missing = (place for place in range(self._domain.size) if place not in self._rows)
        # a few of them: a domain can have 2^62 positions
        names = [leaf_name(self._domain, place) for place in islice(missing, 5)] if n_missing else ()
        words = ("value of the column has", "values of the column have", "no row")
        return problem_of("missing", range(n_missing), words, names)

    def torn_apart(self) -> list[Problem]:
        names = [leaf_name(self._domain, place) for place in self._torn]
        words = ("position of the column lies", "positions of the column lie", "in two groups")
        return problem_of("torn", names, words, names)

    def _ordered(self) -> tuple[int, ...]:
        places = sorted(self._rows)
        if not _is_unordered(self._domain):
            return tuple(places)
        first: dict[tuple[int, str], int] = {}
        for place in places:
            for level, name in enumerate(self._rows[place]):
                first.setdefault((level, name), place)
        # Depth first, every group where its first value stood: an order that fits already stays as it is.
        return tuple(
            sorted(
                places,
                key=lambda place: (
                    [first[level, self._rows[place][level]] for level in range(self.n_levels - 1, 0, -1)],
                    place,
                ),
            )
        )


def _is_unordered(domain: Domain) -> bool:
    return isinstance(domain, Categories) and not domain.ordered


def _positions(leaves: list[str], domain: Domain) -> list[int]:
    """The position of each leaf, negative for leaves that the domain does not have."""
    import pyarrow as pa

    def encoded(texts: list[str]) -> list[int]:
        return [int(place) for place in domain.encode(pa.array(texts, pa.string()))]

    positions = encoded(leaves)
    if not isinstance(domain, Categories):
        # Ranges, bins and such are also known by their label: 20-24, [0, 10).
        unknown = [index for index, place in enumerate(positions) if place == UNKNOWN]
        firsts = encoded([_first_value(leaves[index], domain) for index in unknown])
        for index, place in zip(unknown, firsts, strict=True):
            if place >= 0 and domain.label(place, place) == leaves[index]:
                positions[index] = place
    return positions


def _first_value(label: str, domain: Domain) -> str:
    """The first value of a range, as text; empty if the label is none."""
    is_date = isinstance(domain, Dates)
    reading = labels.read_on("date" if is_date else "number", label)
    low = None if reading is None else reading.spans[0].low
    if low is None:
        return ""
    return dt.date.fromordinal(int(low)).isoformat() if is_date else format(low, "f")


def _in_order(domain: Domain, order: tuple[int, ...]) -> Domain:
    if not _is_unordered(domain):
        return domain
    assert isinstance(domain, Categories)  # noqa: S101
    return Categories(tuple(domain.values[place] for place in order))


def _groups(rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, int, int, str]]:
    """Level, first and last position and name of every group below the root, from fine to coarse."""
    for level in range(1, len(rows[0]) - 1):
        low = 0
        for place in range(1, len(rows) + 1):
            if place == len(rows) or rows[place][level] != rows[low][level]:
                yield level, low, place - 1, rows[low][level]
                low = place


def _nodes(rows: Sequence[Sequence[str]]) -> dict[tuple[int, int], str]:
    """The name of every run of two or more positions that is a group: the lowest where several are."""
    names: dict[tuple[int, int], str] = {}
    for _, low, high, name in _groups(rows):
        if low < high:
            names.setdefault((low, high), name)
    return names


def _spelling(domain: Domain, ends: tuple[int, int], name: str) -> str:
    # -5..3 needs no quotes where it is what the label would be anyway.
    return name if name == domain.label(*ends) else labels.quoted(name)


def _interrupted(levels: list[list[str]]) -> list[Problem]:
    names: dict[str, None] = {}
    for level in levels:
        ended: set[str] = set()
        for place, name in enumerate(level):
            if name in ended:
                names[name] = None
            if place + 1 == len(level) or level[place + 1] != name:
                ended.add(name)
    words = ("group is", "groups are", "interrupted by others, though the values of the column have an order")
    return problem_of("interrupted", names, words, names)


def _ambiguous(domain: Domain, rows: Sequence[Sequence[str]]) -> list[Problem]:
    wrong = _misleading(domain, rows)
    example = ""
    if wrong and isinstance(domain, Integers | Dates):  # of categories there may be a great many
        (low, high), name = next(iter(wrong.items()))
        example = f"the group {name!r} holds {domain.label(low, high)}"
    words = ("group has", "groups have", "a name that means other values")
    return problem_of("ambiguous", wrong, words, dict.fromkeys(wrong.values()), example=example)


def _misleading(domain: Domain, rows: Sequence[Sequence[str]]) -> dict[tuple[int, int], str]:
    """Groups whose label would also be that of other positions, or reads as other numbers or dates."""
    nodes = _nodes(rows)
    whole = (0, len(rows) - 1)
    meanings: dict[str, set[tuple[int, int]]] = {labels.quoted(rows[0][-1]): {whole}}
    for ends, name in nodes.items():
        meanings.setdefault(_spelling(domain, ends, name), set()).add(ends)
    wrong = {}
    for ends, name in nodes.items():
        is_ordinary = name == domain.label(*ends)  # what its positions would be called anyway
        is_other = not is_ordinary and _read_as(domain, name) not in (None, ends)
        if is_other or len(meanings[_spelling(domain, ends, name)]) > 1:
            wrong[ends] = name
    return wrong


def _read_as(domain: Domain, name: str) -> tuple[int, int] | None:
    """The positions that a reader would take a name for: 15-19 on ages from 17 is 17 to 19."""
    if isinstance(domain, Categories):
        place = domain.values.index(name) if name in domain.values else None
        return None if place is None else (place, place)
    ends = None if not isinstance(domain, Integers | Dates | Bins) else _read_as_open(domain, name)
    if ends is not None:
        pass
    elif isinstance(domain, Integers) and (match := _WHOLE_RANGE.fullmatch(name)):
        first, last = int(match[1]), int(match[2] or match[1])
        ends = (first - domain.low) // domain.width, (last - domain.low) // domain.width
    elif isinstance(domain, Dates) and (days := labels.parse_days(name)):
        ends = domain.places(*(dt.date.fromordinal(day) for day in (days[0], days[1] - 1)))
    if ends is None or ends[1] < 0 or ends[0] >= domain.size or ends[0] > ends[1]:
        return None
    return max(ends[0], 0), min(ends[1], domain.size - 1)


def _read_as_open(domain: Integers | Dates | Bins, name: str) -> tuple[int, int] | None:
    """The positions of a name that is written like a range with one end only: `60+`, `<=1990-06`, `<10`."""
    reading = labels.read_on("date" if isinstance(domain, Dates) else "number", labels.normalized(name))
    if reading is None or len(reading.spans) != 1:
        return None
    [span] = reading.spans
    if (span.low is None) == (span.high is None):
        return None
    is_up = span.low is not None
    end = (span.low if is_up else span.high) or 0
    if isinstance(domain, Bins):
        place = bisect_left(domain.edges, float(end))
    else:
        cut = int(end) + (not span.has_low if is_up else span.has_high)  # the first value above
        if isinstance(domain, Integers):
            place = (cut - domain.low) // domain.width
        else:
            day = dt.date.fromordinal(min(max(cut, 1), dt.date.max.toordinal()))
            place, _ = domain.places(day, day)
    return (place, domain.size - 1) if is_up else (0, place - 1)
