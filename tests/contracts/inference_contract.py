"""What a schema inferred through any engine must be."""

import datetime as dt
import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import feather
from tests.contracts.engine_contract import write_csv
from tests.contracts.placement import Placement, needs

from elldelta.errors import DataError, FileError, ParameterError, SchemaError
from elldelta.files import CsvFormat
from elldelta.model.counting import count
from elldelta.model.persons import count_persons
from elldelta.release.content import count_release
from elldelta.release.release import with_plan_columns
from elldelta.schema.infer import propose
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema


class InferenceContract(Placement):
    """Subclasses give `start`, which starts the engine."""

    def test_a_schema_is_inferred_from_text_as_from_typed_columns(self, engine, tmp_path):
        names = ("age", "zip", "code", "born", "x", "s", "junk")
        cells = [
            ("23", "01234", "b", "1999-01-31", "1.5", "u", "?"),
            ("41", "99999", "a", "2001-12-01", "2", "v", "?"),
            (None, "01234", "a", "", "1e1", None, "?"),
        ]
        rows = [dict(zip(names, row, strict=True)) for row in cells]
        write_csv(tmp_path / "t.csv", rows, names)
        table = engine.open(self.place_file(engine, tmp_path / "t.csv"))
        schema = propose(table, ["age", "zip", "code", "born", "x"], "s").schema
        age, zip_code, code, born, x = schema.quasi_identifiers
        assert (age.domain, age.nulls) == (Integers(0, 120), "category")
        assert (zip_code.domain, zip_code.nulls) == (Categories(("01234", "99999"), ordered=True), "refuse")
        assert code.domain == Categories(("a", "b"))
        assert (born.domain, born.nulls) == (Dates(dt.date(1999, 1, 31), dt.date(2001, 12, 1)), "category")
        assert x.domain == Bins((0, 2.0, 19.0))  # no bin more, but room for other owners
        assert "quantile:10" in x.note
        assert (schema.sensitive.domain, schema.sensitive.nulls) == (Categories(("u", "v")), "suppress")
        assert schema.dropped == ("junk",)
        assert count(table, schema).counts.n_records == 2
        typed = pa.table(
            {
                "age": pa.array([23.0, 41.0, float("nan")]),
                "zip": ["01234", "99999", "01234"],
                "code": ["b", "a", "a"],
                "born": pa.array([dt.date(1999, 1, 31), dt.date(2001, 12, 1), None]),
                "x": [1.5, 2.0, 10.0],
                "s": ["u", "v", None],
                "junk": [1, 2, 3],
            }
        )
        assert (
            propose(engine.open(self.place(engine, typed)), ["age", "zip", "code", "born", "x"], "s").schema
            == schema
        )

    def test_bins_are_made_as_told(self, engine):
        table = engine.open(
            pa.table({"x": [0.5, 1.0, 2.5, 9.0], "s": [1, 2, 3, 3], "b": [True, False, True, None]})
        )

        def edges(bins):
            schema = propose(table, ["x", "b"], "s", bins={"x": bins}, widen={"x": "no"}).schema
            return schema.quasi_identifiers[0].domain.edges

        assert edges("width:5") == (0, 5, 10)
        assert edges("width:0.3")[:4] == (0.3, 0.6, 0.9, 1.2)
        assert edges("quantile:2") == (0.5, 1.0, 9.0)
        assert edges("quantile:1") == (0.5, 9.0)
        assert edges("edges:0,3,9") == (0, 3, 9)
        for bad in ("width:0", "width:x", "quantile:0", "edges:1,x", "deciles", "width:-1", "width:1e-9"):
            with pytest.raises(ParameterError, match="cannot be understood"):
                edges(bad)
        with pytest.raises(SchemaError, match="rise"):
            edges("edges:3,1")
        schema = propose(table, ["x", "b"], "s", bins={"s": "edges:0,2,3"}).schema
        assert schema.sensitive.domain == Bins((0, 2, 3))
        assert schema.quasi_identifiers[1].domain == Categories(("true", "false"))
        assert count(table, schema).counts.n_records == 4

    def test_what_cannot_be_inferred_is_refused(self, engine):
        table = engine.open(
            pa.table({"id": [f"p{i}" for i in range(50)], "none": pa.nulls(50, pa.int64()), "s": [1] * 50})
        )
        with pytest.raises(SchemaError, match="too many different texts") as refusal:
            propose(table, ["id"], "s", most_categories=20)
        assert "p7" not in str(refusal.value)
        with pytest.raises(SchemaError, match="no value"):
            propose(table, ["none"], "s")
        with pytest.raises(DataError, match="missing"):
            propose(table, ["age"], "s")
        with pytest.raises(SchemaError, match="sensitive and a quasi-identifier"):
            propose(table, ["s"], "s")

    def test_blank_texts_are_missing_however_many_numbers_there_are(self, engine):
        texts = [*(str(number) for number in range(300)), "", " "]
        table = engine.open(pa.table({"a": texts, "s": ["x"] * len(texts)}))
        [column] = propose(table, ["a"], "s", most_categories=10).schema.quasi_identifiers
        assert (column.domain, column.nulls) == (Integers(0, 400), "category")

    def test_texts_that_stand_for_missing_values_are_no_values(self, engine):
        rows = {
            "vote": ["0", "1", "NA", "1", "0", "99", "1", "0"],
            "age": ["30", "41", "?", "52", "-", "60", " N/A ", "33"],
            "x": ["0.5", "1.5", "NULL", "2.5", "-9", ".", "3.5", "9.25"],
            "land": ["NA", "DE", "None", "NA", "DE", "DE", "NA", "DE"],
            "born": ["1990-01-01", "null", "1991-01-01", "1900-01-01", *["1992-01-01"] * 4],
        }
        table = engine.open(self.place(engine, pa.table(rows)))
        found = propose(
            table,
            ["age", "x", "land", "born"],
            "vote",
            na={"vote": ["99"], "x": ["-9.0"], "born": ["1900-01-01"]},
            not_na={"land": ["NA"]},
        )
        schema = found.schema
        age, x, land, born = schema.quasi_identifiers
        assert (schema.sensitive.domain, schema.sensitive.nulls) == (Integers(0, 1), "suppress")
        assert [profile.n_missing for profile in found.profiles] == [3, 3, 1, 2, 2]
        assert land.domain == Categories(("DE", "NA"))
        assert born.domain == Dates(dt.date(1990, 1, 1), dt.date(1992, 1, 1))
        assert {age.domain.kind, x.domain.kind} == {"integers", "bins"}
        counted = count(table, schema).counts
        assert (counted.n_records, counted.accounting.nulls) == (6, {"vote": 2})
        # What has the same meaning in typed columns is read alike: 99 is 99.0, a moment is its day.
        typed = pa.table(
            {
                "vote": pa.array([0, 1, None, 1, 0, 99, 1, 0], pa.float64()),
                "age": pa.array([30, 41, None, 52, None, 60, None, 33], pa.int64()),
                "x": pa.array([0.5, 1.5, None, 2.5, -9, None, 3.5, 9.25]),
                "land": rows["land"],
                "born": pa.array(
                    [None if text == "null" else dt.datetime.fromisoformat(text) for text in rows["born"]]
                ),
            }
        )
        same = count(engine.open(self.place(engine, typed)), schema).counts
        assert (same.ranks.tolist(), same.values.tolist(), same.n.tolist()) == (
            counted.ranks.tolist(),
            counted.values.tolist(),
            counted.n.tolist(),
        )

    def test_a_schema_without_words_for_missing_values_reads_as_before(self, engine):
        table = engine.open(self.place(engine, pa.table({"a": ["NA", "x", ""], "s": ["NA", "0", "NA"]})))
        domain, listed = Categories(("", "NA", "x")), ("", "NA")
        before = Schema((Column("a", domain, "category"),), Column("s", Categories(("0", "NA"))))
        assert count(table, before).counts.n_records == 3
        assert before.to_dict()["sensitive"][0]["missing"] == []
        # A text that is one of the values is never taken for missing.
        now = Schema((Column("a", domain, "category", missing=listed),), before.sensitive)
        assert count(table, now).counts.ranks.tolist() == count(table, before).counts.ranks.tolist()
        other = Schema(
            (Column("a", Categories(("x",)), "category", missing=listed),),
            Column("s", Categories(("0", "NA"))),
        )
        assert count(table, other).counts.ranks.tolist() == [0, 1]

    def test_a_column_means_the_same_in_every_spelling(self, engine):
        written = {"b": ["TRUE", "FALSE", "TRUE"], "n": ["5.0", "6", "7.00"], "s": ["1.0", "2.0", "1"]}
        typed = {"b": [True, False, True], "n": [5.0, 6.0, 7.0], "s": pa.array([1, 2, 1], pa.int32())}
        frames = [pa.table(written), pa.table(typed)]
        tables = [engine.open(self.place(engine, frame)) for frame in frames]
        by_hand = Schema(
            (Column("b", Categories(("true", "false"))), Column("n", Categories(("5", "6", "7")))),
            Column("s", Categories(("1", "2"))),
        )
        no = {"n": "no"}
        for schema in (by_hand, *(propose(table, ["b", "n"], "s", widen=no).schema for table in tables)):
            first, second = (count(table, schema).counts for table in tables)
            assert first.n_records == second.n_records == 3
            assert first.ranks.tolist() == second.ranks.tolist()
            assert first.values.tolist() == second.values.tolist()
        codes = Categories(("05", "5", "x"))  # a code is no number, and 5.0 is none of its neighbours
        assert codes.encode(pa.array(["05", "5", "5.0", "005", "05.0"])).tolist() == [0, 1, 1, -1, -1]
        assert Categories(("true", "True")).encode(pa.array(["TRUE", "True"])).tolist() == [-1, 1]

    def test_spaces_and_the_form_of_accents_make_no_other_value(self, engine):
        """For plans, releases, persons, checks and foreign audits alike, and in what people write by hand."""
        rows = {
            "town": ["Köln", "Ko\u0308ln ", "\tKöln", "Bonn", "Bonn ", "Bonn"],
            "more": ["x", " x", "y", "x", "y", "y\n"],
            "ill": ["flu", "flu\u00a0", " flu", "ague\u0301", "agué", "\tNA"],
            "who": ["1", " 1", "1", "2", "3", "4"],
        }
        table = engine.open(self.place(engine, pa.table(rows)))
        schema = propose(table, ["town"], "ill").schema
        assert schema.quasi_identifiers[0].domain == Categories(("Bonn", "Köln"))
        assert schema.sensitive.domain == Categories(("flu", "agué"))
        by_hand = Schema(
            (Column("town", Categories((" Bonn", "Ko\u0308ln"))),),
            Column("ill", Categories(("flu ", "ague\u0301")), "suppress", missing=(" NA",)),
        )
        assert by_hand.sensitive.domain == schema.sensitive.domain
        counted = count(table, by_hand)
        assert counted.counts.n.tolist() == [2, 3]
        assert count_persons(counted, "who").counts.n.tolist() == [2, 1]
        tuples = Categories(("x + flu", "y + flu", "x + agué", "y + agué"))
        both = Schema(by_hand.quasi_identifiers, Column("more+ill", tuples, "suppress", missing=("NA",)))
        assert count(table, both).counts.n.tolist() == [1, 1, 2, 1]
        swapped = {"town": {"Ko\u0308ln ": "Bonn", "Bonn": "Ko\u0308ln"}}
        assert count(with_plan_columns(table, schema, values=swapped), schema).counts.n.tolist() == [3, 2]
        shown = count_release(table, ["town"], "ill")
        assert (shown.labels, shown.values) == ((("Bonn",), ("Köln",)), ("NA", "agué", "flu"))
        assert shown.counts.tolist() == [[1, 2, 0], [0, 0, 3]]
        with pytest.raises(SchemaError, match="must differ"):
            Categories(("flu", "flu "))

    def test_people_with_several_records_and_moments_of_other_time_zones(self, engine):
        places = range(60)
        late = dt.datetime(2020, 1, 1, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-2)))
        panel = pa.table(
            {
                "nr": [f"p{place // 3}" for place in places],
                "sex": [place // 3 % 2 for place in places],
                "born": [f"19{50 + place // 3 % 5}" for place in places],
                "seen": pa.array(
                    [late + dt.timedelta(days=place % 4) for place in places], pa.timestamp("us", "UTC")
                ),
                "s": [place % 4 for place in places],
            }
        )
        table = engine.open(self.place(engine, panel))
        found = propose(table, ["sex", "seen"], "s")
        assert [note.value for note in found.warnings if note.parameter == "person"] == ["nr"]
        assert found.schema.quasi_identifiers[1].domain == Dates(dt.date(2020, 1, 2), dt.date(2020, 1, 5))
        assert count(table, found.schema).counts.n_records == 60

    def test_the_words_of_an_owner_are_translated_while_reading(self, engine):
        schema = Schema(
            (
                Column("zip", Categories(("01", "1"))),
                Column("sex", Categories(("F", "M"))),
                Column("old", Categories(("no", "yes"))),
            ),
            Column("ill", Integers(0, 3)),
        )
        rows = {
            "ZIP": ["01", "1 ", "1", "01"],
            "sex": pa.array([1, 2, 2, 1]),
            "over 60": [True, False, False, True],
            "ill": ["flu", "it's", "3", "flu"],
        }
        table = engine.open(self.place(engine, pa.table(rows)))
        found = with_plan_columns(
            table,
            schema,
            {"ZIP": "zip", "over 60": "old"},
            {
                "zip": {"1": "1"},
                "sex": {"1": "M", "2.0": "F"},
                "old": {"true": "yes", "false": "no"},
                "ill": {"flu": "0", "it's": "1"},
            },
        )
        counts = count(found, schema).counts
        assert schema.unrank(counts.ranks).tolist() == [[0, 1, 1], [1, 0, 0]]
        assert counts.n_records == 4
        assert count(found, schema).counts.values.tolist() == [0, 1, 3]
        for columns, values in (
            ({"ZIP": "zap"}, {}),
            ({"over 60": "sex"}, {}),
            ({}, {"sex": {"1": "X"}}),
            ({}, {"gender": {"1": "F"}}),
        ):
            with pytest.raises(ParameterError):
                with_plan_columns(table, schema, columns, values)
        with pytest.raises(DataError, match="another name"):
            with_plan_columns(table, schema, {"ZIP": "zip"})
        with pytest.raises(DataError, match="missing"):
            with_plan_columns(table, schema, {"PLZ": "zip"})

    def test_a_table_is_the_same_in_every_format(self, engine, tmp_path):
        needs(engine, "formats")
        rows = [{"zip": "01", "age": "5", "s": "é"}, {"zip": "1", "age": None, "s": "x,y"}]
        names = ("zip", "age", "s")
        write_csv(tmp_path / "a.csv", rows, names)
        for encoding in ("utf-16", "utf-16-le", "latin-1"):
            write_csv(tmp_path / f"{encoding}.csv", rows, names, encoding=encoding)
        lines = "".join(json.dumps({**row, "more": [1, {}]}) + "\n\n" for row in rows)
        (tmp_path / "b.jsonl").write_text(lines, encoding="utf-8")
        (tmp_path / "b.ndjson.gz").write_bytes(gzip.compress(lines.replace('"5"', "5").encode("utf-8")))
        table = pa.Table.from_pylist(rows)
        feather.write_feather(table, tmp_path / "c.feather", compression="zstd")
        typed = table.set_column(1, "age", table["age"].cast(pa.int64()))
        typed = typed.set_column(2, "s", table["s"].dictionary_encode())
        with (
            pa.OSFile(str(tmp_path / "d.arrow"), "wb") as file,
            pa.ipc.new_file(file, typed.schema) as writer,
        ):
            writer.write_table(typed)
        schema = propose(engine.open(tmp_path / "a.csv"), ["zip", "age"], "s").schema
        wanted = count(engine.open(tmp_path / "a.csv"), schema).counts
        assert wanted.n_records == 2
        for name in ("utf-16.csv", "b.jsonl", "b.ndjson.gz", "c.feather", "d.arrow"):
            found = count(engine.open(tmp_path / name), schema).counts
            assert (found.ranks.tolist(), found.n_records) == (wanted.ranks.tolist(), 2)
        for name in ("utf-16-le.csv", "latin-1.csv"):
            with pytest.raises(FileError, match="encoding"):
                count(engine.open(tmp_path / name), schema)
            told = engine.open(tmp_path / name, CsvFormat(encoding=name.removesuffix(".csv")))
            assert count(told, schema).counts.n_records == 2
