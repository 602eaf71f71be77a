"""The SQL text of the package: plain queries for DuckDB, Spark and PostgreSQL; tables that live: `state_sql`.

Names and texts of users enter only through `identifier` and `text`, in which nothing but a quote is special.
An engine that reads some of it differently brings its own spelling: the function REGEXP_LIKE(text, pattern)
is a macro in DuckDB, PostgreSQL spells DOUBLE as DOUBLE PRECISION, and Spark, in whose quotes a backslash is
special, writes every quoted name and text (`QUOTED`) in its own way. Texts are compared and sorted byte by
byte; an engine whose columns do not do so opens them that way.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from typing import TYPE_CHECKING

from elldelta.engines.cells import REAL_PATTERN, SPACES, numbers_among, spelling
from elldelta.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elldelta.engines.table import ValueKind


QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
"""How `text` and `identifier` write, for engines that have to look for it."""
ROW_NUMBER = "row number \x1f elldelta"
"""Name of the column that numbers rows; the separator keeps it apart from any name a table has."""


def is_name(name: str) -> bool:
    """Whether something can be the name of a column."""
    return bool(name) and "\0" not in name


def identifier(name: str) -> str:
    """A name, quoted: the only way for a name to enter SQL."""
    if not is_name(name):
        raise InternalError("A name that is empty or has a zero byte came as far as SQL.")
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal, quoted: the only way for a text to enter SQL."""
    if "\0" in value:
        raise InternalError("A text with a zero byte came as far as SQL.")
    return "'" + value.replace("'", "''") + "'"


def count_by_keys(relation: str, keys: Sequence[str], sums: Sequence[str] = ()) -> str:
    """The distinct combinations of keys k0, k1, ..., the number n of their records, and sums s0, s1, ..."""
    names = [f"k{place}" for place in range(len(keys))]
    added = [f"s{place}" for place in range(len(sums))]
    columns = zip((*keys, *sums), (*names, *added), strict=True)
    inner = ", ".join(f"{expression} AS {name}" for expression, name in columns)
    listed = ", ".join(names)
    summed = "".join(f", CAST(SUM({name}) AS BIGINT) AS {name}" for name in added)
    return (
        f"SELECT {listed}, COUNT(*) AS n{summed} FROM (SELECT {inner} FROM {relation}) AS keyed "  # noqa: S608
        f"GROUP BY {listed}"
    )


def weight_sums(number: str, largest: float, units: int) -> tuple[str, ...]:
    """What is added up of weights: units, of which so many are the largest weight, and 1 for what is wrong.

    Wrong is what is no number, then what is not above 0, then what is too large. Whole numbers are added up,
    so that no engine rounds otherwise than another.
    """
    top = _double(largest)
    wrong = (f"{number} IS NULL", f"{number} <= 0", f"{number} > {top}")
    share = f"CAST(FLOOR({number} / {top} * {units} + {_double(0.5)}) AS BIGINT)"
    usable = f"CASE WHEN {number} > 0 AND {number} <= {top} THEN {share} ELSE 0 END"
    return (usable, *(f"CASE WHEN {test} THEN 1 ELSE 0 END" for test in wrong))


def weights_seen(relation: str, number: str) -> str:
    """The number of rows, of those with a finite number above 0, the largest of these and their sum."""
    return (
        f"SELECT COUNT(*) AS n, COUNT(number) AS n_usable, MAX(number) AS high, SUM(number) AS total "  # noqa: S608
        f"FROM (SELECT CASE WHEN {number} > 0 AND {number} <= {_double(1e100)} THEN {number} END AS number "
        f"FROM {relation}) AS weights"
    )


