"""Signatures of plans: what holds, and everything that must not."""

import base64
import copy
import datetime as dt
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planned import with_column
from tests.switch import quick_or_all

from elldelta.core.box_tree import BoxTree
from elldelta.core.witnesses import Witnesses
from elldelta.errors import FileError, InputError, RefusedError
from elldelta.files import (
    PrivateKey,
    PublicKey,
    TrustedKeys,
    as_bytes,
    canonical_json,
    digest_of_parts,
    read_private_key,
    read_public_keys,
    trusted,
    write_key,
)
from elldelta.plan.classes import Boxes
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.failure import sharp_failures
from elldelta.plan.plan import Plan, write_plan
from elldelta.plan.signature import read_signed_plan, sign_plan, signature_path, verified_signature
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

KEY = PrivateKey.create()


def make_plan(records=100):
    schema = Schema((Column("age", Integers(0, 3)),), Column("disease", Categories(("a", "b", "c"))))
    made = Plan(
        schema=schema,
        classes=Boxes(BoxTree([0, -1, -1], [1, 0, 0], (4,))),
        columns=(ColumnPlan(2, 0.01, None, Witnesses.of([(0, 1, 2)] * 2), np.array([20, 20, 10] * 2), 100),),
        delta=0.01,
        releases=1,
        records=records,
        kind="certified",
        min_records=1,
        k=2,
    )
    return with_column(made, failure_upper=sharp_failures(made)[0])


PLAN = make_plan()
SIGNED = sign_plan(PLAN, KEY)


def verify(plan, document, key):
    assert verified_signature(document, key).plan_digest == plan.digest


def test_a_signature_holds_and_is_plain_json():
    verify(PLAN, json.loads(as_bytes(SIGNED)), KEY.public_key)


def test_what_is_signed_is_what_the_documentation_says():
    """Checked without our code, so that another program can check it too."""
    said = {
        "format": 1,
        "population": None,
        "status": "issued",
        "expires": None,
        "algorithm": "Ed25519",
        "key_id": digest_of_parts([KEY.public_key.raw]),
        "plan_digest": PLAN.digest,
    }
    message = b"elldelta/plan-signature\n" + canonical_json(said)
    key = ed25519.Ed25519PublicKey.from_public_bytes(KEY.public_key.raw)
    key.verify(base64.b64decode(SIGNED["signature"]), message)


def test_it_is_of_no_other_plan():
    assert verified_signature(SIGNED, KEY.public_key).plan_digest != make_plan(101).digest


def test_a_document_that_claims_another_plan_is_refused():
    other = make_plan(101)
    with pytest.raises(RefusedError, match="does not hold"):
        verify(other, {**SIGNED, "plan_digest": other.digest}, KEY.public_key)


def test_another_key_is_refused_and_named():
    other = PrivateKey.create()
    with pytest.raises(RefusedError, match="another key") as refusal:
        verify(PLAN, SIGNED, other.public_key)
    assert KEY.id in refusal.value.found
    assert other.id in refusal.value.found
    with pytest.raises(RefusedError, match="does not hold"):
        verify(PLAN, {**SIGNED, "key_id": other.id}, other.public_key)


def test_a_signature_of_the_bare_digest_is_none():
    """A key that also signs something else must not be made to sign a plan by it."""
    for message in (PLAN.digest.encode(), canonical_json({"plan_digest": PLAN.digest}), b""):
        forged = base64.b64encode(KEY.sign(message)).decode()
        with pytest.raises(RefusedError, match="does not hold"):
            verify(PLAN, {**SIGNED, "signature": forged}, KEY.public_key)


