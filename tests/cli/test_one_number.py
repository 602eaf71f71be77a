"""One count of classes and one information loss, from the first look to the page that somebody signs."""

import json
import shlex

import pytest

from elldelta.agency.registration import registration_of, validate_registration
from elldelta.audit.evidence_form import write_form
from elldelta.plan.plan import read_plan

ASKED = ("--ell", "3", "--releases", "2", "--delta", "0.02")


def test_every_surface_tells_the_same(elldelta, story, tmp_path):
    """The owner's table is the past itself, so that a forecast is what comes out."""
    plan, target, form = tmp_path / "plan.json", tmp_path / "release.csv", tmp_path / "about.toml"
    [point] = elldelta("frontier", story.model, *ASKED, "--records", "2500", "--json").json["points"]
    planned = elldelta("plan", story.model, *ASKED, "--records", "2500", "-o", plan, "--json").json
    released = elldelta("release", story.past, "--plan", plan, "-o", target, "--json").json
    manifest = json.loads(target.with_name("release.csv.manifest.json").read_text())
    verified = elldelta("verify", target, "--plan", plan, "--json").json
    [audited] = elldelta("audit", target, "--json").json["releases"]
    write_form(plan, form)
    text = form.read_text(encoding="utf-8").replace('= ""', '= "said"').replace('"?"', '"no"')
    form.write_text(text.replace("threshold  = 0.09", "threshold = 1.0"), encoding="utf-8")
    folder = tmp_path / "evidence"
    elldelta("evidence", target, "--plan", plan, "--about", form, "-o", folder)
    record = json.loads((folder / "evidence.json").read_text())
    known = read_plan(plan)
    registered = validate_registration(known, registration_of(target, known), owner="owner")
    classes = {
        "frontier": point["classes"]["certified"],
        "plan": planned["classes"],
        "release": released["classes_published"],
        "of the plan": released["classes_planned"],
        "manifest": manifest["classes_published"],
        "verify": verified["classes"],
        "audit": audited["classes"],
        "evidence": record["releases"][0]["classes"],
        "agency": int(registered.counts.any(axis=1).sum()),
    }
    losses = {
        "frontier": point["loss"]["certified"],
        "plan": planned["loss"],
        "release": released["loss"],
        "manifest": manifest["loss"],
        "verify": verified["loss"],
        "audit": audited["loss"],
        "evidence": record["releases"][0]["loss"],
        "agency": registered.loss,
    }
    assert len(set(classes.values())) == 1, classes
    assert len(set(losses.values())) == 1, losses
    assert classes["plan"] > 5
    assert 0.0 < losses["plan"] < 1.0
    shown = f"{losses['plan']:.4f}"
    assert shown in (folder / "evidence.html").read_text(encoding="utf-8")
    again = ("--overwrite", "-o", target)
    for command in (
        ("frontier", story.model, *ASKED, "--records", "2500"),
        ("plan", story.model, *ASKED, "--records", "2500", "--overwrite", "-o", plan),
        ("release", story.past, "--plan", plan, *again),
        ("verify", target, "--plan", plan),
        ("audit", target),
    ):
        assert shown in elldelta(*command).out


@pytest.mark.slow
def test_the_demo_tells_what_its_own_files_say(elldelta, tmp_path):
    told = elldelta("demo", "-o", tmp_path / "demo", "--json").json
    model, plan = tmp_path / "demo" / "model.parquet", read_plan(tmp_path / "demo" / "plan.json")
    asked = ("--ell", plan.ells[0], "--releases", plan.releases, "--records", plan.records)
    [point] = elldelta("frontier", model, *asked, "--json").json["points"]
    assert told["classes"] == point["classes"]
    assert told["loss"] == point["loss"]
    assert told["classes"]["certified"] == plan.n_classes


def test_check_ends_with_a_command_that_fits_the_table(elldelta, story, tmp_path):
    target = tmp_path / "release.csv"
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", target)
    roles = ("--qi", "postal_code,gender,age", "--sensitive", "disease")
    shown = "".join(elldelta("check", target, *roles).out.split())
    assert f"Next,tolinkitwithotherreleases:elldeltaaudit{target}OTHER" in shown
    alone = tmp_path / "alone.csv"
    alone.write_text("postal_code,gender,age,disease\n1,F,30,flu\n2,M,31,gout\n", encoding="utf-8")
    shown = elldelta("check", alone, *roles).out
    assert "1 record in the smallest class" in shown
    assert "elldelta schema infer" in shown


def test_check_repeats_how_the_table_is_read_in_the_command_that_comes_next(elldelta, tmp_path):
    table, schema = tmp_path / "a table.csv", tmp_path / "schema.toml"
    text = "ort,age,disease\n" + "Köln,30,flu\nUlm,31,-\nUlm,30,none\n" * 5
    table.write_text(text, encoding="latin-1")
    read = ("--csv", "encoding=latin-1", "--na", "disease=none", "--not-na", "disease=-")
    shown = elldelta("check", table, "--qi", "ort,age", "--sensitive", "disease", *read).out
    command = shlex.split(shown.rpartition("elldelta ")[2])
    command[command.index("schema.toml")] = str(schema)
    elldelta(*command)
    assert "Köln" in schema.read_text(encoding="utf-8")


def test_every_record_that_a_model_lacks_is_told(elldelta, tmp_path):
    table, schema = tmp_path / "t.csv", tmp_path / "s.toml"
    rows = "".join(f"{place % 3},{'abc'[place % 3]}\n" for place in range(30))
    table.write_text(f"job,value\n{rows}1,\n", encoding="utf-8")
    proposed = elldelta("schema", "infer", table, "--qi", "job", "--sensitive", "value", "-o", schema)
    assert "--bins" not in proposed.out + proposed.err  # three numbers in ranges of five are one
    told = elldelta("estimate", table, "--schema", schema, "-o", tmp_path / "m.parquet").out
    assert "Counted 30 of 31 records" in told
    assert "Left out: 1 record with a missing value." in told
