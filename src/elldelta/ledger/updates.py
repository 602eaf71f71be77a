"""Tables that live: an owner publishes again after people came, went or changed (Theorem I).

Since the last release, in every published class either nothing changes, or those who came, those who went and
those who stayed are each as good as a table of their own. Otherwise the class stays as it was last published:
who came waits, and who went stays in it. Where somebody must go at once, or has waited for too long, it is
withheld instead. Everybody is published once: who has left and comes back is recognised and not shown again.

Who is in the published table stands in the owner's *state*, a file that is personal data and nobody else's.
The comparison with it is a join in the engine. Its digest stands in the owner's line in the ledger, so that
no older state, and none of another owner, is ever compared with.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import certify
from elldelta.core.checks import check_whole
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown
from elldelta.core.updates import Groups
from elldelta.engines import TableColumn, sql, state_sql
from elldelta.errors import DataError, InternalError, ParameterError, RefusedError, counted
from elldelta.files import canonical_json, changed
from elldelta.ledger.state import (
    COLUMNS,
    FORMAT_VERSION,
    METADATA_KEY,
    Cells,
    StateHead,
    read_head,
    state_digest,
)
from elldelta.model.persons import person_key
from elldelta.release.publishable import RecordsByClass, certified, fewest_persons

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.core.ledger_state import LedgerState
    from elldelta.engines import Engine, Table
    from elldelta.ledger.admission import ReadLedger
    from elldelta.model import CountedTable
    from elldelta.plan.plan import Plan
    from elldelta.release.manifest import Persons, Updated
    from elldelta.release.publishable import Publishable


_HOLD, _CHANGE, _WITHHOLD = range(3)
"""What becomes of a class: it stays as it was last published, it changes, or it is not published for now."""


@dataclass(frozen=True)
class UpdatePolicy:
    """How an owner publishes a table again and again; with a ledger, and with the persons counted.

    Attributes:
        state: The file for the state after this release: who is in the published table. It is personal data;
            keep it where nobody else can read, and not beside the release.
        since: The state of the last release; None for the first one.
        erase: A file whose column of the persons' name says who must go at once, also from the state.
        longest_wait: How many releases somebody may wait before the class is withheld; None is no limit.
    """

    state: Path
    since: Path | None = None
    erase: Path | None = None
    longest_wait: int | None = None

    def __post_init__(self) -> None:
        for name in ("state", "since", "erase"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else Path(value))
        if self.state.suffix.lower() not in (".parquet", ".pq"):
            raise ParameterError(
                "A state is a Parquet file, and its name must say so: the next release reads it.",
                found=f"It is called {self.state.name}.",
                remedy=f"Call it {self.state.name}.parquet.",
            )
        if self.longest_wait is not None:
            check_whole("the longest wait", self.longest_wait)
        if self.erase is not None and self.since is None:
            raise ParameterError(
                "Nobody can be erased from a table that was not published yet.",
                remedy="Leave them out of the table, or give the state of the last release.",
                parameter="since",
            )

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that are read."""
        return tuple(path for path in (self.since, self.erase) if path is not None)


@dataclass(frozen=True, eq=False)
class Revision:
    """What a ledger must know of a table that is published again.

    Attributes:
        groups: Who came, went and stayed in the classes that change; None for the first release of a series.
        since: The digest of the state that it was compared with.
        state: The digest of the new one.
    """

    groups: Groups | None
    since: str
    state: str


def check_updatable(plan: Plan) -> None:
    """Refuses a plan whose tables cannot be published again."""
    if len(plan.columns) > 1:
        raise ParameterError(
            "A table that is published again has one sensitive column.",
            found=f"This plan has {len(plan.columns)}: {', '.join(map(repr, plan.schema.sensitive_names))}.",
            remedy="Make a plan for one of them.",
        )
    if plan.moving is not None:
        raise ParameterError(
            "Tables that are published again have fixed classes.",
            found="The classes of this plan move up a tree, and what that tells is not bounded for updates.",
            remedy="Use a plan with fixed classes (without a merge risk).",
        )
    if plan.movers is not None:
        raise ParameterError(
            "A plan for people who move is for tables that are published once.",
            found="Who moves among classes would have to leave one and come to another at the same time.",
            remedy="Use a plan without columns that change; who moves then stays where it was published.",
        )
    if plan.promises_closeness:
        raise ParameterError(
            "A plan that promises closeness is for tables that are published once.",
            found="How far subtracting its releases leads from what the plan says is not bounded.",
            remedy="Use a plan that promises values only.",
        )


