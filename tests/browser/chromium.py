"""Debian's Chromium, driven by Playwright; what it complains about and whom it calls is written down."""

import contextlib
import shutil

import pytest

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="Chromium is not there; get it with: apt-get install chromium"
)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

PATIENCE = 180_000
"""Milliseconds after which something that must happen counts as not happening; never a measurement."""


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        yield browser
        browser.close()


class Watched:
    """One person's browser window; every complaint and every call to another host is kept."""

    def __init__(self, browser, url, *, width=1280, **options):
        self.url = url
        self.complaints = []
        self.foreign = []
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, accept_downloads=True, **options
        )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._called)

    def close(self):
        self.context.close()

    def open(self, path):
        self.page.goto(self.url + path)  # waits for style, scripts and pictures, too

    def sign_in(self, token):
        self.open("/sign-in")
        self.page.get_by_label("Access token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    @property
    def words(self):
        return " ".join(self.page.locator("main").inner_text().split())

    def _heard(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({self.page.url})")

    def _called(self, request):
        if not request.url.startswith((self.url + "/", "data:")):
            self.foreign.append(request.url)
