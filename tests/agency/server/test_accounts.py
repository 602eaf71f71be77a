"""Accounts under attack: guessed and weak passwords, stolen tokens, lost telephones; and the trail of it."""

import datetime as dt

import pyotp
import pytest
import sqlalchemy as sa
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.expected_rights import API
from tests.agency.server.service import POPULATION, WISH, model_file
from tests.agency.server.visitor import PASSWORD, Visitor, add_person, visitor

from elldelta.agency.server.errors import ConflictError, NotLoggedInError, TooManyError
from elldelta.agency.server.paging import Window
from elldelta.agency.server.passwords import new_password_hash
from elldelta.agency.server.services.parties import create_party, create_token, list_trail
from elldelta.agency.server.services.sign_in import log_in, set_second_factor
from elldelta.errors import ParameterError

OTHER = "tulip gravel seventeen otter"  # of nobody


WRONG = "wrong horse"


def guess(service, name, address, password=WRONG):
    with pytest.raises((NotLoggedInError, TooManyError)) as refused:
        log_in(service.agency, name, password, address=address)
    return refused.value


class TestGuessing:
    def test_nobody_is_locked_out_by_guesses_from_elsewhere(self, service):
        add_person(service, "maria", "client")
        for number in range(25):
            guess(service, "maria", f"198.51.100.{number % 5}")
        assert log_in(service.agency, "maria", PASSWORD, address="192.0.2.1").caller.name == "maria"

    def test_each_further_guess_waits_longer_and_the_wait_has_an_end(self, make_service):
        service = make_service(login_burst=1e6, login_rate=1e6)
        add_person(service, "maria", "client")
        waits = []
        for _ in range(14):
            refused = guess(service, "maria", "192.0.2.1")
            if isinstance(refused, TooManyError):
                waits.append(refused.retry_after)
                service.clock.advance(seconds=refused.retry_after)
                guess(service, "maria", "192.0.2.1")
        assert waits == sorted(waits)
        assert waits[0] == 1
        assert waits[5] >= 16
        assert max(waits) <= service.settings.limits.login_delay
        # In a day not more than this many are tried from there; a delay, never a lock.
        service.clock.advance(seconds=service.settings.limits.login_delay)
        assert log_in(service.agency, "maria", PASSWORD, address="192.0.2.1").caller.name == "maria"

    def test_the_right_password_does_not_come_through_during_a_wait(self, service):
        add_person(service, "maria", "client")
        for _ in range(4):
            guess(service, "maria", "192.0.2.1")
        assert isinstance(guess(service, "maria", "192.0.2.1", PASSWORD), TooManyError)
        service.clock.advance(seconds=2)
        log_in(service.agency, "maria", PASSWORD, address="192.0.2.1")
        for _ in range(3):  # forgotten with the success
            assert isinstance(guess(service, "maria", "192.0.2.1"), NotLoggedInError)

    def test_no_other_spelling_of_a_name_is_a_fresh_start(self, make_service):
        service = make_service(login_burst=1e6, login_rate=1e6)
        add_person(service, "maria", "client")
        spellings = [f"maria{chr(0) * number}" for number in range(1, 20)]
        found = [guess(service, name, "192.0.2.1", PASSWORD) for name in spellings]  # even the right password
        assert sum(isinstance(problem, NotLoggedInError) for problem in found) <= 5
        for name in ("mar\0ia", "maria\n", " maria", "maria " * 40, ""):
            guess(service, name, "192.0.2.1", PASSWORD)
        assert log_in(service.agency, "maria", PASSWORD, address="192.0.2.1").caller.name == "maria"

    def test_one_ipv6_network_is_one_address(self, service):
        add_person(service, "maria", "client")
        for number in range(4):
            guess(service, "maria", f"2001:db8:1:2::{number}")
        assert isinstance(guess(service, "maria", "2001:db8:1:2:ffff::9"), TooManyError)
        assert isinstance(guess(service, "maria", "2001:db8:1:3::9"), NotLoggedInError)


