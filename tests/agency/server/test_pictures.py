"""Pictures are drawn by workers and stored; whoever opens a page never waits for one to be drawn."""

import pytest
import sqlalchemy as sa
from tests.agency.server.service import WISH
from tests.agency.server.visitor import Visitor, visitor

from elldelta.agency.server.services import pictures
from elldelta.agency.server.services.pictures import draw_missing
from elldelta.pages import charts

pytestmark = pytest.mark.draws


def open_all(browser, digest, job):
    """The page of a plan and its pictures, as often as somebody likes."""
    drawn = [f"{what}-{width}" for what in ("frontier", "classes") for width in ("wide", "narrow")]
    places = [f"/plans/{digest}/{name}.svg" for name in drawn]
    found = [browser.send("GET", place) for place in (*places, f"/jobs/{job}/frontier-wide.svg")]
    page = browser.send("GET", f"/plans/{digest}")
    assert page.status_code == 200
    statuses = [answer.status_code for answer in found]
    return statuses, page.text.count("<img"), [answer.content for answer in found]


def forbid(monkeypatch):
    """From now on drawing is an error: the web process must not do it."""

    def never(*_):
        raise AssertionError("It was drawn for a request.")

    for name in ("as_svg", "draw_frontier", "draw_histogram", "draw_exposure_curve"):
        monkeypatch.setattr(pictures, name, never)
        monkeypatch.setattr(charts, name, never)


def planned(service):
    """A plan with a preview, and the number of that job."""
    service.add_model()
    number = service.post("client", "/requests", WISH, status=201).json()["id"]
    job = service.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
    service.work()
    plan = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    service.work()
    return service.get("agency", f"/jobs/{plan}").json()["result"]["plan"], job


def test_the_job_that_makes_something_draws_it_and_requests_never_do(service, monkeypatch):
    digest, job = planned(service)
    forbid(monkeypatch)
    browser = visitor(service, "agency")
    for _ in range(2):
        statuses, n_images, contents = open_all(browser, digest, job)
        assert statuses == [200] * 5
        assert n_images == 2
        assert all(content.startswith(b"<?xml") for content in contents)
    browser.__exit__(None, None, None)


def test_what_was_made_before_is_drawn_later_and_pages_wait_for_nothing(service, monkeypatch):
    digest, job = planned(service)
    with service.agency.database.writing() as session:
        session.execute(sa.text("DELETE FROM pictures"))
    with monkeypatch.context() as patch:
        forbid(patch)
        service.agency.pictures.clear()
        browser = visitor(service, "agency")
        statuses, n_images, _ = open_all(browser, digest, job)
        assert statuses == [404] * 5
        assert n_images == 0  # no page shows a picture that is not there
        browser.__exit__(None, None, None)
    assert draw_missing(service.agency) == 2
    assert draw_missing(service.agency) == 0
    browser = visitor(service, "agency")
    assert open_all(browser, digest, job)[:2] == ([200] * 5, 2)
    browser.__exit__(None, None, None)


def test_a_picture_that_cannot_be_drawn_fails_no_job(service, monkeypatch):
    def broken(*_):
        raise ValueError("a label of a class")

    monkeypatch.setattr(pictures, "as_svg", broken)
    digest, job = planned(service)
    assert service.get("agency", f"/jobs/{job}").json()["status"] == "done"
    assert draw_missing(service.agency) == 0  # it is not tried for ever
    with Visitor(service.app) as nobody:
        assert nobody.send("GET", f"/plans/{digest}/classes-wide.svg").status_code == 401
