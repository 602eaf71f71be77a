"""Pictures: how they look, how they become bytes, and those of audits, frontiers and models."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

from elldelta.errors import FileError, counted
from elldelta.files import AtomicFiles, check_writable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

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


def draw_histogram(bars: Sequence[Mapping[str, int]], ell: int) -> Figure:
    """Linked records by the number of values left; bars below ell stand out, also in grey.

    Args:
        bars: The histogram of an audit's document: keys `diversity` and `records`.
        ell: The number of values that should be left.
    """
    figure, axes = _canvas()
    _bars(axes, {bar["diversity"]: bar["records"] for bar in bars}, ell)
    axes.set(xlabel="sensitive values left", ylabel="records")
    _finish(axes, "How many values are left")
    return figure


def draw_exposure_curve(points: Sequence[Mapping[str, Any]], ell: int) -> Figure:
    """Shares of the linked records below ell and at one value, against the number of linked releases."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure, axes = _canvas()
    places = [point["releases"] for point in points]
    for index, (key, colour, label) in enumerate(
        (
            ("share_exposed_max", COLOURS[1], "exactly one value left, worst group"),
            ("share_below_max", COLOURS[0], f"fewer than ℓ = {ell} left, worst group"),
            ("share_below_mean", COLOURS[2], f"fewer than ℓ = {ell} left, mean of groups"),
        )
    ):
        drawn = _line(axes, places, [point[key] for point in points], index, label, colour)
        drawn.set(markersize=5, clip_on=False)
    axes.set(xlabel="releases that are linked", ylabel="share of the linked records")
    axes.set(ylim=(0, 1), xlim=(0.8, max(places) + 0.2))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _finish(axes, "", legend="upper left")
    return figure


def curve_words(points: Sequence[Mapping[str, Any]], ell: int) -> str:
    """What the curve shows, for those who do not see it."""
    first, last = points[0], points[-1]
    return (
        "Line chart. In the worst group, the share of linked records with fewer than "
        f"{counted(ell, 'value')} left goes "
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
        f"Bar chart: records by the number of sensitive values left, from {bars[0]['diversity']} to "
        f"{bars[-1]['diversity']}. {below:,} of {total:,} lie below {ell}."
    )


def draw_patients(patients_by_values: Mapping[int, int], ell: int, highest: int) -> Figure:
    """Patients by the number of diseases left, on a common axis up to `highest`."""
    figure, axes = _canvas(height=3.4)
    _bars(axes, patients_by_values, ell)
    axes.set(xlabel="diseases left for the patient", ylabel="patients", xlim=(0.4, highest + 0.6))
    _finish(axes, "")
    return figure


def draw_before_after(
    before: Mapping[int, int], after: Mapping[int, int], ell: int, titles: tuple[str, str]
) -> Figure:
    """The same patients before and after, side by side on one scale."""
    figure = new_figure(width=9.0, height=3.4)
    highest = max(*before, *after)
    for panel, (heights, title) in enumerate(zip((before, after), titles, strict=True)):
        axes = figure.add_subplot(1, 2, panel + 1)
        _bars(axes, heights, ell)
        axes.set(xlabel="diseases left for the patient", ylabel="patients", xlim=(0.4, highest + 0.6))
        _finish(axes, title)
    return figure


def draw_largest_shares(largest: Mapping[str, Sequence[float]]) -> Figure:
    """For how many people one value has how large a share of the records that may be theirs.

    Args:
        largest: By what is told in the legend, the share of the most frequent value of each person.
    """
    from matplotlib.ticker import PercentFormatter

    figure, axes = _canvas(height=3.6)
    for index, (label, numbers) in enumerate(largest.items()):
        rising = sorted(numbers)
        across = [0.0, *(number for number in rising for _ in range(2)), 1.0]
        up = [
            1.0,
            *(1.0 - (place + end) / len(rising) for place in range(len(rising)) for end in (0, 1)),
            0.0,
        ]
        style = {"color": COLOURS[(2, 1, 0)[index % 3]], "linestyle": DASHES[index % len(DASHES)]}
        axes.plot(across, up, linewidth=2.0, label=label, **style)
    axes.set(xlabel="share of the most frequent value", ylabel="share of the people", xlim=(0, 1.01))
    axes.set(ylim=(0, 1.02))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _finish(axes, "How much one value stands out")
    return figure


