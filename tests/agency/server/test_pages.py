"""The pages: who may see what, what a form keeps and what it never shows, and what a browser is told."""

import contextlib
import re
from itertools import pairwise

import pytest
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.expected_rights import PAGES
from tests.agency.server.real_server import DATABASES, lasting_service
from tests.agency.server.service import POPULATION, model_file
from tests.agency.server.visitor import HOST, Page, Visitor, visitor

from elldelta.agency.server.routes.rendering import local_path
from elldelta.agency.server.services.parties import create_token
from elldelta.agency.server.services.plans import load_plan, report_progress
from elldelta.agency.server.tables import ROLES

WRONG = "wrong horse battery"


@contextlib.contextmanager
def browsers(service):
    """Everybody's browser."""
    service.visitors = {role: visitor(service, role) for role in ROLES}
    yield service
    for opened in service.visitors.values():
        opened.__exit__(None, None, None)


@pytest.fixture
def pages(make_service):
    """The service, with everybody's browser."""
    with browsers(make_service()) as service:
        yield service


@pytest.fixture
def played(pages):
    """A service where the protocol was played, for a test that plays on."""
    return play(pages)


@pytest.fixture(scope="module", params=DATABASES)
def shown(request, tmp_path_factory):
    """One where the protocol was played, for all tests that only look."""
    folder = tmp_path_factory.mktemp("shown")
    with lasting_service(request, folder) as service, browsers(service) as pages:
        yield play(pages)


def play(pages):
    """A preview, a plan, progress, a release, an audit; and names for every address."""
    pages.add_model()
    agency, client = pages.visitors["agency"], pages.visitors["client"]
    wish = {"ell": "2", "delta": "0.05", "releases": "2", "records": "2000"}
    for _ in range(2):
        assert client.post(f"/populations/{POPULATION}/ask", **wish).status_code == 303
    assert agency.post("/requests/1/preview").status_code == 303
    pages.work()
    assert agency.post("/requests/1/plan").status_code == 303
    pages.work()
    digest = pages.get("client", "/requests/1").json()["plan"]
    plan = load_plan(pages.agency, digest)
    owner = pages.visitors["owner"]
    assert owner.post(f"/plans/{digest}/progress", records="2000").status_code == 303
    content = make_registration(plan, full(plan, n=400)).to_bytes()
    files = {"registration": ("registration.json", content, "application/json")}
    assert owner.post(f"/plans/{digest}/register", files=files).status_code == 303
    [item] = pages.get("owner", f"/plans/{digest}/releases").json()["entries"]
    pages.publish("owner", plan, item["content_digest"])
    owner.see(f"/plans/{digest}/audit")
    pages.work()
    pages.plan = plan
    with pages.agency.database.reading() as session:
        from elldelta.agency.server.tables import Job

        preview = session.query(Job).filter(Job.kind == "preview").one().id
    pages.names = {
        "{digest}": digest, "{width}": "wide", "{number}": "1", "{what}": "curve",
        "/jobs/{id}": f"/jobs/{preview}",
        "/parties/{name}": "/parties/owner", "/series/{name}": "/series/owner",
        "/populations/{name}": f"/populations/{POPULATION}",
        "/tokens/{id}": f"/tokens/{create_token(pages.agency, 'owner', '', 3).id}", "{id}": "1",
        "/static/{name}": "/static/" + pages.send("GET", "/sign-in").text.split("/static/")[1].split('"')[0],
    }  # fmt: skip
    return pages


def hidden(page, name):
    return page.all("input", type="hidden", name=name)[0]["value"]


def filled(path, names):
    for name, value in names.items():
        path = path.replace(name, value)
    return path


SAMPLE = {
    "{digest}": "sha256:" + "5e" * 32, "{width}": "wide", "{number}": "1", "{what}": "curve",
    "/jobs/{id}": "/jobs/" + "0123456789abcdef" * 2, "/tokens/{id}": "/tokens/0123456789ab", "{id}": "1",
    "{name}": "nobody",
}  # fmt: skip


