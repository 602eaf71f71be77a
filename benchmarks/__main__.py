"""Runs all benchmarks, or those named: `python -m benchmarks greedy sharp`. Exit code 1 if one is too slow.

`--quick` takes a few minutes, `--full` includes tables of a hundred million records. What each benchmark
found is kept in `benchmarks/results`. A complete run, of all benchmarks and not a quick one, ends by writing
the pages about it (docs/performance.md, docs/arena.md); `--write-docs` only does that.
"""

import argparse
import importlib
import inspect
import math
import os
import pkgutil
import sys
import time
import traceback
from dataclasses import replace

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks._result import SIZES, Fact, forget, save


def available():
    names = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in names if not name.startswith("_"))


def measure(name, size, began):
    """Runs one benchmark and keeps what it finds as it goes; returns its ratios."""
    run = importlib.import_module(f"benchmarks.{name}").run
    start, load = time.perf_counter(), os.getloadavg()[1]
    found = run(size) if inspect.signature(run).parameters else run()
    ratios, facts = [], []
    for item in found:
        (facts if isinstance(item, Fact) else ratios).append(item)
        passed = round(time.perf_counter() - start)
        save(name, size, ratios, facts, began=began, load=round(load, 1), passed_seconds=passed)
    return ratios


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(available())}")
    sizes = parser.add_mutually_exclusive_group()
    for size in ("quick", "full"):
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, default="default")
    parser.add_argument("--drift", type=float, action="append", metavar="D", help="for the arena; repeatable")
    parser.add_argument("--scale", type=float, metavar="X", help="for the arena: the share of its records")
    parser.add_argument("--write-docs", action="store_true", help="only write the documentation from results")
    asked = parser.parse_args(arguments)
    if asked.write_docs:
        from benchmarks._docs import write_docs

        return write_docs()
    unknown = set(asked.names) - set(available())
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(available())}")
    size = SIZES[asked.size]
    if asked.drift:
        size = replace(size, drifts=tuple(sorted({0.0, *asked.drift})))
    if asked.scale:
        size = replace(size, arena_scale=asked.scale)
    table = Table(title="Ratios, measured in one run")
    for column, justify in (
        ("benchmark", "left"),
        ("compared", "left"),
        ("ratio", "right"),
        ("at most", "right"),
    ):
        table.add_column(column, justify=justify)
    is_complete = not asked.names and asked.size != "quick"
    if is_complete:
        forget()
    began, is_too_much, broken = time.strftime("%Y-%m-%d %H:%M", time.gmtime()), False, []
    for name in asked.names or available():
        start = time.perf_counter()
        print(f"{name} ...", flush=True)
        try:
            ratios = measure(name, size, began)
        except Exception:  # noqa: BLE001 (the others are measured all the same, and the end says it)
            traceback.print_exc()
            broken.append(name)
            continue
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)
        for what, ratio, allowed in ratios:
            limit = "" if math.isinf(allowed) else f"{allowed:g}"
            is_too_much |= ratio > allowed
            table.add_row(name, what, f"{ratio:.3g}", limit + ("  too much" if ratio > allowed else ""))
    Console(width=130).print(table)
    if broken:
        print(f"These broke off: {', '.join(broken)}. No page was written.")
    elif is_complete:
        from benchmarks._docs import write_docs

        write_docs()
    return int(is_too_much or bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
