"""Signing in at the identity provider: OpenID Connect, the authorization code flow with PKCE, by Authlib.

What comes back is believed only if the provider's token holds: its signature by a key that the provider
publishes, that it is by this provider, for us, for this attempt (nonce), and not too old.

Needs the extra `oidc`; its packages are imported where they are used.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from elldelta.agency.server.errors import BusyError, NotLoggedInError
from elldelta.errors import InputError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

    from elldelta.agency.server.settings import Provider

CALLBACK = "/sign-in/oidc/callback"
SECONDS = 4.0
"""How long one question to the provider may take."""

FLOW_SECONDS = 600
"""How long somebody may take to sign in at the provider."""

ALGORITHMS = ["RS256", "PS256", "ES256", "Ed25519", "EdDSA"]
"""Signatures that are accepted; never "none", nor one with a shared secret."""


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
        client_kwargs={"scope": "openid", "code_challenge_method": "S256", "timeout": SECONDS},
    )
    app.add_middleware(
        SessionMiddleware,
        secret_key=hashlib.sha256(b"elldelta session " + secret.encode()).hexdigest(),
        session_cookie=cookie,
        max_age=FLOW_SECONDS,
        https_only=is_https,
    )


async def begin(request: Request, provider: Provider) -> Response:
    """Sends the browser to the provider."""
    client = await _client(request, provider)
    answer: Response = await client.authorize_redirect(request, provider.url.rstrip("/") + CALLBACK)
    return answer


async def finish(request: Request, provider: Provider) -> str:
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
