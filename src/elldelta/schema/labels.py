"""The grammar of labels: how a release writes a set of values of one column, and what any label can mean.

What our releases write::

    *                     every value
    23-41                 whole numbers (-5..3 when the first is negative)
    <=21   60+            the same from the lowest number of the domain on, and up to the highest
    1990-01..1990-06      dates: days, months or years; <=1990-06   >=1990-06
    F                     one category, or a group of a hierarchy: Undergraduate, 5600**
    low..high             a run of ordered categories
    {A, B}                a set of unordered categories
    [0, 10)               a bin; the last bin is closed: [90, 100]; several bins: <20   >=80
    (missing)             no value
    23-41 or (missing)    values, or none

A category or a group that could be mistaken for any of this is written in double quotes, inner quotes
doubled. What others write, too::

    20..40   [20-40]                from 20 to 40, both included
    [20, 40[   [20, 40)   ]20, 40]  an end that is not included
    >=65   >65   65+   <18   <=18   one end only
    a|b   a;b   a,b                 one of these
    5600**                          a code of six characters that begins with 5600

Nothing here looks at other labels or at a schema. Which of the readings holds is decided for a whole column,
by `elldelta.schema.label_columns`.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from elldelta.engines.cells import spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EVERYTHING = "*"
MISSING = "(missing)"
MISSING_TOKENS = (
    *("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None"),
    *(".", "-", "?"),
)
"""What programs write for a missing value; spelt just so."""
_OR_MISSING = f" or {MISSING}"
_RANGE = ".."

_SPECIAL = re.compile(r'[",{}\x00-\x1f]|^\*\Z|\.\.|^\.|\.$|^\s|\s$|\(missing\)', re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"]|"")*)"', re.DOTALL)
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"), "-")
_SIGNS = {ord("\u2265"): ">=", ord("\u2264"): "<=", ord("\u2026"): ".."}
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_INFINITE = r"[+-]?(?:inf|infinity|Inf|Infinity|INF|\u221e)"
_DATE = r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2}(?:[T ]00:00(?::00(?:\.0+)?)?)?)?)?"
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_STARS = re.compile(r"([^*]*)(\*+)", re.DOTALL)
_COMPARED = re.compile(r"(>=|<=|>|<)\s*(.+)", re.DOTALL)
_BRACKETS = re.compile(r"([\[\](])(.*)([\[\])])", re.DOTALL)
_MEMBER = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",{}]*?))\s*(,|\Z)', re.DOTALL)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_LONGEST_NUMBER = 40
_MASKED = re.compile(r"[0-9A-Z]*[0-9][xX#?_.\u2022]+")
_IN_WORDS = re.compile(
    r"\b(?:under|over|above|below|less|more|least|most|older|younger|up|before|after|between|from)\b.*[0-9]"
    r"|[0-9].*\b(?:under|over|above|below|less|more|older|younger|up|plus)\b",
    re.IGNORECASE | re.DOTALL,
)
_PLACEHOLDERS = re.compile(
    r"#?n/a|na|<na>|nan|nat|none|null|nil|missing|unknown|any|all|suppressed|[?]|--?|[.]{1,3}", re.IGNORECASE
)

Scale = Literal["number", "date"]


def missing_tokens(na: Iterable[str] = (), not_na: Iterable[str] = ()) -> tuple[str, ...]:
    """The usual texts for a missing value, with some more and without others."""
    spared = set(map(spelling, not_na))
    tokens = dict.fromkeys((*MISSING_TOKENS, *map(spelling, na)))
    return tuple(token for token in tokens if token not in spared)


def shows_nothing(text: str, tokens: Sequence[str]) -> bool:
    """Whether nobody can tell a value from a missing one: by what is seen of it, or because we write it so.

    Characters that leave no mark do not make a value of a text that stands for none.
    """
    seen = spelling("".join(sign for sign in text if unicodedata.category(sign) != "Cf"))
    return seen in tokens or seen == MISSING


def quoted(value: str) -> str:
    """A category as it appears in a label: bare where that is unambiguous, in double quotes otherwise."""
    if value == "" or _SPECIAL.search(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def category_run(first: str, last: str) -> str:
    """The label of a run of ordered categories."""
    return f"{quoted(first)}{_RANGE}{quoted(last)}"


def category_set(values: Sequence[str]) -> str:
    """The label of a set of unordered categories."""
    return "{" + ", ".join(map(quoted, values)) + "}"


def or_missing(label: str) -> str:
    """The label of some values, or none."""
    return label + _OR_MISSING


def split_missing(label: str) -> tuple[str | None, bool]:
    """Takes `(missing)` off a label: what is left (None if nothing is), and whether it was there."""
    if label == MISSING:
        return None, True
    if label.endswith(_OR_MISSING):
        return label.removesuffix(_OR_MISSING), True
    return label, False


def parse_category(label: str) -> str | None:
    """The value of a label that names one category; None if it does not."""
    match = _QUOTED.fullmatch(label)
    if match:
        return match[1].replace('""', '"')
    return None if label == "" or _SPECIAL.search(label) else label


def parse_category_run(label: str) -> tuple[str, str] | None:
    """The ends of a label that names a run of ordered categories; None if it does not."""
    match = _QUOTED.match(label)
    cut = match.end() if match else label.find(_RANGE)
    if cut < 0 or not label.startswith(_RANGE, cut):
        return None
    first, last = parse_category(label[:cut]), parse_category(label[cut + len(_RANGE) :])
    return None if first is None or last is None else (first, last)


@dataclass(frozen=True)
class Span:
    """Numbers, or days, between two ends; an end that is None is open to all sides.

    Days count from the first of January of the year 1, and a span of days includes its low end and excludes
    its high one, so that a day is as wide as 1.
    """

    low: Decimal | None
    high: Decimal | None
    has_low: bool = True
    has_high: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies between the ends."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and not (self.has_low and self.has_high))


@dataclass(frozen=True)
class Reading:
    """What a label means on a scale.

    Attributes:
        spans: One of these.
        is_plain: Whether it is one value, as a person has it.
        doubt: Why this reading may be wrong; empty if it is the only one on this scale.
        is_comma_unclear: Whether the doubt is about a comma, which may be part of one number.
    """

    spans: tuple[Span, ...]
    is_plain: bool = False
    doubt: str = ""
    is_comma_unclear: bool = False


def normalized(text: str) -> str:
    """The label with one spelling of dashes, spaces and signs; nothing that could change its meaning."""
    spaced = "".join(" " if unicodedata.category(mark) == "Zs" else mark for mark in spelling(text))
    return spaced.translate(_DASHES).translate(_SIGNS)


def read_on(scale: Scale, text: str) -> Reading | None:
    """Reads a normalized label as numbers or as dates; None if it is neither.

    >>> read_on("number", "[20, 40[").spans
    (Span(low=Decimal('20'), high=Decimal('40'), has_low=True, has_high=False),)
    """
    if "\n" in text or "\r" in text:
        return None
    one = _ends(scale, text)
    if one is not None:
        return Reading((one,), is_plain=True, doubt=_zeros(scale, text))
    for reader in (_compared, _between, _bracketed, _members):
        reading = reader(scale, text)
        if reading is not None:
            return None if any(span.is_empty for span in reading.spans) else reading
    return None


def looks_generalized(text: str) -> bool:
    """Whether a normalized label is written like one, so that it can be shown: it is nobody's own value."""
    if "*" in text or (text.startswith("{") and text.endswith("}")) or ".." in text:
        return True
    for scale in ("number", "date"):
        reading = read_on(scale, text)
        if reading is not None and not reading.is_plain:
            return not reading.is_comma_unclear  # 1,5 may be a value
    return bool(_BRACKETS.fullmatch(text)) or bool(re.fullmatch(r"[<>]=?.*|.*[0-9]\+", text, re.DOTALL))