@dataclass(frozen=True, eq=False)
class TableUpdate:
    """What is published of a table that is published again.

    Attributes:
        content: What is published now.
        numbers: What has changed, for the manifest; empty for a first release.
        groups: Who came, went and stayed, in the classes that change; None for a first release.
        since: The digest of the state that the table was compared with; None for a first release.
        state: The query for the rows of the new state.
        several: The relation of persons with several values.
    """

    content: Publishable
    numbers: Updated
    groups: Groups | None
    since: str | None
    state: str
    several: str


class Comparison:
    """A table beside the state of what was last published of it; used as a context manager."""

    def __init__(
        self, updates: UpdatePolicy, counted: CountedTable, plan: Plan, owner: str, person: str
    ) -> None:
        self._updates = updates
        self._counted = counted
        self._plan = plan
        self._owner = owner
        self._person = person
        self._relations: list[str] = [*counted.relations]
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Comparison:
        self._closing.enter_context(self._engine.discarding(self._relations))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, problem, trace)

    @property
    def _engine(self) -> Engine:
        return self._counted.table.engine

    @property
    def _pairs(self) -> str:
        if self._counted.pairs is None:
            raise InternalError("Persons were not counted.")
        return self._counted.pairs

    def begin(self, content: Publishable) -> TableUpdate:
        """The first release of a series: everybody who is published is in the state."""
        ranks = self._counted.counts.ranks
        class_of = self._plan.class_of(ranks)
        is_shown = ~content.certificate.shown.left_out[class_of]
        classes = self._put(cell=ranks[is_shown], **{"class": class_of[is_shown]})
        query = state_sql.first_state(self._pairs, classes)
        return TableUpdate(content, {}, None, None, query, self._store(state_sql.several_rows(self._pairs)))

    def compare(self, book: ReadLedger) -> TableUpdate:
        """An update: decides class by class what changes.

        Raises:
            RefusedError: The owner has published nothing yet, the state is not that of its last release, or
                nothing would be left to publish.
        """
        if not book.has_published(self._owner):
            raise RefusedError(
                f"{self._owner!r} has not published under this plan, and there is nothing to update.",
                found="The ledger has no line of this owner.",
                remedy="Leave the state of the last release out, or use the ledger it belongs to.",
                parameter=("since", "ledger"),
            )
        old, since = self._read_state(book)
        compared, several, found, persons = self._compared(old, self._erased(old))
        decisions = self._decide(found, persons, book.state)
        changes = self._put(
            **{"class": np.arange(self._plan.n_classes)}, changes=(decisions == _CHANGE).astype(np.int64)
        )
        return TableUpdate(
            self._published(found, decisions),
            found.numbers(decisions),
            found.groups.only(decisions == _CHANGE),
            since,
            state_sql.next_state(compared, changes),
            several,
        )

    def _compared(self, state: str, erased: str) -> tuple[str, str, _Outcomes, NDArray[np.int64]]:
        """The table beside a state: two relations, records by what became of them, and persons by class."""
        counts = self._counted.counts
        class_of = self._plan.class_of(counts.ranks)
        query = state_sql.compared_with_state(
            self._pairs,
            self._put(cell=counts.ranks, **{"class": class_of.astype(np.int32)}),
            state,
            erased,
        )
        compared = self._store(query)
        cells = self._fetch(state_sql.compared_counts(compared), 5)
        persons = np.zeros((4, self._plan.n_classes), dtype=np.int64)
        several = self._store(state_sql.several_rows(compared))
        homes, *n_persons = self._fetch(state_sql.compared_persons(compared, several), 5)
        persons[:, homes] = n_persons
        return compared, several, _Outcomes(cells, self._plan.n_classes, counts.schema.n_values), persons

    def write_state(self, update: TableUpdate, path: Path) -> tuple[Revision, Persons]:
        """Writes the new state; returns what the ledger must know, and the persons that are published."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        groups = update.groups
        head = StateHead(
            FORMAT_VERSION,
            self._plan.digest,
            self._owner,
            self._names,
            secrets.token_hex(32),
            since=update.since,
            came=Cells() if groups is None else Cells.of(groups.joiners),
            went=Cells() if groups is None else Cells.of(groups.leavers),
        )
        schema = pa.schema(
            [("who", pa.string()), *((name, pa.int64()) for name in COLUMNS[1:])],
            {METADATA_KEY: canonical_json(head.to_dict())},
        )
        rows = self._store(update.state)
        persons = self._published_persons(update, rows)
        # No two persons have one name: looking for a name that comes again would take longest.
        with pq.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=[*COLUMNS[1:]], write_statistics=False
        ) as writer:
            for batch in self._engine.fetch(rows):
                columns = [batch.column(place).cast(kind) for place, kind in enumerate(schema.types)]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return Revision(groups, update.since or "", state_digest(path)), persons

    def _published_persons(self, update: TableUpdate, state: str) -> Persons:
        """How many persons a new state says are published."""
        is_shown: NDArray[np.bool_] = np.any(update.content.counts, axis=1)
        shown, once = (
            persons[is_shown[classes]]
            for classes, persons in (
                self._fetch(query(state, update.several), 2)
                for query in (state_sql.persons_of_state, state_sql.persons_of_state_once)
            )
        )
        return {
            "persons": int(once.sum()),
            "records_repeated": self._counted.counts.accounting.n_repeated,
            "persons_per_class": int(shown.min()),
        }

    @property
    def _names(self) -> tuple[str, str]:
        """What tells persons apart: a column, and the kind of its values, as which they are written."""
        return self._person, self._counted.table.kind_of(self._person)

    def _read_state(self, book: ReadLedger) -> tuple[str, str]:
        """Opens the state, if it is the one that the ledger names; returns its relation and its digest."""
        import pyarrow.parquet as pq

        path = self._updates.since
        if path is None:
            raise InternalError("There is no state to compare with.")
        source = f"The state {path}"
        since = state_digest(path)
        book.check_since(self._owner, since)  # before anything in it is read
        head = read_head(path)
        column, kind = head.person
        if (head.plan, head.owner) != (self._plan.digest, self._owner):
            raise changed(source)
        if (column, kind) != self._names:
            raise RefusedError(
                "Persons are not told apart as in the last release, and everybody would be somebody new.",
                found=f"The column was {column!r}, of the kind {kind}; now it is {self._person!r}, of the "
                f"kind {self._counted.table.kind_of(self._person)}.",
                remedy="Give the same column, with values that are written as before.",
            )
        if "files" in self._engine.capabilities:
            opened = self._engine.open(path)
            if set(opened.names) != set(COLUMNS):
                raise changed(source)
            return opened.relation, since
        self._relations.append(self._engine.put(pq.read_table(path)))
        return self._relations[-1], since

    def _erased(self, state: str) -> str:
        """The persons who must go, each once."""
        import pyarrow as pa

        from elldelta.engines.duckdb import connect

        if self._updates.erase is None:
            return self._put(who=pa.array([], pa.string()))
        with connect() as engine:
            table = engine.open(self._updates.erase)
            listed = replace(
                table, relation=self._people(table), columns=(TableColumn("who", "text"),), n_rows=None
            )
            names = [batch.column(0).drop_null().to_pylist() for batch in listed.count_texts(["who"])]
        erased = self._put(who=pa.array([name for batch in names for name in batch], pa.string()))
        query = state_sql.erased_found(erased, state, self._people(self._counted.table))
        n, n_old, n_now = (int(number[0]) for number in self._fetch(query, 3))
        if n_now:
            raise DataError(
                "Who must go is still in the table, and would come back with the next release.",
                found=f"{n_now} of the {counted(n, 'person', 'people')} to erase are in the table "
                "that is to be released.",
                remedy="Remove them from the table first, for good.",
            )
        if not n or n_old < n:
            raise DataError(
                "Not everybody who must go was found.",
                found=f"Of {counted(n, 'person', 'people')} to erase, the state of the last release "
                f"knows {n_old}.",
                remedy=f"Name them as the table does in the column {self._person!r}, and nobody else.",
            )
        return erased

    def _people(self, table: Table) -> str:
        """The relation of everybody in a table, each once: who."""
        return sql.distinct_rows(table.relation, [(person_key(table, self._person), "who")])

    def _decide(self, found: _Outcomes, persons: NDArray[np.int64], state: LedgerState) -> NDArray[np.int64]:
        """Which classes change, stay as they are, or are withheld."""
        plan, groups, longest_wait = self._plan, found.groups, self._updates.longest_wait
        alone = Partition(np.arange(plan.n_classes))
        tables = np.stack([found.if_changed, groups.joiners, groups.leavers, groups.stayers])
        # One person may have many values: each group needs as many persons as a table of its own.
        passes: NDArray[np.bool_] = np.all(~tables.any(axis=2) | (persons >= fewest_persons(plan)), axis=0)
        for _ in range(2):  # classes do not depend on each other: the second time nothing changes
            update = self._owner, groups.only(passes).missed(plan.promises, alone)
            shown = Shown(np.where(passes[:, np.newaxis], found.if_changed, 0), alone)
            passes[certify(plan.promises, shown).fails] = False
            passes[np.any(state.violations(shown, update), axis=0)] = False
        decisions = np.where(passes, _CHANGE, _HOLD)
        must = found.table(state_sql.MUST).any(axis=1)
        if longest_wait is not None:
            must |= found.longest_wait > longest_wait
        decisions[(decisions == _HOLD) & must] = _WITHHOLD
        return decisions

    def _published(self, found: _Outcomes, decisions: NDArray[np.int64]) -> Publishable:
        """What is published; refuses it if one of its classes does not pass."""
        table = found.published(decisions)
        if not table.any():
            raise RefusedError(
                "Nothing would be left to release.",
                found="Every class would be withheld.",
                remedy="Wait until more people have come, or erase fewer at once.",
            )
        records = RecordsByClass(table, self._counted.counts.accounting)
        return certified(records, self._plan, Partition(np.arange(self._plan.n_classes)))

    def _put(self, **columns: NDArray[np.int64] | pa.Array) -> str:
        import pyarrow as pa

        self._relations.append(self._engine.put(pa.table(columns)))
        return self._relations[-1]

    def _store(self, query: str) -> str:
        self._relations.append(self._engine.store(query))
        return self._relations[-1]

    def _fetch(self, query: str, n_columns: int) -> list[NDArray[np.int64]]:
        import pyarrow as pa

        found = pa.Table.from_batches(self._engine.fetch(self._store(query)))
        return [found.column(place).to_numpy().astype(np.int64) for place in range(n_columns)]


class _Outcomes:
    """What became of the records of every class and value."""

    def __init__(self, cells: list[NDArray[np.int64]], n_classes: int, n_values: int) -> None:
        classes, values, kinds, n, waited = cells
        self._tables = np.zeros((8, n_classes, n_values), dtype=np.int64)
        np.add.at(self._tables, (kinds, classes, values), n)
        waits = np.isin(kinds, (state_sql.JOIN, state_sql.LEAVE))
        self.longest_wait = np.zeros(n_classes, dtype=np.int64)
        np.maximum.at(self.longest_wait, classes[waits], waited[waits] + 1)
        self.most_waited = int(waited[kinds != state_sql.OUT].max(initial=0))

    def table(self, *kinds: int) -> NDArray[np.int64]:
        """Records of some kinds, by class and value."""
        total: NDArray[np.int64] = self._tables[list(kinds)].sum(axis=0)
        return total

    @property
    def groups(self) -> Groups:
        """Who came, went and stayed, if everything changed."""
        return Groups(
            self.table(state_sql.JOIN),
            self.table(state_sql.LEAVE, state_sql.MUST),
            self.table(state_sql.STAY, state_sql.MOVE),
        )

    @property
    def if_changed(self) -> NDArray[np.int64]:
        """What would be published if everything changed."""
        return self.table(state_sql.STAY, state_sql.MOVE, state_sql.JOIN)

    def published(self, decisions: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is published."""
        held = self.table(state_sql.STAY, state_sql.MOVE, state_sql.LEAVE)
        table = np.where((decisions == _CHANGE)[:, np.newaxis], self.if_changed, held)
        table[decisions == _WITHHOLD] = 0
        return table

    def numbers(self, decisions: NDArray[np.int64]) -> Updated:
        """What the manifest says."""
        does_change, holds, withheld = (decisions == one for one in (_CHANGE, _HOLD, _WITHHOLD))
        was = self.table(state_sql.STAY, state_sql.MOVE, state_sql.LEAVE, state_sql.MUST).any(
            axis=1
        ) | self.if_changed.any(axis=1)
        changes = self.groups.changes
        joiners, leavers = self.groups.joiners, self.groups.leavers
        return {
            "classes_changed": int((does_change & changes).sum()),
            "classes_unchanged": int((was & ~changes & ~withheld).sum()),
            "classes_waiting": int((holds & changes).sum()),
            "classes_withheld": int(withheld.sum()),
            "records_joined": int(joiners[does_change].sum()),
            "records_left": int(leavers[does_change].sum()),
            "records_waiting": int(joiners[~does_change].sum()),
            "records_lingering": int(leavers[holds].sum()),
            "records_moved": int(self.table(state_sql.MOVE).sum()),
            "records_returned": int(self.table(state_sql.RETURN).sum()),
            "longest_wait": self.most_waited,
        }
