"""What an owner that publishes is told about subtraction, over the API and on the page of the audit."""

import numpy as np
from tests.agency.registrations import make_plan

PEOPLE = np.array([[5, 4, 6, 3, 4, 5], [7, 5, 4, 4, 6, 6], [6, 8, 5, 5, 4, 7], [9, 6, 5, 7, 4, 8]])


def published(service, plan, who, counts):
    told = service.register(who, plan, counts.tolist(), status=201).json()
    place = f"/plans/{plan.digest}/releases/{told['content_digest']}/state"
    return service.put(who, place, {"state": "published"}, status=200).json()


def test_the_second_owner_is_told_what_its_table_less_the_other_may_show(service):
    service.add("second", "owner")
    plan = service.issue(make_plan(releases=2, records=1000))
    first = published(service, plan, "owner", PEOPLE)
    assert first["subtraction"]["status"] == "not tried"
    fewer = PEOPLE.copy()
    fewer[2, 1] -= 1
    second = published(service, plan, "second", fewer)
    assert second["state"] == "published"
    assert second["subtraction"]["status"] == "possible"
    assert "the release of owner minus your release" in second["subtraction"]["words"]
    job = service.get("second", f"/plans/{plan.digest}/audit", status=202).json()["id"]
    service.work()
    audit = service.get("second", f"/jobs/{job}").json()["result"]["audit"]
    assert audit["subtraction"]["status"] == "possible"
    assert audit["holds"]


def test_what_nobody_has_published_is_not_subtracted(service):
    service.add("second", "owner")
    plan = service.issue(make_plan(releases=2, records=1000))
    service.register("owner", plan, PEOPLE.tolist(), status=201)
    fewer = PEOPLE.copy()
    fewer[2, 1] -= 1
    assert published(service, plan, "second", fewer)["subtraction"]["status"] == "not tried"