def _bars(axes: Axes, heights: Mapping[int, int], ell: int) -> None:
    from matplotlib.ticker import MaxNLocator

    for is_below, colour, hatch, label in (
        (True, COLOURS[1], "///", f"fewer than ℓ = {ell}"),
        (False, COLOURS[0], "", f"at least ℓ = {ell}"),
    ):
        group = {left: number for left, number in heights.items() if (left < ell) == is_below}
        if group:
            axes.bar(
                list(group), list(group.values()), color=colour, hatch=hatch, edgecolor="white", label=label
            )
    axes.axvline(ell - 0.5, color=INK, linewidth=1.0, linestyle=DASHES[1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_frontier(records: Sequence[int], classes: Mapping[str, Sequence[int | None]], title: str) -> Figure:
    """Classes against records, one curve per bound."""
    figure, axes = _canvas()
    for index, (name, numbers) in enumerate(classes.items()):
        points = [(x, y) for x, y in zip(records, numbers, strict=True) if y is not None]
        _line(axes, [x for x, _ in points], [y for _, y in points], index, name, COLOURS[index])
    axes.set(xscale="log", yscale="log", xlabel="records of each release", ylabel="classes")
    if all(number is None for numbers in classes.values() for number in numbers):
        # Without a point a logarithmic axis has no range of its own, and no ticks.
        axes.set(xlim=(min(records) / 2, max(records) * 2), ylim=(1, 10))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.set_minor_formatter(_plain_between_decades())
    _finish(axes, title)
    return figure


def draw_marginal(names: Sequence[str], probabilities: Sequence[float], title: str) -> Figure:
    """The sensitive values by falling probability; at most forty of them by name."""
    figure, axes = _canvas()
    order = sorted(range(len(names)), key=lambda index: -probabilities[index])
    axes.bar(range(len(order)), [probabilities[index] for index in order], color=COLOURS[0])
    if len(order) <= 40:
        axes.set_xticks(range(len(order)), [_plain(names[index]) for index in order], rotation=60, ha="right")
    else:
        axes.set_xlabel("sensitive values, most frequent first")
    axes.set_ylabel("share of the records")
    _finish(axes, title)
    return figure


def draw_drift(names: Sequence[str], distances: Sequence[float], by_chance: Sequence[float]) -> Figure:
    """How far columns are from the past, beside what chance explains; what is more stands out."""
    figure, axes = _canvas(height=3.6)
    places = range(len(names))
    colours = [COLOURS[1 if far > usual else 0] for far, usual in zip(distances, by_chance, strict=True)]
    axes.bar(places, distances, color=colours, width=0.6)
    axes.hlines(by_chance, [place - 0.4 for place in places], [place + 0.4 for place in places], color=INK)
    axes.set_xticks(places, [_plain(name) for name in names], rotation=20, ha="right", fontsize=8)
    axes.set(ylabel="distance from the past (total variation)")
    _finish(axes, "What has changed (line: by chance alone)")
    return figure


def draw_class_map(
    class_of: NDArray[np.int64],
    shares: NDArray[np.float64],
    names: tuple[str, str],
    labels: tuple[Sequence[str], Sequence[str]],
    title: str,
) -> Figure:
    """Classes over two attributes: lines where one class ends, the darker the more of its records.

    Args:
        class_of: The class of every pair of positions, vertical x horizontal.
        shares: The share of the records in that class, spread evenly over its pairs.
        names: The two attributes, horizontal first.
        labels: What every position is called, for both attributes.
        title: What is drawn.
    """
    import numpy as np
    from matplotlib.collections import LineCollection

    figure, axes = _canvas(height=4.8)
    axes.imshow(np.sqrt(shares), origin="lower", aspect="auto", cmap="Blues", interpolation="nearest")
    rows, columns = np.nonzero(class_of[:, 1:] != class_of[:, :-1])
    upright = [((x + 0.5, y - 0.5), (x + 0.5, y + 0.5)) for y, x in zip(rows, columns, strict=True)]
    rows, columns = np.nonzero(class_of[1:] != class_of[:-1])
    level = [((x - 0.5, y + 0.5), (x + 0.5, y + 0.5)) for y, x in zip(rows, columns, strict=True)]
    axes.add_collection(LineCollection(upright + level, colors=INK, linewidths=0.9))
    axes.set(xlabel=_plain(names[0]), ylabel=_plain(names[1]))
    for axis, texts in ((axes.xaxis, labels[0]), (axes.yaxis, labels[1])):
        step = max(1, len(texts) // 12)
        axis.set_ticks(
            range(0, len(texts), step), [_plain(texts[place]) for place in range(0, len(texts), step)]
        )
        axis.set_tick_params(labelsize=8)
    axes.set_title(_plain(title), loc="left", fontsize=9, fontweight="bold")
    return figure


def check_picture(path: Path | None, *, overwrite: bool) -> None:
    """Refuses a picture that could not be written, before anything long runs; None is no picture."""
    if path is None:
        return
    if path.suffix.lower() not in {".png", ".svg"}:
        raise FileError(
            f"The format of {path} is not known.",
            found="Its name ends neither in .png nor in .svg.",
            remedy="Use one of these two.",
        )
    check_writable(path, overwrite=overwrite)


def write_picture(figure: Figure, path: Path, *, overwrite: bool = False) -> None:
    """Writes a picture; the end of the name says whether as PNG or SVG."""
    check_picture(path, overwrite=overwrite)
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_bytes((as_png if path.suffix.lower() == ".png" else as_svg)(figure))


def _canvas(height: float = 4.2) -> tuple[Figure, Any]:
    figure = new_figure(height=height)
    return figure, figure.add_subplot()


def _line(
    axes: Axes, across: Sequence[float], up: Sequence[float], index: int, label: str, colour: str
) -> Any:  # noqa: ANN401 (the library is imported late)
    """A line with dashes and marks of its own, so that it is told apart in grey, too."""
    [drawn] = axes.plot(
        across,
        up,
        color=colour,
        linestyle=DASHES[index],
        marker="osD"[index % 3],
        markersize=4,
        linewidth=1.8,
        label=label,
    )
    return drawn


def _plain_between_decades() -> Any:  # noqa: ANN401 (the library is imported late)
    """Names marks between powers of ten where there are few of these, as numbers and not as powers."""
    from matplotlib.ticker import LogFormatter

    class Between(LogFormatter):
        def __call__(self, value: float, position: int | None = None) -> str:
            return f"{value:,.0f}" if super().__call__(value, position) else ""

    return Between(labelOnlyBase=False, minor_thresholds=(1, 0.4))


def _plain(text: str) -> str:
    """A text to be drawn as it is: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def _finish(axes: Axes, title: str, *, legend: Literal["best", "upper left"] = "best") -> None:
    axes.set_title(_plain(title), loc="left", fontsize=10, fontweight="bold")
    axes.yaxis.grid(visible=True, color="#d9dde2", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9, loc=legend)
