"""Counting persons instead of records: people may have several records, and several values.

Every (person, value) counts once in the whole table, at the combination at which most of its records are.
What is counted so is a table of its own, with one record per person and value: counts of any union of
combinations add up, and none of them is more than the different persons there who have the value. Counting
the persons of every combination would not do: somebody with records in two of them would count twice in
their union.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import sql
from elldelta.errors import DataError, ParameterError
from elldelta.model.counts import Counts
from elldelta.schema.labels import MISSING_TOKENS

if TYPE_CHECKING:
    from elldelta.engines import Progress, Table
    from elldelta.model.counting import CountedTable


def count_persons(counted: CountedTable, person: str, progress: Progress | None = None) -> CountedTable:
    """The counts of a table with one record per person and value; the records are read once more.

    Args:
        counted: The table, counted by records.
        person: The column that tells persons apart. Nothing of it leaves the engine.
        progress: Is told how far the reading is.

    Raises:
        DataError: A record names nobody, or the table has changed since its records were counted.
        ParameterError: The column has another role.
    """
    table, schema, accounting = counted.table, counted.schema, counted.counts.accounting
    check_person(person, schema.columns)
    engine, relations = table.engine, list[str]()
    try:
        import pyarrow as pa

        relations += [engine.put(pa.table(encoding.usable())) for encoding in counted.encodings]
        query = sql.persons_by_cell(
            table.relation, counted.keys, relations, schema.strides, person_key(table, person)
        )
        relations.append(engine.store(query, progress))
        batches = pa.Table.from_batches(engine.fetch(relations[-1]))
    finally:
        engine.discard(*relations)
    ranks, values, n, pairs, persons, unnamed = (
        batches.column(place).to_numpy().astype(np.int64) for place in range(6)
    )
    if unnamed.any():
        raise DataError(
            f"Some records have no value in the column {person!r}, which tells persons apart.",
            found=f"{int(unnamed.sum())} of {accounting.n_counted} records.",
            remedy="Leave these records out, or give each of them a value.",
        )
    if int(n.sum()) != accounting.n_counted:
        raise DataError(
            "The table did not give the same records twice.",
            found="Persons were counted in other records than those that were read first.",
            remedy="Count it again when nobody writes to it; use a query that always gives the same records.",
        )
    n_pairs = int(pairs.sum())
    counts = Counts.from_cells(
        schema,
        ranks,
        values,
        pairs,
        replace(accounting, n_counted=n_pairs, n_repeated=accounting.n_counted - n_pairs),
    )
    by_rank = np.zeros(counts.n_combinations, dtype=np.int64)
    np.add.at(by_rank, np.searchsorted(counts.ranks, ranks), persons)
    by_rank.setflags(write=False)
    return replace(counted, counts=replace(counts, persons=by_rank))


def person_key(table: Table, person: str) -> str:
    """The SQL expression that tells persons apart; NULL where a record names nobody."""
    table.require([person])
    kind = table.kind_of(person)
    name = sql.identifier(person)
    if kind == "other":
        raise DataError(
            f"The column {person!r} cannot tell persons apart.",
            found="It holds neither numbers, texts nor days.",
            remedy="Convert the column, or give another one.",
        )
    expression = f"NULLIF(TRIM({name}), '')" if kind == "text" else name
    expression = sql.real(name, kind) if kind == "real" else expression
    return sql.present(expression, kind, MISSING_TOKENS)


def check_person(person: str, used: tuple[str, ...]) -> None:
    """Refuses a column that is shown or known: it must not be published, and it tells persons apart."""
    if person.casefold() in {name.casefold() for name in used}:
        raise ParameterError(
            f"The column {person!r} cannot tell persons apart here.",
            found="It is a quasi-identifier, the sensitive column, or a column that is kept.",
            remedy="Give a column that nobody publishes, such as a number of the patient.",
        )
