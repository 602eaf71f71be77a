"""`elldelta serve` and `elldelta worker`: the central agency as a service."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elldelta.cli import output
from elldelta.cli.agency import require
from elldelta.cli.app import command
from elldelta.errors import ParameterError
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from elldelta.agency.server.settings import Settings

DEMO_FOLDER = "demo"


@dataclass(frozen=True)
class ServiceOptions:
    """What the service and its worker share."""

    database: Annotated[
        str,
        typer.Option(
            help="A database: postgresql://user:password@host/name or sqlite:///file; by default a file in "
            "the data folder. The environment variable ELLDELTA_DATABASE says the same.",
            envvar="ELLDELTA_DATABASE",
            show_default=False,
            show_envvar=False,
        ),
    ] = ""
    data: Annotated[Path, Doc("The folder for the agency's private key and its database.")] = Path("agency")
    require_epsilon: Annotated[
        float | None,
        Doc(
            "Take only models that protect the people in the past records (estimate --epsilon), with at "
            "most this epsilon.",
            panel="Expert",
        ),
    ] = None
    log_level: Annotated[str, Doc("debug, info, warning or error.", panel="Expert")] = "info"

    def settings(self, folder: Path | None = None, **others: Any) -> Settings:  # noqa: ANN401 (as settings take)
        """The settings of the service."""
        from elldelta.agency.server.settings import read_settings

        return read_settings(
            folder=folder or self.data,
            database=self.database,
            require_epsilon=self.require_epsilon,
            log_level=self.log_level,
            **others,
        )


@dataclass(frozen=True)
class ListenOptions:
    """How requests reach the service."""

    host: Annotated[str, Doc("The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Doc("The port to listen on; 0 for any free one.")] = 8000
    workers: Annotated[int, Doc("Processes that answer requests.", panel="Expert")] = 1
    behind_proxy: Annotated[
        str,
        Doc(
            "A proxy on this machine ends https at this address (https://agency.example): answer for it, "
            "believe the callers' addresses that it names, and send cookies over https only.",
            panel="Expert",
        ),
    ] = ""


@command("serve", example="serve --demo")
def _serve(
    *,
    listening: ListenOptions,
    service: ServiceOptions,
    demo: Annotated[
        bool,
        Doc(
            "Generated hospitals with an issued plan, in a database of their own, with tokens that "
            "everybody knows."
        ),
    ] = False,
    create_admin: Annotated[
        str | None,
        Doc("Add a member of the agency's staff, print a first access token, and end."),
    ] = None,
    new_key: Annotated[
        bool,
        Doc(
            "Make another key for the agency and end; it signs from the next start on. The old public "
            "key is kept.",
            panel="Expert",
        ),
    ] = False,
    allow_empty: Annotated[
        bool,
        Doc(
            "Start although the agency has a key and an empty database: it forgets what it promised.",
            panel="Expert",
        ),
    ] = False,
) -> None:
    """Run the central agency: requests, signed plans, progress, registered releases, the ledger."""
    _require_server()
    from elldelta.agency.server.run import create_admin as add_admin
    from elldelta.agency.server.run import serve
    from elldelta.agency.server.state import renew_key, starts_empty

    if demo and (service.database or create_admin):
        raise ParameterError(
            "The demonstration has its own database and its own tokens.",
            found=f"--demo was given together with {'--database' if service.database else '--create-admin'}.",
            remedy="Leave one of them out.",
        )
    folder = service.data / DEMO_FOLDER if demo else service.data
    settings = service.settings(folder, is_demo=demo, **vars(listening))
    if new_key:
        old, new = renew_key(settings)
        output.print_text(
            f"The new key is {new.id}.",
            f"The old key was {old.id}; its public part is kept in {settings.former_keys}.",
            "Start the service again, and tell every owner the new key by another way than the service.",
        )
        return
    if not allow_empty and starts_empty(settings):
        _confirm_empty(settings)
    if create_admin is not None:
        first = add_admin(settings, create_admin)
        output.print_text(
            f"{create_admin} signs in with this token, which is shown only now and ends on "
            f"{first.expires:%Y-%m-%d}:",
            first.token,
        )
        return
    if demo:
        _fill_demo(settings)
    serve(settings, ready=_print_address)


@command("worker", example="worker --data agency")
def _worker(service: ServiceOptions) -> None:
    """Do the jobs of the agency's service: frontiers, previews, plans, audits. One worker, beside serve."""
    _require_server()
    from elldelta.agency.server.worker import work

    work(service.settings())


def _require_server() -> None:
    require(
        "The service",
        "server",
        *("alembic", "cryptography", "fastapi", "psycopg", "pydantic_settings"),
        *("sqlalchemy", "uvicorn"),
    )


def _confirm_empty(settings: Settings) -> None:
    """Asks before an agency that has a key begins anew, without plans, ledgers and parties."""
    found = f"The key {settings.key_file} was used before, and the database is empty."
    if sys.stdin.isatty():
        output.print_note(found)
        if typer.confirm("Start as an agency that has promised nothing?"):
            return
    raise ParameterError(
        "The agency's database is empty, and its key is not new.",
        found=found,
        remedy="Check --data and --database, or restore the database from a copy. If there was nothing in "
        "it, start with --allow-empty.",
    )


def _print_address(url: str) -> None:
    output.print_text(f"Serving on {url} (end with Ctrl-C)")
    sys.stdout.flush()  # whoever waits for this line may read it from a pipe


def _fill_demo(settings: Settings) -> None:
    from elldelta.agency.server.demo import fill

    output.print_note("Preparing the demonstration ...")
    # No table: a token must stay in one piece, or it cannot be copied.
    lines = [f"  {login.name:<10}  {login.token}" for login in fill(settings)]
    output.print_text("Tokens of the demonstration (generated data only):", *lines)
