"""What subtraction isolates, and what is said about it: found, possible, not found, not tried, and why."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.agency.registrations import REGIONS, make_plan
from tests.release.hospital_tables import make_rows, write_parquet

import elldelta as ed
from elldelta.agency.linking import as_published
from elldelta.audit.audit import audit, audit_before
from elldelta.audit.columns import ForeignColumns
from elldelta.audit.evidence import _verdict
from elldelta.audit.evidence import evidence as make_evidence
from elldelta.audit.evidence_form import write_form
from elldelta.audit.gate import gate
from elldelta.audit.measures import summarize
from elldelta.audit.overlay import Overlay
from elldelta.audit.subtraction import subtract
from elldelta.core.partition import Partition

PLAN = make_plan(boxes=REGIONS, n_values=4, ell=3, releases=1)
C1, C2, C3 = np.array([[2, 1, 1, 0], [1, 0, 0, 0], [0, 2, 1, 1]])
"""The people of three base classes: the table of the guide to certificates."""


def published(name, counts, group_of):
    return as_published(PLAN, Partition(np.array(group_of)), np.array(counts), "sha256:0", name=name)


SPRING = published("spring", [C1 + C2, C3], [0, 0, 1])


def judged(found):
    return found.subtraction.status, found.subtraction.because


def test_the_person_in_the_middle_is_possible_and_found_where_somebody_says_so():
    autumn = published("autumn", [C1, C2 + C3], [0, 1, 1])
    overlay = Overlay.from_published([SPRING, autumn])
    found = summarize(overlay, 3)
    assert found.diversity_min_any == 3  # linking alone leaves everybody three values
    assert (found.holds, judged(found)) == (True, ("possible", "unanswered"))
    assert found.subtraction.diversity_min == 1
    assert (
        "But if everybody whom autumn shows in these classes is also in spring, spring minus autumn isolates"
        in found.verdict
    )
    answer = gate(overlay, 3)
    assert (answer.holds, judged(answer)) == (True, ("possible", "unanswered"))
    assert "But if everybody whom autumn shows in these classes" in answer.verdict
    found = summarize(overlay, 3, contained=[[0, 1]])
    assert (found.holds, judged(found)) == (False, ("found", "affirmed"))
    assert found.verdict == "Not safe: spring minus autumn isolates people with as few as 1 of 3 values."
    assert found.to_dict(public=True)["subtraction"]["status"] == "found"
    refused = gate(overlay, 3, contained=[[0, 1]])
    assert not refused.holds
    assert not refused.classes
    assert refused.verdict.startswith("Do not publish: spring minus autumn isolates people")
    assert "minus" in refused.to_dict(public=True)["verdict"]
    found = summarize(overlay, 3, contained=[])
    assert (found.holds, judged(found)) == (True, ("possible", "denied"))
    assert "But if" not in found.verdict


def test_the_condition_of_a_plan_is_one_sentence_that_can_be_checked():
    said = "No release minus another may isolate a group that shows fewer than 3 values of "
    assert [line.startswith(said) for line in PLAN.conditions].count(True) == 1


def test_components_are_judged_one_by_one():
    """Somebody more in c3 of the autumn: the records are not the same, and c2 is found all the same."""
    autumn = published("autumn", [C1, C2 + C3 + np.array([0, 0, 0, 2])], [0, 1, 1])
    found = summarize(Overlay.from_published([SPRING, autumn]), 3)
    assert found.subtraction.status == "possible"
    assert 1 in [item.records for item in found.subtraction.smallest if item.diversity == 1]


def test_counts_that_exclude_shared_people_isolate_nobody():
    autumn = published("autumn", [[2, 1, 1, 1], [5, 1, 1, 1]], [0, 1, 1])
    overlay = Overlay.from_published([SPRING, autumn])
    assert judged(summarize(overlay, 3)) == ("not found", "unanswered")
    assert judged(gate(overlay, 3)) == ("not found", "unanswered")


def test_equal_classes_are_subtracted_too():
    """One more person of a value: under one grouping for all, the difference is that person."""
    again = published("again", [C1 + C2, [0, 3, 1, 1]], [0, 0, 1])
    found = summarize(Overlay.from_published([SPRING, again]), 3)
    assert judged(found) == ("possible", "unanswered")
    [group] = found.subtraction.smallest
    assert (group.records, group.diversity, group.how) == (1, 1, "second minus first")
    assert found.subtraction.pairs[0].releases == ("again", "spring")


def test_only_the_larger_table_less_the_smaller_one_follows_from_containment():
    """A class of the smaller table less one of the larger needs people of the larger one in the smaller."""
    plan = make_plan(boxes=REGIONS, n_values=4, ell=3, releases=1)
    small = as_published(
        plan, Partition(np.array([0, 0, 1])), np.array([C1 + C2, C3]), "sha256:0", name="small"
    )
    counts = np.array([C1, C2 + C3 + [0, 9, 9, 9]])  # c1 fits into c1 and c2 of the smaller one
    large = as_published(plan, Partition(np.array([0, 1, 1])), counts, "sha256:1", name="large")
    found = summarize(Overlay.from_published([small, large]), 3, contained=[[0, 1]])
    assert (found.holds, judged(found)) == (True, ("possible", "affirmed"))
    assert (
        "by the answer and the numbers of records shown it is the other way round" in found.subtraction.words
    )


def test_a_table_that_leaves_classes_out_may_contain_one_that_shows_more_records():
    """Who contains whom is not known from the records that are shown: evidence is not safe there."""
    plan = make_plan(boxes=REGIONS, n_values=4, ell=3, releases=1)
    tables = {
        "register": [[0, 0, 0, 0], [5, 5, 5, 1], [5, 5, 5, 5]],
        "hospital": [[20, 20, 20, 20], [5, 5, 5, 0], [5, 5, 5, 5]],
    }
    releases = [
        as_published(plan, Partition(np.arange(3)), np.array(counts), "sha256:0", name=name)
        for name, counts in tables.items()
    ]
    found = summarize(Overlay.from_published(releases), 3, contained=[[0, 1]])
    assert judged(found) == ("possible", "affirmed")
    holds, verdict = _verdict(found, [], 1.0, is_answered=True)
    assert not holds
    assert "register minus hospital isolates people with as few as 1 of 3 values" in verdict


def test_pairs_that_are_not_tried_leave_evidence_open(monkeypatch):
    monkeypatch.setitem(subtract.__globals__, "_MOST_PAIRS", 1)
    again = published("again", [C1 + C2, [0, 3, 1, 1]], [0, 0, 1])
    far = [published(name, [[9, 0, 2, 5], [5, 9, 0, 2]], [0, 0, 1]) for name in ("first", "second")]
    overlay = Overlay.from_published([*far, SPRING, again])
    found = summarize(overlay, 2)
    assert judged(found) == ("not tried", "too many pairs")
    assert not _verdict(found, [], 1.0, is_answered=False)[0]
    assert _verdict(found, [], 1.0, is_answered=True)[0]
    found = summarize(overlay, 2, contained=[[0, 1], [2, 3]])  # what is affirmed is always tried
    assert judged(found) == ("found", "affirmed")


def test_one_release_is_not_tried_and_says_so():
    found = summarize(Overlay.from_published([SPRING]), 3)
    assert judged(found) == ("not tried", "one release")
    assert found.subtraction.words == "Subtraction: not tried, because there is no other release."


def test_overlapping_classes_are_not_tried_and_say_so():
    apart = pd.DataFrame({"age": ["1", "2"] * 4, "disease": list("aabbccdd")})
    over = pd.DataFrame({"age": ["1-2", "2-3"] * 4, "disease": list("aabbccdd")})
    columns = ForeignColumns(("age",), "disease")
    assert judged(audit([apart, over], ell=2, columns=columns)) == ("not tried", "overlap")
    found = audit([apart, over, apart.copy()], ell=2, columns=columns)
    assert judged(found) == ("not tried", "overlap")
    assert "for 2 of 3 pairs" in found.subtraction.words


def test_too_many_pairs_are_not_tried_and_say_so(monkeypatch):
    monkeypatch.setitem(subtract.__globals__, "_MOST_PAIRS", 1)
    far = [published(name, [[9, 0, 2, 5], [5, 9, 0, 2]], [0, 0, 1]) for name in ("first", "second")]
    found = summarize(Overlay.from_published([*far, SPRING]), 2)
    assert judged(found) == ("not tried", "too many pairs")
    assert [pair.status for pair in found.subtraction.pairs] == ["not found", "not tried", "not tried"]
    assert "for 2 of 3 pairs of releases; the others isolate no group" in found.subtraction.words


@pytest.fixture(scope="module")
def register(tmp_path_factory):
    """A register of 9,000 people, and the same people less six, who live in six classes."""
    folder = tmp_path_factory.mktemp("register")
    people = pd.DataFrame(make_rows(9000, seed=1))
    past = write_parquet(folder / "past.parquet", make_rows(20_000, seed=2))
    schema = ed.Schema.infer(past, quasi_identifiers=["postal_code", "gender", "age"], sensitive="disease")
    plan = ed.plan(ed.estimate(past, schema), ell=2, releases=2, records=8900)
    ed.write_plan(plan, folder / "plan.json")
    ed.release(people, plan, to=folder / "whole.csv")
    shown = pd.read_csv(folder / "whole.csv", dtype=str)
    classes = shown[["postal_code", "gender", "age"]].drop_duplicates()
    assert len(classes) >= 6
    for seed in range(40):
        away = np.random.default_rng(seed).choice(len(people), 6, replace=False)
        ed.release(people.drop(index=away), plan, to=folder / "less.csv", overwrite=True)
        if class_sizes(folder / "whole.csv", folder / "less.csv").eq(1).sum() == 6:
            return folder, sorted(people.loc[away, "disease"])
    raise AssertionError("no six people in six classes")


def class_sizes(whole, less):
    """How many people each class has lost."""
    columns = ["postal_code", "gender", "age"]
    before, after = (pd.read_csv(file, dtype=str).groupby(columns).size() for file in (whole, less))
    return before.sub(after, fill_value=0)


def diseases_by_hand(whole, less):
    """What an outsider reads from two files by their labels alone: the rows of one that the other lacks."""
    columns = ["postal_code", "gender", "age", "disease"]
    before, after = (pd.read_csv(file, dtype=str).groupby(columns).size() for file in (whole, less))
    more = before.sub(after, fill_value=0)
    assert (more >= 0).all()
    return sorted(row[-1] for row, n in more.items() for _ in range(int(n)))


def test_six_people_who_are_missing_are_found_under_equal_classes(register):
    folder, truth = register
    files = [folder / "whole.csv", folder / "less.csv"]
    assert diseases_by_hand(*files) == truth
    found = audit(files)
    assert (found.holds, judged(found)) == (True, ("possible", "unanswered"))
    assert "if everybody whom less.csv shows in these classes is also in whole.csv" in found.verdict
    assert [item.records for item in found.subtraction.smallest] == [1] * 6
    found = audit(files, contained=[["whole.csv", "less.csv"]])
    assert (found.holds, judged(found)) == (False, ("found", "affirmed"))
    assert (found.subtraction.pairs[0].groups_below, found.subtraction.pairs[0].records_below) == (6, 6)
    assert audit_before(files[1], files[:1]).holds
    assert not audit_before(files[1], files[:1], contained=[[0, 1]]).holds


def test_an_outsider_who_reads_labels_only_finds_the_same(register, tmp_path):
    folder, _ = register
    files = []
    for name in ("whole.csv", "less.csv"):
        files.append(tmp_path / name)
        files[-1].write_bytes((folder / name).read_bytes())  # without a manifest
    columns = ForeignColumns(("postal_code", "gender", "age"), "disease")
    found = audit(files, ell=2, columns=columns)
    assert judged(found) == ("possible", "unanswered")
    assert [(item.records, item.diversity) for item in found.subtraction.smallest] == [(1, 1)] * 6
    assert not audit(files, ell=2, columns=columns, contained=[[0, 1]]).holds


def answered(folder, to, answer):
    """A form that was filled in."""
    write_form(folder / "plan.json", to)
    text = re.sub(r'= ""', '= "said"', to.read_text(encoding="utf-8")).replace("= 0.09", "= 1.0")
    to.write_text(text.replace('contained  = "?"', f"contained  = {json.dumps(answer)}"), encoding="utf-8")
    return to


@pytest.mark.parametrize("answer", ["?", "", "less.csv,whole.csv", ["whole.csv, less.csv"]])
def test_evidence_is_not_safe_where_the_question_is_open_or_answered_with_yes(register, tmp_path, answer):
    folder, _ = register
    record = make_evidence(
        [folder / "less.csv"],
        folder / "plan.json",
        about=answered(folder, tmp_path / "about.toml", answer),
        to=tmp_path / "made",
        published=[folder / "whole.csv"],
    )
    assert record["holds"] is False
    assert "whole.csv minus less.csv isolates people with as few as 1 of 2 values" in record["verdict"]
    assert ("leaves open whether one table's population" in record["verdict"]) == (answer in ("", "?"))
    page = (tmp_path / "made" / "evidence.html").read_text(encoding="utf-8")
    assert not re.search(r"\bSafe (against|by itself)", page)


def test_evidence_tells_what_the_publisher_denies(register, tmp_path):
    folder, _ = register
    record = make_evidence(
        [folder / "less.csv"],
        folder / "plan.json",
        about=answered(folder, tmp_path / "about.toml", "no"),
        to=tmp_path / "made",
        published=[folder / "whole.csv"],
    )
    assert record["holds"] is True
    assert record["linked"]["subtraction"]["status"] == "possible"
    page = (tmp_path / "made" / "evidence.html").read_text(encoding="utf-8")
    assert "Subtraction: possible." in page
    assert "by the answer that was given it is not so" in page
    assert "isolates no group" not in page
