"""A column whose values are counted: what they may be, what a missing one means, what labels are called."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from elldelta.engines.cells import UnreadableTypeError, among, spelling
from elldelta.errors import DataError, ParameterError, SchemaError
from elldelta.schema import labels
from elldelta.schema.domains import NULL, Bins, Categories, Dates, Domain, Integers
from elldelta.schema.hierarchy import FittedHierarchy, Hierarchy

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.box_tree import CutTree

NullPolicy = Literal["category", "refuse", "suppress"]


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
        check_name(self.name)
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
    def value_groups(self) -> NDArray[np.int64] | None:
        """The group of every value that counts as one, by the first level of the hierarchy; None without."""
        return None if self.cut_tree is None else self.cut_tree.levels[1]

    @property
    def n_groups(self) -> int:
        """How many values count as different: groups of like values, or all of them."""
        return self.size if self.value_groups is None else int(np.unique(self.value_groups).size)

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

    def label(self, low: int, high: int, *, closed: bool = False) -> str:
        """The name of the positions from `low` to `high`, both included; see `elldelta.schema.labels`.

        Args:
            low: The first position.
            high: The last position.
            closed: Whether a range names both its ends, also where one is an end of the domain.

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
            return self._name(int(low), int(high), closed=closed)
        if low == self.domain.size:
            return labels.MISSING
        return labels.or_missing(self._name(int(low), self.domain.size - 1, closed=closed))

    def _name(self, low: int, high: int, *, closed: bool) -> str:
        group = None if self._fitted is None else self._fitted.label(low, high)
        if group is not None:
            return group
        return self.domain.label(low, high) if closed else self.domain.open_label(low, high)

    def labels(self, lows: ArrayLike, highs: ArrayLike, *, closed: bool = False) -> list[str]:
        """The label of every pair of positions; each distinct pair is labelled once."""
        ends = (np.asarray(end, np.int64).ravel().tolist() for end in (lows, highs))
        pairs = list(zip(*ends, strict=True))
        labels = {pair: self.label(*pair, closed=closed) for pair in set(pairs)}
        return [labels[pair] for pair in pairs]

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


def column_to_dict(column: Column) -> dict[str, Any]:
    """The column as plain JSON values."""
    return {
        "name": column.name,
        "nulls": column.nulls,
        **column.domain.to_dict(),
        "hierarchy": [] if column.hierarchy is None else [list(row) for row in column.hierarchy.rows],
        "missing": list(column.missing),
        "changes": column.changes,
    }


def _tokens(tokens: Any, name: str) -> tuple[str, ...]:  # noqa: ANN401 (whatever a file says)
    if isinstance(tokens, list | tuple) and all(isinstance(token, str) for token in tokens):
        normalized = tuple(map(spelling, tokens))
        if len(set(normalized)) == len(normalized) and not any("\0" in token for token in normalized):
            return normalized
    raise SchemaError(
        f"What stands for a missing value of column {name!r} must be a list of texts.",
        found="Some entries are no texts, or occur twice.",
        remedy='Write, for instance, missing = ["", "NA", "99"].',
    )


def check_name(name: object) -> None:
    """Refuses what cannot be the name of a column."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise SchemaError(
            "A column needs a name.",
            found=f"It is of type {type(name).__name__}, empty, or holds a zero byte.",
            remedy="Give the name as it stands in the table.",
        )
