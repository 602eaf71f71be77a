"""The audit as people type it: releases of others, targets, subtraction, the gate, the page."""

import csv
import itertools
import re
import shutil

import pytest

NAME = "Zzyzx-Quokka"
FIRST = """age,sex,disease
20-40,M,flu
20-40,M,gout
20-40,F,flu
20-40,F,angina
[41-60],*,flu
[41-60],*,gout
*,*,asthma
"""
SECOND = """alter,sex,disease
20-30,*,flu
20-30,*,angina
31-60,*,gout
31-60,*,flu
31-60,*,asthma
"""
COLUMNS = """quasi_identifiers = ["age", "sex"]
sensitive = ["disease"]

[names."b.csv"]
age = "alter"
"""
BY_AGE = 'quasi_identifiers = ["age"]\nsensitive = ["disease"]\n'


@pytest.fixture
def theirs(tmp_path):
    """Two releases that somebody else made; the second calls a column differently."""
    for name, text in (("a.csv", FIRST), ("b.csv", SECOND)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "a.csv", tmp_path / "b.csv"


@pytest.fixture
def foreign(described):
    """What describes the columns of these releases."""
    return described(COLUMNS)


def test_releases_of_others_are_explained_and_linked(elldelta, theirs, foreign):
    told = elldelta("audit", *theirs, *foreign, "--explain", "--json").json
    assert told["is_clear"]
    meanings = {(row["column"], row["label"]): row["meaning"] for row in told["labels"]}
    assert meanings["age", "[41-60]"] == "41 to 60"
    assert ("sex", None) in meanings  # plain values are taken together
    assert "20 to 30" in elldelta("audit", *theirs, *foreign, "--explain").out
    result = elldelta("audit", *theirs, *foreign, "--ell", "2", "--json", code=3).json
    # a man of 25: flu, gout, asthma in a.csv against flu, angina in b.csv
    assert result["diversity_min"] == result["diversity_min_any"] == 1
    assert [bar["diversity"] for bar in result["histogram"]] == [1, 2, 3]
    assert result["baseline"] == pytest.approx(5 / 12)
    assert [point["releases"] for point in result["curve"]] == [1, 2]
    assert {item["without"] for item in result["left_out"]} == {"a.csv", "b.csv"}
    assert result["memberships"]["unknown"] == 4
    assert [reading["name"] for reading in result["readings"]] == ["shares of linked records", "Bayes' rule"]
    shown = elldelta("audit", *theirs, *foreign, "--ell", "2", code=3).out
    assert "Not safe: for at least one person only 1 value is left; 2 were asked for." in shown
    assert elldelta("audit", *theirs, *foreign, "--ell", "1").code == 0


def test_releases_of_others_are_read_as_their_csv_files_are_written(elldelta, theirs, foreign, tmp_path):
    expected = elldelta("audit", *theirs, *foreign, "--ell", "1", "--json").json
    for path in theirs:
        text = path.read_text(encoding="utf-8").replace("flu", "'fièvre, flu'").replace(",", "|")
        path.write_text(text.replace("fièvre| flu", "fièvre, flu"), encoding="latin-1")
    form = ("--csv", "encoding=latin-1", "--csv", "separator=|", "--csv", "quote='")
    found = elldelta("audit", *theirs, *foreign, *form, "--ell", "1", "--json").json
    assert found["histogram"] == expected["histogram"]
    assert [item["records"] for item in found["releases"]] == [
        item["records"] for item in expected["releases"]
    ]
    assert elldelta("audit", *theirs, *foreign, *form, "--explain", "--json").json["is_clear"]
    gate = ("audit", theirs[0], "--before", theirs[1], *foreign, *form, "--ell", "1", "--json")
    assert elldelta(*gate).json["holds"]


def test_a_label_with_two_meanings_is_refused_with_the_list(elldelta, described, tmp_path):
    release = tmp_path / "a.csv"
    release.write_text('job,disease\n"x,y",flu\nz,gout\n', encoding="utf-8")
    text = 'quasi_identifiers = ["job"]\nsensitive = ["disease"]'
    options = (*described(text), "--ell", "1")
    told = elldelta("audit", release, *options, "--explain", "--json", code=2).json
    assert [row["problem"] for row in told["labels"] if row["problem"]]
    refused = elldelta("audit", release, *options, "--json", code=2).error
    assert refused["remedy"]
    text = 'quasi_identifiers = [{ name = "job", separators = "values" }]\nsensitive = ["disease"]'
    elldelta("audit", release, *described(text), "--ell", "1")


@pytest.mark.parametrize(
    "options",
    [
        ("--contained", "a.csv"),
        ("--contained", "a.csv,c.csv"),
        ("--contained", "no", "--contained", "a.csv,b.csv"),
        ("--targets", "people.csv"),
        ("--before", "new.csv", "--report", "page.html"),
    ],
)
def test_options_that_make_no_sense_are_errors_of_three_parts(elldelta, theirs, foreign, options):
    refused = elldelta("audit", *theirs, *foreign, "--ell", "2", *options, "--json", code=2).error
    assert refused["problem"]
    assert refused["found"] or refused["remedy"]


def test_what_is_left_for_targets_goes_to_the_file_and_nowhere_else(elldelta, theirs, foreign, tmp_path):
    people, left = tmp_path / "people.csv", tmp_path / "left.csv"
    people.write_text(f"name,age,sex\n{NAME},25,M\nbob,50,\ncy,,F\ndee,99,M\n", encoding="utf-8")
    command = ("audit", *theirs, *foreign, "--ell", "2", "--targets", people, "--targets-output", left)
    result = elldelta(*command, "--json", code=3)
    assert result.json["targets"] == {
        "targets": 4, "in_all": 3, "below": 1, "exposed": 1, "outside": 0, "partly_known": 2,
    }  # fmt: skip
    with left.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {
        name: {row["candidate"]: int(row["records"]) for row in rows if row["name"] == name}
        for name in (NAME, "bob", "cy", "dee")
    }
    assert found[NAME] == {"flu": 1}
    assert found["bob"] == {"flu": 1, "gout": 1, "asthma": 1}
    assert set(found["cy"]) == {"flu", "angina", "gout", "asthma"}
    assert found["dee"] == {"": 0}  # nobody of that age is in the second release
    again = elldelta(*command, "--json", code=2)
    assert "exists" in again.error["found"] + again.error["problem"]
    shown = elldelta(*command, "--overwrite", code=3)
    for finished in (result, again, shown):
        assert NAME not in finished.out + finished.err
    assert "Of 4 targets, 3 can be in all releases" in shown.out
    assert not list(tmp_path.glob(".*part"))


def test_the_gate_names_the_classes_and_leaves_the_rest_alone(elldelta, theirs, foreign):
    first, second = theirs
    command = ("audit", first, "--before", second, *foreign)
    result = elldelta(*command, "--ell", "2", "--json", code=3).json
    assert result["before"] == "b.csv"
    assert result["published"] == ["a.csv"]
    assert [item["labels"] for item in result["classes"]] == [["20-30", "*"]]
    assert result["classes"][0]["values_left"] == 1
    assert result["classes_below"] == 1
    assert result["classes_below_already"] == 0
    shown = elldelta(*command, "--ell", "2", code=3).out
    assert "Do not publish" in shown
    assert "20-30" in shown
    hidden = elldelta(*command, "--ell", "2", "--public", code=3).out
    assert "20-30" not in hidden
    assert "may be published" in elldelta(*command, "--ell", "1").out
    # the order of typing that reads best: the second file is an argument, and published all the same
    third = shutil.copy(first, first.with_name("c.csv"))
    both = elldelta(*command, third, "--ell", "2", "--json", code=3).json
    assert both["published"] == ["a.csv", "c.csv"]


def test_subtraction_fails_an_audit_that_linking_passes(elldelta, described, tmp_path):
    """Everybody is left among three values by linking; the difference shows one person alone."""
    values = {0: "abc", 1: "a", 2: "abc"}
    for name, label_of in (("a.csv", ("0-1", "0-1", "2")), ("b.csv", ("0", "1-2", "1-2"))):
        rows = [f"{label_of[age]},{value}" for age, held in values.items() for value in held]
        (tmp_path / name).write_text("\n".join(["age,disease", *rows, ""]), encoding="utf-8")
    command = ("audit", tmp_path / "a.csv", tmp_path / "b.csv", *described(BY_AGE), "--ell", "3")
    alone = elldelta(*command, "--json").json
    assert (alone["holds"], alone["subtraction"]["status"]) == (True, "possible")
    assert "But if everybody whom" in alone["verdict"]
    denied = elldelta(*command, "--contained", "no", "--json").json
    assert [denied["subtraction"][name] for name in ("status", "because")] == ["possible", "denied"]
    assert "But if" not in denied["verdict"]
    found = elldelta(*command, "--contained", "a.csv,b.csv", "--json", code=3).json
    assert found["subtraction"]["status"] == "found"
    assert found["subtraction"]["diversity_min"] == 1
    assert "minus" in found["verdict"]
    said = elldelta(*command, "--details").out
    assert "Subtraction: possible." in said
    words = " ".join(said.split())
    assert "come from one owner, compare them as a series, in the order of publication. If not, say" in words
    [(series, contained)] = re.findall(r"Add (--series \S+) or (--contained \S+)\. For everything", words)
    assert elldelta(*command, *contained.split(), "--json", code=3).json == found
    again = elldelta(*command, *series.split(), "--json").json["subtraction"]
    assert again["question"].startswith("Say whether everybody"), "that they are a series is known"
    public = elldelta(*command, "--contained", "a.csv,b.csv", "--public", "--json", code=3).json
    assert [public["subtraction"][name] for name in ("status", "groups_below")] == ["found", 10]
    assert not public["subtraction"]["smallest"]


@pytest.mark.parametrize(
    ("second", "holds"), [("20-30,rash", False), ("31-40,rash\n31-40,flu", True), ("", True)]
)
def test_releases_that_share_nobody_still_have_a_verdict_and_a_page(
    elldelta, described, tmp_path, second, holds
):
    for name, rows in (("a.csv", "20-30,flu\n20-30,gout"), ("b.csv", second)):
        (tmp_path / name).write_text(f"age,disease\n{rows}\n" if rows else "age,disease\n", encoding="utf-8")
    page = tmp_path / "audit.html"
    result = elldelta(
        "audit", tmp_path / "a.csv", tmp_path / "b.csv", *described(BY_AGE),
        "--ell", "2", "--report", page, "--json", code=0 if holds else 3,
    ).json  # fmt: skip
    assert result["diversity_min"] is None
    assert result["histogram"] == []
    assert "Nobody can be in all of these releases" in page.read_text(encoding="utf-8")


def test_releases_without_a_record_are_refused(elldelta, described, tmp_path):
    (tmp_path / "a.csv").write_text("age,disease\n", encoding="utf-8")
    options = (*described(BY_AGE), "--ell", "2", "--json")
    assert "no record" in elldelta("audit", tmp_path / "a.csv", *options, code=2).error["problem"]


# The page


@pytest.fixture
def page(elldelta, theirs, foreign, tmp_path):
    def write(*options):
        target = tmp_path / "audit.html"
        elldelta(
            "audit", *theirs, *foreign, "--ell", "2", "--report", target, "--overwrite", *options, code=3
        )
        return target.read_text(encoding="utf-8")

    return write


def headings(text):
    return [(int(level), words) for level, words in re.findall(r"<h([1-6])[^>]*>(.*?)</h", text, re.DOTALL)]


def test_the_page_tells_everything_without_scripts_or_network(page):
    text = page()
    assert "<script" not in text
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", text)
    assert not re.search(r"url\(\s*[\"']?https?:", text)
    found = headings(text)
    assert found[0] == (
        1,
        "Not safe: for at least one person only 1 value is left; 2 were asked for.",
    )
    levels = [level for level, _ in found]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    told = " ".join(words for _, words in found)
    for part in ("exposure grows", "Values left", "worst classes", "Each release", "assumed", "next", "harm"):
        assert part in told
    assert text.count('<figure role="img" aria-label=') == text.count("<figure")
    assert text.count("<svg") == text.count('<svg aria-hidden="true"')
    assert text.count("<caption>") == text.count("<table>")
    assert '<html lang="en">' in text
    for label in ("20-40", "[41-60]", "31-60"):
        assert label in text


def test_the_public_page_shows_no_label(page):
    text = page("--public")
    body = re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)
    for label in ("20-40", "[41-60]", "31-60", "20-30", "worst classes"):
        assert label not in body
    assert "Public version" in text
    assert "k: fewest records" not in text


