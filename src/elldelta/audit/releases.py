"""Releases as anybody reads them, and what their labels mean, decided for all of them together.

The classes of a release are known from its manifest, or else from its labels. Labels mean what a schema says,
what somebody says about a column, or what can be read in one way only; all that can be shown before linking.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.errors import DataError, ParameterError, counted
from elldelta.release import (
    count_release,
    sensitive_texts,
    unknown_values,
    values_of_schema,
    values_shown,
)
from elldelta.schema.label_columns import one_spelling, understand_column
from elldelta.schema.labels import EVERYTHING
from elldelta.schema.profile import codes_among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.audit.columns import ForeignColumns, SensitiveNulls
    from elldelta.audit.knowledge import BackgroundKnowledge
    from elldelta.engines import Progress, Table
    from elldelta.plan.classes import Classes
    from elldelta.release import Published
    from elldelta.schema.label_columns import LabelColumn
    from elldelta.schema.schema import Schema

    Labels = tuple[str | None, ...]


class Topic(Enum):
    """What an assumption is about."""

    READING = auto()
    MISSING_IS_A_VALUE = auto()
    MISSING_VALUES = auto()
    SAME_CONTENT = auto()
    CLOSENESS_NOT_CHECKED = auto()
    MOVED_CLASSES = auto()
    SEVERAL_PLANS = auto()


@dataclass(frozen=True)
class Assumption:
    """What an audit took for granted.

    Attributes:
        words: A sentence that says so.
        topic: What it is about.
    """

    words: str
    topic: Topic = Topic.READING

    @property
    def is_warning(self) -> bool:
        """Whether nobody should overlook it."""
        return self.topic is not Topic.READING


COMPARED_WITH_MANIFESTS = Assumption(
    "Every release is the one that its manifest describes: its content was compared."
)
MISSING_IS_A_VALUE = Assumption(
    "Missing sensitive values count as a value here, because the schema or an option says so.",
    Topic.MISSING_IS_A_VALUE,
)


@dataclass(frozen=True, eq=False)
class ReadRelease:
    """A release as it is: classes with labels, and the counts of the sensitive values in them.

    Attributes:
        name: Words for it, for tables and messages.
        labels: What it shows for every class, by common column names.
        values: The sensitive values, as text; None for a missing one.
        counts: Records by class and sensitive value.
        boxes: Labels of which each names a part of a class, and all of them the whole.
        class_of: The class of each box; None if every class is one box, so that equal ones are one class.
        described_by: What says what it shows.
        ell: What its manifest promises.
        left_out: Records that it does not show, or that are not counted here, by reason.
        plan_digest: The plan that its manifest names.
        loss: How much information it loses, if its manifest tells the range that was seen.
    """

    name: str
    labels: tuple[Labels, ...]
    values: tuple[str | None, ...]
    counts: NDArray[np.int64]
    boxes: tuple[Labels, ...]
    class_of: NDArray[np.int64] | None = None
    described_by: Literal["manifest", "schema", "labels"] = "labels"
    ell: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    plan_digest: str | None = None
    loss: float | None = None

    @property
    def n_records(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    @classmethod
    def from_published(cls, published: Published, columns: ForeignColumns) -> ReadRelease:
        """A release whose classes its manifest tells, cut into boxes that labels can name."""
        schema = published.schema
        names = columns.names_in(published.name, schema.columns)
        if names[-1] != schema.sensitive.name:
            raise ParameterError(
                f"The sensitive column of {published.name} is another one.",
                found=f"It is {schema.sensitive.name!r}, by its manifest.",
                remedy="Name the same sensitive column for all releases, or say what each calls it.",
            )
        read = cls.from_classes(published.name, schema, published.classes, published.counts, names[:-1])
        manifest = published.manifest
        return replace(
            read,
            ell=manifest.ell,
            plan_digest=manifest.plan_digest,
            loss=published.loss,
            left_out=manifest.records["left_out"],
        )

    @classmethod
    def from_classes(
        cls,
        name: str,
        schema: Schema,
        classes: Classes,
        counts: NDArray[np.int64],
        names: Sequence[str | None],
    ) -> ReadRelease:
        """Classes of a schema, by its own names of the columns, cut into boxes that labels can name."""
        from elldelta.plan.classes import class_labels
        from elldelta.plan.common_cells import boxes_of

        lows, highs, class_of = boxes_of(schema, classes)
        boxes, shown, class_label = [], [], list(zip(*class_labels(schema, classes), strict=True))
        for column_name in names:
            if column_name is None:
                boxes.append([EVERYTHING] * len(lows))
                shown.append((EVERYTHING,) * len(counts))
                continue
            column, place = schema.quasi_identifier(column_name), schema.names.index(column_name)
            # Both ends are named: next to labels of others an open end would reach beyond the domain.
            box_labels = column.labels(lows[:, place], highs[:, place], closed=True)
            boxes.append([column.whole if label == EVERYTHING else label for label in box_labels])
            shown.append(class_label[place])
        labels, parts = tuple(zip(*shown, strict=True)), tuple(zip(*boxes, strict=True))
        values = sensitive_texts(schema)
        return cls(name, labels, values, counts, parts, class_of, "manifest")


def read_release(
    table: Table,
    name: str,
    columns: ForeignColumns,
    schema: Schema | None = None,
    progress: Progress | None = None,
) -> ReadRelease:
    """Reads a release by its labels; its file is read once.

    Args:
        table: The release.
        name: Words for it.
        columns: Which columns are linked, and what they are called here.
        schema: What the columns mean, if a schema says so.
        progress: Is told how far the reading is.
    """
    if not columns.quasi_identifiers:
        raise ParameterError("Releases are linked by their label columns.", found="None was named.")
    *names, sensitive = columns.names_in(name, table.names)
    present = [column for column in names if column is not None]
    counted = count_release(table, present, str(sensitive), progress=progress)
    counts_missing = columns.sensitive_nulls == "category"
    if schema is None:
        values = values_shown(counted.values, columns.sensitive_missing)
    else:
        values = values_of_schema(schema, counted.values)
        counts_missing |= schema.sensitive.has_missing
    found = counted.with_values(values, keep_missing=columns.sensitive_nulls != "suppress" or counts_missing)
    left_out = {"missing": counted.n_records - found.n_records}
    places = [None if column is None else present.index(column) for column in names]
    labels = tuple(
        tuple(EVERYTHING if place is None else row[place] for place in places) for row in found.labels
    )
    if schema is None:
        return ReadRelease(name, labels, found.values, found.counts, labels, left_out=left_out)
    unknown = set(found.values) - {*sensitive_texts(schema), None}
    if unknown:
        raise unknown_values(schema.sensitive, name, len(unknown))
    whole = [column.whole for column in map(schema.quasi_identifier, columns.quasi_identifiers)]
    boxes = tuple(
        tuple(
            everything if label == EVERYTHING else label for label, everything in zip(row, whole, strict=True)
        )
        for row in labels
    )
    return ReadRelease(
        name,
        labels,
        found.values,
        found.counts,
        boxes,
        described_by="schema",
        left_out=left_out,
    )


@dataclass(frozen=True, eq=False)
class Understanding:
    """How the labels and sensitive values of several releases were understood.

    Attributes:
        columns: Every label column, over all releases.
        values: The sensitive values of all releases; None for a missing one, which comes last.
        known_of: The place in `values` of each value of the schema, if there is one.
        value_of: Per release, the place in `values` of each of its own values.
        notes: What a reader should know besides.
    """

    columns: tuple[LabelColumn, ...]
    values: tuple[str | None, ...]
    known_of: NDArray[np.int64]
    value_of: tuple[NDArray[np.int64], ...]
    notes: tuple[Assumption, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether every label has one meaning."""
        return not any(column.problems for column in self.columns)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every label and its meaning; plain values, which may be somebody's own, taken together."""
        for column in self.columns:
            together = [each for each in column.meanings if each.is_plain and not each.problem]
            others = [each for each in column.meanings if not each.is_plain or each.problem]
            for meanings in (together, *([each] for each in others)):
                if meanings:
                    first, is_plain = meanings[0], meanings is together
                    yield {
                        "column": column.name,
                        "label": first.label if first.may_be_shown and not is_plain else None,
                        "labels": len(meanings),
                        "meaning": "values themselves" if is_plain else first.meaning,
                        "releases": max(each.n_releases for each in meanings),
                        "problem": first.problem,
                    }

    def to_dict(self, *, public: bool = False) -> dict[str, Any]:
        """How labels are understood, as plain JSON values; for the public without a label."""
        rows = [row for row in self.rows() if not public or row["label"] is None]
        return {"is_clear": self.is_clear, "labels": rows, "notes": [each.words for each in self.notes]}

    def boxes(
        self, release: ReadRelease
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """The number of every label of every box; the class of each; and examples of classes that are one.

        Labels can mean the same in other words, as `20-40` and `[20, 40]` do.
        """
        codes = np.empty((len(release.boxes), len(self.columns)), dtype=np.int64)
        for place, column in enumerate(self.columns):
            code_of = column.code_of
            numbers = np.array([code_of[row[place]] for row in release.boxes], dtype=np.int64)
            codes[:, place] = column.same_meaning[numbers]
        if release.class_of is not None:
            return codes, release.class_of, None
        _, examples, class_of = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(examples)  # in the order in which they were given
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return codes[examples[order]], rank[class_of.reshape(-1)], examples[order]

    def codes(self, known: BackgroundKnowledge) -> NDArray[np.int64]:
        """The number of the label of each person in each column."""
        return np.stack(
            [
                np.array([column.code_of[text] for text in texts], dtype=np.int64)[known.codes[:, place]]
                for place, (column, texts) in enumerate(zip(self.columns, known.texts, strict=True))
            ],
            axis=1,
        )

    def check(self) -> None:
        """Refuses labels without one clear meaning, with the list of them.

        Raises:
            DataError: Lists the labels that are written like generalized ones, and counts the others.
        """
        problems = [_problems_of(column) for column in self.columns if column.problems]
        if problems:
            n_labels = sum(len(column.problems) for column in self.columns)
            raise DataError(
                f"{counted(n_labels, 'label')} cannot be understood without doubt.",
                found=" ".join(problems),
                remedy="Describe the columns: what one holds (kind: number, date or text), what a,b means "
                "(separators: sets or values), what empty cells mean (nulls: unknown or category), or its "
                "hierarchy.",
                parameter="columns",
            )


def understand(
    releases: Sequence[ReadRelease],
    columns: ForeignColumns,
    *,
    values: Sequence[str | None] = (),
    people: Sequence[BackgroundKnowledge] = (),
) -> Understanding:
    """Understands the labels of all releases together; nothing is refused yet but what has no remedy here.

    Args:
        releases: The releases.
        columns: Which columns they are linked by, and what somebody says about them.
        values: Sensitive values that exist, whether or not a release shows them.
        people: What is known about people to look for.

    Raises:
        DataError: Sensitive values are missing against the policy.
    """
    names, rules = columns.quasi_identifiers, columns.rules
    unknown = [name for name in rules if name not in names]
    if unknown:
        raise ParameterError(
            "There are rules for columns that are not linked.",
            found=f"They are {', '.join(map(repr, unknown))}.",
            remedy=f"The columns are {', '.join(map(repr, names))}.",
        )
    if not any(release.n_records for release in releases):
        raise DataError(
            "The releases hold no record.",
            found=f"{counted(len(releases), 'release was', 'releases were')} read.",
            remedy="Check that these are the files that you meant.",
        )
    understood = tuple(
        understand_column(
            name,
            [{row[place] for row in release.boxes} for release in releases],
            rules.get(name),
            {text for known in people for text in known.texts[place]},
        )
        for place, name in enumerate(names)
    )
    return Understanding(understood, *_sensitive(releases, values, columns.sensitive_nulls))


def _sensitive(
    releases: Sequence[ReadRelease], known: Sequence[str | None], nulls: SensitiveNulls
) -> tuple[tuple[str | None, ...], NDArray[np.int64], tuple[NDArray[np.int64], ...], tuple[Assumption, ...]]:
    """The sensitive values of all releases; equal if they are spelt alike, or as numbers."""
    texts = [
        [value or None for value in values] for values in (known, *(release.values for release in releases))
    ]
    n_missing = 0
    for release, values in zip(releases, texts[1:], strict=True):
        n_missing += int(release.counts[:, [value is None for value in values]].sum())
    if n_missing and nulls == "refuse" and None not in known:
        raise DataError(
            "Sensitive values are missing.",
            found=f"{counted(n_missing, 'record')} of the releases have none.",
            remedy="Complete the releases, or describe missing as a value (nulls: category).",
        )
    spelling_of = one_spelling({value for values in texts for value in values if value is not None})
    # Those of the schema in its order, then the others; a missing one comes last.
    in_order = [spelling_of[value] for value in texts[0] if value is not None] + sorted(spelling_of.values())
    distinct: list[str | None] = [*dict.fromkeys(in_order)]
    if any(value is None for values in texts for value in values):
        distinct.append(None)
    place = {value: index for index, value in enumerate(distinct)}
    known_of, *value_of = (
        np.array([place[None if v is None else spelling_of[v]] for v in values], dtype=np.int64)
        for values in texts
    )
    n_folded = sum(n > 1 for n in Counter(str(value).casefold() for value in distinct).values())
    notes = []
    if n_folded:
        notes.append(
            Assumption(
                f"{counted(n_folded, 'sensitive value')} occur in spellings that differ only in upper and "
                "lower case; they count as different values."
            )
        )
    if codes := codes_among([value for value in distinct if value is not None]):
        listed, one = ", ".join(map(repr, codes)), len(codes) == 1
        real = (
            "is counted as a real value. If it means" if one else "are counted as real values. If they mean"
        )
        notes.append(
            Assumption(
                f"{listed} {real} missing, list {'it' if one else 'them'} where the columns are described, "
                "under missing.",
                Topic.MISSING_VALUES,
            )
        )
    if None in distinct:
        notes.append(MISSING_IS_A_VALUE)
    read_here = (release for release in releases if release.described_by != "manifest")
    if n_left_out := sum(release.left_out.get("missing", 0) for release in read_here):
        notes.append(
            Assumption(
                f"Missing sensitive values are no values: {counted(n_left_out, 'record')} with one are left "
                "out.",
                Topic.MISSING_VALUES,
            )
        )
    return tuple(distinct), known_of, tuple(value_of), tuple(notes)


def source_of_meaning(releases: Sequence[ReadRelease]) -> Assumption:
    """What says what the releases show."""
    labels, by_schema = (
        [item.name for item in releases if item.described_by == kind] for kind in ("labels", "schema")
    )
    if len(labels) == len(releases):
        words = "The labels of the releases mean what is listed; no manifest or schema says so."
    elif labels:
        words = (
            f"{', '.join(labels)}: the labels mean what is listed; no manifest says so. The classes of "
            "the other releases are those of their manifests, with which their content was compared."
        )
    elif by_schema:
        words = (
            f"{', '.join(by_schema)}: no manifest was there; the labels were understood by the schema given."
        )
    else:
        return COMPARED_WITH_MANIFESTS
    return Assumption(words)


def missing_counts(assumptions: Iterable[Assumption]) -> str:
    """What a verdict adds where a missing value counts as a value."""
    counts = any(each.topic is Topic.MISSING_IS_A_VALUE for each in assumptions)
    return " A missing value counts as one of them." if counts else ""


def _problems_of(column: LabelColumn) -> str:
    shown = [f"{each.label!r} ({each.problem})" for each in column.problems if each.may_be_shown]
    hidden = Counter(each.problem for each in column.problems if not each.may_be_shown)
    shown += [f"{counted(n, 'other label')} ({problem})" for problem, n in hidden.items()]
    return f"Column {column.name!r}: {', '.join(shown)}."
