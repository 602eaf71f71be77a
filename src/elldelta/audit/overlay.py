"""Releases laid over each other: common cells, what each release shows about them, and the way to people.

An adversary who knows somebody's combination cannot tell which of the classes that contain it the person is
in: ranges overlap, groups are nested, and a suppressed record (`*` in every column) can be anybody's. So what
a release shows about a cell is the sum over all its classes that contain the cell. Classes that a manifest
tells are disjoint, and every combination has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.audit.knowledge import BackgroundKnowledge
from elldelta.audit.layer import Layer
from elldelta.audit.releases import (
    COMPARED_WITH_MANIFESTS,
    MISSING_IS_A_VALUE,
    Assumption,
    ReadRelease,
    source_of_meaning,
    understand,
)
from elldelta.audit.targets import Candidates, known_in_each
from elldelta.core.arrangement import arrange
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.utility import information_loss
from elldelta.errors import DataError, InternalError, counted
from elldelta.release import sensitive_texts
from elldelta.schema.composite import SEPARATOR, first_parts, is_composite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.audit.columns import ForeignColumns
    from elldelta.audit.releases import Understanding
    from elldelta.core.arrangement import Arrangement
    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.release import Published
    from elldelta.schema.label_columns import ColumnRules
    from elldelta.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class Overlay:
    """Releases laid over each other: all that audits, gates and targets ask for.

    Attributes:
        columns: The quasi-identifiers.
        values: What the sensitive values are called.
        layers: What each release shows about the cells.
        linked: The cells that are linked: not those that no label but `*` names.
        promised: The largest ell that a release promises, or None.
        plans: The plan that each release names, or None.
        assumptions: What reading the releases took for granted.
        labels: How labels were understood where nothing but the labels says so: column, label, meaning.
        schema: What the columns mean, if a manifest or a schema says so.
        places: How labels were understood, and the cells: by these people are found.
        sought: The same releases over cells that also tell apart the people to look for, if there are any.
        rules: What is said about the columns by which people are found.
        base_of: The class of a plan in which each cell lies, if a plan was laid over the releases.
        sensitive: The sensitive column.
        contents: The digest of what each release holds, where a manifest tells it.
        losses: How much information each release loses.
        described_by: What says what each release shows.
        left_out: The records that each leaves out, by reason.
    """

    columns: tuple[str, ...]
    values: tuple[str, ...]
    layers: tuple[Layer, ...]
    linked: NDArray[np.intp]
    promised: int | None
    assumptions: tuple[Assumption, ...]
    labels: tuple[tuple[str, str, str], ...] = ()
    schema: Schema | None = None
    places: tuple[Understanding, Arrangement] | None = None
    sought: Overlay | None = None
    rules: Mapping[str, ColumnRules] = field(default_factory=dict)
    plans: tuple[str | None, ...] = ()
    base_of: NDArray[np.int64] | None = None
    sensitive: str = ""
    contents: tuple[str, ...] = ()
    losses: tuple[float | None, ...] = ()
    described_by: tuple[str, ...] = ()
    left_out: tuple[Mapping[str, int], ...] = ()

    @classmethod
    def from_published(cls, published: Sequence[Published], plan: Plan | None = None) -> Overlay:
        """Lays releases of one schema over each other whose classes are known, and the classes of a plan.

        Raises:
            DataError: The releases do not have the same schema.
            RefusedError: Their classes meet in too many ways.
        """
        from elldelta.plan.common_cells import common_cells

        schema = published[0].schema
        check_schemas(
            [
                *([] if plan is None else [("the plan", plan.schema)]),
                *((item.name, item.schema) for item in published),
            ]
        )
        covers = [item.classes for item in published]
        cells = common_cells(schema, covers if plan is None else [*covers, plan.classes])
        base_of = None if plan is None else cells.pop()
        every = np.arange(len(cells[0]), dtype=np.int64)
        return cls(
            columns=schema.names,
            values=schema.sensitive.value_labels,
            layers=tuple(
                Layer.over_cells(item.name, item.labels, item.counts, len(every), (every, class_of))
                for item, class_of in zip(published, cells, strict=True)
            ),
            linked=every,
            promised=max(item.manifest.ell for item in published),
            plans=tuple(item.manifest.plan_digest for item in published),
            assumptions=(
                COMPARED_WITH_MANIFESTS,
                *_grouped_values(schema),
                *((MISSING_IS_A_VALUE,) if schema.sensitive.has_missing else ()),
            ),
            schema=schema,
            base_of=base_of,
            sensitive=schema.sensitive.name,
            contents=tuple(item.manifest.content_digest for item in published),
            losses=tuple(item.loss for item in published),
            described_by=("manifest",) * len(published),
            left_out=tuple(item.manifest.records["left_out"] for item in published),
        )

    @classmethod
    def from_releases(
        cls,
        releases: Sequence[ReadRelease],
        columns: ForeignColumns,
        *,
        schema: Schema | None = None,
        people: pa.Table | None = None,
        models: Sequence[Model] = (),
        plan: Plan | None = None,
    ) -> Overlay:
        """Lays releases of any origin over each other, by what their labels mean.

        Args:
            releases: The releases.
            columns: Which columns they are linked by, and what somebody says about them.
            schema: What the columns mean, if a manifest or a schema says so.
            people: People to look for. They cut cells further, which must not change what is said about
                everybody.
            models: Counts of past records, whose combinations are to be found.
            plan: A plan whose classes are laid over the releases.

        Raises:
            DataError: A label has no clear meaning.
            RefusedError: The classes meet in too many ways.
        """
        values = () if schema is None else sensitive_texts(schema)
        past = [_combinations(model, schema) for model in models]
        bases = [] if plan is None else [_bases(plan, columns)]
        understanding = understand([*releases, *bases], columns, values=values, people=past)
        found = replace(cls._laid(releases, understanding, schema, bases), sensitive=columns.sensitive)
        if people is None:
            return found
        known = known_in_each(people, columns.quasi_identifiers, columns.rules, len(releases))
        finer = understand(releases, columns, values=values, people=known)
        return replace(found, sought=cls._laid(releases, finer, schema), rules=columns.rules)

    @classmethod
    def _laid(
        cls,
        releases: Sequence[ReadRelease],
        understanding: Understanding,
        schema: Schema | None,
        bases: Sequence[ReadRelease] = (),
    ) -> Overlay:
        understanding.check()
        columns = understanding.columns
        covers = [*releases, *bases]
        parts = [understanding.boxes(cover) for cover in covers]
        codes = [numbers for numbers, _, _ in parts]
        cells = arrange([column.runs for column in columns], np.concatenate(codes))
        offsets = np.cumsum([0, *map(len, codes)])
        owner = np.searchsorted(offsets, cells.classes, side="right") - 1
        shown, losses = [], []
        for number, (release, value_of) in enumerate(zip(covers, understanding.value_of, strict=True)):
            _, class_of, examples = parts[number]
            labels, counts = (
                release.labels,
                np.zeros((len(release.labels), len(understanding.values)), np.int64),
            )
            np.add.at(counts.T, value_of, release.counts.T)
            if examples is not None:  # classes whose labels mean the same are one
                merged = np.zeros((len(examples), counts.shape[1]), dtype=np.int64)
                np.add.at(merged, class_of, counts)
                labels, counts = tuple(labels[example] for example in examples), merged
                class_of = np.arange(len(examples), dtype=np.int64)
            losses.append(release.loss)
            if release.class_of is None:  # nothing but its labels tells the range
                spans = [column.spans[code] for column, code in zip(columns, codes[number].T, strict=True)]
                losses[-1] = information_loss(counts.sum(axis=1), np.stack(spans, axis=1))
            is_here = owner == number
            n_classes = max(len(counts), 1)
            keys = cells.cell_of[is_here] * n_classes + class_of[cells.classes[is_here] - offsets[number]]
            pairs = np.divmod(np.unique(keys), n_classes)
            shown.append(Layer.over_cells(release.name, labels, counts, cells.n_cells, pairs))
        linked = np.flatnonzero(cells.is_named)
        base_of = _base_of(shown.pop()) if bases else None
        return cls(
            columns=tuple(column.name for column in columns),
            values=tuple("(missing)" if value is None else value for value in understanding.values),
            layers=tuple(shown),
            linked=linked if linked.size else np.arange(cells.n_cells),
            promised=max((release.ell for release in releases if release.ell is not None), default=None),
            plans=tuple(release.plan_digest for release in releases),
            assumptions=(
                source_of_meaning(releases),
                *_grouped_values(schema),
                *_overlaps(shown, int((~cells.is_named).sum())),
                *understanding.notes,
            ),
            losses=tuple(losses[: len(releases)]),
            described_by=tuple(release.described_by for release in releases),
            left_out=tuple(release.left_out for release in releases),
            labels=_meanings(understanding)
            if any(item.described_by == "labels" for item in releases)
            else (),
            schema=schema,
            places=(understanding, cells),
            base_of=base_of,
        )

    @cached_property
    def groups(self) -> NDArray[np.int64] | None:
        """The group of every value, where a schema says that values of a group count once.

        Without one the values of a composite column count by their first part.
        """
        if self.schema is None:
            return None if self.places is None else _by_first_part(self.sensitive, self.places[0].values)
        groups = self.schema.sensitive.value_groups
        if groups is None or self.places is None:
            return groups
        # Labels may show values that the schema does not have: each is a group by itself.
        known = dict(zip(sensitive_texts(self.schema), groups.tolist(), strict=True))
        found = self.places[0].values
        return np.array([known.get(value, groups.size + place) for place, value in enumerate(found)])

    @property
    def names(self) -> tuple[str, ...]:
        """Words for each release."""
        return tuple(item.name for item in self.layers)

    @property
    def class_counts(self) -> tuple[NDArray[np.int64], ...]:
        """Per release its own classes x values, every record once."""
        return tuple(item.counts for item in self.layers)

    @property
    def is_disjoint(self) -> bool:
        """Whether the classes of each release are disjoint."""
        return not any(item.n_overlapping for item in self.layers)

    @cached_property
    def _used(self) -> tuple[NDArray[np.int64], ...]:
        """Per release, the rows that linked cells have."""
        return tuple(np.unique(item.row_of[self.linked]) for item in self.layers)

    @cached_property
    def releases(self) -> tuple[ReleasedCounts, ...]:
        """The releases over linked cells; a row of counts is what somebody sees there."""
        return self._over(self.linked)

    @cached_property
    def unnamed(self) -> tuple[ReleasedCounts, ...]:
        """The same over the cells that are not linked; none if all are."""
        cells = np.setdiff1d(np.arange(len(self.layers[0].row_of)), self.linked)
        return self._over(cells) if cells.size else ()

    def _over(self, cells: NDArray[np.intp]) -> tuple[ReleasedCounts, ...]:
        found = (np.unique(item.row_of[cells], return_inverse=True) for item in self.layers)
        return tuple(
            ReleasedCounts.from_rows(row_of.astype(np.int64), item.table[used], self.groups)
            for item, (used, row_of) in zip(self.layers, found, strict=True)
        )

    @property
    def bases(self) -> NDArray[np.int64]:
        """The class of the plan in which each linked cell lies."""
        if self.base_of is None:
            raise InternalError("No plan was laid over the releases.")
        return self.base_of[self.linked]

    def by_value(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """A table by the values of the schema, by the values of all releases."""
        if self.places is None:
            return table
        found = np.zeros((len(table), len(self.values)), dtype=np.int64)
        np.add.at(found.T, self.places[0].known_of, table.T)
        return found

    def label(self, release: int, row: int) -> tuple[str, ...]:
        """What a release shows for the people of a row of its counts."""
        return self.layers[release].label(int(self._used[release][row]))

    def model_rows(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The rows of each combination of a model that is linked, its records by value, and all records."""
        found = self.find(_combinations(model, self.schema))
        if len(np.unique(found.person)) < len(found.person):
            raise DataError(
                "Labels of the releases cut through the values of the model.",
                remedy="Use the schema that the releases were made with, or leave the model out.",
            )
        is_linked = np.ones(len(found.person), dtype=bool)
        for j, used in enumerate(self._used):
            is_linked &= np.isin(found.rows[:, j], used)
        rows = [np.searchsorted(used, found.rows[is_linked, j]) for j, used in enumerate(self._used)]
        table = model.counts.dense()
        overall = self.by_value(table.sum(axis=0, keepdims=True))[0]
        return np.stack(rows, axis=1), self.by_value(table[found.person[is_linked]]), overall

    @property
    def _located(self) -> tuple[Understanding, Arrangement]:
        if self.places is None:
            raise InternalError("Somebody is looked for in releases that were not read for it.")
        return self.places

    def find(self, known: BackgroundKnowledge) -> Candidates:
        """Where people can be of whom so much is known; the releases must have been laid for it."""
        understanding, cells = self._located
        codes = understanding.codes(known)
        distinct, kind = np.unique(codes, axis=0, return_inverse=True)
        who, cell = cells.find(distinct)
        # every person gets the cells of their kind
        kind = kind.reshape(-1)
        starts = np.searchsorted(who, np.arange(len(distinct) + 1))
        n_cells = np.diff(starts)[kind]
        person = np.repeat(np.arange(len(codes)), n_cells)
        within = np.arange(len(person)) - np.repeat(np.cumsum(n_cells) - n_cells, n_cells)
        picked = cell[np.repeat(starts[kind], n_cells) + within]
        rows = np.stack([item.row_of[picked] for item in self.layers], axis=1)
        tables = tuple(item.table for item in self.layers)
        return Candidates(len(codes), person, rows, tables, int((n_cells == 0).sum()))