def resembles_range(text: str) -> bool:
    """Whether a text may be a range in a form that is not understood, such as `C50-C59` or `20K to 40K`.

    Never used to read a label, only to doubt that it is a plain value.
    """
    if re.search(r"[0-9]\s*(?:-|\.\.|\bto\b)\s*[0-9]", text) or _IN_WORDS.search(text):
        return True
    if _MASKED.fullmatch(text):
        return True
    for mark in ("..", " to ", "-"):
        parts = [part.strip() for part in text.split(mark)]
        if len(parts) == 2 and all(parts):
            are_letters = all(len(part) == 1 for part in parts)
            shapes = {re.sub(r"[^\W\d_]+", "a", re.sub("[0-9]+", "0", part)) for part in parts}
            if are_letters or (len(shapes) == 1 and "0" in shapes.pop()):
                return True
    return False


def stands_for_missing(text: str) -> bool:
    """Whether a text is one of those that tools write for a missing or suppressed value."""
    return _PLACEHOLDERS.fullmatch(text) is not None


def split_otherwise(text: str) -> tuple[str, ...]:
    """The parts of `a/b`, `a or b`, `a and b`, `a & b` and `a + b`: perhaps a set, perhaps a name."""
    for mark in ("/", " or ", " and ", "&", "+"):
        parts = tuple(part.strip() for part in text.split(mark))
        if len(parts) > 1 and all(parts):
            return parts
    return ()


