"""Models by region: a folder of models, one for every value of a quasi-identifier.

Nobody has to hold the counts of all regions at once: they are counted, planned and measured region by region.
The folder holds one ordinary model for every region that occurs, and a head file that says what belongs
together, with the digest of every part.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import JointDistribution, frozen
from elldelta.engines import Engine, Progress, running
from elldelta.engines.task import private_folder
from elldelta.errors import DataError, FileError, ParameterError
from elldelta.files import (
    MALFORMED,
    AtomicFiles,
    CsvFormat,
    MisfitError,
    NumberColumn,
    as_bytes,
    changed,
    check_writable,
    fields_of,
    is_digest,
    loaded,
    read_json,
    record_from,
    seal,
    unseal,
    unwritable,
    whole_numbers_of,
)
from elldelta.model.counting import Cells, ShowValues, UnknownPolicy, count_into
from elldelta.model.counts import Accounting, Counts, merge_counts
from elldelta.model.model import Model, read_model, write_model
from elldelta.model.noise import Protection
from elldelta.model.past import Past, Places, added_up
from elldelta.schema.schema import Schema
from elldelta.schema.schema_file import read_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

FORMAT_VERSION = 1
"""Version of the head file; others are refused."""

KIND = "model by region"

HEAD = "regions.json"
"""The name of the head file in the folder."""

_AGAIN = "Copy the whole folder again, or estimate it again."
"""What to do if a region is missing or damaged."""


@dataclass(frozen=True)
class Region:
    """One part of a model by region: what its head says of it.

    Attributes:
        position: The position that all its records have in the column of the regions.
        digest: The digest of its model.
        n_combinations: The combinations that occur there.
    """

    position: int
    digest: str
    n_combinations: int

    @property
    def file_name(self) -> str:
        """The name of its file in the folder."""
        return f"{self.position}.parquet"


@dataclass(frozen=True, eq=False, repr=False)
class RegionalModel(Past):
    """What is known about the population, region by region.

    Attributes:
        folder: Where the parts are.
        schema: What the numbers mean.
        by: The quasi-identifier whose values are the regions.
        regions: The regions that occur, by their position.
        totals: The number of records of every region with each sensitive value, read-only.
        accounting: What became of every record that was read.
        noise: How the past records are protected, as of a `Model`.
        seen: Of every quasi-identifier, the positions that occur and their numbers of records.
    """

    folder: Path
    schema: Schema
    by: str
    regions: tuple[Region, ...]
    totals: NDArray[np.int64]
    accounting: Accounting
    noise: tuple[Protection, ...]
    seen: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        """Heads come from files: their numbers must fit together before anything is computed with them."""
        object.__setattr__(self, "totals", frozen(self.totals, np.int64, copy=True))
        positions = [region.position for region in self.regions]
        fits = (
            self.by in self.schema.names
            and sorted(set(positions)) == positions
            and self.totals.shape == (len(positions), self.schema.n_values)
            and self.totals.min(initial=0) >= 0
            and all(is_digest(region.digest) and region.n_combinations > 0 for region in self.regions)
            and len(self.seen) == len(self.schema.sizes)
            and all(
                len(places) == len(records) and min(records, default=1) > 0 for places, records in self.seen
            )
            and all(sorted(set(places)) == list(places) for places, _ in self.seen)
            and all(
                not places or 0 <= min(places) <= max(places) < size
                for (places, _), size in zip(self.seen, self.schema.sizes, strict=True)
            )
        )
        if not fits or not self._adds_up():
            raise DataError("A model by region contradicts itself.", found="Its numbers do not fit together.")

    def _adds_up(self) -> bool:
        """Whether every record is at one position of every column, and in one region."""
        n_records = self.accounting.n_counted
        places, records = self.seen[self.place]
        sums = [column.sum(axis=1).tolist() for column in self.schema.by_column(self.totals)]
        return (
            places == tuple(region.position for region in self.regions)
            and all(each == list(records) for each in sums)
            and all(sum(numbers) == n_records for _, numbers in self.seen)
        )

    @property
    def place(self) -> int:
        """The place of the column of the regions among the quasi-identifiers."""
        return self.schema.names.index(self.by)

    @property
    def n_combinations(self) -> int:
        """The number of combinations that occur."""
        return sum(region.n_combinations for region in self.regions)

    @property
    def spread(self) -> tuple[Places, ...]:
        """Where the past records lie, by quasi-identifier."""
        return tuple(
            (np.array(places, np.int64), np.array(records, np.int64)) for places, records in self.seen
        )

    @property
    def value_totals(self) -> NDArray[Any]:
        """The past records with each sensitive value."""
        totals: NDArray[np.int64] = self.totals.sum(axis=0)
        return totals

    def to_dict(self) -> dict[str, Any]:
        """Sizes, and how the sensitive values are distributed, as plain JSON values; not the counts."""
        return {**super().to_dict(), "by": self.by, "regions": len(self.regions)}

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {**super().facts(), "regions": f"{len(self.regions):,}, by {self.by}"}

    def to_distribution(self) -> JointDistribution:
        """P(region, S): one row for every region."""
        self.accounting.require_records()
        return JointDistribution(self.totals, self.accounting.n_counted, slices=self.schema.value_slices)

    def models(self) -> Iterator[Model]:
        """The model of every region, one after the other."""
        return map(self.model_of, range(len(self.regions)))

    def whole(self) -> Model:
        """All counts in one memory: what was split, or what would have been estimated in one file."""
        counts = merge_counts(model.counts for model in self.models())
        return Model(replace(counts, accounting=self.accounting), self.noise)

    def model_of(self, number: int) -> Model:
        """The model of one region, read from its file; what it says must be what the head says."""
        region = self.regions[number]
        path = self.folder / region.file_name
        try:
            model = read_model(path, is_region=True)
        except FileError as problem:
            raise FileError(problem.problem, found=problem.found, remedy=_AGAIN) from None
        if (
            model.digest != region.digest
            or model.schema.digest != self.schema.digest
            or (model.positions[:, self.place] != region.position).any()
            or model.noise != self.noise
            or model.n_combinations != region.n_combinations
            or (model.value_totals != self.totals[number]).any()
        ):
            raise changed(f"The model {path}", "It is not the one that the head of its folder names.")
        return model

    @cached_property
    def digest(self) -> str:
        """The digest of the head, which holds the digests of all parts."""
        digest: str = self.head["digest"]
        return digest

    @property
    def head(self) -> dict[str, Any]:
        """The head file, as plain JSON values."""
        return seal(
            KIND,
            FORMAT_VERSION,
            {
                "schema": self.schema.to_dict(),
                "by": self.by,
                "regions": [fields_of(region) for region in self.regions],
                "totals": NumberColumn.of(self.totals.ravel()),
                "accounting": self.accounting.to_dict(),
                "noise": self.noise_head(),
                "seen": [[list(numbers) for numbers in column] for column in self.seen],
            },
        )


def read_regions(folder: str | os.PathLike[str]) -> RegionalModel:
    """Reads the head of a model by region; its parts are read, and checked, when they are needed."""
    folder = Path(folder)
    path = folder / HEAD
    if not path.exists():
        raise FileError(
            f"The folder {folder} is no model by region.",
            found=f"There is no {HEAD} in it.",
            remedy="Give a folder that was estimated by region, or made by 'elldelta model split'.",
        )
    document = read_json(path, KIND, columns=True)
    content = unseal(KIND, FORMAT_VERSION, document, f"The model {folder}")
    try:
        schema = Schema.from_dict(content["schema"])
        model = RegionalModel(
            folder,
            schema,
            content["by"],
            record_from(tuple[Region, ...], content["regions"]),
            whole_numbers_of(content, "totals").reshape(-1, schema.n_values),
            record_from(Accounting, content["accounting"]),
            record_from(tuple[Protection, ...], content["noise"]),
            record_from(tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], content["seen"]),
        )
        intact = model.digest == document["digest"]
    except MisfitError as misfit:
        raise changed(f"The model {folder}", misfit.words) from None
    except MALFORMED:
        intact = False
    if not intact:
        raise changed(f"The model {folder}")
    missing = [each.file_name for each in model.regions if not (folder / each.file_name).exists()]
    if missing:
        raise FileError(
            f"The model {folder} is not whole.",
            found=f"Missing: {len(missing):,} of {len(model.regions):,} regions, such as {missing[0]}.",
            remedy=_AGAIN,
        )
    return model


def read_past(path: str | os.PathLike[str]) -> Past:
    """Reads a model: a file, or a folder by region."""
    return read_regions(path) if Path(path).is_dir() else read_model(path)


def write_regions(
    folder: str | os.PathLike[str],
    schema: Schema,
    by: str,
    parts: Iterable[Counts],
    accounting: Accounting,
    noise: tuple[Protection, ...] = (),
) -> RegionalModel:
    """Writes a model by region, one part after the other; the folder appears whole or not at all.

    Args:
        folder: The folder to write; it must not be there.
        schema: What the numbers mean.
        by: The quasi-identifier whose values are the regions.
        parts: The counts of every region that occurs, in the order of their positions.
        accounting: What became of every record that was read.
        noise: How the past records are protected.
    """
    folder, place = Path(folder), _place_of(schema, by)
    regions: list[Region] = []
    totals = [np.zeros(0, np.int64)]
    nowhere = np.zeros(0, np.int64)
    spread: list[Places] = [(nowhere, nowhere)] * len(schema.sizes)
    with AtomicFiles() as files:
        staged = files.stage(folder, private=True, folder=True)
        for counts in parts:
            model = Model(counts, noise)
            region = Region(int(counts.positions[0, place]), model.digest, counts.n_combinations)
            write_model(model, staged / region.file_name, is_region=True)
            regions.append(region)
            totals.append(model.value_totals.astype(np.int64))
            columns = zip(spread, model.spread, strict=True)
            spread = [added_up(*map(np.concatenate, zip(*column, strict=True))) for column in columns]
        made = RegionalModel(
            folder,
            schema,
            by,
            tuple(regions),
            np.concatenate(totals).reshape(-1, schema.n_values),
            accounting,
            noise,
            tuple((tuple(places.tolist()), tuple(records.tolist())) for places, records in spread),
        )
        head = staged / HEAD
        head.touch(0o600)
        head.write_bytes(as_bytes(made.head))
    return made


def split_model(
    model: Model | str | os.PathLike[str], by: str, folder: str | os.PathLike[str]
) -> RegionalModel:
    """Splits a model, or the file of one, into a folder of parts: one for every value of a quasi-identifier.

    Args:
        model: The model.
        by: The quasi-identifier whose values are the regions.
        folder: The folder to write; it must not be there.
    """
    _check_new(folder)
    whole = loaded(model, Model, read_model)
    counts, place = whole.counts, _place_of(whole.schema, by)
    regions = counts.positions[:, place][counts.rows]
    cells = counts.ranks[counts.rows], counts.values, counts.n
    parts = (_counts_of(whole.schema, part) for _, part in _by_region(regions, cells))
    return write_regions(folder, whole.schema, by, parts, whole.accounting, whole.noise)


def estimate_by_region(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    schema: Schema | str | os.PathLike[str],
    by: str,
    folder: str | os.PathLike[str],
    *,
    unknown: UnknownPolicy = "refuse",
    show_values: ShowValues | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> RegionalModel:
    """Counts past records region by region: memory is needed for the counts of one region only.

    Args:
        source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
        schema: What the columns mean, or the file that says so.
        by: The quasi-identifier whose values are the regions.
        folder: The folder to write; it must not be there.
        unknown: What to do with a value outside its domain: "refuse", or leave the record out and count it
            ("quarantine").
        show_values: Is told every column with such values, and examples of them, which are personal data.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    described = loaded(schema, Schema, read_schema)
    place = _place_of(described, by)
    _check_new(folder)
    with running(engine) as active, _Spool(described, place, Path(folder).absolute()) as spool:
        table = active.open(source, csv_format)
        accounting = count_into(
            spool.keep, table, described, unknown=unknown, show_values=show_values, progress=progress
        )
        accounting.require_records()
        return write_regions(folder, described, by, spool.parts(), accounting)


