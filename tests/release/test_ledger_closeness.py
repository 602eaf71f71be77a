"""Releases of a plan for closeness, one after the other through a ledger: more than t, all certified."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.oracles import closeness as oracle

import elldelta as ed
from elldelta.core.certificate import certify
from elldelta.core.closeness import SmallestShares
from elldelta.core.promises import Close, Shown
from elldelta.ledger import Ledger, check_line, verify_ledger
from elldelta.release import open_published

VALUES = ("flu", "gout", "mumps", "rash", "scurvy")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A plan for two releases, and six of them in one ledger."""
    rng = np.random.default_rng(8)

    def people(n):
        age = rng.integers(0, 12, n)
        value = (age // 4 + rng.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05])) % 5
        return pa.table({"age": age, "disease": np.array(VALUES)[value]})

    folder = tmp_path_factory.mktemp("ledger")
    past = people(5000)
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive="disease")
    plan = ed.plan(ed.estimate(past, schema), closeness=0.15, releases=2, records=900)
    path = folder / "releases.ledger"
    for number in range(6):
        to = folder / f"{number}.parquet"
        ed.release(people(900), plan, to=to, ledger=Ledger(path, f"owner {number}"))
    return plan, path, [folder / f"{number}.parquet" for number in range(6)]


def test_more_releases_than_planned_are_admitted_and_all_stay_close(story):
    plan, path, releases = story
    chain = verify_ledger(path, plan_digest=plan.digest, promises=plan.promises)
    assert chain.n_releases == 6 > plan.releases
    audited = ed.audit(releases, closeness_to=plan)
    assert audited.holds
    assert audited.closeness.distance <= audited.closeness.bound <= 0.15
    # The ledger knows the same bound.
    close, _ = chain.state(plan.promises).left()
    assert close.distances_upper(close.nobody).max() == pytest.approx(audited.closeness.bound, abs=1e-9)


def test_every_release_in_it_passes_its_certificate_and_its_line_says_what_it_shows(story):
    plan, path, releases = story
    chain = verify_ledger(path, plan_digest=plan.digest, promises=plan.promises)
    for entry, release in zip(chain.active, releases, strict=True):
        published = open_published(release)
        assert certify(plan.promises, Shown(published.counts, published.grouping)).is_certified
        assert entry.certified
        assert check_line(chain, published, entry.hash, entry.owner, plan, "It") == entry


def test_a_limit_for_the_release_alone_is_one_more_promise():
    beside = SmallestShares(np.array([[1, 1]]), np.array([[4, 1]]))
    linked = Close(np.array([[1, 1]]), Fraction(2, 5), smallest=beside)
    alone = Close(np.array([[1, 1]]), Fraction(1, 10))
    for counts in ([6, 4], [61, 39], [40, 60], [39, 61], [35, 65], [34, 66]):
        shown = Shown.of([counts])
        far = oracle.furthest_set(oracle.shares(counts), oracle.shares([1, 1]))
        together = Fraction(1, 4) + max(Fraction(0), Fraction(1, 2) - oracle.shares(counts)[1])
        is_far = together > Fraction(2, 5)
        assert certify([linked], shown).fails[0] == is_far
        assert certify([linked, alone], shown).fails[0] == (is_far or far > Fraction(1, 10))
