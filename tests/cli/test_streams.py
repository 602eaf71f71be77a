"""Standard output and error that take no more: a full disk, a closed stream, a reader who has gone."""

import json
import os
import subprocess
from pathlib import Path

import pytest

FULL = Path("/dev/full")

needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full, a disk that is always full")

CANNOT = """\
Error: The output cannot be written.
       The system says: No space left on device.
       What was written to files is there. Give standard output room, or send it elsewhere.
"""
TABLES = ("worst-case", "--values", 50, "--ell", 30, "--releases", 2)
WRONG = ("worst-case", "--values", 5, "--ell", 30, "--releases", 2)


@pytest.fixture
def begin(script):
    """Runs a command as a process of its own whose streams are files or pipes."""

    def run(*arguments, unbuffered="", **streams):
        return subprocess.run(
            [*script, *map(str, arguments)],
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )

    return run


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [TABLES, ("--help",)], ids=["tables", "help"])
def test_a_full_disk_below_standard_output_is_named(begin, arguments, unbuffered):
    with FULL.open("w") as full:
        found = begin(*arguments, stdout=full, unbuffered=unbuffered)
    assert (found.returncode, found.stderr) == (2, CANNOT)


@needs_full
def test_files_are_written_although_standard_output_is_full(begin, story, tmp_path):
    out = tmp_path / "release.parquet"
    arguments = ("release", story.owner_a, "--plan", story.folder / "plan.json", "-o", out)
    with FULL.open("w") as full:
        found = begin(*arguments, stdout=full)
    assert (found.returncode, found.stderr) == (2, CANNOT)
    assert begin("verify", out, "--plan", story.folder / "plan.json").returncode == 0


@needs_full
@pytest.mark.parametrize("arguments", [TABLES, WRONG], ids=["result", "error"])
def test_an_error_in_json_goes_where_there_is_room(begin, arguments):
    with FULL.open("w") as full:
        found = begin(*arguments, "--json", stdout=full)
    error = json.loads(found.stderr)["error"]
    assert found.returncode == error["exit_code"] == 2
    assert error["problem"].startswith("The output cannot" if arguments == TABLES else "ell must be")


@needs_full
@pytest.mark.parametrize(("arguments", "code"), [(("--help",), 0), (WRONG, 2), (("nonsense",), 2)])
def test_the_exit_code_tells_what_standard_error_cannot(begin, arguments, code):
    with FULL.open("w") as full:
        assert begin(*arguments, stderr=full).returncode == code
        assert begin(*arguments, stdout=full, stderr=full).returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="needs the streams of a shell")
@pytest.mark.parametrize("arguments", [TABLES, ("--help",)], ids=["tables", "help"])
def test_streams_that_are_closed(script, arguments):
    def closed(redirection):
        command = ["sh", "-c", f'"$@" {redirection}', "sh", *script, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    found = closed(">&-")
    assert found.returncode == 2
    assert found.stderr.splitlines()[1] == "       The system says: Bad file descriptor."
    assert (closed("2>&-").returncode, closed("2>&-").stdout) == (0, closed("").stdout)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [TABLES, (*TABLES, "--json"), ("--help",)], ids=["tables", "json", "help"]
)
def test_a_reader_who_has_gone_is_no_error(begin, arguments, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        found = begin(*arguments, stdout=nobody, unbuffered=unbuffered)
    assert (found.returncode, found.stderr) == (0, "")
