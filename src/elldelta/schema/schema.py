"""The schema: which columns identify, which one is sensitive, and what their values may be.

A schema is inferred from a table (`elldelta.schema.infer`), written as TOML, edited by a person and read
back. It numbers the combinations of quasi-identifier values in lexicographic order; these *ranks* are
what models, plans and releases speak about.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from elldelta.engines.cells import UnreadableTypeError, among
from elldelta.errors import DataError, ParameterError, SchemaError
from elldelta.files import digest
from elldelta.pages.page import Shown
from elldelta.schema import labels
from elldelta.schema.domains import NULL, UNKNOWN, Bins, Categories, Dates, Domain, Integers
from elldelta.schema.hierarchy import FittedHierarchy, Hierarchy
from elldelta.schema.sensitive import SensitiveUnit, sensitive_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.tiling import CutTree
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.schema.hierarchy import HierarchyRows

__all__ = ["NULL", "UNKNOWN", "Bins", "Categories", "Column", "Dates", "Integers", "NullPolicy", "Schema"]

NullPolicy = Literal["category", "refuse", "suppress"]

FORMAT_VERSION = 2
"""Version of the schema's dictionary and TOML form; old versions are read for ever, newer ones refused.
Format 2 lists several sensitive columns; a schema with one is written in format 1, as ever."""


@dataclass(frozen=True)
class Column:
    """A column whose values are counted: its name, its domain, and what a missing value means.

    Attributes:
        name: The name in the table.
        domain: The values it may have.
        nulls: "category": missing is one more position, after all others; "refuse": a table with missing
            values is refused; "suppress": records without a value are left out and counted.
        missing: Texts that stand for a missing value, besides an empty cell: `NA`, `?`, `99`. In a column of
            numbers they may be numbers, also inside its range; a text listed as a category is a value.
        note: A remark for the person who edits the schema; no part of what the schema means.
        hierarchy: Groups of values, with names. Leaves that the domain does not have are left out, and
            unordered categories are put into an order in which siblings are neighbours.
        changes: Whether somebody's value may change from one release to the next: an age, an address. Plans
            then hold for people who move among the values of the column.
    """

    name: str
    domain: Domain
    nulls: NullPolicy = "refuse"
    note: str = field(default="", compare=False)
    hierarchy: Hierarchy | None = None
    missing: tuple[str, ...] = ()
    changes: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.domain, Integers | Dates | Categories | Bins):
            raise SchemaError(
                f"Column {self.name!r} needs a domain.",
                found=f"It has something of type {type(self.domain).__name__}.",
                remedy="Use Integers, Dates, Categories or Bins.",
            )
        if self.nulls not in get_args(NullPolicy):
            raise SchemaError(
                f"The null policy of column {self.name!r} is not known.",
                found="It is none of category, refuse and suppress.",
                remedy='Write nulls = "category", "refuse" or "suppress".',
            )
        object.__setattr__(self, "missing", _tokens(self.missing, self.name))
        if self._fitted is not None:
            object.__setattr__(self, "domain", self._fitted.domain)
            object.__setattr__(self, "hierarchy", self._fitted.hierarchy)

    @cached_property
    def _fitted(self) -> FittedHierarchy | None:
        if self.hierarchy is None:
            return None
        return FittedHierarchy(self.hierarchy, self.domain, f"Column {self.name!r}")

    @cached_property
    def cut_tree(self) -> CutTree | None:
        """Where the hierarchy lets boxes be cut; None without a hierarchy."""
        return None if self._fitted is None else self._fitted.cut_tree(has_missing=self.has_missing)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The values of the groups of the hierarchy, by their labels."""
        return {} if self._fitted is None else self._fitted.groups

    @property
    def size(self) -> int:
        """The number of positions, with the one for missing values if there is one."""
        return self.domain.size + self.has_missing

    @property
    def has_missing(self) -> bool:
        """Whether the last position stands for missing values."""
        return self.nulls == "category"

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The position of each value; `UNKNOWN` outside the domain, `NULL` where a gap has no place."""
        import pyarrow as pa

        found = ""
        try:
            positions = self.domain.encode(values)
            if self.missing:
                is_listed = isinstance(self.domain, Categories)
                stands_for_none = among(values, self.missing, by_number=not is_listed)
                positions[stands_for_none & ((positions < 0) | (not is_listed))] = NULL
        except UnreadableTypeError as problem:
            found = f"Its values are of type {problem}."
        except pa.ArrowException:
            found = "Some values cannot be converted."
        if found:  # raised out here, so that no Arrow message, which may quote a cell, hangs on to the error
            raise DataError(
                f"Column {self.name!r} does not hold {self.domain.kind}.",
                found=found,
                remedy="Correct the kind of the column in the schema, or convert the column.",
            )
        if self.has_missing:
            positions[positions == NULL] = self.domain.size
        return positions

    def label(self, low: int, high: int) -> str:
        """The name of the positions from `low` to `high`, both included; see `elldelta.schema.labels`.

        >>> Column("age", Integers(0, 99)).label(23, 41)
        '23-41'
        """
        if not 0 <= low <= high < self.size:
            raise ParameterError(
                f"Positions of column {self.name!r} run from 0 to {self.size - 1}.",
                found=f"A label from {low} to {high} was asked for.",
            )
        if low == 0 and high == self.size - 1 and self.size > 1:
            return labels.EVERYTHING
        if high < self.domain.size:
            return self._name(int(low), int(high))
        if low == self.domain.size:
            return labels.MISSING
        return labels.or_missing(self._name(int(low), self.domain.size - 1))

    def _name(self, low: int, high: int) -> str:
        group = None if self._fitted is None else self._fitted.label(low, high)
        return self.domain.label(low, high) if group is None else group

    def labels(self, lows: ArrayLike, highs: ArrayLike) -> list[str]:
        """The label of every pair of positions; each distinct pair is spelt once."""
        ends = (np.asarray(end, np.int64).ravel().tolist() for end in (lows, highs))
        pairs = list(zip(*ends, strict=True))
        spelt = {pair: self.label(*pair) for pair in set(pairs)}
        return [spelt[pair] for pair in pairs]

    @cached_property
    def whole(self) -> str:
        """The label of all values of the column and no others, which `*` does not say to a stranger."""
        everything = self.domain.label(0, self.domain.size - 1)
        return labels.or_missing(everything) if self.has_missing else everything

    @cached_property
    def value_labels(self) -> tuple[str, ...]:
        """The label of every single position."""
        return tuple(self.label(position, position) for position in range(self.size))

    def released_values(self) -> pa.Array:
        """What a release shows for every position when the column is sensitive: its value, bin or range.

        Whole numbers stay numbers, and a missing value stays missing, so that no text can be mistaken for it.
        """
        import pyarrow as pa

        places = range(self.domain.size)
        missing = [None] if self.has_missing else []
        match self.domain:
            case Categories(values):
                return pa.array([*values, *missing], pa.string())
            case Integers(low, _, 1):
                return pa.array([*(low + place for place in places), *missing], pa.int64())
            case domain:
                return pa.array([*(domain.label(place, place) for place in places), *missing], pa.string())


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """The roles and domains of the columns of a table.

    Attributes:
        quasi_identifiers: What an outsider may know about a person, in the order in which combinations are
            compared.
        sensitive: What must not be learnt; the first column of it.
        kept: Columns that a release shows unchanged; empty unless somebody named them.
        dropped: Columns that were seen and are not used, listed for the record.
        also_sensitive: Further columns that must not be learnt. Each has its own promise, and releases do not
            tell which of their values belong to one person.
        tied: Groups of sensitive columns whose values stay together in releases: each group is one composite
            column, whose values are tuples.
    """

    quasi_identifiers: tuple[Column, ...]
    sensitive: Column
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    also_sensitive: tuple[Column, ...] = ()
    tied: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tied", tuple(tuple(group) for group in self.tied))
        for name in ("quasi_identifiers", "kept", "dropped", "also_sensitive"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.quasi_identifiers:
            raise SchemaError(
                "A schema needs at least one quasi-identifier.",
                found="There is none.",
                remedy="Name the columns that an outsider may know.",
            )
        for name in self.kept + self.dropped:
            _check_name(name)
        for column in self.sensitives:
            self._check_sensitive(column)
        if self.n_values >= 2**31:
            raise SchemaError(
                "There are too many sensitive values to number them.",
                found=f"{self.n_values} with all tuples of tied columns; 2^31 is the limit.",
                remedy="Tie fewer columns, or put their values into bins.",
            )
        if self.also_sensitive and any(column.hierarchy is not None for column in self.sensitives):
            raise SchemaError(
                "Groups of like values go with one sensitive column.",
                found=f"There are {len(self.sensitives)}, and one of them has a hierarchy.",
                remedy="Remove the hierarchy, or declare one sensitive column.",
            )
        if self.kept and self.also_sensitive:
            raise SchemaError(
                "Columns cannot be kept beside several sensitive ones.",
                found=f"{len(self.kept)} are kept: they would tie the sensitive values of a person together.",
                remedy="Keep none, or declare one sensitive column.",
            )
        seen: set[str] = set()
        for name in (*self.columns, *self.dropped):
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
            "sensitive": "; ".join(f"{unit.name}, {unit.size:,} values" for unit in self.units),
            "kept": ", ".join(self.kept) or None,
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
        """The names of the columns of a release: quasi-identifiers, sensitive, kept."""
        return (*self.names, *self.sensitive_names, *self.kept)

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
        return sum(unit.size for unit in self.units)

    @cached_property
    def units(self) -> tuple[SensitiveUnit, ...]:
        """What has a promise of its own: every sensitive column, or those that are tied together."""
        return sensitive_units(self.sensitives, self.tied)

    def face(self, place: int) -> Schema:
        """The schema of a table that shows one unit only: tied columns are one column of tuples."""
        columns = self.units[place].columns
        column = columns[0]
        if len(columns) > 1:
            column = Column(self.units[place].name, Categories(self.units[place].labels))
        return Schema(self.quasi_identifiers, column, self.kept)

    def by_unit(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """A table of counts by sensitive value, cut into those of every unit; each holds all records."""
        return [counts[..., unit.place.values] for unit in self.units]

    @cached_property
    def value_groups(self) -> NDArray[np.int64] | None:
        """The group of every sensitive value, by the first level of its hierarchy; None without one."""
        tree = self.sensitive.cut_tree
        return None if tree is None else tree.levels[1]

    @property
    def n_groups(self) -> int:
        """How many sensitive values count as different: groups of like values, or all of them."""
        return self.n_values if self.value_groups is None else int(np.unique(self.value_groups).size)

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
                f"Positions must form a table with {len(self.sizes)} columns.",
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
            "format": FORMAT_VERSION if self.also_sensitive else 1,
            **({"tied": [list(group) for group in self.tied]} if self.tied else {}),
            "quasi_identifiers": [_column_to_dict(column) for column in self.quasi_identifiers],
            "sensitive": [_column_to_dict(column) for column in self.sensitives]
            if self.also_sensitive
            else _column_to_dict(self.sensitive),
            "kept": list(self.kept),
            "dropped": list(self.dropped),
        }

    @classmethod
    def infer(
        cls,
        source: Any,  # noqa: ANN401 (files, or any table in memory)
        quasi_identifiers: Sequence[str],
        sensitive: str | Sequence[str],
        *,
        kept: Sequence[str] = (),
        bins: Mapping[str, str] | None = None,
        hierarchies: Mapping[str, HierarchyRows] | None = None,
        na: Mapping[str, Sequence[str]] | None = None,
        not_na: Mapping[str, Sequence[str]] | None = None,
        widen: Mapping[str, str] | None = None,
        changes: Sequence[str] = (),
        birth_year: Mapping[str, str] | None = None,
        csv_format: CsvFormat | None = None,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> Schema:
        """Proposes a schema for files or a table in memory, which a person checks and edits.

        Args:
            source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
            quasi_identifiers: Columns that an outsider may know, in the order of comparison.
            sensitive: The column that must not be learnt, or several. Columns that stay tied together are one
                entry, with a plus between them: "disease+stage".
            kept: Columns that a release shows unchanged.
            bins: For columns of numbers: "width:10000", "quantile:8", "edges:0,10,20", or "values" for one
                position per value that occurs.
            hierarchies: Groups of the values of some quasi-identifiers.
            na: Texts that stand for a missing value in a column, such as {"vote": ["99"]}, besides the usual
                ones: NA, N/A, NULL, None, ?, - and their like.
            not_na: Usual texts that are values in a column, such as {"country": ["NA"]}.
            widen: The ends of columns of numbers or dates, such as {"age": "0..120"}, or "no" for what was
                seen. By default numbers without a natural end are widened.
            changes: Quasi-identifiers that may change for somebody from one release to the next.
            birth_year: A column of ages, and the day on which people were so old, such as
                {"age": "2026-01-01"}: the column `birth_year` takes its place.
            csv_format: How CSV files are written.
            engine: The engine to use; DuckDB by default.
            progress: Is told how far the reading is.
        """
        from elldelta.engines import running
        from elldelta.schema.birth_year import with_birth_year
        from elldelta.schema.infer import propose

        with running(engine) as active:
            proposal = propose(
                with_birth_year(active.open(source, csv_format), birth_year),
                quasi_identifiers,
                sensitive,
                kept=kept,
                bins=bins,
                hierarchies=hierarchies,
                na=na,
                not_na=not_na,
                widen=widen,
                changes=changes,
                progress=progress,
            )
        if proposal.is_dangerous:
            warnings.warn(proposal.warnings[0], stacklevel=2)
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


def _column_to_dict(column: Column) -> dict[str, Any]:
    plain = {"name": column.name, "nulls": column.nulls, **column.domain.to_dict()}
    if column.hierarchy is not None:  # no key where there is none: older schemas keep their digest
        plain["hierarchy"] = [list(row) for row in column.hierarchy.rows]
    if column.missing:
        plain["missing"] = list(column.missing)
    if column.changes:
        plain["changes"] = True
    return plain


def _tokens(tokens: Any, name: str) -> tuple[str, ...]:  # noqa: ANN401 (whatever a file says)
    if isinstance(tokens, list | tuple) and all(isinstance(token, str) for token in tokens):
        trimmed = tuple(token.strip(" ") for token in tokens)
        if len(set(trimmed)) == len(trimmed) and not any("\0" in token for token in trimmed):
            return trimmed
    raise SchemaError(
        f"What stands for a missing value of column {name!r} must be a list of texts.",
        found="Some entries are no texts, or occur twice.",
        remedy='Write, for instance, missing = ["", "NA", "99"].',
    )


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise SchemaError(
            "A column needs a name.",
            found=f"It is of type {type(name).__name__}, empty, or holds a zero byte.",
            remedy="Give the name as it stands in the table.",
        )
