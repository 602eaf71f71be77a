"""Draws the paper's four figures from their series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.pages.charts import COLOURS, DASHES, as_png, as_svg, new_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from elldelta.plan.paper_series import SeriesPoint


def draw(figure: int, series: Sequence[SeriesPoint]) -> dict[str, bytes]:
    """Draws one of the figures 1 to 4; returns its bytes by file suffix."""
    from matplotlib.ticker import LogLocator

    canvas = new_figure()
    axes = canvas.add_subplot()
    if figure in (1, 3):
        _two_ells(axes, series, lambda point: ("β", point.beta), lambda point: point.delta)
        axes.set(xlabel="failure probability of one release, δ", xscale="log")
        name = "uniform" if figure == 1 else "geometric"
        _title(axes, f"Records to wait for against δ ({name} sensitive values)")
    elif figure == 2:
        _two_ells(axes, series, lambda point: ("δ", point.delta), lambda point: point.p)
        axes.set(xlabel="p, the probability that ℓ cells of every class reach", xscale="log", yscale="log")
        _title(axes, "Records to wait for against p (uniform sensitive values)")
    else:
        _against_ell(axes, series)
        axes.set(xlabel="ℓ, the values that every class must show", yscale="log")
        _title(axes, "Records to wait for against ℓ (geometric sensitive values)")
    axes.set_ylabel("records to wait for, N")
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_minor_formatter(lambda _value, _: "")
    axes.grid(visible=True, which="major", color="#d9dde2", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, handlelength=3.6)
    return {"svg": as_svg(canvas), "png": as_png(canvas)}


def _two_ells(
    axes: Axes,
    series: Sequence[SeriesPoint],
    group: Callable[[SeriesPoint], tuple[str, float]],
    x: Callable[[SeriesPoint], float],
) -> None:
    """Curves for two values of ell: a wide pale line under a thin dashed one, for they may coincide."""
    for index, (name, number) in enumerate(sorted({group(point) for point in series})):
        for ell, width, alpha, dash in ((10, 5.0, 0.35, DASHES[0]), (30, 1.6, 1.0, DASHES[1])):
            points = [point for point in series if point.ell == ell and group(point)[1] == number]
            axes.plot(
                [x(point) for point in points],
                [point.records for point in points],
                color=COLOURS[index],
                linewidth=width,
                alpha=alpha,
                linestyle=dash,
                label=f"{name} = {number:g}, ℓ = {ell}",
            )


def _against_ell(axes: Axes, series: Sequence[SeriesPoint]) -> None:
    for index, beta in enumerate(sorted({point.beta for point in series})):
        for dash, delta in enumerate(sorted({point.delta for point in series})):
            points = [point for point in series if (point.beta, point.delta) == (beta, delta)]
            axes.plot(
                [point.ell for point in points],
                [point.records for point in points],
                color=COLOURS[index],
                linewidth=1.8,
                linestyle=DASHES[dash],
                label=f"β = {beta:g}, δ = {delta:g}",
            )


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10, fontweight="bold")
