"""The commands on records in a database: the same numbers as on files, no word about passwords or cells."""

# ruff: noqa: S608 (queries are what is tested)

import json
import signal
import time

import psycopg
import pyarrow.parquet as pq
import pytest
from tests.contracts.failure_contract import CANARY
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

SECRET = "hunter2Password"  # noqa: S105 (of nobody)


def fill(url, name, rows):
    """Makes a table of records, without the package under test."""
    table = to_arrow(rows)
    kinds = {"string": "text", "int64": "integer", "date32[day]": "date", "double": "double precision"}
    columns = ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in table.schema)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(list(row.values()))


def query(url, text):
    with psycopg.connect(url) as connection:
        return connection.execute(text).fetchall()


def tables_of(url):
    return {name for (name,) in query(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


@pytest.fixture
def database(postgres_url, monkeypatch):
    """A database with the tables of the small story; its address is in the environment."""
    fill(postgres_url, "past", make_rows(6000, seed=1))
    fill(postgres_url, "owner_a", make_rows(3000, seed=2))
    fill(postgres_url, "owner_b", make_rows(3000, seed=3))
    monkeypatch.setenv("ELLDELTA_DATABASE", postgres_url)
    return postgres_url


IN_DATABASE = ("--engine", "postgres", "--json")


def test_the_whole_journey_gives_the_same_digests_as_files(elldelta, story, database, tmp_path):
    roles = ("--qi", ",".join(QUASI_IDENTIFIERS), "--sensitive", SENSITIVE, "--widen", "age=no")
    elldelta("schema", "infer", "past", *roles, "-o", tmp_path / "schema.toml", *IN_DATABASE)
    text = (tmp_path / "schema.toml").read_text()
    assert text == story.schema.read_text()
    model = elldelta(
        "estimate", "public.past", "--schema", story.schema, "-o", tmp_path / "m.parquet", *IN_DATABASE
    )
    known = elldelta("estimate", story.past, "--schema", story.schema, "-o", tmp_path / "f.parquet", "--json")
    assert model.json["digest"] == known.json["digest"]
    made, expected = [], []
    for owner in ("owner_a", "owner_b"):
        for files, source, engine in (
            (made, owner, IN_DATABASE),
            (expected, getattr(story, owner), ("--json",)),
        ):
            path = tmp_path / f"{owner}_{len(engine)}.parquet"
            elldelta("release", source, "--plan", story.plan, "-o", path, *engine)
            files += [path.read_bytes(), path.with_name(path.name + ".manifest.json").read_bytes()]
        with psycopg.connect(database) as connection:  # somebody puts the release where others look for it
            connection.execute(
                f"CREATE TABLE release_{owner} (postal_code text, gender text, age text, disease text)"
            )
            rows = pq.read_table(path).to_pylist()
            with connection.cursor() as cursor, cursor.copy(f"COPY release_{owner} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(list(row.values()))
    assert made == expected
    (tmp_path / "alone").mkdir()  # without manifests, as in the database
    files = [tmp_path / "alone" / f"release_owner_{name}.parquet" for name in "ab"]
    for path, content in zip(files, made[::2], strict=True):
        path.write_bytes(content)
    wish = ("--ell", "2", "--columns", story.schema)
    linked = elldelta("audit", "release_owner_a", "public.release_owner_b", *wish, *IN_DATABASE, code=-1)
    known = elldelta("audit", *files, *wish, "--json", code=-1)
    assert linked.code == known.code
    text = known.out.replace("release_owner_a.parquet", "release_owner_a")
    assert linked.json == json.loads(text.replace("release_owner_b.parquet", "public.release_owner_b"))


def test_a_query_stands_for_a_table(elldelta, story, database, tmp_path):
    text = "SELECT * FROM owner_a UNION ALL SELECT * FROM owner_b -- both"
    model = tmp_path / "m.parquet"
    done = elldelta("estimate", text, "--schema", story.schema, "-o", model, *IN_DATABASE)
    assert done.json["records_read"] == 6000
    done = elldelta("release", text, "--plan", story.plan, "-o", tmp_path / "r.csv", *IN_DATABASE)
    assert done.json["records"]["released"] == 6000
    elldelta("verify", tmp_path / "r.csv", "--plan", story.plan)
    for arguments, words in (
        (("past", text, "--engine", "postgres"), "one table at a time"),
        (("--engine", "postgres"), "nothing to read"),
        ((), "nothing to read"),
        ((text,), "for a database"),
        (("owner_a", "owner_b", "--engine", "postgres"), "one table at a time"),
        (("no;name", "--engine", "postgres"), "not the name of a table"),
    ):
        refused = elldelta(
            "estimate", *arguments, "--schema", story.schema, "-o", tmp_path / "n.parquet", "--json", code=2
        )
        assert words in refused.error["problem"]
        assert not (tmp_path / "n.parquet").exists()


def test_what_is_refused_leaves_nothing(elldelta, story, database, tmp_path):
    command = ("--plan", story.plan, "-o", tmp_path / "r.csv", *IN_DATABASE)
    refused = elldelta("release", "SELECT * FROM owner_a LIMIT 40", *command, code=3)
    assert refused.error["problem"]
    outside = f"SELECT postal_code, gender, age, '{CANARY}' AS disease FROM owner_a"
    refused = elldelta("release", outside, *command, code=2)
    assert "outside their domains" in refused.error["problem"]
    assert tables_of(database) == {"past", "owner_a", "owner_b"}
    assert list(tmp_path.iterdir()) == []


def test_quarantined_records_come_out_of_the_database(elldelta, story, database, tmp_path):
    strange = (
        f"SELECT '{CANARY}' AS postal_code, gender, age, disease, ward, admitted, cost FROM owner_b LIMIT 7"
    )
    both = f"SELECT * FROM owner_a UNION ALL ({strange})"
    target = ("-o", tmp_path / "r.csv", "--outside", tmp_path / "q.csv")
    done = elldelta("release", both, "--plan", story.plan, *target, *IN_DATABASE)
    assert done.json["records"]["left_out"]["outside"] == 7
    assert (tmp_path / "q.csv").read_text().count(CANARY) == 7
    assert elldelta("verify", tmp_path / "r.csv", "--plan", story.plan, "--json").json["records"] == 3000


def test_failures_tell_neither_the_password_nor_a_cell(
    elldelta, story, postgres_server, database, tmp_path, monkeypatch
):
    fill(database, "strange", [dict(row, disease=CANARY) for row in make_rows(20, seed=4)])
    guarded = postgres_server.url(role=postgres_server.guarded_role, password=SECRET)
    attempts = [
        ("past", f"postgresql://me:{SECRET}@127.0.0.1:1/x"),
        ("past", guarded),
        ("past", f"postgresql://me:{SECRET}@host:port/"),
        ("past", SECRET),
        ("nix", database),
        ("strange", database),
        ("strange", postgres_server.url("nix", password=SECRET)),
    ]
    for name, address in attempts:
        for form in ((), ("--json",)):
            monkeypatch.setenv("ELLDELTA_DATABASE", address)
            failed = elldelta(
                "estimate", name, "--schema", story.schema, "-o", tmp_path / "m.parquet",
                "--engine", "postgres", *form, code=2,
            )  # fmt: skip
            assert SECRET not in failed.out + failed.err
            assert CANARY not in failed.out + failed.err
    assert not (tmp_path / "m.parquet").exists()


def test_without_an_address_the_way_to_give_one_is_told(elldelta, story, monkeypatch, tmp_path):
    monkeypatch.delenv("ELLDELTA_DATABASE", raising=False)
    command = ("estimate", "past", "--schema", story.schema, "-o", tmp_path / "m.parquet")
    assert "ELLDELTA_DATABASE" in elldelta(*command, *IN_DATABASE, code=2).error["remedy"]


def _busy(url):
    """Whether a release is being counted."""
    found = query(
        url,
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'elldelta' AND state = 'active' "
        "AND query LIKE '%generate_series%'",
    )
    return found[0][0] > 0


@pytest.mark.parametrize(
    "end",
    [
        "interrupted",
        *(pytest.param(end, marks=pytest.mark.slow) for end in ("client killed", "server ends it")),
    ],
)
def test_a_release_that_is_cut_off_was_never_there(in_process, story, database, end, tmp_path):
    many = "SELECT o.* FROM owner_a AS o CROSS JOIN generate_series(1, 3000)"
    run = in_process("release", many, "--plan", story.plan, "-o", tmp_path / "r.csv", "--engine", "postgres")
    try:
        deadline = time.monotonic() + 300
        while not _busy(database):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if end == "client killed":
            run.kill()
        elif end == "interrupted":
            run.send_signal(signal.SIGINT)
        else:
            query(
                database,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elldelta'",
            )
        _, err = run.communicate(timeout=300)
    finally:
        run.kill()
        run.wait()
    assert (
        run.returncode == {"client killed": -signal.SIGKILL, "interrupted": 130, "server ends it": 2}[end]
    ), err
    while _busy(database):
        time.sleep(0.02)
    assert tables_of(database) == {"past", "owner_a", "owner_b"}
    assert list(tmp_path.iterdir()) == []