class TestPasswords:
    @pytest.mark.parametrize("password", ["", "short", "x" * 11, "x" * 201])
    def test_they_have_a_length(self, service, password):
        with pytest.raises(ParameterError, match="characters"):
            new_password_hash(service.agency, password)

    @pytest.mark.parametrize(
        "password",
        [
            "Password1234!",
            "qwertyuiop123",
            "aaaaaaaaaaaaaaaa",
            "123456789012",
            "hospital-mary1",
            "agencyagency1",
        ],
    )
    def test_weak_ones_are_refused_everywhere(self, service, password):
        with pytest.raises(ParameterError, match="easy to guess"):
            create_party(service.agency, "hospital-mary", "owner", password)
        service.post(
            "agency", "/parties", {"name": "hospital-mary", "role": "owner", "password": password}, status=422
        )

    def test_people_change_their_own_and_only_with_the_old_one(self, service):
        add_person(service, "maria", "client")
        other = log_in(service.agency, "maria", PASSWORD, address="192.0.2.9").cookie
        with Visitor(service.app) as browser:
            assert browser.post("/sign-in", name="maria", password=PASSWORD).status_code == 303
            assert "Change your password" in browser.see("/account").words
            for old, new in (("wrong horse", OTHER), (PASSWORD, "Password1234!"), (PASSWORD, "short")):
                assert browser.post("/account/password", old=old, new=new).status_code == 422
            assert browser.post("/account/password", old=PASSWORD, new=OTHER).status_code == 303
            browser.see("/account")
        cookie = {"Cookie": f"elldelta={other}"}
        assert service.send("GET", "/api/v1/me", headers=cookie).status_code == 401
        guess(service, "maria", "192.0.2.1", PASSWORD)
        log_in(service.agency, "maria", OTHER, address="192.0.2.2")

    def test_a_stolen_token_changes_no_account(self, service):
        headers = {"Authorization": f"Bearer {service.tokens['owner']}"}
        for path, form in (("password", {"old": "x", "new": OTHER}), ("second-factor", {"code": "1"})):
            answer = service.send("POST", f"/account/{path}", data=form, headers=headers)
            assert answer.status_code == 403


class TestScopes:
    def test_a_token_for_one_thing_does_nothing_else(self, service):
        plan = service.issue()

        def limited(name, *scopes):
            told = service.post(
                "agency", f"/parties/{name}/tokens", {"scopes": list(scopes)}, status=201
            ).json()
            service.tokens[" ".join((name, *scopes))] = told["token"]

        limited("owner", "read")
        limited("owner", "progress")
        limited("owner", "register")
        limited("agency", "read")
        report = f"/plans/{plan.digest}/progress"
        for who, status in (("owner read", 403), ("owner register", 403), ("owner progress", 200)):
            service.put(who, report, {"records": 5}, status=status)
        for who, status in (("owner read", 403), ("owner progress", 403), ("owner register", 201)):
            service.register(who, plan, full(plan), key=who.replace(" ", "-"), status=status)
        for who, status in (("owner read", 200), ("owner progress", 403), ("agency read", 200)):
            service.get(who, "/plans", status=status)
        service.post("agency read", "/parties", {"name": "thief", "role": "agency"}, status=403)
        service.post("agency read", "/parties/agency/tokens", {}, status=403)
        [listed] = [
            item
            for item in service.get("agency", "/parties/agency/tokens").json()["tokens"]
            if item["scopes"] == ["read"]
        ]
        assert listed["expires"] > listed["created"]

    def test_a_token_is_for_no_more_than_its_party_may(self, service):
        for scopes in (["manage"], ["read", "request"], [], ["all"]):
            service.post("agency", "/parties/owner/tokens", {"scopes": scopes}, status=422)

    def test_a_token_from_before_does_what_its_party_may(self, service):
        with service.agency.database.writing() as session:
            session.execute(sa.text("UPDATE tokens SET scopes = NULL"))
        service.get("owner", "/plans")
        service.post("agency", "/parties", {"name": "x", "role": "owner"}, status=201)


