"""The command line in tests: how it is called, and one small story that tests may read but not change."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.release.hospital_tables import (
    QUASI_IDENTIFIERS,
    SENSITIVE,
    SMALL_PLAN,
    make_rows,
    write_csv,
    write_parquet,
)

from elldelta.cli.main import execute

ANY_CODE = -1
"""For a test that looks at the exit code itself."""


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """The three parts of an error, from `--json`."""
        return self.json["error"]


@pytest.fixture
def elldelta(capsys):
    """Runs a command in this process; refuses the test if the exit code is not the expected one."""

    def run(*arguments, code=0):
        capsys.readouterr()
        found = execute([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        finished = Finished(found, captured.out, captured.err)
        assert code in {found, ANY_CODE}, finished
        return finished

    return run


@pytest.fixture
def script():
    """The command line that a person types, for another process."""
    found = shutil.which("elldelta", path=str(Path(sys.executable).parent))
    return [found] if found else [sys.executable, "-c", "from elldelta.cli.main import run; run()"]


@pytest.fixture
def described(tmp_path):
    """The option that describes columns by a file with some text."""

    def write(text, name="columns.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return "--columns", path

    return write


@dataclass(frozen=True)
class Story:
    """A small story, as files: past records, two owners, and everything made from them."""

    folder: Path

    def __getattr__(self, name):
        [path] = self.folder.glob(f"{name}.*")
        return path

    def document(self, name):
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


def quietly(*arguments):
    """Runs a command that must work, and returns what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = execute([str(argument) for argument in arguments])
    assert code == 0, out.getvalue()
    return out.getvalue()


@pytest.fixture(scope="session")
def story(tmp_path_factory):
    """Past records, schema, model and plan, and the tables of two owners."""
    folder = tmp_path_factory.mktemp("story")
    past = write_csv(folder / "past.csv", make_rows(6000, seed=1))
    write_parquet(folder / "owner_a.parquet", make_rows(3000, seed=2))
    write_csv(folder / "owner_b.csv", make_rows(3000, seed=3))
    schema, model = folder / "schema.toml", folder / "model.parquet"
    quietly(
        "schema", "infer", past, "--qi", ",".join(QUASI_IDENTIFIERS), "--sensitive", SENSITIVE,
        "--widen", "age=no", "-o", schema,
    )  # fmt: skip
    quietly("estimate", past, "--schema", schema, "-o", model)
    quietly("plan", model, *SMALL_PLAN, "-o", folder / "plan.json")
    return Story(folder)


@pytest.fixture(scope="session")
def digests():
    """The bytes of every file below a folder, to see that nothing has changed."""

    def read(folder):
        return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}

    return read


@pytest.fixture
def in_process(script):
    """Starts a command as a process of its own, which ends with the test at the latest."""
    with contextlib.ExitStack() as started:

        def start(*arguments, **options):
            process = started.enter_context(
                subprocess.Popen(
                    [*script, *map(str, arguments)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    **options,
                )
            )
            started.callback(process.kill)  # comes before its pipes are closed
            return process

        yield start
