"""The agency's pages in a real browser, against the service as real processes: the whole protocol, by people.

A client asks, the agency previews and issues, owners reach N and register, one release that would take a
class below ell is refused, and an auditor looks at the ledger and at the audit. The records are real tables,
and the owners' steps between the pages are the commands that the pages name.
"""

import contextlib
import io
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.agency.server.real_server import RealServer
from tests.agency.server.service import model_file
from tests.browser.chromium import Watched, chromium, needs_chromium

from elldelta.agency.server.services.populations import create_population, upload_model
from elldelta.agency.server.settings import Settings
from elldelta.cli.main import execute
from elldelta.plan.plan import read_plan

pytestmark = needs_chromium

TITLE = "Patients of the region"
PEOPLE = {
    "agency": "agency",
    "hospital-a": "owner",
    "hospital-b": "owner",
    "hospital-c": "owner",
    "university": "client",
    "auditor": "auditor",
}
ELL, RELEASES, RECORDS = 2, 2, 2500
WIDTHS = (320, 1280)
QUICK_LOOK = ("agency", 320)  # most pages in the narrowest window


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agency")
    settings = Settings(folder=folder / "data", database=f"sqlite:///{folder / 'agency.sqlite'}")
    with RealServer(settings, folder / "log", does_jobs=True) as running:
        running.tokens = {name: running.add(name, role) for name, role in PEOPLE.items()}
        create_population(running.agency, "region", TITLE)
        upload_model(running.agency, running.caller("agency"), "region", model_file())
        yield running


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def people(server, browser):
    """A signed-in window for everybody but the client, who signs in by keyboard in the story."""
    windows = {name: Watched(browser, server.url) for name in PEOPLE}
    for name, window in windows.items():
        if name != "university":
            window.sign_in(server.tokens[name])
    yield windows
    for window in windows.values():
        window.close()


@pytest.fixture(scope="module")
def story(server, people, tmp_path_factory):
    """The protocol, played once; returns what was seen on the way."""
    seen = {}
    folder = tmp_path_factory.mktemp("owners")
    seen["request"] = ask_by_keyboard(people["university"], server.tokens["university"], seen)
    preview_and_issue(people["agency"], seen)
    plan = fetch(people["hospital-a"], seen, folder)
    reach_n(people, seen)
    tables = hospital_tables(plan)
    for name in ("hospital-a", "hospital-b", "hospital-c"):
        document = released(folder, name, tables[name])
        register(people[name], name, document, seen)
    look(people["auditor"], seen, folder)
    return seen


def focused(page):
    return page.evaluate(
        "() => { const at = document.activeElement; const style = getComputedStyle(at);"
        "return {id: at.id, tag: at.tagName, text: at.textContent.trim(), outline: style.outlineStyle,"
        "width: style.outlineWidth}; }"
    )


def tab_to(page, wanted, most=60):
    """Presses Tab until the focus is where it should be; it must be visible on every stop."""
    for _ in range(most):
        page.keyboard.press("Tab")
        at = focused(page)
        assert at["outline"] != "none", at
        assert at["width"] != "0px", at
        if at["id"] == wanted or at["text"] == wanted:
            return
    raise AssertionError(f"Tab never reaches {wanted}.")


def ask_by_keyboard(window, token, seen):
    """Signs in and files a request without a mouse."""
    page = window.page
    window.open("/sign-in")
    assert focused(page)["id"] == "token"
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Populations", level=1).wait_for()
    page.keyboard.press("Tab")
    assert focused(page)["text"] == "Skip to the content"
    page.keyboard.press("Enter")
    assert focused(page)["id"] == "content"
    tab_to(page, f"Ask for a plan about {TITLE}")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Ask for a plan", level=1).wait_for()
    for name, value in (("ell", ELL), ("releases", RELEASES), ("records", RECORDS)):
        tab_to(page, name)
        page.keyboard.press("Control+A")
        if page.input_value(f"#{name}") == str(value):
            continue  # what is asked already is not asked again
        page.keyboard.type(str(value))
    page.keyboard.press("Enter")
    page.get_by_text("Your request is filed.").wait_for()
    return int(re.search(r"/requests/(\d+)", page.url)[1])


