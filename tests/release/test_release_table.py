"""Releases that become tables: the same rows as in a file, in one transaction, never in somebody's way."""

# ruff: noqa: S608 (queries are what is tested)

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contracts.failure_contract import CANARY, everything_said
from tests.release.hospital_tables import people

import elldelta as ed
from elldelta.engines import Query, TableName, connect
from elldelta.errors import DataError, FileError, InputError, ParameterError, RefusedError
from elldelta.release.database_table import manifest_table


@pytest.fixture(scope="module")
def plans():
    """A plan without and one with a kept column, from the same past."""
    past = people(8000, 0)
    made = {}
    for kept in ((), ("ward",)):
        schema = ed.Schema.infer(past, ["age", "zip"], "disease", kept=kept)
        made[kept] = ed.plan(ed.estimate(past, schema), ell=3, releases=2, records=3000, delta=0.01)
    return made


@pytest.fixture
def engine(postgres_url, run_sql):
    """A database with the table `people`, whose rows lie there in the order of the frame."""
    frame = people(3000, 1)
    run_sql("CREATE TABLE people (age integer, zip char(3), disease varchar(20), ward text)")
    with (
        psycopg.connect(postgres_url) as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY people FROM STDIN") as copy,
    ):
        for row in frame.itertuples(index=False):
            copy.write_row(row)
    with connect("postgres", database=postgres_url) as engine:
        yield engine


