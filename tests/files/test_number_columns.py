"""Columns of whole numbers: what arrays say is what JSON says, written in the one way that there is."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elldelta.core.box_tree import BoxTree
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError
from elldelta.files import NumberColumn, canonical_json, digest, json_object
from elldelta.plan.classes import Boxes
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.plan import Plan, read_plan
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema


def as_lists(document):
    if isinstance(document, NumberColumn):
        return document.numbers.tolist()
    if isinstance(document, dict):
        return {name: as_lists(member) for name, member in document.items()}
    return [*map(as_lists, document)] if isinstance(document, list) else document


LONG = st.tuples(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1, max_size=9), st.integers(0, 3))


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=3), st.tuples(LONG, st.text(max_size=3)), max_size=3))
def test_columns_are_what_plain_json_is(members):
    document = {
        name: [{"column": (numbers * 1200)[: 900 + 60 * extra], "": text}, text]
        for name, ((numbers, extra), text) in members.items()
    }
    content = canonical_json(document)
    assert content == json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    read = json_object(content, columns=True)
    assert as_lists(read) == document == json_object(content)


def test_a_digest_is_that_of_lists_and_of_arrays():
    numbers = np.random.default_rng(0).integers(-5, 10**6, 400_000)
    made = {"b": NumberColumn.of(numbers), "a": 1, "c": {"d": NumberColumn.of(numbers[:5000] % 7)}}
    plain = as_lists(made)
    assert canonical_json(made) == canonical_json(plain)
    read = json_object(canonical_json(made), columns=True)
    assert digest(made) == digest(plain) == digest(read)
    assert isinstance(read["b"], NumberColumn)
    assert read["c"]["d"].numbers.dtype == np.int32
    assert not read["b"].numbers.flags.writeable


@pytest.mark.parametrize(
    "numbers",
    [
        "007",
        "-0",
        "1,,2",
        "1,",
        "1-2",
        "--1",
        "1.5",
        "+1",
        "1 ",
        "1000000000000000000",
        "9" * 30,
        "true",
        "1e3",
    ],
)
def test_numbers_written_in_another_way_are_no_column(numbers):
    content = f'{{"a":[{"1," * 2000}{numbers}]}}'.encode()
    try:
        expected = json.loads(content)
    except ValueError:
        expected = None
    read = json_object(content, columns=True)
    assert read == expected
    assert not isinstance((read or {"a": 0})["a"], NumberColumn)


@pytest.mark.parametrize(
    "strange", ['{"":0}', '{"":1}', '{"":7}', '":[1,2]', '"\\":[LONG]"', '":[LONG]"', '{"":true}']
)
def test_texts_and_objects_that_look_like_columns_stay_what_they_are(strange):
    long = ",".join(["12"] * 1000)
    strange = strange.replace("LONG", long)
    for content in (f'{{"a":{strange},"b":[{long}]}}', f'{{"a":[{long}],"b":[{strange}]}}'):
        try:
            expected = json.loads(content)
        except ValueError:
            expected = None
        assert as_lists(json_object(content.encode(), columns=True)) == expected


def crafted(n_classes, n_values, n_witnesses=1):
    """A plan of few bytes for tables with many cells."""
    depth_first = [0, -1] * (n_classes - 1) + [-1]
    places = [number for place in range(n_classes - 1) for number in (place, 0)] + [0]
    schema = Schema(
        (Column("q", Integers(0, n_classes - 1)),),
        Column("s", Categories(tuple(map(str, range(n_values))))),
    )
    return Plan(
        schema=schema,
        classes=Boxes(BoxTree(np.array(depth_first), np.array(places), schema.sizes)),
        columns=(
            ColumnPlan(
                1, 0.0, None,
                Witnesses(np.full(n_classes, n_witnesses), np.tile(np.arange(n_witnesses), n_classes)),
                np.full(n_classes * n_witnesses, 5), 5 * n_classes * n_witnesses,
            ),
        ),
        delta=0.01,
        releases=1,
        records=10**9,
        kind="certified",
        min_records=1,
    )  # fmt: skip


def test_a_small_file_does_not_ask_for_much_memory():
    """10^9 cells of classes and values: written out, a byte for each would be a gigabyte."""
    content = crafted(2_000, 500_000).file_content[1]
    assert len(content) < 6e6
    tracemalloc.start()
    try:
        Plan.from_dict(json_object(content, columns=True))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3e8


def test_a_plan_is_checked_without_its_file_in_memory(tmp_path):
    """1.2 million witnesses: 8 MB of text, 9.6 MB of numbers, and 6 MB to see that none is there twice."""
    path = tmp_path / "plan.json"
    path.write_bytes(crafted(200, 6_000, 6_000).file_content[1])
    read = read_plan(path)  # what is imported is no part of the question
    tracemalloc.start()
    try:
        read = read_plan(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.columns[0].witnesses.values.size == 1_200_000
    assert peak < 1.15 * (kept + path.stat().st_size)


def test_a_tree_over_too_many_columns_is_refused():
    n_nodes = 2**19 + 1
    attributes = np.where(np.arange(n_nodes) % 2 == 0, 0, -1)
    attributes[-1] = -1
    with pytest.raises(ParameterError, match="too large"):
        BoxTree(attributes, np.zeros(n_nodes, int), (2**20,) * 200)
