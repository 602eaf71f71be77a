"""The text of docs/performance.md, from a snapshot of results."""

from benchmarks._words import NOTICE, facts, grown, number, page, seconds, share, significant, size, table

FINE = "120,000 combinations"
UNCHANGED = "only checks"
LIMITS = {
    "tables": "Tables of records, beside DuckDB's own COPY and GROUP BY",
    "audit": "Audits by labels alone, beside the bare GROUP BY of all releases",
    "greedy": "The paper's planner, beside one `numpy.cumsum` of the same array",
    "boxes": "Boxes, beside one `numpy.cumsum` of the same array",
    "sparse": "Sparse models: the whole command, beside one `numpy.bincount` of the cells",
    "living": "A table that is published again, beside a plain release that counts persons",
    "spark": "Spark on two cores (`local[2]`), beside its own GROUP BY and write of the same table",
    "starting": "Whole commands of a new installation, in seconds of processor time",
}
CONTINENT = 10**9
"""People, and at most as many combinations with a value that occur."""
ONE_PROCESS = "one process"
WHY = {
    "boxes": "A cumulative sum looks at every number once, a search for boxes at every attribute and cut.",
    "certified": "Where classes move, half of the values that a plan names have five past records in their "
    "class, and it names none with fewer: that limits a plan for a ledger as much as one for certificates.",
    "server_load": "The empty route touches no database. Ours looks up who asks and what they may do, and "
    "reads or writes a row.",
    "tables: audit": "An audit counts, as GROUP BY does. Then it makes both files again from the counts and "
    "compares every byte, so that no order of rows, and nothing beside them, tells of people.",
    "tables: release": "Nearly half of what comes after counting is the digest of the content, which spells "
    "every cell of every class.",
}
"""Why a benchmark, or a row of it, misses its limit, where that is known."""
LEAST_COMPILING, LEAST_BYTES = 0.5, 2**24
"""Functions that compile faster than so many seconds, and packages that are smaller, are added up."""
SLOWEST = 3
"""So many commands are named; of the others it is said how long they take at most."""
NEEDED = {
    "llvmlite": "compiles the search for classes, for numba",
    "numba": "compiles the search for classes",
    "pyarrow": "tables in memory, Parquet",
    "scipy": "chances and their tails, connected groups of releases",
    "numpy": "all arithmetic",
    "duckdb": "counts files without loading them",
    "matplotlib": "pictures of pages",
    "fonttools": "fonts of pictures, for matplotlib",
    "pillow": "PNG, for matplotlib",
}
BUSY = 0.5
"""Programs that waited for each core when a benchmark began, from which on the machine was busy."""
TOOLS = {
    "verify": "**`elldelta verify`**",
    "plan and release": "**elldelta**: schema, model, plan, release",
    "release": "**elldelta**: release, with the plan at hand",
    "audit": "**elldelta**: audit",
    "elldelta": "**elldelta**",
}


def performance_page(snapshot):
    """The page, in plain words; a part that was not measured is left out."""
    parts = [NOTICE, "# Performance", _introduction(snapshot), "## In short", _short(snapshot)]
    parts += ["## What is not reached", _missed(snapshot)]
    parts += ["## Beside what the machine must do anyway", *_limits(snapshot)]
    if "anonymizing" in snapshot:
        parts += ["## Beside other tools", *_peers(snapshot)]
    if "growth" in snapshot:
        parts += ["## How it grows", *_growth(snapshot)]
    if facts(snapshot, "regions", "plans by region"):
        parts += ["## Plans by region", *_regions(snapshot)]
    if facts(snapshot, "quality", "quality"):
        parts += ["## What plans keep", *_quality(snapshot)]
    if "starting" in snapshot:
        parts += ["## Starting", *_starting(snapshot)]
    parts += ["## Measure it yourself", _again()]
    return page(parts)


