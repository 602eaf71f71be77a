"""Signing in at another service: a small real provider, with discovery, codes, PKCE and signed tokens."""

import base64
import contextlib
import functools
import hashlib
import json
import socket
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from tests import local_server
from tests.agency.server.service import Clock, Service
from tests.agency.server.visitor import HOST, Visitor, visitor

from elldelta.agency.server.routes import sign_in
from elldelta.agency.server.services.parties import list_trail, set_oidc_subject
from elldelta.agency.server.settings import Provider, read_settings
from elldelta.errors import ParameterError

CLIENT, SECRET = "elldelta", "secret of the client"  # of this test only


@functools.cache
def provider_key():
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})


class OtherService:
    """A provider; `claims` and `sign` are what a test spoils."""

    def __init__(self):
        self.key = provider_key()
        self.codes = {}
        self.claims = {}
        self.sign = self._sign
        self.issuer = ""
        self.says_issuer = None

    def _sign(self, claims):
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)

    def authorize(self, address, subject):
        """Somebody signs in there: what their browser is sent back with."""
        asked = {name: value[0] for name, value in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] == f"{HOST}/sign-in/oidc/callback"
        code = f"code-{len(self.codes)}"
        self.codes[code] = (asked, subject)
        return {"code": code, "state": asked["state"]}

    def answer(self, path, body, headers):
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.says_issuer or self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            }
        if path == "/keys":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        form = {name: value[0] for name, value in parse_qs(body.decode()).items()}
        expected = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '%20')}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if headers.get("authorization") not in (f"Basic {expected}", f"Basic {plain}"):
            return 401, {"error": "invalid_client"}
        asked, subject = self.codes.pop(form.get("code"), (None, None))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": subject, "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": asked["nonce"], **self.claims,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims)}

    @contextlib.contextmanager
    def serving(self):
        def handle(handler, body):
            headers = {name.lower(): value for name, value in handler.headers.items()}
            status, document = self.answer(urlsplit(handler.path).path, body, headers)
            local_server.reply(
                handler, json.dumps(document).encode(), status, content_type="application/json"
            )

        with local_server.serving(handle) as self.issuer:
            yield self


@pytest.fixture
def other():
    with OtherService().serving() as running:
        yield running


@pytest.fixture
def service(settings, other):
    provider = Provider(issuer=other.issuer, client_id=CLIENT, client_secret=SECRET)
    with Service(settings.model_copy(update={"oidc": provider}), Clock()) as running:
        running.add("maria", "agency")
        set_oidc_subject(running.agency, "maria", "sub-4711")
        yield running


def begin(browser, other, subject="sub-4711"):
    answer = browser.send("GET", "/sign-in/oidc")
    assert answer.status_code == 302
    return other.authorize(answer.headers["Location"], subject)


def come_back(browser, query):
    return browser.send("GET", "/sign-in/oidc/callback", params=query)


def test_somebody_signs_in_there_and_is_known_here(service, other):
    with Visitor(service.app) as browser:
        assert "Sign in with your organisation" in browser.see("/sign-in").words
        query = begin(browser, other)
        done = come_back(browser, query)
        assert (done.status_code, done.headers["Location"]) == (303, "/")
        browser.see("/parties")
        assert come_back(browser, query).status_code == 401  # nothing is used twice
    assert list_trail(service.agency).entries[0].action in (
        "signed in at the provider",
        "sign-in at the provider failed",
    )


def test_somebody_whom_nobody_here_knows_is_not_let_in(service, other):
    with Visitor(service.app) as browser:
        refused = come_back(browser, begin(browser, other, "sub-of-somebody-else"))
        assert refused.status_code == 401
        assert browser.send("GET", "/api/v1/me").status_code == 401
    service.ask("agency", "DELETE", "/parties/maria", status=200)
    with Visitor(service.app) as browser:
        assert come_back(browser, begin(browser, other)).status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.test"},
        {"aud": "another"},
        {"aud": "another", "azp": "elldelta"},
        {"aud": ["elldelta", "another"], "azp": "another"},
        {"aud": ["elldelta", "another"]},  # whose it is, is not said
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": None},
        {"sub": None},
        {"sub": ""},
        {"sub": ["sub-4711"]},
    ],
    ids=repr,
)
def test_a_token_that_is_not_for_us_and_now_is_refused(service, other, claims):
    other.claims = claims
    with Visitor(service.app) as browser:
        assert come_back(browser, begin(browser, other)).status_code == 401
        assert browser.send("GET", "/api/v1/me").status_code == 401


def without_signature(claims):
    def part(document):
        return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(claims)}."


@pytest.mark.parametrize(
    "attack", ["another key", "none", "shared secret", "public key as secret", "garbage"]
)
def test_a_token_that_the_other_service_has_not_signed_is_refused(service, other, attack):
    mine = RSAKey.generate_key(2048, {"kid": "one"})
    public = other.key.as_pem(private=False)
    other.sign = {
        "another key": lambda claims: jwt.encode({"alg": "RS256", "kid": "one"}, claims, mine),
        "none": without_signature,
        "shared secret": lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET * 3)),
        "public key as secret": lambda claims: jwt.encode({"alg": "HS256"}, claims, unchecked(public)),
        "garbage": lambda _: "x.y.z",
    }[attack]
    with Visitor(service.app) as browser:
        assert come_back(browser, begin(browser, other)).status_code == 401
        assert browser.send("GET", "/api/v1/me").status_code == 401


