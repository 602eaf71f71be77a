"""`elldelta signature`, and releases that ask for the agency's signature before anything is read."""

import datetime as dt
import json

import pytest
from tests.agency.registrations import make_plan

from elldelta.files import PrivateKey, read_private_key
from elldelta.plan.plan import read_plan
from elldelta.plan.signature import sign_plan, signature_path, write_signature


@pytest.fixture
def plan(story, tmp_path):
    """A plan of one's own, to sign and to spoil."""
    path = tmp_path / "plan.json"
    path.write_bytes(story.plan.read_bytes())
    return path


@pytest.fixture
def keys(elldelta, tmp_path):
    private, public = tmp_path / "agency.key", tmp_path / "agency.pem"
    made = elldelta("signature", "key", private, "--public", public, "--json").json
    assert private.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in public.read_text()
    return private, public, made["id"]


@pytest.fixture
def signed(elldelta, plan, keys):
    done = elldelta("signature", "sign", plan, "--key", keys[0], "--json").json
    assert done["plan_digest"] == read_plan(plan).digest
    assert done["key_id"] == keys[2]
    return plan


def test_a_signed_plan_is_verified_offline(elldelta, signed, keys):
    said = elldelta("signature", "verify", signed, "--agency-key", keys[1], "--json").json
    known = {"valid": True, "plan_digest": read_plan(signed).digest, "key_id": keys[2]}
    assert said == {**known, "population": None, "expires": None}
    assert (
        "The agency has signed this plan"
        in elldelta("signature", "verify", signed, "--agency-key", keys[1]).out
    )


def test_keys_and_signatures_are_not_overwritten(elldelta, signed, keys, tmp_path):
    before = keys[0].read_bytes()
    elldelta("signature", "key", keys[0], "--public", tmp_path / "new.pem", code=2)
    elldelta("signature", "key", tmp_path / "new.key", "--public", keys[1], code=2)
    assert keys[0].read_bytes() == before
    assert not (tmp_path / "new.pem").exists()
    assert not (tmp_path / "new.key").exists()
    elldelta("signature", "sign", signed, "--key", keys[0], code=2)
    elldelta("signature", "sign", signed, "--key", keys[0], "--overwrite")


def test_a_private_key_that_others_can_read_does_not_sign(elldelta, plan, keys):
    keys[0].chmod(0o644)
    refused = elldelta("signature", "sign", plan, "--key", keys[0], "--json", code=2)
    assert "Others may read" in refused.error["problem"]
    assert not signature_path(plan).exists()


def another_ell(plan):
    document = json.loads(plan.read_bytes())
    document["columns"][0]["ell"] += 1
    plan.write_text(json.dumps(document))


def another_key(plan):
    document = json.loads(signature_path(plan).read_bytes())
    document["key_id"] = "sha256:" + "0" * 64
    signature_path(plan).write_text(json.dumps(document))


def one_bit(plan):
    document = json.loads(signature_path(plan).read_bytes())
    document["signature"] = ("B" if document["signature"][0] == "A" else "A") + document["signature"][1:]
    signature_path(plan).write_text(json.dumps(document))


def no_signature(plan):
    signature_path(plan).unlink()


@pytest.mark.parametrize(
    ("spoil", "code"), [(another_ell, 2), (another_key, 3), (one_bit, 3), (no_signature, 2)]
)
def test_what_was_changed_is_neither_verified_nor_released(
    elldelta, signed, keys, story, tmp_path, spoil, code
):
    spoil(signed)
    elldelta("signature", "verify", signed, "--agency-key", keys[1], code=code)
    target = tmp_path / "release.parquet"
    elldelta("release", story.owner_a, "--plan", signed, "--agency-key", keys[1], "-o", target, code=code)
    assert not target.exists()


def test_the_signature_is_checked_before_anything_is_read(elldelta, signed, keys, tmp_path):
    one_bit(signed)
    refused = elldelta(
        "release", tmp_path / "no such table.parquet", "--plan", signed, "--agency-key", keys[1],
        "-o", tmp_path / "release.parquet", "--json", code=3,
    )  # fmt: skip
    assert "does not hold" in refused.error["problem"]


def test_a_signed_plan_is_released(elldelta, signed, keys, story, tmp_path):
    target = tmp_path / "release.parquet"
    elldelta("release", story.owner_a, "--plan", signed, "--agency-key", keys[1], "-o", target)
    elldelta("verify", target, "--plan", signed)


def test_a_release_does_not_overwrite_the_signature(elldelta, signed, keys, story):
    before = signature_path(signed).read_bytes()
    elldelta("release", story.owner_a, "--plan", signed, "-o", signature_path(signed), "--overwrite", code=2)
    elldelta(
        "release", story.owner_a, "--plan", signed, "-o", signed.parent / "r.csv",
        "--outside", signature_path(signed), "--overwrite", code=2,
    )  # fmt: skip
    assert signature_path(signed).read_bytes() == before


def test_people_and_the_last_day_are_signed_and_told(elldelta, plan, keys):
    elldelta("signature", "sign", plan, "--key", keys[0], "--population", "region", "--expires-in-days", 30)
    said = elldelta("signature", "verify", plan, "--agency-key", keys[1], "--json").json
    assert said["population"] == "region"
    left = dt.datetime.fromisoformat(said["expires"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=29) < left <= dt.timedelta(days=30)
    elldelta("signature", "sign", plan, "--key", keys[0], "--population", "a\nb", "--overwrite", code=2)


class TestWithoutAKey:
    """Nobody may think that a signature was checked because it lies there."""

    @pytest.mark.parametrize("command", ["release", "verify", "ledger"])
    def test_a_signature_of_another_plan_is_refused_all_the_same(
        self, elldelta, signed, keys, story, tmp_path, command
    ):
        release, ledger = tmp_path / "release.parquet", tmp_path / "releases.ledger"
        words = ("release", story.owner_a, "--plan", signed, "-o")
        elldelta(*words, release, "--ledger", ledger, "--owner", "A")
        other = PrivateKey.create()
        document = sign_plan(make_plan(), other)
        signature_path(signed).write_text(json.dumps(document))
        run = {
            "release": (*words, tmp_path / "again.parquet"),
            "verify": ("verify", release, "--plan", signed),
            "ledger": ("ledger", "verify", ledger, "--plan", signed),
        }[command]
        refused = elldelta(*run, "--json", code=3)
        assert "about another plan" in refused.error["problem"]
        assert not (tmp_path / "again.parquet").exists()
        signature_path(signed).write_text("{}")
        elldelta(*run, code=2)

    def test_what_has_ended_is_not_released_with_and_still_verified_with(
        self, elldelta, signed, keys, story, tmp_path
    ):
        release = tmp_path / "release.parquet"
        words = ("release", story.owner_a, "--plan", signed, "-o")
        elldelta(*words, release)
        key, yesterday = read_private_key(keys[0]), dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
        for ending in ({"status": "withdrawn"}, {"status": "superseded"}, {"expires": yesterday}):
            write_signature(sign_plan(read_plan(signed), key, **ending), signed, overwrite=True)
            for more in ((), ("--agency-key", keys[1])):
                refused = elldelta(*words, tmp_path / "again.parquet", *more, "--json", code=3)
                told = refused.error["problem"] + refused.error["found"]
                assert "expired" in told if "expires" in ending else ending["status"] in told
                assert not (tmp_path / "again.parquet").exists()
            elldelta("verify", release, "--plan", signed)
            elldelta("signature", "verify", signed, "--agency-key", keys[1], code=3)