def _introduction(snapshot):
    first = next(iter(snapshot.values()))
    machine = first["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return f"""
All numbers on this page were measured by `make bench`; none is typed by hand. They come from one machine:
{machine["cores"]} cores, {machine["memory_gib"]} GiB of memory,
{machine["system"]} on {machine["processor"]}, Python {machine["python"]}, {packages}. Times differ
between machines; ratios much less, because both sides of a ratio were measured in the same run. These are
single measurements, not a study with error bars. {_runs(snapshot)}
Comparisons with planners' limits, with other tools, of updates, and growth use processor time, of all
threads together, which other work disturbs little. Comparisons with COPY, GROUP BY and Spark
use the time that passes, in turns, and the best of a few.
"""


def _runs(snapshot):
    """Which runs gave the numbers, and whether the machine was busy."""
    runs = [result["run"] for name, result in snapshot.items() if name != "arena"]
    first, *later = sorted({run["began"] for run in runs})
    hours = seconds(sum(run["passed_seconds"] for run in runs))
    origin = f"All come from one complete run of `make bench` on {first} UTC, which took {hours}."
    if later:
        origin = (
            f"They come from {len(later) + 1} runs from {first} to {later[-1]} UTC, which took {hours}; of "
            "each benchmark the latest one counts."
        )
    cores = next(iter(snapshot.values()))["machine"]["cores"]
    load = sum(run["load"] for run in runs) / len(runs) - 1  # the benchmarks themselves are one of them
    if load > BUSY * cores:
        origin += (
            f" **The machine was busy**: besides the benchmarks {significant(load)} programs wanted its "
            f"{cores} cores on average, so that times that pass are too long."
        )
    return origin


def _short(snapshot):
    """One line per question; the tables below have the rest."""
    lines = [
        f"- {what}: {significant(ratio)} times as long."
        for what, ratio in _ratios(snapshot, "tables")
        if what.startswith("release") and "memory" not in what
    ]
    checked = [row for row in facts(snapshot, "checking", "checking") if row["tool"] == "pycanon"]
    lines += [
        f"- {_faster('Verifying', partner, row, 'pycanon')}"
        for row in checked[-1:]
        if (partner := _partner(snapshot, "checking", row, "verify"))
    ]
    for row in facts(snapshot, "anonymizing", "anonymizing"):
        if row["tool"] == "anjana" and row.get("fine"):
            lines += [f"- {line}" for line in _anonymized(snapshot, row)]
    linked = [
        f"{share(row['below_ell'])} by {row['tool']}"
        for row in facts(snapshot, "linking", "linking")
        if "problem" not in row
    ]
    if linked:
        lines.append(
            "- Two tables anonymized with ℓ = 5, then linked: people in both who are left with fewer than "
            f"five values, {', '.join(linked)}."
        )
    return "\n".join(lines)


def _missed(snapshot):
    """What exceeds its limit: a list where the next section has no row of it, a number where it has."""
    found = [
        (name, row)
        for name, result in snapshot.items()
        for row in result["ratios"]
        if row["allowed"] is not None and row["ratio"] > row["allowed"]
    ]
    if not found:
        return "Every ratio was within what is allowed. " + _unasked(snapshot)
    rows = [
        (f"{name}: {row['compared']}", f"{row['ratio']:.3g}", f"{row['allowed']:.3g}")
        for name, row in found
        if name not in LIMITS
    ]
    n_marked = len(found) - len(rows)
    marked = (
        f"{n_marked} of them {'is' if n_marked == 1 else 'are'} marked in the next section; the others are:"
    )
    reason = (
        f"{len(found)} ratios exceed what the project asks for, and `make bench` ends with an error. {marked}"
    )
    missed = [f"{name}: {row['compared']}" for name, row in found]
    known = [f"- {name}: {why}" for name, why in WHY.items() if any(each.startswith(name) for each in missed)]
    return "\n\n".join((reason, table(("Compared", "ratio", "at most"), rows), "\n".join(known)))


def _unasked(snapshot):
    """What has no limit or was not measured, so that nobody takes it for reached."""
    unlimited = "No limit is set for anonymizing with planning included, nor where another tool only checks."
    steps = {(row["step"], row["records"]) for row in facts(snapshot, "tables", "tables")}
    if ("release", 100_000_000) not in steps:
        unlimited += " Releasing a hundred million records was not compared with COPY here."
    return unlimited


def _anonymized(snapshot, row):
    """With the plan at hand, and with planning: how we stand beside one tool on one table."""
    for given, tool in (("With the plan at hand", "release"), ("With planning", "plan and release")):
        own = _partner(snapshot, "anonymizing", row, tool)
        yield _faster(f"{given}, releasing", own, row, row["tool"])


def _faster(doing, own, peer, tool):
    records = number(peer["records"]) + " records" + (f" ({FINE})" if peer.get("fine") else "")
    if "seconds" in peer:
        ratio = significant(peer["seconds"] / own["seconds"])
        only = f", which {UNCHANGED}" if peer.get("unchanged") else ""
        return f"{doing} {records}: {ratio} times as fast as {tool}{only}."
    if "at_least_seconds" in peer:
        ratio = significant(peer["at_least_seconds"] / own["seconds"])
        return f"{doing} {records}: at least {ratio} times as fast as {tool}, which {peer['problem']}."
    return f"{doing} {records}: {tool} {peer['problem']}."


def _partner(snapshot, topic, row, tool):
    """Our own row on the same table."""
    keys = [key for key in ("records", "fine", "people") if key in row]
    return next(
        (
            other
            for other in facts(snapshot, topic, topic)
            if other["tool"] == tool and all(other[key] == row[key] for key in keys)
        ),
        None,
    )


def _ratios(snapshot, benchmark):
    return [(row["compared"], row["ratio"]) for row in snapshot.get(benchmark, {}).get("ratios", [])]


def _limits(snapshot):
    yield """
A release cannot be faster than copying its table, a count not faster than a bare GROUP BY, a plan not
faster than adding up the numbers that it looks at once. Ratios are our time divided by that; memory is
the peak of the whole process.
"""
    rows = []
    for benchmark, title in LIMITS.items():
        found = snapshot.get(benchmark, {}).get("ratios", [])
        if found:
            rows.append((f"*{title}*", "", ""))
        for row in found:
            allowed = "" if row["allowed"] is None else f"{row['allowed']:g}"
            if row["allowed"] is not None and row["ratio"] > row["allowed"]:
                allowed += ", **missed**"
            rows.append((row["compared"], significant(row["ratio"]), allowed))
    yield table(("Compared", "ratio", "at most"), rows)


def _peers(snapshot):
    versions = facts(snapshot, "anonymizing", "peer_versions")[0]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    budget = facts(snapshot, "anonymizing", "peer_budget")[0]["seconds"]
    yield f"""
The tools that people find on PyPI for the same purpose: {listed}. Every tool gets the same tables: postal
code, gender and age with 3000 combinations, 50 diseases, made from a seed. Their clock runs only while they
work on a table that is in memory already; ours includes reading the file and writing the result, and adds up
both cores. A tool may use half of the memory of the machine, and
{budget} seconds of processor time.
"""
    yield "![Processor time of anonymizing and of checking, by tool and records](performance/peers.svg)"
    yield "### Checking a table\n\nk-anonymity and ℓ-diversity of one of our releases. Both agree."
    yield _work_table(snapshot, "checking")
    yield """
### Anonymizing a table

ℓ = 5. anjana gets hierarchies of four to five levels and may leave out 1 % of the records. anonypyx makes
Mondrian classes and takes postal codes and ages as numbers. Our plan is for two releases that may be linked.
With 3000 combinations a million records are diverse as they are: anjana looks at them once and returns them
unchanged.
"""
    yield _work_table(snapshot, "anonymizing")
    if facts(snapshot, "linking", "attacking"):
        yield """
### Attacking releases

What is left for everybody whom the adversary knows, after linking two releases of 30,000 records that
anonypyx made. Its own intersection attack was timed with 1000 people and needs the same time for each.
Both find the same sets.
"""
        yield _work_table(snapshot, "attacking", "people")
    yield """
### What is left after linking

Two owners with 30,000 records each share 1000 people. Each tool anonymizes both tables with ℓ = 5, and
`elldelta audit` links the two releases. The information loss is that of a single release: 0 shows
everything, 1 nothing.
"""
    yield "![Values left for people in both releases, by tool](performance/linking.svg)"
    yield _linking_table(snapshot)
    yield """
Levels of a hierarchy that are the same for a whole column often come out the same for both tables, which is
why linking does little harm there; nothing promises that they do. [The arena](arena.md) measures this on
six real tables.
"""


def _work_table(snapshot, topic, quantity="records"):
    """Processor time and peak memory: a row per tool, a column per table."""
    cells = {}
    for row in facts(snapshot, "linking" if topic == "attacking" else topic, topic):
        what = f"{number(row[quantity])} {quantity}" + (f", {FINE}" if row.get("fine") else "")
        used = f"{seconds(row['seconds'])}, {size(row['peak_bytes'])}" if "seconds" in row else row["problem"]
        tool = cells.setdefault(TOOLS.get(row["tool"], row["tool"]), {})
        tool[what] = f"{used}, {UNCHANGED}" if row.get("unchanged") else used
    columns = list(dict.fromkeys(what for tool in cells.values() for what in tool))
    rows = [(name, *(tool.get(what, "") for what in columns)) for name, tool in cells.items()]
    return table(("Processor time, peak memory", *columns), rows)


def _linking_table(snapshot):
    rows = []
    for row in facts(snapshot, "linking", "linking"):
        tool = TOOLS.get(row["tool"], row["tool"])
        if "problem" in row:
            rows.append((tool, row["problem"], "", "", "", "", ""))
            continue
        rows.append(
            (
                tool,
                number(row["classes"]),
                f"{row['loss']:.3f}",
                share(row["left_out"]),
                share(row["below_ell"]),
                share(row["one_value"]),
                row["fewest"],
            )
        )
    return table(
        ("Tool", "classes", "loss", "left out", "people below ℓ", "people with one value", "fewest values"),
        rows,
    )


def _growth(snapshot):
    yield """
Time is fitted as a power of size: an exponent of 1 means twice the time for twice the size. Below 1, a
part of the time does not depend on the size yet. More releases make a plan coarser, and coarser plans are
found sooner. Linking t releases takes about t² because they cut the combinations into t times as many
cells.
"""
    yield "![Processor time against size, one line per step](performance/growth.svg)"
    rows = []
    for row in grown(snapshot):
        sizes = f"{number(row['sizes'][0])} to {number(row['sizes'][-1])}"
        spent = f"{seconds(row['seconds'][0])} to {seconds(row['seconds'][-1])}"
        rows.append((row["step"], f"{row['quantity']}, {sizes}", spent, f"{row['exponent']:.2f}"))
    yield table(("Step", "over", "processor time", "exponent"), rows)
    sparse = facts(snapshot, "sparse", "sparse models")
    if sparse:
        yield (
            "Plans of sparse models, in which most combinations and values never occur together, each in one "
            "memory: time and memory are in proportion to the cells above zero."
        )
        rows = [
            (
                f"{number(row['combinations'])} x {number(row['values'])}",
                number(row["cells"]),
                number(row["classes"]),
                seconds(row["seconds"]),
                size(row["memory_bytes"]),
            )
            for row in sparse
        ]
        yield table(("combinations x values", "cells", "classes", "processor time", "peak memory"), rows)


def _quality(snapshot):
    yield """
ℓ = 5, two releases, 30,000 records: classes and information loss of the three kinds of plan. More classes and
less loss are better.
"""
    yield "![Classes and information loss of plans: paper, probabilistic, certified](performance/quality.svg)"
    cells = {}
    for row in facts(snapshot, "quality", "quality"):
        found = "impossible" if row["classes"] is None else f"{number(row['classes'])}, {row['loss']:.3f}"
        cells.setdefault(row["population"], {})[row["kind"]] = found
    kinds = list(dict.fromkeys(kind for found in cells.values() for kind in found))
    rows = [(name, *(found.get(kind, "") for kind in kinds)) for name, found in cells.items()]
    yield table(("Classes, loss", *kinds), rows)


def _regions(snapshot):
    """Time and memory against the number of regions, and what that makes of a continent."""
    rows = facts(snapshot, "regions", "plans by region")
    yield "Regions of a million cells, the whole command; beside it the largest process that plans for it."
    yield table(
        ("Regions", "classes", "where", "passed", "processor time", "peak memory"),
        [
            (
                row["regions"],
                number(row["classes"]),
                row["where"],
                seconds(row["passed_seconds"]),
                seconds(row["seconds"]) if row["where"] == ONE_PROCESS else "",
                size(row["memory_bytes"])
                + ("" if row["where"] == ONE_PROCESS else f", {size(row['worker_bytes'])}"),
            )
            for row in rows
        ],
    )
    yield f"### {number(CONTINENT)} people, on paper"
    yield """
Steps over records are followed with their fitted exponent, but never with less than 1; plans are in
proportion to the cells above zero, of which there cannot be more than people. These are orders of magnitude:
counting was measured with few combinations, and with many the engine writes partial results to disk.
"""
    yield table(("Step", "measured", "processor time", "memory"), _on_paper(snapshot, rows))


def _on_paper(snapshot, rows):
    """What every step would take for a continent."""
    peaks = {row["step"]: max(row["bytes"]) for row in facts(snapshot, "growth_records", "growth_memory")}
    for row in grown(snapshot):
        if row["quantity"] == "records":
            measured, spent = row["sizes"][-1], row["seconds"][-1]
            followed = spent * (CONTINENT / measured) ** max(1.0, row["exponent"])
            memory = f"{size(peaks[row['step']])}, and disk" if row["step"] in peaks else ""
            yield row["step"], f"{seconds(spent)} for {number(measured)} records", seconds(followed), memory
    first, *_, last = (row for row in rows if row["where"] == ONE_PROCESS)
    times = CONTINENT / last["cells"]
    grows = (last["memory_bytes"] - first["memory_bytes"]) / (last["cells"] - first["cells"])
    memory = last["memory_bytes"] + grows * (CONTINENT - last["cells"])
    yield (
        f"plan by region: {number(round(times * last['classes']))} classes, a file of "
        f"{size(times * last['plan_bytes'])}",
        f"{seconds(last['seconds'])} for {number(last['cells'])} cells",
        seconds(times * last["seconds"]),
        size(memory),
    )


def _starting(snapshot):
    """What a new user waits for, and what takes the time and the disk."""
    yield """
The demo and the tour of the README on a new installation, and the default plan on UCI Adult: whole commands.
Inner loops are compiled when they are first used, and kept.
"""
    first, again, *later = (
        (_shortly(row["command"]), row["seconds"]) for row in facts(snapshot, "starting", "starting")
    )
    later.sort(key=lambda row: -row[1])
    others = (f"{len(later) - SLOWEST} other commands, at most", later[SLOWEST][1])
    rows = [first, again, *later[:SLOWEST], others]
    yield table(("Command", "processor time"), [(name, seconds(spent)) for name, spent in rows])
    compiled = {row["function"]: row["seconds"] for row in facts(snapshot, "starting", "compiling")}
    yield (
        f"The demo compiles {len(compiled)} functions, in {seconds(sum(compiled.values()))}; each with what "
        "is compiled for it alone."
    )
    yield table(("Function", "to compile"), _largest(compiled, LEAST_COMPILING, seconds, "functions"))
    packages = {row["package"]: row["bytes"] for row in facts(snapshot, "starting", "dependencies")}
    whole = size(sum(packages.values()))
    yield f"What the package needs, without extras and without pip, takes {whole} on the disk."
    named = {
        f"{name}: {NEEDED[name]}" if name in NEEDED else name: n_bytes for name, n_bytes in packages.items()
    }
    yield table(("Package", "on the disk"), _largest(named, LEAST_BYTES, size, "packages"))


def _shortly(command):
    """A command without its options; nobody has to type it here."""
    words, *_ = command.partition(" -")
    return words


def _largest(amounts, least, words, what):
    """Rows of what is large, and one of all others."""
    rows = [(name, words(amount)) for name, amount in amounts.items() if amount >= least]
    others = [amount for amount in amounts.values() if amount < least]
    return [*rows, (f"{len(others)} other {what}", words(sum(others)))]


def _again():
    return """
```
make bench                       # everything, and then this page
make bench ARGS="--full"         # the same, up to a hundred million records
```

Every benchmark makes its own data from a seed. The other tools are installed into `.venv-peers`.
"""
