"""Charts as SVG files of their own: a page's policy forbids styles inside a page, also those of a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Response

from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.services.pictures import Width, stored_picture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elldelta.agency.server.state import Agency

HEADERS = {
    # The drawing library writes styles into a drawing. Nothing else may happen in it, wherever it is opened.
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; sandbox",
}


def picture(agency: Agency, subject: str, width: Width) -> Response:
    """A drawing that a worker has stored.

    Raises:
        NotFoundError: There is none, or not yet.
    """
    content = stored_picture(agency, subject, width)
    if content is None:
        raise NotFoundError("picture")
    return Response(content, media_type="image/svg+xml", headers=HEADERS)


def frontier_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same for those who do not see it."""
    told = []
    for kind in rows[0]["classes"] if rows else ():
        points = [(row["records"], row["classes"][kind]) for row in rows if row["classes"].get(kind)]
        if points:
            (first, few), (last, many) = points[0], points[-1]
            told.append(f"{kind}: from {few:,} classes for {first:,} records to {many:,} for {last:,}")
    lines = "; ".join(told) if told else "no number of records that was tried gives a class"
    return f"Line chart of classes against records. {lines}. The table below has every number."
