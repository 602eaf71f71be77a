"""Domains: the ordered, finite sets of positions that the values of a column fall into.

A domain numbers what it can tell apart from 0 to size - 1. `encode` finds the position of a value, `label`
names a run of positions in words; what such a label means is read by `elldelta.schema.label_columns`.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, get_args

import numpy as np
from msgspec import Meta

from elldelta.engines import cells
from elldelta.errors import SchemaError
from elldelta.parameters import DateUnit
from elldelta.schema import labels

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

UNKNOWN = -1
"""The position of a value that lies outside its domain."""
NULL = -2
"""The position of a missing value."""

_LARGEST = 2**62


class Domain(Protocol):
    """What every domain can do."""

    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """The number of positions."""

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The position of each value; `UNKNOWN` outside the domain, `NULL` where there is none."""

    def label(self, low: int, high: int) -> str:
        """The name of the positions from `low` to `high`, both included."""

    def open_label(self, low: int, high: int) -> str:
        """The same where a range that reaches one end of the domain is written without that end."""

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain JSON values, with its kind."""


@dataclass(frozen=True)
class Integers:
    """Whole numbers from `low` to `high`, alone (width 1) or in ranges of `width` beginning at `low`.

    >>> Integers(0, 99, width=5).label(4, 5)
    '20-29'
    """

    kind: ClassVar[str] = "integers"

    low: int
    high: int
    width: Annotated[int, Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high), ("width", self.width)):
            if not _is_integer(value) or abs(value) >= _LARGEST:
                raise SchemaError(
                    f"The {name} of a domain of integers must be a whole number.",
                    found=f"It is of type {type(value).__name__}, or does not fit 62 bits.",
                    remedy=f"Give a whole number as {name}.",
                )
        if self.low > self.high:
            raise SchemaError(
                "A domain of integers must not be empty.",
                found=f"Its low, {self.low}, is above its high, {self.high}.",
                remedy="Exchange low and high.",
            )
        if self.width < 1:
            raise SchemaError(
                "The width of a range of integers must be 1 or more.", found=f"It is {self.width}."
            )

    @property
    def size(self) -> int:
        """The number of positions."""
        return (self.high - self.low) // self.width + 1

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The position of each value; text and floats count when they are whole numbers."""
        numbers, null, readable = cells.as_integers(values)
        inside = readable & (numbers >= self.low) & (numbers <= self.high)
        return _positions((np.where(inside, numbers, self.low) - self.low) // self.width, inside, null)

    def label(self, low: int, high: int) -> str:
        """`23`, `23-41`, or `-5..3` when the first number is negative."""
        first = self.low + low * self.width
        last = min(self.low + (high + 1) * self.width - 1, self.high)
        if first == last:
            return str(first)
        return f"{first}..{last}" if first < 0 else f"{first}-{last}"

    def open_label(self, low: int, high: int) -> str:
        """`<=21` from the lowest number on, `60+` up to the highest.

        >>> Integers(0, 120).open_label(0, 21), Integers(0, 120).open_label(60, 120)
        ('<=21', '60+')
        """
        match open_end(low, high, self.size):
            case "low":
                return f"<={self.low + (high + 1) * self.width - 1}"
            case "high":
                return f"{self.low + low * self.width}+"
        return self.label(low, high)

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain JSON values."""
        return {"kind": self.kind, "low": self.low, "high": self.high, "width": self.width}


@dataclass(frozen=True)
class Dates:
    """Days, months or years from `low` to `high`, which are rounded down to the unit.

    >>> Dates(dt.date(1990, 1, 1), dt.date(1999, 12, 1), "month").label(0, 5)
    '1990-01..1990-06'
    """

    kind: ClassVar[str] = "dates"

    low: dt.date
    high: dt.date
    unit: DateUnit = "day"

    def __post_init__(self) -> None:
        if self.unit not in get_args(DateUnit):
            raise SchemaError(
                "The unit of a domain of dates must be day, month or year.",
                found="It is none of them.",
                remedy='Write unit = "day", "month" or "year".',
            )
        for name in ("low", "high"):
            value = getattr(self, name)
            if not isinstance(value, dt.date):
                raise SchemaError(
                    f"The {name} of a domain of dates must be a date.",
                    found=f"It is of type {type(value).__name__}.",
                    remedy="Write it as YYYY-MM-DD.",
                )
            day = dt.date(value.year, value.month, value.day)  # a datetime is a date too: drop its time
            rounded = {"day": day, "month": day.replace(day=1), "year": day.replace(month=1, day=1)}
            object.__setattr__(self, name, rounded[self.unit])
        if self.low > self.high:
            raise SchemaError(
                "A domain of dates must not be empty.",
                found=f"Its low, {self.low}, is after its high, {self.high}.",
                remedy="Exchange low and high.",
            )

    @property
    def size(self) -> int:
        """The number of positions."""
        return self._index(self.high) + 1

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The position of each value: dates, timestamps, or text as YYYY-MM-DD."""
        suffixes: dict[DateUnit, tuple[str, ...]] = {"day": (), "month": ("-01",), "year": ("-01", "-01-01")}
        days, null, readable = cells.as_days(values, suffixes[self.unit])
        unit = {"day": "D", "month": "M", "year": "Y"}[self.unit]
        ticks = days.astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)
        first = np.datetime64(self.low, "D").astype(f"datetime64[{unit}]").astype(np.int64)
        return _positions(ticks - first, readable & (ticks >= first) & (ticks - first < self.size), null)

    def label(self, low: int, high: int) -> str:
        """`1990-01-05`, or `1990-01..1990-06`."""
        first, last = self._text(self._date(low)), self._text(self._date(high))
        return first if low == high else f"{first}..{last}"

    def open_label(self, low: int, high: int) -> str:
        """`<=1990-06` from the first date on, `>=1990-06` up to the last."""
        match open_end(low, high, self.size):
            case "low":
                return f"<={self._text(self._date(high))}"
            case "high":
                return f">={self._text(self._date(low))}"
        return self.label(low, high)

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain JSON values."""
        return {
            "kind": self.kind,
            "low": self._text(self.low),
            "high": self._text(self.high),
            "unit": self.unit,
        }

    def places(self, first: dt.date, last: dt.date) -> tuple[int, int]:
        """Where two days would stand; below 0 or beyond the size if they lie outside the domain."""
        return self._index(first), self._index(last)

    def _index(self, date: dt.date) -> int:
        if self.unit == "day":
            return (date - self.low).days
        years = date.year - self.low.year
        return years if self.unit == "year" else 12 * years + date.month - self.low.month

    def _date(self, position: int) -> dt.date:
        if self.unit == "day":
            return self.low + dt.timedelta(days=position)
        if self.unit == "year":
            return self.low.replace(year=self.low.year + position)
        years, month = divmod(self.low.month - 1 + position, 12)
        return dt.date(self.low.year + years, month + 1, 1)

    def _text(self, date: dt.date) -> str:
        return date.isoformat()[: {"day": 10, "month": 7, "year": 4}[self.unit]]


@dataclass(frozen=True)
class Categories:
    """Texts in a given order. `ordered` says whether that order means something to a reader.

    >>> Categories(("low", "medium", "high"), ordered=True).label(0, 1)
    'low..medium'
    >>> Categories(("F", "M", "X")).label(1, 2)
    '{M, X}'
    """

    kind: ClassVar[str] = "categories"

    values: tuple[str, ...]
    ordered: bool = False

    def __post_init__(self) -> None:
        values: tuple[object, ...] = tuple(self.values)
        for place, value in enumerate(values, start=1):
            if not isinstance(value, str):
                raise SchemaError(
                    "Categories must be texts.",
                    found=f"Category {place} is of type {type(value).__name__}.",
                    remedy="Put it in quotes.",
                )
        if not values:
            raise SchemaError("A domain of categories must not be empty.", found="It holds no category.")
        values = tuple(map(cells.spelling, map(str, values)))
        if len(set(values)) < len(values):
            place = 1 + next(i for i, value in enumerate(values) if value in values[:i])
            raise SchemaError(
                "Categories must differ.",
                found=f"Category {place} occurs before, but perhaps for spaces around it.",
                remedy="Remove the repetition.",
            )
        if not isinstance(self.ordered, bool):
            raise SchemaError(
                "Whether categories are ordered must be true or false.",
                found=f"It is of type {type(self.ordered).__name__}.",
            )
        object.__setattr__(self, "values", values)

    @property
    def size(self) -> int:
        """The number of positions."""
        return len(self.values)

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The position of each value, compared as text in one spelling; else as a truth value or a number.

        The same column is `true` in Parquet, `True` in a CSV file of pandas and `TRUE` in one of R, and `5`
        may have become `5.0` on the way.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        text = cells.as_spelled(values)
        null = text.is_null().to_numpy(zero_copy_only=False)
        found = pc.index_in(text, value_set=pa.array(self.values, pa.string()))
        if self._spellings:
            places = pa.array(self._spellings.values(), pa.int32())
            known = pc.index_in(cells.plain_spelling(text), value_set=pa.array(self._spellings, pa.string()))
            found = pc.coalesce(found, places.take(known))
        positions = found.fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
        return _positions(positions, positions >= 0, null)

    @cached_property
    def _spellings(self) -> dict[str, int]:
        """The positions of truth values and whole numbers by their plain spelling, where it means one."""
        import pyarrow as pa

        plain = cells.plain_spelling(pa.array(self.values, pa.string())).to_pylist()
        n = Counter(plain)
        words = re.compile("true|false|-?[0-9]+")
        return {text: place for place, text in enumerate(plain) if n[text] == 1 and words.fullmatch(text)}

    def label(self, low: int, high: int) -> str:
        """`F`, `low..high` when ordered, `{A, B}` when not."""
        if low == high:
            return labels.quoted(self.values[low])
        if self.ordered:
            return labels.category_run(self.values[low], self.values[high])
        return labels.category_set(self.values[low : high + 1])

    open_label = label  # every category of a range is named, or both its ends are

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain JSON values."""
        return {"kind": self.kind, "values": list(self.values), "ordered": self.ordered}


