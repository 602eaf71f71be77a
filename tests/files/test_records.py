"""Records from plain values: places and words of refusals, and no value in any of them."""

import datetime as dt
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