def second_spelling(text):
    """The same bytes in base64, with other unused bits at the end: 64 bytes leave four of them."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet[alphabet.index(text[-3]) | 1]
    other = text[:-3] + last + "=="
    assert other != text
    assert base64.b64decode(other) == base64.b64decode(text)
    return other


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "elldelta plan"},
        {"format": 2},
        {"population": ""},
        {"population": 7},
        {"population": "a\nb"},
        {"status": "revoked"},
        {"status": None},
        {"expires": 7},
        {"expires": "2030-01-01"},
        {"expires": "2030-1-01T00:00:00Z"},
        {"format": 0},
        {"format": True},
        {"format": "1"},
        {"format": 1.0},
        {"algorithm": "RSA"},
        {"algorithm": "ed25519"},
        {"key_id": "sha256:12"},
        {"key_id": KEY.id + "\n"},
        {"key_id": None},
        {"plan_digest": PLAN.digest.upper()},
        {"plan_digest": ["x"]},
        {"signature": second_spelling(SIGNED["signature"])},
        {"signature": SIGNED["signature"] + "\n"},
        {"signature": SIGNED["signature"].rstrip("=")},
        {"signature": base64.urlsafe_b64encode(b"\xff" * 64).decode()},
        {"signature": base64.b64encode(b"x" * 63).decode()},
        {"signature": base64.b64encode(b"x" * 65).decode()},
        {"signature": "é" * 88},
        {"signature": ""},
        {"signature": 7},
        {"note": "one key too many"},
    ],
)
def test_a_document_that_is_not_exactly_one_of_ours(changes):
    with pytest.raises(FileError):
        verify(PLAN, {**SIGNED, **changes}, KEY.public_key)


@pytest.mark.parametrize("name", sorted(SIGNED))
def test_a_missing_field(name):
    with pytest.raises(FileError):
        verify(PLAN, {key: value for key, value in SIGNED.items() if key != name}, KEY.public_key)


def test_it_names_people_status_and_its_last_moment_and_none_can_be_changed():
    moment = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    document = sign_plan(PLAN, KEY, population="region", expires=moment)
    found = verified_signature(json.loads(as_bytes(document)), KEY.public_key)
    assert (found.population, found.status, found.expires) == ("region", "issued", moment)
    for change in (
        {"population": "another"},
        {"population": None},
        {"status": "withdrawn"},
        {"expires": None},
        {"expires": "2031-01-01T00:00:00Z"},
    ):
        with pytest.raises(RefusedError, match="does not hold"):
            verified_signature({**document, **change}, KEY.public_key)


@settings(max_examples=quick_or_all(100, 200))
@given(st.integers(0, 64 * 8 - 1))
def test_every_flipped_bit_is_noticed(bit):
    raw = bytearray(base64.b64decode(SIGNED["signature"]))
    raw[bit // 8] ^= 1 << bit % 8
    forged = {**SIGNED, "signature": base64.b64encode(bytes(raw)).decode()}
    with pytest.raises(RefusedError):
        verify(PLAN, forged, KEY.public_key)


def test_the_second_signature_of_the_same_bytes_does_not_hold():
    """S + L instead of S: the equation holds, the standard forbids it."""
    order = 2**252 + 27742317777372353535851937790883648493
    raw = base64.b64decode(SIGNED["signature"])
    other = raw[:32] + (int.from_bytes(raw[32:], "little") + order).to_bytes(32, "little")
    with pytest.raises(RefusedError, match="does not hold"):
        verify(PLAN, {**SIGNED, "signature": base64.b64encode(other).decode()}, KEY.public_key)


class TestBundles:
    """A file with several keys: each of them is trusted, and nothing else."""

    KEYS = [PrivateKey.create() for _ in range(3)]
    BUNDLE = TrustedKeys(tuple(key.public_key for key in KEYS))

    def test_it_survives_a_file(self, tmp_path):
        write_key(self.BUNDLE, tmp_path / "agency.pem")
        assert trusted(tmp_path / "agency.pem") == self.BUNDLE
        by_hand = b"\n".join(key.to_pem() for key in (*self.BUNDLE.keys, self.BUNDLE.keys[0]))
        assert TrustedKeys.from_pem(by_hand) == self.BUNDLE

    def test_each_of_its_keys_is_trusted_and_no_other(self):
        for key in self.KEYS:
            assert self.BUNDLE.named(key.id) == key.public_key
            verify(PLAN, sign_plan(PLAN, key), self.BUNDLE)
        with pytest.raises(RefusedError, match="another key"):
            verify(PLAN, sign_plan(PLAN, PrivateKey.create()), self.BUNDLE)
        forged = {**sign_plan(PLAN, PrivateKey.create()), "key_id": self.KEYS[1].id}
        with pytest.raises(RefusedError, match="does not hold"):
            verify(PLAN, forged, self.BUNDLE)

    @pytest.mark.parametrize(
        "more", [b"x", b"-----BEGIN PUBLIC KEY-----\n", KEYS[0].to_pem(), b"-----END PUBLIC KEY-----\n"]
    )
    def test_what_is_more_than_keys_is_refused(self, more):
        for content in (self.BUNDLE.to_pem() + more, more, b""):
            with pytest.raises(FileError, match="key"):
                TrustedKeys.from_pem(content)


class TestKeys:
    def test_keys_survive_a_file_and_keep_their_name(self, tmp_path):
        write_key(KEY, tmp_path / "agency.key")
        write_key(KEY.public_key, tmp_path / "agency.pem")
        assert read_private_key(tmp_path / "agency.key").id == KEY.id
        assert read_public_keys(tmp_path / "agency.pem").keys == (KEY.public_key,)
        assert PublicKey.from_pem(KEY.public_key.to_pem()).id == KEY.id
        assert (tmp_path / "agency.key").stat().st_mode & 0o777 == 0o600
        with pytest.raises(FileError, match="exists"):
            write_key(PrivateKey.create(), tmp_path / "agency.key")

    def test_nobody_else_can_read_the_private_key_whatever_the_mask(self, tmp_path):
        before = os.umask(0)
        try:
            write_key(KEY, tmp_path / "agency.key")
        finally:
            os.umask(before)
        assert (tmp_path / "agency.key").stat().st_mode & 0o777 == 0o600

    def test_a_private_key_that_others_can_read_is_refused(self, tmp_path):
        write_key(KEY, tmp_path / "agency.key")
        (tmp_path / "agency.key").chmod(0o640)
        with pytest.raises(FileError, match="Others may read") as refusal:
            read_private_key(tmp_path / "agency.key")
        assert "0640" in refusal.value.found

    def test_a_private_key_is_not_taken_for_a_public_one(self):
        with pytest.raises(FileError, match="is a private key"):
            PublicKey.from_pem(KEY.to_pem())
        with pytest.raises(FileError, match="not a private"):
            PrivateKey.from_pem(KEY.public_key.to_pem())

    @pytest.mark.parametrize("content", [b"", b"x" * 20_000, b"\xff\xfe", b"-----BEGIN PUBLIC KEY-----"])
    def test_what_is_no_key(self, content):
        for read in (PublicKey.from_pem, PrivateKey.from_pem):
            with pytest.raises(FileError):
                read(content)

    def test_keys_of_another_kind_or_with_a_password(self):
        other = x25519.X25519PrivateKey.generate()
        pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with pytest.raises(FileError, match="not a private Ed25519"):
            PrivateKey.from_pem(pem)
        pem = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        with pytest.raises(FileError, match="not a public Ed25519"):
            PublicKey.from_pem(pem)
        own = ed25519.Ed25519PrivateKey.generate()
        locked = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
        with pytest.raises(FileError, match="not a private Ed25519"):
            PrivateKey.from_pem(locked)

    def test_python_does_not_print_it(self):
        for text in (repr(KEY), str(KEY), f"{KEY}"):
            assert KEY.id in text
            assert KEY.to_pem().decode().splitlines()[1] not in text
        assert copy.copy(KEY).id == KEY.id


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "plan.json"
        write_plan(PLAN, path)
        signature_path(path).write_bytes(as_bytes(SIGNED))
        return path

    def test_a_signed_plan_is_read(self, path):
        assert signature_path(path).name == "plan.json.sig"
        assert read_signed_plan(path, KEY.public_key)[0] == PLAN

    def test_without_its_signature_it_is_refused(self, path):
        signature_path(path).unlink()
        with pytest.raises(FileError, match="without a signature"):
            read_signed_plan(path, KEY.public_key)

    def test_a_plan_that_was_exchanged(self, path):
        write_plan(make_plan(101), path, overwrite=True)
        with pytest.raises(RefusedError, match="another plan"):
            read_signed_plan(path, KEY.public_key)

    def test_a_plan_that_was_edited_under_its_old_digest(self, path):
        document = json.loads(path.read_bytes())
        document["ell"] = 1
        path.write_text(json.dumps(document))
        with pytest.raises(FileError, match="changed or damaged"):
            read_signed_plan(path, KEY.public_key)

    @pytest.mark.parametrize("depth", [100, 500, 900, 990, 100_000])
    def test_a_plan_that_is_nested_too_deep(self, path, depth):
        content = path.read_bytes()
        nested = b"[" * depth + b"]" * depth
        path.write_bytes(content.replace(b'"p":null', b'"p":' + nested))
        assert path.read_bytes() != content
        with pytest.raises(FileError):
            read_signed_plan(path, KEY.public_key)

    def test_every_byte_of_the_signature_file_counts(self, path):
        content = bytearray(signature_path(path).read_bytes())
        for place in range(len(content) - 1):  # the newline at the end is not part of the document
            changed = bytearray(content)
            changed[place] ^= 1
            signature_path(path).write_bytes(changed)
            with pytest.raises((FileError, RefusedError)):
                read_signed_plan(path, KEY.public_key)

    @pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"a":NaN}'])
    def test_what_is_no_document(self, path, content):
        signature_path(path).write_bytes(content)
        with pytest.raises(FileError):
            read_signed_plan(path, KEY.public_key)


def test_without_the_package_there_is_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError) as error:
        PrivateKey.create()
    assert "elldelta[remote]" in error.value.remedy


def test_importing_the_module_does_not_import_the_package():
    code = "import sys, elldelta.plan.signature; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
