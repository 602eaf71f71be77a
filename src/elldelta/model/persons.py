"""Counting persons instead of records: people may have several records, and several values.

Every (person, value) counts once in the whole table, at the first combination that the person has with it.
What is counted so is a table of its own, with one record per person and value: counts of any union of
combinations add up, and none of them is more than the different persons there who have the value. Counting
the persons of every combination would not do: somebody with records in two of them would count twice in
their union.

Where there are several sensitive columns, a record counts if in every one of them it is the first of its
person with that value: so each (person, value) counts at most once in every column, and all columns have the
same records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import sql
from elldelta.errors import DataError, ParameterError, counted
from elldelta.model.counts import Counts
from elldelta.schema.composite import with_parts
from elldelta.schema.labels import MISSING_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.engines import Engine, Progress, Table
    from elldelta.model.counting import CountedTable
    from elldelta.model.counts import Accounting


def count_persons(
    counted: CountedTable,
    person: str,
    progress: Progress | None = None,
    *,
    keep: bool = False,
    once: bool = True,
) -> CountedTable:
    """The counts of a table with one record per person and value; the records are read once more.

    Args:
        counted: The table, counted by records.
        person: The column that tells persons apart. Nothing of it leaves the engine.
        progress: Is told how far the reading is.
        keep: Whether the engine keeps which value of which person counts where (`CountedTable.pairs`).
        once: Whether different persons are counted too (`Counts.persons`), which takes about as long again.

    Raises:
        DataError: A record names nobody, or the table has changed since its records were counted.
        ParameterError: The column has another role.
    """
    import pyarrow as pa

    table, schema, accounting = counted.table, counted.schema, counted.counts.accounting
    check_person(person, schema.columns)
    if schema.also_sensitive and keep:
        raise ParameterError(
            "Tables that are published again have one sensitive column.",
            found=f"There are {len(schema.sensitives)}: {', '.join(map(repr, schema.sensitive_names))}.",
            remedy="Make a plan for one of them, or publish tables that stand by themselves.",
        )
    engine, relations = table.engine, list[str]()
    with engine.discarding(relations):
        relations += [engine.put(pa.table(encoding.usable())) for encoding in counted.encodings]
        who = person_key(table, person)
        rows = sql.person_rows(table.relation, counted.keys, relations, schema.strides, who)
        names = [f"v{place}" for place in range(len(schema.sensitives))]
        if schema.also_sensitive:
            query, arguments = sql.person_records(rows, names), (names, "kept")
        else:
            query, arguments = sql.person_values(rows), (["val"], "1")
        relations.append(engine.store(query, progress))
        # An engine may run a stored query only when it is fetched, and then it needs all it was made from.
        by_cell = sql.persons_by_cell(relations[-1], *arguments)
        ranks, *values, n, n_pairs, unnamed = _fetched(engine, by_cell, 4 + len(names))
        different = _fetched(engine, sql.persons_once(relations[-1]), 2) if once else None
        stored = tuple(relations)
        if keep:
            relations.clear()
    _check_same_records(person, accounting, n, unnamed)
    total, kept = int(n_pairs.sum()), n_pairs > 0
    numbered = [column[kept] + shown.start for column, shown in zip(values, schema.value_slices, strict=True)]
    counts = Counts.from_cells(
        schema,
        np.tile(ranks[kept], len(numbered)),
        np.concatenate(numbered),
        np.tile(n_pairs[kept], len(numbered)),
        replace(accounting, n_counted=total, n_repeated=accounting.n_counted - total),
    )
    if different is not None:
        counts = _with_persons(counts, *different)
    counted = replace(counted, counts=counts)
    return replace(counted, pairs=stored[-1], relations=stored) if keep else counted


def _with_persons(counts: Counts, homes: NDArray[np.int64], persons: NDArray[np.int64]) -> Counts:
    """The counts with the persons of every combination, each person at one of its combinations."""
    by_rank = np.zeros(counts.n_combinations, dtype=np.int64)
    by_rank[np.searchsorted(counts.ranks, homes)] = persons
    by_rank.setflags(write=False)
    n_further = counts.accounting.n_counted - int(persons.sum())
    return replace(counts, persons=by_rank, accounting=replace(counts.accounting, n_further=n_further))


def _check_same_records(
    person: str, accounting: Accounting, n: NDArray[np.int64], unnamed: NDArray[np.int64]
) -> None:
    """Refuses records that name nobody, and a table that has changed since it was first read."""
    if unnamed.any():
        raise DataError(
            f"Some records have no value in the column {person!r}, which tells persons apart.",
            found=f"{int(unnamed.sum())} of {counted(accounting.n_counted, 'record')}.",
            remedy="Leave these records out, or give each of them a value.",
        )
    if int(n.sum()) != accounting.n_counted:
        raise DataError(
            "The table did not give the same records twice.",
            found="Persons were counted in other records than those that were read first.",
            remedy="Count it again when nobody writes to it; use a query that always gives the same records.",
        )


def _fetched(engine: Engine, query: str, n_columns: int) -> list[NDArray[np.int64]]:
    import pyarrow as pa

    stored = engine.store(query)
    with engine.discarding([stored]):
        found = pa.Table.from_batches(engine.fetch(stored))
    return [found.column(place).to_numpy().astype(np.int64) for place in range(n_columns)]


def person_key(table: Table, person: str) -> str:
    """The SQL expression that tells persons apart, as text; NULL where a record names nobody."""
    table.require([person])
    kind = table.kind_of(person)
    name = sql.identifier(person)
    if kind == "other":
        raise DataError(
            f"The column {person!r} cannot tell persons apart.",
            found="It holds neither numbers, texts nor days.",
            remedy="Convert the column, or give another one.",
        )
    expression = f"NULLIF({sql.trimmed(name)}, '')" if kind == "text" else name
    expression = sql.real(name, kind) if kind == "real" else expression
    return f"({sql.present(expression, kind, MISSING_TOKENS)} || '')"


def check_person(person: str, used: Sequence[str]) -> None:
    """Refuses a column that is shown or known: it must not be published, and it tells persons apart."""
    if person.casefold() in {name.casefold() for name in with_parts(used)}:
        raise ParameterError(
            f"The column {person!r} cannot tell persons apart here.",
            found="It is a quasi-identifier, a sensitive column or a part of one.",
            remedy="Give a column that nobody publishes, such as a number of the patient.",
        )
