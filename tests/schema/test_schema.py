import datetime as dt
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.engines.cells import spelling
from elldelta.errors import ParameterError, SchemaError
from elldelta.files import canonical_json, digest
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema

AGE = Column("age", Integers(0, 99))
GENDER = Column("gender", Categories(("F", "M")), "category")
DISEASE = Column("disease", Categories(("flu", "cold")))

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(spelling)
domains = st.one_of(
    st.builds(
        lambda a, b, w: Integers(a, a + b, w), st.integers(-9, 9), st.integers(0, 9), st.integers(1, 4)
    ),
    st.builds(
        lambda low, days, unit: Dates(low, low + dt.timedelta(days=days), unit),
        st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
        st.integers(0, 500),
        st.sampled_from(["day", "month", "year"]),
    ),
    st.builds(Categories, st.lists(texts, min_size=1, max_size=30, unique=True).map(tuple), st.booleans()),
    st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=5, unique=True).map(
        lambda edges: Bins(tuple(sorted(edge + 0.0 for edge in edges)))
    ),
)


@st.composite
def schemas(draw):
    taken = draw(st.lists(names, min_size=4, max_size=8, unique_by=str.casefold))
    policies = st.sampled_from(["category", "refuse", "suppress"])
    sensitive = Column(taken[0], draw(domains.filter(lambda d: not isinstance(d, Dates))), draw(policies))
    columns = tuple(Column(name, draw(domains), draw(policies), draw(texts)) for name in taken[1:-2])
    return Schema(columns, sensitive, dropped=tuple(taken[-2:]))


@given(schemas())
def test_toml_and_json_give_the_schema_back(schema):
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert Schema.from_toml(schema.to_toml()).digest == schema.digest


@given(schemas(), st.data())
def test_ranks_count_combinations_in_lexicographic_order(schema, data):
    rows = data.draw(
        st.lists(st.tuples(*(st.integers(0, size - 1) for size in schema.sizes)), min_size=1, max_size=20)
    )
    ranks = schema.ranks(rows)
    assert schema.unrank(ranks).tolist() == [list(row) for row in rows]
    assert [row for _, row in sorted(zip(ranks.tolist(), rows, strict=True))] == sorted(rows)
    assert 0 <= ranks.min() <= ranks.max() < schema.n_combinations


def test_ranks_fill_the_whole_range():
    schema = Schema((GENDER, Column("age", Integers(0, 4))), DISEASE)
    assert schema.sizes == (3, 5)
    rows = [(g, a) for g in range(3) for a in range(5)]
    assert schema.ranks(rows).tolist() == list(range(15))


def test_positions_outside_are_refused():
    schema = Schema((GENDER, AGE), DISEASE)
    for bad in ([[0, 100]], [[-1, 0]], [[0]], [0, 1]):
        with pytest.raises(ParameterError):
            schema.ranks(bad)
    with pytest.raises(ParameterError):
        schema.unrank([300])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Schema((AGE,), AGE), "sensitive and a quasi-identifier"),
        (lambda: Schema((AGE, AGE), DISEASE), "twice"),
        (lambda: Schema((AGE, Column("AGE", Integers(0, 1))), DISEASE), "twice"),
        (lambda: Schema((), DISEASE), "at least one"),
        (lambda: Schema((AGE,), DISEASE, dropped=("age",)), "twice"),
        (lambda: Schema((AGE,), DISEASE, dropped=("a", "A")), "twice"),
        (lambda: Schema((AGE,), DISEASE, dropped=("",)), "name"),
        (
            lambda: Schema((AGE,), Column("d", Dates(dt.date(2000, 1, 1), dt.date(2001, 1, 1)))),
            "cannot hold dates",
        ),
        (
            lambda: Schema(tuple(Column(f"c{i}", Integers(0, 2**22)) for i in range(3)), DISEASE),
            "too many combinations",
        ),
    ],
)
def test_contradictions_are_refused(make, words):
    with pytest.raises(SchemaError, match=words) as refusal:
        make()
    assert refusal.value.found
    assert refusal.value.remedy


def test_notes_and_dropped_columns_do_not_change_the_digest():
    plain = Schema((AGE,), DISEASE)
    noted = Schema((Column("age", Integers(0, 99), note="edited"),), DISEASE, dropped=("x",))
    assert plain.digest == noted.digest
    assert "# edited" in noted.to_toml()
    assert plain.digest != Schema((Column("age", Integers(0, 98)),), DISEASE).digest


