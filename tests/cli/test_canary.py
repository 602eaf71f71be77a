"""A secret that is planted in one column at a time appears in no output of any command.

Where a secret may appear, and nowhere else:

* A category of past records is a value of its column's domain. The schema names it, and so do the model, the
  plan and the manifest, which carry the schema; `model show` lists the domain of the sensitive column, and
  class labels are made of domain values. Whoever plans with a column publishes its domain.
* A release shows the sensitive value of every record, which is what it is for.
* The quarantine file holds the records that could not be used, for their owner only.

Numbers and dates are planted inside the range of their column, so that they are no end of a domain.
"""

import datetime as dt
import json
import os
import signal
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import ANY_CODE, quietly
from tests.release.hospital_tables import DISEASES, make_rows, write_csv, write_parquet

TEXT = "Zzyzx-Quokka"
NUMBER = 7316942
DATE = dt.date(1957, 11, 23)
KINDS = {"text": TEXT, "number": NUMBER, "date": DATE}

QI = ("postal_code", "gender", "income", "born")
SENSITIVE = "disease"
COLUMNS = {
    "postal_code": "text",
    "gender": "text",
    "income": "number",
    "born": "date",
    "disease": "text",
    "ward": "text",
    "cost": "number",
    "admitted": "date",
}
"""Every column and the kind of its values: quasi-identifiers, sensitive, three dropped."""
PLACES = [
    *((column, "csv") for column in ("postal_code", "income", "disease", "ward")),
    ("born", "parquet"),
    *(
        pytest.param(column, suffix, marks=pytest.mark.slow)
        for column, suffix in (
            *((column, "csv") for column in ("gender", "born", "cost", "admitted")),
            ("gender", "parquet"),
            ("income", "parquet"),
        )
    ),
]
"""Every column in a file without types, and one column of each kind in a file with types."""


def table(seed, n=1200):
    """Records with wide ranges: incomes to ten million, births over a century."""
    rows = []
    for index, row in enumerate(make_rows(n, seed=seed)):
        income = (index * 7919) % 10_000 * 1000
        born = dt.date(1900, 1, 1) + dt.timedelta(days=(index * 104_729) % 40_000)
        ward, admitted = row["ward"], row["admitted"]
        rows.append(
            {
                "postal_code": row["postal_code"],
                "gender": row["gender"],
                "income": income,
                "born": born,
                "disease": DISEASES[index % 7],
                "ward": ward,
                "cost": int(row["cost"] * 100),
                "admitted": admitted,
            }
        )
    rows[0]["income"], rows[1]["income"] = 0, 10_000_000
    rows[0]["born"], rows[1]["born"] = dt.date(1900, 1, 1), dt.date(2009, 12, 31)
    return rows