def unchecked(pem):
    """The library itself warns of a public key as a secret; an attacker has another one."""
    return OctKey.import_key({"kty": "oct", "k": base64.urlsafe_b64encode(pem).rstrip(b"=").decode()})


def test_what_somebody_else_brought_back_signs_nobody_in(service, other):
    """An attacker lets the victim's browser follow the attacker's own link (login CSRF)."""
    with Visitor(service.app) as attacker, Visitor(service.app) as victim:
        query = begin(attacker, other)
        assert come_back(victim, query).status_code == 401
        begin(victim, other)
        assert come_back(victim, query).status_code == 401
        for wrong in ({}, {"code": "x"}, {"state": "x"}, {"state": query["state"]}):
            assert come_back(attacker, wrong).status_code == 401
        assert come_back(attacker, {**query, "iss": "https://evil.test"}).status_code == 401
        assert come_back(attacker, begin(attacker, other)).status_code == 303  # an attempt is used once


def test_another_service_than_the_one_that_is_set_is_not_asked(service, other):
    other.says_issuer = "https://evil.test"
    with Visitor(service.app) as browser:
        assert browser.send("GET", "/sign-in/oidc").status_code == 503


def test_what_is_brought_back_may_be_any_text(service, other):
    with Visitor(service.app) as browser:
        begin(browser, other)
        for state in ("é", "☃", ""):
            assert come_back(browser, {"state": state, "code": "1"}).status_code == 401


def test_the_other_service_is_asked_once_about_itself(service, other):
    asked = []
    answer = other.answer
    other.answer = lambda path, *rest: asked.append(path) or answer(path, *rest)
    with Visitor(service.app) as browser:
        for _ in range(4):
            begin(browser, other)
    assert asked == ["/.well-known/openid-configuration"]


def test_nobody_starves_others_while_the_provider_is_silent(settings, monkeypatch):
    """It takes connections and says nothing: whoever has no login makes nobody else wait."""
    monkeypatch.setattr(sign_in, "PROVIDER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        issuer = f"http://127.0.0.1:{silent.getsockname()[1]}"
        provider = Provider(issuer=issuer, client_id=CLIENT, client_secret=SECRET)
        chosen = settings.model_copy(update={"oidc": provider})
        with Service(chosen, Clock()) as service:
            asked = [("GET", "/sign-in/oidc")] * 60 + [("GET", "/sign-in")]
            *waited, other = service.send_plainly(asked)
            assert {answer.status_code for answer in waited} == {503}
            assert other.status_code == 200
            assert other.elapsed < min(answer.elapsed for answer in waited)


def test_behind_a_proxy_the_provider_sends_people_to_its_address(settings, other):
    provider = Provider(issuer=other.issuer, client_id=CLIENT, client_secret=SECRET)
    chosen = settings.model_copy(update={"oidc": provider, "behind_proxy": "https://agency.example/"})
    with Service(chosen, Clock()) as service, Visitor(service.app) as browser:
        asked = parse_qs(urlsplit(browser.send("GET", "/sign-in/oidc").headers["Location"]).query)
        assert asked["redirect_uri"] == ["https://agency.example/sign-in/oidc/callback"]


def test_two_people_are_never_called_the_same(service, other):
    service.add("paul", "owner")
    agency = visitor(service, "agency")
    assert agency.post("/parties/paul/subject", subject="sub-4711").status_code == 409
    assert agency.post("/parties/paul/subject", subject="sub-4712").status_code == 303
    assert "sub-4712" in str(agency.see("/parties/paul").all("input", name="subject"))
    assert agency.post("/parties/paul/subject", subject="").status_code == 303
    agency.__exit__(None, None, None)


def test_without_another_service_there_is_no_such_page(settings):
    with Service(settings, Clock()) as service, Visitor(service.app) as browser:
        assert browser.send("GET", "/sign-in/oidc").status_code == 404
        assert browser.send("GET", "/sign-in/oidc/callback").status_code == 404
        assert "organisation" not in browser.see("/sign-in").words


def test_it_is_set_whole_or_not_at_all(monkeypatch, tmp_path):
    assert read_settings(folder=tmp_path).oidc is None
    monkeypatch.setenv("ELLDELTA_OIDC_ISSUER", "https://login.example")
    with pytest.raises(ParameterError, match="three variables") as refused:
        read_settings(folder=tmp_path)
    assert "ELLDELTA_OIDC_CLIENT_SECRET" in refused.value.found
    for name in ("CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(f"ELLDELTA_OIDC_{name}", "https://agency.example")
    assert read_settings(folder=tmp_path).oidc.issuer == "https://login.example"
