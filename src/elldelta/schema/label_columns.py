"""A column of labels, whoever wrote them: one kind and one domain for all releases, then every label in it.

The domain is made from the labels and from what a schema or a person says: numbers and dates are cut at every
end that occurs, texts are the values that occur, so that two values at one position are told apart by no
label. Labels that can be read in two ways are never guessed: they are collected, and refused together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.arrangement import LabelRuns
from elldelta.errors import ParameterError
from elldelta.schema.domains import Categories, Dates
from elldelta.schema.label_scale import find_scale, read_on_scale
from elldelta.schema.label_texts import find_group, groups_of, read_closed, read_texts
from elldelta.schema.labels import (
    EVERYTHING,
    looks_generalized,
    normalized,
    parse_number,
    split_missing,
    stands_for_missing,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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
        spans: For every label, the share that it spans of the range from the lowest to the highest value that
            any label names; of texts the share of the other values that it may mean.
    """

    name: str
    kind: str
    meanings: tuple[LabelMeaning, ...]
    runs: LabelRuns
    spans: NDArray[np.float64]

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
        return np.array([first.setdefault(tuple(run), code) for code, run in enumerate(runs)], dtype=np.int64)


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
    groups, leaves = groups_of(rules.hierarchy)
    declared = {*map(normalized, rules.values), *leaves, *groups}
    entries = [_started(label, n_releases[label], rules, declared) for label in ordered]
    unread = [each for each in entries if not (each.is_everything or each.is_missing or each.problem)]
    known = (*rules.values, *leaves)
    widths: list[float] = []
    if rules.is_closed and rules.kind == "text":
        kind, named = "text", read_closed(unread, rules)
    else:
        for entry in unread:
            find_group(entry, groups, rules)
        scale = find_scale(unread, known, rules)
        if scale == "text":
            kind, named = "text", read_texts(unread, known, rules)
        else:
            kind, named, widths = read_on_scale(scale, unread, known, is_closed=rules.is_closed)
    for entry in entries:  # a person with a value that the column cannot have is in no release
        is_nonsense = bool(entry.problem) and not entry.n_releases and rules.kind != "auto"
        entry.is_outside = is_nonsense and entry.label not in (None, "")
    return _finished(name, kind, entries, named, widths or [1.0] * len(named))


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


def _finished(
    name: str, kind: str, entries: list[Entry], named: list[bool], widths: list[float]
) -> LabelColumn:
    """Adds the places of missing values and of nonsense, and turns places into runs."""
    if not any(entry.places or entry.is_missing for entry in entries):
        named = [True] * len(named)  # nothing but *: then every combination is as good as any other
    missing = len(named)
    if any(entry.is_missing or entry.with_missing for entry in entries):
        named, widths = [*named, True], [*widths, 0.0 if kind == "numbers" else 1.0]
    outside = len(named)
    if any(entry.is_outside for entry in entries):
        named, widths = [*named, False], [*widths, 0.0]
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
    spans = _spans(runs, np.array(widths), len(entries), one=0.0 if kind == "numbers" else 1.0)
    spans[[entry.is_everything for entry in entries]] = 1.0
    return LabelColumn(name, kind, meanings, runs, spans)


def _spans(runs: LabelRuns, widths: NDArray[np.float64], n_labels: int, *, one: float) -> NDArray[np.float64]:
    """The share of everything that is named which each label spans; `one` value alone spans nothing."""
    named = widths if runs.is_named is None else widths * runs.is_named
    upto = np.concatenate(([0.0], np.cumsum(named)))
    lengths = np.bincount(runs.label, upto[runs.last + 1] - upto[runs.first], n_labels)
    spans = np.zeros(n_labels)
    if upto[-1] > one:
        np.clip((lengths - one) / (upto[-1] - one), 0.0, 1.0, out=spans)
    return spans