def _bases(plan: Plan, columns: ForeignColumns) -> ReadRelease:
    """The classes of a plan, as a release that shows nothing."""
    schema = plan.schema
    names = [name if name in schema.names else None for name in columns.quasi_identifiers]
    counts = np.zeros((plan.n_classes, schema.n_values), dtype=np.int64)
    return ReadRelease.from_classes("the plan", schema, plan.classes, counts, names)


def _base_of(shown: Layer) -> NDArray[np.int64]:
    """The one class of a plan that covers each cell."""
    if (np.diff(shown.starts) != 1).any():
        raise DataError(
            "The classes of the plan cannot be told apart by the columns that are linked.",
            found="A place where releases meet lies in several of them, or in none.",
            remedy="Link by all quasi-identifiers of the plan, or compare with something else.",
        )
    return shown.classes[shown.row_of]


def _combinations(model: Model, schema: Schema | None) -> BackgroundKnowledge:
    """The combinations of a model, as people of whom everything is known."""
    if schema is None or model.schema.digest != schema.digest:
        raise DataError(
            "The model and the releases were made with different schemas.",
            remedy="Use the model that the plan of the releases was made from, give its schema, or leave the "
            "model out.",
            parameter=("model", "columns"),
        )
    return BackgroundKnowledge.from_positions(schema, model.counts.positions)


