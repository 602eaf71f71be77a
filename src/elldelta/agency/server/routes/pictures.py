"""Charts as SVG files of their own: a page's policy forbids styles inside a page, also those of a drawing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

from fastapi import Response

from elldelta.pages.charts import as_svg, draw_exposure_curve, draw_frontier, draw_histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from elldelta.agency.server.state import Agency

Width = Literal["wide", "narrow"]

SIZES: Mapping[Width, tuple[float, float]] = {"wide": (6.4, 4.2), "narrow": (3.8, 3.6)}
"""In inches. On a phone the same letters need a smaller drawing."""

HEADERS = {
    # The drawing library writes styles into a drawing. Nothing else may happen in it, wherever it is opened.
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; sandbox",
}

_ORDER = ("paper", "union", "sharp")
_DRAWING = threading.Lock()
"""The drawing library keeps its settings in one place for all threads."""


def picture(
    agency: Agency, subject: str, width: Width, draw: Callable[[], Figure], *, is_map: bool = False
) -> Response:
    """A drawing, cached by its subject, which must name everything that it depends on."""

    def made() -> bytes:
        with _DRAWING:
            figure = draw()
            across, up = SIZES[width]
            figure.set_size_inches(across, up + 0.6 * is_map)
            return as_svg(figure)

    return Response(agency.pictures.get((subject, width), made), media_type="image/svg+xml", headers=HEADERS)


def frontier_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Classes against records, one line for every bound that was computed."""
    records = [row["records"] for row in rows]
    bounds = [bound for bound in _ORDER if any(bound in row["classes"] for row in rows)]
    return draw_frontier(
        records, {bound: [row["classes"].get(bound) for row in rows] for bound in bounds}, ""
    )


def frontier_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same for those who do not see it."""
    told = []
    for bound in _ORDER:
        points = [(row["records"], row["classes"][bound]) for row in rows if row["classes"].get(bound)]
        if points:
            (first, few), (last, many) = points[0], points[-1]
            told.append(f"{bound}: from {few:,} classes for {first:,} records to {many:,} for {last:,}")
    lines = "; ".join(told) if told else "no number of records that was tried gives a class"
    return f"Line chart of classes against records. {lines}. The table below has every number."


def histogram_figure(audit: Mapping[str, Any]) -> Figure:
    """Linked records by the number of values left."""
    return draw_histogram(audit["histogram"], audit["ell"])


def curve_figure(audit: Mapping[str, Any]) -> Figure:
    """How exposure grows with the number of releases."""
    return draw_exposure_curve(audit["curve"], audit["ell"])
