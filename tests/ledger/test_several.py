"""Ledgers of plans with several sensitive columns: each column is judged by itself, and all must pass."""

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.ledger.test_ledger import PLAN, publish
from tests.oracles import certificate as oracle

from elldelta.core.certificate import certify
from elldelta.core.ledger_state import LedgerState
from elldelta.core.partition import Partition
from elldelta.core.promises import Close, Shown, Values
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.ledger import admit, new_nonce
from elldelta.ledger.chain import parse_chain
from elldelta.ledger.ledger import OpenLedger, verify_ledger
from elldelta.ledger.lines import LedgerHeader, line_bytes
from elldelta.ledger.totals import LedgerSnapshot

DISEASE = Values.of([[0, 1, 2, 3], [1, 2, 3]], 4, ell=2, releases=1, column="disease")
INCOME = Values.of([[0, 1, 2]] * 2, 3, ell=2, releases=1, column="income", start=4)
PROMISES = (DISEASE, INCOME)
FULL = np.array([[6, 6, 6, 6, 8, 8, 8], [6, 6, 6, 6, 8, 8, 8]])


def table(*missing):
    """Two classes of 24 records that show everything but some (class, value) cells."""
    counts = FULL.copy()
    for base, value in missing:
        own = range(4) if value < 4 else range(4, 7)
        counts[base, next(each for each in own if (base, each) not in missing)] += counts[base, value]
        counts[base, value] = 0
    return counts


def shows(*missing):
    return Shown.of(table(*missing))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "releases.ledger"


def test_the_second_column_alone_refuses_a_release(path):
    publish(path, shows((0, 4)), owner="A", promises=PROMISES)
    before = path.read_bytes()
    with pytest.raises(RefusedError, match="Too few of the values of 'income'") as refusal:
        publish(path, shows((0, 5)), owner="B", number=2, promises=PROMISES)
    assert " of 2 " not in refusal.value.found
    assert path.read_bytes() == before
    publish(path, shows((0, 0), (0, 1)), owner="B", number=2, promises=PROMISES)  # of diseases two may go
    with pytest.raises(RefusedError, match="of 'disease'"):
        publish(path, shows((0, 2)), owner="C", number=3, promises=PROMISES)


def test_lines_number_values_of_all_columns_and_the_ledger_names_each(path):
    publish(path, shows((0, 0), (1, 5)), promises=PROMISES)
    first, line = [json.loads(text) for text in path.read_bytes().splitlines()]
    assert [promise["column"] for promise in first["values"]] == ["disease", "income"]
    assert line["misses"] == [[0, 0], [1, 5]]
    chain = verify_ledger(path, plan_digest=PLAN, promises=PROMISES)
    assert "at least 2 values of 'disease' and 2 values of 'income'" in chain.promise
    told = chain.to_dict()
    rooms = [(each["column"], each["room_min"]) for each in told["promises"]]
    assert rooms == [("disease", 1), ("income", 0)]
    assert chain.room.tolist() == [1, 0]
    assert told["releases"][0]["classes_missing_values_of"] == {"disease": 1, "income": 1}


def test_a_table_with_more_records_in_one_column_is_refused(path):
    with OpenLedger.open(path, PLAN, PROMISES) as ledger:
        snapshot = ledger.chain.snapshot(ledger.state, "A", "sha256:" + "2" * 64)
        more = FULL + np.array([0, 0, 0, 0, 1, 0, 0])
        with pytest.raises(ParameterError, match="one value in every sensitive column"):
            admit(snapshot, certify(PROMISES, Shown.of(more)), owner="A", content_digest="sha256:" + "2" * 64)


def test_closeness_of_a_further_column_is_kept(path):
    near = Close(np.array([[1, 1, 1], [1, 1, 1]]), Fraction(1, 6), column="income", start=4)
    promises = (DISEASE, near)
    far = FULL.copy()
    far[0, 4:] = [12, 8, 4]
    entry = publish(path, Shown.of(far), promises=promises)
    assert entry.counts[0] == (0, *far[0].tolist())
    chain = verify_ledger(path, plan_digest=PLAN, promises=promises)
    assert "16.6667 percentage points of what the plan says of 'income'" in chain.promise
    other = FULL.copy()
    other[0, 4:] = [4, 8, 12]
    with pytest.raises(RefusedError, match="away from the reference of 'income'"):
        publish(path, Shown.of(other), owner="B", number=2, promises=promises)


@pytest.mark.parametrize(
    "change",
    [
        {"values": []},
        {"values": [{"column": "a\n", "values": [0, 3], "ell": 2, "min_records": 1, "n_witnesses": [3, 3]}]},
        {"values": [{"column": "a", "values": [3, 3], "ell": 2, "min_records": 1, "n_witnesses": [3, 3]}]},
        {"values": [{"column": "a", "values": [0, 3], "ell": 2, "min_records": 1, "n_witnesses": [3]}]},
        {"values": [{"column": "a", "values": [0, 3], "ell": 2, "min_records": 1, "n_witnesses": [3, 9]}]},
        {"values": 1},
        {"format": 2},
    ],
    ids=str,
)
def test_a_first_line_that_was_sealed_again_is_refused(change):
    document = {**LedgerHeader.of(PLAN, PROMISES).to_dict(), "sequence": 0, **change}
    with pytest.raises(FileError):
        parse_chain(line_bytes(document, None)[0], "The ledger")


def test_a_ledger_of_other_columns_is_refused(path):
    publish(path, shows(), promises=PROMISES)
    salary = Values.of([[0, 1, 2]] * 2, 3, ell=2, releases=1, column="salary", start=4)
    for other in ((DISEASE, salary), (DISEASE,)):
        with pytest.raises(FileError, match="other rules"):
            verify_ledger(path, plan_digest=PLAN, promises=other)


