"""The text of docs/far-end.md: the fitted growth, followed to a nation. No number is typed by hand.

What is assumed about the nation is in the constants; everything else is computed from them and the
snapshot.
"""

import numpy as np

from benchmarks._words import NOTICE, facts, grown, number, page, seconds, significant, size, table

N_CODES, N_GENDERS, N_AGES = 20_000, 3, 100
N_VALUES = 1_000
N_RECORDS = 1_000_000_000
COMBINATIONS = N_CODES * N_GENDERS * N_AGES
BYTES_PER_CELL = 24
"""A counted cell in memory: rank, value and number, eight bytes each."""
LABEL_BYTES = 16
N_REGIONS, SAMPLE = 100, 10


def far_end_page(snapshot):
    """The page; steps that were not measured are left out."""
    n_cells = expected_cells()
    parts = [NOTICE, "# A nation", _assumed(n_cells), "## Memory and time", *_steps(snapshot, n_cells)]
    parts += [
        "## What would break first",
        _breaks(snapshot, n_cells),
        "## What we would do",
        _plan(snapshot, n_cells),
    ]
    return page(parts)


def expected_cells(n_records=N_RECORDS):
    """Cells above zero, if diagnoses follow Zipf's law and people spread evenly: the mean, exactly."""
    chances = 1.0 / np.arange(1, N_VALUES + 1)
    chances /= chances.sum()
    per_combination = (1.0 - (1.0 - chances) ** (n_records / COMBINATIONS)).sum()
    return round(COMBINATIONS * per_combination, -6)


def _assumed(n_cells):
    dense = COMBINATIONS * N_VALUES * 8
    return f"""
Take a nation: {number(N_CODES)} postal codes, {N_GENDERS} genders, {N_AGES} ages,
which are {number(COMBINATIONS)} combinations; {number(N_VALUES)} diagnoses; {number(N_RECORDS)} records.
This page follows the growth that was measured ([Performance](performance.md)) far beyond what was measured,
so take its numbers as orders of magnitude.

As a full table of probabilities the model would have {number(COMBINATIONS)} x {number(N_VALUES)} numbers
of eight bytes: {size(dense)}. Most of them are zero. A combination has
{significant(N_RECORDS / COMBINATIONS)} records on average. If diagnoses follow Zipf's law, these show
{significant(n_cells / COMBINATIONS)} different ones, so that about {number(int(n_cells))} cells are above
zero.
"""


def _steps(snapshot, n_cells):
    yield """
Time is processor time on one machine of two cores like the one that was measured. A step is followed with
its fitted exponent, but never with less than 1: what does not depend on size yet will.
"""
    rows = [
        (
            row["step"],
            _measured(row["sizes"][-1], "records", row["seconds"][-1]),
            seconds(_followed(row)),
            _peak(snapshot, row),
        )
        for row in grown(snapshot)
        if row["quantity"] == "records"
    ]
    for shape, spent, memory, last in _sparse(snapshot, n_cells):
        rows.append(
            (
                f"plan, {shape}, sparse",
                _measured(last["cells"], "cells", last["seconds"]),
                seconds(spent),
                size(memory),
            )
        )
    counted = BYTES_PER_CELL * n_cells
    rows.append(("counts in memory, sorted once", f"{BYTES_PER_CELL} bytes a cell", "", size(2 * counted)))
    rows.append(
        (
            "class map for the join",
            f"{LABEL_BYTES} bytes a label and rank",
            "",
            size(4 * LABEL_BYTES * COMBINATIONS),
        )
    )
    yield table(("Step", "measured", "time for the nation", "memory"), rows)
    yield f"""
The steps over records were measured with few combinations. For the nation the GROUP BY has
{number(int(n_cells))} groups instead of thousands: DuckDB then writes partial results to disk, and takes
longer than the line says.
"""


def _measured(n, what, spent):
    return f"{seconds(spent)} for {number(n)} {what}"


def _peak(snapshot, row):
    """The largest peak that was measured: it stays, because the engine moves what is more to the disk."""
    for memory in facts(snapshot, "growth_records", "growth_memory"):
        if memory["step"] == row["step"]:
            return f"{size(max(memory['bytes']))}, and disk"
    return ""


def _followed(row):
    return row["seconds"][-1] * (N_RECORDS / row["sizes"][-1]) ** max(1.0, row["exponent"])


def _sparse(snapshot, n_cells):
    """Time and memory of planning, by straight lines in the logarithms and in the cells."""
    rows = facts(snapshot, "sparse", "sparse models")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        cells = np.array([row["cells"] for row in own], dtype=float)
        slope = np.polyfit(np.log(cells), np.log([row["seconds"] for row in own]), 1)[0]
        per_cell, fixed = np.polyfit(cells, [row["memory_bytes"] for row in own], 1)
        spent = own[-1]["seconds"] * (n_cells / cells[-1]) ** max(1.0, slope)
        yield kind, spent, fixed + per_cell * n_cells, own[-1]


def _breaks(snapshot, n_cells):
    planned = list(_sparse(snapshot, n_cells))
    lines = [
        f"**A full table of probabilities**, {size(COMBINATIONS * N_VALUES * 8)} for the numbers alone, "
        "before anything is computed from them."
    ]
    if planned:
        most = max(planned, key=lambda each: each[2])
        lines.append(
            f"**The memory of planning**, even from cells above zero only: {size(most[2])} for {most[0]}, "
            f"all included: {n_cells / COMBINATIONS / N_VALUES:.0%} of the cells are above zero here."
        )
    lines.append(
        f"**The counts on their way to Python**: {size(BYTES_PER_CELL * n_cells)} as arrays, and as much "
        "again while they are sorted. Records never leave the engine, but the distinct cells do."
    )
    if planned:
        last = planned[-1][3]
        lines.append(
            "**The plan as a file.** Every class carries its witnesses: a plan of a million classes would be "
            f"{size(1_000_000 * last['plan_bytes'] / last['classes'])} of JSON."
        )
    lines.append("**Time** comes last. Everything is close to proportional to records or cells.")
    return "\n".join(f"{place}. {line}" for place, line in enumerate(lines, start=1))


def _plan(snapshot, n_cells):
    sampled = expected_cells(N_RECORDS // SAMPLE)
    needed = [memory for _, _, memory, _ in _sparse(snapshot, sampled)]
    memory = f" and {size(max(needed))} to plan" if needed else ""
    per_region = n_cells / N_REGIONS
    return f"""
- **Count on a cluster.** `--engine spark` counts where the records are; only the cells come back.
- **Estimate from a sample.** One record in {SAMPLE} gives {number(int(sampled))} cells{memory}. A certificate
  does not depend on the model.
- **[Plan by region](performance.md#plans-by-region).** {N_REGIONS} regions have {number(int(per_region))}
  cells each.
- **Generalize first**, to three digits of the postal code or ages in steps of five: most combinations of a
  nation are too rare to stay whole in any plan.
"""
