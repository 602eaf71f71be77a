"""Whether rows are in order, against the definition: by class and value, row by row."""

import _thread
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.release.hospital_tables import people

import elldelta as ed
from elldelta.engines.duckdb import connect
from elldelta.release import open_published
from elldelta.release.row_checks import is_as_made
from elldelta.release.rows import ReleaseRows

FORMS = {
    "plain": lambda column: column,
    "large": lambda column: column.cast(pa.large_string()),
    "coded": lambda column: column.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    "coded without a sign": lambda column: column.dictionary_encode().cast(
        pa.dictionary(pa.uint16(), pa.string())
    ),
    "coded twice": lambda column: pa.DictionaryArray.from_arrays(
        pa.array(
            [None if value is None else place for place, value in enumerate(column.to_pylist())], pa.int32()
        ),
        column,
    ),
}
"""Ways to hold texts; in the last one every cell has an entry of its own, alike or not."""


@pytest.fixture(scope="module")
def manifest():
    """The manifest of a release; a missing disease is a value."""
    table = people(1500, 1)
    table.loc[::9, "disease"] = None
    schema = ed.Schema.infer(table, ["age", "zip"], "disease")
    schema = replace(schema, sensitive=replace(schema.sensitive, nulls="category"))
    plan = ed.plan(ed.estimate(table, schema), ell=3, releases=1, records=1000, delta=0.01)
    return ed.release(table, plan).manifest


@pytest.fixture(scope="module")
def engine():
    with connect() as engine:
        yield engine


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_are_in_order_if_none_comes_before_the_one_above(manifest, engine, data):
    labels, values = manifest.labels, manifest.schema.sensitive.released_values().to_pylist()
    assert None in values
    keys = st.tuples(st.integers(0, len(labels) - 1), st.integers(0, len(values) - 1))
    rows = sorted(data.draw(st.lists(keys, min_size=1, max_size=12)) * data.draw(st.integers(1, 2)))
    if data.draw(st.booleans()):
        rows = data.draw(st.permutations(rows))
    expected = all(above <= below for above, below in pairwise(rows))
    counts = np.zeros((len(labels), len(values)), dtype=np.int64)
    np.add.at(counts, tuple(np.array(rows).T), 1)
    form = FORMS[data.draw(st.sampled_from(sorted(FORMS)))]
    cells = [
        *(
            (name, [labels[row][place] for row, _ in rows])
            for place, name in enumerate(manifest.schema.names)
        ),
        ("disease", [values[value] for _, value in rows]),
    ]
    whole = pa.table({name: form(pa.array(texts, pa.string())) for name, texts in cells})
    cut = data.draw(st.integers(0, len(rows)))
    table = engine.open(pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]))
    assert is_as_made(table, ReleaseRows(manifest.schema, manifest.labels, counts)) is expected


def test_an_interrupt_is_heard_while_rows_are_compared(tmp_path, monkeypatch):
    table = pa.table({"age": [str(n % 4) for n in range(400)], "disease": list("abcd") * 100})
    plan = ed.plan(
        ed.estimate(table, ed.Schema.infer(table, ["age"], "disease")), ell=2, releases=1, records=400
    )
    ed.release(table, plan, to=tmp_path / "release.parquet")
    ends = []

    def for_ever(table, rows, progress):
        _thread.interrupt_main()
        try:
            while True:
                progress(0.5)
                time.sleep(0.001)
        except KeyboardInterrupt:
            ends.append("stopped")
            raise

    monkeypatch.setattr("elldelta.release.published.is_as_made", for_ever)
    with pytest.raises(KeyboardInterrupt):
        open_published(tmp_path / "release.parquet")
    assert ends == ["stopped"]