@pytest.fixture
def staff(service):
    """Somebody of the agency, signed in with a password only."""
    add_person(service, "maria", "agency")
    with Visitor(service.app) as browser:
        assert browser.post("/sign-in", name="maria", password=PASSWORD).status_code == 303
        yield browser


def code_of(service, secret, steps=0):
    return pyotp.TOTP(secret).at(service.clock(), steps)


def wrong_codes(service, secret, number=1):
    """Codes that are not right, neither now nor a little earlier or later."""
    right = {code_of(service, secret, steps) for steps in range(-3, 4)}
    return [code for code in map("{:06}".format, range(number + 7)) if code not in right][:number]


class TestSecondFactor:
    def set_up(self, service, browser):
        """Returns the secret, and the code that was used: half a minute later there is another one."""
        [field] = browser.see("/account").all("input", name="secret")
        secret = field["value"]
        code = code_of(service, secret)
        done = browser.post("/account/second-factor", secret=secret, code=code)
        assert done.status_code == 303, done.text
        return secret, code

    def test_the_agency_needs_one_and_can_do_nothing_before(self, service, staff):
        for path in ("/", "/parties", "/plans", "/trail", "/requests"):
            answer = staff.send("GET", path)
            assert (answer.status_code, answer.headers["Location"]) == (
                303,
                "/account?done=second-factor-needed",
            )
        assert staff.post("/parties", name="thief", role="agency").status_code == 303
        answer = staff.send("GET", "/api/v1/parties")
        assert answer.status_code == 403
        assert "second factor" in answer.json()["error"]["problem"]
        assert all(
            item.name != "thief" for item in service.get("agency", "/parties").json() if hasattr(item, "name")
        )
        self.set_up(service, staff)
        staff.see("/parties")

    def test_then_the_password_alone_opens_nothing_and_a_code_only_once(self, service, staff):
        secret, used = self.set_up(service, staff)
        tried = ("", *wrong_codes(service, secret), "12345", used, used[:-1], "\u0661" * 6)
        for place, code in enumerate(tried):
            with pytest.raises(NotLoggedInError):
                log_in(service.agency, "maria", PASSWORD, address=f"192.0.2.{place}", code=code)
        service.clock.advance(seconds=60)
        code = code_of(service, secret)
        assert log_in(
            service.agency, "maria", PASSWORD, address="a", code=f" {code[:3]} {code[3:]}"
        ).caller.is_strong
        with pytest.raises(NotLoggedInError):
            log_in(service.agency, "maria", PASSWORD, address="b", code=code)
        service.clock.advance(seconds=30)
        with pytest.raises(NotLoggedInError):
            log_in(service.agency, "maria", "wrong horse", address="c", code=code_of(service, secret))

    def test_codes_are_guessed_slowly_from_however_many_places(self, service, staff):
        """Whoever has the password and many addresses tries a few codes an hour, and is not told which."""
        secret, _ = self.set_up(service, staff)

        def try_code(place, code):
            return log_in(service.agency, "maria", PASSWORD, address=f"198.51.100.{place}", code=code)

        for place in range(12):
            service.clock.advance(seconds=70)
            with pytest.raises(NotLoggedInError):
                try_code(place, *wrong_codes(service, secret))
        with pytest.raises(NotLoggedInError):
            try_code(50, code_of(service, secret))  # not even the right one comes through at once
        service.clock.advance(seconds=130)
        assert try_code(51, code_of(service, secret)).caller.is_strong

    def test_codes_are_not_guessed_faster_than_passwords(self, service, staff):
        secret, _ = self.set_up(service, staff)
        refusals = []
        for code in wrong_codes(service, secret, 10):
            with pytest.raises((NotLoggedInError, TooManyError)) as refused:
                log_in(service.agency, "maria", PASSWORD, address="192.0.2.1", code=code)
            refusals.append(type(refused.value))
        assert refusals[4:] == [TooManyError] * 6

    def test_it_is_not_replaced_by_a_thief_of_the_session(self, service, staff):
        self.set_up(service, staff)
        fresh = pyotp.random_base32()
        again = staff.post("/account/second-factor", secret=fresh, code=code_of(service, fresh))
        assert again.status_code == 409

    def test_a_secret_that_was_not_shown_to_know_counts_for_nothing(self, service, staff):
        secret = pyotp.random_base32()
        for given, code in (
            (secret, *wrong_codes(service, secret)),
            ("0189" * 8, "000000"),
            ("x", "000000"),
            ("", ""),
        ):
            assert staff.post("/account/second-factor", secret=given, code=code).status_code == 422
        log_in(service.agency, "maria", PASSWORD, address="a")

    def test_a_colleague_takes_a_lost_one_away(self, service, staff):
        self.set_up(service, staff)
        colleague = visitor(service, "agency")
        assert "Take the second factor away" in colleague.see("/parties/maria").words
        assert colleague.post("/parties/maria/second-factor").status_code == 303
        colleague.__exit__(None, None, None)
        assert not log_in(service.agency, "maria", PASSWORD, address="a").caller.is_strong

    def test_others_may_have_one(self, service):
        add_person(service, "paul", "owner")
        login = log_in(service.agency, "paul", PASSWORD, address="a")
        secret = pyotp.random_base32()
        set_second_factor(service.agency, login.caller, secret, code_of(service, secret), cookie=login.cookie)
        with pytest.raises(NotLoggedInError):
            log_in(service.agency, "paul", PASSWORD, address="a")
        with pytest.raises(ConflictError):
            set_second_factor(service.agency, login.caller, secret, "1", cookie=login.cookie)


