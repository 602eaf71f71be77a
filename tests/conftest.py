"""Settings for all tests: no deadline per example, long files first, files in memory, one command line."""

import functools
import os
import tempfile
from pathlib import Path

import pytest
import typer
from hypothesis import settings
from tests import switch

pytest_plugins = ["tests.postgresql"]

# A slow machine must not fail a property test, and what passes once passes again: whoever changes something
# else is not the one to meet a rare example. Look for those with ELLDELTA_TEST_RANDOM=1.
settings.register_profile(
    "elldelta",
    deadline=None,
    derandomize="ELLDELTA_TEST_RANDOM" not in os.environ,
    max_examples=switch.quick_or_all(40, 80),
)
settings.load_profile("elldelta")

MEMORY = Path("/dev/shm")  # noqa: S108 (a folder that the system keeps in memory)


def keep_files_in_memory():
    """Lets temporary files be where nobody waits for a disk: nothing here must survive a power cut."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return
    room = os.statvfs(MEMORY)
    if not room.f_flag & os.ST_NOEXEC and room.f_bavail * room.f_frsize > 4 * 2**30:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


keep_files_in_memory()

LONGEST_FIRST = (
    "properties/test_dense_and_sparse.py",
    "contracts/test_spark.py",
    "contracts/test_postgres.py",
    "browser/test_agency_pages.py",
    "agency/server/test_three_processes.py",
    "cluster/test_spark_cluster.py",
    "agency/server/test_kill.py",
    "ledger/test_updates.py",
    "cli/test_journey.py",
    "cli/test_bad_input.py",
    "agency/server/test_serve.py",
    "cli/test_canary.py",
    "golden/test_golden.py",
    "contracts/test_duckdb.py",
    "agency/server/test_pages.py",
    "agency/server/test_race.py",
    "agency/server/test_proxy.py",
    "agency/server/test_jobs.py",
    "properties/test_admitted_registrations.py",
    "cli/test_postgres.py",
    "public/test_python.py",
    "ledger/test_ledger.py",
    "agency/server/test_bad_clients.py",
    "engines/test_postgres.py",
    "core/test_boxes.py",
    "core/test_occupancy.py",
    "statistical/test_sharp.py",
    "readme/test_readme.py",
)
"""Files that take more than some ten seconds.

In a fresh clone the first compiles what most others need, while the next two wait for Java and PostgreSQL:
otherwise every process would compile the same.
"""


def pytest_report_header():
    if not switch.IS_ON:
        return f"what is rare and slow is left out; {switch.SWITCH}=1 runs it, too"
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than there are processors: some tests wait for a server or a deadline, others compute then."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out what is slow, unless everything is wanted, and puts long files first.

    A long file that is begun last would keep one processor busy and the others waiting.
    """
    if not switch.IS_ON:
        left_out = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    folder = Path(__file__).parent
    places = {folder / name: place for place, name in enumerate(LONGEST_FIRST)}
    assert all(path.exists() for path in places), "a file has another name now"
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(autouse=True, scope="session")
def one_command_line():
    """Builds the commands once per process, as a person's process does; it takes half as long as they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield
