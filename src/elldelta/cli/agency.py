"""Options about the agency's server: where it is, who asks, and which key is the agency's."""

from __future__ import annotations

import importlib.util
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elldelta.errors import FileError, InputError, ParameterError
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from elldelta.agency.http import AgencyServer, Token

TOKEN_VARIABLE = "ELLDELTA_TOKEN"  # noqa: S105 (the name of a variable)


def agency_key(shown: str) -> Any:  # noqa: ANN401 (as typer declares it)
    """The option that names the agency's key, and what must be signed with it."""
    return typer.Option("--agency-key", help=f"The agency's public key, a .pem file: {shown}.")


AgencyKeyFile = Annotated[Path | None, agency_key("the plan must then carry its signature")]
PlanDigest = Annotated[str, typer.Argument(help="The digest of the plan, sha256:...")]

_MOST_TOKEN_BYTES = 4096


@dataclass(frozen=True)
class Connection:
    """Where the agency's server is and who asks: the options that all commands about it share."""

    server: Annotated[
        str | None,
        typer.Option(envvar="ELLDELTA_SERVER", help="The address of the agency's server, https://..."),
    ] = None
    token_file: Annotated[
        Path | None,
        Doc("A file with your token that only you may read. Without it the variable ELLDELTA_TOKEN counts."),
    ] = None
    insecure_http: Annotated[
        bool,
        Doc("Allow http:// to another machine: everybody on the way can read your token.", panel="Expert"),
    ] = False
    timeout: Annotated[float, Doc("Seconds that one attempt may take.", panel="Expert")] = 60.0

    def __post_init__(self) -> None:
        require("Working with the agency's server", "remote")

    def open(self, *, needs_token: bool = True) -> AgencyServer:
        """The server; a token is never an option itself, for options are seen by everybody."""
        require("Working with the agency's server", "remote", "httpx", "pydantic")
        from elldelta.agency.http import AgencyServer

        if self.server is None:
            raise ParameterError(
                "The address of the agency's server is missing.",
                found="There is no --server, and ELLDELTA_SERVER is not set.",
                remedy="Give --server https://...",
            )
        token = _token(self.token_file)
        if token is None and needs_token:
            raise ParameterError(
                "The agency's server wants to know who you are.",
                found=f"There is no --token-file, and {TOKEN_VARIABLE} is not set.",
                remedy="Put the token that the agency has given you into a file of mode 600 and name it.",
            )
        return AgencyServer(self.server, token, self.insecure_http, self.timeout)

    def options(self) -> list[str]:
        """What the next command needs again; it knows by itself what variables say."""
        found = []
        if self.server is not None and self.server != os.environ.get("ELLDELTA_SERVER"):
            found += ["--server", self.server]
        if self.token_file is not None:
            found += ["--token-file", str(self.token_file)]
        return found + ["--insecure-http"] * self.insecure_http


def require(what: str, extra: str, *packages: str) -> None:
    """Says what to install if a package is missing; the agency itself may be left out of an installation.

    Raises:
        InputError: Something is not there.
    """
    missing = [name for name in ("elldelta.agency", *packages) if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{what} needs packages that are not installed.",
            found=f"Missing: {', '.join(missing)}.",
            remedy=f"Run: pip install 'elldelta[{extra}]'",
        )


def _token(path: Path | None) -> Token | None:
    from elldelta.agency.http import Token

    if path is None:
        text = os.environ.get(TOKEN_VARIABLE)
        return Token(text.strip()) if text else None
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_MOST_TOKEN_BYTES)
    except OSError as problem:
        raise FileError(
            f"The token file {path} cannot be read.", found=f"The system says: {problem.strerror}."
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise FileError(
            f"Others may read the token file {path}.",
            found=f"Its permissions are {mode:04o}.",
            remedy=f"Run: chmod 600 {path}. If somebody may have read it, ask the agency for a new token.",
        )
    return Token(content.decode("utf-8", "replace").strip())
