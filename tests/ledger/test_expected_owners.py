"""A ledger that was begun for a number of owners knows how many are still to come."""

import json

import pytest
from tests.ledger.test_ledger import PLAN, TERMS, content, without

from elldelta.errors import FileError
from elldelta.files import canonical_json
from elldelta.ledger import LedgerHeader, OpenLedger, first_line, line_bytes, sealed_lines, verify_ledger
from elldelta.ledger.chain import parse_chain


def publish(path, owner, number, owners=None):
    with OpenLedger.open(path, PLAN, TERMS, owners=owners) as ledger:
        to_come = ledger.to_come(owner)
        ledger.commit(ledger.check(without(), owner=owner, content_digest=content(number)), {})
    return to_come


def test_each_owner_counts_once_and_more_than_expected_are_admitted(tmp_path):
    path = tmp_path / "releases.ledger"
    owners = ["A", "B", "C", "D", "E"]
    found = [publish(path, owner, number, 3) for number, owner in enumerate(owners)]
    assert found == [2, 1, 0, 0, 0]
    told = verify_ledger(path, plan_digest=PLAN, terms=TERMS).to_dict()
    assert (told["owners"], told["owners_expected"], len(told["releases"])) == (5, 3, 5)


def test_without_a_number_nothing_is_known(tmp_path):
    path = tmp_path / "releases.ledger"
    assert publish(path, "A", 1) is None
    assert json.loads(path.read_bytes().split(b"\n")[0])["owners"] is None


def test_the_number_of_the_beginning_stays(tmp_path):
    path = tmp_path / "releases.ledger"
    assert [publish(path, "A", 1, 3), publish(path, "B", 2, 9)] == [2, 1]


def test_a_line_that_is_not_shown_is_that_of_one_more_owner(tmp_path):
    path = tmp_path / "releases.ledger"
    for number, owner in enumerate("ABC"):
        publish(path, owner, number, 5)
    first, *lines = [line + b"\n" for line in path.read_bytes().split(b"\n") if line]
    copy = first + b"".join(sealed_lines(lines, {2, 3}))
    chain = parse_chain(copy, "The copy")
    assert chain.to_come("A") == 2
    assert chain.to_come("D") == 1


@pytest.mark.parametrize("change", [{"owners": 0}, {"owners": True}])
def test_no_version_writes_such_a_first_line(change):
    header = json.loads(first_line(LedgerHeader.of(PLAN, TERMS, 3)))
    document = {key: value for key, value in header.items() if key not in ("hash", "previous")} | change
    line, _ = line_bytes(document, None)
    assert canonical_json(json.loads(line)) + b"\n" == line
    with pytest.raises(FileError, match="changed or damaged"):
        parse_chain(line, "The ledger")