_CELL = np.dtype([("rank", "<i8"), ("n", "<i8"), ("value", "<i4")])


class _Spool:
    """Cells on their way to the parts: one file for every region, beside the folder that is to be written."""

    def __init__(self, schema: Schema, place: int, target: Path) -> None:
        self._schema = schema
        self._stride, self._size = schema.strides[place], schema.sizes[place]
        self._folder, self._removal = private_folder(self, target.parent)
        self._target = target
        self._regions: set[int] = set()

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *problem: object) -> None:
        self._removal()

    def keep(self, cells: Cells) -> None:
        """Appends cells to the files of their regions."""
        for region, (ranks, values, n) in _by_region(cells[0] // self._stride % self._size, cells):
            table = np.empty(ranks.size, dtype=_CELL)
            table["rank"], table["value"], table["n"] = ranks, values, n
            path = self._folder / str(region)
            try:
                with path.open("ab") as file:
                    file.write(table.tobytes())
            except OSError as problem:
                raise unwritable(self._target, problem) from None
            self._regions.add(region)

    def parts(self) -> Iterator[Counts]:
        """The counts of every region, in the order of their positions; each file goes when it was read."""
        for region in sorted(self._regions):
            path = self._folder / str(region)
            table = np.fromfile(path, dtype=_CELL)
            path.unlink()
            yield _counts_of(self._schema, (table["rank"], table["value"], table["n"]))


def _by_region(regions: NDArray[np.int64], cells: Cells) -> Iterator[tuple[int, Cells]]:
    """Cells by their region, in its order; those of one region stay in theirs."""
    order = np.argsort(regions, kind="stable")
    starts = np.flatnonzero(np.diff(regions[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if order.size else ():
        ranks, values, n = (column[rows] for column in cells)
        yield int(regions[rows[0]]), (ranks, values, n)


def _counts_of(schema: Schema, cells: Cells) -> Counts:
    """The counts of one region: all its records were read for it and counted."""
    n_records = int(cells[2].sum()) // len(schema.sensitives)
    return Counts.from_cells(schema, *cells, Accounting(n_records, n_records))


def _check_new(folder: str | os.PathLike[str]) -> None:
    """Refuses a folder that is there, and the name of a file."""
    if Path(folder).suffix == ".parquet":
        raise ParameterError(
            "A model by region is a folder.",
            found=f"{Path(folder).name} is the name of a file.",
            remedy="Name a folder, without an end.",
            parameter=("folder", "output"),
        )
    check_writable(folder, overwrite=False, folder=True)


def _place_of(schema: Schema, by: str) -> int:
    if by not in schema.names:
        raise ParameterError(
            "Regions are the values of a quasi-identifier.",
            found=f"{by!r} is none.",
            remedy=f"Choose from: {', '.join(schema.names)}.",
            parameter="by",
        )
    return schema.names.index(by)
