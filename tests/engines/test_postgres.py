"""What is PostgreSQL's own: its types, its collations, its snapshots, its rights and its ways to fail."""

# ruff: noqa: S608 (queries are what is tested)

import _thread
import datetime as dt
import threading

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contracts.failure_contract import CANARY, everything_said, one_class

import elldelta as ed
from elldelta.engines import Query, TableName
from elldelta.engines.postgres.engine import connect
from elldelta.errors import DataError, ElldeltaError, FileError, InputError, ParameterError
from elldelta.files import AtomicFiles
from elldelta.model.counting import count
from elldelta.release.content import count_release
from elldelta.release.quarantine import write_quarantine
from elldelta.release.rows import released_rows
from elldelta.schema.infer import propose
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema

SECRET = "hunter2Password"  # noqa: S105 (of nobody)


@pytest.fixture
def engine(postgres_url):
    with connect(database=postgres_url) as engine:
        yield engine


def value_counts(engine, source, domain, column="v", nulls="category"):
    """How often each position of a column occurs; -1 is outside the domain."""
    schema = Schema((Column(column, domain, nulls),), Column("one", Integers(1, 1)))
    counted = count(engine.open(source), schema, unknown="quarantine")
    found = {int(rank): int(n) for rank, n in zip(counted.counts.ranks, counted.counts.n, strict=True)}
    n_outside = counted.counts.accounting.n_quarantined
    return found | ({-1: n_outside} if n_outside else {})


# Types


KINDS = {
    "boolean": "boolean",
    "smallint": "integer",
    "integer": "integer",
    "bigint": "integer",
    "real": "real",
    "double precision": "real",
    "numeric": "real",
    "numeric(10, 2)": "real",
    "numeric(60, 2)": "real",
    "text": "text",
    "varchar(5)": "text",
    "char(5)": "text",
    '"char"': "text",
    "name": "text",
    "uuid": "text",
    "mood": "text",
    "positive": "integer",
    "small": "integer",
    "code": "text",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "time": "other",
    "interval": "other",
    "bytea": "other",
    "jsonb": "other",
    "inet": "other",
    "integer[]": "other",
    "text[]": "other",
    "int4range": "other",
}
DECLARED = (
    "CREATE TYPE mood AS ENUM ('sad', 'Ok')",
    "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
    "CREATE DOMAIN small AS positive CHECK (VALUE < 10)",
    "CREATE DOMAIN code AS char(4)",
)


def test_every_type_has_a_kind_also_in_an_empty_table(engine, run_sql):
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(KINDS))
    run_sql(*DECLARED, f"CREATE TABLE t ({columns})")
    for source in ("t", Query("SELECT * FROM t -- all of it")):
        table = engine.open(source)
        assert [column.kind for column in table.columns] == list(KINDS.values())
        assert table.n_rows is None


def test_texts_of_all_types_are_texts(engine, run_sql):
    run_sql(
        *DECLARED,
        "CREATE TABLE t (one integer, p char(5), v varchar(9), e mood, u uuid, d code)",
        "INSERT INTO t VALUES (1, 'ab', ' ab ', 'Ok', '00000000-0000-0000-0000-00000000000A', 'x'), "
        "(1, 'ab   ', '', 'sad', NULL, NULL), (1, NULL, NULL, NULL, NULL, 'X')",
    )
    assert value_counts(engine, "t", Categories(("ab", "b")), "p") == {0: 2, 2: 1}
    assert value_counts(engine, "t", Categories(("b", "ab", "")), "v") == {1: 1, 2: 1, 3: 1}
    assert value_counts(engine, "t", Categories(("ok", "Ok", "sad")), "e") == {1: 1, 2: 1, 3: 1}
    uuid = "00000000-0000-0000-0000-00000000000a"
    assert value_counts(engine, "t", Categories((uuid,)), "u") == {0: 1, 1: 2}
    assert value_counts(engine, "t", Categories(("x", "X")), "d") == {0: 1, 1: 1, 2: 1}


