"""PostgreSQL: the records stay in the database, which counts them; only counts come back.

* **Counting needs no more than SELECT**, so it runs on a standby server too. What is opened or stored has a
  name and a query; the queries that a statement uses are put in front of it as WITH clauses. Only what goes
  into the database (quarantine, persons, tables in memory) needs temporary tables.
* **One snapshot.** Opening a source begins a transaction (REPEATABLE READ); whatever is read until the next
  source is opened sees the same state, also while others write. Until then, or until the engine is closed,
  nobody can drop or change what was read: use the engine in a `with` block, and not for longer than needed.
* **Reading is read only.** Every statement that reads a source runs in a part of the transaction that is set
  to READ ONLY: not even a query of the user can change anything.
"""

from __future__ import annotations

import itertools
import re
import secrets
from typing import TYPE_CHECKING, Any

from elldelta.engines import sql
from elldelta.engines.postgres.connection import Connection
from elldelta.engines.postgres.types import (
    ColumnType,
    base_type_query,
    declared,
    plain_batch,
    storable,
    type_query,
)
from elldelta.engines.sources import (
    Query,
    TableName,
    check_distinct,
    hidden_names,
    is_frame,
    to_arrow,
)
from elldelta.engines.table import Capability, Engine, Progress, Table, TableColumn, require
from elldelta.errors import DataError, ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from elldelta.files import CsvFormat

OLDEST = 15
"""The oldest version that works: REGEXP_LIKE came with it."""
# Quoted texts and names are passed over; what stands outside of them was written in `elldelta.engines.sql`.
_WORDS = re.compile(rf"{sql.QUOTED}|\bDOUBLE\b|(\w+[.]\w+) IS NOT DISTINCT FROM (\w+[.]\w+)")


def connect(*, database: str) -> PostgresEngine:
    """Connects to a database.

    Args:
        database: Its address, such as postgresql://user@host/name. What it leaves out (a password, for
            instance) comes from where PostgreSQL's own programs take it: PGPASSWORD, PGPASSFILE and so on.
    """
    return PostgresEngine(database)


