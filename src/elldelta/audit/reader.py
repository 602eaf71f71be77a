"""How releases are read for an audit: found, compared with their manifests, and laid over each other."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from elldelta.audit.columns import ForeignColumns, columns_of
from elldelta.audit.overlay import Overlay, check_schemas
from elldelta.audit.releases import Assumption, ReadRelease, Topic, read_release, understand
from elldelta.errors import DataError, counted
from elldelta.release import locate_all, published_each
from elldelta.release.published import ROWS_ONLY
from elldelta.schema.composite import with_composites
from elldelta.schema.label_columns import rules_of
from elldelta.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from elldelta.audit.releases import Understanding
    from elldelta.audit.shares import ClosenessLimit
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.release import Located, Published

Columns: TypeAlias = ForeignColumns | Schema | str | os.PathLike[str] | None
"""What describes the columns of releases without a manifest, or the file of it."""

MOVED_CLASSES = Assumption(
    "The classes of these releases move up a tree: owners who share people should use a plan with fixed "
    "classes, because classes that moved differently can be subtracted from each other.",
    Topic.MOVED_CLASSES,
)
MEAN_WEIGHTS = Assumption(
    "Releases show mean weights of values. They rule no value out; but whoever knows what somebody weighs in "
    "the survey may find one value likelier than its share."
)


@dataclass(frozen=True)
class ReleaseReader:
    """How releases are read: what describes them, and by what.

    Attributes:
        columns: Describes the columns of releases without a manifest, as in `audit`.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """

    columns: Columns = None
    csv_format: CsvFormat | None = None
    engine: Engine | None = None
    progress: Progress | None = None

    @cached_property
    def described(self) -> ForeignColumns:
        """What somebody says about the columns."""
        return columns_of(self.columns)

    def sensitive_places(self, releases: Sequence[Any]) -> list[int]:
        """Which of several sensitive columns are asked about, by their places: all, or the one named."""
        found = locate_all(releases, self.engine)
        schemas = [item.manifest.schema for item in found if item.manifest is not None]
        if not schemas or not schemas[0].also_sensitive:
            return [0]
        names, named = schemas[0].sensitive_names, self.described.sensitive
        return [names.index(named)] if named in names else list(range(len(names)))

    def gather(self, releases: Sequence[Any], people: pa.Table | None = None) -> Overlay:
        """Reads releases of one sensitive column and lays them over each other."""
        [overlay] = self.overlays(releases, [0], people)
        return overlay

    def overlays(
        self,
        releases: Sequence[Any],
        places: Sequence[int],
        people: pa.Table | None = None,
        model: Model | None = None,
        limit: ClosenessLimit | None = None,
    ) -> Iterator[Overlay]:
        """Reads releases and lays them over each other, once for each sensitive column.

        The classes of a release are those of its manifest, where it has one; the others are read by their
        labels, which mean what a schema or a manifest says, or else what can be read in one way only.

        Args:
            releases: The releases.
            places: Which of the sensitive columns of releases with a manifest are asked about.
            people: People to look for in them.
            model: Counts of past records, whose combinations are to be found in them.
            limit: A closeness whose reference is to be found in them too.
        """
        found = locate_all(releases, self.engine)
        described = [item for item in found if item.manifest is not None]
        whole = published_each(described, self.csv_format, self.engine, self.progress)
        for place in places:
            published = [item.for_column(place) for item in whole]
            one_limit = None if limit is None else limit.for_column(place)
            overlay = self._laid(found, published, place, people, model, one_limit)
            yield _with_warnings(overlay, found, published, one_limit)

    def _laid(
        self,
        found: Sequence[Located],
        published: Sequence[Published],
        place: int,
        people: pa.Table | None,
        model: Model | None,
        limit: ClosenessLimit | None,
    ) -> Overlay:
        """Releases of one sensitive column, laid over each other; those with a manifest were read."""
        plan, compared = (None, None) if limit is None else (limit.plan, limit.model)
        past = [each for each in (model, compared) if each is not None]
        if people is None and not past and len(published) == len(found):
            return Overlay.from_published(published, plan)
        columns, known, given = self._described(found, place, plan)
        rest = iter(published)
        read = [
            self._read(item, columns, given)
            if item.manifest is None
            else ReadRelease.from_published(next(rest), columns)
            for item in found
        ]
        return Overlay.from_releases(read, columns, schema=known, people=people, models=past, plan=plan)

    def understanding(self, releases: Sequence[Any]) -> Understanding:
        """What the labels of releases mean, whether or not that is clear."""
        found = locate_all(releases, self.engine)
        columns, _, _ = self._described(found, 0)
        return understand([self._read(item, columns) for item in found], columns)

    def _read(self, item: Located, columns: ForeignColumns, schema: Schema | None = None) -> ReadRelease:
        with item.opened(self.csv_format, self.engine) as table:
            made = with_composites(table, {columns.sensitive: columns.sensitive_missing})
            return read_release(made, item.name, columns, schema, self.progress)

    def _described(
        self, found: Sequence[Located], place: int, plan: Plan | None = None
    ) -> tuple[ForeignColumns, Schema | None, Schema | None]:
        """The columns to link by and what is said about them; the schema, if any; and the one given."""
        described = self.described
        given = plan.schema if described.schema is None and plan is not None else described.schema
        manifests = [(item.name, item.manifest.schema) for item in found if item.manifest is not None]
        schemas = [
            (name, schema.for_column(place) if schema.also_sensitive else schema)
            for name, schema in manifests
        ]
        schemas += [] if given is None else [("the schema given", given)]
        schemas += [] if plan is None else [("the plan", plan.schema)]
        check_schemas(schemas)
        known = schemas[0][1] if schemas else None
        if known is not None:
            linked = described.quasi_identifiers or known.names
            from_schema = {
                column.name: rules_of(column) for column in known.quasi_identifiers if column.name in linked
            }
            described = replace(
                described,
                quasi_identifiers=linked,
                sensitive=described.sensitive or known.sensitive.name,
                rules={**from_schema, **described.rules},  # what somebody says here comes first
            )
        if not described.quasi_identifiers or not described.sensitive:
            raise DataError(
                f"The release {found[0].name} comes without a manifest.",
                found="Nothing says what its columns mean.",
                remedy="Put the manifest beside it, or describe the columns: a schema, or which columns to "
                "link by and which one is sensitive.",
                parameter="columns",
            )
        described.check([item.name for item in found])
        return described, known, given


def _with_warnings(
    overlay: Overlay, found: Sequence[Located], published: Sequence[Published], limit: ClosenessLimit | None
) -> Overlay:
    """Adds what whoever relies on the answer should know of releases with a manifest."""
    manifests = [item.manifest for item in found if item.manifest is not None]
    limits = sorted({each.closeness["limit"] for each in manifests if each.closeness is not None})
    warnings = []
    if len(found) > 1 and any(each.moving for each in manifests):
        warnings.append(MOVED_CLASSES)
    if any(each.weights is not None and each.weights["per"] == "value" for each in manifests):
        warnings.append(MEAN_WEIGHTS)
    n_plans = len({each.plan_digest for each in manifests})
    if n_plans > 1:
        words = (
            f"The releases were made under {counted(n_plans, 'plan')}: no plan promises anything about "
            "linking them."
        )
        warnings.append(Assumption(words, Topic.SEVERAL_PLANS))
    warnings += [Assumption(f"{item.name}: {ROWS_ONLY}") for item in published if ROWS_ONLY in item.unchecked]
    if limits and limit is None:
        promised = ", ".join(f"{each:g}" for each in limits)
        words = (
            f"Closeness is promised ({promised}) and was not checked: only the plan says what shares must be "
            "close to."
        )
        warnings.append(Assumption(words, Topic.CLOSENESS_NOT_CHECKED))
    return replace(overlay, assumptions=(*overlay.assumptions, *warnings))
