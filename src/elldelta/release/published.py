"""A release as an outsider reads it: where it is, its classes and counts, compared with its manifest."""

from __future__ import annotations

import glob
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elldelta.engines import Query, TableName, is_frame, running, source_format
from elldelta.engines.task import computed, part
from elldelta.errors import FileError, ParameterError, counted
from elldelta.files import no_file
from elldelta.plan.classes import Classes, grouping_of
from elldelta.release.content import column_texts, content_digest, different_rows, released_values
from elldelta.release.manifest import Manifest, loss_of, manifest_path, read_manifest
from elldelta.release.row_checks import is_as_made, is_by_this_library, is_sliced, unknown_columns
from elldelta.release.rows import ReleaseRows
from elldelta.release.weights import RowWeights, read_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from elldelta.core.partition import Partition
    from elldelta.engines import Engine, Progress, Table
    from elldelta.files import CsvFormat
    from elldelta.release.content import Coded
    from elldelta.schema.schema import Column, Schema


IN_MEMORY = "a release in memory"
"""Words for a release that is in no file."""

_QUERY = "a query"

ROWS_ONLY = (
    "Not every byte of the file could be compared, because it does not say that this version of Arrow wrote "
    "it: something may stand beside its rows."
)
"""What is said of a file whose bytes this library would not write."""


@dataclass(frozen=True, eq=False)
class Published:
    """A release that was read back and understood.

    Attributes:
        name: Words for it, for tables and messages.
        schema: What its columns mean.
        classes: Its classes.
        counts: Records by class and sensitive value.
        manifest: What the release says about itself.
        unchecked: What of the rows nobody could check, in words.
    """

    name: str
    schema: Schema
    classes: Classes
    counts: NDArray[np.int64]
    manifest: Manifest
    unchecked: tuple[str, ...] = ()

    @property
    def n_records(self) -> int:
        """The number of records."""
        return int(self.schema.by_column(self.counts)[0].sum())

    def for_column(self, index: int) -> Published:
        """What it shows of one of several sensitive columns."""
        if len(self.schema.sensitives) == 1:
            return self
        return replace(
            self,
            schema=self.schema.for_column(index),
            counts=self.schema.by_column(self.counts)[index],
            manifest=self.manifest.for_column(index),
        )

    @cached_property
    def loss(self) -> float | None:
        """How much information it loses, with the records that its manifest says are left out."""
        hulls, manifest = self.classes.hulls(self.schema), self.manifest
        return loss_of(self.schema, hulls, self.counts, manifest.seen, manifest.records_lost)

    @property
    def labels(self) -> list[tuple[str, ...]]:
        """What the release shows for each class."""
        return self.manifest.labels

    @property
    def grouping(self) -> Partition:
        """The published class of every planned class."""
        return grouping_of(self.classes)

    @cached_property
    def digest(self) -> str:
        """The digest of its content."""
        return content_digest(self.labels, released_values(self.schema), self.counts)


@dataclass(frozen=True, eq=False)
class _Counted:
    """A release that was counted, and not yet compared with what its manifest says of counts and rows.

    Attributes:
        table: The release.
        published: What it shows.
        weights: The mean weight of every different row, if it shows any.
        classes: The class of every different row.
        values: Its value in every sensitive column, numbered among all values.
        n: How often it occurs.
    """

    table: Table
    published: Published
    weights: RowWeights | None
    classes: NDArray[np.int64]
    values: list[NDArray[np.int64]]
    n: NDArray[np.int64]

    def checked(self, progress: Progress) -> Published:
        """The release, its counts compared with the manifest, its rows with those that counts lead to."""
        published, manifest = self.published, self.published.manifest
        name, schema, counts = published.name, published.schema, published.counts
        if published.digest != manifest.content_digest:
            raise not_as_described(name, "Its records are not those that the manifest describes.")
        if (manifest.weights is None) != (self.weights is None):
            raise not_as_described(name, "Release and manifest disagree on whether weights are shown.")
        weights = None
        if self.weights is not None:
            weights = read_weights(manifest, counts, (self.classes, self.values[0]), self.weights)
            if weights is None:
                raise not_as_described(name, "Its weights are not those that the manifest describes.")
        expected = ReleaseRows(schema, published.labels, counts, weights=weights)
        is_so = is_as_made(self.table, expected, progress)
        if (
            not is_so
            and schema.also_sensitive
            and not is_sliced(schema, counts, self.classes, self.values, self.n)
        ):
            raise not_as_described(name, "Its rows tie sensitive columns together that the plan keeps apart.")
        if is_so is False:
            raise not_as_described(
                name, "Its rows are in another order, or something stands in the file besides them."
            )
        unchecked = _unchecked(self.table, is_so, has_weights=weights is not None)
        return replace(published, unchecked=tuple(unchecked))


