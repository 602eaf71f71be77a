"""Charts as SVG files of their own: a page's policy forbids styles inside a page, also those of a drawing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from fastapi import Response

from elldelta.pages.charts import as_svg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

Width = Literal["wide", "narrow"]

SIZES: Mapping[Width, tuple[float, float]] = {"wide": (6.4, 4.2), "narrow": (3.8, 3.6)}
"""In inches. On a phone the same letters need a smaller drawing."""

HEADERS = {
    # The drawing library writes styles into a drawing. Nothing else may happen in it, wherever it is opened.
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; sandbox",
}

_DRAWING = threading.Lock()
"""The drawing library is not made for several threads."""


def picture(figure: Figure, width: Width, *, is_map: bool = False) -> Response:
    """A drawing in one of its sizes."""
    across, up = SIZES[width]
    with _DRAWING:
        figure.set_size_inches(across, up + 0.6 * is_map)
        content = as_svg(figure)
    return Response(content, media_type="image/svg+xml", headers=HEADERS)