def test_every_page_for_every_role_and_for_nobody(pages):
    with Visitor(pages.app) as nobody:
        for (method, path), allowed in PAGES.items():
            for who in (None, *ROLES):
                if path in ("/sign-in", "/sign-out"):
                    continue  # they change who one is; tested below
                browser = nobody if who is None else pages.visitors[who]
                place = filled(path, SAMPLE)
                answer = browser.send(method, place) if method == "GET" else browser.post(place)
                status = answer.status_code
                if allowed is None or (who is not None and who in allowed):
                    assert status not in (401, 403), (method, path, who, status)
                    assert status < 500, (method, path, who, status)
                else:
                    assert status == (401 if who is None else 403), (method, path, who, status)
                    assert answer.headers["content-type"].startswith("text/html")


def test_everybody_sees_every_page_they_may_see_with_something_on_it(shown):
    for (method, path), allowed in PAGES.items():
        if method == "GET" and not path.startswith("/sign-in"):
            for who in allowed or ROLES:
                answer = shown.visitors[who].send("GET", filled(path, shown.names))
                assert answer.status_code == 200, (path, who, answer.status_code)


def every_page(shown):
    """All pages of all roles as (who, address, answer)."""
    for (method, path), allowed in PAGES.items():
        if (
            method == "GET"
            and not path.endswith(".svg")
            and path != "/static/{name}"
            and not path.endswith("key.pem")
        ):
            for who in allowed or ROLES:
                place = filled(path, shown.names)
                answer = shown.visitors[who].send("GET", place, follow_redirects=True)
                yield who, place, answer
    with Visitor(shown.app) as nobody:
        yield None, "/sign-in", nobody.send("GET", "/sign-in")
        yield None, "/nowhere", nobody.send("GET", "/nowhere")


def test_every_page_can_be_read_by_everybody(shown):
    for who, place, answer in every_page(shown):
        page, where = Page(answer.text), (who, place)
        assert page.unbalanced == [], where
        assert page.all("html")[0].get("lang") == "en", where
        assert len(page.all("h1")) == 1, where
        assert len(page.all("main")) == 1, where
        assert page.all("a", href="#content"), where
        levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1, where
        assert all(after <= before + 1 for before, after in pairwise(levels)), (
            where,
            levels,
        )
        ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
        assert len(ids) == len(set(ids)), where
        labelled = {attrs["for"] for attrs in page.all("label")}
        for tag, attrs, _ in page.elements:
            if tag in ("input", "select", "textarea", "progress") and attrs.get("type") != "hidden":
                assert attrs.get("id") in labelled, (where, tag, attrs)
            if tag == "img":
                assert len(attrs.get("alt", "")) > 20, (where, attrs)
            for reference in ("aria-describedby", "aria-labelledby"):
                assert attrs.get(reference, ids[0]) in ids, (where, attrs)
            if attrs.get("role") == "region":
                assert attrs.get("aria-label"), (where, attrs)
            if tag in ("a", "form", "link", "script", "img"):
                for name in ("href", "src", "action"):
                    assert attrs.get(name, "/").startswith(("/", "#")), (where, attrs)
        assert page.all("title"), where
        for table in (parents for tag, _, parents in page.elements if tag == "table"):
            assert "div" in table, where  # it scrolls inside of its region


def test_no_page_needs_a_style_or_a_script_inside_of_it(shown):
    for who, place, answer in every_page(shown):
        page = Page(answer.text)
        assert not page.all("style"), (who, place)
        for tag, attrs, _ in page.elements:
            assert "style" not in attrs, (who, place, tag)
            assert not any(name.startswith("on") for name in attrs), (who, place, tag)
            assert tag != "script" or attrs.get("src", "").startswith("/static/"), (who, place)


