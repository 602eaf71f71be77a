"""Registered is not published: what another owner finds out about a release that nobody has seen yet."""

import contextlib
import datetime as dt
import json
import re
import shutil

import pytest
from tests.agency.registrations import full, make_plan
from tests.agency.server.expected_rights import EXPECTED
from tests.agency.server.service import POPULATION, Clock, Service
from tests.agency.server.visitor import visitor

from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import prepare
from elldelta.errors import FileError
from elldelta.ledger import line_bytes, parse_chain

SECRET = 4711
"""A count that is in no other release."""


def secret_counts(plan):
    """Everything is shown but one value of one class, and one count is the secret."""
    counts = full(plan)
    counts[0][0], counts[1][2] = 0, SECRET
    return counts


@pytest.fixture
def served(service):
    """Two owners: `owner` has registered a release that nobody has seen; `spy` looks for it."""
    service.add("spy", "owner")
    plan = service.issue(make_plan(releases=3))
    counts = secret_counts(plan)
    told = service.register("owner", plan, counts, status=201).json()
    service.plan, service.content, service.hash = plan, told["content_digest"], told["hash"]
    service.n_records = sum(map(sum, counts))
    return service


def say(service, state, status=200, who="owner"):
    path = f"/plans/{service.plan.digest}/releases/{service.content}/state"
    return service.put(who, path, {"state": state}, status=status)


def everything(service, who):
    """All that somebody can read about a plan, over the API and on the pages."""
    digest = service.plan.digest
    service.ask(who, "GET", f"/plans/{digest}/audit")
    service.work()
    places = ("", "/releases", "/ledger", "/audit", "/progress")
    texts = [service.ask(who, "GET", f"/plans/{digest}{place}").text for place in places]
    with browsing(service, who) as browser:
        texts += [browser.send("GET", f"/plans/{digest}{place}").text for place in ("", "/ledger", "/audit")]
    return "\n".join(texts)


class Stopped(Clock):
    """A clock that stands still."""

    def __call__(self):
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + self.ahead


def everything_there_is(service, who):
    """The answers of all routes that somebody may read, without what is random: hashes and signatures."""
    headers = {"Authorization": f"Bearer {service.tokens[who]}"}
    filled = {"digest": service.plan.digest, "name": POPULATION, "id": 1, "width": "wide", "asset": "x"}
    found = {}
    for method, path in EXPECTED:
        with contextlib.suppress(KeyError):
            if method == "GET":
                answer = service.send("GET", path.format(**filled), headers=headers)
                plain = re.sub(r"(sha256:)?[0-9a-f]{8,64}|[A-Za-z0-9+/_-]{40,}={0,2}", "?", answer.text)
                found[path] = (answer.status_code, plain)
    assert len(found) > 30
    assert sum(status == 200 for status, _ in found.values()) > 12
    return found


@contextlib.contextmanager
def browsing(service, who):
    browser = visitor(service, who)
    try:
        yield browser
    finally:
        browser.__exit__(None, None, None)


@pytest.mark.parametrize("who", ["spy", "client"])
def test_others_read_neither_whose_it_is_nor_a_count_of_it(served, who):
    seen = everything(served, who)
    for secret in (str(SECRET), f"{served.n_records:,}", f'"records":{served.n_records}', served.content):
        assert secret not in seen, secret
    assert '"owner":"owner"' not in seen
    assert "<strong>owner</strong>" not in seen
    assert "owner (1)" not in seen
    # That it is there, its hash, and which values survive: that is all.
    assert served.hash in seen
    say(served, "published")
    seen = everything(served, who)
    for public in (f"{served.n_records:,}", served.content, '"owner":"owner"', "<strong>owner</strong>"):
        assert public in seen, public


def test_its_owner_the_agency_and_auditors_see_it(served):
    for who in ("owner", "agency", "auditor"):
        [item] = served.get(who, f"/plans/{served.plan.digest}/releases").json()["entries"]
        assert (item["state"], item["records"]) == ("registered", served.n_records)
    for who in ("agency", "auditor"):
        assert "owner (1)" in everything(served, who)


def test_an_audit_of_what_is_not_published_is_not_read_by_its_number(served):
    job = served.get("auditor", f"/plans/{served.plan.digest}/audit", status=202).json()["id"]
    served.work()
    for who in ("agency", "auditor"):
        assert "owner (1)" in served.get(who, f"/jobs/{job}").text
    for who in ("owner", "spy", "client"):
        served.get(who, f"/jobs/{job}", status=404)
    served.get("spy", f"/plans/{served.plan.digest}/audit", status=409)


