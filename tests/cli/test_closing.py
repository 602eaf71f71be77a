"""The five lines at the end of `plan`, `release`, `audit` and `evidence`."""

import json
import shlex

import pytest
from tests.release.hospital_tables import make_rows, write_csv

from elldelta.audit.evidence_form import write_form

LINES = ("Promised:", "Found:", "Lost:", "Left out:", "Do next:")


def closing(printed):
    """The last five lines by their names."""
    lines = printed.splitlines()[-len(LINES) :]
    found = {line[:10].strip(): line[10:].strip() for line in lines}
    assert tuple(found) == LINES
    assert all(found.values())
    return found


def paste(elldelta, closed, code=0):
    """Runs the command that the last line gives."""
    _, found, command = closed["Do next:"].rpartition("elldelta ")
    assert found
    return elldelta(*shlex.split(command), code=code)


@pytest.fixture
def form(story, tmp_path):
    def filled(**answers):
        path = tmp_path / "about.toml"
        path.unlink(missing_ok=True)
        write_form(story.plan, path)
        text = path.read_text(encoding="utf-8").replace('""', '"x"')
        for name, answer in answers.items():
            text = "\n".join(
                f"{name} = {answer}" if line.startswith(name) else line for line in text.splitlines()
            )
        path.write_text(text, encoding="utf-8")
        return path

    return filled


def test_each_command_ends_with_a_command_that_works(elldelta, story, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan, target = tmp_path / "a plan.json", tmp_path / "release.csv"
    wish = ("--ell", "3", "--releases", "2", "--records", "2500")
    planned = closing(elldelta("plan", story.model, *wish, "-o", plan).out)
    words = {"TABLE": str(story.owner_a), "RELEASE": str(target)}
    _, _, command = planned["Do next:"].rpartition("elldelta ")
    made = closing(elldelta(*(words.get(part, part) for part in shlex.split(command))).out)
    assert made["Left out:"] == "None (3,000 read, 3,000 released)."
    assert "is what its manifest says" in paste(elldelta, made).out
    page = paste(elldelta, closing(elldelta("audit", target).out))
    assert (tmp_path / "audit.html").exists()
    detailed = paste(elldelta, closing(page.out))  # the page is there: everything is printed
    assert "Everybody who is in the release is left among" in detailed.out
    ready = ("evidence", target, "--plan", plan, "--about", form(threshold=0.9, contained='"no"'))
    shown = closing(elldelta(*ready, "-o", tmp_path / "evidence").out)
    assert shown["Found:"].endswith("Not signed.")
    paste(elldelta, shown)


def test_a_plan_names_the_options_that_its_releases_need(elldelta, story, tmp_path):
    wish = ("--ell", "3", "--owners", "2", "--merge-risk", "0.1", "--records", "2500")
    planned = closing(elldelta("plan", story.model, *wish, "-o", tmp_path / "plan.json").out)
    needed = "--ledger LEDGER --owner NAME --key KEY --announced NAME -o RELEASE"
    assert planned["Do next:"].endswith(needed)


def test_details_are_printed_only_where_they_are_asked_for(elldelta, story, tmp_path):
    one = elldelta("release", story.owner_a, "--plan", story.plan, "-o", tmp_path / "1.csv").out
    two = elldelta("release", story.owner_a, "--plan", story.plan, "-o", tmp_path / "2.csv", "--details").out
    assert "Every class shows" not in one
    assert "Every class shows" in two
    assert closing(one)["Found:"] == closing(two)["Found:"]


def test_what_is_not_safe_hides_behind_nothing(elldelta, story, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "release.csv"
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", target)
    unsafe = closing(elldelta("audit", target, "--ell", "60", code=3).out)
    assert unsafe["Found:"].startswith("Not safe: ")
    assert "60 were asked for" in unsafe["Found:"]
    assert unsafe["Promised:"].startswith("At least 60 values of 'disease' left (asked for)")
    paste(elldelta, unsafe, code=3)
    ready = ("evidence", target, "--plan", story.plan, "--about", form(threshold=0.00001))
    shown = closing(elldelta(*ready, "-o", tmp_path / "evidence", code=3).out)
    assert shown["Found:"].startswith("Not safe by the form")
    assert shown["Found:"].endswith("it does not hold.")
    paste(elldelta, shown)
    before = closing(elldelta("audit", "--before", target, "--ell", "60", code=3).out)
    assert before["Found:"].startswith("Do not publish: ")


def test_what_was_not_judged_is_told(elldelta, story, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan, target = tmp_path / "plan.json", tmp_path / "release.csv"
    elldelta("plan", story.model, "--closeness", "0.9", "--releases", "1", "--records", "2500", "-o", plan)
    elldelta("release", story.owner_a, "--plan", plan, "-o", target)
    shown = closing(elldelta("audit", target, code=2).out)
    assert shown["Found:"].startswith("Not judged: ")
    assert "--closeness-to" in shown["Do next:"]
    assert closing(paste(elldelta, shown).out)["Found:"].startswith("Safe by itself")


def test_a_loss_without_a_manifest_is_no_upper_bound(elldelta, story, tmp_path):
    """Over the range that labels name a release may lose less than over the range that was seen."""
    described, bare = tmp_path / "described.csv", tmp_path / "bare.csv"
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", described)
    elldelta("release", story.owner_b, "--plan", story.plan, "-o", bare)
    assert closing(elldelta("audit", described, bare).out)["Lost:"].startswith("At most ")
    (tmp_path / "bare.csv.manifest.json").unlink()
    mixed = closing(elldelta("audit", described, bare).out)["Lost:"]
    assert mixed.startswith("Highest measured: ")
    assert "; over the range that labels name where there is no manifest" in mixed
    columns = ("--columns", story.schema)
    alone = closing(elldelta("audit", bare, *columns, "--ell", "2").out)["Lost:"]
    assert "; over the domains of the schema, without the records that were left out" in alone


def test_the_account_of_records_adds_up(elldelta, story, tmp_path):
    repeated = tmp_path / "repeated.csv"
    lines = write_csv(tmp_path / "owner.csv", make_rows(3000, seed=5)).read_text("utf-8").splitlines()
    persons = [f"{lines[0]},who", *(f"{line},p{place}" for place, line in enumerate(lines[1:]))]
    persons += persons[1:501]  # five hundred records twice
    repeated.write_text("\n".join([*persons, ""]), encoding="utf-8")
    command = ("release", repeated, "--plan", story.plan, "--person", "who", "-o", tmp_path / "r.csv")
    account = elldelta(*command, "--json").json["records"]
    assert (account["read"], account["repeated"]) == (len(persons) - 1, 500)
    released = account["released"] + account["repeated"] + sum(account["left_out"].values())
    assert account["read"] + account["lingering"] == released
    said = closing(elldelta(*command, "--overwrite").out)["Left out:"]
    assert said == f"None ({account['read']:,} read, {account['released']:,} released, " + (
        "500 repeat another of the person)."
    )
    assert json.loads((tmp_path / "r.csv.manifest.json").read_text())["records_read"] == account["read"]