def test_every_page_comes_with_the_headers_that_protect_it(shown):
    for who, place, answer in every_page(shown):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy, (who, place)
        assert "unsafe" not in policy, (who, place)
        assert "frame-ancestors 'none'" in policy, (who, place)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store", (who, place)


def test_a_drawing_may_do_nothing_but_be_drawn(shown):
    for place in (f"/plans/{shown.plan.digest}/classes", f"/populations/{POPULATION}/frontier"):
        answer = shown.visitors["client"].send("GET", f"{place}-narrow.svg")
        assert answer.headers["content-type"] == "image/svg+xml"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "sandbox" in policy
        assert b"<script" not in answer.content
        assert answer.content.rstrip().endswith(b"</svg>")


def test_files_of_the_pages_keep_for_ever_under_a_name_that_changes(pages):
    text = pages.send("GET", "/sign-in").text
    place = re.search(r"/static/style\.[0-9a-f]{16}\.css", text)[0]
    answer = pages.send("GET", place)
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    assert pages.send("GET", re.sub(r"\.[0-9a-f]{16}", ".0000000000000000", place)).status_code == 404
    assert pages.send("GET", "/static/..%2fsettings.py").status_code == 404


def test_signing_in_and_out(pages):
    pages.add("somebody", "auditor")
    with Visitor(pages.app) as browser:
        asked = browser.send("GET", "/plans")
        assert asked.status_code == 401
        page = Page(asked.text)
        assert hidden(page, "wanted") == "/plans"
        refused = browser.post("/sign-in", token=WRONG, wanted="/plans")
        assert refused.status_code == 401
        assert WRONG not in refused.text
        assert "Not done" in refused.text
        done = browser.post("/sign-in", token=pages.tokens["somebody"], wanted="/plans")
        assert (done.status_code, done.headers["location"]) == (303, "/plans")
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        browser.see("/plans")
        ended = dict(browser.cookies)
        out = browser.post("/sign-out")
        assert out.headers["location"] == "/sign-in?done=signed-out"
        assert not browser.cookies
        again = browser.send(
            "GET", "/plans", headers={"Cookie": "; ".join(f"{k}={v}" for k, v in ended.items())}
        )
        assert again.status_code == 401, "a login that has ended must not open a page"


@pytest.mark.parametrize("wanted", ["https://evil.test/", "//evil.test", "/\\evil.test", "evil", "/a b", ""])
def test_nobody_is_sent_to_another_site_after_signing_in(wanted):
    assert local_path(wanted) == "/"


def test_a_form_from_elsewhere_changes_nothing(pages):
    browser = pages.visitors["agency"]
    form = {"name": "planted", "role": "owner"}
    for headers in (
        {},
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": HOST, "Sec-Fetch-Site": "same-site"},
    ):
        answer = browser.send("POST", "/parties", data=form, headers=headers)
        assert answer.status_code == 403, headers
    assert "planted" not in browser.see("/parties").words
    assert browser.post("/parties", **form).status_code == 303
    assert "planted" in browser.see("/parties").words


def test_signing_in_from_another_site_is_refused(pages):
    with Visitor(pages.app) as browser:
        for headers in ({"Origin": "https://evil.test"}, {"Sec-Fetch-Site": "cross-site"}, {}):
            form = {"token": pages.tokens["owner"]}
            answer = browser.send("POST", "/sign-in", data=form, headers=headers)
            assert answer.status_code == 403
            assert not browser.cookies


def test_what_people_type_is_shown_as_text(pages):
    agency = pages.visitors["agency"]
    planted = "<script>alert(1)</script>\"'"
    agency.post("/populations", name="odd", title=planted)
    for place in ("/", "/populations/odd"):
        text = agency.send("GET", place).text
        assert planted not in text
        assert "&lt;script&gt;alert(1)" in text
    again = agency.post("/populations", name='"><img src=x>', title=planted)
    assert again.status_code == 422
    assert "<img src=x>" not in again.text
    assert "&lt;img src=x&gt;" in again.text


