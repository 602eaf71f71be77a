"""Releases that others made: read, brought to common column names, and understood together.

What their labels mean is decided for all releases at once (`understand`), so that one label has one meaning
everywhere, and shown before anything is linked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.errors import DataError, ParameterError
from elldelta.release.published import ReleaseCounts, count_release
from elldelta.schema.foreign_columns import ColumnRules, ForeignColumn, understand_column
from elldelta.schema.foreign_labels import EVERYTHING, normalized, parse_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.engines import Progress, Table

SensitiveNulls = Literal["refuse", "category"]


@dataclass(frozen=True, eq=False)
class ForeignRelease:
    """A release as it is: its labels by common column names, and the counts of its sensitive values.

    Attributes:
        name: Words for it, for tables and messages.
        columns: The common names of its label columns.
        found: Its labels, in the order of `columns`, and counts.
    """

    name: str
    columns: tuple[str, ...]
    found: ReleaseCounts

    @property
    def n_records(self) -> int:
        """The number of records."""
        return self.found.n_records


@dataclass(frozen=True)
class UnderstoodLabel:
    """One row of what is shown before linking.

    Attributes:
        column: The common name of the column.
        label: The label; None for an empty cell, or for plain values taken together.
        meaning: What it was understood to mean.
        n_releases: In how many releases it occurs; the most, for plain values taken together.
        n_labels: How many labels the row stands for: more than 1 for plain values taken together.
        problem: Why it cannot be used; empty if it can.
    """

    column: str
    label: str | None
    meaning: str
    n_releases: int
    n_labels: int = 1
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Understanding:
    """How the labels and sensitive values of several releases were understood.

    Attributes:
        columns: Every label column, over all releases.
        values: The sensitive values of all releases; None for a missing one, which comes last.
        value_of: Per release, the place in `values` of each of its own values.
        notes: What a reader should know besides.
    """

    columns: tuple[ForeignColumn, ...]
    values: tuple[str | None, ...]
    value_of: tuple[NDArray[np.int64], ...]
    notes: tuple[str, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether every label has one meaning."""
        return not any(column.problems for column in self.columns)

    def rows(self, *, plain: bool = False) -> Iterator[UnderstoodLabel]:
        """Every label and its meaning; plain values, which may be somebody's, one by one only if asked."""
        for column in self.columns:
            together = [each for each in column.meanings if each.is_plain and not each.problem]
            if together and not plain:
                most = max(each.n_releases for each in together)
                yield UnderstoodLabel(column.name, None, "values themselves", most, len(together))
            for each in column.meanings:
                if each.is_plain and not each.problem and not plain:
                    continue
                shown = each.label if plain or each.may_be_shown else None
                yield UnderstoodLabel(column.name, shown, each.meaning, each.n_releases, 1, each.problem)

    def to_dict(self, *, public: bool = False) -> dict[str, Any]:
        """How labels are understood, as plain JSON values; for the public without a label."""
        return {
            "is_clear": self.is_clear,
            "labels": [
                {
                    "column": row.column,
                    "label": row.label,
                    "labels": row.n_labels,
                    "meaning": row.meaning,
                    "releases": row.n_releases,
                    "problem": row.problem,
                }
                for row in self.rows()
                if not public or row.label is None
            ],
            "notes": list(self.notes),
        }

    def check(self) -> None:
        """Refuses labels without one clear meaning, with the list of them.

        Raises:
            DataError: Lists the labels that are written like generalized ones, and counts the others.
        """
        told = [_told(column) for column in self.columns if column.problems]
        if told:
            n_labels = sum(len(column.problems) for column in self.columns)
            raise DataError(
                f"{_counted(n_labels, 'label')} cannot be understood without doubt.",
                found=" ".join(told),
                remedy="Say what the column holds (number, date or text), what separators and empty cells "
                "mean, or give its hierarchy.",
            )


def read_foreign(
    table: Table,
    name: str,
    quasi_identifiers: Sequence[str],
    sensitive: str,
    *,
    names: Mapping[str, str] | None = None,
    absent: Collection[str] = (),
    progress: Progress | None = None,
) -> ForeignRelease:
    """Reads a release that somebody else made; its file is read once.

    Args:
        table: The release.
        name: Words for it.
        quasi_identifiers: The common names of the label columns.
        sensitive: The common name of the sensitive column.
        names: The common name of each of its columns that is called something else in it.
        absent: Label columns that it does not have: as if they were `*` everywhere.
        progress: Is told how far the reading is.
    """
    if not quasi_identifiers:
        raise ParameterError("Releases are linked by their label columns.", found="None was named.")
    own_name = {common: own for own, common in (names or {}).items()}
    if len(own_name) < len(names or {}):
        raise ParameterError(
            f"Two columns of {name} have the same common name.",
            remedy="Give every column its own common name.",
        )
    unknown = [column for column in (*own_name, *absent) if column not in (*quasi_identifiers, sensitive)]
    if unknown or sensitive in absent:
        raise ParameterError(
            f"The columns of {name} are mapped to names that are not linked.",
            found=f"Not linked: {', '.join(map(repr, unknown)) or repr(sensitive)}.",
            remedy="Map columns to the names of the quasi-identifiers and of the sensitive column.",
        )
    present = [column for column in quasi_identifiers if column not in absent]
    if not present:
        raise ParameterError(f"The release {name} has no column to link by.", found="All are absent.")
    found = count_release(
        table,
        [own_name.get(column, column) for column in present],
        own_name.get(sensitive, sensitive),
        progress=progress,
    )
    if len(present) < len(quasi_identifiers):
        places = [present.index(column) if column in present else None for column in quasi_identifiers]
        found = ReleaseCounts(
            tuple(quasi_identifiers),
            found.sensitive,
            tuple(
                tuple(EVERYTHING if place is None else row[place] for place in places) for row in found.labels
            ),
            found.values,
            found.classes,
            found.value_of,
            found.n,
        )
    return ForeignRelease(name, tuple(quasi_identifiers), found)


