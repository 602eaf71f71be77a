"""Writes the pages about performance from what the benchmarks have found; no number is typed by hand.

`docs/performance/results.json` is the snapshot that the pages come from. Anyone can make the pages again from
it, and a test does.
"""

import json
from pathlib import Path

from benchmarks._far_end_page import far_end_page
from benchmarks._performance_page import performance_page
from benchmarks._pictures import draw_all
from benchmarks._result import FOLDER

DOCS = Path(__file__).parents[1] / "docs"
SNAPSHOT = DOCS / "performance" / "results.json"
PAGES = {DOCS / "performance.md": performance_page, DOCS / "far-end.md": far_end_page}


def write_docs():
    """Takes the results of the last runs as the snapshot, and makes pages and pictures of it."""
    found = sorted(FOLDER.glob("*.json"))
    if not found:
        print("There are no results yet: run `make bench` first.")
        return 2
    snapshot = {result["benchmark"]: result for result in (json.loads(path.read_text()) for path in found)}
    SNAPSHOT.parent.mkdir(exist_ok=True)
    SNAPSHOT.write_text(json.dumps(snapshot, indent=1) + "\n", encoding="utf-8")
    snapshot = read_snapshot()
    for path, page in PAGES.items():
        path.write_text(page(snapshot), encoding="utf-8")
        print(f"Wrote {path.relative_to(DOCS.parent)}")
    draw_all(snapshot, SNAPSHOT.parent)
    return 0


def read_snapshot():
    return json.loads(SNAPSHOT.read_text(encoding="utf-8"))
