"""Lists page by page: every entry once, also when others are added meanwhile."""

import json

import pytest
from tests.agency.registrations import full, make_plan
from tests.agency.server.real_server import lasting_service
from tests.agency.server.service import POPULATION, WISH
from tests.agency.server.test_registration import ROOM_FOR_TWO
from tests.agency.server.visitor import visitor

from elldelta.agency.server.services.parties import create_token

SIZE, N = 2, 5


LIMITS = {"page_size": SIZE}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def crowded(request, tmp_path_factory):
    """Five of everything, and two on a page, for tests that only look."""
    with lasting_service(request, tmp_path_factory.mktemp("crowded"), **LIMITS) as service:
        yield crowd(service)


@pytest.fixture
def growing(make_service):
    """The same for a test that adds something."""
    return crowd(make_service(**LIMITS))


def crowd(service):
    service.add_model()
    for number in range(N):
        service.add(f"party-{number}", "owner")
        create_token(service.agency, "owner", str(number), 3)
        service.clock.advance(seconds=number % 2)  # some are made at the same moment
        service.post("client", "/requests", {**WISH, "records": 1000 + number}, status=201)
        service.post("agency", "/populations", {"name": f"other-{number}"}, status=201)
        service.issue(make_plan(records=1_001 + number))
    service.plan = service.issue(make_plan(**ROOM_FOR_TWO))
    for number in range(N):
        counts = full(service.plan, n=3 + number)
        service.register(f"party-{number}", service.plan, counts, status=201)
        missing = full(service.plan, (0, 0), (0, 1), (0, 2), n=3 + number)
        service.register("owner", service.plan, missing, status=409)
    return service


LISTS = {
    "parties": ("/parties", "name"),
    "tokens": ("/parties/owner/tokens", "id"),
    "populations": ("/populations", "name"),
    "requests": ("/requests", "id"),
    "plans": ("/plans", "digest"),
    "releases": ("/plans/{digest}/releases", "sequence"),
    "refusals": ("/plans/{digest}/refusals", "id"),
}


def pages(service, path, **query):
    """All pages of a list, from the first one on."""
    while True:
        page = service.get("agency", path, params=query).json()
        yield page
        if page["next"] is None:
            return
        query["after"] = page["next"]


@pytest.mark.parametrize("name", LISTS)
def test_all_pages_together_are_the_list(crowded, name):
    path, key = LISTS[name]
    path = path.format(digest=crowded.plan.digest)
    found = list(pages(crowded, path))
    assert all(len(page["entries"]) == SIZE for page in found[:-1])
    found = [entry[key] for page in found for entry in page["entries"]]
    assert len(found) == len(set(found)) >= N
    ones = [entry[key] for page in pages(crowded, path, limit=1) for entry in page["entries"]]
    assert ones == found
    assert len(crowded.get("agency", path, params={"limit": 1000}).json()["entries"]) == SIZE  # never more


def test_what_is_added_meanwhile_neither_repeats_nor_hides_an_entry(growing):
    """A list by numbers of entries would show the last request of the first part again."""
    first = growing.get("agency", "/requests").json()
    growing.post("client", "/requests", WISH, status=201)
    second = growing.get("agency", "/requests", params={"after": first["next"]}).json()
    assert [item["id"] for item in first["entries"] + second["entries"]] == [5, 4, 3, 2]


def test_a_client_pages_through_its_own_requests_only(growing):
    growing.add("another", "client")
    growing.post("another", "/requests", WISH, status=201)
    assert [item["id"] for item in growing.get("another", "/requests").json()["entries"]] == [6]
    assert growing.get("another", "/requests", params={"after": 6}).json()["entries"] == []
    assert growing.get("another", "/requests", params={"after": 9}).json()["entries"] == [
        growing.get("another", "/requests/6").json()
    ]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/plans", {"after": "sha256:" + "0" * 64}),
        ("/plans", {"after": "x"}),
        ("/parties", {"after": "a\0b"}),
        ("/requests", {"after": "many"}),
        ("/requests", {"after": "99999999999999999999"}),
        ("/requests", {"limit": 0}),
        ("/parties/owner/tokens", {"after": "0" * 12}),
    ],
)
def test_a_page_that_cannot_be_meant_is_refused(crowded, path, query):
    crowded.get("agency", path, params=query, status=422)


