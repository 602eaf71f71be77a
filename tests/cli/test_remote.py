"""`elldelta remote` as an owner types it, against a small real server that can be told to misbehave."""

import datetime as dt
import json
import shlex
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.agency.registrations import full, make_plan, make_registration
from tests.cli.tiny_agency import TinyAgency

import elldelta as ed
from elldelta.agency import http as agency_http
from elldelta.agency.receipt import read_receipt, receipt_path
from elldelta.agency.registration import registration_of
from elldelta.errors import RefusedError
from elldelta.files import PrivateKey, write_key
from elldelta.plan.plan import write_plan
from elldelta.plan.signature import sign_plan, write_signature

PLAN = make_plan(records=300)
SECRET_A, *SECRETS = [f"token-of-hospital-{name}" for name in "abc"]


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(agency_http, "FIRST_PAUSE", 0.01)
    monkeypatch.delenv("ELLDELTA_SERVER", raising=False)
    monkeypatch.delenv("ELLDELTA_TOKEN", raising=False)


@pytest.fixture
def tiny():
    return TinyAgency(PLAN)


@pytest.fixture
def url(tiny):
    with tiny.serving() as url:
        yield url


@pytest.fixture
def tokens(tmp_path):
    paths = []
    for name, secret in zip("abc", (SECRET_A, *SECRETS), strict=True):
        paths.append(tmp_path / f"token_{name}")
        paths[-1].write_text(secret + "\n")
        paths[-1].chmod(0o600)
    return tuple(paths)


@pytest.fixture
def remote(elldelta, url, tokens):
    """Runs `elldelta remote ...` as hospital A, and looks for the token in everything that is printed."""

    def run(*arguments, code=0, token=tokens[0]):
        finished = elldelta("remote", *arguments, "--server", url, "--token-file", token, "--json", code=code)
        assert SECRET_A not in finished.out + finished.err
        return finished

    return run


@pytest.fixture
def key(tiny, tmp_path):
    path = tmp_path / "agency.pem"
    write_key(tiny.key.public_key, path)
    return path


def people(n, seed, without=()):
    """Records; `without` names diseases that nobody aged 30 or 31 has."""
    rng = np.random.default_rng(seed)
    ages, diseases = rng.integers(30, 34, n), rng.integers(0, 6, n)
    for disease in without:
        gone = (ages <= 31) & (diseases == disease)
        diseases[gone] = (max(without) + 1) % 6
    return pa.table(
        {
            "age": ages,
            "region": np.array(["e", "n", "w"])[rng.integers(0, 3, n)],
            "disease": np.array([f"d{number}" for number in range(6)])[diseases],
        }
    )


