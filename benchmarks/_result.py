"""What a benchmark yields, and how one run is kept as JSON.

A benchmark module has a function `run(size)` (or `run()` where size does not matter) that yields

* `(what was compared, ratio, allowed ratio)`: the run fails if the ratio exceeds what is allowed;
* `Fact(topic, {...})`: numbers without a limit, for the tables and pictures of the documentation.
"""

import importlib.metadata
import json
import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("duckdb", "numba", "numpy", "pyarrow", "scipy")


@dataclass(frozen=True)
class Size:
    """How large a run is.

    Attributes:
        name: "quick", "default" or "full".
        rows: Sizes of tables for growth; the largest one is also that of the comparison with plain copies.
        combinations: Numbers of quasi-identifier combinations for growth.
        peer_rows: Sizes of tables for the peers.
        peer_seconds: How long a peer may take.
        arena_scale: The share of the arena's usual numbers of records.
        arena_seeds: How often the arena is drawn anew.
        arena_tables: How many of the arena's tables are used.
        drifts: How much of one kind of people the arena's history lacks: 0 nothing, 1 all of them.
    """

    name: str
    rows: tuple[int, ...]
    combinations: tuple[int, ...]
    peer_rows: tuple[int, ...]
    peer_seconds: int
    arena_scale: float = 0.5
    arena_seeds: int = 20
    arena_tables: int = 6
    drifts: tuple[float, ...] = (0.0, 0.5, 1.0)


MILLION = 1_000_000
SIZES = {
    size.name: size
    for size in (
        Size(
            "quick",
            (100_000, 300_000, MILLION),
            (3_000, 10_000, 30_000),
            (30_000,),
            120,
            0.2,
            3,
            2,
            (0.0, 1.0),
        ),
        Size(
            "default",
            (MILLION, 3 * MILLION, 10 * MILLION),
            (3_000, 30_000, 300_000),
            (30_000, MILLION, 10 * MILLION),
            100,
        ),
        Size(
            "full",
            (MILLION, 10 * MILLION, 100 * MILLION),
            (3_000, 30_000, 300_000, 3 * MILLION),
            (30_000, MILLION, 10 * MILLION),
            100,
            arena_scale=1.0,
        ),
    )
}


@dataclass(frozen=True)
class Fact:
    """Something measured that has no limit: a row of the table that is called `topic`."""

    topic: str
    values: dict


def machine():
    """What the numbers depend on, and nothing that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def forget():
    """Removes what earlier runs have found, so that all results are of one run."""
    for path in FOLDER.glob("*.json"):
        path.unlink()


def save(name, size, ratios, facts, **about):
    """Writes what one benchmark has found so far; `about` tells of its run."""
    result = {
        "benchmark": name,
        "size": size.name,
        "run": about,
        "machine": machine(),
        "ratios": [
            {"compared": what, "ratio": float(ratio), "allowed": None if math.isinf(allowed) else allowed}
            for what, ratio, allowed in ratios
        ],
        "facts": {},
    }
    for fact in facts:
        result["facts"].setdefault(fact.topic, []).append(fact.values)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
