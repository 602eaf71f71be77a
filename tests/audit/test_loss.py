"""The information loss of releases that come without a manifest, from nothing but their labels."""

import pandas as pd
import pytest

import elldelta as ed
from elldelta.audit.columns import ForeignColumns
from elldelta.schema.column import Column
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.label_columns import understand_column
from elldelta.schema.schema import Schema


def spans(*labels):
    column = understand_column("c", [set(labels)])
    assert not column.problems
    return {each.label: span for each, span in zip(column.meanings, column.spans, strict=True)}


def test_what_labels_span_of_what_they_name():
    """By hand: 20 to 69, and one step below and above for open ends, are 51 steps; numbers have lengths."""
    found = spans("20-29", "25", "60+", "30-59", "<=69", "*")
    assert found == {
        "20-29": pytest.approx(9 / 51),
        "25": 0.0,
        "60+": pytest.approx(10 / 51),
        "30-59": pytest.approx(29 / 51),
        "<=69": pytest.approx(50 / 51),
        "*": 1.0,
    }
    assert spans("[0, 2.5)", "[2.5, 10)") == {"[0, 2.5)": 0.25, "[2.5, 10)": 0.75}
    assert spans("a", "{a, b}", "c") == {"a": 0.0, "{a, b}": 0.5, "c": 0.0}
    assert spans("*") == {"*": 1.0}
    assert spans("a") == {"a": 0.0}


def test_a_release_without_its_manifest_loses_as_much_over_the_same_range():
    """Where labels, a schema and the past tell the same range, all three ways come to one number."""
    schema = Schema((Column("age", Integers(20, 49)),), Column("disease", Categories(("a", "b", "c"))))
    table = pd.DataFrame({"age": [*range(20, 50)] * 40, "disease": list("abc") * 400})
    plan = ed.plan(ed.estimate(table, schema), ell=2, releases=1, records=100)
    assert plan.n_classes > 2
    release = ed.release(table, plan)
    by_labels = ed.audit([release.table], columns=ForeignColumns(("age",), "disease"), ell=2)
    by_schema = ed.audit([release.table], columns=schema, ell=2)
    by_manifest = ed.audit([release])
    losses = [found.releases[0].loss for found in (by_manifest, by_schema, by_labels)]
    assert losses[0] == release.manifest.loss == plan.loss(ed.estimate(table, schema))
    assert losses[1] == pytest.approx(losses[0])
    assert losses[2] == pytest.approx(losses[0], abs=0.01)
    assert [found.range_of_loss.split(",")[0] for found in (by_manifest, by_schema, by_labels)] == [
        "over the range that was seen in the past",
        "over the domains of the schema",
        "over the range that labels name",
    ]


def test_tables_in_memory_are_told_apart():
    table = pd.DataFrame({"age": [*range(20, 50)] * 4, "disease": list("abc") * 40})
    columns = ForeignColumns(("age",), "disease")
    names = [item.name for item in ed.audit([table, table.copy()], columns=columns, ell=2).releases]
    assert names == ["release 1 in memory", "release 2 in memory"]
    assert ed.audit([table], columns=columns, ell=2).releases[0].name == "a release in memory"
