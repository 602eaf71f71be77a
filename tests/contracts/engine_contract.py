"""What every engine must do, checked against a pure Python oracle. A new engine adds a subclass, no test."""

import contextlib
import datetime as dt
import gzip
import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.placement import Placement, needs
from tests.ledger.living import World
from tests.oracles import tables as oracle
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.core.checks import check_whole
from elldelta.core.weights import UNITS
from elldelta.engines import Query, TableName, sql
from elldelta.errors import DataError, FileError, ParameterError
from elldelta.files import AtomicFiles, CsvFormat
from elldelta.model import Model, estimate_by_region, split_model
from elldelta.model.counting import count
from elldelta.model.noise import with_fewer_rows
from elldelta.model.persons import count_persons
from elldelta.release.content import count_release
from elldelta.release.publishable import Publishable
from elldelta.release.quarantine import write_quarantine
from elldelta.release.release import with_plan_columns
from elldelta.release.rows import released_rows, write_release
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema, Weight


def examples(number):
    """How many random tables a property is tried on."""
    return settings(max_examples=number, suppress_health_check=[HealthCheck.too_slow])


DOMAIN = ("a", "é", 'q"q', "x,y", "l\nb", "'s", "", "07", "7", "*", "(missing)", "NULL", "日本")
CELLS = [*DOMAIN, "b", " ", "e\u0301", " a", "\u00a0a\t"]
HOSTILE = (
    *("", "a\\'b", "a\\'') OR 1 = 1 --", "\\') IS NULL THEN 1 ELSE 2 END AS k0 --", "C:\\new\\u0041\\101"),
    *("${env:HOME}", "${system:user.name}", "$$;", "%_\\%", "a\nb", "/*", "?", "$1", ":x", "{x}", "U&'x'"),
)
DAYS = (dt.date(1999, 11, 20), dt.date(2000, 2, 3))


def text_schema(nulls="category"):
    """Text columns with names that try to break SQL."""
    return Schema(
        (
            Column('sel"ect', Categories(DOMAIN), nulls),
            Column("group by", Integers(0, 9, 3), nulls),
            Column("raw", Dates(*DAYS, "month"), "suppress"),
            Column("k0", Bins((0, 0.1, 5, 7)), nulls),
        ),
        Column("naïve 'x'", Categories(("flu", "HIV, late", 'c"')), nulls),
    )


NAMES = [*text_schema().columns, "extra"]
TEXT_TOKENS = dict(
    zip(
        NAMES,
        [("", "b", "NULL"), ("5", "x"), ("1999-11-20", "2001-01-01"), ("5", "z"), ("other",)],
        strict=False,
    )
)
TYPED_TOKENS = {
    "n": ("3", "-3.0"),
    "f": ("5", "1.5"),
    "r": ("0", "2.25"),
    "t": ("1999-11-20",),
    "b": ("true",),
}
"""Texts that stand for a missing value: outside and inside of domains, as texts, numbers and days."""


def with_tokens(schema, tokens):
    """The same schema, in which columns list what stands for a missing value."""
    *columns, sensitive = [
        replace(column, missing=tokens.get(column.name, ())) for column in schema.counted_columns
    ]
    return replace(schema, quasi_identifiers=tuple(columns), sensitive=sensitive)


text_rows = st.lists(
    st.fixed_dictionaries(
        {
            NAMES[0]: st.none() | st.sampled_from(CELLS),
            NAMES[1]: st.none() | st.sampled_from(["0", "1", "5", "9", "10", "x", " 3", "4.0", "", "1e0x"]),
            NAMES[2]: st.none() | st.sampled_from(["1999-11-20", "2000-01-31", "2000-02-30", "2001-01-01"]),
            NAMES[3]: st.none()
            | st.sampled_from(["0", "0.1", "0.09", "5e0", "7", "7.1", "-1", "nan", "", "z"]),
            NAMES[4]: st.none() | st.sampled_from(["flu", "HIV, late", 'c"', "other"]),
            NAMES[5]: st.none() | st.sampled_from(CELLS),
        }
    ),
    max_size=25,
)


def typed_schema():
    return Schema(
        (
            Column("n", Integers(-2, 5), "category"),
            Column("f", Integers(0, 5), "category"),
            Column("r", Bins((-1.5, 0, 2.25, 1e6)), "suppress"),
            Column("d", Dates(*DAYS), "category"),
            Column("t", Dates(*DAYS, "month"), "category"),
            Column("b", Categories(("true", "false")), "category"),
        ),
        Column("s", Integers(0, 3), "category"),
    )


