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

    from elldelta.engines import Progress, Table, ValueKind
    from elldelta.schema.hierarchy import HierarchyRows

MOST_CATEGORIES = 10_000
DEFAULT_BINS = "quantile:10"
_EPOCH = dt.date(1970, 1, 1)


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
    if isinstance(quasi_identifiers, str):
        raise ParameterError(
            "Quasi-identifiers are a list of columns.",
            found="They are one text.",
            remedy='Give a list of names, such as ["age", "sex"].',
        )
    if not isinstance(sensitive, str):
        raise ParameterError(
            "The sensitive column is given by its name.",
            found=f"It is of type {type(sensitive).__name__}.",
            remedy="Name one column.",
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
        profile = _profile(table, name, bins.get(name), most_categories)
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


def _profile(table: Table, name: str, bins: str | None, most_categories: int) -> _Profile:
    kind = table.kind_of(name)
    if bins is not None:
        return _profile_bins(table, name, kind, bins)
    match kind:
        case "integer" | "date" | "timestamp":
            return _profile_ordered(table, name)
        case "real":
            return _profile_real(table, name, kind)
        case "text" | "boolean":
            return _profile_text(table, name, most_categories)
    raise SchemaError(
        f"Column {name!r} holds values for which there is no domain.",
        found="They are neither numbers, dates, texts nor truth values.",
        remedy="Convert the column, or leave it out.",
    )


def _profile_ordered(table: Table, name: str) -> _Profile:
    row = _one_row(table, sql.extremes(table.relation, name), name)
    if row["n_values"] == 0:
        raise _no_value(name, row["n"])
    low, high = row["low"], row["high"]
    domain: Domain
    if isinstance(low, dt.date):
        domain, note = Dates(low, high, "day"), _UNIT_NOTE
    else:
        domain, note = Integers(int(low), int(high)), ""
    return _Profile(domain, row["n"], row["n"] - row["n_values"], note)


def _profile_real(table: Table, name: str, kind: ValueKind) -> _Profile:
    row = _one_row(table, sql.real_extremes(table.relation, name, kind), name)
    if row["n_values"] == 0:
        raise _no_value(name, row["n"])
    if row["n_fractions"] == 0 and max(abs(row["low"]), abs(row["high"])) <= 2.0**53:
        domain = Integers(int(row["low"]), int(row["high"]))
        return _Profile(domain, row["n"], row["n"] - row["n_values"])
    note = f"bins made by {DEFAULT_BINS}, because none were given"
    return _profile_bins(table, name, kind, DEFAULT_BINS, note)


def _profile_bins(table: Table, name: str, kind: ValueKind, bins: str, note: str = "") -> _Profile:
    if kind not in {"integer", "real", "text"}:
        raise SchemaError(
            f"Column {name!r} cannot be put into bins.",
            found=f"Its values are of kind {kind}.",
            remedy="Leave its bins out.",
        )
    row = _one_row(table, sql.real_extremes(table.relation, name, kind), name)
    if row["n_values"] == 0:
        raise _no_value(name, row["n"])
    low, high = float(row["low"]), float(row["high"])
    way, _, rest = bins.partition(":")
    try:
        match way:
            case "width":
                edges = _edges_of_width(low, high, float(rest))
            case "quantile":
                edges = _edges_of_quantiles(table, name, kind, int(rest), low, high)
            case "edges":
                edges = [float(edge) for edge in rest.split(",")]
            case _:
                raise ValueError
    except ValueError:
        raise ParameterError(
            f"The bins of column {name!r} cannot be understood.",
            found="They are none of width, quantile and edges, or their numbers are not usable.",
            remedy='Write "width:10000", "quantile:8" or "edges:0,10,20".',
        ) from None
    return _Profile(Bins(tuple(edges)), row["n"], row["n"] - row["n_values"], note or f"bins made by {bins}")


def _edges_of_width(low: float, high: float, width: float) -> list[float]:
    if not (np.isfinite(width) and width > 0) or (high - low) / width > 1e6:
        raise ValueError
    first = int(np.floor(low / width))
    last = max(int(np.ceil(high / width)), first + 1)
    exact = Decimal(str(width))  # 3 x 0.1 is 0.3 to a reader
    return [float(place * exact) for place in range(first, last + 1)]


def _edges_of_quantiles(
    table: Table, name: str, kind: ValueKind, n_bins: int, low: float, high: float
) -> list[float]:
    if not 1 <= n_bins <= 1000:
        raise ValueError
    inner: list[float] = []
    if n_bins > 1:
        inner = [
            float(q)
            for q in _one_row(table, sql.real_quantiles(table.relation, name, kind, n_bins), name).values()
        ]
    edges = sorted({low, *inner, high})  # values that are frequent enough make several quantiles equal
    return edges if len(edges) > 1 else [low, float(np.nextafter(low, np.inf))]


@dataclass
class _TextTraits:
    """What is still true of all the texts of a column seen so far."""

    integers: bool = True
    reals: bool = True
    dates: bool = True
    digits: bool = True
    leading_zeros: bool = False
    length: int | None = None
    low: int | None = None
    high: int | None = None
    first_day: int | None = None
    last_day: int | None = None


def _profile_text(table: Table, name: str, most_categories: int) -> _Profile:
    import pyarrow as pa

    kept: list[pa.RecordBatch] = []
    traits = _TextTraits()
    n_rows = n_missing = n_blank = n_distinct = 0
    for batch in table.count_texts([name]):
        texts, n = batch.column(0), batch.column(1).to_numpy()
        null = texts.is_null().to_numpy(zero_copy_only=False)
        n_rows += int(n.sum())
        n_missing += int(n[null].sum())
        texts, n = texts.drop_null(), n[~null]
        n_distinct += len(texts)
        n_blank += int(n[_blank(texts)].sum())
        _learn(traits, texts)
        if n_distinct <= most_categories:
            kept.append(pa.record_batch([texts, pa.array(n)], names=["text", "n"]))
    if n_distinct == 0:
        raise _no_value(name, n_rows)
    if table.kind_of(name) == "text":
        numbers = _domain_of_texts(traits)
        if numbers is not None:
            return _Profile(
                numbers, n_rows, n_missing + n_blank, _UNIT_NOTE if isinstance(numbers, Dates) else ""
            )
        if traits.reals and not traits.integers:
            return _profile_bins(
                table, name, "text", DEFAULT_BINS, f"bins made by {DEFAULT_BINS}, because none were given"
            )
    if n_distinct > most_categories:
        raise SchemaError(
            f"Column {name!r} has too many different texts for categories.",
            found=f"It has {n_distinct} different values in {n_rows} records; {most_categories} are allowed.",
            remedy="Shorten the values first (the first digits of a code, the year of a date), or drop it.",
        )
    values = pa.Table.from_batches(kept)
    if traits.digits and traits.length is not None:
        texts = sorted(values.column("text").to_pylist())
        return _Profile(
            Categories(tuple(texts), ordered=True), n_rows, n_missing, "codes of digits, in their order"
        )
    pairs = zip(values.column("n").to_pylist(), values.column("text").to_pylist(), strict=True)
    texts = [text for _, text in sorted((-n, text) for n, text in pairs)]
    return _Profile(Categories(tuple(texts)), n_rows, n_missing)


def _learn(traits: _TextTraits, texts: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = texts.cast(pa.string())
    blank = pc.equal(pc.utf8_trim(texts, " "), "")
    filled = texts.filter(pc.invert(blank))
    if len(filled) == 0:
        return
    traits.digits = (
        traits.digits and len(filled) == len(texts) and _all(pc.match_substring_regex(filled, "^[0-9]+$"))
    )
    if traits.digits:
        lengths = pc.min_max(pc.utf8_length(filled)).as_py()
        same = lengths["min"] == lengths["max"] and traits.length in {None, lengths["max"]}
        traits.length = lengths["max"] if same else None
        traits.digits = same
    traits.leading_zeros = traits.leading_zeros or bool(
        pc.any(pc.match_substring_regex(filled, "^ *[+-]?0[0-9]")).as_py()
    )
    if traits.integers:
        read = cells.as_integers(filled)
        traits.integers = bool(read.readable.all())
        if traits.integers:
            traits.low, traits.high = _wider(traits.low, traits.high, read.numbers)
    if traits.reals:
        traits.reals = bool(cells.as_reals(filled).readable.all())
    if traits.dates:
        days = cells.as_days(filled)
        traits.dates = bool(days.readable.all())
        if traits.dates:
            traits.first_day, traits.last_day = _wider(traits.first_day, traits.last_day, days.numbers)


def _domain_of_texts(traits: _TextTraits) -> Domain | None:
    # 01234 is a code: as a number it would lose its zero.
    if traits.leading_zeros:
        return None
    if traits.integers and traits.low is not None and traits.high is not None:
        return Integers(traits.low, traits.high)
    if traits.dates and traits.first_day is not None and traits.last_day is not None:
        low, high = (_EPOCH + dt.timedelta(days=day) for day in (traits.first_day, traits.last_day))
        return Dates(low, high)
    return None


def _blank(texts: pa.Array) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim(texts.cast(pa.string()), " ")
    blank: NDArray[np.bool_] = pc.equal(trimmed, "").to_numpy(zero_copy_only=False)
    return blank


def _wider(low: int | None, high: int | None, numbers: Any) -> tuple[int, int]:  # noqa: ANN401
    smallest, largest = int(numbers.min()), int(numbers.max())
    return (
        smallest if low is None else min(low, smallest),
        largest if high is None else max(high, largest),
    )


def _all(mask: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(mask).as_py())


def _one_row(table: Table, query: str, name: str) -> dict[str, Any]:
    stored = table.engine.store(query)
    row: dict[str, Any] | None = None
    try:
        batches = list(table.engine.fetch(stored))
        with contextlib.suppress(OverflowError, ValueError):
            [row] = [row for batch in batches for row in batch.to_pylist()]
    finally:
        table.engine.discard(stored)
    if row is None:
        raise SchemaError(
            f"Column {name!r} holds dates that are on no calendar.",
            found="The first or the last of them is infinite, or further away than year 9999.",
            remedy="Correct the data, or leave such records out.",
        )
    return row


def _no_value(name: str, n_rows: int) -> SchemaError:
    return SchemaError(
        f"Column {name!r} has no value that a domain could be made of.",
        found=f"None of its {n_rows} records has one.",
        remedy="Give a table with values in it, or leave the column out.",
    )


_UNIT_NOTE = 'set unit to "month" or "year" if days tell too much'