def preview_and_issue(window, seen):
    """The agency finds the request on its first page, looks at the preview, and issues."""
    page = window.page
    window.open("/")
    page.get_by_role("link", name=f"Request {seen['request']}").click()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="What the request would get").wait_for()
    seen["preview words"] = window.words
    page.get_by_role("button", name="Issue the plan").click()
    page.get_by_text("The agency has issued").wait_for()
    page.get_by_role("link", name=re.compile("^plan ")).click()
    page.get_by_role("heading", name="The promise").wait_for()
    seen["plan"] = re.search(r"sha256:[0-9a-f]{64}", page.url)[0]
    seen["plan words"] = window.words


def fetch(window, seen, folder):
    """An owner takes the plan, its signature and the key along, and checks them offline."""
    page = window.page
    window.open("/")
    page.get_by_role("link", name=f"Plan {seen['plan'][7:15]}").first.click()
    page.get_by_role("heading", name="Files").wait_for()
    for link, name in (
        ("Plan file", "plan.json"),
        ("Signature", "plan.json.sig"),
        ("Public keys", "agency.pem"),
    ):
        with page.expect_download() as fetched:
            page.locator("main").get_by_role("link", name=link).click()
        assert fetched.value.suggested_filename == name
        fetched.value.save_as(folder / name)
    told = command(
        "signature", "verify", folder / "plan.json", "--agency-key", folder / "agency.pem", "--json"
    )
    seen["signature"] = told
    return read_plan(folder / "plan.json")


def reach_n(people, seen):
    """Owners report; everybody sees what they may."""
    place = f"/plans/{seen['plan']}"
    for name, records in (("hospital-a", RECORDS - 1), ("hospital-b", RECORDS), ("hospital-c", RECORDS + 17)):
        report(people[name], place, records)
    people["hospital-a"].open(place)
    seen["a before"] = people["hospital-a"].words
    seen["a bar before"] = people["hospital-a"].page.locator("#records-bar").get_attribute("value")
    report(people["hospital-a"], place, RECORDS + 40)
    seen["a after"] = people["hospital-a"].words
    for name in ("university", "agency", "auditor"):
        people[name].open(place)
        seen[f"progress for {name}"] = people[name].words


def report(window, place, records):
    window.open(place)
    window.page.get_by_label("Records that you have now").fill(str(records))
    window.page.get_by_role("button", name="Report").click()
    window.page.get_by_text("Your number is saved.").wait_for()


def hospital_tables(plan):
    """Records of three hospitals. In one class each misses other values; the third one would be too much.

    Every one of them may miss b of the class's a witnesses, and all together a - ell.
    """
    spare = (plan.columns[0].witnesses.counts - plan.columns[0].ell).tolist()
    chosen = max(range(plan.n_classes), key=lambda number: spare[number])
    allowance, room = plan.promises[0].allowances[chosen], spare[chosen]
    n_last = room - 2 * allowance + 1
    assert 1 <= n_last <= allowance, (allowance, room)
    values = plan.columns[0].witnesses[chosen]
    missing = {
        "hospital-a": values[:allowance],
        "hospital-b": values[allowance : 2 * allowance],
        "hospital-c": values[2 * allowance : 2 * allowance + n_last],
    }
    rng = np.random.default_rng(11)
    sizes = plan.schema.sizes
    ages, genders = (column.value_labels for column in plan.schema.quasi_identifiers)
    diseases = plan.schema.sensitive.value_labels
    tables = {}
    for name, left_out in missing.items():
        positions = np.stack([rng.integers(0, size, 4000) for size in sizes], axis=1)
        disease = rng.integers(0, len(diseases), len(positions))
        inside = plan.class_of(plan.schema.ranks(positions)) == chosen
        kept = ~(inside & np.isin(disease, left_out))
        tables[name] = pa.table(
            {
                "age": [int(ages[place]) for place in positions[kept, 0]],
                "gender": [genders[place] for place in positions[kept, 1]],
                "disease": [diseases[place] for place in disease[kept]],
            }
        )
    return tables


