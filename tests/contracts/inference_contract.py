"""What a schema inferred through any engine must be."""

import datetime as dt

import pyarrow as pa
import pytest
from tests.contracts.engine_contract import write_csv
from tests.contracts.placement import Placement

from elldelta.errors import DataError, ParameterError, SchemaError
from elldelta.model.counting import count
from elldelta.schema.infer import infer_schema
from elldelta.schema.schema import Bins, Categories, Dates, Integers


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
        schema = infer_schema(table, ["age", "zip", "code", "born", "x"], "s")
        age, zip_code, code, born, x = schema.quasi_identifiers
        assert (age.domain, age.nulls) == (Integers(23, 41), "category")
        assert (zip_code.domain, zip_code.nulls) == (Categories(("01234", "99999"), ordered=True), "refuse")
        assert code.domain == Categories(("a", "b"))
        assert (born.domain, born.nulls) == (Dates(dt.date(1999, 1, 31), dt.date(2001, 12, 1)), "category")
        assert x.domain == Bins((1.5, 2.0, 10.0))
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
            infer_schema(engine.open(self.place(engine, typed)), ["age", "zip", "code", "born", "x"], "s")
            == schema
        )

    def test_bins_are_made_as_told(self, engine):
        table = engine.open(
            pa.table({"x": [0.5, 1.0, 2.5, 9.0], "s": [1, 2, 3, 3], "b": [True, False, True, None]})
        )

        def edges(bins):
            return infer_schema(table, ["x", "b"], "s", bins={"x": bins}).quasi_identifiers[0].domain.edges

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
        schema = infer_schema(table, ["x", "b"], "s", bins={"s": "edges:0,2,3"})
        assert schema.sensitive.domain == Bins((0, 2, 3))
        assert schema.quasi_identifiers[1].domain == Categories(("true", "false"))
        assert count(table, schema).counts.n_records == 4

    def test_what_cannot_be_inferred_is_refused(self, engine):
        table = engine.open(
            pa.table({"id": [f"p{i}" for i in range(50)], "none": pa.nulls(50, pa.int64()), "s": [1] * 50})
        )
        with pytest.raises(SchemaError, match="too many different texts") as refusal:
            infer_schema(table, ["id"], "s", most_categories=20)
        assert "p7" not in str(refusal.value)
        with pytest.raises(SchemaError, match="no value"):
            infer_schema(table, ["none"], "s")
        with pytest.raises(DataError, match="missing"):
            infer_schema(table, ["age"], "s")
        with pytest.raises(SchemaError, match="sensitive and a quasi-identifier"):
            infer_schema(table, ["s"], "s")

    def test_blank_texts_are_missing_however_many_numbers_there_are(self, engine):
        texts = [*(str(number) for number in range(300)), "", " "]
        table = engine.open(pa.table({"a": texts, "s": ["x"] * len(texts)}))
        [column] = infer_schema(table, ["a"], "s", most_categories=10).quasi_identifiers
        assert (column.domain, column.nulls) == (Integers(0, 299), "category")
