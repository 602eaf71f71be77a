"""The pictures of docs/performance.md, from a snapshot of results; the arena has its own beside them."""

from benchmarks._arena_pictures import draw_arena
from benchmarks._words import facts, grown, number

COLOURS = {"elldelta": "#00796b", "pycanon": "#c62828", "anjana": "#ef6c00", "anonypyx": "#6a1b9a"}
KINDS = {"paper": "#9e9e9e", "probabilistic": "#4db6ac", "certified": "#00796b"}
OURS = {"verify", "plan and release", "release", "audit"}


def draw_all(snapshot, docs, suffix="svg"):
    """Draws what was measured; pictures of what was not are left out."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update(
        {"svg.hashsalt": "elldelta", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    drawn = {
        docs / "performance" / "peers": _peers(snapshot),
        docs / "performance" / "linking": _linking(snapshot),
        docs / "performance" / "growth": _growth(snapshot),
        docs / "performance" / "quality": _quality(snapshot),
        **{docs / "arena" / name: figure for name, figure in draw_arena(snapshot).items()},
    }
    for path, figure in drawn.items():
        if figure is not None:
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(path.with_suffix(f".{suffix}"), metadata=metadata, bbox_inches="tight")


def _peers(snapshot):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axis, topic, title in zip(
        axes, ("anonymizing", "checking"), ("Anonymizing", "Checking"), strict=True
    ):
        rows = [row for row in facts(snapshot, topic, topic) if not row.get("fine")]
        if not rows:
            return None
        for tool in dict.fromkeys(row["tool"] for row in rows):
            own = [row for row in rows if row["tool"] == tool]
            done = [row for row in own if "seconds" in row]
            ended = [row for row in own if "at_least_seconds" in row]
            name = f"elldelta: {tool}" if tool in OURS else tool
            style = {"color": COLOURS["elldelta" if tool in OURS else tool], "label": name}
            style["linestyle"] = "--" if tool == "plan and release" else "-"
            axis.plot([row["records"] for row in done], [row["seconds"] for row in done], marker="o", **style)
            for row in ended:
                axis.plot(
                    row["records"], row["at_least_seconds"], marker="^", color=style["color"], markersize=9
                )
                axis.annotate(
                    "ended",
                    (row["records"], row["at_least_seconds"]),
                    xytext=(6, 4),
                    textcoords="offset points",
                )
        axis.set(xscale="log", yscale="log", xlabel="records", title=title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    axes[0].set_ylabel("processor time, seconds")
    return figure


def _linking(snapshot):
    import matplotlib.pyplot as plt

    rows = [row for row in facts(snapshot, "linking", "linking") if "problem" not in row]
    if not rows:
        return None
    figure, axis = plt.subplots(figsize=(7, 0.7 + 0.7 * len(rows)))
    for place, row in enumerate(reversed(rows)):
        one, few = row["one_value"], row["below_ell"] - row["one_value"]
        left = 0.0
        for width, colour in ((one, "#b71c1c"), (few, "#ef9a9a"), (1 - one - few, "#b2dfdb")):
            axis.barh(place, width, left=left, color=colour, height=0.6)
            left += width
    axis.set_yticks(range(len(rows)), [row["tool"] for row in reversed(rows)])
    axis.set(xlim=(0, 1), xlabel="share of the people who are in both releases")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    names = ("one value left", "fewer than asked for", "as promised")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in ("#b71c1c", "#ef9a9a", "#b2dfdb")]
    figure.legend(handles, names, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _growth(snapshot):
    import matplotlib.pyplot as plt

    rows = grown(snapshot)
    if not rows:
        return None
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    figure, axes = plt.subplots(3, 2, figsize=(10, 13))
    for axis, quantity in zip(axes.flat, quantities, strict=False):
        own = [row for row in rows if row["quantity"] == quantity]
        for row in own:
            label = f"{row['step']} ({row['exponent']:.2f})"
            axis.plot(row["sizes"], row["seconds"], marker="o", label=label)
        axis.set(xscale="log", yscale="log", xlabel=quantity, ylabel="processor time, seconds")
        axis.set_xticks(own[0]["sizes"], [number(tick) for tick in own[0]["sizes"]], fontsize=8)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    for axis in axes.flat[len(quantities) :]:
        axis.remove()
    figure.tight_layout()
    return figure


def _quality(snapshot):
    import matplotlib.pyplot as plt

    rows = facts(snapshot, "quality", "quality")
    if not rows:
        return None
    groups = list(dict.fromkeys(row["population"] for row in rows))
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4))
    for axis, measure, title in zip(axes, ("classes", "loss"), ("Classes", "Information loss"), strict=True):
        for offset, (kind, colour) in zip((-0.27, 0.0, 0.27), KINDS.items(), strict=True):
            heights = [
                next(
                    (row[measure] or 0 for row in rows if (row["population"], row["kind"]) == (group, kind)),
                    0,
                )
                for group in groups
            ]
            axis.bar(
                [place + offset for place in range(len(groups))], heights, 0.25, color=colour, label=kind
            )
        axis.set_xticks(range(len(groups)), groups, rotation=35, ha="right", fontsize=8)
        axis.set_title(title)
    axes[0].legend(frameon=False)
    figure.tight_layout()
    return figure