def check_schemas(described: Sequence[tuple[str, Schema]]) -> None:
    """Refuses releases, or a plan and releases, that describe their columns differently."""
    for name, schema in described[1:]:
        if schema.digest != described[0][1].digest:
            raise DataError(
                "Only tables of one schema can be linked.",
                found=f"{described[0][0]} and {name} describe their columns differently.",
                remedy="Link releases that use the same columns and domains.",
            )


def _grouped_values(schema: Schema | None) -> list[Assumption]:
    if schema is None or schema.sensitive.value_groups is None:
        return []
    return [
        Assumption(
            f"Values of one group count as one: {counted(schema.n_values, 'value')} of "
            f"{schema.sensitive.name!r} in {counted(schema.sensitive.n_groups, 'group')}, as the schema says."
        )
    ]


def _by_first_part(name: str, values: Sequence[str | None]) -> NDArray[np.int64] | None:
    """The group of every value of a composite column; None if the column is not one."""
    shown = [value for value in values if value is not None]
    if not is_composite(name) or not any(SEPARATOR in value for value in shown):
        return None
    first = dict(zip(shown, first_parts(name, shown), strict=True))
    number = {part: place for place, part in enumerate(dict.fromkeys(first.values()))}
    return np.array([len(number) if value is None else number[first[value]] for value in values])


def _overlaps(layers: Sequence[Layer], n_unnamed: int) -> Iterator[Assumption]:
    for layer in layers:
        if layer.n_overlapping:
            yield Assumption(
                f"{layer.name}: classes overlap or records are suppressed in {layer.n_overlapping:,} of "
                f"{counted(len(layer.row_of), 'cell')}; counts of all classes there are added up."
            )
    if n_unnamed:
        yield Assumption(
            f"{counted(n_unnamed, 'cell is', 'cells are')} named by no label but '*'. No schema says "
            "whether somebody can be there, so they are not linked."
        )


def _meanings(understanding: Understanding) -> tuple[tuple[str, str, str], ...]:
    """How every label was understood: column, label, meaning. Plain values are taken together."""
    return tuple(
        (
            row["column"],
            counted(row["labels"], "value") if row["label"] is None else row["label"],
            row["meaning"],
        )
        for row in understanding.rows()
    )