def test_what_the_data_says_cannot_become_part_of_the_page(elldelta, described, tmp_path):
    release = tmp_path / "a<b>.csv"
    release.write_text("job,disease\n<script>alert(1)</script>,flu\nother,<b>gout\n", encoding="utf-8")
    target = tmp_path / "audit.html"
    text = 'quasi_identifiers = [{ name = "job", kind = "text" }]\nsensitive = ["disease"]'
    elldelta(
        "audit",
        release,
        *described(text),
        "--ell",
        "1",
        "--report",
        target,
    )
    text = target.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "a<b>" not in text


def test_a_report_does_not_replace_a_file_unless_told(elldelta, theirs, foreign, tmp_path):
    target = tmp_path / "audit.html"
    target.write_text("mine", encoding="utf-8")
    elldelta("audit", *theirs, *foreign, "--ell", "2", "--report", target, "--json", code=2)
    assert target.read_text(encoding="utf-8") == "mine"


def contrast(first, second):
    """The contrast of two colours, from the definition of WCAG 2."""

    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_can_be_read_by_people_who_see_little_contrast(page):
    text = page()
    colours = dict(re.findall(r"--(ink|soft|good|bad): (#[0-9a-f]{6})", text))
    assert set(colours) == {"ink", "soft", "good", "bad"}
    for colour in colours.values():
        assert contrast(colour, "#ffffff") >= 4.5
    assert contrast(colours["ink"], "#f1f3f5") >= 4.5
