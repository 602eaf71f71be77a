"""Evidence for those who sign: what the folder holds, what it refuses, and that it says what was found."""

import datetime as dt
import importlib.util
import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pytest
from tests.release.hospital_tables import make_rows, write_parquet

import elldelta as ed
from elldelta.audit.evidence import evidence, verify_evidence
from elldelta.audit.evidence_form import NOT_STATED, read_about, write_form
from elldelta.cli.main import execute
from elldelta.errors import FileError, InputError, ParameterError, RefusedError
from elldelta.files import PrivateKey, as_bytes, seal, write_key_pair
from elldelta.pages.page import percent
from elldelta.plan.signature import sign_plan, write_signature

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
SAID = "a reason with <b>marks</b> & more"


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """A plan, two releases of it, and a form that was filled in."""
    folder = tmp_path_factory.mktemp("hospital")
    past = write_parquet(folder / "past.parquet", make_rows(6000, seed=1))
    schema = ed.Schema.infer(past, quasi_identifiers=["postal_code", "gender", "age"], sensitive="disease")
    plan = ed.plan(ed.estimate(past, schema), ell=2, releases=2, records=3000)
    ed.write_plan(plan, folder / "plan.json")
    for name, seed in (("a", 2), ("b", 3)):
        table = write_parquet(folder / f"own_{name}.parquet", make_rows(3000, seed=seed))
        ed.release(table, plan, to=folder / f"{name}.parquet")
    write_form(folder / "plan.json", folder / "about.toml", today=dt.date(2026, 1, 1))
    text = (folder / "about.toml").read_text(encoding="utf-8")
    text = re.sub(r'= ""', f'= "{SAID}"', text).replace("threshold  = 0.09", "threshold  = 0.5")
    (folder / "about.toml").write_text(text, encoding="utf-8")
    return folder


def make(hospital, to, *, key=None, **options):
    named = {"about": hospital / "about.toml", "to": to, "now": MOMENT, **options}
    return evidence([hospital / "a.parquet"], hospital / "plan.json", key=key, **named)


@pytest.fixture(scope="module")
def made(hospital, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    key = PrivateKey.create()
    write_key_pair(key, folder / "agency.key", folder / "agency.pem")
    record = make(hospital, folder / "made", key=key, published=[hospital / "b.parquet"])
    return folder, record, key


def test_the_folder_holds_page_pdf_record_crate_and_what_they_are_about(made, hospital):
    folder, record, _ = made
    names = {path.name for path in (folder / "made").iterdir()}
    assert names == {
        "evidence.html", "evidence.pdf", "evidence.json", "evidence.json.sig", "ro-crate-metadata.json",
        "plan.json", "a.parquet.manifest.json", "about.toml",
    }  # fmt: skip
    assert (folder / "made" / "evidence.pdf").read_bytes().startswith(b"%PDF-")
    assert json.loads((folder / "made" / "evidence.json").read_text())["digest"] == record["digest"]
    audit = ed.audit([hospital / "b.parquet", hospital / "a.parquet"])
    assert record["linked"]["diversity_min_any"] == audit.diversity_min_any
    assert record["linked"]["surest_share"] == audit.surest_share


def test_the_risk_is_one_divided_by_the_smallest_class(made, hospital):
    (item,) = made[1]["releases"]
    table = ed.verify(hospital / "a.parquet")
    assert item["risk_highest"] == pytest.approx(1 / table.k)
    assert item["risk_mean"] == pytest.approx(table.classes / table.records)


def test_the_page_names_what_an_officer_asks_for_and_loads_nothing(made):
    folder, record, _ = made
    page = (folder / "made" / "evidence.html").read_text(encoding="utf-8")
    asked = ("Singling out", "Linkability", "Inference", "Five Safes", "expert determination", "disease")
    found = ("2026-01-02", "expires", record["plan"]["digest"], "no statement about any law")
    for words in (*asked, *found):
        assert words in page, words
    assert "&lt;b&gt;marks" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)


def test_the_crate_lists_every_file_with_its_digest(made):
    crate = json.loads((made[0] / "made" / "ro-crate-metadata.json").read_text())
    files = {thing["@id"] for thing in crate["@graph"] if thing["@type"] == "File" and thing["sha256"]}
    assert {"evidence.html", "evidence.pdf", "evidence.json", "plan.json"} <= files


