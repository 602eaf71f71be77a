"""Lists as answers: an object around each, so that something can be added to it later."""

from __future__ import annotations

from dataclasses import dataclass

from elldelta.server.services.parties import PartyView
from elldelta.server.services.plans import PlanView
from elldelta.server.services.populations import PopulationView
from elldelta.server.services.releases import RefusalView, ReleaseView
from elldelta.server.services.requests import RequestView
from elldelta.server.services.tokens import TokenView


@dataclass(frozen=True)
class PartyList:
    """Parties."""

    parties: tuple[PartyView, ...]


@dataclass(frozen=True)
class TokenList:
    """Tokens of a party."""

    tokens: tuple[TokenView, ...]


@dataclass(frozen=True)
class PopulationList:
    """Populations."""

    populations: tuple[PopulationView, ...]


@dataclass(frozen=True)
class RequestList:
    """Requests."""

    requests: tuple[RequestView, ...]


@dataclass(frozen=True)
class PlanList:
    """Plans."""

    plans: tuple[PlanView, ...]


@dataclass(frozen=True)
class ReleaseList:
    """Releases of a plan."""

    releases: tuple[ReleaseView, ...]


@dataclass(frozen=True)
class RefusalList:
    """Registrations that were refused."""

    refusals: tuple[RefusalView, ...]