def released(folder, name, table):
    """An owner's own commands: the release, and the registration for the page."""
    own, release, document = (folder / f"{name}{end}" for end in (".parquet", "_release.parquet", ".json"))
    pq.write_table(table, own)
    plan = folder / "plan.json"
    command("release", own, "--plan", plan, "-o", release)
    command("remote", "register", release, "--plan", plan, "--only-write", document)
    return document


def register(window, name, document, seen):
    page = window.page
    window.open(f"/plans/{seen['plan']}")
    page.get_by_role("link", name="Register a release").click()
    page.get_by_label("Registration file").set_input_files(document)
    n_complaints = len(window.complaints)
    with page.expect_navigation():
        page.get_by_role("button", name="Register").click()
    seen[f"{name} registered"] = window.words
    page.screenshot(path=document.with_suffix(".png"), full_page=True)
    if name == "hospital-c":
        # The browser itself notes that the status of the refusal is 409: that is not a complaint.
        noted, window.complaints[n_complaints:] = window.complaints[n_complaints:], []
        assert all("409" in text for text in noted)
        seen["refusal has focus"] = page.evaluate("document.activeElement.getAttribute('role')")


def look(window, seen, folder):
    """The auditor reads the plan, the ledger and the audit, and checks the exported ledger offline."""
    page = window.page
    window.open(f"/plans/{seen['plan']}")
    seen["auditor's plan"] = window.words
    page.get_by_role("link", name="ledger").click()
    page.get_by_role("heading", name="Ledger", level=1).wait_for()
    seen["ledger"] = window.words
    with page.expect_download() as fetched:
        page.get_by_role("link", name="Export the ledger").click()
    exported = folder / fetched.value.suggested_filename
    fetched.value.save_as(exported)
    seen["verified"] = command("ledger", "verify", exported, "--plan", folder / "plan.json", "--json")
    page.get_by_role("link", name="Linkage audit").click()
    page.get_by_role("heading", name="Person by person").wait_for()
    seen["audit"] = window.words