def few_rows_each(relation: str, person: str, names: Sequence[str], most: int) -> str:
    """At most so many rows of every person, with the columns that are named.

    Which ones depends on the rows of that person only, and on a digest, so that no value is preferred.
    """
    listed = ", ".join(identifier(name) for name in names)
    cells = (f"({person})", *map(identifier, names))
    text_of = " || '|' || ".join(f"COALESCE({cell} || '', '')" for cell in cells)
    return (
        f"(SELECT {listed} FROM (SELECT {listed}, ROW_NUMBER() OVER (PARTITION BY {person} "  # noqa: S608
        f"ORDER BY MD5({text_of})) AS {identifier(ROW_NUMBER)} FROM {relation} "
        f"WHERE {person} IS NOT NULL) AS numbered WHERE {identifier(ROW_NUMBER)} <= {most}) AS few"
    )


def person_rows(
    relation: str, keys: Sequence[str], encodings: Sequence[str], strides: Sequence[int], person: str
) -> str:
    """Every record that takes part: who, cell, and the position v0, v1, ... in every sensitive column.

    Args:
        relation: The table.
        keys: The grouping expression of every quasi-identifier, then of the sensitive columns.
        encodings: For each key a relation (raw, position) of the values that take part.
        strides: What a position of each quasi-identifier adds to the rank.
        person: The expression that tells persons apart, as text.
    """
    keyed = ", ".join(f"{expression} AS k{place}" for place, expression in enumerate(keys))
    rank = " + ".join(f"e{place}.position * {stride}" for place, stride in enumerate(strides))
    first = len(strides)
    values = ", ".join(f"e{place}.position AS v{place - first}" for place in range(first, len(keys)))
    return (
        f"SELECT keyed.who AS who, {rank} AS cell, {values} "  # noqa: S608
        f"FROM (SELECT {keyed}, {person} AS who FROM {relation}) AS keyed {_joined(encodings)}"
    )


def person_values(rows: str) -> str:
    """Every person and sensitive value once, at its first combination: who, val, cell, n records."""
    return (
        "SELECT who, CAST(v0 AS INTEGER) AS val, MIN(cell) AS cell, COUNT(*) AS n "  # noqa: S608
        f"FROM ({rows}) AS coded GROUP BY who, v0"
    )


def person_records(rows: str, columns: Sequence[str]) -> str:
    """The same for several sensitive columns, by their names v0, ...: who, cell, v0, ..., n, kept.

    A record is kept if in every column it is the first of its person with that value. So every person and
    value counts at most once, and all columns have the same records.
    """
    names = ", ".join(("who", "cell", *columns))
    records = f"SELECT {names}, COUNT(*) AS n FROM ({rows}) AS coded GROUP BY {names}"  # noqa: S608
    order = f"ROW_NUMBER() OVER (PARTITION BY who ORDER BY {names}) AS place"
    firsts = [f"place = MIN(place) OVER (PARTITION BY who, {column})" for column in columns]
    return (
        f"SELECT {names}, n, CASE WHEN {' AND '.join(firsts)} THEN 1 ELSE 0 END AS kept "  # noqa: S608
        f"FROM (SELECT {names}, n, {order} FROM ({records}) AS records) AS ordered"
    )


def persons_by_cell(pairs: str, values: Sequence[str] = ("val",), kept: str = "1") -> str:
    """What was found about persons, by combination and values: cell, values, n, pairs, unnamed records."""
    names = ", ".join(("cell", *values))
    return (
        f"SELECT {names}, CAST(SUM(n) AS BIGINT) AS n, CAST(SUM({kept}) AS BIGINT) AS pairs, "  # noqa: S608
        "CAST(SUM(CASE WHEN who IS NULL THEN n ELSE 0 END) AS BIGINT) AS unnamed "
        f"FROM {pairs} AS pairs GROUP BY {names}"
    )


def persons_once(pairs: str) -> str:
    """Every person of `person_values` at its first combination: cell, persons."""
    return (
        "SELECT cell, COUNT(*) AS persons "  # noqa: S608
        f"FROM (SELECT who, MIN(cell) AS cell FROM {pairs} AS pairs GROUP BY who) AS once GROUP BY cell"
    )


