"""The roles, and who calls; what each may call is declared at the routes (`guard`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["agency", "owner", "client", "auditor"]

AGENCY: Role = "agency"
OWNER: Role = "owner"
CLIENT: Role = "client"
AUDITOR: Role = "auditor"

ROLES: tuple[Role, ...] = (AGENCY, OWNER, CLIENT, AUDITOR)


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