class PostgresEngine(Engine):
    """PostgreSQL behind the engine contract; see `elldelta.engines.table`."""

    name = "postgres"
    capabilities: frozenset[Capability] = frozenset({"tables"})

    def __init__(self, database: str) -> None:
        self._numbers = itertools.count()
        # Nobody's tables have such names: ours must neither hide one nor be hidden.
        self._prefix = f"elldelta_{secrets.token_hex(6)}"
        self._queries: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._progress: dict[str, Progress] = {}
        self._connection = Connection(database)
        try:
            self._check_server()
        except BaseException:
            self.close()
            raise

    # The contract of all engines

    def open(self, source: Any, csv_format: CsvFormat | None = None) -> Table:  # noqa: ANN401
        """Opens a table by its name, a query, or a table in memory."""
        if is_frame(source):
            return self._open_frame(source)
        if isinstance(source, list | tuple) and len(source) == 1:
            [source] = source
        if isinstance(source, str):
            source = TableName.parse(source)
        if isinstance(source, TableName):
            return self._open(f"SELECT * FROM {source.quoted}", f"the table {source}")  # noqa: S608
        if isinstance(source, Query):
            # The line break ends a comment at the end of the query.
            return self._open(f"SELECT * FROM ({source.text}\n) AS given", "the query")  # noqa: S608
        if isinstance(source, list | tuple):
            raise ParameterError(
                "A database is read one table at a time.",
                found=f"{len(source)} were given.",
                remedy="Put them together with a query: SELECT ... UNION ALL SELECT ...",
            )
        require(self, "files", "read files")
        raise ParameterError("A table is given by its name.", found=f"It is a {type(source).__name__}.")

    def store(self, query: str, progress: Progress | None = None) -> str:
        """Gives a query a name; it runs when it is fetched, on the snapshot of its source."""
        relation = self._name()
        self._queries[relation] = query
        if progress:
            self._progress[relation] = progress
        return relation

    def fetch(self, relation: str) -> Generator[pa.RecordBatch]:
        """Hands out a stored result as it arrives, a batch at a time."""
        progress = self._progress.get(relation)
        for batch in self._stream(f"SELECT * FROM {relation}"):  # noqa: S608 (a name made here)
            if progress:
                progress(1.0)  # the counting is done when the first batch is there
            yield plain_batch(batch)

    def put(self, table: pa.Table) -> str:
        """Brings a small table in, as a temporary one; returns the relation that stands for it."""
        relation = self._name()
        table = storable(table)
        with self._connection.part("put"):
            self._connection.execute(f"CREATE TEMPORARY TABLE {relation} ({declared(table.schema)})", "put")
            self._connection.ingest(relation.strip('"'), table)
            # Otherwise the planner takes two rows for a thousand, and sorts where it should hash.
            self._connection.execute(f"ANALYZE {relation}", "put")
        return relation

    def discard(self, *relations: str) -> None:
        """Forgets stored results."""
        for relation in relations:
            self._progress.pop(relation, None)
            if self._queries.pop(relation, None) is None and self._connection.is_open:
                with self._connection.part("put"):
                    self._connection.execute(f"DROP TABLE IF EXISTS {relation}", "put")

    def close(self) -> None:
        """Ends the connection; the database forgets everything that was temporary."""
        self._connection.close()

    # Inside

    def _open(self, query: str, origin: str) -> Table:
        self._connection.begin()
        raw = self._name()
        self._queries[raw] = query
        self._origins[raw] = origin
        try:
            names, types = self._types(raw)
        except BaseException:
            del self._queries[raw]
            raise
        hidden = hidden_names(tuple(names))
        shown = [place for place, name in enumerate(names) if name not in hidden]
        if not shown:
            raise DataError(
                f"There is no column to read in {origin}.",
                found=f"It has {counted(len(names), 'column')}; those whose names differ only in "
                "case do not count.",
                remedy="Give a table with columns.",
            )
        listed = ", ".join(
            f"{types[place].read(sql.identifier(names[place]))} AS {sql.identifier(names[place])}"
            for place in shown
        )
        return Table(
            engine=self,
            relation=self.store(f"SELECT {listed} FROM {raw}"),  # noqa: S608
            columns=tuple(TableColumn(names[place], types[place].kind) for place in shown),
            n_rows=None,
            origin=origin,
            hidden=hidden,
        )

    def _open_frame(self, frame: object) -> Table:
        table = to_arrow(frame)
        check_distinct("the table", table.column_names)
        relation = self.put(table)
        opened = self._open(f"SELECT * FROM {relation}", "the table")  # noqa: S608
        return Table(
            self,
            opened.relation,
            opened.columns,
            table.num_rows,
            "the table",
            hidden=opened.hidden,
            given=frame,
        )

    def _types(self, relation: str) -> tuple[list[str], list[ColumnType]]:
        """The names and types of the columns of a relation; nothing is read from it."""
        origin = self._origins[relation]
        with self._connection.part("open", origin, read_only=True):
            query = self._native(f"SELECT * FROM {relation}")  # noqa: S608 (a name made here)
            schema = self._connection.describe(query, origin)
        names = list(schema.names)
        check_distinct(origin, names)
        if not names:
            return names, []
        [numbers] = self._rows(type_query(relation, names))
        places = [numbers[f"c{place}"] for place in range(len(names))]
        below = {row.pop("number"): row for row in self._rows(base_type_query(set(places)))}
        modifiers = [int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) for field in schema]
        return names, [
            ColumnType(**below[number], modifier=modifier)
            for number, modifier in zip(places, modifiers, strict=True)
        ]

    def _stream(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        subject = next((self._origins[name] for name in self._used(query) if name in self._origins), "it")
        return self._connection.stream(self._native(query), "read", subject)

    def _rows(self, query: str) -> list[dict[str, Any]]:
        """The few rows of a query about the database itself."""
        return [row for batch in self._stream(query) for row in batch.to_pylist()]

    def _check_server(self) -> None:
        [server] = self._rows(
            "SELECT CAST(current_setting('server_version_num') AS integer) / 10000 AS version, "
            "current_setting('server_encoding') AS encoding"
        )
        if server["version"] < OLDEST:
            raise ParameterError(
                f"PostgreSQL {OLDEST} or newer is needed.",
                found=f"The server is version {server['version']}.",
                remedy="Ask for a newer server, or export the table and count it with DuckDB.",
                parameter="engine",
            )
        if server["encoding"] == "SQL_ASCII":
            raise DataError(
                "The database does not know the encoding of its texts.",
                found="Its encoding is SQL_ASCII.",
                remedy="Export the table, and count it with DuckDB, which is told the encoding.",
                parameter=("engine", "csv"),
            )

    def _name(self) -> str:
        return sql.identifier(f"{self._prefix}_{next(self._numbers)}")

    def _used(self, query: str) -> list[str]:
        """The named queries that a query needs, each after those that it needs itself."""
        used: dict[str, None] = {}
        for name in re.findall(rf'"{self._prefix}_[0-9]+"', query):
            if name in self._queries:
                used |= dict.fromkeys([*self._used(self._queries[name]), name])
        return list(used)

    def _native(self, query: str) -> str:
        """A query as PostgreSQL runs it: with the queries that it uses in front, and in its words.

        It spells DOUBLE as DOUBLE PRECISION, and joins by IS NOT DISTINCT FROM in loops only; arrays find
        each other by hashing, and one that holds a missing value equals another that does.
        """
        clauses = [
            # What is opened holds the user's own text, which stays as it is.
            f"{name} AS NOT MATERIALIZED ({text if name in self._origins else _to_dialect(text)})"
            for name, text in ((name, self._queries[name]) for name in self._used(query))
        ]
        return (f"WITH {', '.join(clauses)} " if clauses else "") + _to_dialect(query)


def _to_dialect(query: str) -> str:
    def spell(found: re.Match[str]) -> str:
        if found[1]:
            return f"ARRAY[{found[1]}] = ARRAY[{found[2]}]"
        return "DOUBLE PRECISION" if found[0] == "DOUBLE" else found[0]

    return _WORDS.sub(spell, query)
