"""The pages about performance say what was measured, and nothing else."""

import copy
import json
import re

import pytest
from benchmarks._docs import DOCS, PAGES, SNAPSHOT, read_snapshot
from benchmarks._words import NOTICE

IDS = [path.name for path in PAGES]


@pytest.fixture
def snapshot():
    return read_snapshot()


@pytest.mark.parametrize(("path", "page"), PAGES.items(), ids=IDS)
def test_a_page_is_what_its_snapshot_gives(path, page, snapshot):
    written = path.read_text(encoding="utf-8")
    assert written.startswith(NOTICE)
    assert written == page(snapshot), "run `make performance`"


@pytest.mark.parametrize(("path", "page"), PAGES.items(), ids=IDS)
def test_a_page_follows_what_was_measured(path, page, snapshot):
    slower = copy.deepcopy(snapshot)
    for benchmark in slower.values():
        for row in benchmark["ratios"]:
            row["ratio"] = 12.5 * row["ratio"] + 3
        for rows in benchmark["facts"].values():
            for row in rows:
                for name in ("seconds", "ncp"):
                    if isinstance(row.get(name), float):
                        row[name] = 12.5 * row[name] + 3
                    elif isinstance(row.get(name), list):
                        row[name] = [12.5 * value + 3 for value in row[name]]
    assert page(slower) != path.read_text(encoding="utf-8")


def test_the_pictures_of_the_page_exist(snapshot):
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures
    for name in pictures:
        assert (DOCS / name).read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_the_snapshot_does_not_say_where_it_was_made(snapshot):
    text = json.dumps(snapshot)
    assert not re.search(r"/(home|root|tmp|Users|work)\b", text)
    for benchmark in snapshot.values():
        assert set(benchmark["machine"]) == {
            "cores",
            "memory_gib",
            "system",
            "processor",
            "python",
            "packages",
        }
    assert SNAPSHOT.stat().st_size < 200_000