def test_the_same_is_written_for_the_same_moment(made, hospital, tmp_path):
    folder, _, key = made
    make(hospital, tmp_path / "again", key=key, published=[hospital / "b.parquet"])
    for path in (folder / "made").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_signature_covers_every_file(made, tmp_path, capsys):
    folder, _, key = made
    words = ["signature", "verify", str(folder / "made" / "evidence.json"), "--agency-key"]
    assert execute([*words, str(folder / "agency.pem")]) == 0
    assert "has signed this evidence" in capsys.readouterr().out
    with pytest.raises(RefusedError):
        verify_evidence(folder / "made" / "evidence.json", PrivateKey.create().public_key)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (folder / "made").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    for name in ("evidence.html", "evidence.pdf", "about.toml"):
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content + b" ")
        with pytest.raises(RefusedError, match="not what was signed"):
            verify_evidence(copy / "evidence.json", key.public_key)
        (copy / name).write_bytes(content)
    record = (copy / "evidence.json").read_text()
    (copy / "evidence.json").write_text(record.replace("0.5", "0.6", 1))
    with pytest.raises(FileError):
        verify_evidence(copy / "evidence.json", key.public_key)


def test_a_record_that_was_not_signed_gains_nothing_from_a_signature_beside_it(made, tmp_path, capsys):
    folder, record, key = made
    shutil.copytree(folder / "made", tmp_path / "ev")
    content = {name: value for name, value in record.items() if name not in ("kind", "format", "digest")}
    forged = as_bytes(seal("evidence", 1, {**content, "made": "2030-01-01T00:00:00Z"}))
    (tmp_path / "ev" / "forged.json").write_bytes(forged)
    for name in ("forged.json", "evidence.json"):  # the second: a file that nobody has signed lies there
        with pytest.raises(RefusedError, match="not what was signed"):
            verify_evidence(tmp_path / "ev" / name, key.public_key)
    words = ["signature", "verify", str(tmp_path / "ev" / "forged.json"), "--agency-key"]
    assert execute([*words, str(folder / "agency.pem")]) != 0
    assert "has signed" not in capsys.readouterr().out
    (tmp_path / "ev" / "forged.json").unlink()
    assert verify_evidence(tmp_path / "ev" / "evidence.json", key.public_key)["made"] == record["made"]
    (tmp_path / "ev" / "evidence.json").write_bytes(forged)
    with pytest.raises(RefusedError, match="not what was signed"):
        verify_evidence(tmp_path / "ev" / "evidence.json", key.public_key)


def test_only_a_signature_that_was_checked_is_claimed(hospital, made, tmp_path):
    folder, _, key = made
    plan = tmp_path / "plan.json"
    shutil.copyfile(hospital / "plan.json", plan)
    write_signature(sign_plan(ed.read_plan(plan), key), plan)
    named = {"about": hospital / "about.toml", "now": MOMENT}
    for name, agency_key, words in (
        ("unchecked", None, "A signature lies beside the plan; it was not checked."),
        ("checked", folder / "agency.pem", "which was checked"),
    ):
        to = tmp_path / name
        record = evidence([hospital / "a.parquet"], plan, to=to, agency_key=agency_key, **named)
        assert record["plan"]["signed"] is (agency_key is not None)
        assert words in (to / "evidence.html").read_text(encoding="utf-8")


def test_no_file_of_the_folder_replaces_another(hospital, tmp_path):
    shutil.copyfile(hospital / "plan.json", tmp_path / "evidence.json")
    named = {"about": hospital / "about.toml", "to": tmp_path / "no", "now": MOMENT}
    with pytest.raises(ParameterError, match="same name"):
        evidence([hospital / "a.parquet"], tmp_path / "evidence.json", **named)
    for end in ("", ".manifest.json"):
        shutil.copyfile(hospital / f"b.parquet{end}", tmp_path / f"a.parquet{end}")
    with pytest.raises(ParameterError, match="same name"):
        evidence([hospital / "a.parquet", tmp_path / "a.parquet"], hospital / "plan.json", **named)
    assert not (tmp_path / "no").exists()


def test_what_is_published_may_be_named_by_a_glob(hospital, tmp_path):
    record = make(hospital, tmp_path / "globbed", published=[hospital / "b.par*"])
    assert [item["release"] for item in record["published"]] == ["b.parquet"]


def test_a_form_nested_without_end_is_refused(hospital, tmp_path):
    (tmp_path / "deep.toml").write_text("title = " + "[" * 5000 + "]" * 5000, encoding="utf-8")
    with pytest.raises(FileError, match="not TOML"):
        read_about(tmp_path / "deep.toml", ed.read_plan(hospital / "plan.json"))