def parse_stars(text: str) -> tuple[str, int] | None:
    """Prefix and length of a code with its end starred out; None if it is none.

    >>> parse_stars("5600**")
    ('5600', 6)
    """
    match = _STARS.fullmatch(text)
    return (match[1], len(text)) if match and text != EVERYTHING else None


def parse_members(text: str) -> tuple[str, ...] | None:
    """The members of `{a, b}`; a member with a comma or a brace stands in double quotes."""
    if len(text) < 3 or text[0] != "{" or text[-1] != "}":
        return None
    inner, at, members = text[1:-1], 0, []
    while True:
        match = _MEMBER.match(inner, at)
        if match is None:
            return None
        if match[1] is None and not match[2]:
            return None
        member = match[2] if match[1] is None else match[1].replace('""', '"')
        members.append(member)
        at = match.end()
        if match[3] == "":
            return tuple(dict.fromkeys(members))


def split_bare(text: str) -> tuple[str, ...] | None:
    """The parts of `a|b`, `a;b` or `a,b`: a set without braces, if it is a set at all."""
    for mark in "|;,":
        if mark in text:
            parts = tuple(part.strip() for part in text.split(mark))
            return tuple(dict.fromkeys(parts)) if all(parts) else None
    return None


def parse_number(text: str) -> Decimal | None:
    """A number, exactly as written."""
    if len(text) > _LONGEST_NUMBER or not re.fullmatch(_NUMBER, text):
        return None
    number = Decimal(text)
    return number if number else Decimal(0)  # -0 is 0; adding 0 would round a long number


def parse_days(text: str) -> tuple[int, int] | None:
    """The first day of a date, month or year, and the day after its last."""
    if not re.fullmatch(_DATE, text):
        return None
    parts = [int(part) for part in text[:10].split("-")]
    try:
        if len(parts) == 3:
            first = dt.date(*parts).toordinal()
            return first, first + 1
        year, month = parts if len(parts) == 2 else (parts[0], 1)
        first = dt.date(year, month, 1).toordinal()
        if len(parts) == 1:
            return first, dt.date(year, 12, 31).toordinal() + 1
        return first, first + calendar.monthrange(year, month)[1]
    except (ValueError, OverflowError):
        return None


def _ends(scale: Scale, text: str) -> Span | None:
    """One value as a span: a point, or all days of a date."""
    if scale == "number":
        number = parse_number(text)
        return None if number is None else Span(number, number)
    days = parse_days(text)
    return None if days is None else Span(Decimal(days[0]), Decimal(days[1]), has_high=False)


