"""Texts of a column: values, sets of them, runs, codes with stars, and groups of a hierarchy.

Where a schema lists all values, a label is one of them or a set of them, as written or in one spelling. Else
the values are those that occur, and a label that could be a set or a value is not guessed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from elldelta.errors import counted
from elldelta.schema.label_scale import PLAIN
from elldelta.schema.labels import (
    looks_generalized,
    normalized,
    parse_category,
    parse_category_run,
    parse_members,
    parse_stars,
    read_on,
    resembles_range,
    split_bare,
    split_otherwise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from elldelta.schema.hierarchy import Hierarchy
    from elldelta.schema.label_columns import ColumnRules, Entry, Runs

    Groups = dict[str, tuple[str, ...] | None]


def groups_of(hierarchy: Hierarchy | None) -> tuple[Groups, tuple[str, ...]]:
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


def find_group(entry: Entry, groups: Groups, rules: ColumnRules) -> None:
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
    return f"a group of the hierarchy: {counted(len(members), 'value')}"


def _is_on_scale(text: str, rules: ColumnRules) -> bool:
    return rules.kind in ("number", "date") and read_on(rules.kind, text) is not None


def read_texts(entries: list[Entry], known: Sequence[str], rules: ColumnRules) -> list[bool]:
    """Reads labels of which the values are those that occur; gives them places, and tells which are named."""
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
    place_of_stars: dict[tuple[str, int], int] = {}
    for prefix, length in sorted(stars):
        inner = any(p != prefix and p.startswith(prefix) and n == length for p, n in stars)
        place_of_stars[prefix, length] = len(named)
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
                place for (p, n), place in place_of_stars.items() if p.startswith(prefix) and n == length
            )
            entry.meaning = _stars_meaning(prefix, length)
        else:
            members = entry.members or (_unquoted(entry.text),)
            entry.places = _as_runs(sorted(place_of[member] for member in members))
            entry.is_plain = entry.members is None
            entry.meaning = entry.meaning or (
                PLAIN if entry.is_plain else f"one of {counted(len(members), 'value')}"
            )
    named.append(not named)  # any other value
    return named


def _beginning(values: list[str], prefix: str) -> Iterator[str]:
    """Those of the sorted values that begin with a prefix."""
    for value in values[bisect_left(values, prefix) :]:
        if not value.startswith(prefix):
            break
        yield value


def _stars_meaning(prefix: str, length: int) -> str:
    return f"codes of {counted(length, 'character')} that begin with {prefix!r}"


def read_closed(entries: list[Entry], rules: ColumnRules) -> list[bool]:
    """Reads labels of which a list of all values is known: as they are written, or else in one spelling."""
    exact = _Declared(rules, rules.groups, str)
    alike = _Declared(rules, groups_of(rules.hierarchy)[0], normalized)
    for entry in entries:
        found = exact.read(entry.written) or alike.read(entry.text)
        if found is None:
            entry.problem = "it is no value of the column, or no set of them"
        else:
            places, meaning = found
            entry.places, entry.is_plain = _as_runs(sorted(places)), meaning is None
            entry.meaning = meaning or PLAIN
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

    def read(self, text: str) -> tuple[list[int], str | None] | None:
        """The places of the values that a label names, and its meaning, None for a value itself.

        None if it names no value.
        """
        value = parse_category(text)
        for one in (value, text):
            if one in self.place_of and text not in self._groups:
                return [self.place_of[one]], None
        ends = [self.place_of.get(end) for end in parse_category_run(text) or ()] if self._is_ordered else []
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
            run = range(ends[0], ends[1] + 1)
            return list(run), f"from one value to another, {counted(len(run), 'value')}"
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
            meaning = f"one of {counted(len(members or ()), 'value')}"
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
