"""Whether some people have several records: found in what a table holds, whatever its columns are called.

A column that tells people apart has many values, some of them several times, and the records of one value
agree in what does not change about a person: birth year, sex, place of birth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.engines import sql
from elldelta.errors import Note, counted
from elldelta.schema.profile import Profiler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elldelta.engines import Table

_MOST_RECORDS = 10
"""Mean number of records of somebody: what occurs more often is a group of people."""
_MOST_COMPARED = 12
_FEWEST_REPEATED = 10
_AT_ONCE = 8
_KEPT = 0.9
"""The share of repeated values whose records agree in a column that does not change."""
_BY_CHANCE = 0.8
"""What agrees so often in any two records tells nothing."""
_FEWEST_CONSTANT = 2


def repeated_people(table: Table, used: Sequence[str]) -> Iterator[Note]:
    """Warns of columns that seem to tell people apart, some of whom have several records.

    Args:
        table: The table.
        used: Columns with another role; the others may be about people.
    """
    columns = [column for column in table.columns if sql.is_name(column.name)]
    names = [
        column.name for column in columns if column.name not in used and column.kind in {"integer", "text"}
    ]
    sizes: dict[str, tuple[float, float]] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        row = Profiler(table, some[0], ()).one_row(sql.distinct_each(table.relation, some))
        sizes |= {name: (row[f"n{place}"], row[f"d{place}"]) for place, name in enumerate(some)}
    persons = [name for name, (n, n_distinct) in sizes.items() if n / _MOST_RECORDS < n_distinct < n]
    compared = [
        column.name
        for column in sorted(columns, key=lambda column: column.name not in used)
        if column.name not in persons and column.kind not in {"boolean", "other"}
    ][:_MOST_COMPARED]
    chances = {name: _agreement(table, name) for name in compared} if persons else {}
    informative = [name for name, chance in chances.items() if 0 < chance <= _BY_CHANCE]
    for person in persons if informative else ():
        row = Profiler(table, person, ()).one_row(sql.constant_columns(table.relation, person, informative))
        n_constant = sum((row[f"c{place}"] or 0) >= _KEPT * row["n"] for place in range(len(informative)))
        if row["n"] >= _FEWEST_REPEATED and n_constant >= _FEWEST_CONSTANT:
            n, n_distinct = sizes[person]
            yield Note(
                f"{person}: {counted(int(n), 'record')} with {n_distinct:,} different ones, and those of "
                "one agree in what does not change. If these are people, ell values may be those of fewer "
                "people.",
                f"Count persons: give {person!r} as the person, to estimate and to release.",
                parameter="person",
                value=person,
            )


def _agreement(table: Table, name: str) -> float:
    """How probably two records agree in a column; 0 where nearly every record has its own value."""
    row = Profiler(table, name, ()).one_row(sql.agreement(table.relation, name))
    n, n_distinct = row["n"] or 0.0, row["n_distinct"]
    return 0.0 if n_distinct * _MOST_RECORDS > n else row["n_same"] / n**2
