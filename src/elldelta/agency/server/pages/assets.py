"""Stylesheet, scripts and icon: from the installed package, under names that change with their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.guarded_route import GuardedRoute
from elldelta.agency.server.rights import allow_anybody

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

FOLDER = Path(__file__).parent.parent / "static"
FOR_EVER = "public, max-age=31536000, immutable"
"""A changed file has another name, so a browser need not ask again."""

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file that pages refer to."""

    name: str
    content: bytes
    media_type: str


@router.get("/static/{name}")
@allow_anybody()
async def asset(name: str) -> Response:
    """Gives a file by the name that pages use for it."""
    found = _by_public_name().get(name)
    if found is None:
        raise NotFoundError("file")
    return Response(found.content, media_type=found.media_type, headers={"Cache-Control": FOR_EVER})


def asset_url(name: str) -> str:
    """Where pages find a file."""
    return f"/static/{_assets()[name].name}"


@cache
def _assets() -> dict[str, Asset]:
    found = {}
    for path in sorted(FOLDER.iterdir()):
        content = path.read_bytes()
        mark = hashlib.sha256(content).hexdigest()[:16]
        name = f"{path.stem}.{mark}{path.suffix}"
        found[path.name] = Asset(name, content, _TYPES[path.suffix])
    return found


@cache
def _by_public_name() -> dict[str, Asset]:
    return {item.name: item for item in _assets().values()}
