"""Disks that are full, files that are damaged, folders that others can write, processes that were killed."""

import io
import json
import os
import sqlite3
import stat
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.agency.registrations import full
from tests.agency.server.service import Clock, Service, model_file

from elldelta.agency.server import database as database_module
from elldelta.agency.server import logs
from elldelta.agency.server.database import Database
from elldelta.agency.server.errors import DatabaseError
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import prepare, renew_key, starts_empty
from elldelta.cli.main import execute
from elldelta.errors import ParameterError

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def log(monkeypatch):
    """What the service writes to its log."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure("info")
    return stream


@pytest.fixture
def agency_folder(tmp_path):
    settings = Settings(folder=tmp_path / "agency")
    prepare(settings)
    return settings


@pytest.fixture
def on_sqlite(agency_folder):
    with Service(agency_folder, Clock()) as service:
        yield service


def test_a_full_disk_is_told_by_its_name_and_turns_readiness_red(on_sqlite, log):
    on_sqlite.get(None, "/ready")

    def fill(connection, _record):
        connection.execute("PRAGMA max_page_count = 1").close()

    engine = on_sqlite.agency.database.engine
    engine.dispose()
    sa.event.listen(engine, "connect", fill)
    answers = [
        on_sqlite.post("agency", "/populations", {"name": f"p{n}", "title": "x" * 200}, status=None)
        for n in range(60)
    ]
    assert answers[-1].status_code == 503
    assert "SQLITE_FULL" in answers[-1].json()["error"]["found"]
    assert "bug" not in answers[-1].text
    assert on_sqlite.ask(None, "GET", "/ready").status_code == 503
    assert on_sqlite.ask(None, "GET", "/health").status_code == 200
    kinds = {json.loads(line).get("kind") for line in log.getvalue().splitlines()}
    assert "SQLITE_FULL" in kinds
    sa.event.remove(engine, "connect", fill)
    engine.dispose()
    on_sqlite.post("agency", "/populations", {"name": "again"}, status=201)
    on_sqlite.get(None, "/ready")


def test_a_disk_that_is_nearly_full_turns_readiness_red_before_anything_fails(on_sqlite, monkeypatch):
    monkeypatch.setattr(database_module, "FREE_BYTES", 1 << 62)
    assert on_sqlite.ask(None, "GET", "/ready").status_code == 503


def test_a_damaged_database_is_no_bug_of_ours(agency_folder, tmp_path, capsys):
    path = agency_folder.folder / "agency.sqlite"
    path.write_bytes(path.read_bytes()[:100] + os.urandom(20_000))
    with pytest.raises(DatabaseError, match="damaged"):
        prepare(agency_folder)
    path.write_bytes(b"This is not a database." * 100)
    assert execute(["serve", "--data", str(agency_folder.folder), "--port", "0"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_a_line_that_is_no_json_is_no_bug_of_ours(on_sqlite):
    plan = on_sqlite.issue()
    on_sqlite.register("owner", plan, full(plan), status=201)
    with on_sqlite.agency.database.writing() as session:
        session.execute(sa.text("DROP TRIGGER ledger_lines_no_update"))
        session.execute(sa.text("UPDATE ledger_lines SET line = :line"), {"line": b"no JSON\n"})
    answer = on_sqlite.register("owner", plan, full(plan, n=4), status=500)
    assert "damaged" in answer.json()["error"]["problem"]
    assert "bug" not in answer.text
    headers = {"Authorization": f"Bearer {on_sqlite.tokens['owner']}"}
    page = on_sqlite.send("GET", f"/plans/{plan.digest}/ledger", headers=headers)
    assert page.status_code == 200
    assert "damaged" in page.text


def test_an_empty_database_beside_a_key_is_asked_about(agency_folder, capsys):
    assert not starts_empty(agency_folder)
    for file in agency_folder.folder.glob("agency.sqlite*"):
        file.unlink()
    assert starts_empty(agency_folder)
    arguments = ["serve", "--data", str(agency_folder.folder), "--create-admin", "somebody"]
    assert execute(arguments) == 2
    assert "--allow-empty" in capsys.readouterr().err
    assert not (agency_folder.folder / "agency.sqlite").exists()
    assert execute([*arguments, "--allow-empty"]) == 0
    assert not starts_empty(agency_folder)


def test_nothing_takes_the_place_of_a_line(on_sqlite):
    """Not even for somebody who connects with the settings that SQLite has by itself."""
    plan = on_sqlite.issue()
    told = on_sqlite.register("owner", plan, full(plan), status=201).json()
    on_sqlite.publish("owner", plan, told["content_digest"])
    path = on_sqlite.settings.folder / "agency.sqlite"
    for statement in (
        "REPLACE INTO trail SELECT id, at, NULL, 'forged', '', '' FROM trail",
        "INSERT OR REPLACE INTO trail (id, at, action, subject, address) VALUES (1, '2020', 'x', '', '')",
        "REPLACE INTO publications SELECT plan_digest, sequence, 'voided', stated_at FROM publications",
        "REPLACE INTO ledger_lines SELECT plan_digest, sequence, 'x', line, added_at FROM ledger_lines",
        "INSERT OR REPLACE INTO registrations SELECT plan_digest, sequence, party_id, content_digest, facts, "
        "grouping, counts FROM registrations",
        "REPLACE INTO registrations (plan_digest, sequence, party_id, content_digest, facts, grouping, "
        "counts) SELECT plan_digest, 7, party_id, content_digest, facts, grouping, counts FROM "
        "registrations",
    ):
        connection = sqlite3.connect(path)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
        connection.close()
        with pytest.raises(sa.exc.IntegrityError), on_sqlite.agency.database.writing() as session:
            session.execute(sa.text(statement))


def test_the_folder_is_private_and_what_others_can_write_is_refused(tmp_path):
    folder = tmp_path / "new" / "agency"
    prepare(Settings(folder=folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "agency.sqlite").stat().st_mode) == 0o600
    for place in (folder / "agency.sqlite", folder):
        mode = place.stat().st_mode
        place.chmod(0o777)
        with pytest.raises(ParameterError, match="Others than the owner can write"):
            Database(f"sqlite:///{folder / 'agency.sqlite'}")
        place.chmod(mode)


def test_what_a_killed_process_has_left_of_a_key_is_removed_with_the_next_one(agency_folder):
    left = agency_folder.folder / f".agency-key.pem.{'0' * 16}.staged.part"
    left.write_bytes(b"a key")
    renew_key(agency_folder)
    assert not left.exists()
    assert (agency_folder.folder / "agency-key.pem").exists()


def test_a_model_is_never_written_to_a_temporary_folder(on_sqlite, tmp_path, monkeypatch):
    """So nothing can stay there if the process is killed."""
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o500)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    on_sqlite.add_model()
    headers = {"Content-Type": "application/octet-stream"}
    on_sqlite.ask("agency", "PUT", "/populations/region/model", content=model_file(), headers=headers)
    assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize("depth", [500, 850, 900, 940, 1000, 3000, 30_000])
def test_deeply_nested_json_cannot_be_read(on_sqlite, depth):
    plan = on_sqlite.issue()
    nested = b"[" * depth + b"]" * depth
    for content in (nested, b'{"records": ' + nested + b"}"):
        answer = on_sqlite.ask(
            "owner", "PUT", f"/plans/{plan.digest}/progress", content=content, headers=JSON
        )
        assert answer.status_code == (400 if depth >= 1000 else answer.status_code)
        assert answer.status_code in (400, 422)
