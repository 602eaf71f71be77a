"""One spelling of every document; and the digest of a release, which is written without making its lists."""

import json

import numpy as np
import pytest

from elldelta.errors import FileError, ParameterError
from elldelta.files import canonical_json, canonical_parts, digest, json_object, members, read_json
from elldelta.release.content import content_digest

PLAIN = [[1, 2.5, 3], [2**2000, 0.1], [[0.5, 1.0], [2.0]], [[1, "a"], [2.0, None]], [True, 1.5], []]
HOLES = [float("nan"), float("inf"), -float("inf")]


@pytest.mark.parametrize("document", PLAIN)
def test_plain_documents_are_spelt_as_json_does(document):
    assert json.loads(canonical_json(document)) == document


@pytest.mark.parametrize(
    "odd",
    [[0.0], [-0.0], [0.0, -0.0], [1], [True], ["0.5"], [None], [0.1 + 0.2, 1e22, 5e-324, 1e-7], [-1.5], []],
)
@pytest.mark.parametrize("rows", [list, tuple])
def test_a_large_table_of_floats_that_repeat_is_spelt_as_json_does(odd, rows):
    table = rows(rows(row) for row in [[0.25, 1e-6, 3e16]] * 1500 + [odd])
    expected = json.dumps(table, separators=(",", ":")).encode()
    assert canonical_json(table) == expected
    assert canonical_json({"table": table}) == b'{"table":' + expected + b"}"
    for document in ({"b": 1, "a": table}, {"a": 1}, {}):
        assert b"".join(members(canonical_parts(document))) == canonical_json(document)


@pytest.mark.parametrize("hole", HOLES)
def test_what_is_not_finite_is_refused_in_a_large_table(hole):
    with pytest.raises(ParameterError, match="finite"):
        canonical_json([[0.5, 0.25]] * 1500 + [[hole]])


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b'{"a":' * 100_000, b'{"a":NaN}', b'{"a":1,"a":1}', b'{"a":[{"b":1,"b":2}]}'],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_object_or_can_be_read_in_two_ways(content, tmp_path):
    assert json_object(content) is None
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(FileError, match="is not a plan"):
        read_json(tmp_path / "plan.json", "plan")
    assert json_object(b'{"a":[{"b":1},{"b":2}]}') == {"a": [{"b": 1}, {"b": 2}]}


@pytest.mark.parametrize("hole", HOLES)
@pytest.mark.parametrize(
    "around", [lambda x: [x], lambda x: [1, 2.0, x], lambda x: [[1.0], [x]], lambda x: ["a", x]]
)
def test_what_is_not_finite_is_refused_wherever_it_is(hole, around):
    with pytest.raises(ParameterError, match="finite"):
        canonical_json(around(hole))


@pytest.mark.parametrize("at_once", [1, 3, 1 << 18])
def test_the_digest_of_a_release_is_that_of_the_list_of_its_cells(at_once):
    labels = [("10-19", 'say "no"'), ("10-19", "é, ü"), ("20", "{A, B}"), ("1", "A")]
    for values in (["flu", "cold", None], [10, 9, None]):
        counts = np.array([[3, 0, 1], [0, 0, 0], [12, 1, 0], [0, 10**12, 7]])
        cells = [
            [*labels[row], values[column], int(counts[row, column])]
            for row in range(4)
            for column in range(3)
            if counts[row, column]
        ]
        assert content_digest(labels, values, counts, at_once=at_once) == digest(sorted(cells, key=repr))
    assert content_digest(labels, values, np.zeros((4, 3), dtype=np.int64), at_once=at_once) == digest([])