@pytest.fixture
def plan_file(tmp_path):
    write_plan(PLAN, tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.fixture
def signed_plan(plan_file, tiny):
    write_signature(sign_plan(PLAN, tiny.key), plan_file)
    return plan_file


@pytest.fixture
def released(tmp_path):
    path = tmp_path / "release_a.parquet"
    ed.release(people(400, 1, without=(0, 1)), PLAN, to=path)
    return path


class TestTheWholeWay:
    def test_a_list_that_comes_part_by_part_is_shown_whole(self, remote, tiny):
        others = [make_plan(ell=3), make_plan(records=11)]
        tiny.plans |= {plan.digest: plan for plan in others}
        assert [plan["digest"] for plan in remote("plans").json["plans"]] == list(tiny.plans)
        assert [path for _, path, _ in tiny.requests] == [
            "/api/v1/plans", "/api/v1/plans?after=0", "/api/v1/plans?after=1",
        ]  # fmt: skip

    def test_key_plan_progress_register_ledger(self, remote, elldelta, tmp_path, tiny, url, tokens):
        shown = remote("key", "-o", tmp_path / "agency.pem").json
        assert shown["id"] == tiny.key.id
        listed = remote("plans").json["plans"]
        assert [plan["digest"] for plan in listed] == [PLAN.digest]
        plan = tmp_path / "plan.json"
        fetched = remote("plan", PLAN.digest, "-o", plan, "--agency-key", tmp_path / "agency.pem").json
        assert fetched["key_id"] == tiny.key.id
        elldelta("signature", "verify", plan, "--agency-key", tmp_path / "agency.pem")
        assert remote("progress", PLAN.digest, "--records", 400).json["owners_reached"] == 1
        people_a = tmp_path / "people.parquet"
        pq.write_table(people(400, 1), people_a)
        release = tmp_path / "release.parquet"
        elldelta("release", people_a, "--plan", plan, "--agency-key", tmp_path / "agency.pem", "-o", release)
        done = remote("register", release, "--plan", plan, "--agency-key", tmp_path / "agency.pem").json
        assert (done["is_new"], done["sequence"], done["owner"]) == (True, 1, "A")
        receipt = read_receipt(receipt_path(release))
        assert receipt.hash == done["hash"]
        assert remote("status", PLAN.digest).json["registered"] == 1
        ledger = tmp_path / "releases.ledger"
        fetched = remote("ledger", PLAN.digest, "-o", ledger, "--plan", plan).json
        assert fetched["head"] == receipt.hash
        told = elldelta("ledger", "verify", ledger, "--plan", plan, "--release", release).out
        assert "1 release of 1 owner." in told
        key = tmp_path / "agency.pem"
        checked = elldelta("ledger", "verify", ledger, "--release", release, "--agency-key", key, "--json")
        assert checked.json["key_id"] == tiny.key.id
        elldelta("ledger", "verify", ledger, "--agency-key", key, code=2)
        other = tmp_path / "other.pem"
        write_key(PrivateKey.create().public_key, other)
        elldelta("ledger", "verify", ledger, "--release", release, "--agency-key", other, code=3)
        receipt_path(release).unlink()
        elldelta("ledger", "verify", ledger, "--release", release, "--agency-key", key, code=2)

    def test_words_for_people(self, elldelta, url, tokens, tmp_path, key, plan_file, released):
        more = ("--server", url, "--token-file", tokens[0])
        assert "telephone" in elldelta("remote", "key", "--server", url).err
        assert PLAN.digest + "\n" in elldelta("remote", "plans", *more).out
        said = elldelta("remote", "plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", key, *more)
        assert PLAN.promise in said.out
        said = elldelta("remote", "progress", PLAN.digest, "--records", 100, *more).out
        assert "200 are missing" in said
        said = elldelta("remote", "register", released, "--plan", plan_file, *more).out
        assert "Admitted: release 1" in said
        said = elldelta("remote", "register", released, "--plan", plan_file, *more).out
        assert "It was admitted before: release 1" in said
        _, _, step = said.rpartition("elldelta ")
        assert f"--token-file {tokens[0]}" in step
        assert "Noted as published." in elldelta(*shlex.split(step)).out
        said = elldelta("remote", "register", released, "--plan", plan_file, *more).out
        assert "Unless you have done so: before you hand it out" in said
        assert "published releases" in elldelta("remote", "status", PLAN.digest, *more).out
        assert "chain is intact" in elldelta("remote", "ledger", PLAN.digest, "-o", tmp_path / "l", *more).out

    def test_server_and_token_from_the_environment(self, elldelta, url, monkeypatch):
        monkeypatch.setenv("ELLDELTA_SERVER", url)
        monkeypatch.setenv("ELLDELTA_TOKEN", SECRET_A)
        assert elldelta("remote", "plans", "--json").json["plans"]


class TestRefusals:
    def test_one_that_would_take_a_class_below_ell(
        self, remote, elldelta, tmp_path, tokens, plan_file, released
    ):
        """Three owners, each certified; the third would leave fewer than two values."""
        remote("register", released, "--plan", plan_file)
        second = tmp_path / "release_b.parquet"
        ed.release(people(400, 2, without=(2, 3)), PLAN, to=second)
        remote("register", second, "--plan", plan_file, token=tokens[1])
        third = tmp_path / "release_c.parquet"
        ed.release(people(400, 3, without=(4, 5)), PLAN, to=third)
        refused = remote("register", third, "--plan", plan_file, code=3, token=tokens[2])
        assert "would break what the plan promises" in refused.error["problem"]
        assert "The agency refuses" in refused.error["problem"]
        assert refused.error["found"]
        assert not receipt_path(third).exists()

    def test_a_release_that_is_not_what_its_manifest_says_is_not_even_sent(
        self, remote, tiny, released, plan_file
    ):
        ed_table = pa.table({"age": ["30-31"], "region": ["*"], "disease": ["d1"]})
        pq.write_table(ed_table, released)
        remote("register", released, "--plan", plan_file, code=2)
        assert not tiny.sent

    def test_a_plan_without_the_agencys_signature(self, remote, tiny, released, plan_file, key):
        refused = remote("register", released, "--plan", plan_file, "--agency-key", key, code=2)
        assert "without a signature" in refused.error["problem"]
        other = PrivateKey.create()
        plan_file.with_name("plan.json.sig").write_text(json.dumps(sign_plan(PLAN, other)))
        refused = remote("register", released, "--plan", plan_file, "--agency-key", key, code=3)
        assert other.id in refused.error["found"]
        assert not tiny.requests


class TestRepeats:
    def test_an_answer_that_gets_lost(self, remote, tiny, released, plan_file):
        """The agency has admitted the release, the answer never arrives: the next attempt gets it."""
        lost = []

        def spoil(handler, path, status, content):
            if path.endswith("/releases") and len(lost) < 3:
                lost.append(status)
                handler.connection.shutdown(socket.SHUT_RDWR)
                return None
            return status, content

        tiny.spoil = spoil
        done = remote("register", released, "--plan", plan_file).json
        assert lost == [201, 200, 200]
        assert done["hash"]
        assert len(set(tiny.sent)) == 1
        assert len(tiny.sent) == 4
        assert len(tiny.agency.lines(PLAN)) == 1

    def test_the_command_again_on_another_day(self, remote, tiny, released, plan_file):
        first = remote("register", released, "--plan", plan_file).json
        again = remote("register", released, "--plan", plan_file).json
        assert not again["is_new"]
        assert again["hash"] == first["hash"]
        assert len(tiny.agency.lines(PLAN)) == 1

    def test_a_server_that_stays_away(self, remote, tiny, released, plan_file):
        tiny.spoil = lambda handler, *_: handler.connection.shutdown(socket.SHUT_RDWR)
        failed = remote("register", released, "--plan", plan_file, code=2)
        assert "It is not known whether the release was registered" in failed.error["found"]
        assert "never registered twice" in failed.error["remedy"]
        assert not receipt_path(released).exists()
        tiny.spoil = None
        assert remote("register", released, "--plan", plan_file).json["sequence"] == 1


def tampered(name, change):
    """Spoils the answer of one route."""

    def spoil(handler, path, status, content):
        if not path.endswith(name):
            return status, content
        changed = change(content)
        return status, changed if isinstance(changed, bytes) else json.dumps(changed).encode()

    return spoil


class TestHostileServers:
    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("/file", lambda content: content.replace(b'"ell":2', b'"ell":1')),
            ("/file", lambda content: content[:-20]),
            ("/file", lambda _: b"{}"),
            ("/file", lambda _: b"[" * 100_000),
            ("/file", lambda _: json.dumps(make_plan(records=1).to_dict()).encode()),
            ("/signature", lambda _: sign_plan(PLAN, PrivateKey.create())),
            ("/signature", lambda _: sign_plan(make_plan(records=1), PrivateKey.create())),
            ("/signature", lambda content: {**json.loads(content), "signature": "A" * 88}),
            ("/signature", lambda content: {**json.loads(content), "format": 2}),
            ("/signature", lambda _: []),
        ],
    )
    def test_another_plan_or_signature(self, remote, tiny, tmp_path, key, name, change):
        before = sorted(path.name for path in tmp_path.iterdir())
        tiny.spoil = tampered(name, change)
        failed = remote("plan", PLAN.digest, "-o", tmp_path / "plan.json", "--agency-key", key, code=-1)
        assert failed.code in (2, 3)
        assert sorted(path.name for path in tmp_path.iterdir()) == before

    def test_another_key_than_the_known_one(self, remote, tiny, tmp_path, key):
        tiny.key = PrivateKey.create()
        refused = remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", key, code=3)
        assert "another key" in refused.error["problem"]
        # What the agency has not signed is not even fetched.
        assert not [path for _, path, _ in tiny.requests if path.endswith("/file")]

    def test_a_signature_of_another_plan_of_the_agency(self, remote, tiny, tmp_path, key):
        tiny.spoil = tampered("/signature", lambda _: sign_plan(make_plan(records=1), tiny.key))
        refused = remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", key, code=3)
        assert "another plan" in refused.error["problem"]

    @pytest.mark.parametrize(
        "change",
        [
            {"hash": "x"},
            {"hash": None},
            {"sequence": 0},
            {"sequence": True},
            {"sequence": "1"},
            {"plan": "sha256:" + "0" * 64},
            {"content_digest": "sha256:" + "0" * 64},
            {"owner": None},
            {"key_id": None},
            {"key_id": "x"},
            {"signature": None},
            {"signature": 3},
            {"key_id": None, "signature": None},
        ],
        ids=repr,
    )
    def test_receipts_about_something_else(self, remote, tiny, released, plan_file, change):
        tiny.spoil = tampered("/releases", lambda content: {**json.loads(content), **change})
        remote("register", released, "--plan", plan_file, code=2)
        assert not receipt_path(released).exists()

    @pytest.mark.parametrize(
        "change",
        [
            {"sequence": 7},
            {"hash": "sha256:" + "0" * 64},
            {"owner": "B"},
            {"population": "another"},
            {"key_id": "sha256:" + "0" * 64},
        ],
        ids=repr,
    )
    def test_receipts_that_the_agency_has_not_signed(self, remote, tiny, released, signed_plan, key, change):
        tiny.spoil = tampered("/releases", lambda content: {**json.loads(content), **change})
        words = ("register", released, "--plan", signed_plan)
        # It may be in the ledger: nothing is refused, and what was answered is kept.
        said = remote(*words, "--agency-key", key, code=2)
        assert "has admitted the release" in said.error["problem"]
        assert str(receipt_path(released)) in said.error["found"]
        tiny.spoil = None
        assert remote(*words, "--agency-key", key).json["key_id"] == tiny.key.id
        good = receipt_path(released).read_bytes()
        tiny.spoil = tampered("/releases", lambda content: {**json.loads(content), **change})
        remote(*words, "--agency-key", key, code=2)
        assert receipt_path(released).read_bytes() == good

    def test_an_owner_that_steers_the_terminal(
        self, remote, elldelta, tiny, released, plan_file, tokens, url
    ):
        tiny.spoil = tampered("/releases", lambda content: {**json.loads(content), "owner": "\x1b]0;x\x07"})
        done = remote("register", released, "--plan", plan_file)
        assert "\x1b" not in done.out
        assert "\\u001b" not in done.out
        assert read_receipt(receipt_path(released)).owner == "�]0;x�"

    def test_refusals_that_steer_the_terminal(self, elldelta, tiny, url, released, plan_file, tokens):
        words = {"problem": "\x1b[2Jno", "found": "\x9b5A", "remedy": "\r\nError: all is well"}

        def spoil(handler, path, status, content):
            return 409, json.dumps({"error": words}).encode()

        tiny.spoil = spoil
        refused = elldelta(
            "remote", "register", released, "--plan", plan_file, "--server", url,
            "--token-file", tokens[0], code=3,
        )  # fmt: skip
        assert not set("\x1b\x9b\r") & set(refused.err)
        assert "no" in refused.err

    @pytest.mark.parametrize(
        "change",
        [
            lambda _: {"plans": {}},
            lambda _: {"plans": [3]},
            lambda _: {"plans": [{"digest": "x"}]},
            lambda _: {"plans": [{"digest": PLAN.digest, "ell": "\x1b"}]},
            lambda _: {"plans": [{}] * 2000},
            lambda _: {"plans": [], "next": 3},
            lambda _: {"plans": [], "next": "0"},  # for ever
            lambda _: [],
        ],
    )
    def test_lists_that_are_none(self, remote, tiny, change, monkeypatch):
        monkeypatch.setattr("elldelta.agency.remote.MOST_PARTS", 4)
        tiny.spoil = tampered("/plans", change)
        assert "does not answer as an agency" in remote("plans", code=2).error["problem"]

    @pytest.mark.parametrize(
        "change",
        [
            lambda content: content[:-1],
            lambda content: content[:-30],
            lambda content: content.replace(b'"A"', b'"X"'),
            lambda content: b"".join(content.splitlines(keepends=True)[::2]),
            lambda content: content + b"{}\n",
            lambda _: b"",
            lambda _: b"{}\n",
        ],
    )
    def test_ledgers_that_were_changed(self, remote, tiny, tmp_path, change):
        agency = tiny.agency
        for number, owner in enumerate("AB"):
            agency.register(PLAN, make_registration(PLAN, full(PLAN, (0, number))), owner)
        tiny.spoil = tampered("/ledger", change)
        remote("ledger", PLAN.digest, "-o", tmp_path / "l.ledger", code=2)
        assert not (tmp_path / "l.ledger").exists()

    def test_a_ledger_that_was_cut_is_found_out_by_the_receipt(
        self, remote, elldelta, tiny, tmp_path, released, plan_file
    ):
        remote("register", released, "--plan", plan_file)
        tiny.spoil = tampered("/ledger", lambda content: content.splitlines(keepends=True)[0])
        ledger = tmp_path / "l.ledger"
        remote("ledger", PLAN.digest, "-o", ledger)
        cut = elldelta("ledger", "verify", ledger, "--release", released, "--json", code=2)
        assert "does not hold a line" in cut.error["problem"]

    def test_a_key_that_is_not_the_one_it_names(self, remote, tiny, tmp_path):
        other = PrivateKey.create().id
        tiny.spoil = tampered("/key", lambda content: {**json.loads(content), "id": other})
        remote("key", "-o", tmp_path / "agency.pem", code=2)
        assert not (tmp_path / "agency.pem").exists()


