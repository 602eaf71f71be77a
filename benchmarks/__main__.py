"""Runs all benchmarks, or those named: `python -m benchmarks greedy sharp`. Exit code 1 if one is too slow.

Each benchmark module has a function `run()` that returns rows of (what was compared, ratio, allowed ratio).
"""

import importlib
import json
import pkgutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import benchmarks


def main(names):
    available = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    available = [name for name in available if not name.startswith("_")]
    unknown = set(names) - set(available)
    if unknown:
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are: {', '.join(available)}.")
        return 2
    table = Table(title="Ratios, measured in one run")
    for column, justify in (
        ("benchmark", "left"),
        ("compared", "left"),
        ("ratio", "right"),
        ("at most", "right"),
    ):
        table.add_column(column, justify=justify)
    results = []
    for name in names or available:
        for what, ratio, allowed in importlib.import_module(f"benchmarks.{name}").run():
            results.append({"benchmark": name, "compared": what, "ratio": ratio, "allowed": allowed})
            mark = "" if ratio <= allowed else "  too much"
            table.add_row(name, what, f"{ratio:.2f}", f"{allowed:g}{mark}")
    Console(width=120).print(table)
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["ratio"] > result["allowed"] for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