def test_what_a_form_leaves_blank_is_marked_on_the_page(hospital, tmp_path):
    write_form(hospital / "plan.json", tmp_path / "about.toml")
    record = make(hospital, tmp_path / "made", about=tmp_path / "about.toml")
    assert {"title", "purpose", "quasi_identifiers.age"} <= set(record["about"]["not_stated"])
    page = (tmp_path / "made" / "evidence.html").read_text(encoding="utf-8")
    assert page.count(NOT_STATED) >= len(record["about"]["not_stated"])
    assert "Not stated in the form: title, publisher, " in page
    filled = make(hospital, tmp_path / "filled")
    assert filled["about"]["not_stated"] == []
    assert "stated" not in (tmp_path / "filled" / "evidence.html").read_text(encoding="utf-8")


def test_missing_packages_are_told_before_anything_is_read(hospital, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "rocrate" else found(name))
    with pytest.raises(InputError, match="Without: rocrate") as refused:
        evidence(["not there"], "not there", about="not there", to=tmp_path / "made")
    assert "pip install 'elldelta[evidence]'" in refused.value.remedy


def test_a_form_with_wrong_answers_is_refused(hospital, tmp_path):
    text = (hospital / "about.toml").read_text(encoding="utf-8")
    for wrong in ("threshold = 2", "review = 'soon'", "colour = 'red'", "title = '"):
        (tmp_path / "wrong.toml").write_text(re.sub(rf"^{wrong.split()[0]} .*\n", "", text, flags=re.M))
        with (tmp_path / "wrong.toml").open("r+", encoding="utf-8") as file:
            rest = file.read()
            file.seek(0)
            file.write(f"{wrong}\n{rest}")
        with pytest.raises(FileError):
            read_about(tmp_path / "wrong.toml", ed.read_plan(hospital / "plan.json"))


def stricter(hospital, tmp_path, threshold):
    text = (hospital / "about.toml").read_text(encoding="utf-8")
    (tmp_path / "strict.toml").write_text(text.replace("= 0.5 ", f"= {threshold} "), encoding="utf-8")
    return tmp_path / "strict.toml"


def test_a_risk_above_the_threshold_of_the_form_is_not_safe_and_not_signed(hospital, tmp_path, capsys):
    smallest = ed.verify(hospital / "a.parquet").k
    exactly, above = 1 / smallest, 1 / (smallest + 1)
    assert make(hospital, tmp_path / "at", about=stricter(hospital, tmp_path, exactly))["holds"] is True
    form = stricter(hospital, tmp_path, above)
    record = make(hospital, tmp_path / "above", about=form, key=PrivateKey.create())
    assert record["holds"] is False
    assert record["verdict"].startswith(
        "Not safe by the form: in a.parquet the identification risk is up to "
    )
    page = (tmp_path / "above" / "evidence.html").read_text(encoding="utf-8")
    assert not re.search(r"\bSafe (against|by itself)", page)
    assert f"No class of a plan made with --k {smallest + 1} does." in page
    assert not (tmp_path / "above" / "evidence.json.sig").exists()
    words = [
        "evidence",
        str(hospital / "a.parquet"),
        "--plan",
        str(hospital / "plan.json"),
        "--about",
        str(form),
    ]
    assert execute([*words, "-o", str(tmp_path / "command")]) == 3
    told = capsys.readouterr().out
    assert "Not safe by the form" in told
    assert "Not signed: it does not hold." in told


def test_what_does_not_hold_gets_a_page_that_says_so(hospital, tmp_path):
    alone = write_parquet(tmp_path / "alone.parquet", make_rows(300, seed=9))  # every value as it is
    for name in ("a.parquet", "a.parquet.manifest.json"):
        (tmp_path / name).write_bytes((hospital / name).read_bytes())
    record = make(hospital, tmp_path / "no", published=[alone])
    assert record["holds"] is False
    assert record["verdict"].startswith(
        "Not safe: for at least one person only 1 value is left; 2 were promised."
    )
    assert record["verdict"] in (tmp_path / "no" / "evidence.html").read_text(encoding="utf-8")
    crate = json.loads((tmp_path / "no" / "ro-crate-metadata.json").read_text())
    assert any(thing.get("description") == record["verdict"] for thing in crate["@graph"])
    (tmp_path / "there").mkdir()
    with pytest.raises(FileError):
        make(hospital, tmp_path / "there")