class TestNewKeys:
    """The agency makes new keys; owners know an old one, or only the newest."""

    @pytest.fixture
    def fetched(self, remote, tiny, tmp_path, key):
        """A plan that was fetched, and a release made, before there was another key."""
        plan, release = tmp_path / "plan.json", tmp_path / "release.parquet"
        remote("plan", PLAN.digest, "-o", plan, "--agency-key", key)
        ed.release(people(400, 1), plan, to=release, agency_key=key)
        return plan, release

    def test_a_release_of_an_older_plan_is_registered_with_the_keys_of_today(
        self, remote, elldelta, tiny, tmp_path, key, fetched
    ):
        plan, release = fetched
        old = tiny.key
        for _ in range(3):
            tiny.renew_key()
        remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", key, code=3)
        new = tmp_path / "new.pem"
        remote("key", "-o", new)
        done = remote("register", release, "--plan", plan, "--agency-key", new).json
        assert done["key_id"] == tiny.key.id != old.id
        remote("ledger", PLAN.digest, "-o", tmp_path / "ledger")
        elldelta("signature", "verify", plan, "--agency-key", new)
        elldelta("ledger", "verify", tmp_path / "ledger", "--release", release, "--agency-key", new)
        told = remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", new).json
        assert told["key_id"] == tiny.key.id

    def test_a_key_that_is_not_in_the_file_is_refused_before_anything_is_sent(
        self, remote, tiny, tmp_path, key, fetched
    ):
        plan, release = fetched
        tiny.renew_key()
        remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", key, code=3)
        new = tmp_path / "new.pem"
        write_key(tiny.key.public_key, new)
        remote("register", release, "--plan", plan, "--agency-key", new, code=3)
        assert {verb for verb, _, _ in tiny.requests} == {"GET"}

    def test_a_receipt_is_fetched_again(self, remote, tiny, tmp_path, key, fetched):
        plan, release = fetched
        remote("register", release, "--plan", plan, "--agency-key", key, "--no-receipt")
        told = remote("receipt", release, "--agency-key", key).json
        assert told["key_id"] == tiny.key.id
        assert read_receipt(receipt_path(release)).hash == told["hash"]
        remote("receipt", release, "--agency-key", key, code=2)
        remote("receipt", release, "--overwrite")
        tiny.spoil = tampered("/receipt", lambda content: {**json.loads(content), "sequence": 9})
        remote("receipt", release, "--agency-key", key, "--overwrite", code=2)
        assert read_receipt(receipt_path(release)).sequence == told["sequence"]


