"""Slow and obvious twins of counting and releasing: one record at a time, plain Python, no engine, no Arrow.

Of a schema only its written definition is used (names, bounds, values, policies), none of its methods.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import unicodedata
from collections import Counter

UNKNOWN, NULL = "unknown", "null"

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def position(column, cell):
    """The position of a cell in a column, from the definition of its domain; UNKNOWN or NULL."""
    found = _place(column.domain, cell)
    is_value = column.domain.kind == "categories" and found != UNKNOWN
    if not is_value and _stands_for_none(column, cell):
        found = NULL
    if found == NULL and column.nulls == "category":
        return _size(column.domain)
    return found


def count(rows, schema):
    """Records by (positions of the quasi-identifiers, position of the sensitive value), and all losses."""
    cells, nulls, unknown = Counter(), Counter(), Counter()
    losses = {"n_read": 0, "n_counted": 0, "n_suppressed": 0, "n_quarantined": 0}
    columns = [*schema.quasi_identifiers, schema.sensitive]
    for row in rows:
        losses["n_read"] += 1
        places = [position(column, row[column.name]) for column in columns]
        for column, place in zip(columns, places, strict=True):
            nulls[column.name] += place == NULL
            unknown[column.name] += place == UNKNOWN
        if UNKNOWN in places:
            losses["n_quarantined"] += 1
        elif NULL in places:
            losses["n_suppressed"] += 1
        else:
            losses["n_counted"] += 1
            cells[(tuple(places[:-1]), places[-1])] += 1
    return dict(cells), losses, +nulls, +unknown


def persons(rows, schema, person):
    """Every (person, value) once, at its first combination; every person once, at its first combination."""
    columns = [*schema.quasi_identifiers, schema.sensitive]
    pairs, people = {}, {}
    for row in rows:
        places = tuple(position(column, row[column.name]) for column in columns)
        if UNKNOWN not in places and NULL not in places:
            who, cell, value = row[person], places[:-1], places[-1]
            pairs[who, value] = min(pairs.get((who, value), cell), cell)
            people[who] = min(people.get(who, cell), cell)
    cells = Counter((cell, value) for (_, value), cell in pairs.items())
    return dict(cells), dict(Counter(people.values()))


def persons_of_several(rows, schema, person):
    """Records that in every column are the first of their person with that value; persons at their first."""
    records = {}
    for row in rows:
        cell, values = (
            tuple(position(column, row[column.name]) for column in columns)
            for columns in (schema.quasi_identifiers, schema.sensitives)
        )
        if not {UNKNOWN, NULL} & {*cell, *values}:
            records.setdefault(row[person], set()).add((cell, values))
    kept, people = [Counter() for _ in schema.sensitives], Counter()
    for own in records.values():
        people[min(own)[0]] += 1
        shown = [list(column) for column in zip(*(values for _, values in sorted(own)), strict=True)]
        for place, (cell, _) in enumerate(sorted(own)):
            if all(column.index(column[place]) == place for column in shown):
                for tally, column in zip(kept, shown, strict=True):
                    tally[cell, column[place]] += 1
    return [dict(tally) for tally in kept], dict(people)


def release(rows, schema, label_row):
    """The multiset of released rows: labels, sensitive value.

    `label_row` turns the positions of a combination into its labels, or None if its records are left out.
    """
    released = Counter()
    for row in rows:
        places = [position(column, row[column.name]) for column in schema.quasi_identifiers]
        value = position(schema.sensitive, row[schema.sensitive.name])
        if any(place in (UNKNOWN, NULL) for place in (*places, value)):
            continue
        labels = label_row(tuple(places))
        if labels is not None:
            shown = sensitive_value(schema.sensitive, value)
            released[*labels, shown] += 1
    return released


def sensitive_value(column, place):
    """What a release shows for a sensitive value, as text; None for a missing one."""
    domain = column.domain
    if place == _size(domain):
        return None
    match domain.kind:
        case "categories":
            return domain.values[place]
        case "integers" if domain.width == 1:
            return str(domain.low + place)
        case "integers":
            first = domain.low + place * domain.width
            last = min(first + domain.width - 1, domain.high)
            if first == last:
                return str(first)
            return f"{first}..{last}" if first < 0 else f"{first}-{last}"
        case _:
            low, high = (int(e) if e == int(e) else e for e in domain.edges[place : place + 2])
            return f"[{low}, {high}{']' if place == _size(domain) - 1 else ')'}"


def parse_csv(text):
    """The rows of a CSV text; unlike the standard library it tells no text (None) from an empty one."""
    row, field, at, quoted = [], [], 0, False
    while at < len(text):
        sign = text[at]
        if sign == '"':
            end = at + 1
            quoted = True
            while text[end] != '"' or text[end + 1 : end + 2] == '"':
                if text[end] == '"':
                    end += 1
                field.append(text[end])
                end += 1
            at = end + 1
        elif sign in ",\n":
            row.append("".join(field) if field or quoted else None)
            field, quoted = [], False
            if sign == "\n":
                yield row
                row = []
            at += 1
        else:
            field.append(sign)
            at += 1


def _size(domain):
    match domain.kind:
        case "integers":
            return len(range(domain.low, domain.high + 1, domain.width))
        case "categories":
            return len(domain.values)
        case "bins":
            return len(domain.edges) - 1
        case _:
            return sum(1 for _ in _ticks(domain))


def _stands_for_none(column, cell):
    """Whether a cell is one of the texts that a column lists as missing, or the same number."""
    if cell is None:
        return False
    if isinstance(cell, dt.date):
        return f"{cell:%Y-%m-%d}" in column.missing
    if isinstance(cell, bool):
        return str(cell).lower() in column.missing
    if isinstance(cell, str) and _spelt(cell) in column.missing:
        return True
    if isinstance(cell, str) and column.domain.kind == "categories":
        return False
    number = _number(cell)
    return number is not None and any(_number(token) == number for token in column.missing)


def _spelt(text):
    """A text as it is compared: without spaces around it, and with one form of accents."""
    return unicodedata.normalize("NFC", text.strip())


def _place(domain, cell):
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return NULL
    if domain.kind == "categories":
        text = str(cell).lower() if isinstance(cell, bool) else str(cell)
        return domain.values.index(_spelt(text)) if _spelt(text) in domain.values else UNKNOWN
    if isinstance(cell, str) and cell.strip(" ") == "":
        return NULL
    if domain.kind == "dates":
        return _date_place(domain, cell)
    number = _number(cell)
    if number is None:
        return UNKNOWN
    if domain.kind == "integers":
        return _integer_place(domain, number)
    for place in range(len(domain.edges) - 1):
        last = place == len(domain.edges) - 2
        if domain.edges[place] <= number and (
            number < domain.edges[place + 1] or (last and number == domain.edges[place + 1])
        ):
            return place
    return UNKNOWN


def _integer_place(domain, number):
    if number != int(number):
        return UNKNOWN
    for place in range(_size(domain)):
        first = domain.low + place * domain.width
        if first <= number < first + domain.width and number <= domain.high:
            return place
    return UNKNOWN


def _number(cell):
    if isinstance(cell, str):
        text = cell.strip(" ")
        if not _NUMBER.fullmatch(text):
            return None
        try:
            return int(text)
        except ValueError:
            cell = float(text)
    return cell if isinstance(cell, int) or math.isfinite(cell) else None


def _date_place(domain, cell):
    if isinstance(cell, str):
        try:
            cell = dt.date.fromisoformat(cell.strip(" ")[:10])
        except ValueError:
            return UNKNOWN
    tick = _tick(domain, cell)
    ticks = list(_ticks(domain))
    return ticks.index(tick) if tick in ticks else UNKNOWN


def _tick(domain, date):
    return (date.year, date.month, date.day)[: {"year": 1, "month": 2, "day": 3}[domain.unit]]


def _ticks(domain):
    last = None
    day = domain.low
    high = _tick(domain, domain.high)
    while _tick(domain, day) <= high:
        if _tick(domain, day) != last:
            last = _tick(domain, day)
            yield last
        day += dt.timedelta(days=1)
