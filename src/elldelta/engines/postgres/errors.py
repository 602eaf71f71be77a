"""Our errors for PostgreSQL's, told by their codes; its texts, which quote cells, are never passed on."""

from __future__ import annotations

from typing import Literal, NamedTuple

import adbc_driver_manager

from elldelta.errors import DataError, ElldeltaError, FileError, InternalError, ParameterError

Doing = Literal["connect", "open", "read", "put"]
"""What was going on: reaching the server; looking at a source; reading it; bringing a small table in as a
temporary one."""


_LOST = {"08000", "08003", "08006", "57P01", "57P02", "57P03", "25P03"}


class _Meaning(NamedTuple):
    """What some codes, or beginnings of codes, mean while something is going on; {it} is what it is about."""

    codes: str
    doing: frozenset[Doing] | None  # None: whatever it is
    kind: type[ElldeltaError]
    problem: str
    found: str
    remedy: str


# The first that fits is meant.
_MEANINGS = (
    _Meaning(
        "42P01 3F000 3D000", None, FileError, "{It} cannot be read.",
        "The database has no such table, or not any more.",
        "Check the name, its schema and the database; quote a name with capital letters.",
    ),
    _Meaning(
        "42501", frozenset({"put"}), FileError, "The database does not allow temporary tables.",
        "Quarantine, persons and tables in memory need them, counting does not.",
        "Ask its administrator for GRANT TEMPORARY ON DATABASE.",
    ),
    _Meaning(
        "42501", None, FileError, "{It} cannot be read.", "The role may not read it, or something in it.",
        "Ask the administrator for GRANT SELECT, or name the columns it may read in a query.",
    ),
    _Meaning(
        "25006", frozenset({"put"}), FileError, "The database cannot be written to.",
        "It is a copy that follows another server, or is set to read only.",
        "Give the address of the main server; counting works here too.",
    ),
    _Meaning(
        "25006", None, ParameterError, "{It} would change the database.",
        "It was stopped; nothing has changed.", "Give a query that only reads.",
    ),
    _Meaning(
        "57014", None, FileError, "The database stopped working on {it}.",
        "A time limit was reached, or somebody cancelled it.",
        "Ask the administrator for a longer statement_timeout, and try again.",
    ),
    _Meaning(
        "53 54 58030", None, FileError, "The database has not enough room for this.",
        "It reached a limit of memory, disk or connections.", "Make room on the server, and try again.",
    ),
    _Meaning(
        "40 55P03 XX000", None, FileError, "The database gave up working on {it}.",
        "Somebody else worked on the same tables.", "Try again.",
    ),
    _Meaning(
        "22021 22P05", None, DataError, "A text cannot be stored in the database.",
        "It has a zero byte, or a character that its encoding lacks.",
        'Correct the text, or use `engine=connect("duckdb")`.',
    ),
    _Meaning(
        "22", None, DataError, "{It} holds values that cannot be converted.",
        "A number, date or text does not have the form that is needed.",
        "Correct the query, or convert the column in it.",
    ),
    _Meaning(
        "42883 42804 42P22 42P18 0A000", frozenset({"read", "put"}), DataError,
        "{It} has a column of a type that cannot be compared or sorted.",
        "The database says SQLSTATE {code}.",
        "Convert the column in a query, or leave it out.",
    ),
    _Meaning(
        "42601", None, ParameterError, "{It} cannot be run.", "The database says: it is not SQL.",
        "Try it in psql first.",
    ),
    _Meaning(
        "42703", None, ParameterError, "{It} cannot be run.",
        "The database says: it names a column that does not exist.", "Try it in psql first.",
    ),
    _Meaning(
        "42 0A000 21000", None, ParameterError, "{It} cannot be run.", "The database says: SQLSTATE {code}.",
        "Try it in psql first.",
    ),
)  # fmt: skip


def translated(error: adbc_driver_manager.Error, doing: Doing, subject: str) -> ElldeltaError:
    """One of our errors for one of the database's.

    Args:
        error: What the driver raised.
        doing: What was going on.
        subject: Words for the table, the query or the release that it was about.
    """
    code = error.sqlstate or ""
    if doing == "connect":
        return _unreachable(str(error), code)
    is_lost = error.status_code == adbc_driver_manager.AdbcStatusCode.IO if not code else code in _LOST
    if is_lost:
        return FileError(
            "The connection to the database was lost.",
            found="The server ended it, or the network did.",
            remedy="Try again; nothing was left half written.",
        )
    if not code:
        return unreadable(subject)
    names = {"it": subject, "It": _capital(subject), "code": code}
    for meaning in _MEANINGS:
        if code.startswith(tuple(meaning.codes.split())) and doing in (meaning.doing or (doing,)):
            problem, found = meaning.problem.format(**names), meaning.found.format(**names)
            return meaning.kind(problem, found=found, remedy=meaning.remedy)
    return InternalError(
        "The database refused a query.",
        found=f"It says SQLSTATE {code}; its message is withheld, because it may quote records.",
        remedy="Please report what you did, without the data.",
    )


def unreadable(subject: str) -> DataError:
    """Cells that Arrow cannot take."""
    return DataError(
        f"{_capital(subject)} holds values that cannot be read.",
        found="A column has a type, or a text an encoding, that Arrow lacks.",
        remedy="Convert the column in a query, or leave it out.",
    )


def _unreachable(words: str, code: str) -> FileError:
    """Why there is no connection. Only the libpq texts tell, and they may be in any language."""
    if code[:2] == "28" or "authentication failed" in words or "no password supplied" in words:
        found, remedy = "It does not accept the role or its password.", "Check both in the address."
    elif "Connection refused" in words or "No such file or directory" in words:
        found, remedy = "Nobody listens at the address.", "Check host and port, and that the server runs."
    elif "translate host name" in words:
        found, remedy = "The name of the host is not known.", "Check the host in the address."
    elif 'database "' in words and "does not exist" in words:
        found, remedy = "The server has no database of that name.", "Check the name in the address."
    elif 'role "' in words and ("does not exist" in words or "not permitted to log in" in words):
        found, remedy = "The server does not let the role in.", "Check the name in the address."
    elif "pg_hba.conf" in words:
        found, remedy = "The server does not let this role in from here.", "Ask its administrator."
    elif "too many" in words:
        found, remedy = "It has no room for another connection.", "Try again later."
    elif "URI" in words or "connection option" in words or 'missing "=" after' in words:
        found = "The address cannot be understood."
        remedy = "Write postgresql://role@host:5432/database, with other marks as %20 and so on."
    else:
        found = "The reason is withheld, because it may quote the address."
        remedy = "Check the address, the network and the server's log."
    return FileError("The database cannot be reached.", found=found, remedy=remedy)


def _capital(subject: str) -> str:
    return subject[:1].upper() + subject[1:]
