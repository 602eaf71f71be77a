"""Who calls: tokens that hold and tokens that do not, logins, cookies, and forms of others."""

import pytest
import sqlalchemy as sa

from elldelta.agency.server.errors import ConflictError, NotLoggedInError
from elldelta.agency.server.guard import cookie_name
from elldelta.agency.server.services.parties import create_token, disable_party, log_in, log_out
from elldelta.agency.server.tables import check_name
from elldelta.errors import ParameterError


def test_a_token_is_shown_once_and_kept_only_as_a_digest(service):
    answer = service.post("agency", "/parties/owner/tokens", {"note": "nightly"}, status=201).json()
    secret = answer["token"].split("_", 2)[2]  # the secret itself may hold underscores
    [*_, listed] = service.get("agency", "/parties/owner/tokens").json()["entries"]
    assert answer["id"] in {
        item["id"] for item in service.get("agency", "/parties/owner/tokens").json()["entries"]
    }
    assert "token" not in listed
    with service.agency.database.reading() as session:
        for table in ("tokens", "parties", "logins"):
            rows = session.execute(sa.select(sa.text("*")).select_from(sa.table(table))).all()
            assert secret not in str(rows)
    headers = {"Authorization": f"Bearer {answer['token']}"}
    assert service.send("GET", "/api/v1/me", headers=headers).json() == {"name": "owner", "role": "owner"}


def me(service, token):
    return service.send("GET", "/api/v1/me", headers={"Authorization": f"Bearer {token}"})


def test_wrong_tokens_are_refused(service):
    good = service.tokens["owner"]
    prefix, number, secret = good.split("_", 2)
    other = service.tokens["client"].split("_", 2)
    wrong = [
        "",
        "x",
        good[:-1],
        good + "A",
        good.swapcase(),
        f"{prefix}_{number}_{other[2]}",
        f"{prefix}_{other[1]}_{secret}",
        "elldelta_000000000000_" + "A" * 43,
    ]
    for token in wrong:
        answer = me(service, token)
        assert answer.status_code == 401, token
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert secret not in answer.text
    assert me(service, good).status_code == 200


def test_another_scheme_is_refused(service):
    for scheme in ("Basic", "Token", "bearer2"):
        headers = {"Authorization": f"{scheme} {service.tokens['owner']}"}
        assert service.send("GET", "/api/v1/me", headers=headers).status_code == 401


def test_a_token_ends_when_it_expires_is_revoked_or_its_party_is_disabled(service):
    for name in ("a", "b"):
        service.add(name, "owner")
    short = create_token(service.agency, "a", "", 1)
    long = create_token(service.agency, "a", "", 30)
    other = create_token(service.agency, "b", "", 30)
    assert [me(service, item.token).status_code for item in (short, long, other)] == [200, 200, 200]
    service.clock.advance(days=1, seconds=1)
    assert [me(service, item.token).status_code for item in (short, long, other)] == [401, 200, 200]
    service.ask("agency", "DELETE", f"/tokens/{long.id}", status=200)
    assert [me(service, item.token).status_code for item in (long, other)] == [401, 200]
    service.ask("agency", "DELETE", "/parties/b", status=200)
    assert me(service, other.token).status_code == 401
    service.post("agency", "/parties/b/tokens", {}, status=409)


def test_the_last_of_the_agency_cannot_be_shut_out(service):
    service.ask("agency", "DELETE", "/parties/agency", status=409)
    service.add("deputy", "agency")
    disable_party(service.agency, "agency")
    with pytest.raises(ConflictError):
        disable_party(service.agency, "deputy")


def test_a_token_is_not_valid_for_ever(service):
    for days in (0, -1, 367, 2**40):
        service.post("agency", "/parties/owner/tokens", {"expires_in_days": days}, status=422)


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "ä", "a" * 65, "-a", "a\n", "../x"])
def test_names_that_would_need_quoting_are_refused(name):
    with pytest.raises(ParameterError):
        check_name("a party", name)


def test_two_parties_cannot_have_one_name(service):
    service.post("agency", "/parties", {"name": "owner", "role": "agency"}, status=409)


