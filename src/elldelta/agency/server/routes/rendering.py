"""How pages are made: templates, escaped by default; forms, redirections, the page of an error.

Stylesheet, scripts and icon come from the installed package, under names that change with their content.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from elldelta.agency.server.errors import HttpError, NotFoundError, WrongTypeError, status_of, told
from elldelta.agency.server.guard import allow_anybody
from elldelta.errors import ElldeltaError, InputError, ParameterError, RefusedError
from elldelta.pages.page import environment_of
from elldelta.plan.wish import by_column
from elldelta.plan.words import rounded_up

if TYPE_CHECKING:
    from jinja2 import Environment

    from elldelta.agency.server.state import Agency

ForTheForm = (InputError, RefusedError)
"""What goes wrong because of what somebody sent: told beside the form. Bugs of ours have their own page."""

ONE_IN_A_MILLION = 1e-6

FOR_EVER = "public, max-age=31536000, immutable"
"""A changed file has another name, so a browser need not ask again."""

pages = APIRouter(include_in_schema=False)

_STATIC = Path(__file__).parent.parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_LOCAL = re.compile(r"/(?![/\\])[!-~]{0,500}\Z")
_WHOLE = re.compile(r"[0-9]{1,18}\Z")
_DECIMAL = re.compile(r"(?=.{1,30}\Z)([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")

Found = TypeVar("Found")
Endpoint = Callable[..., Response]


@dataclass(frozen=True, repr=False)
class Posted:
    """The fields of a form.

    Attributes:
        texts: What was typed or chosen, by the name of the field.
        files: What was uploaded.
    """

    texts: Mapping[str, str]
    files: Mapping[str, bytes]

    def text(self, name: str) -> str:
        """A field as it was typed; empty if it is not there."""
        return self.texts.get(name, "")

    def whole(self, name: str, what: str) -> int:
        """A whole number; spaces between its digits are fine."""
        text = "".join(self.text(name).split())
        if not _WHOLE.match(text):
            raise _wrong(f"{what} must be a whole number.", text, "Write digits only, for example 5000.")
        return int(text)

    def number(self, name: str, what: str) -> float:
        """A number with a decimal point."""
        text = self.text(name).strip()
        if not _DECIMAL.match(text):
            raise _wrong(f"{what} must be a number.", text, "Write it with a point, for example 0.01.")
        return float(text)

    def by_column(self, name: str, what: str) -> int | dict[str, int]:
        """A whole number, or one for each of several columns: disease=5,income=3."""
        found = by_column(self.text(name), what, int) if "=" in self.text(name) else None
        return self.whole(name, what) if found is None else found

    def numbers_by_column(self, name: str, what: str) -> float | dict[str, float]:
        """A number with a decimal point, or one for each of several columns."""
        found = by_column(self.text(name), what, float) if "=" in self.text(name) else None
        return self.number(name, what) if found is None else found

    def maybe(self, name: str, read: Callable[[str, str], Found], what: str) -> dict[str, Found]:
        """A number by its name, or nothing if its field is empty."""
        return {name: read(name, what)} if self.text(name).strip() else {}

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """One of several; None if the field is empty."""
        text = self.text(name)
        if text and text not in allowed:
            raise ParameterError("One of the choices is not on offer.", remedy="Load the page again.")
        return text or None

    def reason(self) -> str:
        """Why something was decided, on one line; nobody is left without one."""
        text = " ".join(self.text("reason").split())
        if not text:
            raise _wrong("A reason is needed.", text, "Write a sentence for those concerned.")
        return text

    def file(self, name: str, what: str) -> bytes:
        """An uploaded file."""
        content = self.files.get(name, b"")
        if not content:
            raise ParameterError(
                f"Choose {what}.",
                found="No file came with the form, or an empty one.",
                remedy="Choose a file.",
            )
        return content

    @property
    def typed(self) -> dict[str, str]:
        """What to show again after an error; never a secret."""
        return {name: text for name, text in self.texts.items() if name != "token"}


NOTHING = Posted({}, {})


async def _posted(request: Request) -> AsyncIterator[Posted]:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == b"multipart/form-data" and options.get(b"charset", b"utf-8").lower() != b"utf-8":
        # The framework would decode it with any codec: some make characters that cannot be written anywhere.
        raise WrongTypeError("A form is sent in UTF-8.", found="It names another encoding.")
    try:
        form = await request.form()
    except ClientDisconnect:
        raise HttpError("The request ended before its body was complete.", remedy="Send it again.") from None
    texts, files = {}, {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files[name] = await value.read()
        else:
            texts[name] = value
    try:
        yield Posted(texts, files)
    finally:
        await form.close()


PostedForm = Annotated[Posted, Depends(_posted)]


def _wrong(problem: str, text: str, remedy: str) -> ParameterError:
    found = "The field holds something else." if text else "The field is empty."
    return ParameterError(problem, found=found, remedy=remedy)


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    error: ElldeltaError | None = None,
    **content: Any,  # noqa: ANN401
) -> HTMLResponse:
    """A page; a name that its template needs and does not get is an error."""
    agency: Agency = request.app.state.agency
    html = (
        _environment()
        .get_template(template)
        .render(
            me=getattr(request.state, "caller", None),
            path=request.url.path,
            done=request.query_params.get("done", ""),
            is_demo=agency.settings.is_demo,
            error=error,
            **content,
        )
    )
    return HTMLResponse(html, status)


def or_form(template: str, content: Callable[..., dict[str, Any]]) -> Callable[[Endpoint], Endpoint]:
    """Shows the page of a form once more, with what was wrong, where the endpoint refuses what was sent.

    Args:
        template: The page.
        content: Makes what the page shows, from what the endpoint was given.
    """

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        def attempt(**given: Any) -> Response:  # noqa: ANN401 (whatever the endpoint takes)
            try:
                return endpoint(**given)
            except ForTheForm as error:
                request = given["request"] if "request" in given else given["visit"].request
                again = page(request, template, status=status_of(error), error=error, **content(**given))
                again.headers.update(retry_header(error))
                return again

        return attempt

    return decorate


def retry_header(error: ElldeltaError) -> dict[str, str]:
    """When to try again, if an error says so."""
    seconds = getattr(error, "retry_after", None)
    return {} if seconds is None else {"Retry-After": str(seconds)}


def see(path: str, done: str | None = None) -> RedirectResponse:
    """Sends the browser to another page, after something was done; the page says what, by its name only."""
    path = quote(path, safe="/:?=&#.")
    return RedirectResponse(path if done is None else f"{path}?done={done}", 303)


def local_path(path: str) -> str:
    """A path of this service to return to; anything else becomes the first page."""
    return path if _LOCAL.match(path) else "/"


def error_page(request: Request, status: int, error: ElldeltaError) -> HTMLResponse:
    """What a browser shows when something is wrong; somebody who is not known can sign in at once."""
    if status == 401:
        wanted = request.url.path if request.method == "GET" else "/"
        return page(request, "sign_in.html", status=status, **sign_in_content(request, wanted=wanted))
    problem, found, remedy = told(error)["error"].values()
    if status == 404:
        remedy = "Follow a link from the first page."
    elif status == 422 and request.method == "GET":
        problem, found = "There is no such page.", "The address cannot be understood."
        remedy = "Follow a link from the first page."
    return page(request, "error.html", status=status, problem=problem, found=found, remedy=remedy)


def sign_in_content(request: Request, *, wanted: str = "/") -> dict[str, Any]:
    """What the form to sign in shows; the logins of the demonstration are known to everybody."""
    agency: Agency = request.app.state.agency
    logins: tuple[Any, ...] = ()
    if agency.settings.is_demo:
        from elldelta.agency.server.demo import LOGINS

        logins = LOGINS
    return {"wanted": wanted, "logins": logins, "has_oidc": agency.settings.oidc is not None}


@pages.get("/static/{name}", dependencies=[allow_anybody()])
async def asset(name: str) -> Response:
    """Gives a file by the name that pages use for it."""
    for public, content in _assets().values():
        if public == name:
            kind = _TYPES[Path(name).suffix]
            return Response(content, media_type=kind, headers={"Cache-Control": FOR_EVER})
    raise NotFoundError("file")


@cache
def _assets() -> dict[str, tuple[str, bytes]]:
    """Files that pages refer to: by name, the public name and the content."""
    found = {}
    for path in sorted(_STATIC.iterdir()):
        content = path.read_bytes()
        mark = hashlib.sha256(content).hexdigest()[:16]
        found[path.name] = f"{path.stem}.{mark}{path.suffix}", content
    return found


@cache
def _environment() -> Environment:
    environment = environment_of("elldelta.agency.server")
    environment.filters |= {
        "share": lambda value: f"{value:.1%}".replace("%", " %"),
        "chance": chance,
        "small": lambda value: f"{value:.3g}",
        "moment": _moment,
        "iso": lambda value: value.isoformat(timespec="seconds"),
        "short": lambda digest: digest.removeprefix("sha256:")[:8],
    }
    environment.globals["asset"] = lambda name: f"/static/{_assets()[name][0]}"
    return environment


def chance(bound: float) -> str:
    """An upper bound on a chance, for people; what is told is never smaller than the bound."""
    if bound <= ONE_IN_A_MILLION:
        return "one in a million"
    return rounded_up(bound) if bound >= 1e-3 else f"one in {math.floor(1 / bound):,}"


def _moment(moment: dt.datetime) -> str:
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
