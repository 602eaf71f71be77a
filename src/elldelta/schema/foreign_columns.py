"""A column of labels as others write them: one kind and one domain for all releases, then every label in it.

The domain is made from the labels themselves: numbers and dates are cut at every end that occurs, texts are
the values that occur, so that two values at one position are told apart by no label. Labels that can be read
in two ways are never guessed: they are collected, and refused together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.arrangement import LabelRuns
from elldelta.schema import labels as own_labels
from elldelta.schema.foreign_labels import (
    EVERYTHING,
    Scale,
    looks_generalized,
    normalized,
    parse_members,
    parse_stars,
    read_on,
    resembles_range,
    split_bare,
    split_otherwise,
    stands_for_missing,
)
from elldelta.schema.foreign_rules import ColumnRules, rules_of
from elldelta.schema.foreign_scale import scale_positions, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from elldelta.schema.foreign_labels import Reading
    from elldelta.schema.foreign_scale import Cut
    from elldelta.schema.hierarchy import Hierarchy

__all__ = ["ColumnRules", "ForeignColumn", "LabelMeaning", "rules_of", "understand_column"]

_MOST_WORDS = 5
OTHER_VALUE = "any other value"
_MISSING_WORDS = "no value: a category of its own"


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
class ForeignColumn:
    """A column whose labels were understood.

    Attributes:
        name: Its common name.
        kind: "whole numbers", "numbers", "dates" or "text".
        meanings: Every distinct label, sorted, the empty one last.
        runs: The positions that each label names.
        positions: Words for every position.
        ends: For numbers and dates, what every position begins with, and the last ends with.
    """

    name: str
    kind: str
    meanings: tuple[LabelMeaning, ...]
    runs: LabelRuns
    positions: tuple[str, ...]
    ends: tuple[Cut | None, ...] = ()

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
        runs: list[list[tuple[int, int]]] = [[] for _ in self.meanings]
        for label, *ends in zip(self.runs.label, self.runs.first, self.runs.last, strict=True):
            runs[label].append((int(ends[0]), int(ends[1])))
        first: dict[tuple[tuple[int, int], ...], int] = {}
        return np.array([first.setdefault(tuple(own), code) for code, own in enumerate(runs)], dtype=np.int64)

    def describe(self, mask: NDArray[np.bool_]) -> str:
        """Words for a set of positions."""
        if mask.all():
            return "every value"
        runs = LabelRuns.from_masks(mask[np.newaxis])
        parts: list[str] = []
        for low, high in zip(runs.first.tolist(), runs.last.tolist(), strict=True):
            n_spans = min(high + 1, max(len(self.ends) - 1, 0)) - low
            if n_spans > 0:
                parts.append(words(self.ends[low], self.ends[low + n_spans], self.kind))
            parts += self.positions[low + max(n_spans, 0) : high + 1]
        more = f" and {len(parts) - _MOST_WORDS} more" if len(parts) > _MOST_WORDS else ""
        return ", ".join(parts[:_MOST_WORDS]) + more


@dataclass
class _Entry:
    """A label on the way to being understood."""

    label: str | None
    text: str
    n_releases: int
    with_missing: bool = False
    is_everything: bool = False
    is_missing: bool = False
    meaning: str = ""
    problem: str = ""
    is_plain: bool = False
    members: tuple[str, ...] | None = None
    reading: Reading | None = None
    stars: tuple[str, int] | None = None
    places: list[tuple[int, int]] = field(default_factory=list)


def understand_column(
    name: str, releases: Sequence[Collection[str | None]], rules: ColumnRules | None = None
) -> ForeignColumn:
    """Understands all labels of a column, over all releases together.

    Args:
        name: Its common name.
        releases: Per release, the labels that occur in the column.
        rules: What somebody says about the column.

    Returns:
        The column; labels that cannot be used have a `problem`, and name no position.
    """
    rules = rules or ColumnRules()
    n_releases = Counter(label for found in releases for label in set(found))
    ordered = sorted(n_releases, key=lambda label: (label is None, label or ""))
    groups, leaves = _groups(rules.hierarchy)
    declared = {*map(normalized, rules.values), *leaves, *groups}
    entries = [_started(label, n_releases[label], rules, declared) for label in ordered]
    open_entries = [entry for entry in entries if not entry.is_everything and not entry.is_missing]
    open_entries = [entry for entry in open_entries if not entry.problem]
    for entry in open_entries:
        group = _unquoted(entry.text)
        if group in groups and group not in leaves:
            members = groups[group]
            if members is None:
                entry.problem = "the hierarchy has several groups of this name"
            else:
                entry.members = members
                entry.meaning = f"a group of the hierarchy: {len(members)} values"
    known = (*rules.values, *leaves)
    kind = _kind(open_entries, known, rules)
    ends: tuple[Cut | None, ...] = ()
    if kind == "text":
        positions, named, found_kind = _text_positions(open_entries, known, rules)
    else:
        positions, named, found_kind, ends = _scale_positions(kind, open_entries, known)
    return _finished(name, found_kind, entries, positions, named, ends)


def _started(label: str | None, n_releases: int, rules: ColumnRules, declared: Collection[str]) -> _Entry:
    text = "" if label is None else normalized(label)
    entry = _Entry(label, text, n_releases)
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
        rest, entry.with_missing = own_labels.split_missing(text)
        if rest is None:
            entry.is_missing, entry.meaning, entry.with_missing = True, _MISSING_WORDS, False
        else:
            entry.text = rest
    return entry


def _groups(hierarchy: Hierarchy | None) -> tuple[dict[str, tuple[str, ...] | None], tuple[str, ...]]:
    """The leaves of every group by its name, None where groups of one name differ; and all leaves."""
    if hierarchy is None:
        return {}, ()
    found: dict[str, dict[int, list[str]]] = {}
    for row in hierarchy.rows:
        for level, group in enumerate(row[1:], start=1):
            found.setdefault(normalized(group), {}).setdefault(level, []).append(normalized(row[0]))
    groups: dict[str, tuple[str, ...] | None] = {}
    for group, levels in found.items():
        sets = {tuple(sorted(set(members))) for members in levels.values()}
        groups[group] = sets.pop() if len(sets) == 1 else None
    return groups, tuple(normalized(row[0]) for row in hierarchy.rows)


def _kind(entries: list[_Entry], known: Sequence[str], rules: ColumnRules) -> Scale | Literal["text"]:
    """The kind of the column; sets the readings of its labels on the way."""
    candidates: list[Scale] = []
    if rules.kind == "auto":
        if not any(parse_stars(entry.text) for entry in entries):
            candidates = ["number", "date"]
    elif rules.kind != "text":
        candidates = [rules.kind]
    for scale in candidates:
        readings = [None if entry.members else read_on(scale, entry.text) for entry in entries]
        values = [read_on(scale, normalized(value)) for value in known]
        fits = all(
            reading is not None or entry.members for entry, reading in zip(entries, readings, strict=True)
        )
        fits = fits and all(value is not None and value.is_plain for value in values)
        read = [reading for reading in (*readings, *values) if reading is not None]
        if rules.kind == "auto":
            are_codes = all(each.is_plain for each in read) and any(each.doubt for each in read)
            if not read or not fits or are_codes:  # 01234 and 56001 are codes, unless somebody says otherwise
                continue
        for entry, reading in zip(entries, readings, strict=True):
            entry.reading = reading
            if reading is not None:
                entry.is_plain = reading.is_plain
                entry.problem = "" if rules.kind != "auto" or _comma(reading) else reading.doubt
                if _comma(reading) and rules.separators != "sets":
                    entry.problem = reading.doubt
            elif not entry.members:
                entry.problem = f"it is no {scale} and no range of them"
        return scale
    return "text"


def _comma(reading: Reading) -> bool:
    return reading.doubt.startswith("the comma")


_Positions = tuple["list[str]", "list[bool]", str]


def _scale_positions(
    scale: Scale, entries: list[_Entry], known: Sequence[str]
) -> tuple[list[str], list[bool], str, tuple[Cut | None, ...]]:
    usable = []
    for entry in entries:
        if entry.problem:
            continue
        if entry.members:
            found = [read_on(scale, member) for member in entry.members]
            if not all(reading is not None and reading.is_plain for reading in found):
                entry.problem = f"a value of its group is no {scale}"
                continue
            spans = tuple(span for reading in found if reading is not None for span in reading.spans)
        else:
            spans = entry.reading.spans if entry.reading else ()
        usable.append((entry, spans))
    values = [reading.spans for value in known if (reading := read_on(scale, normalized(value)))]
    result = scale_positions(scale, [spans for _, spans in usable], values)
    for (entry, _), places, meaning in zip(usable, result.places, result.meanings, strict=True):
        entry.places = places
        entry.meaning = entry.meaning or ("the value itself" if entry.is_plain else meaning)
    names = [words(low, high, result.kind) for low, high in pairwise(result.ends)]
    return names, list(result.is_named), result.kind, result.ends


def _text_positions(entries: list[_Entry], known: Sequence[str], rules: ColumnRules) -> _Positions:
    values = dict.fromkeys(normalized(value) for value in known)
    declared = set(values)
    for entry in entries:  # members of braces are values, whatever the order in which labels come
        entry.reading = None
        if entry.members is None and not entry.problem:
            entry.members = parse_members(entry.text)
        entry.stars = None if entry.members or entry.text in declared else parse_stars(entry.text)
        values.update(dict.fromkeys(entry.members or ()))
    bare = [entry for entry in entries if not (entry.members or entry.stars or entry.problem)]
    doubtful = [entry for entry in bare if _settled_value(entry, declared, rules) is None]
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
    if rules.is_closed:
        values = dict.fromkeys(declared)
    return _place_texts(entries, sorted(values), rules)


def _settled_value(entry: _Entry, declared: Collection[str], rules: ColumnRules) -> str | None:
    """The value of a label that can be nothing but a value; None if it could be something else."""
    text = entry.text
    if text in declared or _is_quoted(text):
        return _unquoted(text)
    if "*" in text or (rules.kind == "auto" and (looks_generalized(text) or resembles_range(text))):
        return None
    if rules.is_ordered and ".." in text:
        return None
    return None if split_bare(text) and rules.separators != "values" else text


def _settle(entry: _Entry, values: Collection[str], rules: ColumnRules) -> None:
    """Decides what a label is that could be a set, a run or a value, or says why it cannot."""
    text = entry.text
    if rules.is_ordered and ".." in text:
        ends = own_labels.parse_category_run(text)
        order = {normalized(value): place for place, value in enumerate(rules.values)}
        if ends and ends[0] in order and ends[1] in order and order[ends[0]] <= order[ends[1]]:
            run = rules.values[order[ends[0]] : order[ends[1]] + 1]
            entry.members = tuple(map(normalized, run))
            entry.meaning = f"from one value to another, {len(run)} values"
        else:
            entry.problem = "its ends are no values of the column"
        return
    parts = split_bare(text)
    if parts and rules.separators != "values":
        if rules.separators == "sets" or all(part in values for part in parts):
            entry.members = parts
        else:
            entry.problem = "it may be a set, or a value with a separator in it"
    elif "*" in text:
        entry.problem = "only the end of a code can be stars"
    else:
        entry.problem = "it looks like a range, but the column holds text"


def _place_texts(entries: list[_Entry], values: list[str], rules: ColumnRules) -> _Positions:
    place_of = {value: place for place, value in enumerate(values)}
    names, named = list(values), [True] * len(values)
    stars = {entry.stars for entry in entries if entry.stars and not entry.problem}
    lengths_of = _lengths(values, stars)
    own_place: dict[tuple[str, int], int] = {}
    matched = {pattern: _matching(values, *pattern) for pattern in stars}
    if not rules.is_closed:
        for prefix, length in sorted(stars):
            inner = any(p != prefix and p.startswith(prefix) and n == length for p, n in stars)
            own_place[prefix, length] = len(names)
            names.append(f"another code {prefix}{'*' * (length - len(prefix))}")
            named.append(not matched[prefix, length] and not inner)
    for entry in entries:
        if entry.problem:
            continue
        if entry.stars:
            prefix, length = entry.stars
            if any(start.startswith(prefix) and n != length for start, n in lengths_of):
                entry.problem = "codes with this beginning have other lengths, so the stars may mean any end"
                continue
            entry.places = _as_runs([place_of[value] for value in matched[prefix, length]])
            covered = [own for (p, n), own in own_place.items() if p.startswith(prefix) and n == length]
            entry.places += _as_runs(covered)
            entry.meaning = f"codes of {length} characters that begin with {prefix!r}"
            if not entry.places:
                entry.problem = "no value of the column has this beginning"
        elif entry.members is not None:
            outside = [member for member in entry.members if member not in place_of]
            if outside:
                entry.problem = "a member is no value of the column"
                continue
            entry.places = _as_runs(sorted(place_of[member] for member in entry.members))
            entry.meaning = entry.meaning or f"one of {len(entry.members)} values"
        else:
            place = place_of.get(_unquoted(entry.text), -1)
            entry.places, entry.is_plain, entry.meaning = [(place, place)], True, "the value itself"
            if place < 0:
                entry.problem = "it is no value of the column"
    if not rules.is_closed or not names:
        names.append(OTHER_VALUE)
        named.append(len(names) == 1)
    return names, named, "text"


def _lengths(values: Iterable[str], stars: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """The beginnings and lengths of codes that occur."""
    return {(value, len(value)) for value in values} | set(stars)


def _matching(values: list[str], prefix: str, length: int) -> list[str]:
    low = bisect_left(values, prefix)
    found = []
    for value in values[low:]:
        if not value.startswith(prefix):
            break
        if len(value) == length:
            found.append(value)
    return found


def _as_runs(places: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == '"' and own_labels.parse_category(text) is not None


def _unquoted(text: str) -> str:
    return (own_labels.parse_category(text) or text) if _is_quoted(text) else text


def _finished(
    name: str,
    kind: str,
    entries: list[_Entry],
    positions: list[str],
    named: list[bool],
    ends: tuple[Cut | None, ...],
) -> ForeignColumn:
    """Adds the place of missing values and turns places into runs; a label with a problem gets none."""
    missing = len(positions)
    if any(entry.is_missing or entry.with_missing for entry in entries):
        positions, named = [*positions, own_labels.MISSING], [*named, True]
    if not any(entry.places or entry.is_missing for entry in entries):
        named = [True] * len(named)  # nothing but *: then every combination is as good as any other
    label, first, last = [], [], []
    for code, entry in enumerate(entries):
        places = [(0, len(positions) - 1)] if entry.is_everything else list(entry.places)
        if entry.is_missing or (entry.with_missing and not entry.problem):
            places.append((missing, missing))
        for low, high in [] if entry.problem else places:
            label.append(code)
            first.append(low)
            last.append(high)
        if entry.with_missing:
            entry.meaning += ", or no value"
    runs = LabelRuns(
        len(positions),
        np.array(label, dtype=np.int64),
        np.array(first, dtype=np.int64),
        np.array(last, dtype=np.int64),
        np.array(named, dtype=bool),
    )
    meanings = tuple(
        LabelMeaning(entry.label, entry.meaning, entry.n_releases, entry.is_plain, entry.problem)
        for entry in entries
    )
    return ForeignColumn(name, kind, meanings, runs, tuple(positions), ends)
