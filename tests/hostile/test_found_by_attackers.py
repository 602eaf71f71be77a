"""Files that once ended in a crash, in a bug of ours, or never."""

import contextlib
import json
import os
import threading

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.golden.make import FILES, tables

import elldelta as ed
from elldelta.cli.main import execute
from elldelta.errors import DataError, FileError, SchemaError
from elldelta.files import canonical_json, digest, read_bytes
from elldelta.ledger.ledger import verify_ledger
from elldelta.model.model import model_from_bytes

ROLES = {"quasi_identifiers": ["postal_code", "gender"], "sensitive": "disease"}


@pytest.fixture
def past(tmp_path):
    """Past records, as a table."""
    texts = dict(tables())
    header, *rows = (line.split(",") for line in texts["past.csv"].split("\n"))
    return pa.table(dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize("name", ["", "a\0b"])
@pytest.mark.parametrize("kind", ["parquet", "feather", "memory"])
def test_a_column_without_a_usable_name_is_no_column(past, name, kind, tmp_path):
    table = past.append_column(name, past["age"])
    place = tmp_path / f"past.{kind}"
    if kind == "parquet":
        pq.write_table(table, place)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, place)
    source = table if kind == "memory" else place
    schema = ed.Schema.infer(source, **ROLES)
    assert name not in schema.dropped
    assert ed.estimate(source, schema).n_records == past.num_rows
    with pytest.raises(DataError, match="is missing"):
        ed.Schema.infer(source, quasi_identifiers=["postal_code", name], sensitive="disease")


@pytest.mark.parametrize("ends", [(-1e308, 1e308), (-5e-324, 5e-324), (5e-324, 1e308), (0.0, 1e308)])
def test_extreme_numbers_become_bins(past, ends):
    numbers = pa.array([ends[number % 2] if number % 3 else 1.5 for number in range(past.num_rows)])
    schema = ed.Schema.infer(past.append_column("amount", numbers), ["postal_code", "amount"], "disease")
    edges = schema.quasi_identifier("amount").domain.edges
    assert edges[0] <= ends[0]
    assert edges[-1] >= ends[1]


def test_a_damaged_feather_file_is_refused(past, tmp_path):
    """Offsets of texts that point outside of the file let the process die."""
    place = tmp_path / "past.feather"
    pyarrow.feather.write_feather(past, place, compression="uncompressed")
    content = bytearray(place.read_bytes())
    content[2000:2400] = b"\xf0" * 400
    place.write_bytes(content)
    with pytest.raises(FileError, match="not a whole Arrow file"):
        ed.Schema.infer(place, **ROLES)


@pytest.mark.parametrize("written", ["x = " + "[" * 3000 + "]" * 3000, "x = " + "9" * 5000])
def test_a_schema_that_its_parser_cannot_hold(written, tmp_path):
    place = tmp_path / "schema.toml"
    place.write_text((FILES / "schema.toml").read_text(encoding="utf-8") + written, encoding="utf-8")
    with pytest.raises(SchemaError, match="not valid TOML"):
        ed.read_schema(place)


@pytest.mark.parametrize(
    "command",
    [
        "compose /dev/zero",
        f"estimate {FILES}/release.csv --schema /dev/zero -o model.parquet",
        "ledger verify /dev/zero",
        "model show /dev/zero",
        f"signature verify {FILES}/plan.json --agency-key /dev/zero",
    ],
)
def test_a_device_is_not_read_to_its_end(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert execute(command.split()) == 2


def test_a_pipe_may_be_read_and_may_not_be_endless(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for content, most in ((b"short", 10), (b"x" * 3_000_000, 1_000_000)):
        writer = threading.Thread(target=_write, args=(pipe, content))
        writer.start()
        if len(content) <= most:
            assert read_bytes(pipe, "plan", most) == content
        else:
            with pytest.raises(FileError, match="cannot be read"):
                read_bytes(pipe, "plan", most)
        writer.join()


def _write(pipe, content):
    with contextlib.suppress(BrokenPipeError):
        pipe.write_bytes(content)


@pytest.mark.parametrize("member", ["schema", "accounting", "noise", "digest", "schema_digest", "format"])
@pytest.mark.parametrize("value", [{}, 2**64, "x", None, [[]], 1e308, {"": 1}])
def test_a_model_whose_description_has_other_types(member, value):
    table = pq.read_table(FILES / "model.parquet")
    [key] = table.schema.metadata
    head = json.loads(table.schema.metadata[key])
    written = pa.BufferOutputStream()
    changed = canonical_json({**head, member: value})
    pq.write_table(table.replace_schema_metadata({key: changed}), written)
    with pytest.raises(FileError):
        model_from_bytes(written.getvalue().to_pybytes())


@pytest.mark.parametrize("ell", [2**64, 10**400, -1, 1e308, True, "3", [3], None])
def test_a_ledger_with_another_ell(ell, tmp_path):
    """Sealed again, so that only what it says is wrong."""
    header = json.loads((FILES / "releases.ledger").read_bytes().splitlines()[0])
    header.pop("hash")
    header["values"][0]["ell"] = ell
    header["hash"] = digest(header)
    place = tmp_path / "releases.ledger"
    place.write_bytes(canonical_json(header) + b"\n")
    with pytest.raises(FileError):
        verify_ledger(place)
