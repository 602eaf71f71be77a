"""Signing in at another service (OpenID Connect, the authorization code flow with PKCE), through Authlib.

What comes back is believed only if the token of the other service holds: its signature by a key that the
service publishes, that it is by this service, for us, for this attempt (nonce), and not too old.

Needs the extra `oidc`; its packages are imported where they are used.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from elldelta.agency.server.errors import BusyError, NotLoggedInError
from elldelta.agency.server.passwords import new_secret
from elldelta.errors import InputError, InternalError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from authlib.integrations.httpx_client import OAuth2Client

    from elldelta.agency.server.settings import Provider
    from elldelta.agency.server.state import Agency

BACK = "/sign-in/elsewhere/back"
DISCOVERY = "/.well-known/openid-configuration"
SECONDS = 4.0
"""How long one question to the other service may take."""

KNOWN_SECONDS, SILENT_SECONDS = 3600.0, 5.0
"""How long it is believed what it says about itself, and that it says nothing."""

LEEWAY = 60
"""Seconds by which clocks may differ."""

ALGORITHMS = ["RS256", "PS256", "ES256", "Ed25519", "EdDSA"]
"""Signatures that are accepted; never "none", nor one with a shared secret."""


def begin(agency: Agency) -> tuple[str, str]:
    """Where to send somebody who wants to sign in, and what to remember of it in a cookie."""
    provider = _provider(agency)
    state, nonce, verifier = (new_secret(agency) for _ in range(3))
    known = _discovered(agency, provider)
    with _client(provider) as client:
        address, _ = client.create_authorization_url(
            known["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
        )
    return str(address), ".".join((state, nonce, verifier))


def finish(agency: Agency, flow: str, told: dict[str, str]) -> str:
    """What the other service calls somebody who has come back from it.

    Args:
        agency: The service.
        flow: What the cookie has remembered.
        told: The query of the address with which they came back.

    Raises:
        NotLoggedInError: It is not about this attempt, was refused there, or does not hold.
    """
    from authlib.common.errors import AuthlibBaseError
    from httpx2 import HTTPError
    from joserfc.errors import JoseError

    provider, parts = _provider(agency), flow.split(".")
    if len(parts) != 3 or not hmac.compare_digest(parts[0].encode(), told.get("state", "").encode()):
        raise NotLoggedInError("What the other service sent back is not about this attempt to sign in.")
    _, nonce, verifier = parts
    if told.get("iss", provider.issuer) != provider.issuer or not told.get("code"):
        raise NotLoggedInError("The other service has not let you in.")
    known = _discovered(agency, provider)
    try:
        with agency.elsewhere.slot(), _client(provider) as client:
            token = client.fetch_token(
                known["token_endpoint"],
                code=told["code"],
                code_verifier=verifier,
                grant_type="authorization_code",
            )
            keys = _json(client, known["jwks_uri"])
        return _subject(provider, str(token.get("id_token", "")), keys, nonce, agency)
    except (AuthlibBaseError, JoseError, HTTPError, ValueError, KeyError, TypeError):
        raise NotLoggedInError("What the other service says about you does not hold.") from None


def _subject(provider: Provider, id_token: str, keys: dict[str, Any], nonce: str, agency: Agency) -> str:
    from joserfc import jwt
    from joserfc.jwk import KeySet
    from joserfc.jwt import JWTClaimsRegistry

    decoded = jwt.decode(id_token, KeySet.import_key_set(keys), algorithms=ALGORITHMS)  # type: ignore[arg-type]
    claims = JWTClaimsRegistry(
        now=int(agency.clock().timestamp()),
        leeway=LEEWAY,
        iss={"essential": True, "value": provider.issuer},
        aud={"essential": True, "value": provider.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    claims.validate(decoded.claims)
    if decoded.claims.get("azp", provider.client_id) != provider.client_id:
        raise ValueError
    subject = decoded.claims["sub"]
    if not isinstance(subject, str) or not subject:
        raise ValueError
    return subject


def _provider(agency: Agency) -> Provider:
    if agency.settings.oidc is None:
        raise InternalError("There is no other service to sign in at.")
    return agency.settings.oidc


def _client(provider: Provider) -> OAuth2Client:
    try:
        from authlib.integrations.httpx_client import OAuth2Client
    except ImportError:
        raise InputError(
            "Signing in at another service needs packages that are not installed.",
            found="Missing: authlib or httpx2.",
            remedy="Run: pip install 'elldelta[oidc]'",
        ) from None
    return OAuth2Client(
        provider.client_id,
        provider.client_secret.get_secret_value(),
        redirect_uri=provider.url.rstrip("/") + BACK,
        scope="openid",
        code_challenge_method="S256",
        timeout=SECONDS,
        follow_redirects=False,
    )


def _discovered(agency: Agency, provider: Provider) -> Mapping[str, Any]:
    """What the other service says about itself; it must be the one that it was taken for.

    Anybody may ask for it, so it is asked seldom, also when it does not answer.
    """
    known = _known(agency, provider)
    if known is None:
        with agency.elsewhere.slot():
            known = _known(agency, provider)  # whoever had the slot before may have asked
            if known is None:
                known = (agency.clock(), _asked(provider))
                agency.discovered.put(provider.issuer, known)
    _, found = known
    if found is None:
        raise BusyError("The other service, at which people sign in, does not answer.")
    if found.get("issuer") != provider.issuer:
        raise BusyError("The other service calls itself by another name than the one that is set here.")
    return found


def _known(agency: Agency, provider: Provider) -> tuple[dt.datetime, Mapping[str, Any] | None] | None:
    """What it said lately, and when."""
    known = agency.discovered.peek(provider.issuer)
    if known is None:
        return None
    at, found = known
    is_fine = found is not None and found.get("issuer") == provider.issuer
    age = (agency.clock() - at).total_seconds()
    return known if age < (KNOWN_SECONDS if is_fine else SILENT_SECONDS) else None


def _asked(provider: Provider) -> Mapping[str, Any] | None:
    from httpx2 import HTTPError

    try:
        with _client(provider) as client:
            return _json(client, provider.issuer.rstrip("/") + DISCOVERY)
    except (HTTPError, ValueError, TypeError):
        return None


def _json(client: OAuth2Client, address: str) -> dict[str, Any]:
    answer = client.request("GET", address, withhold_token=True)
    answer.raise_for_status()
    found = answer.json()
    if not isinstance(found, dict):
        raise TypeError
    return found