def distinct_rows(relation: str, shown: Sequence[tuple[str, str]], required: str = "") -> str:
    """The different rows of a relation with other columns; of those only where an expression is not NULL."""
    listed = ", ".join(f"{expression} AS {identifier(name)}" for expression, name in shown)
    where = f" WHERE {required} IS NOT NULL" if required else ""
    return f"(SELECT DISTINCT {listed} FROM {relation}{where}) AS different"  # noqa: S608


def mapped_rows(relation: str, shown: Sequence[tuple[str, str]]) -> str:
    """A relation with other columns: expressions and their names."""
    listed = ", ".join(f"{expression} AS {identifier(name)}" for expression, name in shown)
    return f"(SELECT {listed} FROM {relation}) AS mapped"  # noqa: S608


def mapped_value(expression: str, kind: ValueKind, values: Mapping[str, str]) -> str:
    """A column as text, some values of it written differently."""
    written = expression if kind == "text" else f"({expression} || '')"
    cases = []
    for written_as, other in values.items():
        # Texts are compared as texts, so that 01 is not 1; numbers and days as such.
        is_typed = kind not in {"text", "boolean"}
        test = among(expression, kind, [written_as]) if is_typed else _is_one_of(written, [written_as])
        cases += [f"WHEN {test} THEN {text(other)}"] if test else []
    return f"CASE {' '.join(cases)} ELSE {written} END" if cases else written


def quarantined_rows(relation: str, keys: Sequence[str], unknown: Sequence[str], names: Sequence[str]) -> str:
    """The unchanged rows of records with a value outside its domain.

    Args:
        relation: The table.
        keys: The grouping expressions of the columns that hold such values.
        unknown: For each of these keys a relation (raw, hit) of the values, with hit = 1.
        names: The columns of the table.
    """
    # Keys and columns get new names inside, so that no column of a user can be mistaken for a key.
    keyed = ", ".join(
        [
            *(f"{expression} AS k{place}" for place, expression in enumerate(keys)),
            *(f"{identifier(name)} AS c{place}" for place, name in enumerate(names)),
        ]
    )
    shown = ", ".join(f"keyed.c{place} AS {identifier(name)}" for place, name in enumerate(names))
    joins = " ".join(
        f"LEFT JOIN {values} AS u{place} ON keyed.k{place} IS NOT DISTINCT FROM u{place}.raw"
        for place, values in enumerate(unknown)
    )
    tests = " OR ".join([f"u{place}.hit = 1" for place in range(len(unknown))] or ["1 = 0"])
    return f"SELECT {shown} FROM (SELECT {keyed} FROM {relation}) AS keyed {joins} WHERE {tests}"  # noqa: S608


def extremes(relation: str, value: str) -> str:
    """Number of rows, number of values, of different ones, smallest and largest value of an expression."""
    return (
        "SELECT COUNT(*) AS n, COUNT(value) AS n_values, COUNT(DISTINCT value) AS n_distinct, "  # noqa: S608
        f"MIN(value) AS low, MAX(value) AS high FROM (SELECT {value} AS value FROM {relation}) AS given"
    )


def neighbours(relation: str, value: str, kind: ValueKind, low: int, high: int) -> str:
    """The values that come next to the smallest and the largest one of an expression."""
    number = real(value, kind)
    return (
        f"SELECT MIN(CASE WHEN number > {_double(low)} THEN number END) AS above, "  # noqa: S608
        f"MAX(CASE WHEN number < {_double(high)} THEN number END) AS below "
        f"FROM (SELECT {number} AS number FROM {relation}) AS numbers"
    )


def n_rows(relation: str) -> str:
    """Number of rows."""
    return f"SELECT COUNT(*) AS n FROM {relation}"  # noqa: S608


def distinct(relation: str, column: str) -> str:
    """Number of rows and of different values of a column."""
    return f"SELECT COUNT(*) AS n, COUNT(DISTINCT {identifier(column)}) AS n_distinct FROM {relation}"  # noqa: S608


