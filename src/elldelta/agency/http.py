"""Requests to the agency's server over HTTP. Whatever comes back is taken for an enemy's.

The token goes to the named server and nowhere else: redirections are not followed, plain HTTP is for this
machine only, and what leaves over plain HTTP never takes a proxy. Answers have a largest size and a last
moment, whatever the server does; compressed ones are refused, for they have no size. Texts of the server are
shown without control characters.

The package `httpx` is imported where it is used.
"""

from __future__ import annotations

import ipaddress
import json
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from elldelta.errors import FileError, ParameterError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

MIB = 1 << 20
MOST_JSON_BYTES = 8 * MIB
"""The largest answer that is not a file."""

MOST_FILE_BYTES = 256 * MIB
"""The largest plan or ledger that is fetched."""

ATTEMPTS = 5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
TIMEOUT = 60.0

_AGAIN = frozenset({408, 425, 429, 502, 503, 504})
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
    """

    status: int
    content: bytes

    @property
    def is_fine(self) -> bool:
        """Whether the request was done."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    def json(self) -> dict[str, Any]:
        """The JSON object that the answer is.

        Raises:
            RemoteError: It is something else.
        """
        document = _json_object(self.content)
        if document is None:
            raise unexpected("It is not a JSON object.")
        return document

    def problem(self) -> tuple[str, str, str]:
        """The three parts of an error that the server tells, without control characters; may be empty."""
        error = (_json_object(self.content) or {}).get("error")
        parts = error if isinstance(error, dict) else {}
        problem, found, remedy = (shown(parts.get(name)) for name in ("problem", "found", "remedy"))
        return problem, found, remedy


@dataclass(frozen=True)
class AgencyServer:
    """Where the agency's server is, and who asks.

    Attributes:
        url: Its address.
        token: The caller's token; None for what everybody may ask.
        timeout: Seconds that one attempt may take, from the first byte to the last.
        attempts: How often a request is sent if the connection fails.
        sleep: Waits; an argument, so that tests need not.
    """

    url: str
    token: Token | None = None
    timeout: float = TIMEOUT
    attempts: int = ATTEMPTS
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def at(
        cls,
        url: str,
        token: Token | None = None,
        *,
        insecure_http: bool = False,
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
    ) -> AgencyServer:
        """A server, if it may be talked to.

        Args:
            url: Its address, https://...; http:// only on this machine.
            token: The caller's token.
            insecure_http: Allow http:// to other machines, where everybody on the way can read the token.
            timeout: Seconds for one attempt.
            attempts: How often a request is sent if the connection fails.

        Raises:
            ParameterError: The address cannot be used.
        """
        if not 0 < timeout <= 3600:
            raise ParameterError("The time limit lies between 0 and 3600 seconds.")
        return cls(_checked_url(url, insecure_http=insecure_http), token, timeout, attempts)

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
        return _fine(self._send("GET", path, None, {}, most_bytes, query))

    def put(self, *path: str, document: Mapping[str, Any]) -> Answer:
        """Says something that may be said again.

        Raises:
            RemoteError: There is no answer, or it says no.
        """
        content = json.dumps(document, allow_nan=False).encode()
        return _fine(self._send("PUT", path, content, {"Content-Type": "application/json"}, MOST_JSON_BYTES))

    def post(self, *path: str, content: bytes, key: str) -> Answer:
        """Sends a document under an Idempotency-Key, so that it may be sent again.

        What the answer says is for the caller to judge.

        Raises:
            RemoteError: There is no answer.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._send("POST", path, content, headers, MOST_JSON_BYTES)

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        content: bytes | None,
        headers: Mapping[str, str],
        most_bytes: int,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request until there is an answer; every request here may be sent again."""
        import asyncio

        url = "/".join([self.url, "api", "v1", *(quote(part, safe="") for part in path)])
        attempt, pause = 1, FIRST_PAUSE
        while True:
            wished = None
            try:
                answer, wished = asyncio.run(self._once(method, url, content, headers, most_bytes, query))
            except _ConnectionFailedError as failure:
                if attempt >= self.attempts:
                    raise _unreachable(self.url, failure.found, self.attempts) from None
            else:
                if answer.status not in _AGAIN or attempt >= self.attempts:
                    return answer
            self.sleep(min(LONGEST_PAUSE, max(pause, wished or 0.0)))
            attempt, pause = attempt + 1, 2 * pause

    async def _once(
        self,
        method: str,
        url: str,
        content: bytes | None,
        headers: Mapping[str, str],
        most_bytes: int,
        query: Mapping[str, str] | None,
    ) -> tuple[Answer, float | None]:
        """One attempt, with a last moment that no trickle of bytes can put off."""
        import asyncio
        import ssl

        import httpx

        sent = {
            "Accept-Encoding": "identity",
            "User-Agent": "elldelta",
            **({"Authorization": self.token.header()} if self.token else {}),
            **headers,
        }
        is_secret = url.startswith("https://")
        try:
            async with (
                asyncio.timeout(self.timeout),
                httpx.AsyncClient(
                    verify=ssl.create_default_context() if is_secret else False,
                    trust_env=is_secret,  # over plain HTTP a proxy would read the token
                    follow_redirects=False,
                    timeout=self.timeout,
                ) as client,
                client.stream(method, url, content=content, headers=sent, params=query or None) as response,
            ):
                return await _read(response, most_bytes), _wished_pause(response)
        except TimeoutError:
            raise _ConnectionFailedError(
                f"No complete answer came within {self.timeout:g} seconds."
            ) from None
        except httpx.TimeoutException:
            raise _ConnectionFailedError(
                f"No complete answer came within {self.timeout:g} seconds."
            ) from None
        except httpx.ConnectError as problem:
            if "CERTIFICATE_VERIFY_FAILED" in str(problem):
                raise _not_certain(self.url) from None
            raise _ConnectionFailedError("The connection could not be made.") from None
        except (httpx.TransportError, ssl.SSLError, OSError):
            raise _ConnectionFailedError("The connection broke, or the answer is not HTTP.") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            raise unexpected("It is not an answer of HTTP that can be read.") from None


