"""A release is checked before anybody is kept waiting, and once more if there are other lines by then."""

import pytest
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.service import POOL
from tests.agency.server.test_registration import ROOM_FOR_TWO, rows_of

from elldelta.agency.admission import check_registration
from elldelta.agency.server.services import releases
from elldelta.agency.server.services.plans import withdraw_plan
from elldelta.agency.server.services.populations import create_population
from elldelta.agency.server.services.releases import register_release
from elldelta.agency.server.state import Agency

pytestmark = pytest.mark.both_databases


@pytest.fixture
def meanwhile(monkeypatch):
    """Does something after the first check of a release, before anything is locked; counts the checks."""

    class Meanwhile:
        n_checks = 0

        def do(self, something):
            def checked(*arguments, **options):
                self.n_checks += 1
                if self.n_checks == 1:
                    try:
                        return check_registration(*arguments, **options)
                    finally:
                        monkeypatch.setattr(releases, "check_registration", check_registration)
                        something()
                        monkeypatch.setattr(releases, "check_registration", checked)
                return check_registration(*arguments, **options)

            monkeypatch.setattr(releases, "check_registration", checked)

    return Meanwhile()


@pytest.fixture
def elsewhere(service):
    """Another process of the same service."""
    other = Agency.open(service.settings, checks=POOL)
    yield other
    other.close()


def registered(service, agency, who, plan, counts, key="1"):
    content = make_registration(plan, counts).to_bytes()
    return register_release(agency, service.caller(who), plan.digest, key, content)


def test_others_can_write_while_a_release_is_checked(service, meanwhile):
    plan = service.issue()
    meanwhile.do(
        lambda: create_population(service.agency, "another", "")
    )  # in the lock it would never get its turn
    assert registered(service, service.agency, "owner", plan, full(plan)).status == 201
    assert meanwhile.n_checks == 1


def test_a_release_that_fitted_before_another_was_admitted_is_refused(service, elsewhere, meanwhile):
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    for name in ("b", "c"):
        service.add(name, "owner")
    registered(service, service.agency, "owner", plan, full(plan, (0, 0), (0, 1)))
    other = []
    meanwhile.do(lambda: other.append(registered(service, elsewhere, "b", plan, full(plan, (0, 2), (0, 3)))))
    answer = registered(service, service.agency, "c", plan, full(plan, (0, 4), (0, 5)))
    assert (other[0].status, answer.status, meanwhile.n_checks) == (201, 409, 2)
    assert rows_of(service)["ledger_lines"] == 2


def test_a_release_of_another_plan_of_the_same_people_counts_too(service, elsewhere, meanwhile):
    fine = service.issue(make_plan(**ROOM_FOR_TWO))
    coarse = service.issue(make_plan(starts=(0, 6), **ROOM_FOR_TWO))
    for name in ("b", "c"):
        service.add(name, "owner")
    registered(service, service.agency, "owner", fine, full(fine, (0, 0), (0, 1)))
    meanwhile.do(lambda: registered(service, elsewhere, "b", fine, full(fine, (0, 1), (0, 2))))
    answer = registered(service, service.agency, "c", coarse, full(coarse, (0, 3), (0, 4)))
    assert (answer.status, meanwhile.n_checks) == (409, 2)


def test_one_that_still_fits_gets_the_next_line(service, elsewhere, meanwhile):
    plan = service.issue()
    service.add("b", "owner")
    meanwhile.do(lambda: registered(service, elsewhere, "b", plan, full(plan)))
    answer = registered(service, service.agency, "owner", plan, full(plan, n=4))
    assert (answer.status, answer.document["sequence"], meanwhile.n_checks) == (201, 2, 2)


def test_the_same_registration_by_two_processes_at_once_is_admitted_once(service, elsewhere, meanwhile):
    plan = service.issue()
    other = []
    meanwhile.do(lambda: other.append(registered(service, elsewhere, "owner", plan, full(plan))))
    assert registered(service, service.agency, "owner", plan, full(plan)) == other[0]
    assert rows_of(service)["ledger_lines"] == 1


def test_a_plan_that_was_withdrawn_meanwhile_admits_nothing(service, meanwhile):
    plan = service.issue()
    meanwhile.do(lambda: withdraw_plan(service.agency, plan.digest, "A test."))
    assert registered(service, service.agency, "owner", plan, full(plan)).status == 409
    assert rows_of(service)["ledger_lines"] == 0


def test_nothing_is_checked_where_nothing_can_be_admitted(service, meanwhile):
    plan = service.issue()
    withdraw_plan(service.agency, plan.digest, "A test.")
    meanwhile.do(lambda: None)
    assert registered(service, service.agency, "owner", plan, full(plan)).status == 409
    assert meanwhile.n_checks == 0