def test_texts_are_compared_byte_by_byte_whatever_their_collation(engine, run_sql):
    run_sql(
        "CREATE COLLATION loose (provider = libc, locale = 'C.UTF-8')",
        # As one of ICU would be, which not every server has: the database then refuses what it cannot do
        # byte by byte, such as looking for a pattern.
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'loose'",
        "CREATE TABLE t (one integer, v text COLLATE loose, w text)",
        "INSERT INTO t VALUES (1, '1.5', 'x'), (1, 'a', 'X'), (1, 'A', 'x'), (1, 'ä', 'x')",
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        run_sql("SELECT count(*) FROM t WHERE regexp_like(v, '^[0-9]')")
    assert value_counts(engine, "t", Bins((0, 1, 2))) == {1: 1, -1: 3}
    schema = Schema((Column("v", Categories(("a", "A", "ä", "1.5"))),), Column("w", Categories(("x", "X"))))
    counted = count(engine.open("t"), schema)
    assert counted.counts.ranks.tolist() == [0, 1, 2, 3]
    release = released_rows(one_class(counted)).to_table()
    assert release["w"].to_pylist() == ["x", "x", "x", "X"]


def test_numbers_that_are_none_and_numbers_without_end(engine, run_sql):
    special = "'NaN', 'Infinity', '-Infinity'"
    run_sql("CREATE TABLE t (one integer, f double precision, r real, n numeric, x numeric(8, 2))")
    run_sql(
        f"INSERT INTO t (one, f, r, n) SELECT 1, CAST(v AS float8), CAST(v AS real), CAST(v AS numeric) "
        f"FROM unnest(ARRAY[{special}, '-0', '0', '1.5', '2']) AS v",
        "INSERT INTO t (one, x) VALUES (1, 'NaN'), (1, 2.00), (1, 0.005)",
    )
    nulls = {"f": 4, "r": 4, "n": 4, "x": 8}
    bins, whole = {"x": {0: 1, 2: 1}}, {"x": {0: 0, 2: 1, -1: 1}}
    for column in ("f", "r", "n", "x"):
        found = value_counts(engine, "t", Bins((0, 1, 1.75, 5)), column)
        expected = bins.get(column, {0: 2, 1: 1, 2: 1, -1: 2}) | {3: nulls[column]}
        assert found == expected, column
        found = value_counts(engine, "t", Integers(0, 3), column)
        expected = whole.get(column, {0: 2, 2: 1, -1: 3}) | {4: nulls[column]}
        assert found == {place: n for place, n in expected.items() if n}, column
    assert value_counts(engine, "t", Categories(("0.01", "2.00")), "x") == {0: 1, 1: 1, 2: 8}


def test_exact_numbers_find_their_records_again(engine, run_sql, tmp_path):
    digits = "12345678901234567890.12345678901234567890"
    run_sql(
        "CREATE TABLE t (a numeric, s numeric(3, 1), k numeric, m numeric(30, 2))",
        f"INSERT INTO t VALUES (1, 1.5, {digits}, 7), (1.0, 1.5, 'NaN', 0.1), (NULL, 2.0, NULL, NULL)",
    )
    schema = Schema((Column("a", Integers(2, 3), "category"),), Column("s", Categories(("1.5", "2.0"))))
    counted = count(engine.open("t"), schema, unknown="quarantine")
    with AtomicFiles() as files:
        assert write_quarantine(counted, tmp_path / "q.parquet", files) == 2
    rows = pq.read_table(tmp_path / "q.parquet").sort_by([("m", "descending")])
    assert rows["a"].to_pylist() == [1.0, 1.0]
    assert rows["k"].to_pylist()[0] == float(digits)  # the nearest: no number of Arrow's is so long
    assert [str(m) for m in rows["m"].to_pylist()] == ["7.00", "0.10"]


def test_numbers_that_no_double_holds_are_refused(engine, run_sql):
    run_sql("CREATE TABLE t (one integer, v numeric)", "INSERT INTO t VALUES (1, CAST('1e400' AS numeric))")
    with pytest.raises(DataError, match="cannot be converted"):
        value_counts(engine, "t", Bins((0, 1)))


def test_days_are_days_in_universal_time(engine, run_sql, postgres_url):
    run_sql(
        "CREATE TABLE t (one integer, v timestamptz, w timestamp)",
        "INSERT INTO t VALUES (1, '2000-01-01 00:30+02', '2000-01-01 23:59:59.999999'), "
        "(1, '2000-01-01 23:30-02', 'infinity'), (1, NULL, '0044-03-15 12:00 BC')",
        # Wherever the role is at home.
        "ALTER ROLE postgres SET timezone = 'Asia/Tokyo'",
    )
    try:
        with connect(database=postgres_url) as far:
            domain = Dates(dt.date(1999, 12, 31), dt.date(2000, 1, 2))
            assert value_counts(far, "t", domain) == {0: 1, 2: 1, 3: 1}
            assert value_counts(far, "t", domain, "w") == {1: 1, -1: 2}
    finally:
        run_sql("ALTER ROLE postgres RESET timezone")


def test_endless_and_ancient_days_are_outside_of_every_domain(engine, run_sql, tmp_path):
    run_sql(
        "CREATE TABLE t (v date, one integer, k date)",
        "INSERT INTO t VALUES ('infinity', 1, '2000-01-01'), ('-infinity', 1, '2000-01-01'), "
        "('0044-03-15 BC', 1, '2000-01-01'), ('5874897-01-01', 1, NULL), ('2000-01-02', 1, NULL), "
        "(NULL, 1, NULL)",
    )
    domain = Dates(dt.date(2000, 1, 1), dt.date(2000, 1, 3))
    assert value_counts(engine, "t", domain) == {1: 1, 3: 1, -1: 4}
    schema = Schema((Column("v", domain, "category"),), Column("one", Integers(1, 1)))
    counted = count(engine.open("t"), schema, unknown="quarantine")
    with pytest.raises(DataError, match="'v' holds dates that cannot be written"), AtomicFiles() as files:
        write_quarantine(counted, tmp_path / "q.csv", files)
    assert list(tmp_path.iterdir()) == []
    finite = Query("SELECT * FROM t WHERE isfinite(v)")
    counted = count(engine.open(finite), schema, unknown="quarantine")
    with AtomicFiles() as files:
        assert write_quarantine(counted, tmp_path / "q.parquet", files) == 2
    for bad in ("'infinity'", "'-infinity'"):
        with pytest.raises(InputError):
            propose(engine.open(Query(f"SELECT CAST({bad} AS date) AS v, 1 AS one")), ["v"], "one")


def test_columns_that_cannot_be_compared_are_refused_without_a_cell(engine, run_sql):
    run_sql(
        "CREATE TABLE t (one integer, j json, a text[], b bytea, s text)",
        f"""INSERT INTO t VALUES (1, '{{"x": "{CANARY}"}}', ARRAY['{CANARY}'], '{CANARY}', 'x')""",
    )
    for column in ("j", "a", "b"):
        with pytest.raises(InputError) as refusal:
            value_counts(engine, "t", Categories(("x",)), column)
        assert CANARY not in everything_said(refusal.value)
        assert refusal.value.remedy


# Sources


def test_tables_are_found_as_the_database_finds_them(engine, run_sql):
    run_sql(
        "CREATE SCHEMA other",
        'CREATE SCHEMA "Strange . one"',
        "CREATE TABLE t (v integer, one integer)",
        "CREATE TABLE other.t (v integer, one integer)",
        'CREATE TABLE "Strange . one"."T""; DROP TABLE t" (v integer, one integer)',
        "INSERT INTO t VALUES (0, 1)",
        "INSERT INTO other.t VALUES (1, 1)",
        'INSERT INTO "Strange . one"."T""; DROP TABLE t" VALUES (2, 1)',
        "CREATE VIEW seen AS SELECT v + 1 AS v, one FROM other.t",
        "CREATE TABLE parts (v integer, one integer) PARTITION BY LIST (v)",
        "CREATE TABLE part PARTITION OF parts DEFAULT",
        "INSERT INTO parts VALUES (0, 1), (3, 1)",
    )
    strange = '"Strange . one"."T""; DROP TABLE t"'
    expected = {"t": {0: 1}, "Public.T": {0: 1}, "other.t": {1: 1}, strange: {2: 1}, "seen": {2: 1}}
    for name, found in (expected | {"parts": {0: 1, 3: 1}}).items():
        assert value_counts(engine, name, Integers(0, 3)) == found
        assert value_counts(engine, [TableName.parse(name)], Integers(0, 3)) == found
    for name in ('"T"', "nowhere.t", "nix"):
        with pytest.raises(FileError, match="no such table"):
            engine.open(name)
    with pytest.raises(ParameterError, match="one table at a time"):
        engine.open(["t", "other.t"])


def test_a_query_is_a_table(engine, run_sql):
    run_sql("CREATE TABLE t (v integer)", "INSERT INTO t SELECT generate_series(0, 9)")
    query = Query(
        "WITH few AS (SELECT v FROM t WHERE v < 4) "
        "SELECT v % 2 AS v, 1 AS one, 'x AS DOUBLE)' AS \"a'b\" FROM few -- not more"
    )
    assert value_counts(engine, query, Integers(0, 3)) == {0: 2, 1: 2}
    assert engine.open(query).names == ("v", "one", "a'b")
    for wrong, words in (
        ("SELECT", "no column"),
        ("SELECT 1 AS a, 2 AS a", "same name"),
        ("SELECT x", "a column that does not exist"),
        ("SELEC 1", "not SQL"),
        ("SELECT 1) AS x; DROP TABLE t; --", "not SQL"),
        ("INSERT INTO t VALUES (1) RETURNING v", "not SQL"),
        ("SELECT * FROM nix", "no such table"),
    ):
        with pytest.raises(InputError, match=words):
            engine.open(Query(wrong))
    with pytest.raises(DataError, match="cannot be converted") as refusal:
        value_counts(
            engine, Query(f"SELECT CAST('{CANARY}' || v AS integer) AS v, 1 AS one FROM t"), Integers(0, 3)
        )
    assert CANARY not in everything_said(refusal.value)
    assert run_sql("SELECT count(*) FROM t") == [(10,)]


def test_no_query_can_change_anything(engine, run_sql):
    run_sql(
        "CREATE TABLE t (v integer)",
        "CREATE FUNCTION sly() RETURNS integer LANGUAGE sql AS 'INSERT INTO t VALUES (1) RETURNING v'",
    )
    with pytest.raises(ParameterError, match="would change the database"):
        value_counts(engine, Query("SELECT sly() AS v, 1 AS one"), Integers(0, 3))
    assert value_counts(engine, Query("SELECT count(*) AS v, 1 AS one FROM t"), Integers(0, 3)) == {0: 1}


def test_what_functions_say_is_not_printed(engine, run_sql, capfd):
    run_sql(
        "CREATE FUNCTION chatty(cell text) RETURNS integer LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE NOTICE 'seen: %', cell; RAISE WARNING 'seen: %', cell; RETURN 1; END $$"
    )
    query = Query(f"SELECT chatty('{CANARY}' || v) AS v, 1 AS one FROM generate_series(1, 3) AS v")
    assert value_counts(engine, query, Integers(0, 3)) == {1: 3}
    printed = capfd.readouterr()
    assert CANARY not in printed.out + printed.err


def test_what_was_counted_is_what_is_put_aside(engine, run_sql, tmp_path):
    run_sql(
        "CREATE TABLE t (v integer, s text, k text)", "INSERT INTO t VALUES (1, 'x', 'a'), (20, 'y', 'b')"
    )
    schema = Schema((Column("v", Integers(0, 9)),), Column("s", Categories(("x", "y"))))
    counted = count(engine.open("t"), schema, unknown="quarantine")
    run_sql(
        "DELETE FROM t WHERE v = 1", "UPDATE t SET v = 3", "INSERT INTO t VALUES (2, 'y', 'c'), (9, 'x', 'd')"
    )
    with AtomicFiles() as files:
        write_quarantine(counted, tmp_path / "q.parquet", files)
    assert pq.read_table(tmp_path / "q.parquet").to_pylist() == [{"v": 20, "s": "y", "k": "b"}]
    assert count(engine.open("t"), schema).counts.ranks.tolist() == [2, 3, 9]  # opened again: as it is now


def test_a_release_in_a_table_is_counted_in_the_database(engine, run_sql):
    run_sql("CREATE TABLE r AS SELECT '*' AS a, v % 3 AS s FROM generate_series(1, 10) AS v")
    found = count_release(engine.open("r"), ["a"], "s")
    assert found.labels == (("*",),)
    assert dict(zip(found.values, found.counts[0].tolist(), strict=True)) == {"0": 3, "1": 4, "2": 3}


# Streams


def test_a_stream_that_nobody_reads_to_its_end_is_given_up(engine):
    # Ten terabytes: whoever waits for all of them waits for ever.
    endless = Query("SELECT generate_series(1, 100000000000) AS v, repeat('x', 100) AS t")
    batches = engine.fetch(engine.open(endless).relation)
    assert next(batches).num_rows > 0
    batches.close()
    assert value_counts(engine, Query("SELECT 1 AS v, 1 AS one"), Integers(0, 3)) == {1: 1}


def test_an_interrupt_reaches_the_database(engine, run_sql):
    endless = Query("SELECT generate_series(1, 100000000000) % 3 AS v, 1 AS one")
    threading.Timer(0.7, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        value_counts(engine, endless, Integers(0, 3))
    busy = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND application_name = 'elldelta'"
    assert run_sql(busy) == [(0,)]
    assert value_counts(engine, Query("SELECT 1 AS v, 1 AS one"), Integers(0, 3)) == {1: 1}


# Rights


@pytest.fixture
def reader(postgres_server, postgres_url, run_sql):
    """The address of a role that may only read one table, without temporary tables."""
    database = run_sql("SELECT current_database()")[0][0]
    run_sql(
        "CREATE ROLE reader LOGIN",
        f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
        "CREATE TABLE t (v integer, one integer, k text)",
        "CREATE TABLE hidden (v integer, one integer)",
        f"INSERT INTO t VALUES (1, 1, '{CANARY}'), (7, 1, '{CANARY}')",
        "GRANT SELECT ON t TO reader",
    )
    yield postgres_server.url(database, role="reader")
    run_sql("REVOKE ALL ON t FROM reader", "DROP OWNED BY reader", "DROP ROLE reader")


def test_counting_needs_no_more_than_to_read(reader, tmp_path):
    schema = Schema((Column("v", Integers(0, 3)),), Column("one", Integers(1, 1)))
    with connect(database=reader) as engine:
        assert value_counts(engine, "t", Integers(0, 3)) == {1: 1, -1: 1}
        counted = count(engine.open("t"), schema, unknown="quarantine")
        with (
            pytest.raises(FileError, match="does not allow temporary tables") as refusal,
            AtomicFiles() as files,
        ):
            write_quarantine(counted, tmp_path / "q.csv", files)
        assert CANARY not in everything_said(refusal.value)
        assert "GRANT TEMPORARY" in refusal.value.remedy
        with pytest.raises(FileError, match="does not allow temporary tables"):
            engine.open(pa.table({"a": [1]}))
        with pytest.raises(FileError, match="may not read") as refusal:
            value_counts(engine, "hidden", Integers(0, 3))
        assert "The table hidden" in refusal.value.problem
        assert value_counts(engine, "t", Integers(0, 9)) == {1: 1, 7: 1}
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_only_reads_can_count(postgres_url, run_sql):
    database = run_sql("SELECT current_database()")[0][0]
    run_sql(
        "CREATE TABLE t (v integer, one integer)",
        "INSERT INTO t VALUES (1, 1)",
        f"ALTER DATABASE {database} SET default_transaction_read_only = on",
    )
    with connect(database=postgres_url) as engine:
        assert value_counts(engine, "t", Integers(0, 3)) == {1: 1}
        with pytest.raises(FileError, match="cannot be written to"):
            engine.put(pa.table({"a": [1]}))
        assert value_counts(engine, "t", Integers(0, 3)) == {1: 1}


# Failures


def test_addresses_that_lead_nowhere_are_told_without_the_password(postgres_server, tmp_path):
    guarded = postgres_server.url(role=postgres_server.guarded_role, password=SECRET)
    attempts = {
        f"postgresql://me:{SECRET}@127.0.0.1:1/x": "Nobody listens",
        f"postgresql://me:{SECRET}@/x?host={tmp_path}": "Nobody listens",
        f"postgresql://me:{SECRET}@name.invalid/x": "host is not known",
        guarded: "role or its password",
        postgres_server.url("nix", password=SECRET): "no database of that name",
        postgres_server.url(role="nobody", password=SECRET): "does not let the role in",
        f"postgresql://me:{SECRET}@host:port:/x?nix=1": "cannot be understood",
        f"{SECRET}": "cannot be understood",
        f"host={tmp_path} password={SECRET} nix=1": "cannot be understood",
    }
    for address, words in attempts.items():
        with pytest.raises(FileError, match="cannot be reached") as refusal:
            connect(database=address)
        said = everything_said(refusal.value)
        assert SECRET not in said, words
        assert words in refusal.value.found, (words, refusal.value.found)
        assert refusal.value.remedy
    right = postgres_server.url(role=postgres_server.guarded_role, password=postgres_server.password)
    with connect(database=right) as engine:
        assert engine.open(Query("SELECT 1 AS a")).names == ("a",)


def test_a_connection_that_is_cut_is_told(engine, run_sql):
    table = engine.open(Query("SELECT 1 AS v, 1 AS one"))
    run_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elldelta'")
    schema = Schema((Column("v", Integers(0, 3)),), Column("one", Integers(1, 1)))
    with pytest.raises(FileError, match="connection to the database was lost"):
        count(table, schema)
    with pytest.raises(FileError, match="connection to the database was lost"):
        engine.open("t")
    engine.close()
    engine.close()


def test_time_limits_are_told(postgres_url, run_sql):
    database = run_sql("SELECT current_database()")[0][0]
    run_sql(f"ALTER DATABASE {database} SET statement_timeout = 3000")
    with connect(database=postgres_url) as engine:
        with pytest.raises(FileError, match="time limit"):
            value_counts(engine, Query("SELECT 1 AS v, 1 AS one FROM pg_sleep(30)"), Integers(0, 3))
        assert value_counts(engine, Query("SELECT 1 AS v, 1 AS one"), Integers(0, 3)) == {1: 1}


def test_texts_with_a_zero_byte_do_not_go_into_a_database(engine):
    with pytest.raises(DataError, match="zero byte") as refusal:
        engine.open(pa.table({"a": [f"{CANARY}\0"]}))
    assert CANARY not in everything_said(refusal.value)


def test_tables_in_memory_of_all_types_come_in_or_are_refused(engine):
    table = pa.table(
        {
            "v": pa.array([1, 2**63 + 1], pa.uint64()),
            "one": pa.array([1, 1], pa.int8()),
            "d": pa.array([0, None], pa.date64()),
            "c": pa.array(["x", "y"]).dictionary_encode(),
            "l": pa.array(["x", None], pa.large_string()),
        }
    )
    opened = engine.open(table)
    assert [column.kind for column in opened.columns] == ["real", "integer", "date", "text", "text"]
    assert value_counts(engine, table, Integers(0, 3)) == {1: 1, -1: 1}
    with pytest.raises(ElldeltaError) as refusal:
        engine.open(
            pa.table({"a": pa.array([CANARY], pa.string()).cast(pa.binary()), "u": pa.array([{"x": CANARY}])})
        )
    assert refusal.value.exit_code == 2
    assert CANARY not in everything_said(refusal.value)


# A release that somebody has put into a table


def test_a_release_in_a_table_is_verified_in_the_database(engine, run_sql):
    rng = np.random.default_rng(5)
    table = pa.table({"a": rng.integers(0, 20, 2000), "s": rng.choice(["x", "y", "z"], 2000)})
    schema = ed.Schema.infer(table, ["a"], "s")
    plan = ed.plan(ed.estimate(table, schema), ell=2, releases=1, records=1500)
    made = ed.release(table, plan)
    run_sql("CREATE TABLE r (a text, s text)")
    rows = ", ".join(f"('{row['a']}', '{row['s']}')" for row in made.table.to_pylist())
    run_sql(f"INSERT INTO r VALUES {rows}")
    stored = ed.Release(TableName("r"), made.manifest)
    found = ed.verify(stored, plan, engine=engine)
    assert found.records == 2000
    assert "order" in found.unchecked[0]  # a table has none
    run_sql("DELETE FROM r WHERE ctid IN (SELECT ctid FROM r LIMIT 1)")
    with pytest.raises(FileError, match="not the one its manifest describes"):
        ed.verify(stored, engine=engine)
    with pytest.raises(FileError, match="without a manifest"):
        ed.verify("r", engine=engine)