def tables_of(run_sql):
    return {name for (name,) in run_sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


@pytest.mark.parametrize("kept", [(), ("ward",)], ids=["generated", "joined"])
def test_a_table_holds_the_rows_of_the_file_in_the_same_order(engine, run_sql, plans, tmp_path, kept):
    plan = plans[kept]
    manifest = ed.release("people", plan, to=TableName("r"), engine=engine).manifest
    ed.release(people(3000, 1), plan, to=tmp_path / "r.parquet")
    expected = ed.release(people(3000, 1), plan).manifest
    assert manifest.to_dict() == expected.to_dict()
    rows = pq.read_table(tmp_path / "r.parquet").to_pylist()
    # As they lie there: where a row is must not tell where it was in the input.
    assert run_sql("SELECT * FROM r ORDER BY ctid") == [tuple(row.values()) for row in rows]
    kinds = run_sql(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'r' "
        "ORDER BY ordinal_position"
    )
    assert kinds == [(name, "text") for name in ("age", "zip", "disease", *kept)]
    assert ed.verify("r", plan, engine=engine).is_certified
    shuffled = Query("SELECT * FROM people ORDER BY random()")
    ed.release(shuffled, plan, to=TableName("again"), engine=engine)
    assert run_sql("SELECT * FROM again ORDER BY ctid") == run_sql("SELECT * FROM r ORDER BY ctid")


def test_releases_in_a_database_are_linked_there(engine, plans, tmp_path):
    plan = plans[()]
    ed.release("people", plan, to=TableName("a"), engine=engine)
    ed.release(people(3100, 2), plan, to=TableName("b"), engine=engine)
    ed.release(people(3000, 1), plan, to=tmp_path / "a.parquet")
    ed.release(people(3100, 2), plan, to=tmp_path / "b.parquet")
    found = ed.audit(["a", TableName("b", "public")], engine=engine)
    known = ed.audit([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert found.holds == known.holds
    assert found.diversity_min == known.diversity_min
    assert found.share_below == known.share_below
    targets = tmp_path / "targets.csv"
    targets.write_text("age,zip\n25,A\n,B\n")
    for releases, active, name in (
        (["a", "b"], engine, "t.csv"),
        ([tmp_path / "a.parquet", tmp_path / "b.parquet"], None, "f.csv"),
    ):
        ed.audit(releases, engine=active, targets=targets, targets_output=tmp_path / name)
    assert (tmp_path / "t.csv").read_bytes() == (tmp_path / "f.csv").read_bytes()
    mixed = ed.audit([Query("SELECT * FROM a"), "b"], engine=engine, schema=plan.schema, ell=3)
    assert mixed.diversity_min == found.diversity_min


def test_what_is_in_the_way_stays(engine, run_sql, plans):
    plan = plans[()]
    run_sql(
        "CREATE TABLE taken (a integer)",
        "CREATE TABLE r_manifest (precious text)",
        "CREATE VIEW seen AS SELECT * FROM people",
        "CREATE VIEW leaning AS SELECT * FROM taken",
        "CREATE SEQUENCE counting",
    )
    before = tables_of(run_sql)
    attempts = [
        ("taken", False, FileError, "exists already"),
        ("r", False, FileError, "r_manifest exists already"),
        ("seen", True, ParameterError, "not a table"),
        ("counting", True, ParameterError, "not a table"),
        ("taken", True, FileError, "depends on it"),
        ("people", True, ParameterError, "cannot be written at the same time"),
        ("nowhere.r", False, FileError, "no such schema"),
        ("x" * 60, False, ParameterError, "at most 63 bytes"),
    ]
    for name, overwrite, kind, words in attempts:
        with pytest.raises(kind, match=words):
            ed.release("people", plan, to=TableName.parse(name), engine=engine, overwrite=overwrite)
        assert tables_of(run_sql) == before
    joined = Query("SELECT p.* FROM people AS p, r_manifest")
    run_sql("CREATE VIEW together AS SELECT p.*, m.precious FROM people AS p, r_manifest AS m")
    for source in ("r_manifest", joined, "together", Query("SELECT * FROM together")):
        with pytest.raises(ParameterError, match="cannot be written at the same time"):
            ed.release(source, plan, to=TableName("r"), engine=engine, overwrite=True)
    engine.open("people")  # what was read until now is free again
    run_sql("DROP VIEW together")
    ed.release("people", plan, to=TableName("r"), engine=engine, overwrite=True)
    assert tables_of(run_sql) == before | {"r"}
    assert run_sql("SELECT count(*) FROM r_manifest") == [(1,)]


def test_a_replaced_release_is_seen_whole_by_whoever_reads_meanwhile(engine, run_sql, plans, postgres_url):
    plan = plans[()]
    ed.release("people", plan, to=TableName("r"), engine=engine)
    n_before = run_sql("SELECT count(*) FROM r")
    with psycopg.connect(postgres_url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT count(*) FROM people").fetchall() == [(3000,)]
        larger = Query("SELECT * FROM people UNION ALL SELECT * FROM people WHERE age < 30")
        ed.release(larger, plan, to=TableName("r"), engine=engine, overwrite=True)
        assert run_sql("SELECT count(*) FROM r") > n_before
    assert ed.verify("r", plan, engine=engine).is_certified


def test_refusals_leave_no_table_and_no_file(engine, run_sql, plans, tmp_path):
    plan = plans[("ward",)]
    few = Query("SELECT * FROM people LIMIT 20")
    strange = Query(
        f"SELECT age, zip, disease, '{CANARY}' AS ward FROM people UNION ALL SELECT 199, 'A', 'flu', 'x'"
    )
    missing = Query("SELECT age, zip, disease FROM people")
    for source, kind in (
        (few, RefusedError),
        (strange, DataError),
        (missing, DataError),
        (Query("SELECT"), InputError),
    ):
        with pytest.raises(kind) as refusal:
            ed.release(source, plan, to=TableName("r"), engine=engine)
        assert CANARY not in everything_said(refusal.value)
    for path, words in ((tmp_path / "none" / "q.csv", "does not exist"), (tmp_path / "q.xyz", "not known")):
        with pytest.raises(FileError, match=words):
            ed.release(strange, plan, to=TableName("r"), engine=engine, quarantine=path)
    endless = Query(
        "SELECT age, zip, disease, ward, DATE 'infinity' AS d FROM people "
        "UNION ALL SELECT 199, 'A', 'flu', 'x', NULL"
    )
    everything = Query("SELECT 199 AS age, zip, disease, ward, DATE 'infinity' AS d FROM people LIMIT 1")
    both = Query(f"{endless.text} UNION ALL ({everything.text})")
    with pytest.raises(DataError, match="cannot be written"):
        ed.release(both, plan, to=TableName("r"), engine=engine, quarantine=tmp_path / "q.csv")
    assert tables_of(run_sql) == {"people"}
    assert list(tmp_path.iterdir()) == []
    manifest = ed.release(
        strange, plan, to=TableName("r"), engine=engine, quarantine=tmp_path / "q.csv"
    ).manifest
    assert manifest.records_quarantined == 1
    assert (tmp_path / "q.csv").read_text() == "age,zip,disease,ward\n199,A,flu,x\n"


def test_rights_that_are_missing_are_told(engine, run_sql, plans, postgres_server, postgres_url):
    database = run_sql("SELECT current_database()")[0][0]
    run_sql("CREATE ROLE writer LOGIN", "GRANT SELECT ON people TO writer")
    try:
        with connect("postgres", database=postgres_server.url(database, role="writer")) as other:
            with pytest.raises(FileError, match="may not create") as refusal:
                ed.release("people", plans[()], to=TableName("r"), engine=other)
            assert "public.r cannot be written" in refusal.value.problem
    finally:
        run_sql("DROP OWNED BY writer", "DROP ROLE writer")
    run_sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with (
        connect("postgres", database=postgres_url) as other,
        pytest.raises(FileError, match="set to read only"),
    ):
        ed.release("people", plans[()], to=TableName("r"), engine=other)


def test_other_engines_write_no_tables(plans):
    with connect("duckdb") as engine:
        with pytest.raises(ParameterError, match="The engine duckdb cannot write the table r") as refusal:
            ed.release(people(10, 1), plans[()], to=TableName("r"), engine=engine)
        assert '`engine=connect("postgres")`' in refusal.value.remedy
    with pytest.raises(ParameterError, match="The engine duckdb cannot"):
        ed.verify(TableName("r"))


def test_the_manifest_has_a_name_of_its_own():
    assert manifest_table(TableName("r", "s")) == TableName("r_manifest", "s")


def test_a_table_in_memory_becomes_a_table(engine, run_sql, plans):
    table = pa.Table.from_pandas(people(3000, 5))
    manifest = ed.release(table, plans[("ward",)], to=TableName("r"), engine=engine).manifest
    assert run_sql("SELECT count(*) FROM r") == [(manifest.records_released,)]


CHANGING = Query(
    "SELECT age, zip, ward, (ARRAY['flu', 'hiv', 'cold', 'gout', 'acne', 'mumps'])"
    "[1 + CAST(FLOOR(RANDOM() * 6) AS integer)] AS disease FROM people"
)
"""As many rows each time, with other diseases."""


def test_what_is_published_is_what_was_checked(engine, run_sql, plans, tmp_path):
    """With kept columns the records are read twice; without, what a query says the second time is nothing."""
    merge = {"engine": engine, "on_failure": "coarsen"}
    ed.release(CHANGING, plans[()], to=TableName("r"), **merge)
    assert ed.verify("r", plans[()], engine=engine).is_certified
    before = tables_of(run_sql)
    kept = plans[("ward",)]
    for name in ("s.parquet", "s.csv"):
        with pytest.raises(DataError, match="the same records twice"):
            ed.release(CHANGING, kept, to=tmp_path / name, **merge)
        ed.release("people", kept, to=tmp_path / f"good {name}", engine=engine)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("s")) == []
    with pytest.raises(DataError, match="the same records twice"):
        ed.release(CHANGING, kept, **merge)
    with pytest.raises(DataError, match="the same records twice"):
        ed.release(CHANGING, kept, to=TableName("s"), **merge)
    assert tables_of(run_sql) == before
    ed.release("people", kept, to=TableName("s"), engine=engine)
    assert ed.verify("s", kept, engine=engine).is_certified


@pytest.mark.parametrize("n_later", [2900, 3000, 3100])
@pytest.mark.parametrize(("reads", "name"), [("fetch_sorted", "r.parquet"), ("write", "r.csv")])
def test_a_file_that_changes_before_it_is_read_again(plans, tmp_path, monkeypatch, reads, name, n_later):
    source = tmp_path / "people.csv"
    people(3000, 1).to_csv(source, index=False)
    kept = plans[("ward",)]
    with connect("duckdb") as engine:
        read = getattr(engine, reads)

        def change_and_read(*given, **options):
            people(n_later, 9).to_csv(source, index=False)
            return read(*given, **options)

        monkeypatch.setattr(engine, reads, change_and_read)
        with pytest.raises(DataError, match="the same records twice"):
            ed.release(source, kept, to=tmp_path / name, engine=engine)
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
