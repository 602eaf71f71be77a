"""Lists page by page: every page says how to ask for the one after it.

A page begins after an entry, which is named by what names it anyway: its number, name or digest. So an entry
that is added meanwhile neither hides another one nor shows it twice.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query
from sqlalchemy import Integer, Select, literal, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.elements import BindParameter

from elldelta.agency.server.state import Agency
from elldelta.errors import ParameterError

LARGEST = 2**31 - 1
TOKEN_PATTERN = r"^[0-9a-f]{12}$"  # noqa: S105 (how the number of a token looks)

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Cursor:
    """Which page of a list is asked for: the first one, or the one after an entry."""

    after: Annotated[
        str | None,
        Query(
            pattern=r"^[A-Za-z0-9._:-]{1,80}$",
            description="The page after this entry: `next` of the page before.",
        ),
    ] = None
    limit: Annotated[
        int | None,
        Query(ge=1, le=LARGEST, description="At most so many entries; the service has a limit of its own."),
    ] = None


CurrentCursor = Annotated[Cursor, Depends()]
FIRST_PAGE = Cursor()


@dataclass(frozen=True)
class Page(Generic[Entry]):
    """A page of a list.

    Attributes:
        entries: Its entries, in the order of the list.
        next: Ask with `after` this for the page after it; None if this is the last one.
    """

    entries: tuple[Entry, ...]
    next: str | None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def read_page(
    agency: Agency,
    chosen: Select[*tuple[Any, ...]],
    cursor: Cursor,
    *order: InstrumentedAttribute[Any],
    view: Callable[[Any], Entry],
    descending: bool = False,
) -> Page[Entry]:
    """Reads a page of a list.

    Args:
        agency: The service.
        chosen: What the whole list consists of.
        cursor: Which page.
        order: The columns that order the list; the last one names an entry, and no two have the same.
        view: Makes an entry of a row.
        descending: Whether the list begins with the largest.

    Raises:
        ParameterError: There is no entry of the name that the cursor tells.
    """
    size = min(cursor.limit or agency.limits.page_size, agency.limits.page_size)
    chosen = chosen.add_columns(order[-1].label("entry_name")).limit(size + 1)
    chosen = chosen.order_by(*(column.desc() if descending else column.asc() for column in order))
    with agency.database.reading() as session:
        if cursor.after is not None:
            beyond = operator.lt if descending else operator.gt
            chosen = chosen.where(beyond(tuple_(*order), tuple_(*_values(session, cursor.after, order))))
        found = session.execute(chosen).all()
        entries = tuple(map(view, found[:size]))
    return Page(entries, str(found[size - 1].entry_name) if len(found) > size else None)


def _values(
    session: Session, name: str, order: tuple[InstrumentedAttribute[Any], ...]
) -> list[BindParameter[Any]]:
    """What an entry has in the columns of the order."""
    place: str | int | None = name
    if isinstance(order[-1].type, Integer):
        place = int(name) if name.isdecimal() and int(name) <= LARGEST else None
    if len(order) == 1 and place is not None:  # also of an entry that was removed the name tells the place
        return [literal(place, order[0].type)]
    found = session.execute(select(*order).where(order[-1] == place)).one_or_none()
    if found is None:
        raise ParameterError(
            "The list has no such entry.",
            found="Nothing is named as 'after' says.",
            remedy="Take it from 'next' of another page of the list.",
        )
    return [literal(value, column.type) for value, column in zip(found, order, strict=True)]
