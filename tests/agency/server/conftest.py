"""The agency's service in tests: on SQLite and on a real PostgreSQL, with somebody of every role."""

import shutil

import pytest
from tests.agency.server.service import Clock, Service

from elldelta.agency.server.database import Database
from elldelta.agency.server.migrations import migrate
from elldelta.agency.server.settings import Settings


@pytest.fixture(autouse=True)
def quick_frontiers(monkeypatch):
    """A few points are enough for the populations of tests."""
    monkeypatch.setattr("elldelta.agency.server.services.planning.FRONTIER_RECORDS", (1_000, 30_000))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """An empty database, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'agency.sqlite'}"
        return
    yield request.getfixturevalue("postgres_url")


@pytest.fixture
def database(database_url):
    """An empty database that nothing has been done to."""
    opened = Database(Settings(folder="", database=database_url).database_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory):
    """A migrated database, to be copied: that is faster than migrating for every test."""
    path = tmp_path_factory.mktemp("template") / "agency.sqlite"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql_template(postgres_server):
    """The same on PostgreSQL: the name of a database to make others from."""
    with postgres_server.new_database() as url:
        _migrate(url)
        yield url.partition("?")[0].rpartition("/")[2]


def _migrate(url):
    opened = Database(Settings(folder="", database=url).database_url)
    migrate(opened)
    opened.close()


def pytest_generate_tests(metafunc):
    """Where the database matters little, PostgreSQL is tried only if everything is."""
    if "settings" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("both_databases")
        always = mark is not None and "rarely" not in mark.args
        postgresql = pytest.param("postgresql", marks=[] if always else [pytest.mark.slow])
        metafunc.parametrize("settings", ["sqlite", postgresql], indirect=True)


@pytest.fixture
def settings(request, tmp_path):
    """Settings for a database of either kind that is up to date."""
    if request.param == "sqlite":
        path = tmp_path / "agency.sqlite"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        yield Settings(folder=tmp_path / "data", database=f"sqlite:///{path}")
        return
    template = request.getfixturevalue("postgresql_template")
    with request.getfixturevalue("postgres_server").new_database(template) as url:
        yield Settings(folder=tmp_path / "data", database=url)


@pytest.fixture
def service(settings):
    """The running service."""
    with Service(settings, Clock()) as running:
        yield running


@pytest.fixture
def migrated(database):
    migrate(database)
    return database


@pytest.fixture
def make_service(settings):
    """The running service with other limits."""
    opened = []

    def make(**limits):
        running = Service(settings, Clock(), **limits)
        opened.append(running)
        return running.__enter__()

    yield make
    for running in opened:
        running.__exit__(None, None, None)
