"""Releases that others made, as evidence: read by their labels alone, whether or not classes overlap."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.audit.evidence import Candidates
from elldelta.audit.foreign_cells import cell_counts, people_cells
from elldelta.audit.foreign_release import read_foreign, understand
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.partition import Partition
from elldelta.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.audit.foreign_cells import CellCounts, ReleaseClasses
    from elldelta.audit.foreign_release import ForeignRelease, SensitiveNulls, Understanding
    from elldelta.engines import Progress, Table
    from elldelta.model.model import Model
    from elldelta.schema.foreign_columns import ColumnRules

_SHOWN_TOGETHER = 3


@dataclass(frozen=True)
class ForeignColumns:
    """What somebody says about the columns of releases that nothing else describes.

    Attributes:
        quasi_identifiers: The label columns, by the names they are linked under.
        sensitive: The sensitive column.
        names: Triples (release, own name, common name) of columns that are called differently; an empty
            release stands for all that have such a column.
        absent: Pairs (release, column) of columns that a release does not have.
        rules: What the labels of a column mean, where they leave a doubt.
        sensitive_nulls: Whether a missing sensitive value is a value, or refused.
    """

    quasi_identifiers: tuple[str, ...] = ()
    sensitive: str = ""
    names: tuple[tuple[str, str, str], ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    rules: Mapping[str, ColumnRules] = field(default_factory=dict)
    sensitive_nulls: SensitiveNulls = "refuse"

    def read(
        self, tables: Sequence[tuple[str, Table]], *, people: pa.Table | None, progress: Progress | None
    ) -> ForeignReleases:
        """Reads the releases, understands them together and lays them over each other."""
        releases, understanding = self.understand(tables, progress=progress)
        found = ForeignReleases(cell_counts(releases, understanding), understanding)
        if people is None:
            return found
        known = texts_of(people, self.quasi_identifiers)
        # Whom one looks for cuts cells further. That must not change what the audit says about everybody.
        finer = understand(releases, self.rules, sensitive_nulls=self.sensitive_nulls, people=known)
        return replace(found, sought=ForeignReleases(cell_counts(releases, finer), finer))

    def understand(
        self, tables: Sequence[tuple[str, Table]], *, progress: Progress | None
    ) -> tuple[list[ForeignRelease], Understanding]:
        """Reads the releases and says what their labels mean; one without a clear meaning is no error yet."""
        called = {name for name, _ in tables} | {""}
        unknown = {release for release, *_ in (*self.names, *self.absent)} - called
        if unknown:
            raise ParameterError(
                "Columns are mapped for a release that is not there.",
                found=f"It is called {sorted(unknown)[0]!r}.",
                remedy="Name releases as their files are called.",
            )
        releases = [
            read_foreign(
                table,
                name,
                self.quasi_identifiers,
                self.sensitive,
                names=self._names_of(name, table),
                absent=[column for release, column in self.absent if release == name],
                progress=progress,
            )
            for name, table in tables
        ]
        if not any(release.n_records for release in releases):
            raise DataError(
                "The releases hold no record.",
                found=f"{len(releases)} releases were read.",
                remedy="Check that these are the files that you meant.",
            )
        understanding = understand(releases, self.rules, sensitive_nulls=self.sensitive_nulls)
        return releases, understanding

    def _names_of(self, name: str, table: Table) -> dict[str, str]:
        everywhere = {
            own: common for release, own, common in self.names if not release and own in table.names
        }
        return everywhere | {own: common for release, own, common in self.names if release == name}


def texts_of(people: pa.Table, columns: Iterable[str]) -> list[tuple[str | None, ...]]:
    """What is known about people, as text; None where it is not known."""
    import pyarrow as pa

    known = []
    for name in columns:
        if name not in people.column_names:
            known.append([None] * people.num_rows)
            continue
        try:
            known.append(people.column(name).cast(pa.string()).to_pylist())
        except pa.ArrowException:
            is_text = False
        else:
            is_text = True
        if not is_text:  # raised out here, so that no Arrow message, which may quote a cell, hangs on to it
            raise DataError(
                f"Column {name!r} of the targets cannot be read as text.",
                remedy="Give numbers, dates or texts.",
            )
    return list(zip(*known, strict=True))


@dataclass(frozen=True, eq=False)
class ForeignReleases:
    """Releases of any origin; see `elldelta.audit.evidence.Evidence`.

    Attributes:
        cells: The releases over common cells.
        understanding: What their labels mean.
        sought: The same releases over cells that also tell apart the people to look for, if there are any.

    What an adversary sees of somebody is the sum over all classes of a release that contain them. Cells that
    no label but `*` names hold nobody whom a release speaks of, and are not linked.
    """

    cells: CellCounts
    understanding: Understanding
    sought: ForeignReleases | None = None

    promised = None

    @property
    def names(self) -> tuple[str, ...]:
        """Words for each release."""
        return self.cells.names

    @property
    def columns(self) -> tuple[str, ...]:
        """The quasi-identifiers."""
        return tuple(column.name for column in self.cells.columns)

    @property
    def values(self) -> tuple[str, ...]:
        """What the sensitive values are called."""
        return tuple("(missing)" if value is None else value for value in self.cells.values)

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """For every cell and release, the number of the set of classes that cover it."""
        return np.stack([_numbered(release) for release in self.cells.releases], axis=1)

    @cached_property
    def _examples(self) -> tuple[NDArray[np.intp], ...]:
        """Per release, a cell of each set of classes."""
        return tuple(np.unique(own, return_index=True)[1] for own in self._rows.T)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int64], ...]:
        """Per release what each set of classes shows."""
        return tuple(
            release.over_cells(examples)
            for release, examples in zip(self.cells.releases, self._examples, strict=True)
        )

    @cached_property
    def _used(self) -> tuple[NDArray[np.int64], ...]:
        return tuple(np.unique(self._rows[self._linked, j]) for j in range(len(self.names)))

    @cached_property
    def _linked(self) -> NDArray[np.intp]:
        named = np.flatnonzero(self.cells.is_named)
        return named if named.size else np.arange(self.cells.n_cells)

    @cached_property
    def releases(self) -> tuple[ReleasedCounts, ...]:
        """The releases over the cells that are linked."""
        return tuple(
            ReleasedCounts(
                Partition(np.searchsorted(used, self._rows[self._linked, j])), self._tables[j][used]
            )
            for j, used in enumerate(self._used)
        )

    @property
    def class_counts(self) -> tuple[NDArray[np.int64], ...]:
        """Per release its own classes x values, every record once."""
        return tuple(release.counts for release in self.cells.releases)

    @property
    def is_disjoint(self) -> bool:
        """Whether the classes of each release are disjoint."""
        return not any(release.n_overlapping for release in self.cells.releases)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What reading the releases took for granted."""
        told = ["The labels of the releases mean what is listed; no manifest or schema says so."]
        told += [
            f"{release.name}: classes overlap or records are suppressed in {release.n_overlapping:,} of "
            f"{self.cells.n_cells:,} cells; somebody there can be in any of them, so their counts are "
            "added up."
            for release in self.cells.releases
            if release.n_overlapping
        ]
        n_unnamed = int((~self.cells.is_named).sum())
        if n_unnamed:
            told.append(
                f"{n_unnamed:,} cells are named by no label but `*`. They were not linked: only people whose "
                "records are suppressed wherever they occur can be there."
            )
        return (*told, *self.understanding.notes)

    @property
    def labels(self) -> tuple[tuple[str, str, str], ...]:
        """How every label was understood: column, label, meaning. Plain values are taken together."""
        return tuple(
            (
                row.column,
                f"{row.n_labels:,} values" if row.n_labels > 1 or row.label is None else row.label,
                row.meaning,
            )
            for row in self.understanding.rows()
        )

    def label(self, release: int, row: int) -> tuple[str, ...]:
        """What a release shows for a row of its counts: one label, or several that cover the same people."""
        cell = int(self._examples[release][self._used[release][row]])
        own = self.cells.releases[release]
        classes = own.classes[own.starts[cell] : own.starts[cell + 1]].tolist()
        if not classes:
            return ("no class",) * len(self.columns)
        shown = []
        for place in range(len(self.columns)):
            found = dict.fromkeys(own.labels[number][place] or "(empty)" for number in classes)
            more = len(found) - _SHOWN_TOGETHER
            told = list(found)[:_SHOWN_TOGETHER] + ([f"{more} more"] if more > 0 else [])
            shown.append(" or ".join(told))
        return tuple(shown)

    def find(self, people: pa.Table) -> Candidates:
        """Where the people of a table can be; they must have been given when the labels were understood."""
        if self.sought is not None:
            return self.sought.find(people)
        found = people_cells(self.cells, texts_of(people, self.columns))
        n_cells = np.diff(found.starts)
        person = np.repeat(np.arange(people.num_rows), n_cells)
        return Candidates(
            people.num_rows, person, self._rows[found.cells], self._tables, int((n_cells == 0).sum())
        )

    def model_cells(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Refused: nothing says how the model's combinations and the labels belong together."""
        raise DataError(
            "A model can be used only with releases that a manifest or a schema describes.",
            remedy="Give the schema of the model (--schema), or leave the model out.",
        )


def _numbered(release: ReleaseClasses) -> NDArray[np.int64]:
    """Numbers the cells so that those in the same classes have the same number, 0, 1, 2, ..."""
    n_each = np.diff(release.starts)
    number = np.zeros(len(n_each), dtype=np.int64)
    n_numbers = 1
    for place in range(int(n_each.max(initial=0))):
        more = np.flatnonzero(n_each > place)
        keys = number[more] * (len(release.counts) + 1) + release.classes[release.starts[more] + place]
        _, again = np.unique(keys, return_inverse=True)
        number[more] = n_numbers + again  # numbers of cells without a further class stay as they are
        n_numbers += int(again.max()) + 1
    return np.unique(number, return_inverse=True)[1].astype(np.int64)
