"""The ledger of a plan, line by line, and whether its chain is intact."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.api.bodies import Digest
from elldelta.agency.server.api.windows import NumberWindow
from elldelta.agency.server.guarded_route import CurrentAgency, GuardedRoute
from elldelta.agency.server.pages.rendering import page
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, allow
from elldelta.agency.server.services.ledger import export_ledger, show_ledger
from elldelta.agency.server.services.paging import cut_part
from elldelta.agency.server.services.plans import show_plan
from elldelta.agency.server.services.releases import list_releases
from elldelta.errors import FileError

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/plans/{digest}/ledger")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def show(request: Request, agency: CurrentAgency, digest: Digest, window: NumberWindow) -> Response:
    """Shows the ledger, after checking every line of it."""
    plan = show_plan(agency, digest).plan
    problem, room = None, None
    try:
        chain = show_ledger(agency, digest)
        room = {
            "least": int(chain.room.min()),
            "full": int((chain.room == 0).sum()),
            "classes": chain.room.size,
        }
    except FileError as error:  # the page must say so, and still show what there is
        problem = error
    first, *lines = (json.loads(line) for line in export_ledger(agency, digest).splitlines())
    most = agency.limits.page_size
    shown = cut_part(lines, window, most=most, name=lambda line: int(line["sequence"]))
    releases = list_releases(agency, digest, window)  # of the same lines
    return page(
        request,
        "ledger.html",
        plan=plan,
        first=first,
        n_lines=1 + len(lines),
        lines=shown,
        releases={item.sequence: item for item in releases},
        problem=problem,
        room=room,
    )