def _compared(scale: Scale, text: str) -> Reading | None:
    match = _COMPARED.fullmatch(text)
    if match is None and text.endswith("+"):
        match = _COMPARED.fullmatch(">=" + text[:-1])
    one = None if match is None else _ends(scale, match[2].strip())
    if match is None or one is None:
        return None
    doubt = _zeros(scale, match[2])
    sign = match[1]
    if sign[0] == ">":
        if sign == ">=":
            return Reading((Span(one.low, None, has_low=True),), doubt=doubt)
        # After a date comes the day after it; after a number, every larger one.
        return Reading((Span(one.high, None, has_low=not one.has_high),), doubt=doubt)
    if sign == "<=":
        return Reading((Span(None, one.high, has_high=one.has_high),), doubt=doubt)
    return Reading((Span(None, one.low, has_high=False),), doubt=doubt)


def _between(scale: Scale, text: str) -> Reading | None:
    ends = _two_ends(scale, text, ("..", "to", "-") if scale == "number" else ("..", "to", "/", "-"))
    if ends is None:
        return None
    low, high, words = ends
    return Reading((Span(low.low, high.high, low.has_low, high.has_high),), doubt=_zeros(scale, *words))


def _bracketed(scale: Scale, text: str) -> Reading | None:
    match = _BRACKETS.fullmatch(text)
    if match is None:
        return None
    ends = _two_ends(scale, match[2].strip(), (",", ";", "..", "to", "/", "-"), infinite=True)
    if ends is None:
        return None
    low, high, words = ends
    has_low, has_high = match[1] == "[", match[3] == "]"
    span = Span(
        low.low if has_low or scale == "number" else low.high,
        high.high if has_high or scale == "number" else high.low,
        low.has_low and (has_low or scale == "date"),
        high.has_high and has_high,
    )
    if scale == "date":  # a day is a whole step, so an excluded end is the day before or after
        span = Span(span.low, span.high, has_low=True, has_high=False)
    doubt = _zeros(scale, *words)
    if match[1] == "(" and match[3] == ")" and not re.search("[,;]", match[2]):
        doubt = "parentheses around a range may or may not exclude its ends"
    return Reading((span,), doubt=doubt)


def _members(scale: Scale, text: str) -> Reading | None:
    members, doubt = parse_members(text), ""
    if members is None:
        members = split_bare(text)
        if members is not None and "|" not in text and ";" not in text:
            if _THOUSANDS.fullmatch(text):
                doubt = "the comma may separate thousands"
            elif scale == "number" and re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text):
                doubt = "the comma may be a decimal comma"
    spans = [_ends(scale, member) for member in members or ()]
    found = tuple(span for span in spans if span is not None)
    if not found or len(found) < len(spans):
        return None
    return Reading(found, doubt=doubt or _zeros(scale, *(members or ())), is_comma_unclear=bool(doubt))


def _two_ends(
    scale: Scale, text: str, marks: tuple[str, ...], *, infinite: bool = False
) -> tuple[Span, Span, tuple[str, str]] | None:
    """Two values with a mark between them; the only way to read them, or None."""
    value = _NUMBER if scale == "number" else _DATE
    end = f"(?:{value}|{_INFINITE})" if infinite else value
    for mark in marks:
        gap = r"\s+to\s+" if mark == "to" else rf"\s*{re.escape(mark)}\s*"
        match = re.fullmatch(f"({end}){gap}({end})", text)
        if match is None:
            continue
        # 1990-01-02 is one date and never a range; 1990-1991 and 1990-01 - 1990-06 are ranges.
        ends = [_end_or_infinite(scale, match[1], -1), _end_or_infinite(scale, match[2], 1)]
        if ends[0] is None or ends[1] is None:
            return None
        return ends[0], ends[1], (match[1], match[2])
    return None


def _end_or_infinite(scale: Scale, text: str, side: int) -> Span | None:
    if re.fullmatch(_INFINITE, text):
        is_low = text.startswith("-")
        return Span(None, None) if is_low == (side < 0) else None
    return _ends(scale, text)


def _zeros(scale: Scale, *texts: str) -> str:
    if scale == "number" and any(_LEADING_ZERO.match(text) for text in texts):
        return "a number with a leading zero may be a code"
    return ""
