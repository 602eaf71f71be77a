"""Lists as answers, part by part: an object around each, with the way to the parts before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from elldelta.agency.server.services.paging import Part
from elldelta.agency.server.services.parties import PartyView
from elldelta.agency.server.services.plans import PlanView
from elldelta.agency.server.services.populations import PopulationView
from elldelta.agency.server.services.releases import RefusalView, ReleaseView
from elldelta.agency.server.services.requests import RequestView
from elldelta.agency.server.services.tokens import TokenView

Entry = TypeVar("Entry")
Listed = TypeVar("Listed")


def listed(make: Callable[[tuple[Entry, ...], str | None, str | None], Listed], part: Part[Entry]) -> Listed:
    """A part of a list as an answer; `previous` and `next` are null where it begins or ends."""
    return make(part.entries, part.previous, part.next)


@dataclass(frozen=True)
class PartyList:
    """Parties."""

    parties: tuple[PartyView, ...]
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class TokenList:
    """Tokens of a party."""

    tokens: tuple[TokenView, ...]
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class PopulationList:
    """Populations."""

    populations: tuple[PopulationView, ...]
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class RequestList:
    """Requests."""

    requests: tuple[RequestView, ...]
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class PlanList:
    """Plans."""

    plans: tuple[PlanView, ...]
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class ReleaseList:
    """Releases of a plan."""

    releases: tuple[ReleaseView, ...]
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class RefusalList:
    """Registrations that were refused."""

    refusals: tuple[RefusalView, ...]
    previous: str | None
    next: str | None
