"""One small file of every format: it keeps its bytes, is made again the same, and is read and checked.

A format that changes changes these files: make them again (`make golden`) and look at what else has changed.
"""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.golden.make import DIGESTS, FILES, KEY, digests, make_again, say

import elldelta as ed
from elldelta.agency.registration import Registration
from elldelta.audit.evidence import verify_evidence
from elldelta.errors import ElldeltaError, FileError
from elldelta.files import json_object

DOCUMENTS = sorted(path.name for path in FILES.glob("*.json"))
BY_REGION = "plan regions --ell 3 --releases 2 --records 700 -o again.json --overwrite"
CHECKS = {
    "closeness.csv": "verify closeness.csv --plan closeness.json",
    "closeness.csv.manifest.json": "verify closeness.csv",
    "closeness.json": "verify closeness.csv --plan closeness.json",
    "first.parquet": "verify first.parquet --plan plan.json",
    "living.ledger": "ledger verify living.ledger --plan plan.json --release second.parquet",
    "model.parquet": "model show model.parquet",
    "moving.csv": "verify moving.csv --plan moving.json",
    "moving.csv.manifest.json": "verify moving.csv",
    "moving.json": "verify moving.csv --plan moving.json",
    "noise.parquet": "model show noise.parquet",
    "plan.json": "verify release.csv --plan plan.json",
    "plan.json.sig": "signature verify plan.json --agency-key agency.pem",
    "regions/0.parquet": BY_REGION,
    "regions/regions.json": BY_REGION,
    "release.csv": "verify release.csv",
    "release.csv.manifest.json": "verify release.csv",
    "release.csv.receipt.json": "ledger verify releases.ledger --release release.csv --agency-key agency.pem",
    "release.parquet": "verify release.parquet --plan plan.json",
    "releases.ledger": "ledger verify releases.ledger --plan plan.json --release release.parquet",
    "several.csv": "verify several.csv --plan several.json",
    "several.csv.manifest.json": "verify several.csv",
    "several.json": "verify several.csv --plan several.json",
    "several.parquet": "model show several.parquet",
}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of all files, in the current folder."""
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def test_every_file_is_as_it_was_written():
    assert digests() == DIGESTS.read_text(encoding="utf-8")


def test_what_is_made_again_is_the_same(tmp_path):
    for name in (KEY, "agency.pem"):
        shutil.copy(FILES / name, tmp_path / name)
    (tmp_path / KEY).chmod(0o600)
    make_again(tmp_path)
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        kept = FILES / path.relative_to(tmp_path)
        if path.suffix == ".parquet" and is_by_another_library(path, kept):
            assert pq.read_table(path).equals(pq.read_table(kept))
        else:
            assert path.read_bytes() == kept.read_bytes(), path.name


def is_by_another_library(*paths):
    """Whether Parquet files name different writers, which may store the same table otherwise."""
    return len({pq.read_metadata(path).created_by for path in paths}) > 1


@pytest.mark.parametrize("name", CHECKS)
def test_a_file_is_read_and_checked_and_once_changed_refused(name, copied):
    say(CHECKS[name])
    content = bytearray(Path(name).read_bytes())
    # In Parquet some bytes say nothing: statistics, or what is written twice.
    places = range(4, 200) if name.endswith(".parquet") else [len(content) // 2]
    for place in places:
        content[place] ^= 1
    Path(name).write_bytes(content)
    with pytest.raises(AssertionError, match=r'"exit_code": [23]'):
        say(CHECKS[name])


@pytest.mark.parametrize(
    "name", ["plan", "closeness", "several", "probabilistic", "paper", "owners", "by_region"]
)
def test_a_plan_is_read_and_says_what_it_said(name):
    plan = ed.read_plan(FILES / f"{name}.json")
    document = json.loads((FILES / f"{name}.json").read_bytes())
    assert (plan.digest, plan.promise) == (document["digest"], document["promise"])
    assert plan.file_content[1] == (FILES / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", ["plan.json", "release.csv.manifest.json", "release.csv.receipt.json"])
@pytest.mark.parametrize("version", [0, 2, True, "1", None])
def test_another_version_is_refused_in_three_parts(name, version, copied):
    document = json.loads(Path(name).read_bytes())
    Path(name).write_text(json.dumps({**document, "format": version}), encoding="utf-8")
    with pytest.raises(AssertionError) as refusal:
        say(CHECKS[name])
    error = json.loads(refusal.value.args[0][1])["error"]
    assert "another version" in error["problem"]
    assert "the one known here is 1" in error["found"]
    assert error["remedy"]


def test_a_record_of_evidence_is_read_and_once_changed_refused(copied):
    found = verify_evidence("evidence.json")
    assert found["plan"]["digest"] == ed.read_plan("plan.json").digest
    content = Path("evidence.json").read_bytes()
    for old, new in ((b'"format":1', b'"format":2'), (b"as agreed", b"at agreed")):
        Path("evidence.json").write_bytes(content.replace(old, new, 1))
        with pytest.raises(FileError):
            verify_evidence("evidence.json")


def test_a_registration_is_read_and_written_as_it_was():
    content = (FILES / "registration.json").read_bytes()
    assert Registration.from_bytes(content).to_bytes() == content
    with pytest.raises(FileError):
        Registration.from_bytes(content.replace(b'"counts":[', b'"counts":[1,', 1))


def test_a_table_that_lives_goes_on_from_its_state(copied):
    with pytest.raises(ElldeltaError):
        ed.read_model("first.state.parquet")
    head = json_object(pq.read_schema("second.state.parquet").metadata[b"elldelta.state"])
    assert head["plan"] == ed.read_plan("plan.json").digest
    entries = [json.loads(line) for line in Path("living.ledger").read_bytes().splitlines()[1:]]
    assert [entry["update"]["updates"] for entry in entries] == [None, 1]
