"""What an agency tells about subtraction: refused among one owner's releases, possible among those of all."""

import numpy as np
import pytest
from tests.agency.registrations import REGIONS, Agency, make_plan, make_registration

from elldelta.agency.admission import subtracted
from elldelta.agency.linking import as_published
from elldelta.core.partition import Partition
from elldelta.errors import RefusedError

WHOLE = ((0, 0), (3, 2))
FINE = make_plan(boxes=REGIONS, n_values=4, ell=3, releases=2)
COARSE = make_plan(boxes=(WHOLE,), n_values=4, ell=3, releases=2)
TWIN = make_plan(boxes=REGIONS, n_values=4, ell=2, releases=2)
PEOPLE = np.array([[5, 4, 6, 3], [7, 5, 4, 4], [6, 8, 5, 5]])
FEWER = PEOPLE - np.array([[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def told(plan, counts, agency, owner="B"):
    """What an owner is told that publishes these counts."""
    counts = np.asarray(counts)
    own = as_published(plan, Partition(np.arange(len(counts))), counts, "sha256:0", name="your release")
    others = [item for items in agency.entries.values() for item in items if item.owner != owner]
    return subtracted(plan, own, others)


@pytest.fixture
def agency():
    made = Agency(FINE, COARSE, TWIN)
    made.register(FINE, make_registration(FINE, PEOPLE), "A")
    return made


def test_equal_classes_of_another_owner_are_told_and_not_refused(agency):
    found = told(FINE, FEWER, agency)
    assert (found.status, found.because, found.diversity_min) == ("possible", "unanswered", 1)
    assert (
        "If everybody whom your release shows in these classes is also in the release of A, the release of A "
        "minus" in found.words
    )
    assert agency.register(FINE, make_registration(FINE, FEWER), "B").is_new


@pytest.mark.parametrize("plan", [COARSE, TWIN])
def test_releases_under_other_plans_are_subtracted_too(agency, plan):
    counts = FEWER if plan is TWIN else [FEWER.sum(axis=0)]
    found = told(plan, counts, agency)
    assert (found.status, found.below, found.diversity_min) == ("possible", 3, 1)


def test_what_the_counts_exclude_is_not_found(agency):
    found = told(FINE, FEWER + np.array([9, -1, 0, 0]), agency)
    assert found.status == "not found"


def test_without_another_release_nothing_is_tried():
    found = told(FINE, FEWER, Agency(FINE))
    assert (found.status, found.because) == ("not tried", "one release")


def test_one_owner_does_not_publish_a_table_and_the_same_less_one_person_under_two_plans(agency):
    """Equal classes under two plans: the ledger of either plan sees one release only."""
    with pytest.raises(RefusedError, match="may isolate people"):
        agency.register(TWIN, make_registration(TWIN, FEWER), "A")
    assert agency.register(TWIN, make_registration(TWIN, FEWER), "B").is_new
