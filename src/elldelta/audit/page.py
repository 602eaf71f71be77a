"""The report of an audit: one page for people, made from the same document that `--json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elldelta.pages.charts import draw_histogram
from elldelta.pages.page import inline_svg, render
from elldelta.pages.pictures import COLOURS, DASHES, INK, new_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure


@dataclass(frozen=True)
class _Bar:
    diversity: int
    records: int


def render_audit(document: Mapping[str, Any]) -> str:
    """One self-contained HTML page: no script, no network, opens from the file system, prints well.

    Args:
        document: What `elldelta.audit.document.audit_document` made, in full or for the public.
    """
    ell = document["ell"]
    bars = [_Bar(bar["diversity"], bar["records"]) for bar in document["histogram"]]
    return render(
        "audit.html",
        audit=document,
        curve=inline_svg(draw_exposure_curve(document["curve"], ell), "curve"),
        histogram=inline_svg(draw_histogram(bars, ell), "histogram") if bars else None,
        curve_words=curve_words(document["curve"], ell),
        histogram_words=histogram_words(document["histogram"], ell),
    )


def draw_exposure_curve(points: Sequence[Mapping[str, Any]], ell: int) -> Figure:
    """Shares of the linked records below ell and at one value, against the number of linked releases."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure = new_figure()
    axes = figure.add_subplot()
    places = [point["releases"] for point in points]
    for index, (key, label) in enumerate(
        (
            ("share_exposed_max", "exactly one value left, worst group"),
            ("share_below_max", f"fewer than ℓ = {ell} left, worst group"),
            ("share_below_mean", f"fewer than ℓ = {ell} left, mean of groups"),
        )
    ):
        axes.plot(
            places,
            [point[key] for point in points],
            color=COLOURS[(1, 0, 2)[index]],
            linestyle=DASHES[index],
            marker="osD"[index],
            markersize=5,
            linewidth=1.8,
            label=label,
            clip_on=False,
        )
    axes.set(
        xlabel="releases that are linked",
        ylabel="share of the linked records",
        ylim=(0, 1),
        xlim=(0.8, max(places) + 0.2),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.grid(visible=True, color="#d9dde2", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


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