TOML = """\
format = 1
dropped = []

[[quasi_identifiers]]
name = "age"  # years
kind = "integers"
low = 0
high = 99
width = 1

[[quasi_identifiers]]
name = 'post = code'
nulls = "category"
kind = "categories"
values = [
  "a # b",  # not a comment
  \"\"\"
kind = 1
[[sensitive]]
\"\"\",
  '[[x]]',
]

[[quasi_identifiers]]
name = "born"
kind = "dates"
low = 1990-01-01
high = "1999-12"
unit = "month"

[[sensitive]]
name = "income"
kind = "bins"
edges = [0, 10, 20.5]
"""


def test_a_schema_written_by_hand_is_read():
    schema = Schema.from_toml(TOML)
    assert schema.names == ("age", "post = code", "born")
    assert schema.quasi_identifiers[1].domain.values == ("a # b", "kind = 1\n[[sensitive]]", "[[x]]")
    assert schema.quasi_identifiers[2].domain == Dates(dt.date(1990, 1, 1), dt.date(1999, 12, 1), "month")
    assert schema.sensitive.domain == Bins((0, 10, 20.5))
    assert Schema.from_toml(TOML.replace("1990-01-01", "1990-01-01T00:00:00")) == schema


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("format = 1", "format = 3", 1),
        ("format = 1", "format = 0", 1),
        ("dropped = []", "kept = []", 2),
        ("dropped = []", 'dropped = "a"', 2),
        ("dropped = []", "dropped = [1]", 2),
        ("dropped = []", 'dropped = ["Age"]', 2),
        ('kind = "integers"\n', "", 4),
        ('kind = "integers"', 'kind = "integer"', 6),
        ("low = 0", "low = 100", 7),
        ("high = 99", 'high = "99"', 8),
        ("high = 99\n", "", 4),
        ("width = 1", "width = 0", 9),
        ("width = 1", "witdh = 1", 9),
        ("name = 'post = code'", 'name = "age"', 12),
        ('nulls = "category"', 'nulls = "keep"', 13),
        ("'[[x]]'", "'a # b'", 15),
        ('low = 1990-01-01\nhigh = "1999-12"', 'low = "1990-13"\nhigh = "1999-12"', 27),
        ('unit = "month"', 'unit = "week"', 29),
        ('unit = "month"\n', "", 24),
        ("low = 1990-01-01", "low = 1990", 27),
        ('name = "income"', 'name = ""', 32),
        ('name = "income"', 'name = "born"', 32),
        ("edges = [0, 10, 20.5]", "edges = [0, 20.5, 10]", 34),
        ("edges = [0, 10, 20.5]", "edges = [0, nan]", 34),
        ("edges = [0, 10, 20.5]", "edges = [0, 10, 20.5", 34),
        ("edges = [0, 10, 20.5]", "edges = [0, 10, 20.5]\nnote = 1", 35),
        ("[[sensitive]]\nname", "[[sensitiv]]\nname", 31),
    ],
)
def test_mistakes_are_refused_with_their_line(old, new, line):
    assert old in TOML
    with pytest.raises(SchemaError) as refusal:
        Schema.from_toml(TOML.replace(old, new), source="schema.toml")
    assert "schema.toml" in str(refusal.value)
    if new != "edges = [0, 10, 20.5":  # the parser notices a missing bracket only at the end
        assert f"line {line}" in str(refusal.value), str(refusal.value)


def test_a_document_names_the_place_of_a_mistake():
    document = Schema((AGE,), DISEASE).to_dict()
    document["quasi_identifiers"][0]["width"] = 0
    with pytest.raises(SchemaError, match=r"quasi_identifiers\[0\].width"):
        Schema.from_dict(document)
    with pytest.raises(SchemaError):
        Schema.from_dict([])
    with pytest.raises(SchemaError):
        Schema.from_dict({"format": 1, "quasi_identifiers": {}, "sensitive": {}})


@given(
    st.dictionaries(st.text(max_size=3).filter(str.isprintable), st.integers() | st.floats(-1, 1) | st.none())
)
def test_canonical_json_is_json_and_ignores_the_order_of_keys(document):
    turned = dict(reversed(document.items()))
    assert canonical_json(document) == canonical_json(turned)
    assert json.loads(canonical_json(document)) == document
    assert digest(document).startswith("sha256:")


@pytest.mark.parametrize(
    "document", [{1: 2}, [float("nan")], {"a": float("inf")}, {"a": np.int64(1)}, ["\ud800"], {"a": {1, 2}}]
)
def test_what_is_not_plain_json_has_no_digest(document):
    with pytest.raises(ParameterError):
        canonical_json(document)


def test_the_schema_needs_neither_arrow_nor_an_engine_to_load():
    import subprocess

    code = (
        "import sys, elldelta.schema.schema, elldelta.model.model; "
        "sys.exit(any(name in sys.modules for name in ('duckdb', 'pyarrow', 'pandas', 'polars')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
