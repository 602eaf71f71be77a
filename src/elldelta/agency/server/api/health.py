"""Signs of life, and the description of the interface."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from elldelta.agency.server import logs
from elldelta.agency.server.guarded_route import CurrentAgency, GuardedRoute
from elldelta.agency.server.migrations import is_current
from elldelta.agency.server.rights import allow_anybody
from elldelta.errors import ElldeltaError

router = APIRouter(route_class=GuardedRoute, tags=["health"])


@router.get(
    "/health",
    summary="Whether the process answers",
    responses={200: {"content": {"application/json": {"example": {"status": "ok"}}}}},
)
@allow_anybody(is_limited=False)
async def health() -> dict[str, str]:
    """Answers as long as the process can answer anything."""
    return {"status": "ok"}


@router.get(
    "/ready",
    summary="Whether requests can be handled",
    responses={
        200: {"content": {"application/json": {"example": {"status": "ready"}}}},
        503: {"content": {"application/json": {"example": {"status": "database not current"}}}},
    },
)
@allow_anybody(is_limited=False)
def ready(agency: CurrentAgency) -> Response:
    """Answers 200 if the database can be reached and has the newest schema."""
    try:
        status = "ready" if is_current(agency.database) else "database not current"
    except ElldeltaError:
        status = "database not reachable"
    except Exception as error:  # noqa: BLE001 (drivers have many ways to fail; each means not ready)
        logs.log_bug("readiness", error)
        status = "database not reachable"
    return JSONResponse({"status": status}, 200 if status == "ready" else 503)


@router.get("/openapi.json", include_in_schema=False)
@allow_anybody()
async def description(request: Request) -> dict[str, Any]:
    """What the interface offers, as an OpenAPI document."""
    return dict(request.app.openapi())
