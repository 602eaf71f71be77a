"""What people are told when something is wrong with what they gave: enough to end the matter."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.release.hospital_tables import SENSITIVE, make_rows, write_csv, write_parquet

import elldelta as ed
from elldelta.files import AtomicFiles, read_header, unreadable
from elldelta.files.csv_format import CsvFormat

SOURCE = Path(ed.__file__).parent


@pytest.fixture
def strange(tmp_path):
    """An owner's table with values outside the domains."""
    rows = make_rows(3000, seed=2)
    for row in rows[10:15]:
        row["postal_code"] = "99999"
    rows[20]["age"] = 77
    return write_csv(tmp_path / "strange.csv", rows)


@pytest.fixture
def two(elldelta, story, tmp_path):
    """A folder with two releases and their manifests."""
    for name, owner in (("one.csv", story.owner_a), ("two.csv", story.owner_b)):
        elldelta("release", owner, "--plan", story.plan, "-o", tmp_path / name)
    return tmp_path


def refusal(elldelta, *arguments, code=2):
    return elldelta(*arguments, "--json", code=code).error


# Values, columns, lines


def test_values_outside_their_domains(elldelta, story, strange, tmp_path):
    error = refusal(elldelta, "release", strange, "--plan", story.plan, "-o", tmp_path / "r.csv")
    assert "column 'postal_code': 5 (its domain is 5 values)" in error["found"]
    assert "column 'age': 1 (its domain is 30-41)" in error["found"]
    assert error["options"] == ["--map", "--outside"]
    assert "made the plan" in error["remedy"]
    error = refusal(elldelta, "estimate", strange, "--schema", story.schema, "-o", tmp_path / "m.parquet")
    assert "extend the domains in the schema" in error["remedy"]
    assert error["options"] == ["--outside"]


