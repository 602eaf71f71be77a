"""Who may call what: default deny.

Every endpoint declares it, with `allow` or `allow_anybody`; a route without a declaration cannot be made, and
an application that has a route of another kind does not start (`check_all_guarded`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from elldelta.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

Role = Literal["agency", "owner", "client", "auditor"]

AGENCY: Role = "agency"
OWNER: Role = "owner"
CLIENT: Role = "client"
AUDITOR: Role = "auditor"

ROLES: tuple[Role, ...] = (AGENCY, OWNER, CLIENT, AUDITOR)

Scope = Literal["read", "progress", "register", "request", "manage"]
"""What a token may be for; "manage" is everything that the agency decides."""

SCOPES: dict[Role, tuple[Scope, ...]] = {
    AGENCY: ("read", "manage"),
    OWNER: ("read", "progress", "register"),
    CLIENT: ("read", "request"),
    AUDITOR: ("read",),
}
"""What a token of somebody may be for; by default all of it."""

BodyKind = Literal["none", "ordinary", "registration", "model"]
"""How large a body may be: see `Limits`."""

_ATTRIBUTE = "__elldelta_declaration__"
_Endpoint = TypeVar("_Endpoint", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Caller:
    """Somebody who is known: by a token, or by a login.

    Attributes:
        id: The number of the party.
        name: Its name.
        role: What it may do.
        has_login: Whether it is known by a login, which it can end.
        scopes: What its token is for; None for everything that it may do.
        is_strong: Whether the login took a second factor.
    """

    id: int
    name: str
    role: Role
    has_login: bool = False
    scopes: frozenset[str] | None = None
    is_strong: bool = False


@dataclass(frozen=True)
class Declaration:
    """What a route declares.

    Attributes:
        roles: Who may call it; empty if nobody needs to be known.
        body: How large the body may be.
        is_limited: Whether calls count towards the rate limits; only signs of life do not.
        scope: What a token must be for, to change something here; reading always takes "read".
        is_account: Whether it is about one's own account: then a login without a second factor will do.
    """

    roles: frozenset[Role]
    body: BodyKind = "ordinary"
    is_limited: bool = True
    scope: Scope = "manage"
    is_account: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Whether anybody may call it without saying who they are."""
        return not self.roles


def allow(
    *roles: Role, body: BodyKind = "ordinary", scope: Scope = "manage", is_account: bool = False
) -> Callable[[_Endpoint], _Endpoint]:
    """Declares that parties of these roles may call an endpoint, and nobody else."""
    if not roles or not set(roles) <= set(ROLES):
        raise InternalError("An endpoint must name the roles that may call it.")
    return _declared(Declaration(frozenset(roles), body, scope=scope, is_account=is_account))


def allow_anybody(*, body: BodyKind = "none", is_limited: bool = True) -> Callable[[_Endpoint], _Endpoint]:
    """Declares that everybody may call an endpoint, also without saying who they are."""
    return _declared(Declaration(frozenset(), body, is_limited))


def declaration_of(endpoint: Callable[..., Any]) -> Declaration:
    """What an endpoint declares.

    Raises:
        InternalError: It declares nothing.
    """
    found = getattr(endpoint, _ATTRIBUTE, None)
    if not isinstance(found, Declaration):
        raise InternalError(
            f"The endpoint {getattr(endpoint, '__name__', '?')} does not say who may call it.",
            remedy="Put @allow(...) or @allow_anybody() below the decorator of its route.",
        )
    return found


def _declared(declaration: Declaration) -> Callable[[_Endpoint], _Endpoint]:
    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _ATTRIBUTE, declaration)
        return endpoint

    return declare