def _count(table: Table, name: str, manifest: Manifest, progress: Progress | None) -> _Counted:
    """Counts a release by the classes of its manifest, and compares what it shows with it.

    Raises:
        FileError: The content is not what the manifest says: columns, values or counts.
    """
    schema, classes = manifest.schema, manifest.classes
    n_unknown = unknown_columns(table, manifest)
    if n_unknown:
        described = ", ".join(map(repr, schema.columns))
        raise not_as_described(
            name,
            f"It has {counted(n_unknown, 'column')} that the manifest does not describe; it "
            f"describes {described}.",
        )
    found, class_of, coded, n = different_rows(
        table, schema.names, schema.columns[len(schema.names) :], progress
    )
    row_weights = None if schema.weight is None else RowWeights(*coded.pop())
    number = {labels: index for index, labels in enumerate(manifest.labels)}
    if len(number) < classes.n_classes:
        raise not_as_described(name, "Two of its classes have the same labels.")
    known: list[int | None] = [number.get(labels) for labels in found]  # type: ignore[arg-type]
    if None in known:
        raise not_as_described(name, f"{known.count(None)} sets of labels name no class of the manifest.")
    rows = np.array(known, dtype=np.int64)[class_of]
    values = [
        _positions(column, texts, name) + places.start
        for column, texts, places in zip(schema.sensitives, coded, schema.value_slices, strict=True)
    ]
    counts = np.zeros((classes.n_classes, schema.n_values), dtype=np.int64)
    for positions in values:
        np.add.at(counts, (rows, positions), n)
    published = Published(name, schema, classes, counts, manifest)
    return _Counted(table, published, row_weights, rows, values, n)


def _unchecked(table: Table, is_as_made: bool | None, *, has_weights: bool) -> Iterator[str]:
    """What nobody could check, in words."""
    if has_weights:
        yield "The weights are the owner's word, too: that they are rounded as the manifest says was checked."
    if is_as_made is None:
        yield "The order of the rows was not checked: only files and tables in memory have one."
    elif table.files and not is_by_this_library(table.files[0]):
        yield ROWS_ONLY


def _positions(column: Column, coded: Coded, name: str) -> NDArray[np.int64]:
    """Where the values of a release stand in the domain of their column."""
    codes, texts = coded
    position = {text: place for place, text in enumerate(column_texts(column))}
    if not position.keys() >= set(texts):
        strange = counted(len(set(texts) - position.keys()), "different value")
        raise not_as_described(name, f"{column.name!r} holds {strange} that the manifest does not know.")
    places: NDArray[np.int64] = np.array([position[text] for text in texts], dtype=np.int64)[codes]
    return places


class Located(NamedTuple):
    """Where the records of a release are, words for it, and its manifest if it has one."""

    source: Any
    name: str
    manifest: Manifest | None

    def read_counts(
        self, csv_format: CsvFormat | None, engine: Engine, progress: Progress | None
    ) -> _Counted:
        """Counts the release and compares its counts with its manifest."""
        if self.manifest is None:
            raise FileError(
                f"The release {self.name} comes without a manifest.",
                found="Nothing says under which plan it was made.",
                remedy="Give the file that was published, with its manifest beside it.",
            )
        with self.opened(csv_format, engine) as table:
            if _is_more_than_a_table(self.source, table):
                raise FileError(
                    f"What the release {self.name} shows cannot all be checked.",
                    found="It is a folder, or in a format in which anything can stand beside the columns.",
                    remedy="A release is one file of CSV or Parquet: fetch it again from its publisher.",
                )
            return _count(table, self.name, self.manifest, progress)

    @contextmanager
    def opened(self, csv_format: CsvFormat | None, engine: Engine | None) -> Iterator[Table]:
        """The release as a table, for as long as it is read."""
        with running(engine) as active:
            yield active.open(self.source, csv_format)


def _is_more_than_a_table(source: object, table: Table) -> bool:
    """Whether files of a release may show what no check sees."""
    # Of JSON lines some keys are never asked for, and of equal ones only one is.
    is_folder = isinstance(source, str | os.PathLike) and Path(source).is_dir()
    return is_folder or any(source_format(path) not in ("csv", "parquet") for path in table.files)