days = st.sampled_from([DAYS[0], DAYS[1], dt.date(1999, 12, 31), dt.date(2005, 1, 1)])
typed_rows = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-3, 6),
            "f": st.none() | st.sampled_from([0.0, -0.0, 1.0, 5.0, 1.5, float("inf"), float("nan")]),
            "r": st.none()
            | st.sampled_from([-1.5, -0.0, 0.0, 2.25, 1e6, 1e6 + 1, float("-inf"), float("nan"), -2.0]),
            "d": st.none() | days,
            "t": st.none() | days.map(lambda day: dt.datetime(day.year, day.month, day.day, 23, 59, 59)),
            "b": st.none() | st.booleans(),
            "s": st.none() | st.integers(0, 4),
        }
    ),
    max_size=25,
)
TYPES = pa.schema(
    {
        "n": pa.int32(),
        "f": pa.float64(),
        "r": pa.float64(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "b": pa.bool_(),
        "s": pa.int64(),
    }
)


def to_arrow(rows, names=NAMES):
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names})


def write_csv(path, rows, names=NAMES, separator=",", encoding="utf-8", opener=open):
    """CSV as a careful program writes it: a missing value is empty, an empty text is quoted."""

    def field(cell):
        return "" if cell is None else '"' + cell.replace('"', '""') + '"'

    with opener(path, "wt", encoding=encoding, newline="") as file:
        file.write(separator.join(map(field, names)) + "\r\n")
        for row in rows:
            file.write(separator.join(field(row[name]) for name in names) + "\r\n")


def check_counts(counts, rows, schema):
    cells, losses, nulls, unknown = oracle.count(rows, schema)
    found = {
        (tuple(counts.positions[row].tolist()), int(value)): int(n)
        for row, value, n in zip(counts.rows, counts.values, counts.n, strict=True)
    }
    assert found == cells
    accounting = counts.accounting
    assert {name: getattr(accounting, name) for name in losses} == losses
    assert dict(accounting.nulls) == dict(nulls)
    assert dict(accounting.unknown) == dict(unknown)


def content_of(counts, schema, leave_out=False):
    """Classes by the first quasi-identifier in pairs of positions; everything else is generalized away."""
    first = schema.quasi_identifiers[0]
    halves = counts.positions[:, 0] // 2
    used, class_of = np.unique(halves, return_inverse=True)
    labels = [label_row(schema, (2 * half,)) for half in used.tolist()]
    assert first.size > 2
    if leave_out and labels:
        class_of = np.where(class_of == 0, -1, class_of)
    shown = counts.by_class(class_of, len(labels))
    return Publishable(schema, None, labels, shown, counts.accounting), used


def label_row(schema, places):
    first, *others = schema.quasi_identifiers
    low = places[0] // 2 * 2
    return (first.label(low, min(low + 1, first.size - 1)), *("*" for _ in others))


def several_schema():
    """Two sensitive columns: s and u as one composite column, and t."""
    tuples = tuple(f"{s} + {u}" for s in "xyz" for u in ("on", "off"))
    return Schema(
        (Column("age", Integers(0, 9)),),
        Column("s+u", Categories(tuples), "suppress", missing=("-",)),
        also_sensitive=(Column("t", Integers(1, 2), "category"),),
    )


