"""The pictures of docs/arena.md, from a snapshot of results."""

from benchmarks._words import facts

COLOURS = {
    "elldelta, ledger": "#00796b",
    "elldelta, certificates": "#4db6ac",
    "common recoding": "#1565c0",
    "Mondrian (anonypyx)": "#6a1b9a",
    "anjana": "#ef6c00",
    "the paper": "#9e9e9e",
}


def draw_arena(snapshot):
    """The pictures by name; none where the arena was not run."""
    rows = [row for row in facts(snapshot, "arena", "arena") if "loss" in row]
    if not rows:
        return {}
    names = [each["name"] for each in facts(snapshot, "arena", "arena_size")[0]["tables"]]
    return {
        "promise": _promise(rows, names),
        "exposure": _exposure(rows, names),
        "drift": _drift(rows, names),
    }


def _panels(names, **shared):
    import matplotlib.pyplot as plt

    n_rows = -(-len(names) // 3)
    figure, axes = plt.subplots(n_rows, 3, figsize=(10.5, 3.2 * n_rows), squeeze=False, **shared)
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis, name in zip(axes.flat, names, strict=False):
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.3)
    return figure, list(axes.flat[: len(names)])


def _named(figure, axes):
    handles = {}
    for axis in axes:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(),
        handles.keys(),
        frameon=False,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    figure.tight_layout()
    return figure


def _promise(rows, names):
    """What is lost where nobody may be below ell for certain; the paper: except with a small probability."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(10.5, 4))
    for offset, (method, colour) in enumerate(COLOURS.items()):
        best = []
        for name in names:
            own = [
                row
                for row in rows
                if (row["table"], row["method"]) == (name, method)
                and row["promise"] != "single"
                and row["drift"] in (0.0, None)
            ]
            best.append(min((row["loss"] for row in own), default=None))
        places = [place + 0.13 * (offset - 2.5) for place, each in enumerate(best) if each]
        found = [each for each in best if each]
        axis.bar(
            places,
            [each[0] for each in found],
            0.12,
            yerr=[each[1] for each in found],
            color=colour,
            label=method,
            error_kw={"linewidth": 1},
        )
    axis.set_xticks(range(len(names)), names)
    axis.set_ylabel("loss")
    axis.grid(axis="y", alpha=0.3)
    return _named(figure, [axis])


def _exposure(rows, names):
    """Every setting of every method: people below ell against what is lost."""
    figure, axes = _panels(names)
    for axis, name in zip(axes, names, strict=True):
        for method, colour in COLOURS.items():
            own = sorted(
                (row for row in rows if (row["table"], row["method"]) == (name, method)
                 and row["drift"] in (0.0, None)),
                key=lambda row: row["loss"][0],
            )  # fmt: skip
            axis.errorbar(
                [row["loss"][0] for row in own],
                [100 * row["below"][0] for row in own],
                xerr=[row["loss"][1] for row in own],
                yerr=[100 * row["below"][1] for row in own],
                marker="o",
                markersize=5,
                linewidth=0.8,
                linestyle=":",
                color=colour,
                label=method,
            )
        axis.set_yscale("symlog", linthresh=0.01)
        axis.set_ylim(bottom=-0.002)
        axis.set_xlim(left=0)
        axis.set_xlabel("loss")
        axis.set_ylabel("people below ℓ, %")
    return _named(figure, axes)


def _drift(rows, names):
    """What a wrong history costs."""
    figure, axes = _panels(names)
    for axis, name in zip(axes, names, strict=True):
        for method, colour in COLOURS.items():
            known = [row for row in rows if (row["table"], row["method"]) == (name, method)]
            known = [row for row in known if row["drift"] is not None]
            for setting in list(dict.fromkeys(row["setting"] for row in known))[:1]:
                own = [row for row in known if row["setting"] == setting]
                axis.errorbar(
                    [row["drift"] for row in own],
                    [row["loss"][0] for row in own],
                    yerr=[row["loss"][1] for row in own],
                    marker="o",
                    markersize=4,
                    linewidth=1.2,
                    color=colour,
                    label=method,
                )
        axis.set_ylim(bottom=0)
        axis.set_xlabel("drift")
        axis.set_ylabel("loss")
    return _named(figure, axes)
