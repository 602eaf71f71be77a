"""Writing a release: generalized labels, sensitive values, and nothing that tells about the input.

Without kept columns a release is fully determined by its counts per (class, sensitive value): it is
generated from them, class by class, and the records are not read again. The rows are then sorted, which hides
the order of the input and makes the file the same, byte for byte, from run to run. With kept columns the
engine joins the records with their labels, and sorts them unless speed matters more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.engines import sql
from elldelta.engines.frames import from_arrow
from elldelta.engines.repeated_rows import RepeatedRows
from elldelta.engines.sources import format_of
from elldelta.engines.table import require
from elldelta.errors import InternalError, ParameterError, SchemaError
from elldelta.files import part_name
from elldelta.release.recheck import check_file, check_frame
from elldelta.schema.domains import UNKNOWN

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines.table import Engine, Progress
    from elldelta.files import AtomicFiles
    from elldelta.model.counting import CountedTable, Encoding
    from elldelta.model.counts import Accounting
    from elldelta.release.class_map import ClassMap

Order = Literal["sorted", "any"]


@dataclass(frozen=True)
class ReleaseAccount:
    """What became of every record: n_read = n_released + n_left_out + n_suppressed + n_quarantined.

    Attributes:
        accounting: What was counted, suppressed and quarantined.
        n_released: Rows of the release.
        n_left_out: Records of classes that are not released.
        order: How the rows are ordered: "sorted", or "any" if the order may follow the input.
    """

    accounting: Accounting
    n_released: int
    n_left_out: int
    order: Order

    def __post_init__(self) -> None:
        if self.n_released + self.n_left_out != self.accounting.n_counted:
            raise InternalError(
                "Records were lost or invented while writing.",
                found=f"{self.accounting.n_counted} were counted, {self.n_released} written, "
                f"{self.n_left_out} left out.",
                remedy="Make sure that nothing changes the table meanwhile; otherwise please report this.",
            )


def write_release(
    counted: CountedTable,
    class_map: ClassMap,
    path: str | os.PathLike[str],
    files: AtomicFiles,
    *,
    order: Order = "sorted",
    progress: Progress | None = None,
) -> ReleaseAccount:
    """Writes a release to a Parquet or CSV file, which appears when the block of `files` ends.

    An engine that writes in parts makes a folder of such files. A release that is generated from its counts
    is one part even then: the counts are on this machine, and expanding them here takes less than to send
    them to workers and to sort what these would make of them.
    """
    file_format = format_of(path)
    if str(path).endswith(".gz"):
        raise ParameterError(
            "A release is not written compressed as a whole.",
            found="Its name ends in .gz.",
            remedy="Use a name that ends in .csv or .parquet; Parquet is compressed inside.",
        )
    check_release(counted, class_map, order)
    engine = counted.table.engine
    target = _stage(engine, path, files)
    if not counted.schema.kept:
        rows = generated_rows(counted, class_map)
        file = target / part_name(0, file_format) if target.is_dir() else target
        (rows.write_parquet if file_format == "parquet" else rows.write_csv)(file, progress)
        return account_of(counted, class_map, rows.n_rows, "sorted")
    with JoinedRows(counted, class_map, order) as joined:
        n_rows = engine.write(joined.query, target, file_format, ordered=order == "sorted", progress=progress)
    check_file(counted, class_map, target, file_format)
    return account_of(counted, class_map, n_rows, order)


def release_frame(
    counted: CountedTable,
    class_map: ClassMap,
    *,
    order: Order = "sorted",
    like: object = None,
    progress: Progress | None = None,
) -> tuple[Any, ReleaseAccount]:
    """A release in memory, of the same kind as `like` (by default, as the table that was given)."""
    check_release(counted, class_map, order)
    if not counted.schema.kept:
        table = generated_rows(counted, class_map).to_table()
        order = "sorted"
    else:
        # A stored result has no order: its rows are numbered instead, and sorted here.
        with JoinedRows(counted, class_map, "numbered" if order == "sorted" else "any") as joined:
            table = _fetched(counted.table.engine, joined.query, progress)
        check_frame(counted, class_map, table)
        if order == "sorted":
            table = table.sort_by(sql.ROW_NUMBER).drop_columns([sql.ROW_NUMBER])
    account = account_of(counted, class_map, table.num_rows, order)
    return from_arrow(table, counted.table.given if like is None else like), account


def write_quarantine(
    counted: CountedTable,
    path: str | os.PathLike[str],
    files: AtomicFiles,
    *,
    progress: Progress | None = None,
) -> int:
    """Writes the records with a value outside its domain, as they are, to a file; returns their number.

    The rows are personal data, all columns included: the file is for the owner of the records only.
    """
    file_format = format_of(path)
    table = counted.table
    target = _stage(table.engine, path, files, private=True)
    relations: list[str] = []
    keys: list[str] = []
    try:
        for key, encoding in zip(counted.keys, counted.encodings, strict=True):
            unknown = _cells_where(encoding, encoding.positions == UNKNOWN)
            if len(unknown):
                keys.append(key)
                relations.append(
                    table.engine.put(_relation(raw=unknown, hit=np.ones(len(unknown), np.int64)))
                )
        query = sql.quarantined_rows(table.relation, keys, relations, table.names)
        n_rows = table.engine.write(query, target, file_format, ordered=False, progress=progress)
    finally:
        table.engine.discard(*relations)
    expected = counted.counts.accounting.n_quarantined
    if n_rows != expected:
        raise InternalError(
            "The quarantined records are not those that were counted.",
            found=f"{expected} were counted, {n_rows} written.",
            remedy="Make sure that nothing changes the table meanwhile; otherwise please report this.",
        )
    return n_rows


def generated_rows(counted: CountedTable, class_map: ClassMap) -> RepeatedRows:
    """The rows of a release without kept columns: every (class, sensitive value) as often as it occurs."""
    import pyarrow as pa

    counts = counted.counts
    n_values = counted.schema.n_values
    class_of = class_map.classes_of(counts.ranks)
    # Every combination belongs to the cells of its class; those that are left out come last, and are cut off.
    n_cells = len(class_map.labels) * n_values
    first = np.where(class_of < 0, n_cells, class_of * n_values)
    table = np.zeros(n_cells + n_values, dtype=np.int64)
    np.add.at(table, first[counts.rows] + counts.values, counts.n)
    cells = np.flatnonzero(table[:n_cells])
    n = table[cells]
    classes, values = np.divmod(cells, n_values)
    columns = [
        (name, classes, pa.array([labels[place] for labels in class_map.labels], pa.string()))
        for place, name in enumerate(counted.schema.names)
    ]
    sensitive = counted.schema.sensitive
    return RepeatedRows((*columns, (sensitive.name, values, sensitive.released_values())), n)


class JoinedRows:
    """The query for a release with kept columns, with the small tables it needs while it is used."""

    def __init__(self, counted: CountedTable, class_map: ClassMap, order: sql.RowOrder) -> None:
        self._counted = counted
        self._class_map = class_map
        self._order = order
        self._relations: list[str] = []
        self.query = ""

    def __enter__(self) -> JoinedRows:
        try:
            self._prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self._counted.table.engine.discard(*self._relations)

    def _prepare(self) -> None:
        counted, schema = self._counted, self._counted.schema
        ranks, class_of, values = self._released()
        self.query = sql.released_rows(
            counted.table.relation,
            counted.keys,
            [
                *(self._put(**_usable(encoding)) for encoding in counted.encodings[:-1]),
                self._put(**self._sensitive(values)),
            ],
            schema.strides,
            self._put(**self._classes(ranks, class_of)),
            (*schema.names, schema.sensitive.name),
            schema.kept,
            order=self._order,
        )

    def _put(self, **columns: Any) -> str:  # noqa: ANN401 (arrays of Arrow or numpy)
        self._relations.append(self._counted.table.engine.put(_relation(**columns)))
        return self._relations[-1]

    def _released(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The combinations that are released, their classes, and the sensitive values of their records.

        Nothing of records that are left out may come further: not even as an entry, used by no row, of a
        dictionary inside the file.
        """
        counts = self._counted.counts
        class_of = self._class_map.classes_of(counts.ranks)
        values = np.unique(counts.values[class_of[counts.rows] >= 0])
        return counts.ranks[class_of >= 0], class_of[class_of >= 0], values

    def _classes(self, ranks: NDArray[np.int64], class_of: NDArray[np.int64]) -> dict[str, Any]:
        import pyarrow as pa

        labels = {
            f"l{place}": self._texts(
                pa.array([labels[place] for labels in self._class_map.labels], pa.string()), class_of
            )
            for place in range(len(self._counted.schema.names))
        }
        return {"rank": ranks, "class": class_of, **labels}

    def _texts(self, cells: pa.Array, places: NDArray[np.int64]) -> pa.Array:
        """Cells by their places; with a dictionary where speed matters, so that texts are not compared.

        A file in order is the same, byte for byte, from run to run; dictionaries of engines are not.
        """
        import pyarrow as pa

        taken = cells.take(pa.array(places))
        is_coded = self._order == "any" and pa.types.is_string(taken.type)
        return taken.dictionary_encode() if is_coded else taken

    def _sensitive(self, values: NDArray[np.int64]) -> dict[str, Any]:
        encoding = self._counted.encodings[-1]
        shown = np.isin(encoding.positions, values)
        positions = encoding.positions[shown]
        written = self._texts(self._counted.schema.sensitive.released_values(), positions)
        return {"raw": _cells_where(encoding, shown), "position": positions, "value": written}


