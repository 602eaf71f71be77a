"""Inferring a schema from a table: a proposal that a person checks and edits.

Nothing is guessed to be harmless: only columns that somebody names get a role, the rest are dropped and
listed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.engines import cells, sql
from elldelta.errors import ParameterError, SchemaError
from elldelta.schema.domains import Bins, Categories, Dates, Domain, Integers
from elldelta.schema.schema import Column, NullPolicy, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Progress, Table
    from elldelta.schema.hierarchy import HierarchyRows

MOST_CATEGORIES = 10_000
DEFAULT_BINS = "quantile:10"
_EPOCH = dt.date(1970, 1, 1)
_BINS_NOTE = f"bins made by {DEFAULT_BINS}, because none were given"
_UNIT_NOTE = 'set unit to "month" or "year" if days tell too much'


def infer_schema(
    table: Table,
    quasi_identifiers: Sequence[str],
    sensitive: str,
    *,
    kept: Sequence[str] = (),
    bins: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, HierarchyRows] | None = None,
    most_categories: int = MOST_CATEGORIES,
    progress: Progress | None = None,
) -> Schema:
    """Proposes a schema for a table.

    Whole numbers become integers, dates dates, other numbers bins, texts categories: in their order if they
    are codes of digits (postal codes), otherwise by falling frequency. Missing values get a category of their
    own in a quasi-identifier and are suppressed in the sensitive column, where "unknown" protects nobody;
    where none were seen they are refused.

    Args:
        table: The table.
        quasi_identifiers: Columns that an outsider may know, in the order of comparison.
        sensitive: The column that must not be learnt.
        kept: Columns that a release shows unchanged.
        bins: For columns of numbers: "width:10000", "quantile:8" or "edges:0,10,20".
        hierarchies: Groups of the values of some quasi-identifiers.
        most_categories: More distinct texts than this are refused: they are hardly categories.
        progress: Is told how far the reading is.

    Raises:
        DataError: A column is missing.
        SchemaError: A column has no value, too many different texts, or a hierarchy that does not fit.
    """
    if isinstance(quasi_identifiers, str) or not isinstance(sensitive, str):
        raise ParameterError(
            "Quasi-identifiers are a list of columns, and the sensitive column is given by its name.",
            found=f"They are of type {type(quasi_identifiers).__name__} and {type(sensitive).__name__}.",
            remedy='Give a list of names, such as ["age", "sex"], and one name.',
        )
    names = (*quasi_identifiers, sensitive)
    table.require((*names, *kept))
    bins, hierarchies = dict(bins or {}), dict(hierarchies or {})
    _check_known(bins, names, "Bins are given for a column without a role.", "bins")
    problem = "A hierarchy is given for a column that is no quasi-identifier."
    _check_known(hierarchies, quasi_identifiers, problem, "hierarchy")
    for rows in hierarchies.values():
        rows.checked()  # what is wrong without looking at the table is told before it is read
    columns = []
    for place, name in enumerate(names):
        profile = _Profiler(table, name).profile(bins.get(name), most_categories)
        policy: NullPolicy = "refuse"
        if profile.n_missing:
            policy = "suppress" if name == sensitive else "category"
        hierarchy = None
        if name in hierarchies:
            # Nobody has read the proposed values yet: one may be a slip with a person's name in it.
            hierarchy = hierarchies[name].checked(profile.domain, naming=False)
        columns.append(Column(name, profile.domain, policy, _note(profile, policy), hierarchy))
        if progress:
            progress((place + 1) / len(names))
    return Schema(tuple(columns[:-1]), columns[-1], tuple(kept), _dropped(table, (*names, *kept)))


def _check_known(given: Mapping[str, object], known: Sequence[str], problem: str, what: str) -> None:
    strangers = [name for name in given if name not in known]
    if strangers:
        raise ParameterError(
            problem,
            found=f"The column is {strangers[0]!r}.",
            remedy=f"Give the column a role, or leave its {what} out.",
        )


def _dropped(table: Table, used: Sequence[str]) -> tuple[str, ...]:
    """The columns that are there and not used; names that differ in upper and lower case only are one."""
    found: dict[str, str] = {}
    for name in (*table.names, *sorted(table.partial | table.hidden)):
        found.setdefault(name.casefold(), name)
    for name in used:
        found.pop(name.casefold(), None)
    return tuple(found.values())


@dataclass(frozen=True)
class _Profile:
    """What a column seems to hold."""

    domain: Domain
    n_rows: int
    n_missing: int
    note: str = ""


def _note(profile: _Profile, policy: NullPolicy) -> str:
    lines = [
        f"{profile.n_rows} records, {profile.n_missing} without a value, {profile.domain.size} positions"
    ]
    if isinstance(profile.domain, Categories):
        folded = {unicodedata.normalize("NFKC", value).strip().casefold() for value in profile.domain.values}
        n_alike = profile.domain.size - len(folded)
        if n_alike:
            lines.append(f"{n_alike} values differ from others in spelling only; they count as different")
    if profile.note:
        lines.append(profile.note)
    if policy == "suppress":
        lines.append("records without a value are left out: as a category they would count as diversity")
    return "\n".join(lines)


class _Profiler:
    """Finds out what a column of a table holds."""

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.name, self.kind = table, name, table.kind_of(name)

    def profile(self, bins: str | None, most_categories: int) -> _Profile:
        if bins is not None:
            return self.binned(bins, f"bins made by {bins}")
        match self.kind:
            case "integer" | "date" | "timestamp":
                return self.ordered()
            case "real":
                return self.reals()
            case "text" | "boolean":
                return self.texts(most_categories)
        raise SchemaError(
            f"Column {self.name!r} holds values for which there is no domain.",
            found="They are neither numbers, dates, texts nor truth values.",
            remedy="Convert the column, or leave it out.",
        )

    def ordered(self) -> _Profile:
        row = self.extremes(sql.extremes(self.table.relation, self.name))
        low, high = row["low"], row["high"]
        if isinstance(low, dt.date):
            return _Profile(Dates(low, high, "day"), row["n"], row["n_missing"], _UNIT_NOTE)
        return _Profile(Integers(int(low), int(high)), row["n"], row["n_missing"])

    def reals(self) -> _Profile:
        row = self.extremes(sql.real_extremes(self.table.relation, self.name, self.kind))
        if row["n_fractions"] == 0 and max(abs(row["low"]), abs(row["high"])) <= 2.0**53:
            return _Profile(Integers(int(row["low"]), int(row["high"])), row["n"], row["n_missing"])
        return self.binned(DEFAULT_BINS, _BINS_NOTE)

    def binned(self, bins: str, note: str) -> _Profile:
        if self.kind not in {"integer", "real", "text"}:
            raise SchemaError(
                f"Column {self.name!r} cannot be put into bins.",
                found=f"Its values are of kind {self.kind}.",
                remedy="Leave its bins out.",
            )
        row = self.extremes(sql.real_extremes(self.table.relation, self.name, self.kind))
        low, high = float(row["low"]), float(row["high"])
        way, _, rest = bins.partition(":")
        try:
            match way:
                case "width":
                    edges = _edges_of_width(low, high, float(rest))
                case "quantile":
                    edges = self.edges_of_quantiles(int(rest), low, high)
                case "edges":
                    edges = [float(edge) for edge in rest.split(",")]
                case _:
                    raise ValueError
        except ValueError:
            raise ParameterError(
                f"The bins of column {self.name!r} cannot be understood.",
                found="They are none of width, quantile and edges, or their numbers are not usable.",
                remedy='Write "width:10000", "quantile:8" or "edges:0,10,20".',
            ) from None
        return _Profile(Bins(tuple(edges)), row["n"], row["n_missing"], note)

    def edges_of_quantiles(self, n_bins: int, low: float, high: float) -> list[float]:
        if not 1 <= n_bins <= 1000:
            raise ValueError
        inner: list[float] = []
        if n_bins > 1:
            query = sql.real_quantiles(self.table.relation, self.name, self.kind, n_bins)
            inner = [float(quantile) for quantile in self.one_row(query).values()]
        edges = sorted({low, *inner, high})  # values that are frequent enough make several quantiles equal
        return edges if len(edges) > 1 else [low, float(np.nextafter(low, np.inf))]

    def texts(self, most_categories: int) -> _Profile:
        found = _Texts(most_categories)
        for batch in self.table.count_texts([self.name]):
            found.learn(batch.column(0), batch.column(1).to_numpy())
        if found.n_distinct == 0:
            raise self.no_value(found.n_rows)
        if self.kind == "text":
            domain = found.domain()
            if domain is not None:
                note = _UNIT_NOTE if isinstance(domain, Dates) else ""
                return _Profile(domain, found.n_rows, found.n_missing + found.n_blank, note)
            if "reals" in found.ends and "integers" not in found.ends:
                return self.binned(DEFAULT_BINS, _BINS_NOTE)
        if found.n_distinct > most_categories:
            raise SchemaError(
                f"Column {self.name!r} has too many different texts for categories.",
                found=f"It has {found.n_distinct} different values in {found.n_rows} records; "
                f"{most_categories} are allowed.",
                remedy="Shorten the values (first digits of a code, year of a date), or drop the column.",
            )
        if len(found.lengths or ()) == 1:
            codes = Categories(tuple(sorted(found.kept)), ordered=True)
            return _Profile(codes, found.n_rows, found.n_missing, "codes of digits, in their order")
        texts = sorted(found.kept, key=lambda text: (-found.kept[text], text))
        return _Profile(Categories(tuple(texts)), found.n_rows, found.n_missing)

    def extremes(self, query: str) -> dict[str, Any]:
        row = self.one_row(query)
        if row["n_values"] == 0:
            raise self.no_value(row["n"])
        return {**row, "n_missing": row["n"] - row["n_values"]}

    def one_row(self, query: str) -> dict[str, Any]:
        engine = self.table.engine
        stored = engine.store(query)
        row: dict[str, Any] | None = None
        try:
            batches = list(engine.fetch(stored))
            with contextlib.suppress(OverflowError, ValueError):
                [row] = [row for batch in batches for row in batch.to_pylist()]
        finally:
            engine.discard(stored)
        if row is None:
            raise SchemaError(
                f"Column {self.name!r} holds dates that are on no calendar.",
                found="The first or the last of them is infinite, or further away than year 9999.",
                remedy="Correct the data, or leave such records out.",
            )
        return row

    def no_value(self, n_rows: int) -> SchemaError:
        return SchemaError(
            f"Column {self.name!r} has no value that a domain could be made of.",
            found=f"None of its {n_rows} records has one.",
            remedy="Give a table with values in it, or leave the column out.",
        )


class _Texts:
    """What is true of all the texts of a column seen so far.

    Attributes:
        kept: The texts and how often each occurs, as long as they are few enough for categories.
        ends: As what all of them can be read, and the least and the largest of them.
        lengths: Their lengths if all are codes of digits; None if one is not.
        has_leading_zeros: Whether one begins with a zero and goes on: as a number it would lose it.
    """

    def __init__(self, most_kept: int) -> None:
        self.n_rows = self.n_missing = self.n_blank = self.n_distinct = 0
        self.kept: dict[str, int] = {}
        self.ends: dict[str, list[float]] = {"integers": [], "reals": [], "dates": []}
        self.lengths: set[int] | None = set()
        self.has_leading_zeros = False
        self._most_kept = most_kept

    def learn(self, texts: pa.Array, n: NDArray[np.int64]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        null = texts.is_null().to_numpy(zero_copy_only=False)
        self.n_rows += int(n.sum())
        self.n_missing += int(n[null].sum())
        texts, n = texts.drop_null().cast(pa.string()), n[~null]
        self.n_distinct += len(texts)
        if self.n_distinct <= self._most_kept:
            self.kept.update(zip(texts.to_pylist(), n.tolist(), strict=True))
        blank = pc.equal(pc.utf8_trim(texts, " "), "")
        self.n_blank += int(n[blank.to_numpy(zero_copy_only=False)].sum())
        filled = texts.filter(pc.invert(blank))
        if len(filled) == 0:
            return
        are_digits = (
            len(filled) == len(texts) and pc.all(pc.match_substring_regex(filled, "^[0-9]+$")).as_py()
        )
        if self.lengths is not None:
            self.lengths = (
                {*self.lengths, *pc.unique(pc.utf8_length(filled)).to_pylist()} if are_digits else None
            )
        if pc.any(pc.match_substring_regex(filled, "^ *[+-]?0[0-9]")).as_py():
            self.has_leading_zeros = True
        readers = {"integers": cells.as_integers, "reals": cells.as_reals, "dates": cells.as_days}
        for kind in list(self.ends):
            found = readers[kind](filled)
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


def _edges_of_width(low: float, high: float, width: float) -> list[float]:
    if not (np.isfinite(width) and width > 0) or (high - low) / width > 1e6:
        raise ValueError
    first = int(np.floor(low / width))
    last = max(int(np.ceil(high / width)), first + 1)
    exact = Decimal(str(width))  # 3 x 0.1 is 0.3 to a reader
    return [float(place * exact) for place in range(first, last + 1)]
