"""What a column of a table holds: its kind of values, how many there are, and what looks wrong about them."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import re
import unicodedata
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.engines import cells, sql
from elldelta.engines.sources import ordered_texts
from elldelta.errors import Note, ParameterError, SchemaError, counted
from elldelta.schema.domains import Bins, Categories, Dates, Domain, Integers
from elldelta.schema.labels import stands_for_missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Table
    from elldelta.schema.schema import Column

DEFAULT_BINS = "quantile:10"
_EPOCH = dt.date(1970, 1, 1)
_UNGIVEN = ", because none were given"
_WIDTH = 5
"""A width of ranges that is shown as an example."""
_DAYS = Note("Days, in UTC.", 'Set unit to "month" or "year" in the schema if days tell too much.')
_COMMAS = r"^[+-]?[0-9]+(,[0-9]+)+([.][0-9]+)?$"
_MOSTLY = 0.9
"""The share of values that are numbers from which on the others look like slips."""
_CODES = frozenset(
    {-1, -2, -7, -8, -9, 9, 99_999, 999_999, 9_999_999, 99_999_999, 999_999_999}
    | {sign * code for sign in (1, -1) for code in (77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 9998, 9999)}
)
"""Numbers that stand for a missing value in questionnaires and registers."""
_WORDS = re.compile(
    r"(?:un|not )(?:known|stated|specified|reported|recorded|available|applicable|determined|disclosed)"
    r"|refused|declined|withheld|(?:do ?n[o']?t|dont) know|d\.?k\.?|no (?:answer|response|data)|n\.a\.|n/?k",
    re.IGNORECASE,
)
_DAY_FIRST = (
    r"^ *(?:[0-9]{1,2}([./-])[0-9]{1,2}[./-](?:[0-9]{4}|[0-9]{2})|[0-9]{4}[./][0-9]{1,2}[./][0-9]{1,2})"
)


@dataclass(frozen=True)
class Profile:
    """What a column seems to hold.

    Attributes:
        domain: The domain that is proposed.
        n_rows: Records of the table.
        n_missing: Records without a value.
        n_distinct: Different values.
        tokens: The texts that were taken for a missing value, and how many records have each.
        codes: Values that look as if they stood for a missing one.
        notes: How the domain came about, and what would change it.
        is_like_dates: Whether all texts look like dates in a form that is not read.
        n_numbers: Records whose text is a number, where the column is read as texts.
        n_commas: Records whose text is a number with commas.
    """

    domain: Domain
    n_rows: int
    n_missing: int
    n_distinct: int
    tokens: Mapping[str, int] = field(default_factory=dict)
    codes: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    is_like_dates: bool = False
    n_numbers: int = 0
    n_commas: int = 0

    @property
    def range(self) -> str:
        """Where its values lie, in words."""
        domain = self.domain
        if isinstance(domain, Categories):
            return f"({domain.size:,})"
        whole = domain.label(0, domain.size - 1)
        return f"{whole} ({domain.size:,})" if isinstance(domain, Bins) else whole

    @property
    def missing(self) -> str:
        """How many records have no value, and what stands for it."""
        named = ", ".join(token for token in self.tokens if token)
        return f"{self.n_missing:,}" + (f" ({named})" if named else "")

    def warnings(self, name: str, *, is_sensitive: bool) -> Iterator[Note]:
        """What a person should look at before relying on the domain, and what to do about it."""
        n_values, domain = self.n_rows - self.n_missing, self.domain
        if self.codes:
            danger = " It would count as a value that protects people." if is_sensitive else ""
            yield Note(
                f"{name}: {', '.join(self.codes)} may stand for a missing value.{danger}",
                "If so, declare it.",
                parameter="na",
                value=f"{name}={','.join(self.codes)}",
            )
        if n_values >= 20 and self.n_distinct == n_values and not isinstance(domain, Bins):
            role = "sensitive value" if is_sensitive else "quasi-identifier"
            yield Note(
                f"{name}: every record has its own value. An identifier is no {role}.", "Leave it out."
            )
        if is_sensitive and isinstance(domain, Integers) and self.n_distinct < domain.size:
            yield Note(
                f"{name}: {counted(self.n_distinct, 'different number occurs', 'different numbers occur')}, "
                f"the domain has {domain.size:,}.",
                "If the others cannot occur, keep to those that do.",
                parameter="bins",
                value=f"{name}=values",
            )
        if self.is_like_dates:
            yield Note(f"{name} looks like dates, but is read as text.", "Write dates as YYYY-MM-DD.")
        n_alike_numbers = self.n_numbers + self.n_commas
        if self.n_commas and n_alike_numbers >= _MOSTLY * n_values:
            yield Note(
                f"{name}: {counted(self.n_commas, 'record holds a number', 'records hold numbers')} with "
                f"commas, so that all values are read as {counted(domain.size, 'text')}.",
                "Write numbers without separators, and with a point before fractions.",
            )
        elif n_values > self.n_numbers >= _MOSTLY * n_values:
            n_others = n_values - self.n_numbers
            yield Note(
                f"{name}: {counted(n_others, 'text is', 'texts are')} no number, so that all values are read "
                f"as {counted(domain.size, 'text')} without an order.",
                "Correct these texts, or name them if they stand for no value.",
                parameter="na",
                value=f"{name}=TEXT",
            )
        if domain.size == 1:
            yield Note(
                f"{name}: all its values are taken as one.",
                "Choose another column, or give bins.",
                parameter="bins",
            )
        if isinstance(domain, Categories):
            folded = {unicodedata.normalize("NFKC", value).strip().casefold() for value in domain.values}
            if n_alike := domain.size - len(folded):
                yield Note(
                    f"{name}: {counted(n_alike, 'value differs', 'values differ')} in spelling "
                    "only, and count as different."
                )


class Profiler:
    """Finds out what a column of a table holds.

    Args:
        table: The table.
        name: The column.
        tokens: Texts that stand for a missing value.
    """

    def __init__(self, table: Table, name: str, tokens: Sequence[str]) -> None:
        self.table, self.name, self.kind, self.tokens = table, name, table.kind_of(name), tokens
        self.value = sql.present(sql.identifier(name), self.kind, tokens)

    def profile(self, bins: str | None, most_categories: int) -> Profile:
        """The kind of values and their domain.

        Args:
            bins: How numbers are put into bins; "values" for one position per value that occurs.
            most_categories: More distinct texts than this are refused.
        """
        if bins == "values":
            return self._texts(most_categories, as_values=True)
        if bins is not None:
            return self._binned(bins)
        match self.kind:
            case "integer" | "date" | "timestamp":
                return self._ordered()
            case "real":
                return self._reals()
            case "text" | "boolean":
                return self._texts(most_categories)
        raise SchemaError(
            f"Column {self.name!r} holds values for which there is no domain.",
            found="They are neither numbers, dates, texts nor truth values.",
            remedy="Convert the column, or leave it out.",
        )

    def _ordered(self) -> Profile:
        row = self._extremes(sql.extremes(self.table.relation, self.value))
        low, high = row["low"], row["high"]
        if isinstance(low, dt.date):
            return self._made(Dates(low, high, "day"), row, _DAYS)
        return self._integers(row)

    def _integers(self, row: Mapping[str, Any]) -> Profile:
        domain = Integers(int(row["low"]), int(row["high"]))
        return self._made(domain, row, self._whole(domain.size))

    def _whole(self, size: int) -> Note:
        """What is said of whole numbers: ranges, unless they would join all of them."""
        words = "Whole numbers, each by itself."
        return (
            Note(words, parameter="bins", value=f"{self.name}=width:{_WIDTH}")
            if size > _WIDTH
            else Note(words)
        )

    def _reals(self) -> Profile:
        row = self._extremes(sql.real_extremes(self.table.relation, self.value, self.kind))
        if row["n_fractions"] == 0 and max(abs(row["low"]), abs(row["high"])) <= 2.0**53:
            return self._integers(row)
        return self._binned(DEFAULT_BINS, _UNGIVEN, row)

    def _made(self, domain: Domain, row: Mapping[str, Any], note: Note) -> Profile:
        codes = self._codes(domain.low, domain.high) if isinstance(domain, Integers) else ()
        return Profile(domain, row["n"], row["n_missing"], row["n_distinct"], codes=codes, notes=(note,))

    def _codes(self, low: int, high: int) -> tuple[str, ...]:
        """The ends of a range that look like codes: known as such, and apart from all other values."""
        if not _CODES & {low, high} or low == high:
            return ()
        row = self.one_row(sql.neighbours(self.table.relation, self.value, self.kind, low, high))
        return tuple(str(int(code)) for code in _code_ends(low, row["above"], row["below"], high))

    def _binned(self, bins: str, why: str = "", row: dict[str, Any] | None = None) -> Profile:
        if self.kind not in {"integer", "real", "text"}:
            raise SchemaError(
                f"Column {self.name!r} cannot be put into bins.",
                found=f"Its values are of kind {self.kind}.",
                remedy="Leave its bins out.",
            )
        row = row or self._extremes(sql.real_extremes(self.table.relation, self.value, self.kind))
        low, high = float(row["low"]), float(row["high"])
        way, _, rest = bins.partition(":")
        try:
            match way:
                case "width":
                    edges = _edges_of_width(low, high, float(rest))
                case "quantile":
                    edges = self._edges_of_quantiles(int(rest), low, high)
                case "edges":
                    edges = [float(edge) for edge in rest.split(",")]
                case _:
                    raise ValueError
        except ValueError:
            raise ParameterError(
                f"The bins of column {self.name!r} cannot be understood.",
                found="They are none of width, quantile, edges and values, or their numbers are not usable.",
                remedy='Write "width:10000", "quantile:8", "edges:0,10,20" or "values".',
            ) from None
        made = f"{counted(len(edges) - 1, 'bin')} of numbers, made by {bins}{why}."
        note = Note(made, parameter="bins", value=f"{self.name}=edges:...")
        return self._made(Bins(tuple(edges)), row, note)

    def _edges_of_quantiles(self, n_bins: int, low: float, high: float) -> list[float]:
        if not 1 <= n_bins <= 1000:
            raise ValueError
        inner: list[float] = []
        if n_bins > 1:
            query = sql.real_quantiles(self.table.relation, self.value, self.kind, n_bins)
            inner = [float(quantile) for quantile in self.one_row(query).values()]
        edges = sorted({low, *inner, high})  # values that are frequent enough make several quantiles equal
        return edges if len(edges) > 1 else [low, float(np.nextafter(low, np.inf))]

    def _texts(self, most_categories: int, *, as_values: bool = False) -> Profile:
        found = _Texts(most_categories, self.tokens)
        for batch in self.table.count_texts([self.name]):
            found.learn(batch.column(0), batch.column(1).to_numpy())
        if found.n_distinct == 0:
            raise self._no_value(found.n_rows)
        order = ordered_texts(self.table.given, self.table.files, self.name)
        if order and not as_values and {*found.kept} <= {*map(cells.spelling, order)}:
            note = self._grouped("Categories, in the order that the table gives them.")
            return found.profile(Categories(order, ordered=True), note)
        if self.kind == "text" and not as_values:
            domain = found.domain()
            if isinstance(domain, Integers):
                return found.profile(domain, self._whole(domain.size), self._codes(domain.low, domain.high))
            if domain is not None:
                return found.profile(domain, _DAYS)
            if "reals" in found.ends and "integers" not in found.ends:
                return self._binned(DEFAULT_BINS, _UNGIVEN)
        return self._as_listed(found, most_categories, as_values=as_values)

    def _as_listed(self, found: _Texts, most_categories: int, *, as_values: bool) -> Profile:
        """Texts as categories, in their order if they are codes or numbers."""
        if found.n_distinct > most_categories:
            raise SchemaError(
                f"Column {self.name!r} has too many different texts for categories.",
                found=f"It has {counted(found.n_distinct, 'different value')} in "
                f"{counted(found.n_rows, 'record')}, {found.n_numbers + found.n_commas:,} of them numbers; "
                f"{most_categories:,} are allowed.",
                remedy="Write numbers without commas, shorten texts (first digits of a code, year of a date) "
                "or drop the column.",
            )
        codes = codes_among(list(found.kept))
        if len(found.lengths or ()) == 1:
            domain = Categories(tuple(sorted(found.kept)), ordered=True)
            return found.profile(domain, self._grouped("Codes of digits, in their order."), codes)
        if found.ends.get("reals") and not found.has_leading_zeros:
            in_order = Categories(tuple(sorted(found.kept, key=float)), ordered=True)
            return found.profile(in_order, self._grouped("The numbers that occur, in their order."), codes)
        texts = sorted(found.kept, key=lambda text: (-found.kept[text], text))
        note = self._grouped("Texts, the most frequent one first.")
        return found.profile(Categories(tuple(texts)), note, codes, as_texts=not as_values)

    def _grouped(self, text: str) -> Note:
        return Note(text, parameter="hierarchies", value=f"{self.name}=FILE.csv")

    def _extremes(self, query: str) -> dict[str, Any]:
        row = self.one_row(query)
        if row["n_values"] == 0:
            raise self._no_value(row["n"])
        return {**row, "n_missing": row["n"] - row["n_values"]}

    def one_row(self, query: str) -> dict[str, Any]:
        """What a query says that has one row."""
        engine = self.table.engine
        stored = engine.store(query)
        row: dict[str, Any] | None = None
        with engine.discarding([stored]):
            batches = list(engine.fetch(stored))
            with contextlib.suppress(OverflowError, ValueError):
                [row] = [row for batch in batches for row in batch.to_pylist()]
        if row is None:
            raise SchemaError(
                f"Column {self.name!r} holds dates that are on no calendar.",
                found="The first or the last of them is infinite, or further away than year 9999.",
                remedy="Correct the data, or leave such records out.",
            )
        return row

    def _no_value(self, n_rows: int) -> SchemaError:
        return SchemaError(
            f"Column {self.name!r} has no value that a domain could be made of.",
            found=f"None of its {counted(n_rows, 'record')} has one.",
            remedy="Give a table with values in it, or leave the column out.",
        )


class _Texts:
    """What is true of all the texts of a column seen so far.

    Attributes:
        kept: The texts and how often each occurs, as long as they are few enough for categories.
        ends: As what all of them can be read, and the least and the largest of them.
        lengths: Their lengths if all are codes of digits; None if one is not.
        has_leading_zeros: Whether one begins with a zero and goes on: as a number it would lose it.
        is_like_dates: Whether all of them look like dates that are not written as YYYY-MM-DD.
        n_numbers: Records whose text is a number.
        n_commas: Records whose text is a number with commas.
    """

    def __init__(self, most_kept: int, tokens: Sequence[str]) -> None:
        self.n_rows = self.n_missing = self.n_distinct = self.n_numbers = self.n_commas = 0
        self.kept: dict[str, int] = {}
        self.ends: dict[str, list[float]] = {"integers": [], "reals": [], "dates": []}
        self.lengths: set[int] | None = set()
        self.has_leading_zeros = False
        self.is_like_dates = True
        self.found: dict[str, int] = {}
        self._most_kept, self._tokens = most_kept, tokens

    def learn(self, texts: pa.Array, n: NDArray[np.int64]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        # Texts that are spelt differently come apart from the engine.
        alike = pa.table({"text": cells.as_spelled(texts), "n": n}).group_by("text").aggregate([("n", "sum")])
        texts, n = alike["text"].combine_chunks(), alike["n_sum"].to_numpy()
        is_code = texts.fill_null("")
        is_code = pc.match_substring_regex(is_code, "^ *[+-]?0[0-9]").to_numpy(zero_copy_only=False)
        missing = texts.is_null().to_numpy(zero_copy_only=False)
        missing = missing | (cells.among(texts, self._tokens, by_number=True) & ~is_code)
        self.n_rows += int(n.sum())
        self.n_missing += int(n[missing].sum())
        for token, number in zip(
            texts.filter(pa.array(missing)).to_pylist(), n[missing].tolist(), strict=True
        ):
            self.found[token or ""] = self.found.get(token or "", 0) + number
        texts, n = texts.filter(pa.array(~missing)), n[~missing]
        if self.n_distinct > self._most_kept or len(texts) > self._most_kept:
            self.n_distinct += len(texts)
        else:
            for text, number in zip(texts.to_pylist(), n.tolist(), strict=True):
                self.kept[text] = self.kept.get(text, 0) + number
            self.n_distinct = len(self.kept)
        if len(texts) == 0:
            return
        self.has_leading_zeros |= bool(is_code[~missing].any())
        self.is_like_dates &= bool(pc.all(pc.match_substring_regex(texts, _DAY_FIRST)).as_py())
        has_commas = pc.match_substring_regex(texts, _COMMAS).to_numpy(zero_copy_only=False)
        self.n_commas += int(n[has_commas].sum())
        self.n_numbers += int(n[cells.as_reals(texts).readable].sum())
        if self.lengths is not None:
            are_digits = pc.all(pc.match_substring_regex(texts, "^[0-9]+$")).as_py()
            lengths = pc.unique(pc.utf8_length(texts)).to_pylist()
            self.lengths = {*self.lengths, *lengths} if are_digits else None
        readers = {"integers": cells.as_integers, "reals": cells.as_reals, "dates": cells.as_days}
        for kind in list(self.ends):
            found = readers[kind](texts)
            if found.readable.all():
                ends = (*self.ends[kind], found.numbers.min(), found.numbers.max())
                self.ends[kind] = [min(ends), max(ends)]
            else:
                del self.ends[kind]

    def domain(self) -> Domain | None:
        """The domain of whole numbers or dates, if all texts are."""
        if self.has_leading_zeros:  # 01234 is a code
            return None
        if self.ends.get("integers"):
            return Integers(*map(int, self.ends["integers"]))
        if self.ends.get("dates"):
            low, high = (_EPOCH + dt.timedelta(days=int(day)) for day in self.ends["dates"])
            return Dates(low, high)
        return None

    def profile(
        self, domain: Domain, note: Note, codes: tuple[str, ...] = (), *, as_texts: bool = False
    ) -> Profile:
        """What was found, with the domain that was made of it."""
        return Profile(
            domain,
            self.n_rows,
            self.n_missing,
            self.n_distinct,
            dict(sorted(self.found.items())),
            codes,
            (note,),
            self.is_like_dates and isinstance(domain, Categories),
            self.n_numbers if as_texts else 0,
            self.n_commas if as_texts else 0,
        )


def warned_of(column: Column, n: NDArray[np.int64]) -> tuple[str, ...]:
    """What to say about codes for a missing value in a sensitive column whose schema is there already.

    Args:
        column: The column.
        n: How many records there are at each of its positions.
    """
    places = np.flatnonzero(n[: column.domain.size]).tolist()
    values: list[str] = []
    match column.domain:
        case Categories(listed):
            values = [listed[place] for place in places]
        case Integers(first, _, 1):
            values = [str(first + place) for place in places]
    return tuple(
        f"{column.name}: {value} may stand for a missing value. Now it counts as a value that protects "
        "people. If it means missing, list it in the schema under missing instead of values, and count again."
        for value in codes_among(values)
    )


def codes_among(values: Sequence[str]) -> tuple[str, ...]:
    """Which values look as if they stood for a missing one: words, or numbers apart from the others."""
    numbers = {float(value): value for value in values if re.fullmatch(cells.REAL_PATTERN, value)}
    others = [value for value in values if not re.fullmatch(cells.REAL_PATTERN, value)]
    if len(numbers) <= max(1, len(others)):
        return tuple(sorted(value for value in values if _looks_missing(value)))
    low, above, *_ = ordered = sorted(numbers)
    found = _code_ends(low, above, ordered[-2], ordered[-1])
    rest = [number for number in ordered if number not in found]
    # 9 after 0, 3 and 6 is one of them; 9 after 1 to 5 is not.
    step = max((b - a for a, b in itertools.pairwise(rest)), default=0)
    apart = [numbers[code] for code in found if code < 0 or code - ordered[-2] > step]
    return (*apart, *sorted(value for value in others if _looks_missing(value)))


def _code_ends(low: float, above: float, below: float, high: float) -> tuple[float, ...]:
    """The ends of a range that are known as codes, and are apart from the values next to them."""
    ends = ((low, low < 0 <= above), (high, high - below > 1))
    return tuple(end for end, is_apart in ends if end in _CODES and is_apart)


def _looks_missing(text: str) -> bool:
    """Whether a category looks as if it stood for a missing value."""
    word = text.strip()
    if re.fullmatch("-?[0-9]{1,9}", word):
        return int(word) in _CODES and abs(int(word)) > 9
    return stands_for_missing(word) or _WORDS.fullmatch(word) is not None


def _edges_of_width(low: float, high: float, width: float) -> list[float]:
    if not (np.isfinite(width) and width > 0) or (high - low) / width > 1e6:
        raise ValueError
    first = int(np.floor(low / width))
    last = max(int(np.ceil(high / width)), first + 1)
    exact = Decimal(str(width))  # 3 x 0.1 is 0.3 to a reader
    return [float(place * exact) for place in range(first, last + 1)]
