"""Runs all benchmarks, or those named: `python -m benchmarks greedy sharp`. Exit code 1 if one is too slow.

`--quick` takes a few minutes, `--full` includes tables of a hundred million records. What each benchmark
found is kept in `benchmarks/results`; `--write-docs` makes `docs/performance.md` of it.
"""

import argparse
import importlib
import inspect
import math
import pkgutil
import sys
import time

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks._result import SIZES, Fact, save


def available():
    names = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in names if not name.startswith("_"))


def measure(name, size):
    """Runs one benchmark and keeps what it finds as it goes; returns its ratios."""
    run = importlib.import_module(f"benchmarks.{name}").run
    found = run(size) if inspect.signature(run).parameters else run()
    ratios, facts = [], []
    for item in found:
        (facts if isinstance(item, Fact) else ratios).append(item)
        save(name, size, ratios, facts)
    return ratios


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(available())}")
    sizes = parser.add_mutually_exclusive_group()
    for size in ("quick", "full"):
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, default="default")
    parser.add_argument("--write-docs", action="store_true", help="only write the documentation from results")
    asked = parser.parse_args(arguments)
    if asked.write_docs:
        from benchmarks._docs import write_docs

        return write_docs()
    unknown = set(asked.names) - set(available())
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(available())}")
    table = Table(title="Ratios, measured in one run")
    for column, justify in (
        ("benchmark", "left"),
        ("compared", "left"),
        ("ratio", "right"),
        ("at most", "right"),
    ):
        table.add_column(column, justify=justify)
    is_too_much = False
    for name in asked.names or available():
        start = time.perf_counter()
        print(f"{name} ...", flush=True)
        ratios = measure(name, SIZES[asked.size])
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)
        for what, ratio, allowed in ratios:
            limit = "" if math.isinf(allowed) else f"{allowed:g}"
            is_too_much |= ratio > allowed
            table.add_row(name, what, f"{ratio:.3g}", limit + ("  too much" if ratio > allowed else ""))
    Console(width=130).print(table)
    return int(is_too_much)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
