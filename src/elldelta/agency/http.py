"""Requests to the agency's server over HTTP. Whatever comes back is taken for an enemy's.

The token goes to the named server and nowhere else: redirections are not followed, plain HTTP is for this
machine only, and what leaves over plain HTTP never takes a proxy. Answers have a largest size and a last
moment, whatever the server does; compressed ones are refused, for they have no size. Texts of the server are
shown without control characters.

The package `httpx` is imported where it is used.
"""

from __future__ import annotations

import ipaddress
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from elldelta.errors import FileError, ParameterError, RemoteError, counted
from elldelta.files import json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

MIB = 1 << 20
MOST_JSON_BYTES = 8 * MIB
"""The largest answer that is not a file."""

MOST_FILE_BYTES = 256 * MIB
"""The largest plan or ledger that is fetched."""

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0

_TOO_MANY = 429
_AGAIN = frozenset({408, 425, _TOO_MANY, 502, 503, 504})
"""Statuses after which the same request may be sent again."""

_TOKEN_CHARACTERS = range(8, 513)
_MOST_TEXT = 500


class Token:
    """A secret of the caller; it appears in no message and in nothing that Python prints."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if len(text) not in _TOKEN_CHARACTERS or not all("!" <= letter <= "~" for letter in text):
            raise FileError(
                "The token cannot be one.",
                found="It is too short or too long, or holds spaces or other characters that no token holds.",
                remedy="Take the token as the agency has shown it, one line without anything else.",
            )
        self._text = text

    def header(self) -> str:
        """What is sent to say who one is."""
        return f"Bearer {self._text}"

    def __repr__(self) -> str:
        return "<Token>"


@dataclass(frozen=True)
class Answer:
    """What the server said.

    Attributes:
        status: The status of HTTP.
        content: The bytes, no more than were allowed.
        pause: Seconds that the server asks us to wait; 0 if it does not say.
    """

    status: int
    content: bytes
    pause: float = 0.0

    def fine(self) -> Answer:
        """The answer, if the request was done.

        Raises:
            RemoteError: It was not; in the server's words where it has some.
        """
        if HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES:
            return self
        problem, found, remedy = self.problem()
        if not problem:
            raise unexpected(f"Its status is {self.status}.")
        raise RemoteError(f"The agency's server says: {problem}", found=found, remedy=remedy)

    def json(self) -> dict[str, Any]:
        """The JSON object that the answer is.

        Raises:
            RemoteError: It is something else.
        """
        document = json_object(self.content)
        if document is None:
            raise unexpected("It is not a JSON object.")
        return document

    def problem(self) -> tuple[str, str, str]:
        """The three parts of an error that the server tells, without control characters; may be empty."""
        error = (json_object(self.content) or {}).get("error")
        parts = error if isinstance(error, dict) else {}
        return shown(parts.get("problem")), shown(parts.get("found")), shown(parts.get("remedy"))


@dataclass(frozen=True)
class AgencyServer:
    """Where the agency's server is, and who asks; only if it may be talked to.

    Attributes:
        url: Its address, https://...; http:// only on this machine.
        token: The caller's token; None for what everybody may ask.
        insecure_http: Allow http:// to other machines, where everybody on the way can read the token.
        timeout: Seconds that one attempt may take, from the first byte to the last.
        attempts: How often a request is sent if the connection fails.
        sleep: Waits; an argument, so that tests need not.

    Raises:
        ParameterError: The address or the time limit cannot be used.
    """

    url: str
    token: Token | None = None
    insecure_http: bool = False
    timeout: float = 60.0
    attempts: int = 5
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if not 0 < self.timeout <= 3600:
            raise ParameterError("The time limit lies between 0 and 3600 seconds.")
        object.__setattr__(self, "url", _checked_url(self.url, insecure_http=self.insecure_http))

    def get(
        self, *path: str, most_bytes: int = MOST_JSON_BYTES, query: Mapping[str, str] | None = None
    ) -> Answer:
        """Asks for something.

        Args:
            path: The parts of the path after `/api/v1`; each is quoted.
            most_bytes: The largest answer.
            query: What to ask for.

        Raises:
            RemoteError: There is no answer, or it says no.
        """
        return self._send("GET", path, most_bytes, params=query or None).fine()

    def put(self, *path: str, document: Mapping[str, Any]) -> Answer:
        """Says something that may be said again.

        Raises:
            RemoteError: There is no answer, or it says no.
        """
        return self._send("PUT", path, json=document).fine()

    def post(self, *path: str, content: bytes) -> Answer:
        """Sends a document that may be sent again; what the answer says is for the caller to judge.

        Raises:
            RemoteError: There is no answer.
        """
        headers = {"Content-Type": "application/json"}
        return self._send("POST", path, content=content, headers=headers)

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        most_bytes: int = MOST_JSON_BYTES,
        **request: Any,  # noqa: ANN401 (what httpx takes)
    ) -> Answer:
        """Sends a request until there is an answer; every request here may be sent again."""
        import asyncio

        url = "/".join([self.url, "api", "v1", *(quote(part, safe="") for part in path)])
        attempt, pause = 1, FIRST_PAUSE
        while True:
            wished = 0.0
            try:
                answer = asyncio.run(self._once(method, url, most_bytes, **request))
            except _ConnectionFailedError as failure:
                if attempt >= self.attempts:
                    raise RemoteError(
                        f"The agency's server {self.url} cannot be reached.",
                        found=f"{failure} It was tried {attempt} times.",
                        remedy="Check the address and the network, and try again later.",
                    ) from None
            else:
                is_over = answer.status == _TOO_MANY and answer.pause > LONGEST_PAUSE
                if answer.status not in _AGAIN or attempt >= self.attempts or is_over:
                    return answer
                wished = answer.pause
            self.sleep(min(LONGEST_PAUSE, max(pause, wished)))
            attempt, pause = attempt + 1, 2 * pause

    async def _once(
        self,
        method: str,
        url: str,
        most_bytes: int,
        **request: Any,  # noqa: ANN401 (what httpx takes)
    ) -> Answer:
        """One attempt, with a last moment that no trickle of bytes puts off, as it does httpx's limits."""
        import asyncio
        import ssl

        import httpx

        headers = {"Accept-Encoding": "identity", "User-Agent": "elldelta"}
        if self.token is not None:
            headers["Authorization"] = self.token.header()
        is_secret = url.startswith("https://")
        try:
            async with (
                asyncio.timeout(self.timeout),
                httpx.AsyncClient(
                    headers=headers,
                    verify=ssl.create_default_context() if is_secret else False,
                    trust_env=is_secret,  # over plain HTTP a proxy would read the token
                    follow_redirects=False,
                    timeout=self.timeout,
                ) as client,
                client.stream(method, url, **request) as response,
            ):
                return await _read(response, most_bytes)
        except (TimeoutError, httpx.TimeoutException):
            raise _ConnectionFailedError(
                f"No complete answer came within {self.timeout:g} seconds."
            ) from None
        except httpx.ConnectError as problem:
            if "CERTIFICATE_VERIFY_FAILED" not in str(problem):
                raise _ConnectionFailedError("The connection could not be made.") from None
            raise RemoteError(
                f"It is not certain that {self.url} is the agency's server.",
                found="Its certificate is not one that this machine trusts.",
                remedy="Ask the agency. If it has its own authority, name its file in SSL_CERT_FILE.",
            ) from None
        except (httpx.TransportError, ssl.SSLError, OSError):
            raise _ConnectionFailedError("The connection broke, or the answer is not HTTP.") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            raise unexpected("It is not an answer of HTTP that can be read.") from None


