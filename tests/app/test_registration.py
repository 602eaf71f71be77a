"""What an agency admits: honest owners, and owners that lie about everything."""

import json

import numpy as np
import pytest
from tests.app.registrations import (
    Agency,
    full,
    make_plan,
    make_registration,
)

import elldelta as ed
from elldelta.app.certify import terms_of
from elldelta.app.registration import (
    check_registration,
    ledger_export,
    registration_of,
)
from elldelta.data.ledger_report import verify_ledger
from elldelta.data.registration_file import Registration
from elldelta.errors import FileError, ParameterError, RefusedError

PLAN = make_plan()


def admits(plan, document, entries=(), **options):
    """What a server does with a document from the network."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    options.setdefault("owner", "A")
    return check_registration(plan, Registration.from_bytes(content), entries, **options)


class TestAdmission:
    def test_an_honest_release_gets_the_next_line(self, tmp_path):
        agency = Agency(PLAN)
        first = agency.register(PLAN, make_registration(PLAN, full(PLAN, (0, 1))), "A")
        second = agency.register(PLAN, make_registration(PLAN, full(PLAN, (1, 2))), "B")
        assert (first.entry.sequence, second.entry.sequence) == (1, 2)
        assert first.entry.misses == ((0, 1),)
        assert first.entry.certified
        exported = tmp_path / "export.ledger"
        exported.write_bytes(ledger_export(PLAN, agency.lines(PLAN)))
        report = verify_ledger(exported, plan_digest=PLAN.digest, terms=terms_of(PLAN), head=first.entry.hash)
        assert report.owners == ("A", "B")
        assert report.chain.head == second.entry.hash

    def test_the_union_of_misses_decides(self):
        agency = Agency(PLAN)
        for number, owner in enumerate("ABCD"):
            agency.register(PLAN, make_registration(PLAN, full(PLAN, (2, number))), owner)
        before = agency.lines(PLAN)
        with pytest.raises(RefusedError, match="fewer than 2") as refusal:
            agency.register(PLAN, make_registration(PLAN, full(PLAN, (2, 4))), "E")
        assert "1 of 4 base classes" in refusal.value.found
        assert refusal.value.remedy
        assert agency.lines(PLAN) == before
        agency.register(PLAN, make_registration(PLAN, full(PLAN, (1, 4))), "E")

    def test_the_same_again_is_the_same_line(self):
        agency = Agency(PLAN)
        registration = make_registration(PLAN, full(PLAN, (0, 1)))
        first = agency.register(PLAN, registration, "A")
        again = agency.register(PLAN, registration, "A")
        assert not again.is_new
        assert again.entry == first.entry
        assert len(agency.lines(PLAN)) == 1

    def test_the_release_of_another_owner_is_no_release_of_ones_own(self):
        agency = Agency(PLAN)
        registration = make_registration(PLAN, full(PLAN, (0, 1)))
        agency.register(PLAN, registration, "A")
        with pytest.raises(RefusedError, match="Another owner"):
            agency.register(PLAN, registration, "B")

    def test_an_owner_keeps_its_classes(self):
        agency = Agency(PLAN)
        agency.register(PLAN, make_registration(PLAN, full(PLAN)), "A")
        merged = make_registration(PLAN, [[3] * 6] * 3, [0, 1, 2, 2])
        with pytest.raises(RefusedError, match="other classes"):
            agency.register(PLAN, merged, "A")
        agency.register(PLAN, merged, "B")
        agency.register(PLAN, make_registration(PLAN, [[4] * 6] * 3, [0, 1, 2, 2]), "B")

    def test_a_release_that_does_not_pass_its_certificate(self):
        counts = full(PLAN, (0, 0), (0, 1), (0, 2))  # may miss (6 - 2) // 2 = 2
        with pytest.raises(RefusedError, match="certificate"):
            Agency(PLAN).register(PLAN, make_registration(PLAN, counts), "A")

    def test_fewer_records_than_planned_are_enough_for_a_certificate(self):
        plan = make_plan(records=10_000)
        assert Agency(plan).register(plan, make_registration(plan, full(plan, n=1)), "A").is_new

    def test_a_release_of_nobody(self):
        with pytest.raises(RefusedError, match="without a record"):
            Agency(PLAN).register(PLAN, make_registration(PLAN, 0 * full(PLAN)), "A")

    @pytest.mark.parametrize("owner", ["", " A", "A\n", "\x1b[31mA", "x" * 201])
    def test_owners_without_a_proper_name(self, owner):
        with pytest.raises(ParameterError):
            Agency(PLAN).register(PLAN, make_registration(PLAN, full(PLAN)), owner)

    def test_what_an_owner_sends_about_a_real_release(self, tmp_path):
        rng = np.random.default_rng(3)
        table = {
            "age": rng.integers(30, 34, 400),
            "region": np.array(["e", "n", "w"])[rng.integers(0, 3, 400)],
            "disease": np.array([f"d{number}" for number in range(6)])[rng.integers(0, 6, 400)],
        }
        import pyarrow as pa

        path = tmp_path / "release.parquet"
        ed.release_to_file(pa.table(table), PLAN, path)
        registration = registration_of(path, PLAN)
        assert registration.n_records == 400
        assert Agency(PLAN).register(PLAN, registration, "A").is_new
        with pytest.raises(FileError, match="another plan"):
            registration_of(path, make_plan(records=11))


class TestProbabilisticPlans:
    plan = make_plan(guarantee="probabilistic", records=30)

    def test_t_releases_and_not_one_more(self):
        agency = Agency(self.plan)
        for number, owner in enumerate("AB"):
            agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, number))), owner)
        with pytest.raises(RefusedError, match="about 2 releases"):
            agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, 2))), "C")
        again = make_registration(self.plan, full(self.plan, (0, 1)))
        assert not agency.register(self.plan, again, "B").is_new

    def test_the_planned_number_of_records(self):
        few = make_registration(self.plan, full(self.plan, n=1))
        assert few.n_records < self.plan.records
        with pytest.raises(RefusedError, match="fewer records"):
            Agency(self.plan).register(self.plan, few, "A")

    def test_the_planned_classes(self):
        merged = make_registration(self.plan, [[9] * 6] * 3, [0, 1, 2, 2])
        with pytest.raises(FileError, match="not follow the plan"):
            Agency(self.plan).register(self.plan, merged, "A")

    def test_too_much_is_missing_together(self):
        agency = Agency(self.plan)
        agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, 0), (0, 1), (0, 2))), "A")
        with pytest.raises(RefusedError, match="fewer than 2"):
            agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, 3), (0, 4))), "B")
