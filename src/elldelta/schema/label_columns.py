"""A column of labels, whoever wrote them: one kind and one domain for all releases, then every label in it.

The domain is made from the labels and from what a schema or a person says: numbers and dates are cut at every
end that occurs, texts are the values that occur, so that two values at one position are told apart by no
label. Labels that can be read in two ways are never guessed: they are collected, and refused together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.arrangement import LabelRuns
from elldelta.errors import ParameterError
from elldelta.schema.domains import Categories, Dates
from elldelta.schema.label_scale import PLAIN, find_scale, read_on_scale
from elldelta.schema.labels import (
    EVERYTHING,
    looks_generalized,
    normalized,
    parse_category,
    parse_category_run,
    parse_members,
    parse_number,
    parse_stars,
    read_on,
    resembles_range,
    split_bare,
    split_missing,
    split_otherwise,
    stands_for_missing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.schema.hierarchy import Hierarchy
    from elldelta.schema.labels import Reading
    from elldelta.schema.schema import Column

    Runs = list[tuple[int, int]]
    Groups = dict[str, tuple[str, ...] | None]

ColumnKind = Literal["auto", "number", "date", "text"]
ForeignNulls = Literal["refuse", "category", "unknown"]
Separators = Literal["auto", "sets", "values"]

_MISSING_WORDS = "no value: a category of its own"


@dataclass(frozen=True)
class ColumnRules:
    """What somebody says about a column, where its labels leave a doubt.

    Attributes:
        kind: What the column holds; found from its labels by default.
        nulls: What an empty cell means: "refuse" it, "category": a value of its own, "unknown": it could be
            anything.
        separators: Whether `a,b`, `a;b` and `a|b` in a text column are sets or values; by default they are
            sets if every part occurs as a value elsewhere, and refused otherwise.
        missing: Texts that stand for an empty cell.
        hierarchy: Names of groups of values.
        values: Values that exist, whether or not a label shows them; of numbers and dates also ranges.
        groups: The values of groups by their labels, as our own releases write them.
        is_ordered: Whether `values` have an order, so that `low..high` is a run of them.
        is_closed: Whether a schema says all this, so that there are no other texts than `values`, and no
            missing value unless empty cells are a category.
    """

    kind: ColumnKind = "auto"
    nulls: ForeignNulls = "refuse"
    separators: Separators = "auto"
    missing: tuple[str, ...] = ()
    hierarchy: Hierarchy | None = None
    values: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_ordered: bool = False
    is_closed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        for name, known in (
            ("kind", ("auto", "number", "date", "text")),
            ("nulls", ("refuse", "category", "unknown")),
            ("separators", ("auto", "sets", "values")),
        ):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"The {name} of a column must be one of {', '.join(known)}.",
                    found="It is something else.",
                )


def rules_of(column: Column) -> ColumnRules:
    """What a schema says about a column: its labels mean that and nothing else."""
    domain, whole = column.domain, column.domain.label(0, column.domain.size - 1)
    is_text = isinstance(domain, Categories)
    return ColumnRules(
        kind="text" if is_text else "date" if isinstance(domain, Dates) else "number",
        nulls="category" if column.has_missing else "refuse",
        separators="values" if is_text else "auto",
        missing=column.missing,
        hierarchy=column.hierarchy,
        values=domain.values if isinstance(domain, Categories) else (whole,),
        groups=column.groups,
        is_ordered=isinstance(domain, Categories) and domain.ordered,
        is_closed=True,
    )


@dataclass(frozen=True)
class LabelMeaning:
    """How a label was understood.

    Attributes:
        label: The label as it was written; None for an empty cell.
        meaning: What it means, in words.
        n_releases: In how many releases it occurs.
        is_plain: Whether it is a value itself, so that it may be somebody's own.
        problem: Why it cannot be used; empty if it can.
    """

    label: str | None
    meaning: str
    n_releases: int
    is_plain: bool = False
    problem: str = ""

    @property
    def may_be_shown(self) -> bool:
        """Whether the label is written like a generalized one, so that a message may quote it."""
        return self.label is not None and looks_generalized(normalized(self.label))


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """A column whose labels were understood.

    Attributes:
        name: Its common name.
        kind: "whole numbers", "numbers", "dates" or "text".
        meanings: Every distinct label, sorted, the empty one last.
        runs: The positions that each label names.
    """

    name: str
    kind: str
    meanings: tuple[LabelMeaning, ...]
    runs: LabelRuns

    @property
    def problems(self) -> tuple[LabelMeaning, ...]:
        """The labels that cannot be used."""
        return tuple(each for each in self.meanings if each.problem)

    @cached_property
    def code_of(self) -> dict[str | None, int]:
        """The number of each label."""
        return {each.label: code for code, each in enumerate(self.meanings)}

    @cached_property
    def same_meaning(self) -> NDArray[np.int64]:
        """For each label the first one that names the same positions."""
        runs: list[Runs] = [[] for _ in self.meanings]
        for label, *ends in zip(self.runs.label, self.runs.first, self.runs.last, strict=True):
            runs[label].append((int(ends[0]), int(ends[1])))
        first: dict[tuple[tuple[int, int], ...], int] = {}
        return np.array([first.setdefault(tuple(own), code) for code, own in enumerate(runs)], dtype=np.int64)


@dataclass
class Entry:
    """A label on the way to being understood."""

    label: str | None
    text: str
    n_releases: int
    written: str = ""
    with_missing: bool = False
    is_everything: bool = False
    is_missing: bool = False
    is_outside: bool = False
    meaning: str = ""
    problem: str = ""
    is_plain: bool = False
    members: tuple[str, ...] | None = None
    reading: Reading | None = None
    stars: tuple[str, int] | None = None
    places: Runs = field(default_factory=list)


def understand_column(
    name: str,
    releases: Sequence[Collection[str | None]],
    rules: ColumnRules | None = None,
    people: Collection[str | None] = (),
) -> LabelColumn:
    """Understands all labels of a column, over all releases together.

    Args:
        name: Its common name.
        releases: Per release, the labels that occur in the column.
        rules: What somebody says about the column.
        people: What is known about people to look for.

    Returns:
        The column; labels that cannot be used have a `problem`, and name no position.
    """
    rules = rules or ColumnRules()
    n_releases = Counter(label for found in releases for label in set(found))
    ordered = sorted({*n_releases, *people}, key=lambda label: (label is None, label or ""))
    groups, leaves = _groups(rules.hierarchy)
    declared = {*map(normalized, rules.values), *leaves, *groups}
    entries = [_started(label, n_releases[label], rules, declared) for label in ordered]
    unread = [each for each in entries if not (each.is_everything or each.is_missing or each.problem)]
    known = (*rules.values, *leaves)
    if rules.is_closed and rules.kind == "text":
        kind, named = "text", _read_closed(unread, rules)
    else:
        for entry in unread:
            _find_group(entry, groups, rules)
        scale = find_scale(unread, known, rules)
        if scale == "text":
            kind, named = "text", _read_texts(unread, known, rules)
        else:
            kind, named = read_on_scale(scale, unread, known)
    for entry in entries:  # a person with a value that the column cannot have is in no release
        is_nonsense = bool(entry.problem) and not entry.n_releases and rules.kind != "auto"
        entry.is_outside = is_nonsense and entry.label not in (None, "")
    return _finished(name, kind, entries, named)


def _is_on_scale(text: str, rules: ColumnRules) -> bool:
    return rules.kind in ("number", "date") and read_on(rules.kind, text) is not None


def one_spelling(values: Collection[str]) -> dict[str, str]:
    """One spelling for values that are equal: as they are, as numbers if all are, as truth values if all are.

    1 and 1.0 are one value: a release that went through a table of floats must not look different.
    """
    if all(value.casefold() in {"true", "false"} for value in values):
        return {value: value.casefold() for value in values}
    numbers = {value: parse_number(value) for value in values}
    if any(number is None for number in numbers.values()):
        return {value: value for value in values}
    shortest: dict[object, str] = {}
    in_order = sorted(values, key=lambda text: (len(text), text))
    return {value: shortest.setdefault(numbers[value], value) for value in in_order}


def _started(label: str | None, n_releases: int, rules: ColumnRules, declared: Collection[str]) -> Entry:
    text = "" if label is None else normalized(label)
    entry = Entry(label, text, n_releases)
    if text in rules.missing and text not in declared:
        text = ""
    is_placeholder = stands_for_missing(text) and text not in declared
    if is_placeholder and rules.nulls == "refuse" and rules.kind != "text":
        entry.problem = "it may stand for no value (say what empty cells mean, or that the column is text)"
    elif text == "" or (is_placeholder and rules.nulls != "refuse"):
        entry.is_missing = rules.nulls == "category"
        entry.is_everything = rules.nulls == "unknown"
        entry.meaning = {
            "refuse": "empty",
            "category": _MISSING_WORDS,
            "unknown": "no value: it could be anything",
        }[rules.nulls]
        if rules.nulls == "refuse":
            entry.problem = "nothing says what an empty cell means (nulls: category or unknown)"
    elif text == EVERYTHING:
        entry.is_everything, entry.meaning = True, "every value"
    else:
        rest, entry.with_missing = split_missing(text)
        if entry.with_missing and rules.is_closed and rules.nulls == "refuse":
            entry.problem = "the column has no missing values"
        if rest is None:
            entry.is_missing, entry.meaning, entry.with_missing = True, _MISSING_WORDS, False
        else:
            entry.text, entry.written = rest, split_missing(label or "")[0] or ""
    return entry


def _groups(hierarchy: Hierarchy | None) -> tuple[Groups, tuple[str, ...]]:
    """The leaves of every group with a name of its own, None where groups of one name differ; all leaves."""
    if hierarchy is None:
        return {}, ()
    found: dict[str, dict[int, list[str]]] = {}
    for row in hierarchy.rows:
        for level, group in enumerate(row[1:], start=1):
            found.setdefault(normalized(group), {}).setdefault(level, []).append(normalized(row[0]))
    groups: Groups = {}
    for group, levels in found.items():
        sets = {tuple(sorted(set(members))) for members in levels.values()}
        groups[group] = sets.pop() if len(sets) == 1 else None
    leaves = tuple(normalized(row[0]) for row in hierarchy.rows)
    for leaf in leaves:
        groups.pop(leaf, None)
    return groups, leaves


def _find_group(entry: Entry, groups: Groups, rules: ColumnRules) -> None:
    """Reads a label as a group of the hierarchy; one of our own is what its column calls it, and no other."""
    group = _unquoted(entry.text)
    if entry.written in rules.groups:
        entry.members = rules.groups[entry.written]
    elif group not in groups or (rules.is_closed and _is_on_scale(entry.text, rules)):
        return
    else:
        entry.members = groups[group]
    if entry.members is None:
        entry.problem = "the hierarchy has several groups of this name"
    else:
        entry.meaning = _group_meaning(entry.members)


def _group_meaning(members: Sequence[str]) -> str:
    return f"a group of the hierarchy: {len(members)} values"


def _read_texts(entries: list[Entry], known: Sequence[str], rules: ColumnRules) -> list[bool]:
    values = dict.fromkeys(normalized(value) for value in known)
    declared = set(values)
    for entry in entries:  # members of braces are values, whatever the order in which labels come
        entry.reading = None
        if entry.members is None and not entry.problem:
            entry.members = parse_members(entry.text)
        entry.stars = None if entry.members or entry.text in declared else parse_stars(entry.text)
        values.update(dict.fromkeys(entry.members or ()))
    bare = [entry for entry in entries if not (entry.members or entry.stars or entry.problem)]
    doubtful = [entry for entry in bare if not _is_value(entry.text, declared, rules)]
    values.update((_unquoted(entry.text), None) for entry in bare if entry not in doubtful)
    for entry in doubtful:
        _settle(entry, values, rules)
    for entry in bare:
        parts = split_otherwise(entry.text) if rules.kind == "auto" and entry.text not in declared else ()
        if parts and all(part in values for part in parts):
            entry.problem = "it may be a set of other values, or a value"
    for entry in doubtful:
        if not entry.problem:
            values.update(dict.fromkeys(entry.members or (entry.text,)))
    return _place_texts(entries, sorted(values))


def _is_value(text: str, declared: Collection[str], rules: ColumnRules) -> bool:
    """Whether a label can be nothing but a value."""
    if text in declared or _is_quoted(text):
        return True
    if "*" in text or (rules.kind == "auto" and (looks_generalized(text) or resembles_range(text))):
        return False
    return not split_bare(text) or rules.separators == "values"


def _settle(entry: Entry, values: Collection[str], rules: ColumnRules) -> None:
    """Decides whether a label is a set or a value that could be either, or says why it cannot be decided."""
    parts = split_bare(entry.text)
    if parts and rules.separators != "values":
        if rules.separators == "sets" or all(part in values for part in parts):
            entry.members = parts
        else:
            entry.problem = "it may be a set, or a value with a separator in it"
    elif "*" in entry.text:
        entry.problem = "only the end of a code can be stars"
    else:
        entry.problem = "it looks like a range, but the column holds text"


def _place_texts(entries: list[Entry], values: list[str]) -> list[bool]:
    """Gives values, codes that only stars name, and any other value their places; says which are named."""
    place_of = {value: place for place, value in enumerate(values)}
    named = [True] * len(values)
    stars = {entry.stars for entry in entries if entry.stars and not entry.problem}
    lengths_of = {(value, len(value)) for value in values} | stars
    matched = {
        (prefix, length): [value for value in _beginning(values, prefix) if len(value) == length]
        for prefix, length in stars
    }
    own_place: dict[tuple[str, int], int] = {}
    for prefix, length in sorted(stars):
        inner = any(p != prefix and p.startswith(prefix) and n == length for p, n in stars)
        own_place[prefix, length] = len(named)
        named.append(not matched[prefix, length] and not inner)
    for entry in entries:
        if entry.problem:
            continue
        if entry.stars:
            prefix, length = entry.stars
            if any(start.startswith(prefix) and n != length for start, n in lengths_of):
                entry.problem = "codes with this beginning have other lengths, so the stars may mean any end"
                continue
            entry.places = _as_runs(place_of[value] for value in matched[prefix, length])
            entry.places += _as_runs(
                own for (p, n), own in own_place.items() if p.startswith(prefix) and n == length
            )
            entry.meaning = _stars_meaning(prefix, length)
        else:
            members = entry.members or (_unquoted(entry.text),)
            entry.places = _as_runs(sorted(place_of[member] for member in members))
            entry.is_plain = entry.members is None
            entry.meaning = entry.meaning or (PLAIN if entry.is_plain else f"one of {len(members)} values")
    named.append(not named)  # any other value
    return named


def _beginning(values: list[str], prefix: str) -> Iterator[str]:
    """Those of the sorted values that begin with a prefix."""
    for value in values[bisect_left(values, prefix) :]:
        if not value.startswith(prefix):
            break
        yield value


def _stars_meaning(prefix: str, length: int) -> str:
    return f"codes of {length} characters that begin with {prefix!r}"


def _read_closed(entries: list[Entry], rules: ColumnRules) -> list[bool]:
    """Reads labels of which a list of all values is known: as they are written, or else in one spelling."""
    exact = _Declared(rules, rules.groups, str)
    alike = _Declared(rules, _groups(rules.hierarchy)[0], normalized)
    for entry in entries:
        found = exact.read(entry.written) or alike.read(entry.text)
        if found is None:
            entry.problem = "it is no value of the column, or no set of them"
        else:
            places, entry.meaning = found
            entry.places, entry.is_plain = _as_runs(sorted(places)), entry.meaning == PLAIN
    return [True] * len(rules.values)


class _Declared:
    """All values of a column, in one spelling; two that are spelt alike cannot be told apart in it."""

    def __init__(
        self,
        rules: ColumnRules,
        groups: Mapping[str, tuple[str, ...] | None],
        spell: Callable[[str], str],
    ) -> None:
        n_alike = Counter(map(spell, rules.values))
        self.place_of = {spell(v): n for n, v in enumerate(rules.values) if n_alike[spell(v)] == 1}
        self._is_ordered = rules.is_ordered
        self._sorted = sorted(self.place_of)
        self._groups = groups

    def read(self, text: str) -> tuple[list[int], str] | None:
        """The places of the values that a label names, and its meaning; None if it names none."""
        value = parse_category(text)
        for one in (value, text):
            if one in self.place_of and text not in self._groups:
                return [self.place_of[one]], PLAIN
        ends = [self.place_of.get(end) for end in parse_category_run(text) or ()] if self._is_ordered else []
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
            run = range(ends[0], ends[1] + 1)
            return list(run), f"from one value to another, {len(run)} values"
        group = next((one for one in (text, value) if one is not None and one in self._groups), None)
        stars = parse_stars(text)
        if group is not None:
            members = self._groups[group]
            meaning = _group_meaning(members or ())
        elif stars and not any(len(v) != stars[1] for v in _beginning(self._sorted, stars[0])):
            members = tuple(_beginning(self._sorted, stars[0]))
            meaning = _stars_meaning(*stars)
        else:
            members = parse_members(text)
            meaning = f"one of {len(members or ())} values"
        if not members or not all(member in self.place_of for member in members):
            return None
        return [self.place_of[member] for member in members], meaning


def _as_runs(places: Iterable[int]) -> Runs:
    runs: Runs = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == '"' and parse_category(text) is not None


def _unquoted(text: str) -> str:
    return (parse_category(text) or text) if _is_quoted(text) else text


def _finished(name: str, kind: str, entries: list[Entry], named: list[bool]) -> LabelColumn:
    """Adds the places of missing values and of nonsense, and turns places into runs."""
    if not any(entry.places or entry.is_missing for entry in entries):
        named = [True] * len(named)  # nothing but *: then every combination is as good as any other
    missing = len(named)
    if any(entry.is_missing or entry.with_missing for entry in entries):
        named = [*named, True]
    outside = len(named)
    if any(entry.is_outside for entry in entries):
        named = [*named, False]
    label, first, last = [], [], []
    for code, entry in enumerate(entries):
        places = [(0, outside - 1)] if entry.is_everything else list(entry.places)
        if entry.is_missing or entry.with_missing:
            places.append((missing, missing))
        if entry.is_outside:
            entry.problem, entry.meaning, places = "", "a value that the column cannot have", [(outside,) * 2]
        for low, high in [] if entry.problem else places:
            label.append(code)
            first.append(low)
            last.append(high)
        if entry.with_missing:
            entry.meaning += ", or no value"
    label_of, firsts, lasts = (np.array(numbers, dtype=np.int64) for numbers in (label, first, last))
    runs = LabelRuns(len(named), label_of, firsts, lasts, np.array(named, dtype=bool))
    meanings = tuple(
        LabelMeaning(entry.label, entry.meaning, entry.n_releases, entry.is_plain, entry.problem)
        for entry in entries
    )
    return LabelColumn(name, kind, meanings, runs)