def planted(column, seed=1, n=1200):
    rows = table(seed, n)
    rows[n // 2] = {**rows[n // 2], column: KINDS[COLUMNS[column]]}
    return rows


def spellings(column):
    """How the secret of a column might be written."""
    secret = KINDS[COLUMNS[column]]
    if isinstance(secret, dt.date):
        days = (secret - dt.date(1970, 1, 1)).days
        return (
            secret.isoformat(),
            secret.strftime("%d.%m.%Y"),
            f"({secret.year}, {secret.month}, {secret.day})",
            str(days),
        )
    if isinstance(secret, int):
        return (str(secret), f"{secret:,}", f"{secret:e}"[:6])
    return (secret, secret.lower())


def words_of(path):
    """Everything that a reader finds in a file: its text, or the cells and metadata of a Parquet file."""
    content = path.read_bytes()
    if not content.startswith(b"PAR1"):
        return content.decode("utf-8", errors="replace")
    try:
        read = pq.read_table(path)
    except pa.ArrowException:
        return content.decode("utf-8", errors="replace")
    metadata = b" ".join((read.schema.metadata or {}).values()).decode()
    statistics = json.dumps(pq.read_metadata(path).to_dict(), default=str)
    return f"{read.to_pydict()} {metadata} {statistics} {read.column_names}"


def tells(column, path):
    """Whether the secret of a column is found in a file."""
    words = words_of(path)
    return any(mark in words for mark in spellings(column))


def where(column, folder, *, besides=()):
    """The files of a folder in which the secret of a column is found."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in besides]
    return {path.name for path in files if tells(column, path)}


@pytest.fixture
def speaks(elldelta):
    """Runs a command both ways and checks that the secret of a column is in neither output."""

    def run(column, *arguments, code=0, again=("--overwrite",), ways=((), ("--json",))):
        for options in ways:
            overwrite = again if options and code == 0 else ()
            finished = elldelta(*arguments, *options, *overwrite, code=code)
            for mark in spellings(column):
                assert mark not in finished.out + finished.err, arguments
            assert "Traceback" not in finished.err

    return run


@pytest.fixture(scope="session")
def innocent(tmp_path_factory):
    """Schema, model and plan from past records without a secret."""
    folder = tmp_path_factory.mktemp("innocent")
    past = write_csv(folder / "past.csv", table(3, n=4000))
    schema, model, plan = folder / "schema.toml", folder / "model.parquet", folder / "plan.json"
    bins = ("--bins", "income=width:2500000")
    quietly("schema", "infer", past, "--qi", ",".join(QI), "--sensitive", SENSITIVE, *bins, "-o", schema)
    text = schema.read_text(encoding="utf-8").replace('unit = "day"', 'unit = "year"')
    schema.write_text(text, encoding="utf-8")
    quietly("estimate", past, "--schema", schema, "-o", model)
    quietly(
        "plan", model, "--ell", "3", "--records", "1000", "--releases", "2", "--delta", "0.01", "-o", plan
    )
    return folder


DOMAIN = {"schema.toml", "model.parquet", "plan.json", "release.csv.manifest.json", "release.csv"}
"""Files that carry a schema, or labels made of its values."""


@pytest.mark.parametrize(("column", "suffix"), PLACES)
def test_a_secret_in_past_records(elldelta, speaks, tmp_path, column, suffix):
    """From past records to an audit, with the owner's table equal to the past."""
    past = (write_csv if suffix == "csv" else write_parquet)(tmp_path / f"past.{suffix}", planted(column))
    schema, model, plan, release = (
        tmp_path / name for name in ("schema.toml", "model.parquet", "plan.json", "release.csv")
    )
    speaks(column, "schema", "infer", past, "--qi", ",".join(QI), "--sensitive", SENSITIVE, "-o", schema,
           "--bins", "income=width:2500000")  # fmt: skip
    edited = schema.read_text(encoding="utf-8").replace('unit = "day"', 'unit = "year"')
    schema.write_text(edited, encoding="utf-8")
    speaks(column, "estimate", past, "--schema", schema, "-o", model)
    speaks(
        column,
        "plan",
        model,
        "--ell",
        "3",
        "--releases",
        "1",
        "--records",
        "900",
        "--kind",
        "paper",
        "-o",
        plan,
        ways=((),),
    )
    speaks(
        column, "frontier", model, "--ell", "3", "--releases", "1", "--records", "1000", again=(), ways=((),)
    )
    speaks(column, "model", "merge", model, "-o", tmp_path / "merged.parquet")
    if column != SENSITIVE:  # it lists the values of the sensitive column, by name
        speaks(column, "model", "show", model, again=())
    speaks(column, "release", past, "--plan", plan, "-o", release)
    speaks(column, "verify", release, "--plan", plan, again=())
    speaks(column, "audit", release, again=())
    speaks(column, "compose", f"{plan}:2", again=())

    found = where(column, tmp_path, besides={past.name})
    is_category = column in (*QI, SENSITIVE) and COLUMNS[column] == "text"
    if is_category:
        assert {"schema.toml", "model.parquet", "plan.json", "release.csv.manifest.json"} <= found
        assert found <= DOMAIN | {"merged.parquet"}
    else:
        assert found == set()


@pytest.mark.parametrize(("column", "suffix"), PLACES)
def test_a_secret_in_the_table_of_an_owner(elldelta, speaks, innocent, tmp_path, column, suffix):
    """Inside its range it vanishes in a class; outside its domain it is refused, or put aside."""
    owner = (write_csv if suffix == "csv" else write_parquet)(tmp_path / f"owner.{suffix}", planted(column))
    release, side, plan = tmp_path / "release.csv", tmp_path / "side.csv", innocent / "plan.json"
    stranger = column in (*QI, SENSITIVE) and COLUMNS[column] == "text"
    command = ("release", owner, "--plan", plan, "-o", release)
    if stranger:
        speaks(column, *command, code=2)
        assert where(column, tmp_path, besides={owner.name}) == set()
        speaks(column, "estimate", owner, "--schema", innocent / "schema.toml", "-o", tmp_path / "m", code=2)
    speaks(column, *command, "--outside", side)
    assert side.exists() == stranger
    speaks(column, "verify", release, "--plan", plan, again=())
    speaks(column, "audit", release, "--report", tmp_path / "audit.html")
    allowed = {"side.csv"} if stranger else set()
    assert where(column, tmp_path, besides={owner.name}) == allowed


def test_the_column_that_tells_persons_apart_is_written_nowhere(speaks, innocent, tmp_path):
    rows = [{**row, "patient": f"{TEXT}{place // 2}"} for place, row in enumerate(planted("cost"))]
    owner = write_csv(tmp_path / "owner.csv", rows)
    schema, plan, model = innocent / "schema.toml", tmp_path / "plan.json", tmp_path / "model.parquet"
    release, by_person = tmp_path / "release.csv", ("--person", "patient")
    speaks("ward", "estimate", owner, "--schema", schema, "-o", model, *by_person)
    asked = ("--ell", "3", "--records", "900", "--releases", "1", "--delta", "0.1")
    speaks("ward", "plan", model, *asked, "-o", plan)
    speaks("ward", "release", owner, "--plan", plan, "-o", release, *by_person)
    speaks("ward", "verify", release, "--plan", plan, again=())
    speaks("ward", "check", owner, "--qi", "gender", "--sensitive", SENSITIVE, *by_person, again=())
    rows[7]["patient"] = ""
    write_csv(owner, rows)
    speaks("ward", "release", owner, "--plan", plan, "-o", tmp_path / "other.csv", *by_person, code=2)
    assert where("ward", tmp_path, besides={owner.name}) == set()
    assert not [path for path in tmp_path.iterdir() if path != owner and "patient" in words_of(path)]


# Everything that can go wrong


def spoil(rows, how, path):
    """Writes a table that cannot be used, for the reason given."""
    if how == "broken quotes":
        write_csv(path, rows)
        text = path.read_text(encoding="utf-8").splitlines(keepends=True)
        middle = len(rows) // 2 + 1
        path.write_text("".join([*text[:middle], '"' + text[middle], *text[middle + 1 :]]), encoding="utf-8")
    elif how == "too many fields":
        write_csv(path, rows)
        text = path.read_text(encoding="utf-8").splitlines(keepends=True)
        middle = len(rows) // 2 + 1
        text[middle] = text[middle].rstrip("\n") + ",more,and more\n"
        path.write_text("".join(text), encoding="utf-8")
    elif how == "no header":
        write_csv(path, [rows[len(rows) // 2], *rows])
        path.write_text(path.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")
    elif how == "wrong encoding":
        rows[600] = {**rows[600], "ward": "Zürich"}
        write_csv(path, rows, encoding="latin-1")
    elif how == "missing values":
        write_csv(path, [{**row, "gender": None} if place % 3 else row for place, row in enumerate(rows)])
    elif how == "too few records":
        write_csv(path, rows[len(rows) // 2 - 50 : len(rows) // 2 + 50])
    elif how == "one disease":
        write_csv(
            path, [{**row, SENSITIVE: row[SENSITIVE] if row[SENSITIVE] == TEXT else "flu"} for row in rows]
        )
    elif how == "truncated":
        whole = write_parquet(path, rows).read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])
    elif how == "damaged":
        content = bytearray(write_parquet(path, rows).read_bytes())
        content[200 : len(content) // 4] = bytes(len(content) // 4 - 200)
        path.write_bytes(content)
    elif how == "other types":
        wrapped = {name: [[row[name]] for row in rows] for name in rows[0]}
        pq.write_table(pa.table(wrapped), path)
    return path


FAILURES = {
    "broken quotes": "csv", "too many fields": "csv", "no header": "csv", "wrong encoding": "csv",
    "missing values": "csv", "too few records": "csv", "one disease": "csv",
    "truncated": "parquet", "damaged": "parquet", "other types": "parquet",
}  # fmt: skip


@pytest.mark.parametrize(
    ("how", "column"),
    [
        pytest.param(how, column, marks=[] if turn % 4 == place else [pytest.mark.slow])
        for turn, how in enumerate(FAILURES)
        for place, column in enumerate(("postal_code", "income", "born", "disease"))
    ],
)
def test_a_secret_in_a_table_that_cannot_be_used(elldelta, innocent, tmp_path, how, column):
    """Whatever a command makes of it, and however it ends: not one word of the secret."""
    source = spoil(planted(column), how, tmp_path / f"owner.{FAILURES[how]}")
    out = tmp_path / "out"
    out.mkdir()
    schema, plan = innocent / "schema.toml", innocent / "plan.json"
    commands = {
        "release": ("release", source, "--plan", plan, "-o", out / "release.csv"),
        "estimate": ("estimate", source, "--schema", schema, "-o", out / "model.parquet"),
        "infer": ("schema", "infer", source, "--qi", "gender,born", "--sensitive", SENSITIVE,
                  "-o", out / "schema.toml"),
        "audit": ("audit", source, "--columns", schema, "--ell", "2"),
    }  # fmt: skip
    if column == "postal_code":  # records in the place of something else; no column matters there
        commands["show"] = ("model", "show", source)
        commands["as plan"] = ("release", source, "--plan", source, "-o", out / "release.csv")
        commands["as schema"] = ("estimate", source, "--schema", source, "-o", out / "model.parquet")
    for name, command in commands.items():
        for options in ((), ("--json",)) if name == "release" else (("--json",),):
            finished = elldelta(*command, *options, code=ANY_CODE)
            may_work = {0, 2, 3} if name in {"infer", "estimate"} else {2, 3}
            assert finished.code in may_work, (name, finished)
            for mark in spellings(column):
                assert mark not in finished.out + finished.err, (name, finished)
            for path in out.iterdir():
                # a schema inferred from these records names the categories it saw: that is its purpose
                if not (name == "infer" and COLUMNS[column] == "text"):
                    assert not tells(column, path), (name, path)
                path.unlink()


@pytest.mark.parametrize(
    "column", ["postal_code", *(pytest.param(name, marks=pytest.mark.slow) for name in ("income", "born"))]
)
def test_a_secret_when_the_command_is_interrupted(in_process, innocent, tmp_path, column):
    owner = write_csv(tmp_path / "owner.csv", planted(column, n=8_000))
    room = tmp_path / "temporary"
    room.mkdir()
    process = in_process(
        "release", owner, "--plan", innocent / "plan.json", "-o", tmp_path / "release.csv",
        env={**os.environ, "TMPDIR": str(room)},
    )  # fmt: skip
    while process.poll() is None and not any(room.iterdir()):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert not any(mark in out + err for mark in spellings(column))
    assert where(column, tmp_path, besides={owner.name}) == set()


def test_the_search_finds_what_it_looks_for(tmp_path):
    """The tests above could not fail if this did not hold."""
    for column, kind in COLUMNS.items():
        for write, suffix in ((write_csv, "csv"), (write_parquet, "parquet")):
            folder = tmp_path / column / suffix
            folder.mkdir(parents=True)
            write(folder / f"table.{suffix}", planted(column))
            write(folder / f"innocent.{suffix}", table(1))
            assert where(column, folder) == {f"table.{suffix}"}, (column, kind, suffix)