def cookie_of(service, name="client"):
    secret = log_in(service.agency, service.tokens[name], address="a")
    cookie = {"Cookie": f"{cookie_name(service.agency)}={secret}"}
    assert service.send("GET", "/api/v1/me", headers=cookie).json()["name"] == name
    return cookie


def test_a_token_opens_a_login_and_neither_is_kept(service):
    cookie = cookie_of(service)
    secret = cookie["Cookie"].partition("=")[2]
    with service.agency.database.reading() as session:
        stored = str(session.execute(sa.text("SELECT * FROM logins")).all())
        assert secret not in stored
        assert service.tokens["client"].split("_", 2)[2] not in stored
    log_out(service.agency, secret)
    assert service.send("GET", "/api/v1/me", headers=cookie).status_code == 401


def test_a_wrong_token_opens_none(service):
    good = service.tokens["client"]
    for token in ("", "x", good[:-1], good + "A", "a\0b", "elldelta_000000000000_" + "A" * 43, "x" * 5000):
        with pytest.raises(NotLoggedInError, match="not known"):
            log_in(service.agency, token, address="a")


def test_a_login_ends(service):
    cookie = cookie_of(service)
    service.clock.advance(hours=service.settings.limits.session_hours, seconds=-10)
    assert service.send("GET", "/api/v1/me", headers=cookie).status_code == 200
    service.clock.advance(seconds=20)
    assert service.send("GET", "/api/v1/me", headers=cookie).status_code == 401


def test_a_login_ends_with_its_token(service):
    token = create_token(service.agency, "client", "", 1)
    service.tokens["revoked"], service.tokens["client"] = service.tokens["client"], token.token
    service.clock.advance(hours=20)
    short = cookie_of(service)
    service.clock.advance(hours=4, seconds=1)  # sooner than the login itself
    assert service.send("GET", "/api/v1/me", headers=short).status_code == 401
    with pytest.raises(NotLoggedInError, match="expired"):
        log_in(service.agency, token.token, address="a")
    service.tokens["client"] = service.tokens["revoked"]
    long = cookie_of(service)
    service.ask("agency", "DELETE", f"/tokens/{service.tokens['client'].split('_')[1]}", status=200)
    assert service.send("GET", "/api/v1/me", headers=long).status_code == 401
    with pytest.raises(NotLoggedInError, match="revoked"):
        log_in(service.agency, service.tokens["client"], address="a")


def test_a_disabled_party_has_no_login(service):
    cookie = cookie_of(service)
    disable_party(service.agency, "client")
    assert service.send("GET", "/api/v1/me", headers=cookie).status_code == 401
    with pytest.raises(NotLoggedInError):
        log_in(service.agency, service.tokens["client"], address="a")


def test_what_a_login_changes_must_come_from_our_own_pages(service):
    service.add_model()
    cookie = cookie_of(service)
    wish = {"population": "region", "ell": 2, "releases": 1, "records": 100}

    def file(**headers):
        return service.send("POST", "/api/v1/requests", json=wish, headers={**cookie, **headers}).status_code

    own, site = {"Origin": "http://127.0.0.1"}, "Sec-Fetch-Site"
    assert file() == 403  # who says nothing may be anybody
    for origin in ("http://evil.test", "null", "https://127.0.0.1", "http://127.0.0.1:81", ""):
        assert file(Origin=origin) == 403, origin
    for value in ("cross-site", "same-site", "none", ""):
        assert file(**{site: value}) == 403, value
        assert file(**own, **{site: value}) == 403, value
    assert file(**{"Origin": "http://evil.test", site: "same-origin"}) == 403
    assert service.get("agency", "/requests").json()["entries"] == []
    assert file(**own) == 201
    assert file(**{site: "same-origin"}) == 201
    assert file(**own, **{site: "same-origin"}) == 201


def test_a_token_needs_no_origin_but_not_a_foreign_one(service):
    """No browser sends a token by itself; one that another site's page sends is refused all the same."""
    for headers, status in (
        ({}, 201),
        ({"Origin": "http://evil.test"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
    ):
        document = {"name": f"party-{status}-{len(headers)}", "role": "owner"}
        service.post("agency", "/parties", document, headers=headers, status=status)