class TestSubtraction:
    """Classes of two owners move differently: what remains when one release is taken from the other."""

    plan = make_plan(releases=1, n_values=3, ell=3, moves=True)
    hidden = ((3, 3, 3), (3, 3, 3), (7, 20, 20), (10, 20, 20))
    guesses = (9, 10, 16, 17, 18, 19)

    def send(self, service, who, key, counts, group_of=None, status=201):
        told = service.register(who, self.plan, counts, group_of=group_of, status=status).json()
        return told.get("content_digest")

    def tell(self, service, who, content, state="published", status=200):
        place = f"/plans/{self.plan.digest}/releases/{content}/state"
        return service.put(who, place, {"state": state}, status=status).json()

    @pytest.fixture
    def shared(self, make_service):
        service = make_service()
        service.add("spy", "owner")
        for number in self.guesses:
            service.add(f"spy-{number}", "owner")
        service.issue(self.plan)
        return service

    def guess(self, number):
        """The last two classes together; fits the hidden release where a value has this many records."""
        return [[50, 50, 50 + number], [60, 60, 60], [number, 5000, 5000]]

    def test_no_guess_is_refused_because_of_what_nobody_sees(self, shared):
        """A spy would be refused from the sum of a value in two hidden classes on, and know it exactly."""
        self.send(shared, "owner", "h", self.hidden)
        for number in self.guesses:
            self.send(shared, f"spy-{number}", "g", self.guess(number), [0, 1, 2, 2])

    def test_it_is_refused_because_of_what_is_published(self, shared):
        self.tell(shared, "owner", self.send(shared, "owner", "h", self.hidden))
        refused = [
            number
            for number in (16, 17, 18, 19)
            if shared.register(
                f"spy-{number}", self.plan, self.guess(number), group_of=[0, 1, 2, 2]
            ).status_code
            == 409
        ]
        assert refused == [17]  # more leaves a third value, less cannot hold the same people

    def test_of_two_that_isolate_people_together_one_is_published(self, shared):
        """Neither knew of the other when it was registered."""
        first = self.send(shared, "owner", "h", self.hidden)
        second = self.send(shared, "spy", "g", self.guess(17), [0, 1, 2, 2])
        self.tell(shared, "owner", first)
        refused = self.tell(shared, "spy", second, status=409)
        assert "may isolate people" in refused["error"]["problem"]
        assert "Do not publish it" in refused["error"]["remedy"]
        states = [
            item["state"]
            for item in shared.get("agency", f"/plans/{self.plan.digest}/releases").json()["entries"]
        ]
        assert states == ["published", "registered"]
        self.tell(shared, "spy", second, "voided")
        other = self.send(shared, "spy", "again", [[9, 9, 9]] * 4)
        self.tell(shared, "spy", other)

    def test_of_two_that_are_published_at_the_same_time_one_is(self, shared):
        contents = {
            "owner": self.send(shared, "owner", "h", self.hidden),
            "spy": self.send(shared, "spy", "g", self.guess(17), [0, 1, 2, 2]),
        }
        place = f"/plans/{self.plan.digest}/releases"
        answers = shared.send_together(
            ("PUT", f"{place}/{content}/state", who, {"state": "published"})
            for who, content in contents.items()
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]


class TestSealedLedger:
    def export(self, service, who="spy"):
        return service.get(who, f"/plans/{service.plan.digest}/ledger").content

    def test_its_chain_holds_and_its_room_is_the_true_one(self, served):
        whole, sealed = (parse_chain(self.export(served, who), "The ledger") for who in ("agency", "spy"))
        assert len(sealed.sealed) == 1
        assert sealed.entries == ()
        assert (sealed.head, sealed.n_releases) == (whole.head, whole.n_releases)
        assert any(missed.union.any() for missed in whole.totals.missed)
        assert not any(missed.union.any() for missed in sealed.totals.missed)
        [condition] = sealed.conditions
        assert "not published yet" in condition

    def test_nothing_that_others_get_depends_on_what_is_sealed(self, tmp_path):
        """Two agencies that differ in one release which is not published: the same answers but for hashes."""
        seen = []
        prepare(Settings(folder=tmp_path / "0"))
        shutil.copytree(tmp_path / "0", tmp_path / "1")  # with the secret that rounds the frontier
        for place, counts in enumerate(
            (secret_counts(make_plan(releases=3)), full(make_plan(releases=3), n=9))
        ):
            own = Settings(folder=tmp_path / str(place))
            with Service(own, Stopped()) as service:
                service.add_model()
                service.work()
                service.add("spy", "owner")
                service.plan = service.issue(make_plan(releases=3))
                service.register("owner", service.plan, counts, status=201)
                answers = {who: everything_there_is(service, who) for who in ("spy", "client")}
                service.register("spy", service.plan, full(service.plan, n=4), status=201)
                answers["spy, with a line of its own"] = everything_there_is(service, "spy")
                seen.append(answers)
        for who, found in seen[0].items():
            assert found.keys() == seen[1][who].keys()
            for address, text in found.items():
                assert text == seen[1][who][address], (who, address)

    def test_a_sealed_line_that_was_changed_is_noticed(self, served):
        served.register("spy", served.plan, full(served.plan), status=201)
        content = self.export(served)
        parse_chain(content, "The ledger")
        for old, new in (
            (b'"sequence":1}', b'"sequence":3}'),
            (served.hash.encode(), b"sha256:" + b"0" * 64),
            (b'"kind":"sealed"', b'"kind":"void"'),
            (b'"kind":"sealed"', b'"kind":"sealed","misses":[]'),
        ):
            assert old in content, old
            # A last line that does not fit is handed back, for whoever reads the file to judge.
            with contextlib.suppress(FileError):
                assert parse_chain(content.replace(old, new, 1), "The ledger").tail, old

    def test_once_it_is_published_the_line_is_the_one_that_was_sealed(self, served):
        before = json.loads(self.export(served).splitlines()[1])
        say(served, "published")
        after = json.loads(self.export(served).splitlines()[1])
        assert before.keys() == {"kind", "sequence", "hash", "previous", "is_update"}
        assert (before["hash"], before["previous"]) == (after["hash"], after["previous"])
        assert after["owner"] == "owner"
        assert len(after["nonce"]) == 64
        content = {name: value for name, value in after.items() if name not in ("hash", "previous")}
        assert line_bytes(content, after["previous"])[1] == before["hash"]
        other = {**content, "nonce": "00" * 32}  # whoever guesses everything else has to guess this, too
        assert line_bytes(other, after["previous"])[1] != before["hash"]