def test_values_are_shown_to_a_terminal_and_only_on_request(elldelta, story, strange, tmp_path, monkeypatch):
    command = ("release", strange, "--plan", story.plan, "-o", tmp_path / "r.csv")
    assert "terminal" in refusal(elldelta, *command, "--outside", "show")["problem"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    asked = elldelta(*command, "--outside", "show", code=2)
    assert "Not in the domain of 'postal_code', for instance: '99999'" in asked.err
    assert "Not in the domain of 'age', for instance: '77'" in asked.err
    assert "99999" not in asked.out
    assert "99999" not in elldelta(*command, code=2).err


def test_python_is_told_examples_only_if_it_asks(story, strange):
    seen = {}
    with pytest.raises(ed.DataError) as refused:
        ed.release(strange, story.plan, show_values=seen.__setitem__)
    assert seen == {"postal_code": ["99999"], "age": ["77"]}
    assert "99999" not in str(refused.value)


def test_a_missing_column_and_what_is_there_instead(elldelta, story, tmp_path):
    rows = [
        {("Gendre" if key == "gender" else key): row[key] for key in row} for row in make_rows(50, seed=2)
    ]
    for source in (write_csv(tmp_path / "o.csv", rows), write_parquet(tmp_path / "o.parquet", rows)):
        error = refusal(elldelta, "release", source, "--plan", story.plan, "-o", tmp_path / "r.csv")
        assert "'postal_code', 'Gendre', 'age'" in error["found"]
        assert "nearest name is 'Gendre'" in error["remedy"]


def test_the_first_record_of_a_file_without_header_is_not_listed(elldelta, story, tmp_path):
    source = tmp_path / "bare.csv"
    source.write_text("Zzyzx,F,31,flu\n" + "01001,M,32,flu\n" * 5, encoding="utf-8")
    error = refusal(elldelta, "release", source, "--plan", story.plan, "-o", tmp_path / "r.csv")
    assert "Zzyzx" not in json.dumps(error)
    assert "first line is a header" in error["remedy"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_ragged_file_is_named_with_its_line(elldelta, story, tmp_path, encoding):
    whole = write_csv(tmp_path / "whole.csv", make_rows(300, seed=2), encoding=encoding)
    ragged = tmp_path / "ragged.csv"
    lines = whole.read_bytes().splitlines(keepends=True)
    ragged.write_bytes(b"".join([*lines[:100], b"01001,F\n", *lines[100:]]))
    error = refusal(
        elldelta, "release", whole, ragged, "--plan", story.plan, "-o", tmp_path / "r.csv",
        "--csv", f"encoding={encoding}",
    )  # fmt: skip
    assert "ragged.csv" in error["problem"]
    assert error["found"] == "Line 101 has 2 fields, the header has 7."


def test_what_may_not_be_read_is_not_called_damaged(story, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ed.FileError) as refused:
        read_header(story.owner_b, CsvFormat())
    assert "Permission denied" in refused.value.found
    assert "permission" in refused.value.remedy
    assert "whole" not in str(refused.value)
    assert "permission" in unreadable("m.parquet", "model", PermissionError(13, "")).remedy


# Numbers


def test_too_few_records_says_how_many_were_left_out_and_why(elldelta, story, tmp_path):
    rows = make_rows(2510, seed=2)
    for row in rows[:20]:
        row["age"] = 77
    source = write_csv(tmp_path / "owner.csv", rows)
    command = ("release", source, "--plan", story.plan, "-o", tmp_path / "r.csv")
    error = refusal(elldelta, *command, "--outside", tmp_path / "q.csv", code=3)
    assert "10 are missing" in error["found"]
    assert (
        "Of 2,510 records 20 were left out: 0 with a missing value, 20 with a value outside" in error["found"]
    )


def test_a_release_of_nothing_is_refused(elldelta, story, tmp_path):
    rows = make_rows(2500, seed=2)
    for row in rows:
        row["disease"] = rows[0]["disease"]
    source = write_csv(tmp_path / "owner.csv", rows)
    target = tmp_path / "r.csv"
    command = ("release", source, "--plan", story.plan, "-o", target, "--leave-out")
    error = refusal(elldelta, *command, code=3)
    assert "Nothing would be left" in error["problem"]
    assert [path.name for path in tmp_path.iterdir()] == ["owner.csv"]


def test_an_option_that_takes_one_value_is_given_once(elldelta, story, tmp_path):
    for command in (
        ("check", story.past, "--qi", "age", "--sensitive", SENSITIVE, "--sensitive", "gender"),
        ("schema", "infer", story.past, "--qi", "age", "--qi", "gender", "--sensitive", SENSITIVE,
         "-o", tmp_path / "s.toml"),
        ("plan", story.model, "--ell", "3", "--ell", "2", "--releases", "1", "--records", "2500",
         "-o", tmp_path / "p.json"),
    ):  # fmt: skip
        assert "is given 2 times" in refusal(elldelta, *command)["problem"]


def test_numbers_that_cannot_be_meant(elldelta, story, tmp_path):
    for records in ("0", "-3", str(10**20)):
        command = (
            "plan",
            story.model,
            "--ell",
            "3",
            "--releases",
            "1",
            "--records",
            records,
            "-o",
            tmp_path / "p.json",
        )
        error = refusal(elldelta, *command)
        assert "number of records must be" in error["problem"]
        assert error["found"] == f"It is {records}."
    said = elldelta(
        "plan", story.model, "--ell", "1", "--releases", "1", "--records", "2500", "-o", tmp_path / "p.json"
    ).err
    assert "promises nothing" in said


# Releases that are given together


def test_the_same_release_twice(elldelta, two):
    assert "given twice" in refusal(elldelta, "audit", two / "one.csv", two / "one.csv")["problem"]
    assert "given twice" in refusal(elldelta, "verify", two / "*.csv", two / "one.csv")["problem"]


def test_a_copy_of_a_release_is_noticed(elldelta, story, two):
    for suffix in ("", ".manifest.json"):
        shutil.copy(two / f"one.csv{suffix}", two / f"copy.csv{suffix}")
    told = elldelta("audit", two / "one.csv", two / "copy.csv").out
    assert "The same content twice: one.csv and copy.csv" in told
    assert "The same content" not in elldelta("audit", two / "one.csv", two / "two.csv").out
    command = ("release", story.owner_a, "--plan", story.plan, "--ledger", two / "l.jsonl", "--owner", "A")
    assert "Wrote a line to" in elldelta(*command, "-o", two / "first.csv").out
    assert "held this release already: no line was added" in elldelta(*command, "-o", two / "again.csv").out


def test_globs_and_several_files_without_their_manifests(elldelta, story, two):
    names = [item["name"] for item in elldelta("audit", two / "*", "--json").json["releases"]]
    assert names == ["one.csv", "two.csv"]
    assert elldelta("audit", *two.iterdir(), "--json").json["diversity_min"] is not None
    checked = elldelta("verify", two / "*.csv", "--plan", story.plan, "--json").json["releases"]
    assert [item["certified"] for item in checked] == [True, True]
    assert "No file matches" in refusal(elldelta, "audit", two / "*.nothing")["problem"]


def test_one_bad_release_among_several_does_not_hide_the_others(elldelta, two):
    (two / "one.csv").write_text((two / "two.csv").read_text(encoding="utf-8"), encoding="utf-8")
    told = elldelta("verify", two / "*.csv", code=2)
    assert "one.csv FAILS" in told.out
    assert "two.csv is what its manifest says" in told.out


def test_what_was_written_is_said(elldelta, story, strange, two):
    page = two / "audit.html"
    told = elldelta("audit", two / "one.csv", two / "two.csv", "--report", page).out
    assert f"Wrote {page}" in told
    aside, target = two / "aside.csv", two / "third.csv"
    told = elldelta("release", strange, "--plan", story.plan, "-o", target, "--outside", aside).out
    assert f"Wrote 6 records to {aside}" in told
    model = two / "model.png"
    assert f"Wrote {model}" in elldelta("model", "show", story.model, "--picture", model).out


def test_the_audit_of_one_release_does_not_speak_of_linking(elldelta, two):
    page = two / "alone.html"
    told = elldelta("audit", two / "one.csv", "--report", page).out
    text = re.sub(r"<(style|svg).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    body, _, _ = text.partition("What to do next")
    for words in (told, body):
        assert "Safe by itself" in words
        assert not re.search(r"link|all releases|side by side", words, flags=re.IGNORECASE)
    together = elldelta("audit", two / "one.csv", two / "two.csv").out
    assert "Safe against linking" in together


def test_a_report_is_a_page(elldelta, story, two):
    error = refusal(elldelta, "audit", two / "one.csv", "--report", two / "x.pdf")
    assert ".html" in error["remedy"]
    error = refusal(elldelta, "model", "show", story.model, "--picture", two / "x.pdf")
    assert ".svg" in error["found"]
    assert not list(two.glob("x.*"))


def test_a_missing_plan_is_told_before_an_engine_starts(elldelta, story, tmp_path, monkeypatch):
    monkeypatch.setattr("elldelta.engines.connect", lambda *_, **__: pytest.fail("it was started"))
    command = ("release", story.owner_a, "--plan", tmp_path / "no.json", "-o", tmp_path / "r.parquet")
    assert "no.json" in refusal(elldelta, *command, "--engine", "spark")["problem"]
    assert (
        "no.json"
        in refusal(
            elldelta, "verify", tmp_path / "r.parquet", "--plan", tmp_path / "no.json", "--engine", "spark"
        )["problem"]
    )
    assert "no.toml" in refusal(
        elldelta, "estimate", story.past, "--schema", tmp_path / "no.toml", "-o", tmp_path / "m.parquet",
        "--engine", "spark",
    )["problem"]  # fmt: skip


# Python and the command line


def texts_outside(*rooms):
    """Every string in the source but docstrings."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).as_posix().startswith(rooms):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # docstrings, also of attributes
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                yield f"{path.name}: {node.value}"


def test_messages_of_the_library_cite_no_options_of_the_command_line():
    option = re.compile(r"(?<![-\w])--[a-z][a-z-]+|(?<!\w)-o FILE")
    commands = re.compile(
        r"elldelta audit (OLD ... --before NEW|RELEASES --closeness-to PLAN)"
    )  # advice that is a command
    cited = [
        text for text in texts_outside("cli/", "agency/server/") if option.search(commands.sub("", text))
    ]
    assert not cited


def test_a_parameter_in_a_message_is_shown_as_its_option(elldelta, story, tmp_path):
    target = tmp_path / "taken.csv"
    target.touch()
    with pytest.raises(ed.FileError, match=r"Parameter: overwrite\."), AtomicFiles() as files:
        files.stage(target)
    command = ("release", story.owner_a, "--plan", story.plan, "-o", target)
    assert refusal(elldelta, *command)["options"] == ["--overwrite"]
    assert "Option: --overwrite." in elldelta(*command, code=2).err


def texts_of_errors():
    """What errors and notes say, in the parts of the package that know no command line."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] == "cli":
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(call, "func", None), "id", "")
            if isinstance(call, ast.Call) and (name.endswith("Error") or name == "Note"):
                texts = [item.value for item in call.keywords if item.arg in ("found", "remedy")]
                for part in map(literals, [*call.args, *texts]):
                    yield from ((path.name, text) for text in part)


def literals(text):
    """The texts that stand in an expression as they are shown."""
    if isinstance(text, ast.Constant):
        return [text.value] if isinstance(text.value, str) else []
    parts = (
        text.values
        if isinstance(text, ast.JoinedStr)
        else [text.body, text.orelse]
        if isinstance(text, ast.IfExp)
        else []
    )
    return [found for part in parts for found in literals(part)]


def test_texts_of_errors_name_no_parameter_in_code():
    code = re.compile(r"`|(?<![-\w])--[a-z]|(?<!')\b[a-z]{2,}_[a-z_]+\b")
    assert not [found for found in texts_of_errors() if code.search(found[1])]
    assert sum(1 for _ in texts_of_errors()) > 1000
