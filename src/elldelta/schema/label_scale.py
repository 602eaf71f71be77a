"""Numbers and dates of a column, cut wherever a label begins or ends.

Between two neighbouring cuts no label tells values apart, so a position is what lies between them. An end
that is included is a cut behind its value, one that is not a cut before it. If all ends are whole numbers,
the column is taken to hold whole numbers: nobody is 29.5 years old between `20-29` and `30-39`.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from elldelta.errors import counted
from elldelta.schema.labels import Span, normalized, parse_stars, read_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.schema.label_columns import ColumnRules, Entry
    from elldelta.schema.labels import Scale

Cut = tuple[Decimal, int]
"""Before a value (0) or behind it (1)."""

PLAIN = "the value itself"


def find_scale(entries: list[Entry], known: Sequence[str], rules: ColumnRules) -> Scale | Literal["text"]:
    """The kind of the column; sets the readings of its labels on the way."""
    candidates: list[Scale] = []
    if rules.kind == "auto":
        if not any(parse_stars(entry.text) for entry in entries):
            candidates = ["number", "date"]
    elif rules.kind != "text":
        candidates = [rules.kind]
    for scale in candidates:
        readings = [None if entry.members else read_on(scale, entry.text) for entry in entries]
        values = [read_on(scale, normalized(value)) for value in known]
        fits = all(
            reading is not None or entry.members for entry, reading in zip(entries, readings, strict=True)
        )
        fits = fits and all(value is not None and value.is_plain for value in values)
        read = [reading for reading in (*readings, *values) if reading is not None]
        if rules.kind == "auto":
            are_codes = all(each.is_plain for each in read) and any(each.doubt for each in read)
            if not read or not fits or are_codes:  # 01234 and 56001 are codes, unless somebody says otherwise
                continue
        for entry, reading in zip(entries, readings, strict=True):
            entry.reading = reading
            if reading is not None:
                entry.is_plain = reading.is_plain
                is_asked = rules.separators != "sets" if reading.is_comma_unclear else rules.kind == "auto"
                entry.problem = reading.doubt if is_asked else ""
            elif not entry.members:
                entry.problem = f"it is no {scale} and no range of them"
        return scale
    return "text"


def read_on_scale(
    scale: Scale, entries: list[Entry], known: Sequence[str], *, is_closed: bool = False
) -> tuple[str, list[bool], list[float]]:
    """Gives every label its places; returns the column's kind, which places are named, and how wide each is.

    Where a schema tells the whole range, which is then the first that is known, open ends end there.
    """
    usable = []
    for entry in entries:
        if entry.problem:
            continue
        if entry.members:
            found = [read_on(scale, member) for member in entry.members]
            if not all(each is not None and (each.is_plain or not each.doubt) for each in found):
                entry.problem = f"a value of its group is no {scale}"
                continue
            spans = tuple(span for reading in found if reading is not None for span in reading.spans)
        else:
            spans = entry.reading.spans if entry.reading else ()
        usable.append((entry, spans))
    values = [reading.spans for value in known if (reading := read_on(scale, normalized(value)))]
    if is_closed:
        [whole] = values[0]
        usable = [(entry, tuple(_inside(span, whole) for span in spans)) for entry, spans in usable]
    result = _scale_positions(scale, [spans for _, spans in usable], values)
    for (entry, _), places, meaning in zip(usable, result.places, result.meanings, strict=True):
        entry.places = places
        entry.meaning = entry.meaning or (PLAIN if entry.is_plain else meaning)
    return result.kind, list(result.is_named), list(result.widths)


@dataclass(frozen=True)
class _ScalePositions:
    """The positions of a scale, and where the labels lie on it.

    Attributes:
        kind: "whole numbers", "numbers" or "dates".
        is_named: For every position, whether a label names it that is not everything.
        widths: For every position, how many steps it holds (whole numbers and days), or how long it is; what
            lies beyond all ends counts as one step, or none.
        places: Per label, the first and last position of each of its spans, in order and apart.
        meanings: Per label, what it means in words.
    """

    kind: str
    is_named: tuple[bool, ...]
    widths: tuple[float, ...]
    places: tuple[list[tuple[int, int]], ...]
    meanings: tuple[str, ...]


def _scale_positions(
    scale: Scale, labels: Sequence[tuple[Span, ...]], values: Sequence[tuple[Span, ...]] = ()
) -> _ScalePositions:
    """Cuts a scale at all ends of labels and of other known values."""
    everything = [*labels, *values]
    step = scale == "date" or _are_whole(everything)
    cuts = sorted({cut for spans in everything for span in spans for cut in _cuts(span, step=step) if cut})
    number = {cut: index for index, cut in enumerate(cuts)}

    def place(span: Span) -> tuple[int, int]:
        begin, end = _cuts(span, step=step)
        return (0 if begin is None else number[begin] + 1, len(cuts) if end is None else number[end])

    places = tuple(_joined(sorted({place(span) for span in spans})) for spans in labels)
    is_named = [False] * (len(cuts) + 1)
    for low, high in (run for spans in (*places, *(map(place, spans) for spans in values)) for run in spans):
        is_named[low : high + 1] = [True] * (high + 1 - low)
    kind = "dates" if scale == "date" else "whole numbers" if step else "numbers"
    meanings = tuple(_meaning(spans, kind, step=step) for spans in labels)
    beyond = 1.0 if step else 0.0
    widths = (beyond, *(float(after[0] - before[0]) for before, after in pairwise(cuts)), beyond)
    return _ScalePositions(kind, tuple(is_named), widths[: len(is_named)], places, meanings)


def _inside(span: Span, whole: Span) -> Span:
    """The span with open ends closed where the whole range ends; one that lies beyond it stays as it is."""
    low = (whole.low, whole.has_low) if span.low is None else (span.low, span.has_low)
    high = (whole.high, whole.has_high) if span.high is None else (span.high, span.has_high)
    closed = Span(low[0], high[0], low[1], high[1])
    return span if closed.is_empty else closed


def _are_whole(labels: Sequence[tuple[Span, ...]]) -> bool:
    spans = [span for spans in labels for span in spans]
    ends = [end for span in spans for end in (span.low, span.high) if end is not None]
    if not all(end == end.to_integral_value() for end in ends):
        return False
    # (20, 21) holds no whole number: whoever wrote it had others.
    return all(
        begin is None or end is None or begin < end
        for begin, end in (_cuts(span, step=True) for span in spans)
    )


def _cuts(span: Span, *, step: bool) -> tuple[Cut | None, Cut | None]:
    """Where a span begins and ends; on whole steps, behind 20 is before 21."""
    begin = None if span.low is None else (span.low, 0 if span.has_low else 1)
    end = None if span.high is None else (span.high, 1 if span.has_high else 0)
    if not step:
        return begin, end
    return (
        None if begin is None else (_next(begin), 0),
        None if end is None else (_next(end), 0),
    )


def _next(cut: Cut) -> Decimal:
    return Decimal(int(cut[0]) + cut[1])  # through int: adding Decimals would round long numbers


def _joined(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in places:
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _meaning(spans: tuple[Span, ...], kind: str, *, step: bool) -> str:
    if len(spans) > 1:
        return f"one of {counted(len(spans), 'value')}"
    return _words(*_cuts(spans[0], step=step), kind)


def _words(begin: Cut | None, end: Cut | None, kind: str) -> str:
    """What lies between two cuts."""
    if begin is None and end is None:
        return "every value"
    if kind != "numbers":  # whole steps: both ends can be named by a value that is included
        first = None if begin is None else _value(begin[0], kind)
        last = None if end is None else _value(Decimal(int(end[0]) - 1), kind)
        if first is None:
            return f"up to {last}"
        if last is None:
            return f"{first} and above" if kind != "dates" else f"from {first} on"
        return first if first == last else f"{first} to {last}"
    low = "" if begin is None else f"{'at least' if begin[1] == 0 else 'above'} {_value(begin[0], kind)}"
    high = "" if end is None else f"{'at most' if end[1] == 1 else 'below'} {_value(end[0], kind)}"
    if begin is not None and end is not None and begin[0] == end[0]:
        return _value(begin[0], kind)
    return ", ".join(part for part in (low, high) if part)


def _value(value: Decimal, kind: str) -> str:
    if kind != "dates":
        return format(value.normalize() if abs(value) < Decimal(10) ** 20 else value, "f")
    try:
        return dt.date.fromordinal(int(value)).isoformat()
    except (ValueError, OverflowError):
        return f"day {value}"
