"""Consecutive releases of one owner: what subtracting them shows, against the definition."""

import random
from collections import Counter
from itertools import pairwise

import pandas as pd
import pytest
from tests.ledger.living import World

import elldelta as ed
from elldelta.audit.audit import audit, audit_before
from elldelta.audit.columns import ForeignColumns
from elldelta.audit.page import render_audit
from elldelta.audit.reader import ReleaseReader
from elldelta.audit.series import OwnerSeries, measure_series

ELL = 3
VALUES = "abcdefg"
FOREIGN = ForeignColumns(quasi_identifiers=("age", "sex"), sensitive="value")
KINDS = ("came", "went", "stayed")


def panel(seed, n_quarters=4, n_people=160):
    """An owner's tables, quarter by quarter: few people come and go, and nobody comes back."""
    rng = random.Random(seed)
    born = iter(range(10_000))

    def person():
        return next(born), rng.choice(["20-29", "30-39"]), rng.choice("FM"), rng.choice(VALUES)

    tables = [[person() for _ in range(n_people)]]
    for _ in range(n_quarters - 1):
        stay = [one for one in tables[-1] if rng.random() > 0.04]
        tables.append(stay + [person() for _ in range(rng.randrange(8))])
    return tables


def naive(tables):
    """What publishing each of them by itself shows: rows without names."""
    return [pd.DataFrame([row[1:] for row in rows], columns=["age", "sex", "value"]) for rows in tables]


def by_class(rows):
    found = {}
    for _, age, sex, value in rows:
        found.setdefault((age, sex), Counter())[value] += 1
    return found


def subtracted(old, new):
    """Per class who came, went and stayed, as the counts tell it."""
    return {
        place: (new[place] - old[place], old[place] - new[place], old[place] & new[place])
        for place in old.keys() & new.keys()
        if old[place] != new[place]
    }


def fewest_values(tables):
    """The fewest values left for somebody with one stay, over every class, beginning and end."""
    shown = [by_class(rows) for rows in tables]
    steps = [subtracted(old, new) for old, new in pairwise(shown)]
    found = []
    for place in shown[0]:
        for first in range(len(shown)):
            for last in range(first, len(shown)):
                left = set(VALUES).intersection(*(set(shown[at][place]) for at in range(first, last + 1)))
                if first and place in steps[first - 1]:
                    left &= set(steps[first - 1][place][0])
                if last < len(steps) and place in steps[last]:
                    left &= set(steps[last][place][1])
                for at in range(first, last):
                    if place in steps[at]:
                        left &= set(steps[at][place][2])
                found.append(len(left))
    return min(number for number in found if number)


@pytest.mark.parametrize("seed", range(6))
def test_naive_quarters_are_flagged_with_the_right_people(seed):
    tables = panel(seed)
    found = audit(naive(tables), ell=ELL, columns=FOREIGN, series=[[0, 1, 2, 3]])
    [owner] = found.series
    shown = [by_class(rows) for rows in tables]
    n_below = 0
    for step, old, new in zip(owner.steps, shown, shown[1:], strict=False):
        groups = subtracted(old, new)
        assert (step.classes, step.changed, step.known_from) == (len(old), len(groups), "counts")
        for number, kind in enumerate(KINDS):
            own = [group[number] for group in groups.values() if group[number]]
            below = [group for group in own if len(group) < ELL]
            assert getattr(step, kind) == {
                "groups": len(own),
                "people": sum(group.total() for group in own),
                "groups_below": len(below),
                "people_below": sum(group.total() for group in below),
                "values_min": min(map(len, own), default=None),
            }
            n_below += sum(group.total() for group in below)
    assert owner.people_below == n_below > 0
    assert owner.diversity_min == fewest_values(tables) < ELL
    assert not found.holds
    assert "of one owner" in found.verdict
    assert found.subtraction.words.startswith("Subtraction: not found outside of series.")
    assert audit(naive(tables), ell=ELL, columns=FOREIGN).holds


@pytest.mark.parametrize("seed", range(6))
def test_nobody_who_is_isolated_in_truth_is_overlooked(seed):
    """Who came or went in too small a group is in a flagged one, unless others hide the group altogether."""
    tables = panel(seed, n_quarters=2)
    [owner] = audit(naive(tables), ell=ELL, columns=FOREIGN, series=[[0, 1]]).series
    flagged = {(item.how, item.labels[1][0]) for item in owner.smallest}
    old, new = ({one[0]: one for one in rows} for rows in tables)
    groups = subtracted(by_class(tables[0]), by_class(tables[1]))
    truth = {"who came": new.keys() - old.keys(), "who went": old.keys() - new.keys()}
    for how, who in truth.items():
        for place, group in groups.items():
            values = {{**old, **new}[one][3] for one in who if {**old, **new}[one][1:3] == place}
            if 0 < len(values) < ELL and group[KINDS.index(how[4:])]:
                assert (how, place) in flagged