class EngineContract(Placement):
    """Subclasses give `start`, which starts the engine.

    Random tables are tried inside of the tests, so that an engine that is slow to answer can try fewer.
    """

    n_examples = quick_or_all(12, 24)

    @staticmethod
    def start(**settings):
        raise NotImplementedError

    # Counting

    def test_counts_of_text_equal_the_definition(self, engine):
        @examples(self.n_examples)
        @given(text_rows, st.booleans())
        def holds(rows, tokens):
            schema = with_tokens(text_schema(), TEXT_TOKENS if tokens else {})
            counted = count(engine.open(self.place(engine, to_arrow(rows))), schema, unknown="quarantine")
            check_counts(counted.counts, rows, schema)

        holds()

    def test_counts_of_typed_columns_equal_the_definition(self, engine):
        @examples(self.n_examples)
        @given(typed_rows, st.booleans())
        def holds(rows, tokens):
            schema = with_tokens(typed_schema(), TYPED_TOKENS if tokens else {})
            table = pa.table(
                {name: pa.array([row[name] for row in rows], TYPES.field(name).type) for name in TYPES.names}
            )
            counted = count(engine.open(self.place(engine, table)), schema, unknown="quarantine")
            check_counts(counted.counts, rows, schema)

        holds()

    def test_persons_are_counted_once_per_value_and_once(self, engine):
        @examples(self.n_examples)
        @given(text_rows, st.lists(st.sampled_from(["p", "q", "p'q", "ü"]), min_size=25, max_size=25))
        def holds(rows, names):
            rows = [{**row, "who": name} for row, name in zip(rows, names, strict=False)]
            schema = text_schema()
            table = engine.open(self.place(engine, to_arrow(rows, [*NAMES, "who"])))
            counted = count(table, schema, unknown="quarantine")
            found = count_persons(counted, "who").counts
            cells, people = oracle.persons(rows, schema, "who")
            positions = [tuple(row) for row in found.positions.tolist()]
            assert cells == {
                (positions[row], int(value)): int(n)
                for row, value, n in zip(found.rows, found.values, found.n, strict=True)
            }
            assert people == {
                place: n for place, n in zip(positions, found.persons.tolist(), strict=True) if n
            }
            before, after = counted.counts.accounting, found.accounting
            assert after.n_repeated == before.n_counted - sum(cells.values())
            assert replace(after, n_counted=before.n_counted, n_repeated=0, n_further=0) == before

        holds()

    def test_persons_are_counted_once_per_value_of_every_column(self, engine):
        schema = several_schema()

        @examples(self.n_examples)
        @given(
            st.lists(
                st.tuples(
                    st.sampled_from(["0", "1", "2"]),
                    st.sampled_from(["x", "y", "z", "?", "-"]),
                    st.sampled_from(["1", "2", None]),
                    st.sampled_from(["on", "off"]),
                    st.sampled_from(["p", "q", "p'q", "ü"]),
                ),
                min_size=1,
                max_size=25,
            )
        )
        def holds(drawn):
            rows = [dict(zip(("age", "s", "t", "u", "who"), row, strict=True)) for row in drawn]
            rows = [{**row, "s+u": None if row["s"] == "-" else f"{row['s']} + {row['u']}"} for row in rows]
            table = engine.open(self.place(engine, to_arrow(rows, ["age", "s", "t", "u", "who"])))
            counted = count(table, schema, unknown="quarantine")
            found = count_persons(counted, "who").counts
            kept, people = oracle.persons_of_several(rows, schema, "who")
            positions = [tuple(row) for row in found.positions.tolist()]
            told = [{} for _ in schema.sensitives]
            starts = [values.start for values in schema.value_slices]
            for row, value, n in zip(found.rows, found.values, found.n, strict=True):
                place = sum(value >= start for start in starts) - 1
                told[place][positions[row], int(value) - starts[place]] = int(n)
            assert told == kept
            assert people == {
                place: n for place, n in zip(positions, found.persons.tolist(), strict=True) if n
            }
            n_kept = sum(kept[0].values())
            assert found.accounting.n_repeated == counted.counts.accounting.n_counted - n_kept

        holds()

    def test_a_table_is_published_again_as_on_any_other_engine(self, engine, tmp_path):
        """What is compared with a state, and the next state, is the same as DuckDB makes it."""
        world = World(tmp_path, 9, owners=("a",), n_past=2000)
        world.change("a", 1500, 0)
        tables = [world.tables["a"].astype(str)]
        world.change("a", 400, 0.3)
        tables.append(world.tables["a"].astype(str))
        gone = tables[0]["who"].iloc[:2]
        gone.to_frame().to_csv(tmp_path / "erase.csv", index=False)
        tables[1] = tables[1][~tables[1]["who"].isin(gone)]
        found = []
        for name, on in (("own", engine), ("duckdb", None)):
            for period, table in enumerate(tables):
                file = tmp_path / f"{name}_{period}.parquet"
                state, since = (tmp_path / f"{name}_state_{at}.parquet" for at in (period, period - 1))
                arrow = pa.Table.from_pandas(table, preserve_index=False)
                made = ed.release(
                    arrow if on is None else self.place(engine, arrow),
                    world.plan,
                    to=file,
                    person="who",
                    updates=ed.UpdatePolicy(
                        state,
                        since=since if period else None,
                        erase=tmp_path / "erase.csv" if period else None,
                    ),
                    ledger=ed.Ledger(tmp_path / f"{name}.ledger", "a"),
                    engine=on,
                )
                rows = pq.read_table(state).to_pandas().fillna("").sort_values(["who", "val"])
                found.append((made.manifest.content_digest, made.manifest.update, rows.to_numpy().tolist()))
        assert found[:2] == found[2:]

    def test_several_sensitive_columns_are_counted_each_by_itself(self, engine):
        values = [("x", "1"), ("y", "2"), ("x", "2"), ("z", None), ("?", "1"), ("y", "1"), (None, "2")] * 3
        rows = [
            {"age": str(place % 3), "s": first, "t": second, "u": "on" if place % 2 else "off"}
            for place, (first, second) in enumerate(values)
        ]
        schema, names = several_schema(), ["age", "s", "t", "u"]
        counted = count(engine.open(self.place(engine, to_arrow(rows, names))), schema, unknown="quarantine")
        usable = [row for row in rows if row["s"] in ("x", "y", "z")]
        expected = Counter()
        for row in usable:
            place = 2 * "xyz".index(row["s"]) + ("on", "off").index(row["u"])
            expected[int(row["age"]), place] += 1
            expected[int(row["age"]), 6 + (2 if row["t"] is None else int(row["t"]) - 1)] += 1
        counts = counted.counts
        found = zip(
            counts.ranks[counts.rows].tolist(), counts.values.tolist(), counts.n.tolist(), strict=True
        )
        assert expected == {(rank, value): n for rank, value, n in found}
        assert counts.accounting.n_counted == len(usable)
        assert counts.accounting.n_read == len(rows)
        shown = counts.by_class(np.zeros(counts.n_combinations, np.int64), 1)
        content = Publishable(counted.schema, None, [("0-9",)], shown, counts.accounting)
        shown = released_rows(content).to_table()
        assert Counter(shown["s+u"].to_pylist()) == Counter(f"{row['s']} + {row['u']}" for row in usable)
        assert Counter(shown["t"].to_pylist()) == Counter(
            None if row["t"] is None else int(row["t"]) for row in usable
        )

    @pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.int64()])
    def test_weights_are_added_up_alike_and_checked(self, engine, kind):
        schema = Schema(
            (Column("age", Integers(0, 3)),),
            Column("vote", Categories(("a", "b"))),
            also_sensitive=(Column("media", Categories(("tv", "net"))),),
            weight=Weight("how much", 7.0),
        )
        weights = [3.0, 1.0, 7.0, 2.0] if kind == pa.int64() else [0.1, 1.5, 7.0, 2.25]
        weights = [*weights, *weights]
        columns = {
            "age": [2, 2, 1, 2] * 2,
            "vote": ["a", "b", "a", "a"] * 2,
            "media": ["tv", "tv", "net", "net"] * 2,
            "how much": pa.array(weights).cast(kind),
        }
        table = engine.open(self.place(engine, pa.table(columns)))
        counts = count(table, schema, weighted=True).counts
        found = {
            (int(age), int(value)): int(units)
            for (age,), value, units in zip(
                counts.positions[counts.rows], counts.values, counts.weights, strict=True
            )
        }
        expected = dict.fromkeys(found, 0)
        for age, vote, media, weight in zip(
            columns["age"], columns["vote"], columns["media"], weights, strict=True
        ):
            for value in ("ab".index(vote), 2 + ["tv", "net"].index(media)):
                expected[age, value] += int(weight / 7 * UNITS + 0.5)
        assert found == expected
        assert count(table, schema).counts.weights is None

    @pytest.mark.parametrize("kind", [pa.float64(), pa.string()])
    def test_what_is_no_weight_is_refused_with_numbers_of_records(self, engine, kind):
        schema = Schema(
            (Column("age", Integers(0, 3)),), Column("vote", Categories(("a",))), weight=Weight("w", 7.0)
        )
        bad = pa.array([None, float("nan"), 0.0, -3.5, float("inf"), 7.001, 7.0]).cast(kind)
        rows = pa.table({"age": [1] * len(bad), "vote": ["a"] * len(bad), "w": bad})
        table = engine.open(self.place(engine, rows))
        with pytest.raises(DataError, match="weights that cannot be used") as caught:
            count(table, schema, weighted=True)
        n_without, n_large = (2, 2) if kind == pa.float64() else (3, 1)  # texts are no infinite numbers
        assert caught.value.found.startswith(
            f"{n_without} without a number, 2 zero or negative, {n_large} too large or infinite; of 7 records"
        )

    def test_regions_are_counted_one_by_one(self, engine, tmp_path):
        rows = [
            {"age": str(place % 7), "s": "xyz"[place % 3], "zip": "ab?"[place % 5 % 3]} for place in range(90)
        ]
        table = self.place(engine, to_arrow(rows, ["age", "s", "zip"]))
        zips = Column("zip", Categories(("a", "b", "c")))
        schema = Schema((Column("age", Integers(0, 9)), zips), Column("s", Categories(("x", "y", "z"))))
        whole = Model(count(engine.open(table), schema, unknown="quarantine").counts)
        for by in ("age", "zip"):
            made = estimate_by_region(table, schema, by, tmp_path / by, unknown="quarantine", engine=engine)
            assert made == split_model(whole, by, tmp_path / f"{by} split")
            assert len(made.regions) == {"age": 7, "zip": 2}[by]

    @pytest.mark.parametrize("nobody", [None, "", " ", "NA"])
    def test_records_that_name_nobody_are_refused(self, engine, nobody):
        schema = Schema((Column("age", Integers(0, 9)),), Column("s", Categories(("x", "y"))))
        rows = [{"age": "1", "s": "x", "who": "p"}, {"age": "1", "s": "y", "who": nobody}]
        table = engine.open(self.place(engine, to_arrow(rows, ["age", "s", "who"])))
        with pytest.raises(DataError, match="'who', which tells persons apart"):
            count_persons(count(table, schema), "who")

    def test_parquet_counts_like_the_table_in_memory(self, engine, tmp_path_factory):
        needs(engine, "files")

        @examples(max(1, self.n_examples * 3 // 8))
        @given(text_rows)
        def holds(rows):
            path, schema = tmp_path_factory.mktemp("files") / "t.parquet", text_schema()
            pq.write_table(to_arrow(rows), path)
            check_counts(count(engine.open(path), schema, unknown="quarantine").counts, rows, schema)

        holds()

    def test_csv_counts_like_the_table_in_memory(self, engine, tmp_path_factory):
        needs(engine, "formats")

        @examples(max(1, self.n_examples * 3 // 8))
        @given(text_rows)
        def holds(rows):
            self._check_files(engine, tmp_path_factory, rows)

        holds()

    def _check_files(self, engine, tmp_path_factory, rows):
        folder = tmp_path_factory.mktemp("files")
        schema = text_schema()
        write_csv(folder / "t.csv", rows)
        write_csv(folder / "semi.csv", rows, separator=";")
        write_csv(folder / "t.tsv", rows, names=NAMES[::-1], separator="\t")
        write_csv(folder / "bom.csv", rows, encoding="utf-8-sig")
        write_csv(folder / "t.csv.gz", rows, opener=gzip.open)
        for name in ("t.csv", "semi.csv", "t.tsv", "bom.csv", "t.csv.gz"):
            check_counts(count(engine.open(folder / name), schema, unknown="quarantine").counts, rows, schema)
        write_csv(folder / "wide.csv", rows, encoding="utf-16")
        wide = engine.open(folder / "wide.csv", CsvFormat(encoding="utf-16"))
        check_counts(count(wide, schema, unknown="quarantine").counts, rows, schema)

    @pytest.mark.parametrize(
        "ages", [[], ["5"], ["5"] * 50, [str(i) for i in range(200)], [None] * 4], ids=len
    )
    def test_tables_of_simple_shapes(self, engine, ages):
        schema = Schema((Column("age", Integers(0, 199), "category"),), Column("s", Categories(("x",))))
        rows = [{"age": age, "s": "x"} for age in ages]
        table = engine.open(self.place(engine, to_arrow(rows, ["age", "s"])))
        check_counts(count(table, schema).counts, rows, schema)

    @pytest.mark.parametrize("suffix", ["parquet", "csv"])
    def test_several_files_with_other_orders_and_extra_columns_are_one_table(self, engine, tmp_path, suffix):
        needs(engine, "files" if suffix == "parquet" else "formats")
        first = [{"a": "1", "s": "x"}, {"a": "2", "s": "y"}]
        second = [{"s": "x", "more": "?", "a": "1"}]
        third = [{"a": "3", "s": "x"}]
        (tmp_path / "deep").mkdir()
        if suffix == "csv":
            write_csv(tmp_path / "1.csv", first, ["a", "s"])
            write_csv(tmp_path / "2.csv", second, ["s", "more", "a"], separator=";")
        else:
            pq.write_table(to_arrow(first, ["a", "s"]), tmp_path / "1.parquet")
            pq.write_table(to_arrow(second, ["s", "more", "a"]), tmp_path / "2.parquet")
        pq.write_table(
            pa.table({"s": ["x"], "a": pa.array([3], pa.int16())}), tmp_path / "deep" / "3.parquet"
        )
        (tmp_path / "_SUCCESS").write_text("")
        (tmp_path / ".hidden.csv").write_text("junk")
        (tmp_path / "readme.md").write_text("junk")
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Categories(("x", "y"))))
        sources = [
            tmp_path,
            [tmp_path / f"1.{suffix}", str(tmp_path / f"2.{suffix}"), tmp_path / "deep"],
            [f"{tmp_path}/*.{suffix}", f"{tmp_path}/deep/*.parquet"],
        ]
        for source in sources:
            table = engine.open(source)
            assert set(table.names) == {"a", "s"}
            assert table.partial == {"more"}
            check_counts(count(table, schema).counts, first + second + third, schema)

    def test_names_that_look_like_globs_or_partitions_are_taken_literally(self, engine, tmp_path):
        needs(engine, "files")
        folder = tmp_path / "year=1999" / 'it\'s [a] "b"'
        folder.mkdir(parents=True)
        path = folder / "w[1]*?{x}.parquet"
        pq.write_table(pa.table({"year": [7]}), path)
        pq.write_table(pa.table({"year": [8] * 3}), folder / "w1zzy.parquet")
        table = engine.open(path)
        schema = Schema((Column("year", Integers(0, 9)),), Column("s", Integers(0, 1)))
        assert table.names == ("year",)
        with pytest.raises(DataError):
            count(table, schema)
        pq.write_table(pa.table({"year": [7], "s": [1]}), folder / "p[1]*.parquet")
        assert count(engine.open(folder / "p[1]*.parquet"), schema).counts.n_records == 1

    def test_columns_without_a_name_are_no_obstacle(self, engine, tmp_path):
        needs(engine, "formats")
        (tmp_path / "index.csv").write_text(",a,s,\n0,1,1,\n1,2,1,\n")
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Integers(0, 1)))
        assert count(engine.open(tmp_path / "index.csv"), schema).counts.n_records == 2

    def test_encodings_are_read_as_declared(self, engine, tmp_path):
        needs(engine, "formats")
        rows = [{"a": "1", "s": "é"}, {"a": "2", "s": "ß"}]
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Categories(("é", "ß"))))
        for encoding in ("latin-1", "cp1252", "utf-16", "utf-8"):
            write_csv(tmp_path / f"{encoding}.csv", rows, ["a", "s"], encoding=encoding)
            table = engine.open(tmp_path / f"{encoding}.csv", CsvFormat(encoding=encoding))
            check_counts(count(table, schema).counts, rows, schema)
        write_csv(
            tmp_path / "late.csv", [{"a": "1", "s": "x"}] * 20_000 + rows, ["a", "s"], encoding="latin-1"
        )
        for name in ("latin-1.csv", "late.csv"):
            with pytest.raises(FileError, match="utf-8"):
                count(engine.open(tmp_path / name), schema)
        with pytest.raises(FileError, match="utf-16"):
            engine.open(tmp_path / "utf-8.csv", CsvFormat(encoding="utf-16"))

    def test_columns_that_differ_only_in_case(self, engine, tmp_path):
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Integers(0, 9)))
        table = pa.table({"ID": [1], "id": [2], "a": [3], "s": [4]})
        pq.write_table(table, tmp_path / "t.parquet")
        write_csv(tmp_path / "t.csv", [{"ID": "1", "id": "2", "a": "3", "s": "4"}], ["ID", "id", "a", "s"])
        files = {"files": tmp_path / "t.parquet", "formats": tmp_path / "t.csv"}
        sources = [path for capability, path in files.items() if capability in engine.capabilities]
        for source in (table, self.place(engine, table), *sources):
            opened = engine.open(source)
            assert opened.names == ("a", "s")
            assert count(opened, schema).counts.n_records == 1
            with pytest.raises(DataError, match="upper and lower case"):
                opened.require(["id"])
            with pytest.raises(DataError, match="upper and lower case"):
                opened.require(["A"])

    def test_texts_and_names_of_users_are_never_read_as_sql(self, engine):
        cells = [f"{text}{end}" for text in HOSTILE for end in ("", "\\", "\\'", '\\"', "'", "`", "\\\\")]
        shown = ", ".join(f"{sql.text(cell)} AS c{place}" for place, cell in enumerate(cells))
        stored = engine.store(f"SELECT {shown}")
        assert [list(row.values()) for batch in engine.fetch(stored) for row in batch.to_pylist()] == [cells]
        names = [cell.replace("\n", " ") for cell in cells if cell and len(cell.encode()) < 60]
        shown = ", ".join(f"{place} AS {sql.identifier(name)}" for place, name in enumerate(names))
        stored = engine.store(f"SELECT {shown}")
        [row] = [row for batch in engine.fetch(stored) for row in batch.to_pylist()]
        assert list(row) == names
        # Where such texts come from: what stands for a missing value, and how an owner names things.
        cell = "\\') IS NULL THEN 1 ELSE 2 END AS k0 -- ${env:HOME}\\"
        schema = Schema(
            (Column("a", Bins((0, 5, 9)), "category", missing=(cell,)),),
            Column("s", Categories(("x", "y")), "suppress", missing=(cell,)),
        )
        rows = {"a": ["1", cell, "7"], "ill\\": ["u", "x", cell]}
        table = engine.open(self.place(engine, pa.table(rows)))
        found = with_plan_columns(table, schema, {"ill\\": "s"}, {"s": {"u": "y", cell + "\\": "x"}})
        counted = count(found, schema).counts
        assert (counted.n_records, counted.accounting.nulls["s"]) == (2, 1)

    # Policies

    def test_at_most_so_many_rows_of_each_person_are_counted(self, engine):
        people = ["p", "p", "p", "q", None, "r", "r"]
        rows = [{"who": who, "a": str(n % 3), "s": "1" if n % 2 else None} for n, who in enumerate(people)]
        table = engine.open(self.place(engine, to_arrow(rows, ["who", "a", "s"])))
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Integers(0, 9), "category"))
        for most, n in ((1, 3), (2, 5), (9, 6)):
            few = with_fewer_rows(table, schema, "who", most)
            assert count(few, schema).counts.n_records == n

    def test_missing_values_follow_their_policy(self, engine):
        rows = [{"a": "1", "s": "1"}, {"a": None, "s": "1"}, {"a": "2", "s": None}, {"a": "99", "s": None}]
        table = engine.open(self.place(engine, to_arrow(rows, ["a", "s"])))
        for nulls in ("category", "suppress"):
            schema = Schema((Column("a", Integers(0, 9), nulls),), Column("s", Integers(0, 9), nulls))
            check_counts(count(table, schema, unknown="quarantine").counts, rows, schema)
        schema = Schema((Column("a", Integers(0, 99), "refuse"),), Column("s", Integers(0, 9), "suppress"))
        with pytest.raises(DataError, match=r"'a': 1, of 4 records"):
            count(table, schema)

    def test_values_outside_their_domains_are_refused_with_their_number(self, engine):
        rows = [{"a": "1", "s": "1"}, {"a": "77", "s": "1"}, {"a": "77", "s": "zz"}]
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Integers(0, 9)))
        with pytest.raises(DataError, match=r"'a': 2 .*0-9.*, column 's': 1 .*of 3 records") as refusal:
            count(engine.open(self.place(engine, to_arrow(rows, ["a", "s"]))), schema)
        assert "77" not in str(refusal.value)

    # Releases

    def test_a_release_holds_what_the_definition_says(self, engine, tmp_path_factory):
        @examples(max(1, self.n_examples // 4))
        @given(text_rows, st.booleans())
        def holds(rows, leave_out):
            self._check_release(engine, tmp_path_factory, rows, leave_out)

        holds()

    def _check_release(self, engine, tmp_path_factory, rows, leave_out):
        folder = tmp_path_factory.mktemp("release")
        schema = with_tokens(text_schema(), TEXT_TOKENS)
        counted = count(engine.open(self.place(engine, to_arrow(rows))), schema, unknown="quarantine")
        content, used = content_of(counted.counts, schema, leave_out)
        out = used[0] if leave_out and len(used) else None
        expected = oracle.release(
            rows, schema, lambda places: None if places[0] // 2 == out else label_row(schema, places)
        )
        assert content.n_records == expected.total()
        quarantined = [row for row in rows if "unknown" in places_of(row, schema)]
        expected_rows = Counter(tuple(row[column] for column in NAMES) for row in quarantined)
        assert expected_rows.total() == counted.counts.accounting.n_quarantined
        for name in ("r.parquet", "r.csv"):
            with AtomicFiles() as files:
                write_release(content, folder / name, files)
                write_quarantine(counted, folder / f"quarantine_{name}", files)
            assert read_rows(folder / name) == expected
            assert read_rows(folder / f"quarantine_{name}") == expected_rows
        back = count_release(
            engine.open(self.place_file(engine, folder / "r.parquet")), schema.names, schema.sensitive.name
        )
        assert back.n_records == expected.total()
        shown = {
            (*back.labels[c], back.values[v]): int(back.counts[c, v])
            for c, v in zip(*np.nonzero(back.counts), strict=True)
        }
        assert shown == expected

    def test_sensitive_values_keep_their_type_and_their_gaps(self, engine, tmp_path):
        schema = Schema((Column("a", Integers(0, 3)),), Column("s", Integers(0, 9), "category"))
        table = pa.table({"a": [0, 1, 2, 3], "s": [5, None, 7, 5]})
        content = content_of(count(engine.open(table), schema).counts, schema)[0]
        with AtomicFiles() as files:
            write_release(content, tmp_path / "r.parquet", files)
            write_release(content, tmp_path / "r.csv", files)
        read = pq.read_table(tmp_path / "r.parquet")
        assert read.schema.types == [pa.string(), pa.int64()]
        assert read.to_pylist() == [
            {"a": "<=1", "s": 5},
            {"a": "<=1", "s": None},
            {"a": "2+", "s": 5},
            {"a": "2+", "s": 7},
        ]
        assert (tmp_path / "r.csv").read_text() == "a,s\n<=1,5\n<=1,\n2+,5\n2+,7\n"

    def test_data_frames_of_all_kinds_are_counted(self, engine):
        data = {"a": [0, 1, 2, 3], "s": ["x", "y", "x", None], "extra": [1.5, None, 3.5, 4.5]}
        schema = Schema((Column("a", Integers(0, 3)),), Column("s", Categories(("x", "y")), "category"))
        arrow = pa.table(data)
        frames = [pd.DataFrame(data), pl.DataFrame(data), arrow, arrow.to_reader(), arrow.to_batches()[0]]
        for frame in frames:
            content = content_of(count(engine.open(frame), schema).counts, schema)[0]
            rows = released_rows(content).to_table()
            assert rows["a"].to_pylist() == ["<=1", "<=1", "2+", "2+"]

    def test_an_index_of_pandas_is_left_behind(self, engine):
        frame = pd.DataFrame({"a": [1, 2], "s": [0, 1]}, index=["p", "q"])
        assert engine.open(frame).names == ("a", "s")

    # Housekeeping

    def test_what_it_cannot_do_is_refused_with_the_engine_that_can(self, engine, tmp_path):
        write_csv(tmp_path / "t.csv", [{"a": "1"}], ["a"])
        pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
        sources = {
            "files": [tmp_path / "t.parquet"],
            "formats": [tmp_path / "t.csv"],
            "tables": [Query("SELECT 1 AS a"), TableName("t", "public")],
        }
        for capability, those in sources.items():
            for source in those if capability not in engine.capabilities else ():
                with pytest.raises(ParameterError, match=f"The engine {engine.name} cannot") as refusal:
                    engine.open(source)
                assert refusal.value.parameter == ("engine",)

    def test_jobs_run_on_its_workers_or_are_refused(self, engine):
        if "jobs" not in engine.capabilities:
            with pytest.raises(ParameterError, match=f"The engine {engine.name} cannot plan regions"):
                engine.run_each(math.sqrt, 3)
            return
        assert list(engine.run_each(math.sqrt, 5)) == [math.sqrt(number) for number in range(5)]
        with pytest.raises(ParameterError, match="The job must be a whole number, 1 or more"):
            list(engine.run_each(partial(check_whole, "the job"), 2))

    def test_progress_ends_at_one(self, engine):
        seen = []
        schema = Schema((Column("a", Integers(0, 9)),), Column("s", Integers(0, 9)))
        count(engine.open(pa.table({"a": [1], "s": [1]})), schema, progress=seen.append)
        assert seen[-1] == 1.0
        assert all(0 <= share <= 1 for share in seen)

    def test_nothing_is_left_on_disk_when_an_engine_closes(self, engine, tmp_path):
        needs(engine, "files")
        write_csv(tmp_path / "t.csv", [{"a": "é", "s": "1"}], ["a", "s"], encoding="latin-1")
        room = tmp_path / "temporary"
        room.mkdir()
        with contextlib.suppress(ZeroDivisionError), self.start(temp_directory=room) as engine:
            if "formats" in engine.capabilities:
                engine.open(tmp_path / "t.csv", CsvFormat(encoding="latin-1"))
            else:
                engine.open(pa.table({"a": np.arange(1 << 20)}))
            raise ZeroDivisionError
        assert list(room.iterdir()) == []


def places_of(row, schema):
    return [
        oracle.position(column, row[column.name]) for column in (*schema.quasi_identifiers, schema.sensitive)
    ]


def read_rows(path):
    """The rows of a file, read without the engine."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return Counter(zip(*table.to_pydict().values(), strict=True)) if table.num_rows else Counter()
    return Counter(map(tuple, list(oracle.parse_csv(path.read_bytes().decode()))[1:]))
