"""What is read from a database: a table by its name, or a query."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elldelta.engines import sql
from elldelta.errors import ParameterError

_PART = r'(?:[a-z_][a-z0-9_$]*|"(?:[^"\0]|"")+")'
_NAME = re.compile(rf"(?:(?P<schema>{_PART})[.])?(?P<name>{_PART})", re.IGNORECASE)
_MOST_BYTES = 63


@dataclass(frozen=True)
class TableName:
    """The name of a table in a database, with its schema if that was given.

    Attributes:
        name: The table, spelt as the database spells it.
        schema: Its schema; None for the first place where the database finds the name.
    """

    name: str
    schema: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Reads `patients`, `public.patients` or `"Public"."My patients"`.

        As in SQL, a part without quotes is taken in lower case.

        >>> TableName.parse('Public."My patients"')
        TableName(name='My patients', schema='public')
        """
        found = _NAME.fullmatch(text.strip())
        if found is None:
            raise ParameterError(
                f"{text!r} is not the name of a table.",
                found="A name is table or schema.table, of letters, digits and _.",
                remedy='Put quotes around a part with other characters, as in public."My patients".',
            )
        schema = found["schema"]
        return cls(_unquoted(found["name"]), None if schema is None else _unquoted(schema))

    def __post_init__(self) -> None:
        for part in (self.name, self.schema):
            # The database would cut a longer one, and then mean another table.
            if part is not None and len(part.encode()) > _MOST_BYTES:
                raise ParameterError(
                    f"A name in a database has at most {_MOST_BYTES} bytes.",
                    found=f"One of {len(part.encode())} was given.",
                    remedy="Choose a shorter name.",
                )

    def __str__(self) -> str:
        return ".".join(map(_shown, self._parts))

    @property
    def quoted(self) -> str:
        """The name as it enters SQL."""
        return ".".join(map(sql.identifier, self._parts))

    @property
    def _parts(self) -> tuple[str, ...]:
        return (self.name,) if self.schema is None else (self.schema, self.name)


@dataclass(frozen=True)
class Query:
    """A query whose result is read as a table; it must not write anything."""

    text: str

    def __post_init__(self) -> None:
        text = self.text.strip().rstrip("; \t\r\n")
        if not text or "\0" in text:
            raise ParameterError(
                "The query is empty.", found="There is no text.", remedy='Write, for instance, "SELECT ...".'
            )
        object.__setattr__(self, "text", text)


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()


def _shown(part: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", part)
    return part if plain else sql.identifier(part)
