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
        token_id: The token that it is known by, if not by a login.
    """

    id: int
    name: str
    role: Role
    has_login: bool = False
    token_id: str | None = None


@dataclass(frozen=True)
class Declaration:
    """What a route declares.

    Attributes:
        roles: Who may call it; empty if nobody needs to be known.
        body: How large the body may be.
        is_limited: Whether calls count towards the rate limits; only signs of life do not.
    """

    roles: frozenset[Role]
    body: BodyKind = "ordinary"
    is_limited: bool = True

    @property
    def is_anonymous(self) -> bool:
        """Whether anybody may call it without saying who they are."""
        return not self.roles


def allow(*roles: Role, body: BodyKind = "ordinary") -> Callable[[_Endpoint], _Endpoint]:
    """Declares that parties of these roles may call an endpoint, and nobody else."""
    if not roles or not set(roles) <= set(ROLES):
        raise InternalError("An endpoint must name the roles that may call it.")
    return _declared(Declaration(frozenset(roles), body))


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