class TestStates:
    def test_an_owner_says_that_a_release_is_published_or_never_was(self, remote, tiny, released, plan_file):
        remote("register", released, "--plan", plan_file)
        assert remote("publish", released).json["state"] == "published"
        assert remote("void", released).json["state"] == "voided"
        assert tiny.states == [("A", "published"), ("A", "voided")]
        tiny.spoil = tampered("/state", lambda _: {"state": "published"})
        remote("void", released, code=2)


class TestEndedPlans:
    @pytest.mark.parametrize("status", ["withdrawn", "superseded"])
    def test_a_plan_that_was_withdrawn_says_so_and_is_not_released_with(
        self, remote, elldelta, tiny, tmp_path, key, url, tokens, status
    ):
        tiny.status = status
        plan = tmp_path / "plan.json"
        told = remote("plan", PLAN.digest, "-o", plan, "--agency-key", key)
        assert told.json["status"] == status
        words = ("plan", PLAN.digest, "-o", plan, "--agency-key", key, "--overwrite")
        said = elldelta("remote", *words, "--server", url, "--token-file", tokens[0])
        assert f"This plan is {status}" in said.err.replace("\n", " ")
        table = tmp_path / "people.parquet"
        pq.write_table(people(400, 1), table)
        for more in ((), ("--agency-key", key)):
            target = tmp_path / "r.parquet"
            refused = elldelta("release", table, "--plan", plan, "-o", target, *more, "--json", code=3)
            assert status in refused.error["found"]

    def test_a_signature_that_expires_is_fetched_again(self, remote, tiny, tmp_path, key):
        moment = dt.datetime.now(dt.UTC)
        plan, release = tmp_path / "plan.json", tmp_path / "r.parquet"
        tiny.expires = moment - dt.timedelta(minutes=1)
        remote("plan", PLAN.digest, "-o", plan, "--agency-key", key)
        with pytest.raises(RefusedError, match="expired"):
            ed.release(people(400, 1), plan, to=release, agency_key=key)
        tiny.expires = moment + dt.timedelta(days=1)
        told = remote("plan", PLAN.digest, "-o", plan, "--agency-key", key, "--overwrite").json
        assert told["expires"] == tiny.expires.replace(microsecond=0).isoformat()
        ed.release(people(400, 1), plan, to=release, agency_key=key)

    def test_a_plan_that_is_signed_for_other_people_is_refused(self, remote, tiny, tmp_path, key):
        tiny.spoil = tampered("/signature", lambda _: sign_plan(PLAN, tiny.key, population="another"))
        failed = remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--agency-key", key, code=2)
        assert "another population" in failed.error["found"]


