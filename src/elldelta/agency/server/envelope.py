"""What surrounds every request: its number, the rate of its address, headers, its line in the log.

Plain ASGI, outermost, so that also what goes wrong in the framework becomes an answer without details.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING

from elldelta.agency.server import logs
from elldelta.agency.server.errors import TooManyError, document_of, unforeseen

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from elldelta.agency.server.state import Agency

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""A route may set its own; these are for all others."""

HTTPS_ONLY = "max-age=31536000"

_UNLIMITED = frozenset({"/health", "/ready"})


class Envelope:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, agency: Agency) -> None:
        self._app = app
        self._agency = agency
        headers = dict(HEADERS)
        if agency.settings.behind_proxy:
            headers["Strict-Transport-Security"] = HTTPS_ONLY
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        number = secrets.token_hex(8)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = message["headers"]
                names = {name.lower() for name, _ in own}
                others = [header for header in self._headers if header[0] not in names]
                message["headers"] = [*own, *others, (b"x-request-id", number.encode())]
            await send(message)

        try:
            if scope["path"] not in _UNLIMITED:
                self._agency.by_address.take(scope["client"][0] if scope.get("client") else "")
            await self._app(scope, receive, send_with_headers)
        except TooManyError as error:
            await _answer(send_with_headers, 429, document_of(error), error.retry_after)
        except Exception as error:  # the last line of defence: its text might quote what was sent
            logs.log_bug("unforeseen", error, request=number, route=_template(scope))
            if status:
                raise
            await _answer(send_with_headers, 500, unforeseen())
        finally:
            logs.log(
                "request",
                request=number,
                method=scope["method"] if scope["method"].isalpha() else "?",
                route=_template(scope),
                status=status,
                milliseconds=round((time.perf_counter() - begun) * 1000, 1),
                principal=scope.get("elldelta.principal"),
            )


def _template(scope: Scope) -> str | None:
    """The path of the route with its parameters unfilled; None if there is no such route."""
    return getattr(scope.get("route"), "path", None)


async def _answer(
    send: Send, status: int, document: dict[str, dict[str, str]], retry_after: int | None = None
) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