def test_a_notice_is_chosen_by_name_and_never_taken_from_the_address(pages):
    page = pages.visitors["owner"].send("GET", "/?done=Send+your+token+to+evil.test")
    assert "evil.test" not in page.text
    assert "You are signed out." in pages.send("GET", "/sign-in?done=signed-out").text


def test_a_form_that_cannot_be_used_keeps_what_was_typed_and_says_three_things(pages):
    pages.add_model()
    client = pages.visitors["client"]
    answer = client.post(
        f"/populations/{POPULATION}/ask", ell="77", delta="0.05", releases="2", records="4321"
    )
    assert answer.status_code == 422
    page = Page(answer.text)
    assert [page.all("input", id=name)[0]["value"] for name in ("ell", "delta", "records")] == [
        "77",
        "0.05",
        "4321",
    ]
    box = page.all("div", role="alert")
    assert len(box) == 1
    for words in ("Not done:", "What to do:"):
        assert words in page.words
    assert pages.get("client", "/requests").json()["entries"] == []


@pytest.mark.parametrize(
    "fields",
    [{"ell": ""}, {"ell": "two"}, {"ell": "2.5"}, {"ell": "9" * 40}, {"delta": "nan"}, {"delta": "inf"},
     {"delta": "0"}, {"delta": "1,5"}, {"releases": "0"}, {"records": "-5"}, {"records": "1e9"},
     {"kind": "none"}, {"merge_risk": "0"}, {"merge_risk": "0.1", "kind": "probabilistic"},
     {"min_records": "0"}, {"min_records": "2", "kind": "paper"}, {"k": "0"}, {"k": "2.5"}],
    ids=lambda fields: "-".join(f"{k}={v[:6]}" for k, v in fields.items()),
)  # fmt: skip
def test_numbers_that_are_none_are_refused_beside_the_form(pages, fields):
    pages.add_model()
    typed = {"ell": "2", "delta": "0.05", "releases": "2", "records": "2000", **fields}
    answer = pages.visitors["client"].post(f"/populations/{POPULATION}/ask", **typed)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert pages.get("client", "/requests").json()["entries"] == []


@pytest.mark.parametrize(
    ("fields", "wished", "words"),
    [
        (
            {},
            {"kind": "certified", "merge_risk": None, "min_records": 1},
            "δ, chance that one release fails",
        ),
        ({"merge_risk": " ", "min_records": ""}, {"merge_risk": None}, "t × δ"),
        ({"kind": "paper"}, {"kind": "paper"}, "Kind of plan paper"),
        ({"merge_risk": "0.1"}, {"merge_risk": 0.1}, "chance that a class does not pass by itself 0.1"),
        ({"k": "25"}, {"k": 25}, "k, fewest records of a class 25"),
        ({"delta": ""}, {"delta": 0.01}, "δ, chance that one release fails 0.01"),
        ({"min_records": "2"}, {"min_records": 2}, "Records behind a value 2"),
    ],
    ids=["none", "empty", "kind", "merge_risk", "k", "delta", "min_records"],
)
def test_more_settings_reach_the_request_and_its_plan(pages, fields, wished, words):
    pages.add_model()
    typed = {"ell": "2", "delta": "0.05", "releases": "2", "records": "20000", **fields}
    assert pages.visitors["client"].post(f"/populations/{POPULATION}/ask", **typed).status_code == 303
    [filed] = pages.get("client", "/requests").json()["entries"]
    assert wished.items() <= filed["wishes"].items()
    page = pages.visitors["client"].see("/requests/1")
    assert words in page.words
    pages.visitors["agency"].post("/requests/1/plan")
    pages.work()
    plan = load_plan(pages.agency, pages.get("client", "/requests/1").json()["plan"])
    merge_risk = None if plan.moving is None else plan.moving.merge_risk
    assert (plan.kind, merge_risk, plan.min_records, plan.delta) == tuple(
        filed["wishes"][name] for name in ("kind", "merge_risk", "min_records", "delta")
    )
    assert plan.k >= (filed["wishes"]["k"] or 1)
    shown = pages.visitors["client"].see(f"/plans/{plan.digest}").words
    assert ("fixed: the same for everybody" in shown) == (merge_risk is None)