class TestFirstKey:
    def test_the_first_one_is_kept_and_the_next_one_must_be_it(self, remote, tiny, tmp_path):
        key = tmp_path / "first.pem"
        first = remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--trust-first-key", key).json
        assert first["key_is_new"]
        again = remote(
            "plan", PLAN.digest, "-o", tmp_path / "p.json", "--trust-first-key", key, "--overwrite"
        ).json
        assert not again["key_is_new"]
        before = key.read_bytes()
        tiny.key = PrivateKey.create()
        remote(
            "plan", PLAN.digest, "-o", tmp_path / "p.json", "--trust-first-key", key, "--overwrite", code=3
        )
        assert key.read_bytes() == before

    def test_a_key_is_not_kept_if_the_plan_is_not_signed_with_it(self, remote, tiny, tmp_path):
        tiny.spoil = tampered("/signature", lambda _: sign_plan(PLAN, PrivateKey.create()))
        key = tmp_path / "first.pem"
        remote("plan", PLAN.digest, "-o", tmp_path / "p.json", "--trust-first-key", key, code=3)
        assert not key.exists()

    def test_one_way_to_know_the_key_must_be_said(self, remote, tmp_path, key, tiny):
        for more in ((), ("--agency-key", key, "--trust-first-key", key)):
            failed = remote("plan", PLAN.digest, "-o", tmp_path / "p.json", *more, code=2)
            assert "--trust-first-key" in failed.error["options"]
        assert not [item for item in tiny.requests if "file" in item[1]]