def command(*arguments):
    """Runs elldelta; returns what it prints, read if it is JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = execute([str(argument) for argument in arguments])
    assert code == 0, out.getvalue()
    return json.loads(out.getvalue()) if "--json" in arguments else out.getvalue()


def test_the_agency_sees_a_preview_before_it_issues(story):
    assert re.search(r"\d+ classes for 2,500 records", story["preview words"])
    assert "Any 2 releases that pass the certificate of this plan" in story["plan words"]


def test_the_plan_and_its_signature_hold_offline(story):
    assert story["signature"]["valid"]
    assert story["signature"]["plan_digest"] == story["plan"]


def test_everybody_sees_of_the_progress_what_they_may(story):
    assert f"You have {RECORDS - 1:,} of {RECORDS:,} records" in story["a before"]
    assert "2 other owners have reached it" in story["a before"]
    assert story["a bar before"] == str(RECORDS - 1)
    assert "You have reached N" in story["a after"]
    assert f"{RECORDS + 17:,}" not in story["a after"]
    assert "3 owners have reached it" in story["progress for university"]
    assert "hospital-c" not in story["progress for university"]
    for name in ("agency", "auditor"):
        assert f"hospital-c: {RECORDS + 17:,} of {RECORDS:,}, reached" in story[f"progress for {name}"]


def test_two_are_admitted_and_the_one_that_goes_below_ell_is_refused(story):
    for name in ("hospital-a", "hospital-b"):
        assert "Your release is admitted." in story[f"{name} registered"]
    refused = story["hospital-c registered"]
    assert "Not done:" in refused
    assert "What to do:" in refused
    assert "admitted." not in refused
    assert story["refusal has focus"] == "alert"


def test_the_auditor_sees_both_lines_the_refusal_and_that_the_promise_is_kept(story):
    assert "2 releases are admitted" in story["auditor's plan"]
    assert re.search(r"Refused registrations hospital-c: ", story["auditor's plan"])
    assert "the chain is intact, 3 lines" in story["ledger"]
    assert "Line 2: hospital-b" in story["ledger"]
    assert "The ledger is full for" in story["ledger"]
    assert story["verified"]["releases"] == 2
    assert re.search(r"Fewest values left (\d+)", story["audit"])[1] == str(ELL)
    assert "People below 2 0 %" in story["audit"]


def test_nothing_complained_and_nobody_else_was_called(story, people):
    for name, window in people.items():
        assert window.complaints == [], name
        assert window.foreign == [], name


@pytest.mark.parametrize(
    ("name", "width"),
    [
        pytest.param(name, width, marks=[] if (name, width) == QUICK_LOOK else [pytest.mark.slow])
        for name in ("agency", "hospital-a", "university", "auditor")
        for width in WIDTHS
    ],
)
def test_no_page_is_wider_than_its_window(story, server, browser, people, tmp_path_factory, name, width):
    """Follows every link of a role; takes a picture of every page."""
    state = people[name].context.storage_state()
    window = Watched(browser, server.url, width=width, storage_state=state)
    folder = tmp_path_factory.mktemp(f"screens-{name}-{width}-")
    todo, done = ["/"], set()
    try:
        while todo:
            place = todo.pop(0)
            kind = re.sub(r"/parties/[^/]+", "/parties/*", place)  # one of them stands for all
            if kind in done:
                continue
            done.add(kind)
            window.open(place)
            page = window.page
            page.evaluate("() => document.querySelectorAll('details').forEach(part => { part.open = true; })")
            measured = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
            assert measured[0] <= measured[1] == width, (place, measured)
            page.screenshot(path=folder / f"{len(done):02d}.png", full_page=True)
            for link in page.locator("nav a, main a:not([download])").all():
                target = link.get_attribute("href")
                if target.startswith("/") and not target.startswith("/key"):
                    todo.append(target)
    finally:
        window.close()
    assert len(done) >= 6
    assert window.complaints == []
    assert window.foreign == []


def test_more_settings_are_opened_and_filled_in_by_keyboard_on_a_phone(story, server, browser, people):
    state = people["university"].context.storage_state()
    window = Watched(browser, server.url, width=320, storage_state=state)
    try:
        window.open("/populations/region/ask")
        page = window.page
        assert not page.locator("#min_records").is_visible()
        tab_to(page, "More settings")
        page.keyboard.press("Enter")
        for name, value in (("delta", "0.02"), ("merge_risk", ""), ("min_records", "2")):
            tab_to(page, name)
            if value:
                page.keyboard.press("Control+A")
                page.keyboard.type(value)
        measured = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert measured[0] <= measured[1] == 320
        tab_to(page, "File the request")
        page.keyboard.press("Enter")
        page.get_by_text("Your request is filed.").wait_for()
        words = window.words
    finally:
        window.close()
    assert "Records behind a value 2" in words
    assert "0.02" in words
    assert window.complaints == []


def test_everything_works_without_scripts(story, server, browser, people):
    """A page that waits for a job loads itself again."""
    state = people["university"].context.storage_state()
    window = Watched(browser, server.url, width=320, storage_state=state, java_script_enabled=False)
    try:
        window.open("/populations/region/ask")
        page = window.page
        page.get_by_label("Records that every owner can reach").fill("3210")
        page.get_by_role("button", name="File the request").click()
        page.get_by_text("Your request is filed.").wait_for()
        number = re.search(r"/requests/(\d+)", page.url)[1]
    finally:
        window.close()
    state = people["agency"].context.storage_state()
    window = Watched(browser, server.url, storage_state=state, java_script_enabled=False)
    try:
        window.open(f"/requests/{number}")
        window.page.get_by_role("button", name="Preview").click()
        window.page.get_by_role("heading", name="What the request would get").wait_for()
    finally:
        window.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_what_is_shown_has_the_contrast_that_the_theme_promises(story, server, browser, people, scheme):
    """Computed by the browser itself, for every text on the page of the plan."""
    state = people["agency"].context.storage_state()
    window = Watched(browser, server.url, storage_state=state, color_scheme=scheme)
    try:
        window.open(f"/plans/{story['plan']}")
        low = window.page.evaluate(CONTRASTS)
    finally:
        window.close()
    assert low == []


CONTRASTS = """() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((part) => part.nodeType === 3 && part.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const [one, other] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.push([node.tagName, node.textContent.trim().slice(0, 30), ratio]);
  }
  return low;
}"""