@dataclass(frozen=True)
class Bins:
    """Real numbers in bins [e_0, e_1), [e_1, e_2), ...; the last bin includes its upper edge.

    >>> Bins((0, 10, 20)).label(0, 0)
    '[0, 10)'
    """

    kind: ClassVar[str] = "bins"

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = tuple(self.edges)
        for place, edge in enumerate(edges, start=1):
            if not _is_number(edge) or not math.isfinite(edge):
                raise SchemaError("The edges of bins must be finite numbers.", found=f"Edge {place} is not.")
        edges = tuple(float(edge) + 0.0 for edge in edges)  # + 0.0 turns -0.0 into 0.0: one spelling
        if len(edges) < 2:
            raise SchemaError(
                "Bins need at least two edges.",
                found=f"There are {len(edges)}.",
                remedy="Give the lower and the upper edge of every bin.",
            )
        fall = next((i for i, (a, b) in enumerate(itertools.pairwise(edges), 2) if a >= b), None)
        if fall:
            raise SchemaError(
                "The edges of bins must rise.",
                found=f"Edge {fall} is not above the one before.",
                remedy="Sort the edges and remove repetitions.",
            )
        object.__setattr__(self, "edges", edges)

    @property
    def size(self) -> int:
        """The number of positions."""
        return len(self.edges) - 1

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The position of each value: numbers, or text that is one."""
        numbers, null, readable = cells.as_reals(values)
        positions = np.searchsorted(self.edges, numbers, side="right").astype(np.int64) - 1
        positions[numbers == self.edges[-1]] = self.size - 1
        return _positions(positions, readable & (positions >= 0) & (positions < self.size), null)

    def label(self, low: int, high: int) -> str:
        """`[0, 10)`, or `[90, 100]` at the upper end."""
        end = "]" if high == self.size - 1 else ")"
        return f"[{_number(self.edges[low])}, {_number(self.edges[high + 1])}{end}"

    def open_label(self, low: int, high: int) -> str:
        """`<10` from the lowest bin on, `>=90` up to the highest."""
        match open_end(low, high, self.size):
            case "low":
                return f"<{_number(self.edges[high + 1])}"
            case "high":
                return f">={_number(self.edges[low])}"
        return self.label(low, high)

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain JSON values."""
        return {"kind": self.kind, "edges": list(self.edges)}


def open_end(low: int, high: int, size: int) -> Literal["low", "high"] | None:
    """At which end a range of several positions reaches the end of a domain; None at neither, or at both.

    Domains leave room for values of others, so their ends tell nothing about who is in a class.
    """
    if low == high or (low > 0) == (high < size - 1):
        return None
    return "low" if low == 0 else "high"


def date_from_text(text: str, unit: DateUnit) -> dt.date:
    """Reads YYYY, YYYY-MM or YYYY-MM-DD (as far as the unit needs); ValueError otherwise."""
    short = {"day": None, "month": r"\d{4}-\d\d", "year": r"\d{4}"}[unit]
    if short is not None and re.fullmatch(short, text):
        text += "-01" if unit == "month" else "-01-01"
    return dt.date.fromisoformat(text)


def _positions(
    positions: NDArray[np.int64], inside: NDArray[np.bool_], null: NDArray[np.bool_]
) -> NDArray[np.int64]:
    return np.where(null, NULL, np.where(inside, positions, UNKNOWN)).astype(np.int64)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or _is_integer(value)


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