class TestTrail:
    def test_who_did_what_is_written_down(self, service):
        add_person(service, "maria", "client")
        guess(service, "maria", "198.51.100.7")
        guess(service, "nobody-at-all", "198.51.100.8", "secret-in-the-wrong-field")
        log_in(service.agency, "maria", PASSWORD, address="192.0.2.1")
        token = service.post("agency", "/parties/owner/tokens", {"scopes": ["read"]}, status=201).json()["id"]
        service.ask("agency", "DELETE", f"/tokens/{token}", status=200)
        plan = service.issue()
        service.post("agency", f"/plans/{plan.digest}/withdraw", {"reason": "why"})
        service.post("agency", "/parties", {"name": "paul", "role": "owner"}, status=201)
        service.post("agency", "/parties", {"name": "paul", "role": "owner"}, status=409)  # nothing was done
        told = service.get("auditor", "/trail").json()["trail"]
        found = [(item["party"], item["action"], item["subject"], item["address"]) for item in told]
        here = "192.0.2.7"
        assert found[:7] == [
            ("agency", "POST /api/v1/parties", "paul owner", here),
            ("agency", "POST /api/v1/plans/{digest}/withdraw", plan.digest, here),
            ("agency", "DELETE /api/v1/tokens/{id}", token, here),
            ("agency", "POST /api/v1/parties/{name}/tokens", f"owner owner {token} read", here),
            ("maria", "signed in", "", "192.0.2.1"),
            (None, "sign-in failed", "", "198.51.100.8"),
            ("maria", "sign-in failed", "", "198.51.100.7"),
        ]
        assert "secret-in-the-wrong-field" not in str(told)
        assert "nobody-at-all" not in str(told)
        for who in ("owner", "client"):
            service.get(who, "/trail", status=403)
        for who in ("agency", "auditor"):
            browser = visitor(service, who)
            assert "sign-in failed" in browser.see("/trail").words
            browser.__exit__(None, None, None)

    def test_every_route_that_changes_something_leaves_one_entry(self, service):
        """Whatever its body: registrations and models come another way than the rest."""
        found = set()

        def change(who, method, path, **options):
            n_before = len(list_trail(service.agency, Window(most=500)))
            answer = service.ask(who, method, path, **options)
            assert answer.status_code < 300, answer.text
            entries = list_trail(service.agency, Window(most=500)).entries
            assert len(entries) == n_before + 1, (method, path)
            assert entries[0].party == who
            found.add(tuple(entries[0].action.split(" ")))
            return answer.json()

        change("agency", "POST", "/parties", json={"name": "paul", "role": "owner"})
        token = change("agency", "POST", "/parties/paul/tokens", json={"scopes": ["read"]})["id"]
        change("agency", "DELETE", f"/tokens/{token}")
        change("agency", "DELETE", "/parties/paul")
        change("agency", "POST", "/populations", json={"name": POPULATION, "title": "The region"})
        binary = {"Content-Type": "application/octet-stream"}
        change("agency", "PUT", f"/populations/{POPULATION}/model", content=model_file(), headers=binary)
        numbers = [change("client", "POST", "/requests", json=WISH)["id"] for _ in range(2)]
        change("agency", "POST", f"/requests/{numbers[0]}/decline", json={"reason": "no"})
        change("agency", "POST", f"/requests/{numbers[1]}/preview")
        change("agency", "POST", f"/requests/{numbers[1]}/plan")
        old, new = service.issue(make_plan(releases=3)), service.issue(make_plan(releases=2))
        headers = {"Idempotency-Key": "1", "Content-Type": "application/json"}
        content = make_registration(old, full(old)).to_bytes()
        path = f"/plans/{old.digest}/releases"
        told = change("owner", "POST", path, content=content, headers=headers)
        own = f"{path}/{told['content_digest']}/state"
        change("owner", "PUT", own, json={"state": "published"})
        n_before = len(list_trail(service.agency, Window(most=500)))
        service.put("owner", own, {"state": "published"})  # said before: nothing happens
        assert len(list_trail(service.agency, Window(most=500))) == n_before
        change("agency", "POST", f"/plans/{old.digest}/supersede", json={"by": new.digest})
        change("agency", "POST", f"/plans/{new.digest}/withdraw", json={"reason": "no"})
        changing = {route for route in API if route[0] not in ("GET", "HEAD")}
        # Owners report their progress every few minutes, and a later number replaces it.
        assert found == changing - {("PUT", "/api/v1/plans/{digest}/progress")}

    def test_nothing_of_it_can_be_changed(self, service):
        add_person(service, "maria", "client")
        guess(service, "maria", "198.51.100.7")
        n_before = len(list_trail(service.agency))
        for statement in (
            "UPDATE trail SET address = 'elsewhere'",
            "DELETE FROM trail",
            "UPDATE trail SET party_id = NULL",
        ):
            with pytest.raises(Exception, match="append-only"), service.agency.database.writing() as session:
                session.execute(sa.text(statement))
        assert len(list_trail(service.agency)) == n_before

    def test_what_does_not_happen_leaves_no_entry_and_no_entry_nothing_that_happens(self, service):
        """The entry is written in the transaction of what it is about."""
        n_before = len(list_trail(service.agency))
        service.post("agency", "/populations", {"name": "bad name"}, status=422)
        assert len(list_trail(service.agency)) == n_before
        with service.agency.database.writing() as session:
            session.execute(sa.text("CREATE TABLE apart AS SELECT * FROM trail"))
            session.execute(sa.text("ALTER TABLE trail RENAME TO trail_away"))
        answer = service.ask("agency", "POST", "/populations", json={"name": "unseen"})
        assert answer.status_code >= 500
        with service.agency.database.writing() as session:
            session.execute(sa.text("ALTER TABLE trail_away RENAME TO trail"))
        service.get("agency", "/populations/unseen", status=404)


def test_a_token_ends(service):
    token = create_token(service.agency, "owner", "", 1, ["read"])
    headers = {"Authorization": f"Bearer {token.token}"}
    assert service.send("GET", "/api/v1/me", headers=headers).status_code == 200
    service.clock.advance(days=1, seconds=1)
    assert service.send("GET", "/api/v1/me", headers=headers).status_code == 401
    assert token.expires - service.clock() < dt.timedelta(0)
