"""The report of an audit: one page for people, made from the same document that `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elldelta.pages.charts import draw_exposure_curve, draw_histogram
from elldelta.pages.page import inline_svg, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def render_audit(document: Mapping[str, Any]) -> str:
    """One self-contained HTML page: no script, no network, opens from the file system, prints well.

    Args:
        document: What `elldelta.audit.document.audit_document` made, in full or for the public.
    """
    ell, bars = document["ell"], document["histogram"]
    return render(
        "audit.html",
        audit=document,
        curve=inline_svg(draw_exposure_curve(document["curve"], ell), "curve"),
        histogram=inline_svg(draw_histogram(bars, ell), "histogram") if bars else None,
        curve_words=curve_words(document["curve"], ell),
        histogram_words=histogram_words(bars, ell),
    )


def curve_words(points: Sequence[Mapping[str, Any]], ell: int) -> str:
    """What the curve shows, for those who do not see it."""
    first, last = points[0], points[-1]
    return (
        f"Line chart. In the worst group, the share of linked records with fewer than {ell} values left goes "
        f"from {first['share_below_max']:.0%} for one release to {last['share_below_max']:.0%} for "
        f"{last['releases']}; the share with one value left from {first['share_exposed_max']:.0%} to "
        f"{last['share_exposed_max']:.0%}. The table below has every number."
    )


def histogram_words(bars: Sequence[Mapping[str, Any]], ell: int) -> str:
    """What the histogram shows, for those who do not see it."""
    if not bars:
        return ""
    below = sum(bar["records"] for bar in bars if bar["diversity"] < ell)
    total = sum(bar["records"] for bar in bars)
    return (
        f"Bar chart: linked records by the number of sensitive values left, from {bars[0]['diversity']} to "
        f"{bars[-1]['diversity']}. About {below / max(total, 1):.0%} lie below {ell}. "
        "The table below has every number."
    )
