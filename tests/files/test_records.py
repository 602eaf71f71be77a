"""Records from plain values: places and words of refusals, and no value in any of them."""

import datetime as dt
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from elldelta.errors import ParameterError
from elldelta.files import MisfitError, dotted, record_from


@dataclass(frozen=True)
class Part:
    name: str
    numbers: tuple[int, ...] = ()

    def __post_init__(self):
        if self.name == "wrong":
            raise ParameterError("This name is wrong.", found="It is.", remedy="Take another.")


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    share: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.5
    kind: Literal["one", "two"] = "one"
    day: dt.date | None = None


FINE: dict[str, Any] = {"parts": [{"name": "a", "numbers": [1, 2]}], "share": 1, "day": "2026-01-31"}


def test_what_fits_becomes_a_record_all_the_way_down():
    made = record_from(Whole, FINE)
    assert made == Whole((Part("a", (1, 2)),), 1.0, "one", dt.date(2026, 1, 31))
    assert hash(made) == hash(record_from(Whole, FINE))
    assert record_from(Whole, {"parts": made.parts}).parts == made.parts  # what is a record stays one


@pytest.mark.parametrize(
    ("document", "place", "words"),
    [
        ([], "", "must be a table of keys"),
        ({}, "", "'parts' is missing"),
        ({"parts": [{}]}, "parts[0]", "'name' is missing"),
        ({"parts": {"canary": 1}}, "parts", "must be a list"),
        ({"parts": [{"name": 5}]}, "parts[0].name", "must be a text"),
        ({"parts": [{"name": "a", "numbers": [1, "canary"]}]}, "parts[0].numbers[1]", "a whole number"),
        ({"parts": [{"name": "a", "numbers": [True]}]}, "parts[0].numbers[0]", "a whole number"),
        ({"parts": [{"name": "a", "numbers": [1.0]}]}, "parts[0].numbers[0]", "a whole number"),
        ({"parts": [{"name": "wrong"}]}, "parts[0]", "This name is wrong. It is."),
        ({"parts": [], "share": "canary"}, "share", "a number"),
        ({"parts": [], "share": True}, "share", "a number"),
        ({"parts": [], "share": 1.5}, "share", "a number <= 1.0"),
        ({"parts": [], "kind": "canary"}, "kind", "none of one, two"),
        ({"parts": [], "day": "canary"}, "day", "must be a date"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_is_refused_with_its_place_and_without_its_value(document, place, words):
    with pytest.raises(MisfitError) as refusal:
        record_from(Whole, document)
    assert dotted(refusal.value.place) == place
    assert words in refusal.value.words
    assert "canary" not in str(refusal.value)
    assert refusal.value.found


FIRST_RECORDS = """
import sys, threading
from dataclasses import make_dataclass
from elldelta.files import record_from

sys.setswitchinterval(1e-6)
names = [f"field{place}" for place in range(60)]
inner = dict.fromkeys(names, 1)
document = {"first": inner, "others": [inner] * 3}
right = []


def read(kind, start):
    start.wait()
    right.append(record_from(kind, document).others[2].field59 == 1)


for number in range(60):
    part = make_dataclass("Part", [(name, int | None) for name in names], frozen=True)
    whole = make_dataclass("Whole", [("first", part), ("others", tuple[part, ...])], frozen=True)
    start = threading.Barrier(6)
    threads = [threading.Thread(target=read, args=(whole, start)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(right), all(right))
"""


def test_threads_may_read_the_first_records_of_a_type_at_the_same_time():
    """In a process of its own: what goes wrong here ends the process, as it did with the agency's service."""
    found = subprocess.run(
        [sys.executable, "-c", FIRST_RECORDS], capture_output=True, text=True, timeout=300, check=False
    )
    assert (found.returncode, found.stdout) == (0, "360 True\n"), found.stderr[-500:]