def test_what_a_gate_refuses_is_what_the_next_release_adds():
    first, second, *_ = naive(panel(1))
    refused = audit_before(second, [first], ell=ELL, columns=FOREIGN, series=[0])
    assert not refused.holds
    assert "Do not publish: subtracting releases of one owner" in refused.verdict
    assert refused.to_dict()["series"]["people_below"] > 0
    assert audit_before(second, [first], ell=ELL, columns=FOREIGN).holds
    # What was known before is not the doing of a release that changes nothing.
    assert audit_before(second.copy(), [first, second], ell=ELL, columns=FOREIGN, series=[0, 1]).holds


def test_classes_that_change_their_labels_are_compared_as_unions():
    rows = [("20-29", "F", value) for value in VALUES] + [("30-39", "F", value) for value in VALUES]
    names = ["age", "sex", "value"]
    merged = [("20-39", "F", value) for *_, value in rows] + [("20-39", "F", "a")]
    tables = [pd.DataFrame(each, columns=names) for each in (rows, merged)]
    found = audit(tables, ell=ELL, columns=FOREIGN, series=[[0, 1]])
    assert found.series[0].smallest[0].how == "who came"
    assert (found.series[0].steps[0].classes, found.series[0].diversity_min) == (1, 1)


def test_closeness_is_asked_of_those_who_came_too():
    rows = [("20-29", "F", value) for value in VALUES for _ in range(50)]
    more = [("20-29", "F", value) for value in "aaaaaaaabc"]
    tables = [pd.DataFrame(each, columns=["age", "sex", "value"]) for each in (rows, rows + more)]
    found = audit(tables, ell=ELL, closeness=0.3, columns=FOREIGN, series=[[0, 1]])
    assert found.closeness.holds
    assert found.series[0].people_far == 10
    # 8 of 10 have a, which 58 of 360 have in all
    assert found.series[0].distance == pytest.approx(0.8 - 58 / 360 + 2 * max(0, 0.1 - 51 / 360), abs=0.05)
    assert not found.holds


def quarters(*tables):
    """Tables of one class: how many have each value."""
    return [
        pd.DataFrame(
            [("20-29", "F", value) for value, n in zip("abcd", counts, strict=True) for _ in range(n)],
            columns=["age", "sex", "value"],
        )
        for counts in tables
    ]


@pytest.mark.parametrize(
    ("told", "known_from"),
    [((1, 0), "manifest"), ((9, 0), "manifest"), ((0, 0), "counts"), ((2, 1), "counts"), ((3, 2), "")],
)
def test_a_manifest_hides_only_as_many_as_it_says(told, known_from):
    """One person came. Two more who came while two went would hide it; other numbers do not."""
    overlay = ReleaseReader(columns=FOREIGN).gather(quarters((2, 2, 2, 2), (2, 2, 2, 3)))
    found = measure_series(overlay, OwnerSeries((0, 1), (None, told)), ELL)
    assert found.steps[0].known_from == known_from
    assert found.people_below == (1 if known_from else 0)


@pytest.mark.parametrize("named", [[[0, 0]], [[0, 1], [1, 2]], [[0]], [["x.csv", 1]]])
def test_series_that_are_none(named):
    with pytest.raises(ed.ParameterError):
        audit(naive(panel(1)), ell=ELL, columns=FOREIGN, series=named)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"), 5, owners=("a",))
    world.run(3, n_new=500, turnover=(0.05, 0.05))
    return world


def test_ours_are_clean_and_found_without_a_word(lived, tmp_path):
    files = [lived.name("release", "a", period) for period in range(3)]
    found = audit(files[::-1])  # the ledger's numbers tell the order
    [owner] = found.series
    assert owner.releases == tuple(file.name for file in files)
    assert any(step.changed for step in owner.steps)
    assert owner.diversity_min >= lived.plan.columns[0].ell
    assert found.holds
    assert audit_before(files[2], files[:2]).holds
    ed.report(found, tmp_path / "page.html")
    assert "one after the other" in (tmp_path / "page.html").read_text()
    assert "series" in found.to_dict(public=True)


def test_a_table_that_has_grown_by_one_person_is_pointed_at(lived, tmp_path):
    """Two plain releases of one plan, and nobody says whose: the condition of the plan is looked at."""
    table = lived.tables["a"].reset_index(drop=True)
    files = [tmp_path / f"q{number}.parquet" for number in (1, 2)]
    for rows, file in zip((table.iloc[1:], table), files, strict=True):
        ed.release(rows, lived.plan, to=file)
    alone = audit(files)
    assert (alone.holds, alone.subtraction.status) == (True, "possible")
    assert alone.subtraction.diversity_min == 1
    assert any("as a series, in the order of publication" in step for step in alone.next_steps)
    assert not audit(files, series=[files]).holds


def test_the_public_page_of_a_series_counts_people_in_tens():
    found = audit(naive(panel(0)), ell=ELL, columns=FOREIGN, series=[[0, 1, 2, 3]])
    [owner], [public] = found.to_dict()["series"], found.to_dict(public=True)["series"]
    assert public["smallest"] == []
    for step, shown in zip(owner["steps"], public["steps"], strict=True):
        for kind in KINDS:
            assert 0 <= shown[kind]["people"] - step[kind]["people"] < 10
            assert shown[kind]["people"] % 10 == 0
    assert "who came, who went and who stayed" in render_audit(found.to_dict(public=True))