def understand(
    releases: Sequence[ForeignRelease],
    rules: Mapping[str, ColumnRules] | None = None,
    *,
    casefold: bool = False,
    sensitive_nulls: SensitiveNulls = "refuse",
    people: Sequence[Sequence[str | None]] = (),
) -> Understanding:
    """Understands the labels of all releases together; nothing is refused yet but what has no remedy here.

    Args:
        releases: The releases, with the same columns.
        rules: What somebody says about a column, by its common name.
        casefold: Whether sensitive values that differ in upper and lower case are one value.
        sensitive_nulls: Whether a missing sensitive value is a value, or refused.
        people: What is known about people to look for, one row each; None or `*` where it is not known.

    Raises:
        DataError: The releases have different columns, or sensitive values are missing against the policy.
    """
    if not releases:
        raise ParameterError("An audit needs at least one release.", found="None was given.")
    names = releases[0].columns
    rules = rules or {}
    for release in releases[1:]:
        if release.columns != names:
            raise DataError(
                "The releases have different label columns.",
                found=f"{releases[0].name} and {release.name} differ.",
                remedy="Map their columns to common names.",
            )
    unknown = [name for name in rules if name not in names]
    if unknown:
        raise ParameterError(
            "There are rules for columns that are not linked.",
            found=f"They are {', '.join(map(repr, unknown))}.",
            remedy=f"The columns are {', '.join(map(repr, names))}.",
        )
    columns = []
    for place, name in enumerate(names):
        labels: list[Collection[str | None]] = [
            {row[place] for row in release.found.labels} for release in releases
        ]
        known = {EVERYTHING if row[place] is None else row[place] for row in people}
        columns.append(understand_column(name, [*labels, known] if people else labels, rules.get(name)))
    values, value_of, notes = _sensitive(releases, casefold=casefold, nulls=sensitive_nulls)
    return Understanding(tuple(columns), values, value_of, notes)


def _sensitive(
    releases: Sequence[ForeignRelease], *, casefold: bool, nulls: SensitiveNulls
) -> tuple[tuple[str | None, ...], tuple[NDArray[np.int64], ...], tuple[str, ...]]:
    """The sensitive values of all releases; equal if they are equal after trimming, or as numbers."""
    texts = [
        [None if value is None or not normalized(value) else value.strip() for value in release.found.values]
        for release in releases
    ]
    n_missing = 0
    for release, own in zip(releases, texts, strict=True):
        is_missing = np.array([value is None for value in own], dtype=bool)
        n_missing += int(release.found.n[is_missing[release.found.value_of]].sum())
    if n_missing and nulls == "refuse":
        raise DataError(
            "Sensitive values are missing.",
            found=f"{_counted(n_missing, 'record')} of the releases have none.",
            remedy="Complete the releases, or say that missing is a value (sensitive nulls: category).",
        )
    present = {value for own in texts for value in own if value is not None}
    numbers = {value: parse_number(value) for value in present}
    if all(number is not None for number in numbers.values()):
        # 1 and 1.0 are one value: a release that went through a table of floats must not look different.
        spelt: dict[str, str] = {}
        shortest: dict[object, str] = {}
        for value in sorted(present, key=lambda text: (len(text), text)):
            spelt[value] = shortest.setdefault(numbers[value], value)
    elif casefold:
        first: dict[str, str] = {}
        spelt = {value: first.setdefault(value.casefold(), value) for value in sorted(present)}
    else:
        spelt = {value: value for value in present}
    distinct: list[str | None] = [*sorted(set(spelt.values()))]
    if n_missing:
        distinct.append(None)
    place = {value: index for index, value in enumerate(distinct)}
    value_of = tuple(
        np.array([place[None if v is None else spelt[v]] for v in own], dtype=np.int64) for own in texts
    )
    notes: tuple[str, ...] = ()
    n_folded = sum(n > 1 for n in Counter(str(value).casefold() for value in distinct).values())
    if n_folded:
        notes = (
            f"{_counted(n_folded, 'sensitive value')} occur in spellings that differ only in upper and lower "
            "case; they count as different values.",
        )
    return tuple(distinct), value_of, notes


def _told(column: ForeignColumn) -> str:
    shown = [f"{each.label!r} ({each.problem})" for each in column.problems if each.may_be_shown]
    hidden = Counter(each.problem for each in column.problems if not each.may_be_shown)
    shown += [f"{_counted(n, 'other label')} ({problem})" for problem, n in hidden.items()]
    return f"Column {column.name!r}: {', '.join(shown)}."


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
