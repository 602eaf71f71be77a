"""Ledger files of plans that promise closeness: what lines say, what is admitted, and what is noticed."""

import json
from fractions import Fraction

import numpy as np
import pytest
from tests.ledger.test_ledger import PLAN, content, publish

from elldelta.core.certificate import certify
from elldelta.core.partition import Partition
from elldelta.core.promises import Close, Shown, Values
from elldelta.errors import FileError, RefusedError
from elldelta.ledger.chain import parse_chain
from elldelta.ledger.ledger import OpenLedger, verify_ledger
from elldelta.ledger.lines import line_bytes

REFERENCES = np.array([[4, 4, 2], [2, 4, 4]])
CLOSE = Close(REFERENCES, Fraction(1, 5), 2, column="disease")
PROMISES = (CLOSE,)
NEAR = np.array([[40, 40, 20], [20, 40, 40]])


def shifted(amount, base=0, scale=1):
    """A table that shows too few of the first value of a class, and too many of the last."""
    counts = scale * NEAR.copy()
    counts[base] += scale * np.array([-amount, 0, amount])
    return Shown.of(counts)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "releases.ledger"


def test_the_smallest_shares_decide_and_more_than_t_releases_are_admitted(path):
    for number in range(5):
        publish(
            path, shifted(10, scale=1 + number), owner=f"owner {number}", number=number, promises=PROMISES
        )
    chain = verify_ledger(path, plan_digest=PLAN, promises=PROMISES)
    assert chain.n_releases == 5 > CLOSE.releases
    assert chain.header.closeness[0].limit == "1/5"
    assert "20 percentage points" in chain.promise
    assert "among at least" not in chain.promise
    assert chain.to_dict()["promises"] == [{"column": "disease", "closeness": 0.2}]
    before = path.read_bytes()
    low = Shown.of(np.add(NEAR, [[0, -11, 11], [0, 0, 0]]))  # 0.1 and 0.11 together
    with pytest.raises(RefusedError, match="away from the reference of 'disease'"):
        publish(path, low, owner="far", number=9, promises=PROMISES)
    assert path.read_bytes() == before
    exact = Shown.of(np.add(NEAR, [[0, -10, 10], [0, 0, 0]]))  # just what is allowed
    publish(path, exact, owner="far", number=9, promises=PROMISES)
    with OpenLedger.open(path, PLAN, PROMISES) as ledger:
        left = ledger.state.left()
        assert certify(left, Shown.of(NEAR)).is_certified
        assert not certify(left, Shown.of(np.add(NEAR, [[0, 1, -1], [0, 0, 0]]))).is_certified
        assert certify(left, Shown.of(np.add(NEAR, [[0, 0, 0], [0, 1, -1]]))).is_certified


def test_lines_say_what_is_published_and_nothing_else_is_new(path):
    merged = Shown.of(np.array([[30, 40, 30], [30, 40, 30]]), Partition.single(2))
    entry = publish(path, merged, promises=PROMISES)
    assert entry.counts == ((0, 60, 80, 60),)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[1]["counts"] == [[0, 60, 80, 60]]
    assert lines[1]["certified"] is True
    left_out = Shown.of(NEAR, left_out=[True, False])
    entry = publish(path, left_out, owner="B", number=2, promises=PROMISES)
    assert entry.counts == ((1, 20, 40, 40),)


def forged(path, change):
    """The ledger with its last line changed, and sealed again."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    last = {key: value for key, value in lines[-1].items() if key not in ("hash", "previous")}
    change(last)
    first = path.read_bytes().splitlines(keepends=True)[:-1]
    return b"".join(first) + line_bytes(last, lines[-2]["hash"])[0] + b"\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.pop("counts"),
        lambda line: line.update(counts=[[0, 40, 40]]),
        lambda line: line.update(counts=[[0, 40]]),
        lambda line: line.update(counts=[[1, 20, 40, 40], [0, 40, 40, 20]]),
        lambda line: line.update(counts=[[0, -1, 40, 40]]),
        lambda line: line.update(counts=[[0, 0, 0, 0]]),
        lambda line: line.update(counts=[[2, 40, 40, 20]]),
        lambda line: line.update(counts=[[0, 40.0, 40, 20]]),
    ],
)
def test_a_line_that_no_release_has_is_no_line(path, change):
    publish(path, shifted(0), promises=PROMISES)
    content = forged(path, change).removesuffix(b"\n")
    assert parse_chain(content, "It").tail


def test_a_ledger_that_is_further_away_than_it_may_be_is_noticed(path):
    publish(path, shifted(0), promises=PROMISES)
    path.write_bytes(forged(path, lambda line: line.update(counts=[[0, 10, 40, 50]])).removesuffix(b"\n"))
    assert verify_ledger(path).n_releases == 1  # without the plan nobody knows the references
    with pytest.raises(FileError, match="does not fit its plan"):
        verify_ledger(path, plan_digest=PLAN, promises=PROMISES)


def test_a_line_with_counts_has_no_place_in_a_ledger_without_closeness(path):
    plain = (Values.of([[0, 1, 2]] * 2, 3, ell=2, releases=1),)
    publish(path, Shown.of(NEAR), promises=plain)
    assert json.loads(path.read_bytes().splitlines()[1])["counts"] is None
    content = forged(path, lambda line: line.update(counts=[[0, 40, 40, 20]])).removesuffix(b"\n")
    assert parse_chain(content, "It").tail


def test_a_ledger_without_closeness_is_another_one(path):
    publish(path, shifted(0), promises=PROMISES)
    wider = (Close(REFERENCES, Fraction(2, 5), 2, column="disease"),)
    with pytest.raises(FileError, match="other rules"):
        verify_ledger(path, plan_digest=PLAN, promises=wider)
    assert content(1) in path.read_text()