columns = st.lists(st.tuples(st.integers(2, 4), st.integers(1, 2), st.integers(1, 2)), min_size=2, max_size=3)


def drawn(data, shapes, n_classes):
    """Terms of columns, and hostile releases: any counts at all, merged in any way."""
    min_records = data.draw(st.integers(1, 2))
    parts = []
    for n_values, ell, releases in shapes:
        witnesses = [
            data.draw(st.lists(st.integers(0, n_values - 1), min_size=ell, max_size=n_values, unique=True))
            for _ in range(n_classes)
        ]
        parts.append((witnesses, n_values, ell, min(releases, shapes[0][2])))
    releases = []
    for _ in range(data.draw(st.integers(1, 5))):
        grouping = data.draw(st.sampled_from(list(oracle.groupings(n_classes))))
        sizes = data.draw(st.lists(st.integers(0, 6), min_size=n_classes, max_size=n_classes))
        tables = []
        for n_values, _, _ in shapes:
            rows = np.zeros((n_classes, n_values), dtype=np.int64)
            for base, size in enumerate(sizes):
                for value in data.draw(st.lists(st.integers(0, n_values - 1), min_size=size, max_size=size)):
                    rows[base, value] += 1
            tables.append(rows)
        releases.append((grouping, tables))
    return min_records, parts, releases


def admitted_by_definition(min_records, parts, releases):
    """Theorem F in every column, from its definition: which of the releases are admitted in their order."""
    kept = []
    for release in releases:
        together = [*kept, release]
        if all(
            len(
                set(witnesses[base]).difference(
                    *(
                        oracle.missed(witnesses, tables[place], grouping, (), min_records)[base]
                        for grouping, tables in together
                    )
                )
            )
            >= ell
            for place, (witnesses, _, ell, _) in enumerate(parts)
            for base in range(len(witnesses))
        ):
            kept.append(release)
    return kept


def shown_of(grouping, tables):
    return Shown.of(np.concatenate(tables, axis=1), Partition(np.array(grouping)))


def admitted_by(state, releases):
    kept = []
    for release in releases:
        try:
            state = state.admit(shown_of(*release))
        except RefusedError:
            continue
        kept.append(release)
    return kept


def fewest(releases, place, min_records):
    """The fewest values of a column that any releases leave to anybody, or many."""
    n_classes = len(releases[0][1][place])
    linked = [[(tables[place], grouping, ()) for grouping, tables in chosen]
              for n in range(1, len(releases) + 1) for chosen in combinations(releases, n)]  # fmt: skip
    left = [oracle.linked(own, base, min_records) for own in linked for base in range(n_classes)]
    return min((len(values) for values in left if values is not None), default=99)


def promises_of(min_records, parts):
    starts = np.cumsum([0, *(n_values for _, n_values, _, _ in parts)]).tolist()
    return tuple(
        Values.of(witnesses, n_values, ell=ell, releases=parts[0][3], min_records=min_records, start=start)
        for (witnesses, n_values, ell, _), start in zip(parts, starts[:-1], strict=True)
    )


class OnlyTheFirst(LedgerState):
    """A broken ledger that judges the first column and forgets the others."""

    def admit(self, shown):
        first = LedgerState(self.promises[:1], self.linked[:1]).admit(Shown.of(shown.counts[:, :4]))
        return OnlyTheFirst(self.promises, (*first.linked, *self.linked[1:]))


@settings(max_examples=150, deadline=None)
@given(st.data(), columns, st.integers(1, 3))
def test_admission_is_theorem_f_of_every_column(data, shapes, n_classes):
    min_records, parts, releases = drawn(data, shapes, n_classes)
    kept = admitted_by(LedgerState.empty(promises_of(min_records, parts)), releases)
    assert kept == admitted_by_definition(min_records, parts, releases)
    if kept:
        for place, (_, _, ell, _) in enumerate(parts):
            assert fewest(kept, place, min_records) >= ell


def test_a_ledger_that_judges_the_first_column_only_is_caught():
    """Two releases of which each shows one income only: linked, they leave none in common."""
    empty = LedgerState.empty(PROMISES)
    one, other = (
        ((0, 1), np.split(table(*((base, value) for base in (0, 1) for value in gone)), [4], axis=1))
        for gone in ((4,), (5,))
    )
    assert admitted_by(empty, [one, other]) == [one]
    broken = admitted_by(OnlyTheFirst(empty.promises, empty.linked), [one, other])
    assert len(broken) == 2
    assert fewest(broken, 1, 1) < 2


@settings(max_examples=60, deadline=None)
@given(st.data(), columns, st.integers(1, 3))
def test_what_is_left_as_promises_admits_the_same_releases(data, shapes, n_classes):
    min_records, parts, releases = drawn(data, shapes, n_classes)
    state = LedgerState.empty(promises_of(min_records, parts))
    *before, last = releases
    assume(before)
    for release in before:
        if state.admits(shown_of(*release)):
            state = state.admit(shown_of(*release))
    shown = shown_of(*last)
    assert certify(state.left(), shown).is_certified == state.admits(shown)


def test_a_snapshot_of_several_columns_remembers_the_owner(path):
    publish(path, shows(), promises=PROMISES)
    chain = verify_ledger(path, plan_digest=PLAN, promises=PROMISES)
    snapshot = chain.snapshot(chain.state(PROMISES), "A", "sha256:" + "3" * 64)
    assert isinstance(snapshot, LedgerSnapshot)
    assert snapshot.last is not None
    with pytest.raises(RefusedError, match="has published under this plan before"):
        admit(
            snapshot,
            certify(PROMISES, Shown.of(FULL, Partition.single(2))),
            owner="A",
            content_digest="sha256:" + "3" * 64,
            nonce=new_nonce(),
        )
