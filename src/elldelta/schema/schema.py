"""The schema: which columns identify, which one is sensitive, and what their values may be.

A schema is inferred from a table (`elldelta.schema.infer`), written as TOML, edited by a person and read
back. It numbers the combinations of quasi-identifier values in lexicographic order; these *ranks* are
what models, plans and releases speak about.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.errors import ParameterError, SchemaError, TableWarning, counted
from elldelta.files import digest
from elldelta.pages.page import Displayed
from elldelta.schema.column import Column, NullPolicy, check_name, column_to_dict
from elldelta.schema.composite import with_composites, with_parts
from elldelta.schema.domains import NULL, UNKNOWN, Bins, Categories, Dates, Integers
from elldelta.schema.weight import Weight

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from elldelta.engines import Engine, Progress, Table
    from elldelta.files import CsvFormat
    from elldelta.schema.hierarchy import HierarchyRows

__all__ = [
    "NULL",
    "UNKNOWN",
    "Bins",
    "Categories",
    "Column",
    "Dates",
    "Integers",
    "NullPolicy",
    "Schema",
    "Weight",
]

FORMAT_VERSION = 1
"""Version of the schema's dictionary and TOML form; others are refused."""


@dataclass(frozen=True, repr=False)
class Schema(Displayed):
    """The roles and domains of the columns of a table.

    Attributes:
        quasi_identifiers: What an outsider may know about a person, in the order in which combinations are
            compared.
        sensitive: What must not be learnt; the first column of it.
        dropped: Columns that were seen and are not used, listed for the record.
        also_sensitive: Further columns that must not be learnt. Each has its own promise, and releases do not
            tell which of their values belong to one person.
        weight: The column of a survey's weights. It counts for no promise; releases show rounded means of it.
    """

    quasi_identifiers: tuple[Column, ...]
    sensitive: Column
    dropped: tuple[str, ...] = ()
    also_sensitive: tuple[Column, ...] = ()
    weight: Weight | None = None

    def __post_init__(self) -> None:
        for name in ("quasi_identifiers", "dropped", "also_sensitive"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.quasi_identifiers:
            raise SchemaError(
                "A schema needs at least one quasi-identifier.",
                found="There is none.",
                remedy="Name the columns that an outsider may know.",
            )
        for name in self.dropped:
            check_name(name)
        for column in self.sensitives:
            self._check_sensitive(column)
        if self.n_values >= 2**31:
            raise SchemaError(
                "There are too many sensitive values to number them.",
                found=f"{self.n_values}; 2^31 is the limit.",
                remedy="Put them into bins.",
            )
        seen: set[str] = set()
        weight = () if self.weight is None else (self.weight.name,)
        for name in (*self.names, *with_parts(self.sensitive_names), *weight, *self.dropped):
            # Engines disagree on whether upper and lower case differ in names, so names must differ by more.
            if name.casefold() in seen:
                raise SchemaError(
                    f"Column {name!r} is declared twice.",
                    found="Two declarations have this name; upper and lower case count as equal.",
                    remedy="Give each column one role.",
                )
            seen.add(name.casefold())
        if self.n_combinations >= 2**63:
            raise SchemaError(
                "There are too many combinations of quasi-identifier values to number them.",
                found=f"The domains have {' x '.join(map(str, self.sizes))} positions; 2^63 is the limit.",
                remedy="Use fewer quasi-identifiers, wider ranges or coarser dates.",
            )

    def _check_sensitive(self, column: Column) -> None:
        if column.name.casefold() in {name.casefold() for name in self.names}:
            raise SchemaError(
                f"Column {column.name!r} cannot be sensitive and a quasi-identifier.",
                found="It has both roles.",
                remedy="Remove one of the roles.",
            )
        if column.changes:
            raise SchemaError(
                f"The sensitive column {column.name!r} is said to change.",
                found="Only quasi-identifiers are: what linking leaves is a value that stays the same.",
                remedy="Remove changes = true.",
            )
        if isinstance(column.domain, Dates):
            raise SchemaError(
                f"The sensitive column {column.name!r} cannot hold dates.",
                found="Its domain is dates.",
                remedy="Use categories, integers or bins.",
            )

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {
            "quasi-identifiers": ", ".join(self.names),
            "sensitive": "; ".join(
                f"{column.name}, {counted(column.size, 'value')}" for column in self.sensitives
            ),
            "weight": None if self.weight is None else self.weight.name,
            "dropped": ", ".join(self.dropped) or None,
            "combinations": self.n_combinations,
            "digest": self.digest,
        }

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Every counted column: its role, its kind of values, how many positions it has."""
        roles = [*(["quasi-identifier"] * len(self.names)), *(["sensitive"] * len(self.sensitives))]
        rows: list[tuple[object, ...]] = [
            (column.name, role, type(column.domain).__name__.lower(), column.size, column.nulls)
            for column, role in zip(self.counted_columns, roles, strict=True)
        ]
        return ("column", "role", "kind", "positions", "missing values"), rows

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the quasi-identifiers, in their order."""
        return tuple(column.name for column in self.quasi_identifiers)

    @property
    def changing(self) -> tuple[str, ...]:
        """The names of the quasi-identifiers that may change for somebody."""
        return tuple(column.name for column in self.quasi_identifiers if column.changes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of a release: quasi-identifiers, sensitive ones, weight."""
        weight = () if self.weight is None else (self.weight.name,)
        return (*self.names, *self.sensitive_names, *weight)

    @property
    def sensitives(self) -> tuple[Column, ...]:
        """All sensitive columns."""
        return (self.sensitive, *self.also_sensitive)

    @property
    def sensitive_names(self) -> tuple[str, ...]:
        """The names of the sensitive columns."""
        return tuple(column.name for column in self.sensitives)

    @property
    def counted_columns(self) -> tuple[Column, ...]:
        """The quasi-identifiers and the sensitive columns."""
        return (*self.quasi_identifiers, *self.sensitives)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of positions of each quasi-identifier."""
        return tuple(column.size for column in self.quasi_identifiers)

    @property
    def n_combinations(self) -> int:
        """|Q|: the number of combinations of quasi-identifier values, seen or not."""
        return math.prod(self.sizes)

    @property
    def n_values(self) -> int:
        """|S|: the number of sensitive values, seen or not: those of the first column, then of the next."""
        return sum(column.size for column in self.sensitives)

    @cached_property
    def value_slices(self) -> tuple[slice, ...]:
        """Where the values of each sensitive column stand among all: one column after the other."""
        ends = accumulate((column.size for column in self.sensitives), initial=0)
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def for_column(self, index: int) -> Schema:
        """The schema of a table that shows one sensitive column only."""
        return Schema(self.quasi_identifiers, self.sensitives[index])

    def composed(self, table: Table) -> Table:
        """A table with the composite columns of the schema, made where it has their parts."""
        return with_composites(table, {column.name: column.missing for column in self.sensitives})

    def by_column(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """A table of counts by sensitive value, cut into those of every column; each holds all records."""
        return [counts[..., values] for values in self.value_slices]

    def ranks(self, positions: ArrayLike) -> NDArray[np.int64]:
        """The lexicographic rank of each combination, given as one row of positions.

        >>> gender = Column("gender", Categories(("F", "M")))
        >>> schema = Schema((gender, Column("age", Integers(0, 9))), Column("s", Integers(0, 1)))
        >>> schema.ranks([[1, 3]]).tolist()
        [13]
        """
        table = np.asarray(positions, dtype=np.int64)
        if table.ndim != 2 or table.shape[1] != len(self.sizes):
            raise ParameterError(
                f"Positions must form a table with {counted(len(self.sizes), 'column')}.",
                found=f"Their shape is {table.shape}.",
            )
        return self.ranks_of_columns(table.T)

    def ranks_of_columns(self, columns: Sequence[NDArray[np.int64]] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Like `ranks`, from one array of positions per quasi-identifier."""
        ranks = np.zeros(len(columns[0]), dtype=np.int64)
        for column, size, stride in zip(columns, self.sizes, self.strides, strict=True):
            if column.size and not 0 <= column.min() <= column.max() < size:
                raise ParameterError("Positions must lie inside their domains.", found="Some do not.")
            ranks += column * stride
        return ranks

    def unrank(self, ranks: ArrayLike) -> NDArray[np.int64]:
        """The positions of each combination, one row per rank: the inverse of `ranks`."""
        left = np.asarray(ranks, dtype=np.int64)
        if left.size and (left.min() < 0 or int(left.max()) >= self.n_combinations):
            raise ParameterError(f"Ranks run from 0 to {self.n_combinations - 1}.", found="Some do not.")
        positions = np.empty((left.size, len(self.sizes)), dtype=np.int64)
        for place, stride in enumerate(self.strides):
            positions[:, place], left = np.divmod(left, stride)
        return positions

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """What one step of each quasi-identifier adds to the rank."""
        return tuple(math.prod(self.sizes[place + 1 :]) for place in range(len(self.sizes)))

    @cached_property
    def digest(self) -> str:
        """The digest of what the schema means; the record of dropped columns is no part of it."""
        return digest({key: value for key, value in self.to_dict().items() if key != "dropped"})

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain JSON values; `from_dict` is the inverse."""
        return {
            "format": FORMAT_VERSION,
            "quasi_identifiers": [column_to_dict(column) for column in self.quasi_identifiers],
            "sensitive": [column_to_dict(column) for column in self.sensitives],
            "dropped": list(self.dropped),
            **({} if self.weight is None else {"weight": self.weight.to_dict()}),
        }

    @classmethod
    def infer(
        cls,
        source: Any,  # noqa: ANN401 (files, or any table in memory)
        quasi_identifiers: Sequence[str],
        sensitive: str | Sequence[str],
        *,
        bins: Mapping[str, str] | None = None,
        hierarchies: Mapping[str, HierarchyRows] | None = None,
        na: Mapping[str, Sequence[str]] | None = None,
        not_na: Mapping[str, Sequence[str]] | None = None,
        widen: Mapping[str, str] | None = None,
        changes: Sequence[str] = (),
        weight: str | None = None,
        csv_format: CsvFormat | None = None,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> Schema:
        """Proposes a schema for files or a table in memory, which a person checks and edits.

        Args:
            source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
            quasi_identifiers: Columns that an outsider may know, in the order of comparison.
            sensitive: The column that must not be learnt, or several. "disease+stage" is a composite column:
                see `elldelta.schema.composite`.
            bins: For columns of numbers: "width:10000", "quantile:8", "edges:0,10,20", or "values" for one
                position per value that occurs.
            hierarchies: Groups of the values of some quasi-identifiers.
            na: Texts that stand for a missing value in a column, such as {"vote": ["99"]}, besides the usual
                ones: NA, N/A, NULL, None, ?, - and their like.
            not_na: Usual texts that are values in a column, such as {"country": ["NA"]}.
            widen: The ends of columns of numbers or dates, such as {"age": "0..120"}, or "no" for what was
                seen. By default numbers without a natural end are widened.
            changes: Quasi-identifiers that may change for somebody from one release to the next.
            weight: The column of a survey's weights: how many people each record stands for.
            csv_format: How CSV files are written.
            engine: The engine to use; DuckDB by default.
            progress: Is told how far the reading is.
        """
        from elldelta.engines import running
        from elldelta.schema.infer import propose

        with running(engine) as active:
            proposal = propose(
                active.open(source, csv_format),
                quasi_identifiers,
                sensitive,
                bins=bins,
                hierarchies=hierarchies,
                na=na,
                not_na=not_na,
                widen=widen,
                changes=changes,
                weight=weight,
                progress=progress,
            )
        for note in proposal.warnings:
            warnings.warn(str(note), TableWarning, stacklevel=2)
        return proposal.schema

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Schema:
        """Reads what `to_dict` wrote; unknown keys, missing keys and impossible values are refused."""
        from elldelta.schema.schema_file import schema_from_document

        return schema_from_document(document)

    def quasi_identifier(self, name: str) -> Column:
        """The quasi-identifier with this name."""
        for column in self.quasi_identifiers:
            if column.name == name:
                return column
        raise ParameterError(
            "Only quasi-identifiers have hierarchies.",
            found=f"There is no quasi-identifier {name!r}.",
            remedy=f"Choose from: {', '.join(self.names)}.",
        )

    def to_toml(self) -> str:
        """The schema as TOML with comments, for a person to edit."""
        from elldelta.schema.schema_file import schema_to_toml

        return schema_to_toml(self)

    @classmethod
    def from_toml(cls, text: str, *, source: str = "the schema", folder: Path | None = None) -> Schema:
        """Reads TOML; refuses with the line what cannot be meant.

        Args:
            text: The schema.
            source: What the text is called in messages.
            folder: Where files of hierarchies are looked for; None refuses them.
        """
        from elldelta.schema.schema_file import schema_from_toml

        return schema_from_toml(text, source=source, folder=folder)