class _ConnectionFailedError(Exception):
    """An attempt failed in a way that another one may not; says how."""


async def _read(response: httpx.Response, most_bytes: int) -> Answer:
    """The bytes of an answer as they are sent; compressed ones could be anything unpacked."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise unexpected("It is compressed, which was not asked for.")
    if response.is_redirect:
        raise unexpected("It sends us to another address; tokens do not follow.")
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > most_bytes:
            raise unexpected(f"It is larger than {counted(most_bytes, 'byte')}.")
    pause = response.headers.get("retry-after", "")
    is_seconds = pause.isascii() and pause.isdigit() and len(pause) < 6
    return Answer(response.status_code, bytes(content), float(pause) if is_seconds else 0.0)


def shown(text: object, *, most: int = _MOST_TEXT) -> str:
    """A text of the server as it may be printed: no control characters, not too long, empty if it is none."""
    if not isinstance(text, str):
        return ""
    kept = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: most + 1]
    )
    return kept if len(kept) <= most else kept[: most - 1] + "…"


def unexpected(found: str) -> RemoteError:
    """The error for an answer that is not what was agreed."""
    return RemoteError(
        "The server does not answer as an agency's server does.",
        found=found,
        remedy="Check its address; ask the agency if it is the right one.",
    )


def _checked_url(url: str, *, insecure_http: bool) -> str:
    """The address without what does not belong there."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("https", "http") or not url.isprintable() or " " in url:
        raise ParameterError(
            "The address of the server must look like https://agency.example.",
            found="It does not.",
            remedy="Write the whole address, or set ELLDELTA_SERVER to it.",
            parameter="url",
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ParameterError(
            "The address of the server holds more than an address.",
            found="It has a user, a question or a fragment in it.",
            remedy="Give the address alone; who you are is said by the token.",
        )
    if parts.scheme == "http" and not insecure_http and not is_loopback(host):
        raise ParameterError(
            "Over http:// everybody on the way can read your token and change what you are told.",
            found="The server is on another machine.",
            remedy="Use https://. If the way is protected otherwise, allow http.",
            parameter="insecure_http",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