def distinct_each(relation: str, columns: Sequence[str]) -> str:
    """Of every column the number of values n0, n1, ... and of different ones d0, d1, ..."""
    names = [identifier(column) for column in columns]
    counts = [
        f"COUNT({name}) AS n{place}, COUNT(DISTINCT {name}) AS d{place}" for place, name in enumerate(names)
    ]
    return f"SELECT {', '.join(counts)} FROM {relation}"  # noqa: S608


def agreement(relation: str, column: str) -> str:
    """Number of values, of different ones, and of pairs of equal ones."""
    name = identifier(column)
    return (
        "SELECT COUNT(*) AS n_distinct, SUM(n) AS n, SUM(n * n) AS n_same FROM ("  # noqa: S608
        f"SELECT CAST(COUNT(*) AS DOUBLE) AS n FROM {relation} WHERE {name} IS NOT NULL GROUP BY {name}) AS g"
    )


def constant_columns(relation: str, column: str, others: Sequence[str]) -> str:
    """Number n of values that occur several times; c0, c1, ...: with one value only in other columns."""
    name = identifier(column)
    ends = [
        f"MIN({identifier(other)}) AS l{at}, MAX({identifier(other)}) AS h{at}"
        for at, other in enumerate(others)
    ]
    same = [f"SUM(CASE WHEN l{at} = h{at} THEN 1 ELSE 0 END) AS c{at}" for at in range(len(others))]
    return (
        f"SELECT COUNT(*) AS n, {', '.join(same)} FROM (SELECT {', '.join(ends)} FROM {relation} "  # noqa: S608
        f"WHERE {name} IS NOT NULL GROUP BY {name} HAVING COUNT(*) > 1) AS groups"
    )


def real_extremes(relation: str, value: str, kind: ValueKind) -> str:
    """Like `extremes` for finite real numbers, with the number of those that are not whole."""
    number = real(value, kind)
    finite = f"number IS NOT NULL AND ABS(number) <= {_double(1.7976931348623157e308)}"
    return (
        "SELECT COUNT(*) AS n, COUNT(number) AS n_values, COUNT(DISTINCT number) AS n_distinct, "  # noqa: S608
        "MIN(number) AS low, MAX(number) AS high, "
        "SUM(CASE WHEN FLOOR(number) <> number THEN 1 ELSE 0 END) AS n_fractions "
        f"FROM (SELECT CASE WHEN {finite} THEN number END AS number "
        f"FROM (SELECT {number} AS number FROM {relation}) AS numbers) AS finite"
    )


def real_quantiles(relation: str, value: str, kind: ValueKind, n_parts: int) -> str:
    """Inner quantiles q1, q2, ... of the finite numbers of an expression: values that occur in it."""
    number = real(value, kind)
    parts = ", ".join(
        f"PERCENTILE_DISC({_double(part / n_parts)}) WITHIN GROUP (ORDER BY number) AS q{part}"
        for part in range(1, n_parts)
    )
    return (
        f"SELECT {parts} FROM (SELECT {number} AS number FROM {relation}) AS numbers "  # noqa: S608
        f"WHERE number IS NOT NULL AND ABS(number) <= {_double(1.7976931348623157e308)}"
    )


def among(expression: str, kind: ValueKind, tokens: Sequence[str]) -> str:
    """The test whether a cell is one of some texts that stand for a missing value; empty if none can be.

    `elldelta.engines.cells.among` says the same of Arrow: numbers are compared as numbers, moments as days.
    """
    tests = []
    if kind == "text" and tokens:
        tests.append(_is_one_of(expression, tokens))
    numbers = numbers_among(tokens)
    if kind in {"text", "integer", "real"} and numbers:
        tests.append(f"{real(expression, kind)} IN ({', '.join(map(_double, numbers))})")
    days = [token for token in tokens if _is_day(token)]
    if kind in {"date", "timestamp"} and days:
        listed = ", ".join(f"CAST({text(day)} AS DATE)" for day in days)
        tests.append(f"CAST({expression} AS DATE) IN ({listed})")
    return f"({' OR '.join(tests)})" if tests else ""


