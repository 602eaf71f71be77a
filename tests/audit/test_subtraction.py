"""Releases of one plan that merge its classes differently: what subtraction isolates if they share people."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.agency.registrations import REGIONS, make_plan
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.agency.linking import as_published
from elldelta.audit.evidence import Evidence
from elldelta.audit.gate import gate
from elldelta.audit.measures import summarize
from elldelta.core.partition import Partition
from elldelta.release import open_published

ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult.csv"
PLAN = make_plan(boxes=REGIONS, n_values=4, ell=3, releases=1)
C1, C2, C3 = np.array([[2, 1, 1, 0], [1, 0, 0, 0], [0, 2, 1, 1]])
"""The people of three base classes: the table of the guide to certificates."""


def published(name, counts, group_of):
    return as_published(PLAN, Partition(np.array(group_of)), np.array(counts), "sha256:0", name=name)


SPRING = published("spring", [C1 + C2, C3], [0, 0, 1])


def test_the_person_in_the_middle_is_found_without_being_asked_for():
    autumn = published("autumn", [C1, C2 + C3], [0, 1, 1])
    evidence = Evidence.from_published([SPRING, autumn])
    found = summarize(evidence, 3)
    assert found.diversity_min_any == 3  # linking alone leaves everybody three values
    assert not found.holds
    assert (found.differencing.groups_below, found.differencing.records_below) == (2, 2)  # from either side
    assert found.differencing.diversity_min == 1
    assert found.to_dict(public=True)["differencing"]["declared"] is False
    assert "if the releases share people" in found.verdict
    answer = gate(evidence, 3)
    assert not answer.holds
    assert not answer.classes
    assert "shares people with spring" in answer.verdict
    assert answer.to_dict()["groups_isolated"] == 2
    assert "shares people" in answer.to_dict(public=True)["verdict"]


def test_components_are_judged_one_by_one():
    """Somebody more in c3 of the autumn: the records are not the same, and c2 is found all the same."""
    autumn = published("autumn", [C1, C2 + C3 + np.array([0, 0, 0, 2])], [0, 1, 1])
    found = summarize(Evidence.from_published([SPRING, autumn]), 3)
    assert not found.holds
    assert [item.records for item in found.differencing.smallest if item.diversity == 1] == [1]


def test_counts_that_exclude_shared_people_isolate_nobody():
    autumn = published("autumn", [[2, 1, 1, 1], [5, 1, 1, 1]], [0, 1, 1])
    evidence = Evidence.from_published([SPRING, autumn])
    assert summarize(evidence, 3).differencing is None
    assert gate(evidence, 3).holds


def test_one_grouping_for_all_isolates_nobody():
    again = published("again", [C1 + C2, [0, 3, 1, 1]], [0, 0, 1])
    assert summarize(Evidence.from_published([SPRING, again]), 3).differencing is None


@pytest.mark.skipif(not ADULT.exists(), reason="../shared/data/adult.csv is not there")
def test_owners_of_adult_that_share_people():
    """Waiting risk 0.5, the people of the second owner are all among those of the first."""
    table = pd.read_csv(ADULT)
    columns = ["sex", "race", "marital-status", "age", "education"]
    schema = ed.Schema.infer(table, columns, "occupation")
    plan = ed.plan(ed.estimate(table, schema), ell=5, releases=2, records=20_000, merge_risk=0.5)
    seeds = quick_or_all((2,), (0, 1, 2, 3))
    isolates = []
    for seed in seeds:
        places = np.random.default_rng(seed).permutation(len(table))[:20_000]
        owners = [table.iloc[places], table.iloc[places[:16_000]]]
        first, second = (open_published(ed.release(own, plan, on_failure="coarsen")) for own in owners)
        evidence = Evidence.from_published([first, second])
        found = summarize(evidence, 5)
        assert found.diversity_min_any >= 5  # both are certified, and linking them is safe
        assert found.holds == gate(evidence, 5).holds
        if not found.holds:
            isolates.append(seed)
            assert found.differencing.diversity_min == (4 if seed in (1, 3) else 3)
    assert isolates == list(seeds)
