"""What goes wrong on a user's side: a message of three parts, the right exit code, nothing half written.

Every test looks at the same things: inputs are byte for byte what they were, and the output folder holds
what it held before, with no temporary file left behind.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.release.hospital_tables import (
    DISEASES,
    QUASI_IDENTIFIERS,
    SENSITIVE,
    SMALL_PLAN,
    make_rows,
    read_rows,
    to_arrow,
    write_csv,
    write_parquet,
)

ROLES = ("--qi", ",".join(QUASI_IDENTIFIERS), "--sensitive", SENSITIVE)
OWN_FOLDER = "out"


@pytest.fixture
def out(tmp_path):
    """An empty folder for what a command writes."""
    folder = tmp_path / OWN_FOLDER
    folder.mkdir()
    return folder


@pytest.fixture
def refuses(elldelta, out, digests, tmp_path, story):
    """Runs a command that must fail; checks message, exit code, inputs and the output folder."""

    def run(*arguments, code=2):
        before = {**digests(tmp_path), **digests(story.folder)}
        plain = elldelta(*arguments, code=code)
        assert plain.out == ""
        assert plain.err.startswith("Error: ")
        assert "Traceback" not in plain.err
        error = elldelta(*arguments, "--json", code=code).error
        assert error["exit_code"] == code
        for part in ("problem", "found", "remedy"):
            assert error[part].endswith("."), f"{part}: {error[part]!r}"
            assert error[part] in plain.err
        after = {**digests(tmp_path), **digests(story.folder)}
        assert after == before, "files were changed, or something was left behind"
        return error

    return run


def commands_that_read(source, story, out):
    """Every command that reads a table of records, applied to `source`."""
    return {
        "schema infer": ("schema", "infer", source, *ROLES, "-o", out / "schema.toml"),
        "estimate": ("estimate", source, "--schema", story.schema, "-o", out / "model.parquet"),
        "release": ("release", source, "--plan", story.plan, "-o", out / "release.parquet"),
    }


READERS = ("schema infer", "estimate", "release")


# Files that are not there, or not what they seem


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file(refuses, story, out, tmp_path, name):
    error = refuses(*commands_that_read(tmp_path / "nowhere.csv", story, out)[name])
    assert "nowhere.csv" in error["problem"]


def test_other_missing_files(refuses, story, out, tmp_path):
    missing = tmp_path / "nowhere"
    for arguments in (
        ("estimate", story.past, "--schema", missing, "-o", out / "model.parquet"),
        ("model", "show", missing),
        ("model", "merge", story.model, missing, "-o", out / "model.parquet"),
        ("frontier", missing, "--ell", "3", "--releases", "2"),
        ("plan", missing, *SMALL_PLAN, "-o", out / "plan.json"),
        ("release", story.owner_a, "--plan", missing, "-o", out / "release.parquet"),
        ("verify", missing.with_suffix(".parquet"), "--plan", story.plan),
        ("audit", missing.with_suffix(".parquet"), "--columns", story.schema, "--ell", "3"),
        ("compose", missing),
    ):
        assert "nowhere" in refuses(*arguments)["problem"]


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_not_parquet(refuses, story, out, tmp_path, name):
    for number, content in enumerate((b"", b"PAR1", b"postal_code,gender\n01001,F\n", os.urandom(5000))):
        source = tmp_path / f"{number}.parquet"
        source.write_bytes(content)
        error = refuses(*commands_that_read(source, story, out)[name])
        assert "not a whole Parquet file" in error["problem"]


@pytest.mark.parametrize("name", READERS)
def test_a_truncated_parquet_file(refuses, story, out, tmp_path, name):
    whole = story.owner_a.read_bytes()
    source = tmp_path / "truncated.parquet"
    for length in (len(whole) - 1, len(whole) // 2, 10):
        source.write_bytes(whole[:length])
        error = refuses(*commands_that_read(source, story, out)[name])
        assert "Parquet" in error["problem"]


@pytest.mark.parametrize("name", READERS)
def test_a_parquet_file_that_is_damaged_in_the_middle(refuses, story, out, tmp_path, name):
    """Its end is whole, so only reading the records finds out."""
    content = bytearray(story.owner_a.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    source = tmp_path / "damaged.parquet"
    source.write_bytes(content)
    refuses(*commands_that_read(source, story, out)[name])


def test_models_plans_and_schemas_that_are_something_else(refuses, story, out, tmp_path):
    for content in (b"", b"\xff\xfe\x00 nonsense", b"[1, 2]", b'{"kind": "something"}'):
        other = tmp_path / "other"
        other.write_bytes(content)
        refuses("model", "show", other)
        refuses("plan", other, *SMALL_PLAN, "-o", out / "plan.json")
        refuses("release", story.owner_a, "--plan", other, "-o", out / "release.parquet")
        refuses("compose", other)
        refuses("estimate", story.past, "--schema", other, "-o", out / "model.parquet")
    refuses("model", "show", story.owner_a)  # Parquet, but no model


@pytest.mark.parametrize("name", READERS)
def test_a_wrong_encoding(refuses, elldelta, story, out, tmp_path, name):
    source = write_csv(tmp_path / "latin.csv", make_rows(3000, seed=2), encoding="latin-1")
    error = refuses(*commands_that_read(source, story, out)[name])
    assert "latin-1" in error["remedy"]
    elldelta(*commands_that_read(source, story, out)[name], "--csv", "encoding=latin-1")
    unknown = refuses(*commands_that_read(source, story, out)[name], "--csv", "encoding=klingon")
    assert "encoding" in unknown["problem"]


def test_a_csv_file_that_is_broken(refuses, story, out, tmp_path):
    header, *lines = story.owner_b.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, broken in enumerate(
        ("01001,F\n", "01001,F,30,flu,w,2020-01-01,1,2,3\n", '01001,"F,30,flu\n')
    ):
        source = tmp_path / f"{number}.csv"
        source.write_text(header + "".join(lines[:100]) + broken + "".join(lines[100:]), encoding="utf-8")
        for name in READERS:
            assert "CSV" in refuses(*commands_that_read(source, story, out)[name])["problem"]


# Columns


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_missing_column(refuses, story, out, tmp_path, name, suffix):
    rows = [{key: row[key] for key in row if key != "gender"} for row in make_rows(3000, seed=2)]
    source = (write_csv if suffix == "csv" else write_parquet)(tmp_path / f"owner.{suffix}", rows)
    error = refuses(*commands_that_read(source, story, out)[name])
    assert "'gender' is missing" in error["problem"]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_duplicated_column_names(refuses, story, out, tmp_path, name, suffix):
    source = tmp_path / f"owner.{suffix}"
    if suffix == "csv":
        header, *lines = story.owner_b.read_text(encoding="utf-8").splitlines(keepends=True)
        source.write_text(header.replace("ward", "gender") + "".join(lines), encoding="utf-8")
    else:
        table = to_arrow(make_rows(3000, seed=2))
        names = ["gender" if name == "ward" else name for name in table.column_names]
        pq.write_table(pa.Table.from_arrays(table.columns, names=names), source)
    error = refuses(*commands_that_read(source, story, out)[name])
    assert "same name" in error["problem"]
    assert "columns 2 and 5" in error["found"]


def test_a_sensitive_column_that_is_also_a_quasi_identifier(refuses, story, out, tmp_path):
    error = refuses(
        "schema", "infer", story.past, "--qi", "gender,disease", "--sensitive", "disease",
        "-o", out / "schema.toml",
    )  # fmt: skip
    assert "'disease'" in error["problem"]
    edited = tmp_path / "edited.toml"
    text = story.schema.read_text(encoding="utf-8")
    edited.write_text(text.replace('name = "gender"', 'name = "disease"'), encoding="utf-8")
    error = refuses("estimate", story.past, "--schema", edited, "-o", out / "model.parquet")
    assert "'disease'" in error["problem"]
    assert "line" in error["found"].lower()


def test_a_schema_with_a_mistake_names_the_line(refuses, story, out, tmp_path):
    lines = story.schema.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(index for index, line in enumerate(lines) if line.startswith("nulls"))
    edited = tmp_path / "edited.toml"
    for wrong in ('nuls = "refuse"\n', 'nulls = "perhaps"\n', "nulls = = 1\n"):
        edited.write_text("".join([*lines[:place], wrong, *lines[place + 1 :]]), encoding="utf-8")
        error = refuses("estimate", story.past, "--schema", edited, "-o", out / "model.parquet")
        assert str(place + 1) in error["found"]


# Values outside their domains


@pytest.fixture
def strangers(tmp_path):
    """An owner's table with eight records that have a value, or two, outside the domains."""
    rows = make_rows(3000, seed=2)
    for row in rows[10:15]:
        row["postal_code"] = "99999"
    for row in rows[14:17]:
        row["age"] = 77
    rows[100][SENSITIVE] = "dragon pox"
    return write_csv(tmp_path / "strangers.csv", rows), rows


