"""How pages are made: templates, escaped by default; forms, redirections, the page of an error.

Charts are SVG files of their own: the policy of a page forbids styles inside it, also those of a drawing.
Stylesheet, scripts and icon come from the installed package, under names that change with their content.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from elldelta.agency.server.errors import (
    HttpError,
    NotFoundError,
    WrongTypeError,
    public_error_document,
    status_of,
)
from elldelta.agency.server.guard import allow_anybody
from elldelta.errors import ElldeltaError, InputError, ParameterError, RefusedError, counted
from elldelta.pages.charts import as_svg
from elldelta.pages.page import environment_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

    from elldelta.agency.server.state import Agency

FORM_ERRORS = (InputError, RefusedError)
"""What goes wrong because of what somebody sent: told beside the form. Bugs of ours have their own page."""

FOR_EVER = "public, max-age=31536000, immutable"
"""A changed file has another name, so a browser need not ask again."""

Width = Literal["wide", "narrow"]

PICTURE_SIZES: Mapping[Width, tuple[float, float]] = {"wide": (6.4, 4.2), "narrow": (3.8, 3.6)}
"""In inches. On a phone the same letters need a smaller drawing."""

PICTURE_HEADERS = {
    # The drawing library writes styles into a drawing. Nothing else may happen in it, wherever it is opened.
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; sandbox",
}

_DRAWING = threading.Lock()
"""The drawing library is not made for several threads."""

pages = APIRouter(include_in_schema=False)

_STATIC = Path(__file__).parent.parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_LOCAL = re.compile(r"/(?![/\\])[!-~]{0,500}\Z")

Model = TypeVar("Model", bound=BaseModel)
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
        """A field on one line; empty if it is not there."""
        return " ".join(self.texts.get(name, "").split())

    def read(self, model: type[Model], **more: str) -> Model:
        """The fields as what the interface for programs takes; an empty one counts as left out.

        Raises:
            ParameterError: They do not fit.
        """
        texts = {name: self.text(name) for name in model.model_fields} | more
        try:
            return model.model_validate({name: text for name, text in texts.items() if text}, strict=False)
        except ValidationError as error:
            wrong = error.errors(include_input=False)[:5]
        raise ParameterError(
            "The form cannot be used.",
            found="; ".join(f"{item['loc'][0]}: {item['msg']}" for item in wrong) + ".",
            remedy="Correct it, and send it again.",
            parameter=tuple(dict.fromkeys(str(item["loc"][0]) for item in wrong)),
        )

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


EMPTY_FORM = Posted({}, {})


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


def form_again(template: str, content: Callable[..., dict[str, Any]]) -> Callable[[Endpoint], Endpoint]:
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
            except FORM_ERRORS as error:
                request = given["request"] if "request" in given else given["context"].request
                again = page(request, template, status=status_of(error), error=error, **content(**given))
                again.headers.update(retry_header(error))
                return again

        return attempt

    return decorate


def retry_header(error: ElldeltaError) -> dict[str, str]:
    """When to try again, if an error says so."""
    seconds = getattr(error, "retry_after", None)
    return {} if seconds is None else {"Retry-After": str(seconds)}


def redirect(path: str, done: str | None = None) -> RedirectResponse:
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
    problem, found, remedy, _ = public_error_document(error)["error"].values()
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


def picture(figure: Figure, width: Width, *, is_map: bool = False) -> Response:
    """A chart in one of its sizes."""
    across, up = PICTURE_SIZES[width]
    with _DRAWING:
        figure.set_size_inches(across, up + 0.6 * is_map)
        content = as_svg(figure)
    return Response(content, media_type="image/svg+xml", headers=PICTURE_HEADERS)


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
        "counted": counted,
        "small": lambda value: f"{value:.3g}",
        "moment": _moment,
        "iso": lambda value: value.isoformat(timespec="seconds"),
        "short": lambda digest: digest.removeprefix("sha256:")[:8],
    }
    environment.globals["asset"] = lambda name: f"/static/{_assets()[name][0]}"
    return environment


def _moment(moment: dt.datetime) -> str:
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