class _ConnectionFailedError(Exception):
    """An attempt failed in a way that another one may not."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(found)


async def _read(response: httpx.Response, most_bytes: int) -> Answer:
    """The bytes of an answer as they are sent; compressed ones could be anything unpacked."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise unexpected("It is compressed, which was not asked for.")
    if response.is_redirect:
        raise unexpected("It sends us to another address; tokens do not follow.")
    parts, n_bytes = [], 0
    async for part in response.aiter_raw():
        n_bytes += len(part)
        if n_bytes > most_bytes:
            raise unexpected(f"It is larger than {most_bytes} bytes.")
        parts.append(part)
    return Answer(response.status_code, b"".join(parts))


def _wished_pause(response: httpx.Response) -> float | None:
    """How long the server asks us to wait, if it says so in seconds."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


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


def _fine(answer: Answer) -> Answer:
    """The answer, or the error that it tells."""
    if answer.is_fine:
        return answer
    raise remote_error(answer)


def remote_error(answer: Answer) -> RemoteError:
    """The error that an answer tells, in the server's words where it has some."""
    problem, found, remedy = answer.problem()
    if not problem:
        return unexpected(f"Its status is {answer.status}.")
    return RemoteError(f"The agency's server says: {problem}", found=found, remedy=remedy)


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
            remedy="Give --server https://..., or set ELLDELTA_SERVER.",
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
            remedy="Use https://. If the way is protected otherwise, allow it with --insecure-http.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _json_object(content: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refuse(_: str) -> None:
    raise ValueError


def _unreachable(url: str, found: str, attempts: int) -> RemoteError:
    return RemoteError(
        f"The agency's server {url} cannot be reached.",
        found=f"{found} It was tried {attempts} times.",
        remedy="Check the address and the network, and try again later.",
    )


def _not_certain(url: str) -> RemoteError:
    return RemoteError(
        f"It is not certain that {url} is the agency's server.",
        found="Its certificate is not one that this machine trusts.",
        remedy="Ask the agency. If it has its own authority, name its file in SSL_CERT_FILE.",
    )
