"""Receipts: they survive their file, and nothing else passes for one."""

from dataclasses import asdict, replace

import pytest
from tests.agency.registrations import make_plan

from elldelta.agency.receipt import Receipt, read_receipt, receipt_path, sign_admission
from elldelta.errors import FileError, RefusedError
from elldelta.files import PrivateKey, seal
from elldelta.plan.signature import sign_plan, verified_signature

DIGEST = "sha256:" + "5e" * 32
RECEIPT = Receipt("https://agency.example", "hospital-a", DIGEST, DIGEST, DIGEST, 3, DIGEST, "region")
KEY = PrivateKey.create()


def signed(receipt):
    done = sign_admission(KEY, {"plan": receipt.plan_digest, **asdict(receipt)})
    return replace(receipt, key_id=done["key_id"], signature=done["signature"])


SIGNED = signed(RECEIPT)


def test_a_signed_receipt_survives_its_file_and_is_the_agencys(tmp_path):
    (tmp_path / "receipt.json").write_bytes(SIGNED.to_bytes())
    found = read_receipt(tmp_path / "receipt.json")
    assert found == SIGNED
    found.verify(KEY.public_key)
    replace(found, server="https://elsewhere.example").verify(KEY.public_key)  # where it was fetched


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "hospital-b"},
        {"plan_digest": "sha256:" + "6f" * 32},
        {"content_digest": "sha256:" + "6f" * 32},
        {"sequence": 4},
        {"hash": "sha256:" + "6f" * 32},
        {"population": "another"},
        {"key_id": PrivateKey.create().id},
        {"key_id": None, "signature": None},
    ],
    ids="-".join,
)
def test_what_the_agency_has_not_signed_is_refused(changes):
    with pytest.raises(RefusedError):
        replace(SIGNED, **changes).verify(KEY.public_key)


def test_another_key_and_a_signature_that_is_none():
    with pytest.raises(RefusedError, match="another key"):
        SIGNED.verify(PrivateKey.create().public_key)
    for text in ("", "A", "ü" * 88, "A" * 88 + "=", SIGNED.signature[:-1]):
        with pytest.raises(FileError):
            replace(SIGNED, signature=text).verify(KEY.public_key)


def test_signatures_of_plans_and_of_receipts_are_never_taken_for_each_other():
    document = sign_plan(make_plan(), KEY)
    with pytest.raises(RefusedError):
        replace(SIGNED, signature=document["signature"]).verify(KEY.public_key)
    with pytest.raises(RefusedError):
        verified_signature({**document, "signature": SIGNED.signature}, KEY.public_key)


def test_a_receipt_survives_its_file(tmp_path):
    path = receipt_path(tmp_path / "release.parquet")
    assert path.name == "release.parquet.receipt.json"
    path.write_bytes(RECEIPT.to_bytes())
    assert read_receipt(path) == RECEIPT


@pytest.mark.parametrize(
    "changes",
    [
        {"hash": "x"},
        {"plan_digest": None},
        {"sequence": "3"},
        {"sequence": True},
        {"owner": 3},
        {"owner": "\x1b[2J"},
        {"server": "a\nb"},
        {"more": 1},
        {"key_id": None},
        {"signature": None},
        {"key_id": "x"},
        {"signature": 3},
        {"population": "\x1b[2J"},
        {"population": 3},
    ],
    ids=repr,
)
def test_what_is_no_receipt(changes):
    with pytest.raises(FileError):
        Receipt.from_dict(seal("receipt", 3, {**asdict(SIGNED), **changes}))


def test_other_versions_and_edited_ones():
    with pytest.raises(FileError, match="another version"):
        Receipt.from_dict(seal("receipt", 2, asdict(RECEIPT)))
    with pytest.raises(FileError, match="changed"):
        Receipt.from_dict({**RECEIPT.to_dict(), "sequence": 4})
    with pytest.raises(FileError, match="changed"):
        Receipt.from_dict(seal("receipt", 1, {"owner": "A"}))