def test_the_pages_are_described(crowded):
    document = crowded.get(None, "/openapi.json").json()
    for path, _ in LISTS.values():
        operation = document["paths"]["/api/v1" + path.replace("/owner/", "/{name}/")]["get"]
        assert {"after", "limit"} <= {item["name"] for item in operation["parameters"]}
        [reference] = operation["responses"]["200"]["content"]["application/json"]["schema"].values()
        schema = document["components"]["schemas"][reference.split("/")[-1]]
        assert set(schema["required"]) == {"entries", "next"}


PLACES = {
    "/": ("/populations/", "populations"),
    "/requests": ("/requests/", "requests"),
    "/plans": ("/plans/", "plans"),
    "/parties": ("/parties/", "parties"),
    f"/populations/{POPULATION}": ("/plans/", "plans"),
    "/plans/{digest}/ledger": (None, "lines"),
    "/plans/{digest}/refusals": (None, "refused registrations"),
    "/plans/{digest}": (None, "releases"),
    "/parties/owner": (None, "tokens"),
}


@pytest.mark.parametrize("place", PLACES)
def test_pages_have_links_to_the_next_one(crowded, place):
    """Links, not scripts: following them shows every entry once."""
    prefix, what = PLACES[place]
    agency = visitor(crowded, "agency")
    address = place.format(digest=crowded.plan.digest)
    seen, page, n_pages = [], agency.see(address), 1
    while page.all("a", rel="next"):
        seen += entries(page, prefix)
        [link] = page.all("a", rel="next")
        assert f"Next {what}" in page.words
        page = agency.see(link["href"])
        n_pages += 1
    seen += entries(page, prefix)
    assert n_pages >= 3
    if prefix is not None:
        assert len(seen) == len(set(seen)) >= N
    agency.__exit__(None, None, None)


def entries(page, prefix):
    """Addresses of the entries of a list, each once."""
    if prefix is None:
        return []
    found = [item["href"] for item in page.all("a") if "?" not in item.get("href", "?")]
    return list(dict.fromkeys(href for href in found if href.startswith(prefix) and href.count("/") == 2))


def test_the_page_of_a_plan_tells_how_many_releases_there_are_in_all(crowded):
    agency = visitor(crowded, "agency")
    assert f"{N} releases are admitted" in agency.see(f"/plans/{crowded.plan.digest}").words
    assert f"{N + 1} lines" in agency.see(f"/plans/{crowded.plan.digest}/ledger").words
    agency.__exit__(None, None, None)


def test_the_first_page_counts_all_plans_and_shows_all_that_wait(crowded):
    client, agency = visitor(crowded, "client"), visitor(crowded, "agency")
    assert f"{N + 1} plans are in force" in last_page(agency, "/").words
    for opened in (client, agency):
        page = opened.see("/")
        waiting = [item["href"] for item in page.all("a") if item["href"].startswith("/requests/")]
        assert waiting == ["/requests/5", "/requests/4"]  # at most as many as a list has
        assert "All requests" in page.words
        opened.__exit__(None, None, None)


def last_page(browser, address):
    page = browser.see(address)
    while page.all("a", rel="next"):
        [link] = page.all("a", rel="next")
        page = browser.see(link["href"])
    return page


def test_the_ledger_is_exported_whole(crowded):
    lines = crowded.get("owner", f"/plans/{crowded.plan.digest}/ledger").text.splitlines()
    assert [json.loads(line).get("sequence", 0) for line in lines] == list(range(N + 1))