class TestTokens:
    def test_a_file_that_others_can_read(self, remote, tokens, tiny):
        tokens[0].chmod(0o644)
        refused = remote("plans", code=2)
        assert "Others may read" in refused.error["problem"]
        assert "0644" in refused.error["found"]
        assert not tiny.requests

    def test_no_token(self, elldelta, url, tiny):
        failed = elldelta("remote", "plans", "--server", url, "--json", code=2)
        assert "ELLDELTA_TOKEN" in failed.error["found"]
        assert not tiny.requests

    def test_a_token_that_is_not_known(self, remote, tmp_path):
        other = tmp_path / "other"
        other.write_text("a-token-of-nobody")
        other.chmod(0o600)
        failed = remote("plans", code=2, token=other)
        assert "The agency's server says: You have to say who you are." in failed.error["problem"]
        assert "a-token-of-nobody" not in failed.out + failed.err

    def test_a_token_is_no_option(self, elldelta, url):
        failed = elldelta("remote", "plans", "--server", url, "--token", SECRET_A, "--json", code=2)
        assert SECRET_A not in failed.out + failed.err

    def test_a_missing_file(self, remote, tmp_path):
        assert "cannot be read" in remote("plans", code=2, token=tmp_path / "no").error["problem"]


class TestArguments:
    def test_no_server(self, elldelta, tokens):
        failed = elldelta("remote", "plans", "--token-file", tokens[0], "--json", code=2)
        assert "ELLDELTA_SERVER" in failed.error["found"]

    def test_plain_http_to_others(self, elldelta, tokens):
        failed = elldelta(
            "remote", "plans", "--server", "http://agency.example", "--token-file", tokens[0], "--json",
            code=2,
        )  # fmt: skip
        assert "--insecure-http" in failed.error["options"]

    @pytest.mark.parametrize("digest", ["plan", "sha256:1", "../../etc/passwd", "sha256:" + "G" * 64])
    def test_what_is_no_digest(self, remote, tmp_path, tiny, digest):
        remote("status", digest, code=2)
        remote("progress", digest, "--records", 3, code=2)
        remote("ledger", digest, "-o", tmp_path / "l", code=2)
        assert not tiny.requests

    def test_a_plan_that_there_is_not(self, remote):
        failed = remote("status", "sha256:" + "0" * 64, code=2)
        assert "no such plan" in failed.error["problem"]

    @pytest.mark.parametrize("records", [-1, "many"])
    def test_records(self, remote, tiny, records):
        remote("progress", PLAN.digest, "--records", records, code=2)
        assert not tiny.requests

    def test_files_that_are_in_the_way(self, remote, tiny, tmp_path, key, released, plan_file):
        remote("plan", PLAN.digest, "-o", plan_file, "--agency-key", key, code=2)
        receipt_path(released).write_text("{}")
        remote("register", released, "--plan", plan_file, code=2)
        assert not tiny.requests

    def test_the_receipt_of_another_release_is_not_replaced(
        self, remote, tiny, tmp_path, released, plan_file
    ):
        remote("register", released, "--plan", plan_file)
        before = receipt_path(released).read_bytes()
        ed.release(people(500, 7), PLAN, to=released, overwrite=True)
        failed = remote("register", released, "--plan", plan_file, code=2)
        assert "exists already" in failed.error["problem"]
        assert len(tiny.sent) == 1
        assert receipt_path(released).read_bytes() == before
        refused = remote("register", released, "--plan", plan_file, "--overwrite", code=3)
        assert "has published under this plan" in refused.error["problem"]
        assert receipt_path(released).read_bytes() == before

    def test_a_receipt_is_replaced_if_that_is_allowed(self, remote, released, plan_file):
        receipt_path(released).write_text("something else")
        remote("register", released, "--plan", plan_file, code=2)
        assert receipt_path(released).read_text() == "something else"
        remote("register", released, "--plan", plan_file, "--overwrite")
        assert receipt_path(released).read_text() != "something else"

    def test_without_a_receipt(self, remote, released, plan_file):
        assert remote("register", released, "--plan", plan_file, "--no-receipt").json["receipt"] is None
        assert not receipt_path(released).exists()

    def test_only_written_and_sent_to_nobody(self, elldelta, released, plan_file, tmp_path):
        target = tmp_path / "registration.json"
        arguments = ("remote", "register", released, "--plan", plan_file, "--only-write", target)
        done = elldelta(*arguments, "--json")  # no server is named, and no token
        assert target.read_bytes() == registration_of(released, PLAN).to_bytes()
        assert done.json["registration"] == str(target)
        assert not receipt_path(released).exists()
        target.write_text("mine")
        elldelta(*arguments, code=2)
        assert target.read_text() == "mine"