class TestTakingBack:
    def test_what_was_never_published_makes_room_and_the_ledger_says_on_whose_word(self, served):
        plan = served.plan
        say(served, "voided")
        for who in ("agency", "spy", "owner"):
            content = served.get(who, f"/plans/{plan.digest}/ledger").content
            chain = parse_chain(content, "The ledger")
            assert (chain.n_releases, chain.voided) == (0, {1})
            assert not any(missed.union.any() for missed in chain.totals.missed)
            [condition] = chain.conditions
            assert "word" in condition
            assert "1" in condition
        with browsing(served, "spy") as browser:
            assert "word of its owner" in browser.see(f"/plans/{plan.digest}/ledger").words
        served.register("owner", plan, full(plan, n=7), status=201)
        served.register("spy", plan, full(plan), status=201)
        whole = parse_chain(served.get("agency", f"/plans/{plan.digest}/ledger").content, "The ledger")
        assert [entry.sequence for entry in whole.active] == [3, 4]

    def test_others_do_not_learn_who_took_something_back(self, served):
        served.add("hospital-x", "owner")
        told = served.register("hospital-x", served.plan, full(served.plan, n=9), status=201).json()
        place = f"/plans/{served.plan.digest}/releases/{told['content_digest']}/state"
        served.put("hospital-x", place, {"state": "voided"})
        for who in ("spy", "client"):
            assert "hospital-x" not in everything(served, who)
        assert "hospital-x" in everything(served, "auditor")

    def test_what_was_published_is_not_taken_back_nor_the_other_way_round(self, served):
        say(served, "published")
        say(served, "published")
        say(served, "voided", status=409)

    def test_what_was_taken_back_is_neither_published_nor_registered_again(self, served):
        say(served, "voided")
        say(served, "voided")
        say(served, "published", status=409)
        refused = served.register("owner", served.plan, secret_counts(served.plan), status=409).json()
        assert "taken this release back" in refused["error"]["problem"]
        lines = served.get("agency", f"/plans/{served.plan.digest}/ledger").content.splitlines()
        assert len(lines) == 3

    def test_no_receipt_says_any_more_that_it_is_admitted(self, served):
        receipt = f"/plans/{served.plan.digest}/releases/{served.content}/receipt"
        told = served.get("owner", receipt).json()
        again = served.register("owner", served.plan, secret_counts(served.plan), status=200).json()
        assert again == told
        say(served, "voided")
        refused = served.get("owner", receipt, status=409).json()
        assert "taken this release back" in refused["error"]["problem"]
        again = served.register("owner", served.plan, secret_counts(served.plan), status=409).json()
        assert "signature" not in again
        assert "taken this release back" in again["error"]["problem"]

    def test_nobody_takes_back_or_publishes_the_release_of_another(self, served):
        for state in ("published", "voided"):
            say(served, state, status=404, who="spy")
            for who in ("agency", "auditor", "client"):
                say(served, state, status=403, who=who)

    def test_a_receipt_of_a_line_that_was_taken_back_is_found_out(self, served):
        """An owner that published all the same: whoever holds the release shows that it does not count."""
        say(served, "voided")
        content = served.get("spy", f"/plans/{served.plan.digest}/ledger").content
        assert served.hash.encode() in content
        assert 1 in parse_chain(content, "The ledger").voided

    def test_the_page_of_the_plan_offers_both_to_the_owner_only(self, served):
        place = f"/plans/{served.plan.digest}"
        with browsing(served, "spy") as browser:
            assert "I never published it" not in browser.see(place).words
        with browsing(served, "owner") as browser:
            assert "I never published it" in browser.see(place).words
            done = browser.post(f"{place}/releases/{served.content}/state", state="published")
            assert done.headers["Location"] == f"{place}?done=release-published"
            assert "I never published it" not in browser.see(place).words
            assert browser.post(f"{place}/releases/{served.content}/state", state="x").status_code == 422