def _stage(
    engine: Engine, path: str | os.PathLike[str], files: AtomicFiles, *, private: bool = False
) -> Path:
    """Where an engine writes rows: a file, or a folder if it writes in parts."""
    if "write folder" in engine.capabilities:
        return files.stage(path, private=private, folder=True)
    require(engine, "write file", f"write {path}")
    return files.stage(path, private=private)


def check_release(counted: CountedTable, class_map: ClassMap, order: Order) -> None:
    """Refuses a release that cannot be written: no such order, a column is missing, classes of others."""
    if order not in {"sorted", "any"}:
        raise ParameterError("The order of a release is sorted or any.", found="It is neither.")
    counted.table.require(counted.schema.kept)
    n_names = len(counted.schema.names)
    if any(len(labels) != n_names for labels in class_map.labels):
        raise SchemaError(
            "The classes were made for another schema.",
            found=f"Their labels do not fit {n_names} quasi-identifiers.",
        )


def account_of(counted: CountedTable, class_map: ClassMap, n_released: int, order: Order) -> ReleaseAccount:
    """What became of every record, if so many rows were written; refuses if that cannot be."""
    counts = counted.counts
    n_left_out = int(counts.combination_totals[class_map.classes_of(counts.ranks) < 0].sum())
    return ReleaseAccount(counts.accounting, n_released, n_left_out, order)


def _usable(encoding: Encoding) -> dict[str, Any]:
    usable = encoding.positions >= 0
    return {"raw": _cells_where(encoding, usable), "position": encoding.positions[usable]}


def _cells_where(encoding: Encoding, mask: Any) -> pa.Array:  # noqa: ANN401
    import pyarrow as pa

    return encoding.cells.filter(pa.array(mask))


def _relation(**columns: Any) -> pa.Table:  # noqa: ANN401
    import pyarrow as pa

    return pa.table(columns)


def _fetched(engine: Engine, query: str, progress: Progress | None) -> pa.Table:
    import pyarrow as pa

    stored = engine.store(query, progress)
    try:
        return pa.Table.from_batches(engine.fetch(stored))
    finally:
        engine.discard(stored)