def present(expression: str, kind: ValueKind, tokens: Sequence[str]) -> str:
    """A column without the texts that stand for a missing value: there it is NULL."""
    test = among(expression, kind, tokens)
    return f"CASE WHEN {test} THEN NULL ELSE {expression} END" if test else expression


def trimmed(expression: str) -> str:
    """A text without spaces around it."""
    return f"TRIM(BOTH {text(SPACES)} FROM {expression})"


def _is_one_of(expression: str, texts: Sequence[str]) -> str:
    """The test whether a text is one of some, composed or not: not every engine can compose it."""
    spellings = [unicodedata.normalize(form, spelling(each)) for each in texts for form in ("NFC", "NFD")]
    return f"{trimmed(expression)} IN ({', '.join(map(text, dict.fromkeys(spellings)))})"


def real(expression: str, kind: ValueKind) -> str:
    """A column as a real number: NULL where it is missing or is none."""
    if kind == "text":
        bare = trimmed(expression)
        # The mark at the end keeps a line break there from being overlooked, as some engines do at the end.
        is_number = f"REGEXP_LIKE({bare} || '~', {text(f'^({REAL_PATTERN})~$')})"
        number = f"CASE WHEN {is_number} THEN CAST({bare} AS DOUBLE) END"
    else:
        number = f"CAST({expression} AS DOUBLE)"
    return f"NULLIF({number}, CAST('NaN' AS DOUBLE))"


def bin_of(
    expression: str,
    kind: ValueKind,
    edges: Sequence[float],
    tokens: Sequence[str] = (),
    *,
    missing: int,
    unknown: int,
) -> str:
    """The number of the bin in which a real number lies, found inside the engine.

    Args:
        expression: The column, quoted.
        kind: The kind of its values: "integer", "real" or "text".
        edges: Where the bins begin, and at last where they end.
        tokens: Texts that stand for a missing number.
        missing: What stands for a missing number.
        unknown: What stands for a number outside the bins, or for none at all.
    """
    number = real(expression, kind)
    blank = f"{expression} IS NULL"
    if kind == "text":
        blank += f" OR {trimmed(expression)} = ''"
    elif kind == "real":
        blank += f" OR {number} IS NULL"
    blank = " OR ".join(filter(None, (blank, among(expression, kind, tokens))))
    low, high = _double(edges[0]), _double(edges[-1])
    return (
        f"CASE WHEN {blank} THEN {missing} "
        f"WHEN {number} IS NULL OR {number} < {low} OR {number} > {high} THEN {unknown} "
        f"ELSE {_bisect(edges, number, 0, len(edges) - 1)} END"
    )


def _joined(encodings: Sequence[str]) -> str:
    """Joins of keyed records with the positions of their values, e0, e1, ..."""
    # Missing values vanish in a plain join: they must find each other.
    return " ".join(
        f"JOIN {encoding} AS e{place} ON keyed.k{place} IS NOT DISTINCT FROM e{place}.raw"
        for place, encoding in enumerate(encodings)
    )


def _bisect(edges: Sequence[float], number: str, low: int, high: int) -> str:
    """Nested cases that find the bin in about log2(bins) comparisons."""
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    below, above = _bisect(edges, number, low, middle), _bisect(edges, number, middle, high)
    return f"CASE WHEN {number} < {_double(edges[middle])} THEN {below} ELSE {above} END"


def _is_day(token: str) -> bool:
    try:
        return dt.date.fromisoformat(token).isoformat() == token
    except ValueError:
        return False


def _double(value: float) -> str:
    # A bare 0.1 is an exact decimal in SQL; only text is read to the nearest double, as in Python.
    return f"CAST({text(repr(float(value)))} AS DOUBLE)"
