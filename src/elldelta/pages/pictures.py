"""How our pictures look, and how they become bytes: SVG and PNG, the same from run to run."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1b1f24"
"""Text and axes."""

COLOURS = ("#0b3c5d", "#d1495b", "#2e8b57", "#8d6a9f")
"""Told apart by people who do not see red and green, and, with `DASHES`, in grey print."""

DASHES = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))


def new_figure(width: float = 6.4, height: float = 4.2) -> Figure:
    """An empty figure that belongs to no window system and leaves no global state behind."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def as_svg(figure: Figure) -> bytes:
    """The figure as SVG, with text as text and without a date, so that it is reproducible."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "elldelta"}):
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": "elldelta"})
    return stream.getvalue()


def as_png(figure: Figure) -> bytes:
    """The figure as PNG."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=150, metadata={"Software": "elldelta"})
    return stream.getvalue()
