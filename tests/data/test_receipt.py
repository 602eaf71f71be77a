"""Receipts: they survive their file, and nothing else passes for one."""

from dataclasses import asdict

import pytest

from elldelta.data.json_file import seal
from elldelta.data.receipt import Receipt, read_receipt, receipt_path
from elldelta.errors import FileError

DIGEST = "sha256:" + "5e" * 32
RECEIPT = Receipt("https://agency.example", "hospital-a", DIGEST, DIGEST, DIGEST, 3, DIGEST)


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
    ],
    ids=repr,
)
def test_what_is_no_receipt(changes):
    with pytest.raises(FileError):
        Receipt.from_dict(seal("receipt", 1, {**asdict(RECEIPT), **changes}))


def test_other_versions_and_edited_ones():
    with pytest.raises(FileError, match="newer"):
        Receipt.from_dict(seal("receipt", 2, asdict(RECEIPT)))
    with pytest.raises(FileError, match="changed"):
        Receipt.from_dict({**RECEIPT.to_dict(), "sequence": 4})
    with pytest.raises(FileError, match="changed"):
        Receipt.from_dict(seal("receipt", 1, {"owner": "A"}))
