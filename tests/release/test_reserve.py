"""Owners who publish one after the other through one ledger, and leave something for those who follow."""

from itertools import combinations

import pyarrow.parquet as pq
import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

import elldelta as ed

ELL, RECORDS, N_OWNERS = 3, 1500, 3


@pytest.fixture(scope="module")
def plan():
    past = to_arrow(make_rows(4000, 1))
    model = ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))
    return ed.plan(model, ell=ELL, records=RECORDS, owners=N_OWNERS)


def published(plan, folder, *, looks_ahead):
    """The releases of all owners, admitted one after the other, as anybody reads them."""
    for number in range(N_OWNERS):
        to_come = N_OWNERS - 1 - number if looks_ahead else None
        path = folder / f"{number}.parquet"
        ed.release(
            to_arrow(make_rows(RECORDS, 10 + number)),
            plan,
            to=path,
            ledger=ed.Ledger(folder / "ledger.jsonl", f"owner {number}", to_come),
            on_failure="coarsen-suppress",
        )
        yield path


def classes_of(path):
    """What each label shows, read from the file alone: ranges of ages, sets of the others."""
    found = {}
    for row in pq.read_table(path).to_pylist():
        found.setdefault(tuple(row[name] for name in QUASI_IDENTIFIERS), set()).add(row[SENSITIVE])
    return found


def covers(label, value):
    """Whether a label stands for a value: the value itself, a range, or a set."""
    text = str(value)
    if label in (text, "*"):
        return True
    if label.startswith("{"):
        return text in [part.strip() for part in label.strip("{}").split(",")]
    low, _, high = label.partition("-")
    return bool(high) and low <= text <= high


def test_whatever_is_linked_leaves_ell_values(plan, tmp_path):
    shown = [classes_of(path) for path in published(plan, tmp_path, looks_ahead=True)]
    people = {tuple(row[name] for name in QUASI_IDENTIFIERS) for row in make_rows(RECORDS, 10)}
    n_linked = 0
    for person in people:
        own = [
            [values for labels, values in one.items() if all(map(covers, labels, person))] for one in shown
        ]
        for group in (group for size in (1, 2, 3) for group in combinations(own, size)):
            if all(group):
                assert all(len(found) == 1 for found in group)
                assert len(set.intersection(*(found[0] for found in group))) >= ELL
                n_linked += 1
    assert n_linked > 100


def test_the_plan_is_for_one_release_and_a_ledger(plan):
    assert plan.releases == 1
    assert plan.waiting_risk is not None
    assert any("one ledger has admitted all of them" in condition for condition in plan.conditions)


def test_more_owners_than_expected_are_admitted(plan, tmp_path):
    list(published(plan, tmp_path, looks_ahead=True))
    ed.release(
        to_arrow(make_rows(RECORDS, 99)),
        plan,
        to=tmp_path / "late.parquet",
        ledger=ed.Ledger(tmp_path / "ledger.jsonl", "late", 0),
        on_failure="coarsen-suppress",
    )
    assert (tmp_path / "late.parquet").exists()


@pytest.mark.parametrize("wish", [{"releases": 2}, {"owners": 0}, {"guarantee": "probabilistic"}])
def test_wishes_that_contradict_a_ledger(wish):
    with pytest.raises(ed.ParameterError):
        ed.plan("no model is read", **{"ell": 2, "records": 10, "owners": 2, **wish})


def test_how_many_are_to_come_is_a_whole_number(tmp_path):
    with pytest.raises(ed.ParameterError, match="owners to come"):
        ed.Ledger(tmp_path / "ledger.jsonl", "a", -1)