def test_a_value_outside_its_domain_is_refused(refuses, story, out, strangers):
    source, _ = strangers
    for name in ("estimate", "release"):
        error = refuses(*commands_that_read(source, story, out)[name])
        for part in ("'postal_code': 5", "'age': 3", "'disease': 1", "3,000 records"):
            assert part in error["found"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_value_outside_its_domain_can_be_quarantined(elldelta, story, out, strangers, digests, suffix):
    source, rows = strangers
    before = digests(story.folder), source.read_bytes()
    side = out / f"quarantine.{suffix}"
    result = elldelta(
        "release", source, "--plan", story.plan, "-o", out / "release.csv", "--outside", side, "--json"
    ).json
    assert result["records"]["left_out"]["outside"] == 8
    assert result["records"]["released"] == 2992
    assert (digests(story.folder), source.read_bytes()) == before
    header, quarantined = read_rows(side)
    expected = [*rows[10:17], rows[100]]
    assert header == tuple(rows[0])
    assert sorted(quarantined) == sorted(tuple(str(row[name]) for name in header) for row in expected)
    assert "99999" not in (out / "release.csv").read_text(encoding="utf-8")
    manifest = json.loads((out / "release.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["records_quarantined"] == 8
    assert manifest["unknown"] == {"postal_code": 5, "age": 3, "disease": 1}
    elldelta("verify", out / "release.csv", "--plan", story.plan)
    assert "8 with a value outside its domain" in elldelta(
        "release", source, "--plan", story.plan, "-o", out / "again.csv", "--outside", side, "--overwrite"
    ).out  # fmt: skip


def test_without_strangers_there_is_no_quarantine_file(elldelta, story, out):
    elldelta(
        "release", story.owner_a, "--plan", story.plan, "-o", out / "r.csv", "--outside", out / "side.csv"
    )
    assert sorted(path.name for path in out.iterdir()) == ["r.csv", "r.csv.manifest.json"]


def test_quarantined_records_do_not_count_towards_the_plan(refuses, story, out, tmp_path):
    rows = make_rows(2510, seed=2)
    for row in rows[:20]:
        row["age"] = 77
    source = write_csv(tmp_path / "owner.csv", rows)
    error = refuses(
        "release", source, "--plan", story.plan, "-o", out / "r.csv", "--outside", out / "side.csv",
        code=3,
    )  # fmt: skip
    assert "10 are missing" in error["found"]


def test_a_missing_value_where_none_is_allowed(refuses, story, out, tmp_path):
    rows = make_rows(3000, seed=2)
    rows[7]["gender"] = None
    source = write_csv(tmp_path / "owner.csv", rows)
    for name in ("estimate", "release"):
        error = refuses(*commands_that_read(source, story, out)[name])
        assert "'gender': 1" in error["found"]


# Plans


def test_a_plan_for_another_schema(refuses, elldelta, story, out, tmp_path):
    """Other columns are missed; other domains do not hold the values; other schemas cannot be composed."""
    schema, model, plan = (tmp_path / name for name in ("s.toml", "m.parquet", "p.json"))
    elldelta("schema", "infer", story.past, "--qi", "ward,gender", "--sensitive", SENSITIVE, "-o", schema)
    elldelta("estimate", story.past, "--schema", schema, "-o", model)
    elldelta(
        "plan", model, "--ell", "3", "--releases", "1", "--records", "1000", "--delta", "0.01", "-o", plan
    )
    rows = [{key: row[key] for key in row if key != "ward"} for row in make_rows(3000, seed=2)]
    owner = write_csv(tmp_path / "owner.csv", rows)
    error = refuses("release", owner, "--plan", plan, "-o", out / "release.csv")
    assert "'ward' is missing" in error["problem"]
    assert "schema" in refuses("compose", plan, story.plan)["problem"]
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", tmp_path / "a.csv")
    elldelta("release", story.owner_b, "--plan", plan, "-o", tmp_path / "b.csv")
    assert "schema" in refuses("audit", tmp_path / "a.csv", tmp_path / "b.csv")["problem"]
    assert "schema" in refuses("model", "merge", story.model, model, "-o", out / "m.parquet")["problem"]
    assert "another plan" in refuses("verify", tmp_path / "a.csv", "--plan", plan)["problem"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda plan: plan.update(ell=2),
        lambda plan: plan.update(records=1),
        lambda plan: plan["schema"]["sensitive"][0]["values"].reverse(),
        lambda plan: plan.update(promise="Nobody will ever know."),
        lambda plan: plan.pop("conditions"),
        lambda plan: plan.update(digest="sha256:" + "0" * 64),
        lambda plan: plan.update(remark="looks fine to me"),
    ],
    ids=["ell", "records", "schema", "promise", "conditions", "digest", "remark"],
)
def test_a_plan_edited_by_hand(refuses, story, out, tmp_path, edit):
    plan = story.document("plan.json")
    edit(plan)
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(plan), encoding="utf-8")
    for arguments in (
        ("release", story.owner_a, "--plan", edited, "-o", out / "release.parquet"),
        ("compose", f"{edited}:2"),
    ):
        assert "changed or damaged" in refuses(*arguments)["problem"]


def test_a_plan_that_was_only_reformatted_is_the_same_plan(elldelta, story, out, tmp_path):
    pretty = tmp_path / "pretty.json"
    pretty.write_text(json.dumps(story.document("plan.json"), indent=2, ensure_ascii=False), encoding="utf-8")
    result = elldelta("release", story.owner_a, "--plan", pretty, "-o", out / "r.parquet", "--json").json
    assert result["plan_digest"] == story.document("plan.json")["digest"]


def test_files_of_another_version(refuses, elldelta, story, out, tmp_path):
    plan = tmp_path / "newer.json"
    plan.write_text(json.dumps({**story.document("plan.json"), "format": 1000}), encoding="utf-8")
    error = refuses("release", story.owner_a, "--plan", plan, "-o", out / "release.parquet")
    assert "another version" in error["problem"]
    assert "1000" in error["found"]
    assert "make it again" in error["remedy"]
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", tmp_path / "r.csv")
    manifest = tmp_path / "r.csv.manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps({**content, "format": 1000}), encoding="utf-8")
    assert "another version" in refuses("audit", tmp_path / "r.csv")["problem"]
    schema = tmp_path / "newer.toml"
    text = story.schema.read_text(encoding="utf-8")
    schema.write_text(text.replace("format = 1\n", "format = 1000\n"), encoding="utf-8")
    error = refuses("estimate", story.past, "--schema", schema, "-o", out / "model.parquet")
    assert "1000" in error["problem"] + error["found"]


def test_a_model_edited_by_hand_or_of_another_version(refuses, story, out, tmp_path):
    table = pq.read_table(story.model)
    n = table.column("n").to_pylist()
    edited = tmp_path / "edited.parquet"
    pq.write_table(table.set_column(2, "n", [[n[0] + 1, *n[1:]]]), edited)
    assert "changed or damaged" in refuses("model", "show", edited)["problem"]
    [(key, text)] = table.schema.metadata.items()
    newer = table.replace_schema_metadata({key: json.dumps({**json.loads(text), "format": 1000})})
    pq.write_table(newer, edited)
    assert "another version" in refuses("plan", edited, *SMALL_PLAN, "-o", out / "plan.json")["problem"]


# Outputs


def commands_that_write(story, folder):
    """Every command that writes, with the file it writes first."""
    return {
        "schema infer": ("schema", "infer", story.past, *ROLES, "-o", folder / "schema.toml"),
        "estimate": ("estimate", story.past, "--schema", story.schema, "-o", folder / "model.parquet"),
        "model merge": ("model", "merge", story.model, "-o", folder / "merged.parquet"),
        "plan": ("plan", story.model, *SMALL_PLAN, "-o", folder / "plan.json"),
        "release": ("release", story.owner_a, "--plan", story.plan, "-o", folder / "release.parquet"),
        "release csv": ("release", story.owner_b, "--plan", story.plan, "-o", folder / "release.csv"),
        "model show": ("model", "show", story.model, "--picture", folder / "model.png"),
        "frontier": ("frontier", story.model, "--ell", "3", "--releases", "1", "--records", "90",
                     "--picture", folder / "f.svg"),
    }  # fmt: skip


WRITERS = tuple(commands_that_write(type("Names", (), {"__getattr__": lambda *_: ""})(), Path()))


@pytest.mark.parametrize("name", WRITERS)
def test_an_existing_output_is_refused_unless_overwriting_is_allowed(refuses, elldelta, story, out, name):
    command = commands_that_write(story, out)[name]
    command[-1].write_bytes(b"precious")
    error = refuses(*command)
    assert "exists already" in error["problem"]
    assert "--overwrite" in error["options"]
    elldelta(*command, "--overwrite")
    assert command[-1].read_bytes() != b"precious"


def test_an_existing_manifest_or_quarantine_file_is_in_the_way_too(refuses, story, out, strangers):
    command = commands_that_write(story, out)["release"]
    manifest = Path(f"{command[-1]}.manifest.json")
    manifest.write_bytes(b"precious")
    assert "manifest" in refuses(*command)["problem"]
    manifest.unlink()
    side = out / "side.csv"
    side.write_bytes(b"precious")
    source, _ = strangers
    release = ("release", source, "--plan", story.plan, "-o", out / "release.csv", "--outside", side)
    assert "side.csv" in refuses(*release)["problem"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_does_not_exist_or_is_a_file(refuses, story, out, name):
    (out / "file").write_bytes(b"a file")
    for folder in (out / "nowhere", out / "file", out / "file" / "below"):
        error = refuses(*commands_that_write(story, folder)[name])
        assert "folder" in error["problem"] + error["found"]


@pytest.mark.parametrize("name", WRITERS)
def test_an_output_that_is_a_folder(refuses, story, out, name):
    command = commands_that_write(story, out)[name]
    command[-1].mkdir()
    for flag in ((), ("--overwrite",)):
        assert "folder" in refuses(*command, *flag)["found"]


@contextlib.contextmanager
def held_to_modes():
    """Refuses to root what the modes of files refuse to everybody else: this thread may not override them."""
    if os.geteuid() != 0:
        yield
        return
    system = ctypes.CDLL(None, use_errno=True)
    this_thread = (ctypes.c_uint32 * 2)(0x20080522, 0)
    kept = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    assert system.capget(this_thread, kept) == 0
    fewer = (ctypes.c_uint32 * 6)(*kept)
    fewer[0] &= ~(1 << 1)  # CAP_DAC_OVERRIDE
    assert system.capset(this_thread, fewer) == 0
    try:
        yield
    finally:
        assert system.capset(this_thread, kept) == 0


@pytest.mark.parametrize("name", WRITERS)
def test_an_unwritable_folder(refuses, story, out, name):
    out.chmod(0o500)
    try:
        with held_to_modes():
            error = refuses(*commands_that_write(story, out)[name])
    finally:
        out.chmod(0o700)
    assert "cannot be written" in error["problem"]


def test_a_release_must_have_a_name_that_tells_its_format(refuses, story, out):
    for name in ("release", "release.xlsx", "release.csv.gz"):
        refuses("release", story.owner_a, "--plan", story.plan, "-o", out / name)


# A full disk, and Ctrl-C


def finish(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


QUICK_WRITERS = ("plan", "release", "model show", "quarantine", "demo", "figures")
"""One for each kind of file: document, table, picture, two tables, folders. Each needs its own process."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK_WRITERS else [pytest.mark.slow])
        for name in (*WRITERS, "quarantine", "demo", "figures")
    ],
)
def test_a_full_disk(in_process, story, out, tmp_path, strangers, digests, name):
    """No file may grow beyond a limit that is too small for the output."""
    limit = 300
    if name == "quarantine":
        source, _ = strangers
        command = (
            "release",
            source,
            "--plan",
            story.plan,
            "-o",
            out / "r.csv",
            "--outside",
            out / "q.csv",
        )
    elif name in {"demo", "figures"}:
        command = (name, "-o", out / "new" / "folder")
    else:
        command = commands_that_write(story, out)[name]
    before = {**digests(tmp_path), **digests(story.folder)}
    room = tmp_path / "temporary"
    room.mkdir()

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environment = {**os.environ, "TMPDIR": str(room), "PYTHONDONTWRITEBYTECODE": "1"}
    code, shown, err = finish(in_process(*command, "--json", preexec_fn=small_disk, env=environment))
    assert code == 2, err
    error = json.loads(shown)["error"]
    assert "no room" in error["problem"]
    assert "full" in error["found"]
    assert error["remedy"]
    assert ".part" not in error["problem"], "the message names the file that the user asked for"
    assert {**digests(tmp_path), **digests(story.folder)} == before
    assert list(room.iterdir()) == []
    assert list(out.iterdir()) == []


@pytest.fixture(scope="session")
def large_table(tmp_path_factory):
    """Two million records, made by the engine from a formula; every combination and value is known."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    query = """
        SELECT '0100' || (1 + hash(i) % 5) AS postal_code,
               CASE hash(i + 1) % 2 WHEN 0 THEN 'F' ELSE 'M' END AS gender,
               CAST(30 + hash(i + 2) % 12 AS INTEGER) AS age,
               $diseases[CAST(1 + hash(i + 3) % len($diseases) AS INTEGER)] AS disease,
               'ward ' || (hash(i + 4) % 40) AS ward,
               CAST(hash(i + 5) % 900000 AS DOUBLE) / 100 AS cost
        FROM range(2000000) AS numbers(i)
    """
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT PARQUET)", {"diseases": list(DISEASES)})
    return path


def interrupted(start, happens, pause=0.0):
    """Sends Ctrl-C once something has happened; again if the command was done before the signal came."""
    for _ in range(10):
        process = start()
        while not happens() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        code, shown, err = finish(process)
        if code != 0:
            break
    assert code == 130, (code, shown, err)
    assert shown == ""
    assert "Interrupted" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("at the start", marks=pytest.mark.slow),
        "while counting",
        "while writing",
        pytest.param("late in writing", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c(in_process, story, out, tmp_path, large_table, digests, moment):
    """The signal comes when something on disk shows what the command is doing."""
    command = ("release", large_table, "--plan", story.plan, "-o", out / "release.csv")
    room = tmp_path / "temporary"
    room.mkdir()
    before = {}
    size = large_table.stat().st_size

    def start():
        (out / "release.csv.manifest.json").unlink(missing_ok=True)
        (out / "release.csv").write_bytes(b"the release of last month")
        before.update({**digests(tmp_path), **digests(story.folder)})
        return in_process(*command, "--overwrite", env={**os.environ, "TMPDIR": str(room)})

    def is_written():
        with contextlib.suppress(FileNotFoundError):
            return any(path.stat().st_size > 0 for path in out.glob(".*.part"))
        return False

    happens = {
        # The engine has made its folder; Python itself tries out with a file whether the place can be used.
        "at the start": lambda: any(path.is_dir() for path in room.iterdir()),
        "while counting": lambda: any(path.is_dir() for path in room.iterdir()),
        "while writing": lambda: any(out.glob(".*.part")),
        "late in writing": is_written,
    }
    interrupted(start, happens[moment], pause=0.05 if moment == "while counting" else 0.0)
    assert {**digests(tmp_path), **digests(story.folder)} == before
    assert list(room.iterdir()) == []
    assert large_table.stat().st_size == size


def test_ctrl_c_while_planning_and_inferring(in_process, story, out, large_table, tmp_path):
    room = tmp_path / "temporary"
    room.mkdir()
    command = ("schema", "infer", large_table, *ROLES, "-o", out / "schema.toml")

    def start():
        (out / "schema.toml").unlink(missing_ok=True)
        return in_process(*command, env={**os.environ, "TMPDIR": str(room)})

    interrupted(start, lambda: any(path.is_dir() for path in room.iterdir()))
    assert list(out.iterdir()) == []
    assert list(room.iterdir()) == []
