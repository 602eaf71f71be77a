"""Lists part by part; every part says how to ask for the one before it and the one after it.

A part begins after an entry or ends before one, and the entry is named by what names it anyway: its number,
name or digest. So an entry that is added meanwhile neither hides another one nor shows it twice.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, create_model
from sqlalchemy import Select, literal, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.elements import BindParameter

from elldelta.agency.server.state import Agency
from elldelta.agency.server.tables import DIGEST_PATTERN, NAME_PATTERN
from elldelta.errors import ParameterError

LARGEST = 2**31 - 1
TOKEN_PATTERN = r"^[0-9a-f]{12}$"  # noqa: S105 (how the number of a token looks)

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Window:
    """Which part of a list is asked for: its beginning, or what lies after or before an entry.

    Attributes:
        after: The entry after which the part begins.
        before: The entry before which it ends.
        most: The most entries; never more than the service lists at once.
    """

    after: str | int | None = None
    before: str | int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.after is not None and self.before is not None:
            raise ParameterError(
                "A part of a list lies after an entry or before one.",
                found="Both were given.",
                remedy="Leave one of them out.",
            )


BEGINNING = Window()


@dataclass(frozen=True)
class Part(Generic[Entry]):
    """A part of a list.

    Attributes:
        entries: Its entries, in the order of the list.
        previous: Ask with `before` this for the part before; None if this is the first one.
        next: Ask with `after` this for the part after; None if this is the last one.
    """

    entries: tuple[Entry, ...]
    previous: str | None
    next: str | None

    def document(self, name: str) -> dict[str, Any]:
        """The part as an answer; `part_of` is its description."""
        return {name: self.entries, "previous": self.previous, "next": self.next}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def part_of(name: str, entry: type[BaseModel]) -> type[BaseModel]:
    """The description of an answer that lists such entries under a name."""
    fields: dict[str, Any] = {name: (tuple[entry, ...], ...)}  # type: ignore[valid-type]
    fields |= dict.fromkeys(("previous", "next"), (str | None, ...))
    return create_model(f"PartOf{name.title()}", **fields)


def read_part(
    agency: Agency,
    chosen: Select[*tuple[Any, ...]],
    window: Window,
    *order: InstrumentedAttribute[Any],
    view: Callable[[Any], Entry],
    descending: bool = False,
) -> Part[Entry]:
    """Reads a part of a list.

    Args:
        agency: The service.
        chosen: What the whole list consists of.
        window: Which part.
        order: The columns that order the list; the last one names an entry, and no two have the same.
        view: Makes an entry of a row.
        descending: Whether the list begins with the largest.

    Raises:
        ParameterError: There is no entry of the name that the window tells.
    """
    forward = window.before is None
    place = window.after if forward else window.before
    size = min(window.most or agency.limits.page_size, agency.limits.page_size)
    chosen = chosen.add_columns(order[-1].label("entry_name")).limit(size + 1)
    chosen = chosen.order_by(*(column.desc() if descending == forward else column.asc() for column in order))
    with agency.database.reading() as session:
        if place is not None:
            beyond = operator.gt if descending != forward else operator.lt
            chosen = chosen.where(beyond(tuple_(*order), tuple_(*_values(session, place, order))))
        found = session.execute(chosen).all()
        rows = found[:size] if forward else found[:size][::-1]
        entries = tuple(map(view, rows))
    if not entries:
        return Part((), None, None)
    has_more = len(found) > size
    has_previous, has_next = (window.after is not None, has_more) if forward else (has_more, True)
    return Part(
        entries,
        str(rows[0].entry_name) if has_previous else None,
        str(rows[-1].entry_name) if has_next else None,
    )


def _values(
    session: Session, place: str | int, order: tuple[InstrumentedAttribute[Any], ...]
) -> list[BindParameter[Any]]:
    """What an entry has in the columns of the order."""
    if len(order) == 1:  # the entry itself may have been removed: its number still tells the place
        return [literal(place, order[0].type)]
    found = session.execute(select(*order).where(order[-1] == place)).one_or_none()
    if found is None:
        raise ParameterError(
            "The list has no such entry.",
            found="Nothing is named as 'after' or 'before' says.",
            remedy="Take it from 'next' or 'previous' of another part of the list.",
        )
    return [literal(value, column.type) for value, column in zip(found, order, strict=True)]


def _asked(kind: type[str | int], **limits: Any) -> Any:  # noqa: ANN401 (those of Query)
    """How callers ask for a part of a list whose entries have such names."""
    after = Query(description="The part of the list after this entry: `next` of the part before.", **limits)
    before = Query(
        description="The part of the list before this entry: `previous` of the part after.", **limits
    )
    words = "At most so many entries; the service has a limit of its own."

    def window(
        after: Annotated[kind | None, after] = None,  # type: ignore[valid-type]
        before: Annotated[kind | None, before] = None,  # type: ignore[valid-type]
        limit: Annotated[int | None, Query(ge=1, le=LARGEST, description=words)] = None,
    ) -> Window:
        return Window(after, before, limit)

    return Depends(window)


NumberWindow = Annotated[Window, _asked(int, ge=0, le=LARGEST)]
NameWindow = Annotated[Window, _asked(str, pattern=NAME_PATTERN)]
DigestWindow = Annotated[Window, _asked(str, pattern=DIGEST_PATTERN)]
TokenWindow = Annotated[Window, _asked(str, pattern=TOKEN_PATTERN)]
