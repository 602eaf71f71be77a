"""Signing in and out: with an access token, or at the identity provider if there is one.

The provider is asked by OpenID Connect, the authorization code flow with PKCE, by Authlib. What comes back is
believed only if the provider's token holds: its signature by a key that the provider publishes, that it is by
this provider, for us, for this attempt (nonce), and not too old.

That needs the extra `oidc`; its packages are imported where they are used.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from elldelta.agency.server.errors import BusyError, ConflictError, NotFoundError, NotLoggedInError
from elldelta.agency.server.guard import (
    CurrentAgency,
    CurrentContext,
    PossibleCaller,
    address_of,
    allow,
    allow_anybody,
    cookie_name,
)
from elldelta.agency.server.routes.rendering import (
    Posted,
    PostedForm,
    form_again,
    local_path,
    page,
    redirect,
    sign_in_content,
)
from elldelta.agency.server.services import parties
from elldelta.agency.server.state import Agency
from elldelta.agency.server.tables import ROLES
from elldelta.errors import InputError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from elldelta.agency.server.settings import Provider

pages = APIRouter(include_in_schema=False)

CALLBACK = "/sign-in/oidc/callback"
PROVIDER_SECONDS = 4.0
"""How long one question to the provider may take."""

FLOW_SECONDS = 600
"""How long somebody may take to sign in at the provider."""

ALGORITHMS = ["RS256", "PS256", "ES256", "Ed25519", "EdDSA"]
"""Signatures that are accepted; never "none", nor one with a shared secret."""


def _signing_in(request: Request, posted: Posted, **_: object) -> dict[str, Any]:
    return sign_in_content(request, wanted=local_path(posted.text("wanted")))


@pages.get("/sign-in", dependencies=[allow_anybody()])
def sign_in_page(request: Request, caller: PossibleCaller) -> Response:
    """Shows the form; somebody who is signed in is sent on."""
    return page(request, "sign_in.html", **sign_in_content(request)) if caller is None else redirect("/")


@pages.post("/sign-in", dependencies=[allow_anybody()])
@form_again("sign_in.html", _signing_in)
def begin(request: Request, agency: CurrentAgency, caller: PossibleCaller, posted: PostedForm) -> Response:
    """Begins a login and goes on to the page that was wanted."""
    if caller is not None:
        raise ConflictError("You are signed in already.", remedy="Sign out first.")
    cookie = parties.log_in(agency, posted.text("token"), address=address_of(request))
    return _signed_in(agency, cookie, local_path(posted.text("wanted")))


@pages.get("/sign-in/oidc", dependencies=[allow_anybody()])
async def oidc_sign_in(request: Request, agency: CurrentAgency) -> Response:
    """Sends the browser to the identity provider."""
    if agency.settings.oidc is None:
        raise NotFoundError("page")
    public = agency.settings.behind_proxy or str(request.base_url)  # its host is known to be ours
    return await _to_provider(request, agency.settings.oidc, public.rstrip("/") + CALLBACK)


@pages.get(CALLBACK, dependencies=[allow_anybody()])
async def oidc_callback(request: Request, agency: CurrentAgency) -> Response:
    """Somebody comes back from the identity provider: begins their login if what it says holds."""
    if agency.settings.oidc is None:
        raise NotFoundError("page")
    subject = await _from_provider(request, agency.settings.oidc)
    address = address_of(request)
    cookie = await run_in_threadpool(parties.log_in_oidc, agency, subject, address=address)
    return _signed_in(agency, cookie, "/")


@pages.post("/sign-out", dependencies=[allow(*ROLES)])
def sign_out(context: CurrentContext) -> Response:
    """Ends the login."""
    name = cookie_name(context.agency)
    cookie = context.request.cookies.get(name)
    if cookie is not None:
        parties.log_out(context.agency, cookie)
    answer = redirect("/sign-in", "signed-out")
    answer.delete_cookie(name, httponly=True, samesite="lax", secure=context.agency.settings.is_https)
    return answer


def _signed_in(agency: Agency, cookie: str, path: str) -> Response:
    """No script sees the cookie, and no other site sends it with a form."""
    answer = redirect(path)
    seconds, is_https = int(agency.limits.session_hours * 3600), agency.settings.is_https
    name = cookie_name(agency)
    answer.set_cookie(name, cookie, seconds, httponly=True, samesite="lax", secure=is_https)
    return answer


def add_provider(app: FastAPI, provider: Provider, *, cookie: str, is_https: bool) -> None:
    """Lets people sign in at a provider; a signed cookie remembers what they have to bring back."""
    try:
        from authlib.integrations.starlette_client import OAuth
        from starlette.middleware.sessions import SessionMiddleware
    except ImportError:
        raise InputError(
            "Signing in at an identity provider needs packages that are not installed.",
            found="Missing: authlib, httpx2 or itsdangerous.",
            remedy="Run: pip install 'elldelta[oidc]'",
        ) from None
    secret = provider.client_secret.get_secret_value()
    app.state.provider = OAuth().register(
        "provider",
        client_id=provider.client_id,
        client_secret=secret,
        server_metadata_url=provider.issuer.rstrip("/") + "/.well-known/openid-configuration",
        client_kwargs={"scope": "openid", "code_challenge_method": "S256", "timeout": PROVIDER_SECONDS},
    )
    app.add_middleware(
        SessionMiddleware,
        secret_key=hashlib.sha256(b"elldelta session " + secret.encode()).hexdigest(),
        session_cookie=cookie,
        max_age=FLOW_SECONDS,
        https_only=is_https,
    )


async def _to_provider(request: Request, provider: Provider, callback: str) -> Response:
    """Sends the browser to the provider, which sends it back to our callback."""
    client = await _client(request, provider)
    answer: Response = await client.authorize_redirect(request, callback)
    return answer


async def _from_provider(request: Request, provider: Provider) -> str:
    """What the provider calls somebody who has come back from it.

    Raises:
        NotLoggedInError: It is not about this attempt, was refused there, or does not hold.
    """
    from authlib.common.errors import AuthlibBaseError
    from httpx2 import HTTPError
    from joserfc.errors import JoseError

    client = await _client(request, provider)
    expected = {
        "iss": {"essential": True, "value": provider.issuer},
        "aud": {"essential": True, "value": provider.client_id},
    }
    try:
        if request.query_params.get("iss", provider.issuer) == provider.issuer:
            token = await client.authorize_access_token(request, claims_options=expected)
            subject = token["userinfo"]["sub"]
            if isinstance(subject, str) and subject:
                return subject
    except (AuthlibBaseError, JoseError, HTTPError, ValueError, KeyError, TypeError, RuntimeError):
        pass  # their texts quote what was sent
    raise NotLoggedInError("What the identity provider says about you does not hold.")


async def _client(request: Request, provider: Provider) -> Any:  # noqa: ANN401 (Authlib has no types)
    """Authlib's client, once the provider has said about itself what is believed here."""
    from httpx2 import HTTPError

    client = request.app.state.provider
    try:
        known = await client.load_server_metadata()
        is_right = known.get("issuer") == provider.issuer
        offered = known.get("id_token_signing_alg_values_supported") or ALGORITHMS
        known["id_token_signing_alg_values_supported"] = [name for name in ALGORITHMS if name in offered]
    except (HTTPError, ValueError, TypeError, AttributeError):
        raise BusyError("The identity provider does not answer.") from None
    if not is_right:
        known.clear()  # it is asked again
        raise BusyError("The identity provider calls itself by another name than the one that is set here.")
    return client
