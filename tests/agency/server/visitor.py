"""Somebody with a browser, without the browser: keeps cookies, sends forms back as they were given."""

import asyncio
from html.parser import HTMLParser

import httpx

from elldelta.agency.server.guard import cookie_name
from elldelta.agency.server.services.parties import log_in

HOST = "http://127.0.0.1"

_VOID = {"input", "img", "link", "meta", "br", "source", "hr"}
_APART = {"td", "th", "tr", "p", "li", "div", "dt", "dd", "h1", "h2", "h3", "option", "summary"}


class Page(HTMLParser):
    """What a page is made of: its elements in order, and the text inside of each kind."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.text = ""
        self._open = []
        self.unbalanced = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs, tuple(name for name, _ in self._open)))
        if tag not in _VOID:
            self._open.append((tag, attrs))

    def handle_endtag(self, tag):
        if tag in _APART:
            self.text += " "
        if self._open and self._open[-1][0] == tag:
            self._open.pop()
        elif tag not in _VOID and tag not in ("path", "rect"):
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if not any(tag in ("script", "style") for tag, _ in self._open):
            self.text += data

    def all(self, tag, **attributes):
        return [
            attrs
            for name, attrs, _ in self.elements
            if name == tag and all(attrs.get(key) == value for key, value in attributes.items())
        ]

    @property
    def words(self):
        return " ".join(self.text.split())


class Visitor:
    """One browser; use it as a context manager."""

    def __init__(self, app):
        self._app = app

    def __enter__(self):
        self._runner = asyncio.Runner()
        self._runner.__enter__()
        transport = httpx.ASGITransport(self._app, client=("192.0.2.9", 4321))
        self._client = httpx.AsyncClient(transport=transport, base_url=HOST)
        return self

    def __exit__(self, *_):
        self._runner.run(self._client.aclose())
        self._runner.__exit__(None, None, None)

    @property
    def cookies(self):
        return self._client.cookies

    def send(self, method, path, **options):
        return self._runner.run(self._client.request(method, path, **options))

    def see(self, path, status=200):
        """Opens a page."""
        answer = self.send("GET", path)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-600:])
        return Page(answer.text)

    def post(self, path, *, files=None, headers=None, **fields):
        """Sends a form as a browser does: with the Origin."""
        return self.send("POST", path, data=fields, files=files, headers={"Origin": HOST, **(headers or {})})


def visitor(service, name):
    """Somebody who has signed in before."""
    browser = Visitor(service.app).__enter__()
    secret = log_in(service.agency, service.tokens[name], address="192.0.2.9")
    browser.cookies.set(cookie_name(service.agency), secret)
    return browser