def locate(item: Any, engine: Engine | None) -> Located:  # noqa: ANN401 (a file, a Release or a table)
    """Where a release is: a file with its manifest beside it, one in memory, or a table of a database."""
    from elldelta.release.release import Release

    if isinstance(item, Located):
        return item
    if isinstance(item, Release):
        if item.table is not None:
            return Located(item.table, item.name, item.manifest)
        item = item.place
    # An engine that reads tables and no files takes every name for a table's.
    reads_tables = engine is not None and "files" not in engine.capabilities
    if isinstance(item, str | os.PathLike) and reads_tables:
        item = TableName.parse(os.fspath(item))
    if isinstance(item, Query):
        return Located(item, _QUERY, None)
    if isinstance(item, TableName):
        return Located(item, str(item), None)
    if is_frame(item):
        return Located(item, IN_MEMORY, None)
    if not isinstance(item, str | os.PathLike):
        raise ParameterError(
            "A release is given as a file, as a Release, or as a table in memory.",
            found=f"It is of type {type(item).__name__}.",
        )
    beside = manifest_path(Path(item))
    if not beside.exists() and not Path(item).exists() and "://" not in os.fspath(item):
        raise no_file(item)
    return Located(item, Path(item).name, read_manifest(beside) if beside.exists() else None)


def locate_all(releases: Sequence[Any], engine: Engine | None) -> list[Located]:
    """Where several releases are; those that have no name of their own are numbered by their place."""
    found = [locate(item, engine) for item in each_once(releases)]
    shared = {IN_MEMORY: "release {} in memory", _QUERY: "query {}"}
    names = [item.name for item in found]
    return [
        item._replace(name=shared[item.name].format(place))
        if item.name in shared and names.count(item.name) > 1
        else item
        for place, item in enumerate(found, start=1)
    ]


def each_once(releases: Sequence[Any]) -> list[Any]:
    """Releases with globs replaced by what they match, and without manifests, which globs match too.

    Raises:
        ParameterError: A release is given twice, or there is none, or one that is not in a list.
        FileError: A glob matches no file.
    """
    from elldelta.release.release import Release

    if isinstance(releases, Release | str | os.PathLike | Query | TableName) or is_frame(releases):
        raise ParameterError(
            "An audit takes a list of releases.",
            found="It is a single one.",
            remedy="Give [first, second, ...], or [first] for one release by itself.",
        )
    found: list[Any] = []
    for item in releases:
        name = os.fspath(item) if isinstance(item, str | os.PathLike) else ""
        matches = [item]
        if glob.has_magic(name) and not Path(name).exists():
            matches = sorted(Path(match) for match in glob.glob(name, recursive=True))  # noqa: PTH207
            if not matches:
                raise FileError(
                    f"No file matches {name}.", found="The glob is empty.", remedy="Check its spelling."
                )
        found += [match for match in matches if not (name and str(match).endswith(".manifest.json"))]
    if not found:
        raise ParameterError("An audit needs at least one release.", found="None was given.")
    files = [Path(item).resolve() for item in found if isinstance(item, str | os.PathLike)]
    if len(set(files)) < len(files):
        twice = next(file for file in files if files.count(file) > 1)
        raise ParameterError(
            f"The release {twice.name} is given twice.",
            found="Linked with itself it tells nothing more.",
            remedy="Give each release once; a glob may already match it.",
        )
    return found


def open_published(
    item: Any,  # noqa: ANN401 (a file or a Release)
    *,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Published:
    """Reads one release and compares it with its manifest."""
    [published] = published_each([locate(item, engine)], csv_format, engine, progress)
    return published


def published_each(
    items: Sequence[Located],
    csv_format: CsvFormat | None,
    engine: Engine | None,
    progress: Progress | None,
) -> list[Published]:
    """Reads releases and compares them with their manifests: one after the other, then the rows of all."""
    with running(engine) as active, ThreadPoolExecutor(os.cpu_count()) as threads:
        counted = [item.read_counts(csv_format, active, progress) for item in items]
        return computed(
            lambda tell: list(threads.map(lambda each: each.checked(tell), counted)), part(progress, 1.0, 1.0)
        )


def not_as_described(name: str, found: str) -> FileError:
    """The error for a release that is not what its manifest says."""
    return FileError(
        f"The release {name} is not the one its manifest describes.",
        found=found,
        remedy="Fetch both again from whoever published them.",
    )
