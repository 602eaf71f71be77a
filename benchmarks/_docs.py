"""Writes the pages about performance from what the benchmarks have found; no number is typed by hand.

`docs/performance/results.json` and `docs/arena/results.json` are the snapshots that the pages come from.
Anyone can make the pages again from them, and a test does.
"""

import json
from pathlib import Path

from benchmarks._arena_page import arena_page
from benchmarks._performance_page import performance_page
from benchmarks._pictures import draw_all
from benchmarks._result import FOLDER

HOME = Path(__file__).parent
DOCS = HOME.parent / "docs"
SNAPSHOT = DOCS / "performance" / "results.json"
ARENA = DOCS / "arena" / "results.json"
PAGES = {
    DOCS / "performance.md": performance_page,
    DOCS / "arena.md": arena_page,
}


def write_docs():
    """Puts the results of the last runs into the snapshot, and makes pages and pictures of it."""
    found = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    if not found:
        print("There are no results yet: run `make bench` first.")
        return 2
    known = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    known |= {result["benchmark"]: result for result in found}
    arena = known.pop("arena", None)
    kept = {name: result for name, result in sorted(known.items()) if (HOME / f"{name}.py").exists()}
    SNAPSHOT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if arena is not None:
        ARENA.parent.mkdir(exist_ok=True)
        ARENA.write_text(_one_fact_per_line(arena), encoding="utf-8")
    snapshot = read_snapshot()
    for path, page in PAGES.items():
        path.write_text(page(snapshot), encoding="utf-8")
        print(f"Wrote {path.relative_to(DOCS.parent)}")
    draw_all(snapshot, DOCS)
    return 0


def _one_fact_per_line(result):
    """The arena's facts are many small rows: this is shorter than one number per line, and still readable."""
    facts = {
        topic: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for topic, rows in result["facts"].items()
    }
    listed = ",\n".join(f"{json.dumps(topic)}: {rows}" for topic, rows in facts.items())
    rest = json.dumps({key: value for key, value in result.items() if key != "facts"})
    return f'{rest[:-1]}, "facts": {{\n{listed}\n}}}}\n'


def read_snapshot():
    snapshot = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    if ARENA.exists():
        snapshot["arena"] = json.loads(ARENA.read_text(encoding="utf-8"))
    return snapshot