def test_the_strictest_promise_of_all_releases_counts(hospital, tmp_path):
    """A release that is published already promises three values; this one keeps two, as it promises."""
    schema = ed.read_plan(hospital / "plan.json").schema
    model = ed.estimate(hospital / "past.parquet", schema)
    strict = ed.plan(model, ell=3, releases=2, records=3000)
    ed.release(hospital / "own_b.parquet", strict, to=tmp_path / "strict.parquet")
    both = [tmp_path / "strict.parquet", hospital / "a.parquet"]
    found = ed.audit(both)
    record = make(hospital, tmp_path / "out", published=both[:1])
    assert record["linked"]["ell"] == found.ell == 3
    assert record["holds"] == found.holds
    assert record["verdict"] == found.verdict


def test_the_ledger_must_have_admitted_the_release(hospital, tmp_path):
    plan = ed.read_plan(hospital / "plan.json")
    ed.release(hospital / "own_b.parquet", plan, to=tmp_path / "b.parquet",
               ledger=ed.Ledger(tmp_path / "l.ledger", owner="b"))  # fmt: skip
    with pytest.raises(RefusedError, match="not admitted"):
        make(hospital, tmp_path / "no", ledger=tmp_path / "l.ledger")
    named = {"about": hospital / "about.toml", "to": tmp_path / "yes", "now": MOMENT}
    record = evidence([tmp_path / "b.parquet"], hospital / "plan.json", ledger=tmp_path / "l.ledger", **named)
    assert record["ledger"]["lines"] == 2
    assert "its chain is intact" in (tmp_path / "yes" / "evidence.html").read_text()


def test_the_command_says_what_is_missing_and_writes_a_form(hospital, tmp_path, capsys):
    plan = str(hospital / "plan.json")
    assert execute(["evidence", str(hospital / "a.parquet"), "--plan", plan]) == 2
    assert "--form" in capsys.readouterr().err
    assert execute(["evidence", "--plan", plan, "--form", str(tmp_path / "f.toml")]) == 0
    words = ["evidence", str(hospital / "a.parquet"), "--plan", plan, "--about", str(hospital / "about.toml")]
    assert execute([*words, "-o", str(tmp_path / "e"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["holds"] is True


def test_reports_of_audits_name_the_sensitive_column_digests_and_the_version(hospital, tmp_path):
    found = ed.audit([hospital / "a.parquet", hospital / "b.parquet"])
    ed.report(found, tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    for words in ("disease", ed.__version__, *found.plans, *found.contents):
        assert words in page
    ed.report(found, tmp_path / "public.html", public=True)
    page = (tmp_path / "public.html").read_text(encoding="utf-8")
    assert "disease" in page
    assert not any(digest in page for digest in found.contents)


def test_each_of_several_sensitive_columns_is_on_the_page_with_its_own_promise(tmp_path):
    rng = np.random.default_rng(1)
    rare = np.where(rng.random(4000) < 0.9, "x", rng.choice(["y", "z"], 4000))
    columns = {"age": rng.integers(20, 40, 4000), "disease": rng.choice(list("abcdef"), 4000), "state": rare}
    table = pa.table(columns)
    schema = ed.Schema.infer(table, ["age"], ["disease", "state"])
    plan = ed.plan(ed.estimate(table, schema), ell={"disease": 4, "state": 2}, releases=1, records=4000)
    ed.write_plan(plan, tmp_path / "plan.json")
    ed.release(table, plan, to=tmp_path / "both.parquet")
    write_form(tmp_path / "plan.json", tmp_path / "about.toml")
    form = (tmp_path / "about.toml").read_text(encoding="utf-8")
    form = form.replace('= ""', f'= "{SAID}"').replace("= 0.09", "= 0.5")
    (tmp_path / "about.toml").write_text(form, encoding="utf-8")
    record = evidence(
        [tmp_path / "both.parquet"],
        tmp_path / "plan.json",
        about=tmp_path / "about.toml",
        to=tmp_path / "out",
    )
    (other,) = record["linked"]["also"]
    assert (record["linked"]["ell"], other["ell"], other["column"]) == (4, 2, "state")
    assert other["surest_share"] > 0.85 > record["linked"]["surest_share"]
    page = (tmp_path / "out" / "evidence.html").read_text(encoding="utf-8")
    assert percent(other["surest_share"]) in page
    assert "state: At worst one value has 9" in page
    assert record["releases"][0]["manifest_sentences"][0] in page