def test_more_settings_are_shown_again_when_the_form_was_wrong(pages):
    """A block that is closed would hide what somebody has typed, and perhaps what is wrong."""
    pages.add_model()
    place = f"/populations/{POPULATION}/ask"
    client = pages.visitors["client"]
    [closed] = client.see(place).all("details")
    assert "open" not in closed
    for name in ("merge_risk", "min_records", "k", "delta"):
        typed = {"ell": "2", "releases": "2", "records": "2000"}
        page = Page(client.post(place, **typed, **{name: "x7"}).text)
        [opened] = page.all("details")
        assert "open" in opened
        assert page.all("input", id=name)[0]["value"] == "x7"


def test_tokens_are_never_shown_again(pages):
    agency = pages.visitors["agency"]
    made = agency.post("/parties/owner/tokens", note="nightly", days="30")
    assert made.status_code == 201
    token = re.search(r"elldelta_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", made.text)[0]
    assert (
        pages.send("GET", "/api/v1/me", headers={"Authorization": f"Bearer {token}"}).json()["name"]
        == "owner"
    )
    assert token not in agency.send("GET", "/parties/owner").text
    assert agency.post(f"/parties/owner/tokens/{token.split('_')[1]}/revoke").status_code == 303
    answer = pages.send("GET", "/api/v1/me", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401


@pytest.mark.parametrize("moves", [False, True])
def test_linked_releases_say_for_whom_classes_that_move_are(pages, moves):
    plan = pages.issue(make_plan(moves=moves))
    place = f"/plans/{plan.digest}"
    said = "Owners who share people should use a plan with fixed classes"
    for name in ("auditor", "owner"):
        assert (said in pages.visitors[name].see(f"{place}/audit").words) == moves
        assert ("Merge risk" in pages.visitors[name].see(place).words) == moves


def test_an_owner_sees_its_own_bar_and_only_how_many_others_have_reached_n(pages):
    plan = pages.issue()
    pages.add("hospital-x", "owner")
    pages.add("hospital-y", "owner")
    report_progress(pages.agency, pages.caller("owner"), plan.digest, 7)
    report_progress(pages.agency, pages.caller("hospital-x"), plan.digest, 4567)
    report_progress(pages.agency, pages.caller("hospital-y"), plan.digest, 3)
    text = pages.visitors["owner"].see(f"/plans/{plan.digest}").words
    assert "You have 7 of 1,000 records" in text
    assert "1 other owner has reached it" in text
    for secret in ("hospital-x", "hospital-y", "4,567", "4567"):
        assert secret not in pages.visitors["owner"].send("GET", f"/plans/{plan.digest}").text
        assert secret not in pages.visitors["client"].send("GET", f"/plans/{plan.digest}").text
    for who in ("agency", "auditor"):
        text = pages.visitors[who].see(f"/plans/{plan.digest}").words
        assert "hospital-x: 4,567 of 1,000, reached" in text
        assert "1 of 3 owners has reached it" in text


def test_a_population_shows_its_shape_and_never_a_count(pages):
    agency = pages.visitors["agency"]
    assert agency.post("/populations", name=POPULATION, title="The region").status_code == 303
    wrong = agency.post(f"/populations/{POPULATION}/model", files={"model": ("m.parquet", b"PAR1 no", "x/y")})
    assert wrong.status_code == 422
    assert 'role="alert"' in wrong.text
    files = {"model": ("model.parquet", model_file(), "application/octet-stream")}
    assert agency.post(f"/populations/{POPULATION}/model", files=files).status_code == 303
    text = pages.visitors["client"].see(f"/populations/{POPULATION}").words
    assert "age integers 12" in text
    assert "disease categories, to be hidden 6" in text
    assert "about 20 occurred in" in text


def test_a_form_that_is_sent_twice_registers_once(played):
    played.add("another", "owner")
    played.visitors["another"] = visitor(played, "another")  # is left with the others
    owner, digest = played.visitors["another"], played.plan.digest
    counts = full(played.plan, n=500)
    content = make_registration(played.plan, counts).to_bytes()
    places = set()
    for _ in range(2):
        files = {"registration": ("registration.json", content, "application/json")}
        answer = owner.post(f"/plans/{digest}/register", files=files)
        assert answer.status_code == 303
        places.add(answer.headers["location"].split("?")[0])
    assert len(places) == 1
    assert len(played.get("agency", f"/plans/{digest}/releases").json()["entries"]) == 2


def test_a_registration_that_is_none_is_told_beside_the_form(shown):
    owner, digest = shown.visitors["owner"], shown.plan.digest
    for content in (b"", b"{}", b"\xff\xfe", b"[1, 2]"):
        files = {"registration": ("registration.json", content, "application/json")}
        answer = owner.post(f"/plans/{digest}/register", files=files)
        assert answer.status_code == 422, content
        assert 'role="alert"' in answer.text
    assert len(shown.get("owner", f"/plans/{digest}/releases").json()["entries"]) == 1


def test_a_plan_is_superseded_and_withdrawn(played):
    agency, first = played.visitors["agency"], played.plan.digest
    client = played.visitors["client"]
    wish = {"ell": "3", "delta": "0.05", "releases": "2", "records": "3000"}
    place = client.post(f"/populations/{POPULATION}/ask", **wish).headers["location"]
    number = re.search(r"/requests/(\d+)", place)[1]
    agency.post(f"/requests/{number}/plan")
    played.work()
    second = played.get("agency", f"/requests/{number}").json()["plan"]
    assert "cannot be undone" in agency.see(f"/plans/{first}").words
    nothing = agency.post(f"/plans/{first}/supersede", by="")
    assert nothing.status_code == 422
    assert agency.post(f"/plans/{first}/supersede", by=second).status_code == 303
    text = client.see(f"/plans/{first}").words
    assert "Superseded" in text
    assert f"/plans/{second}" in client.send("GET", f"/plans/{first}").text
    empty = agency.post(f"/plans/{second}/withdraw", reason="  ")
    assert empty.status_code == 422
    assert agency.post(f"/plans/{second}/withdraw", reason="The model\nwas wrong.").status_code == 303
    assert "Reason: The model was wrong." in client.see(f"/plans/{second}").words


def test_a_request_is_declined_with_a_reason_that_its_client_sees(played):
    agency = played.visitors["agency"]
    assert agency.post("/requests/2/decline", reason="").status_code == 422
    assert agency.post("/requests/2/decline", reason="Too few people.").status_code == 303
    assert "Too few people." in played.visitors["client"].see("/requests/2").words
    again = agency.post("/requests/2/decline", reason="Once more.")
    assert again.status_code == 409


def test_the_ledger_shows_every_hash_of_its_export(shown):
    digest = shown.plan.digest
    text = shown.visitors["auditor"].send("GET", f"/plans/{digest}/ledger").text
    export = shown.get("auditor", f"/plans/{digest}/ledger").text
    hashes = re.findall(r'"hash":"(sha256:[0-9a-f]{64})"', export)
    assert len(hashes) == 2
    assert all(own in text for own in hashes)
    assert "the chain is intact, 2 lines" in text


def test_a_page_that_goes_wrong_says_nothing_about_how(pages, monkeypatch):
    def broken(*_):
        raise ValueError("canary")

    monkeypatch.setattr("elldelta.agency.server.services.plans.list_plans", broken)
    answer = pages.visitors["owner"].send("GET", "/plans")
    assert answer.status_code == 500
    assert "canary" not in answer.text
