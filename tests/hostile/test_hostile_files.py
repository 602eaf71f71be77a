"""Files from somebody who wants us to fail: whatever is in them, the answer is an error of ours, or a result.

Every format is damaged from seeds, in its bytes and in what it says (sealed again, so that no digest stops
us), and read by the command that reads it, in a process of its own, which may not die, run out of memory or
time, meet a situation that it does not understand, or leave anything behind.
"""

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import threading
from itertools import islice

import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.golden.make import FILES, say, tables
from tests.golden.test_golden import CHECKS
from tests.hostile import worker
from tests.hostile.mutations import mutants, rng_for
from tests.switch import quick_or_all

MOST_SECONDS = 60.0
INFER = "schema infer {} --qi postal_code,gender,age --sensitive disease -o out/schema.toml"
READERS = {
    **{name: [check] for name, check in CHECKS.items()},
    "schema.toml": ["estimate past.csv --schema schema.toml -o out/model.parquet"],
    "several.toml": ["audit alone.csv --columns several.toml --ell 2"],
    "model.parquet": ["plan model.parquet --ell 3 --releases 2 --records 700 -o out/plan.json"],
    "regions/regions.json": ["plan regions --ell 3 --releases 2 --records 700 -o out/plan.json"],
    "regions/0.parquet": ["plan regions --ell 3 --releases 2 --records 700 -o out/plan.json"],
    "noise.parquet": ["model merge model.parquet noise.parquet -o out/model.parquet"],
    "plan.json": ["release owner_a.csv --plan plan.json -o out/release.csv", "compose plan.json"],
    "closeness.json": ["release owner_a.csv --plan closeness.json -o out/release.csv"],
    "several.json": [
        "release owner_a.csv --plan several.json --person patient_id --leave-out -o out/release.csv"
    ],
    "probabilistic.json": ["release owner_a.csv --plan probabilistic.json -o out/release.csv"],
    "paper.json": ["compose paper.json"],
    "moving.json": ["verify moving.csv --plan moving.json"],
    "owners.json": ["compose owners.json plan.json"],
    "release.csv.manifest.json": ["audit release.csv release.parquet"],
    "release.csv": ["audit release.csv release.parquet"],
    "releases.ledger": ["ledger show releases.ledger --plan plan.json"],
    "living.ledger": ["ledger show living.ledger"],
    "second.state.parquet": [
        "release owner_b.csv --plan plan.json --person patient_id --ledger living.ledger --owner a "
        "--since second.state.parquet --state out/state.parquet -o out/release.csv"
    ],
    "agency-key.pem": ["signature sign plan.json --key agency-key.pem --population region"],
    "agency.pem": ["signature verify plan.json --agency-key agency.pem"],
    "about.toml": ["evidence release.csv --plan plan.json --about about.toml -o out/evidence"],
    "places.csv": [INFER.format("past.csv") + " --hierarchy postal_code=places.csv"],
    **{f"past.{end}": [INFER.format(f"past.{end}")] for end in ("csv", "parquet", "feather", "jsonl")},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One small file of every format, and the tables that they were made from."""
    folder = tmp_path_factory.mktemp("hostile") / "files"
    shutil.copytree(FILES, folder)
    (folder / "agency-key.pem").chmod(0o600)
    for name, text in tables():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    past = pyarrow.csv.read_csv(folder / "past.csv")
    pq.write_table(past, folder / "past.parquet")
    # Not compressed: what is damaged then reaches the cells.
    pyarrow.feather.write_feather(past, folder / "past.feather", compression="uncompressed")
    lines = [json.dumps(row) for row in past.slice(0, 300).to_pylist()]
    (folder / "past.jsonl").write_text("\n".join(lines), encoding="utf-8")
    shutil.copy(folder / "release.csv", folder / "alone.csv")
    with contextlib.chdir(folder):
        say("evidence --plan plan.json --form about.toml")
    return folder


class Commands:
    """A process that runs commands in a folder, and is started again when it has died."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def run(self, command):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, worker.__file__, self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        clock = threading.Timer(MOST_SECONDS, self.process.kill)
        clock.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(shlex.split(command)) + "\n")
                self.process.stdin.flush()
            answer = self.process.stdout.readline()
        finally:
            clock.cancel()
        if not answer:
            code, self.process = self.process.wait(), None
            return {"code": f"the process ended with {code}", "text": ""}
        return json.loads(answer)

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture(scope="module")
def commands(files):
    running = Commands(files)
    yield running
    running.close()


def complaint(report, files):
    """What is wrong with the answer to a hostile file; None if nothing is."""
    out = files / "out"
    left = sorted(path.name for path in out.iterdir())
    shutil.rmtree(out)
    if report["code"] not in (0, 2, 3):
        return f"exit code {report['code']}: {report['text'][-500:]}"
    if report["code"] and left:
        return f"exit code {report['code']}, and {left} were left behind"
    if any(part.endswith((".part", ".tmp")) for part in left):
        return f"{left} were left behind"
    return None


def attempt(files, commands, name, damaged):
    """What the commands that read a file make of another content."""
    (files / "out").mkdir(exist_ok=True)
    place = files / name
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    place.write_bytes(damaged)
    found = None
    for command in READERS[name]:
        (files / "out").mkdir(exist_ok=True)
        found = found or complaint(commands.run(command), files)
    shutil.rmtree(files / "out", ignore_errors=True)
    for other, content in before.items():
        if not other.exists() or other.read_bytes() != content:
            other.write_bytes(content)
    return found


@pytest.mark.parametrize("name", READERS)
def test_whatever_is_in_a_file_the_answer_is_ours(name, files, commands):
    content = (files / name).read_bytes()
    n_tried = quick_or_all(2, 20)
    damaged = islice(mutants(name, content, rng_for(name, 1)), n_tried)
    found = {place: attempt(files, commands, name, each) for place, each in enumerate(damaged)}
    assert not {place: words for place, words in found.items() if words}
