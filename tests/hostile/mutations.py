"""What somebody who wants us to fail may do to a file, from a seed."""

import contextlib
import copy
import hashlib
import json
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq

from elldelta.errors import ElldeltaError
from elldelta.files import canonical_json

NUMBERS = (-1, 0, 1, 2**31, 2**63, 2**64, 10**400, -0.0, 5e-324, 1e308, True)
OTHERS = (None, "", "\x00", "\ud7ff", "x" * 100_000, [], {}, [[]], {"": 0}, [1] * 1000, "9" * 5000)
DEEP = 3000


def mutants(name, content, random_numbers):
    """Damaged versions of a file without an end: of its bytes, and of what it says, sealed again."""
    damages = [_bytes]
    if name.endswith(".json"):
        damages += [_document, _document]
    elif name.endswith(".ledger"):
        damages += [_ledger, _ledger]
    elif name.endswith(".toml"):
        damages += [_toml, _toml]
    elif name.endswith(".parquet") and pq_head(content):
        damages += [_parquet_head, _parquet_head]
    while True:
        yield random_numbers.choice(damages)(content, random_numbers)


def _bytes(content, rng):
    damaged = bytearray(content)
    kind = rng.randrange(6)
    place = rng.randrange(len(damaged))
    length = rng.choice((1, 4, 100, 5000))
    if kind == 0:
        del damaged[place:]
    elif kind == 1:
        damaged[place : place + length] = rng.randbytes(length)
    elif kind == 2:
        damaged[place:place] = damaged[place : place + length]
    elif kind == 3:
        damaged[place : place + length] = bytes(length)
    elif kind == 4:
        damaged[place:place] = rng.choice((b"\x00", b"\xff\xfe", b'"', b"\n", b"[" * DEEP, b"9" * 5000))
    else:
        for _ in range(rng.choice((1, 10, 300))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _document(content, rng):
    document = _changed(json.loads(content), rng)
    if isinstance(document, dict) and "digest" in document:
        document.pop("digest")
        document["digest"] = _digest(document)
    return _json(document)


def _ledger(content, rng):
    """One line changed; it and those after it are chained again, as whoever wrote them would."""
    lines = [json.loads(line) for line in content.splitlines()]
    place = rng.randrange(len(lines))
    lines[place] = _changed(lines[place], rng)
    previous, written = None, []
    for line in lines:
        if isinstance(line, dict):
            line.pop("hash", None)
            line["previous"] = previous
            previous = line["hash"] = _digest(line)
        written.append(_json(line))
    return b"\n".join(written) + b"\n"


VALUES = (
    *(
        "-1",
        "2e308",
        "nan",
        "inf",
        '""',
        '"\\u0000"',
        "[]",
        "{}",
        "1979-05-27",
        "true",
        "9" * 5000,
        f"{2**64}",
    ),
    *("[" * DEEP + "]" * DEEP, "{a={b={c=1}}}", "[[1],[2]]", '["a", 1]', '"' + "x" * 9999 + '"'),
)


def _toml(content, rng):
    """A value replaced by another, or by one that is nested too deep."""
    text = content.decode()
    found = rng.choice(list(re.finditer(r"= *(.+)$", text, re.MULTILINE)))
    return (text[: found.start(1)] + rng.choice(VALUES) + text[found.end(1) :]).encode()


def pq_head(content):
    """The keys of a Parquet file's metadata that are ours."""
    metadata = pq.read_schema(pa.BufferReader(content)).metadata or {}
    return [key for key in metadata if key.startswith(b"elldelta")]


def _parquet_head(content, rng):
    """The description in the metadata changed; the columns stay."""
    table = pq.read_table(pa.BufferReader(content))
    [key, *_] = pq_head(content)
    head = _changed(json.loads(table.schema.metadata[key]), rng)
    written = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({key: _json(head)}), written)
    return written.getvalue().to_pybytes()


def _changed(document, rng):
    """A plain value with one thing in it replaced, removed, added, or nested too deep."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places or rng.random() < 0.05:
        return rng.choice((*NUMBERS, *OTHERS))
    holder, key = rng.choice(places)
    kind = rng.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        deep = holder[key]
        for _ in range(rng.choice((1, 400))):
            deep = [deep]
        holder[key] = deep
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice(("", "also", "x" * 1000))] = holder[key]
    elif kind == 3 and isinstance(holder[key], int | float):
        holder[key] = rng.choice(NUMBERS)
    else:
        holder[key] = rng.choice((*NUMBERS, *OTHERS))
    return document


def _places(value):
    """Every member of every list and object, once each; of long lists the first ones."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for place in range(min(len(value), 5)):
            yield value, place
            yield from _places(value[place])


def _json(document):
    """As canonical as it can be: surrogates and numbers that are not finite cannot."""
    with contextlib.suppress(ElldeltaError, RecursionError):
        return canonical_json(document)
    return json.dumps(document, sort_keys=True).encode()


def _digest(document):
    return "sha256:" + hashlib.sha256(_json(document)).hexdigest()


def rng_for(name, seed):
    """Random numbers that are the same for a file in every run."""
    return random.Random(f"{name} {seed}")
