"""Lists part by part; every part says how to ask for the one before it and the one after it.

A part begins after an entry or ends before one, and the entry is named by what names it anyway: its number,
name or digest. So an entry that is added meanwhile neither hides another one nor shows it twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import and_, or_, select

from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.orm import InstrumentedAttribute, Session


Name = str | int
"""What names an entry in an address."""

Entry = TypeVar("Entry")
Other = TypeVar("Other")

_NAME = "elldelta_name"


@dataclass(frozen=True)
class Window:
    """Which part of a list is asked for: its beginning, or what lies after or before an entry.

    Attributes:
        after: The entry after which the part begins.
        before: The entry before which it ends.
        most: The most entries; never more than the service lists at once.
    """

    after: Name | None = None
    before: Name | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.after is not None and self.before is not None:
            raise ParameterError(
                "A part of a list lies after an entry or before one.",
                found="Both were given.",
                remedy="Leave one of them out.",
            )

    @property
    def is_forward(self) -> bool:
        """Whether the part is counted from its beginning."""
        return self.before is None

    @property
    def place(self) -> Name | None:
        """The entry that it begins after or ends before."""
        return self.after if self.is_forward else self.before

    def size(self, most: int) -> int:
        """How many entries the part has at most, where the service lists so many at once."""
        return most if self.most is None else min(self.most, most)


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

    def seen(self, view: Callable[[Entry], Other]) -> Part[Other]:
        """The same part, its entries shown in another way."""
        return Part(tuple(view(entry) for entry in self.entries), self.previous, self.next)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True)
class Order:
    """The order of a list.

    Attributes:
        column: The column that names an entry; no two have the same.
        is_descending: Whether the list begins with the largest.
        first: A column that comes before it in the order, descending; None if there is none.
    """

    column: InstrumentedAttribute[Any]
    is_descending: bool = False
    first: InstrumentedAttribute[Any] | None = None

    def of(self, chosen: Select[*tuple[Any, ...]], *, forward: bool) -> Select[*tuple[Any, ...]]:
        """The list in this order, or backward."""
        columns = [(self.column, self.is_descending)]
        if self.first is not None:
            columns.insert(0, (self.first, True))
        return chosen.order_by(
            *(
                column.desc() if is_descending == forward else column.asc()
                for column, is_descending in columns
            )
        )

    def beyond(self, session: Session, place: Name, *, forward: bool) -> ColumnElement[bool]:
        """What lies after an entry, or before it.

        Raises:
            ParameterError: There is no such entry.
        """
        own = _past(self.column, place, is_larger=self.is_descending != forward)
        if self.first is None:  # the entry itself may have been removed: its number still tells the place
            return own
        first = session.execute(select(self.first).where(self.column == place)).one_or_none()
        if first is None:
            raise ParameterError(
                "The list has no such entry.",
                found="Nothing is named as 'after' or 'before' says.",
                remedy="Take it from 'next' or 'previous' of another part of the list.",
            )
        return or_(_past(self.first, first[0], is_larger=not forward), and_(self.first == first[0], own))


def read_part(
    session: Session,
    chosen: Select[*tuple[Any, ...]],
    order: Order,
    window: Window,
    *,
    most: int,
    view: Callable[[Any], Entry],
) -> Part[Entry]:
    """Reads a part of a list.

    Args:
        session: The transaction.
        chosen: What the whole list consists of.
        order: Its order.
        window: Which part.
        most: The most entries.
        view: Makes an entry of a row.
    """
    forward, size = window.is_forward, window.size(most)
    if window.place is not None:
        chosen = chosen.where(order.beyond(session, window.place, forward=forward))
    chosen = order.of(chosen.add_columns(order.column.label(_NAME)), forward=forward)
    rows = session.execute(chosen.limit(size + 1)).all()
    return _part(rows, window, size, lambda row: getattr(row, _NAME)).seen(view)


def cut_part(
    entries: Sequence[Entry], window: Window, *, most: int, name: Callable[[Entry], int]
) -> Part[Entry]:
    """A part of a list that is there as a whole, in the order of its numbers."""
    size = window.size(most)
    found = list(entries)
    if window.place is not None:
        place = int(window.place)
        found = [
            item for item in entries if (name(item) > place if window.is_forward else name(item) < place)
        ]
    if not window.is_forward:
        found.reverse()
    return _part(found[: size + 1], window, size, name)


def _part(found: Sequence[Any], window: Window, size: int, name: Callable[[Any], Name]) -> Part[Any]:
    """A part from its rows and one more, if there is one; counted from where the window begins."""
    has_more = len(found) > size
    entries = tuple(found[:size] if window.is_forward else reversed(found[:size]))
    if not entries:
        return Part((), None, None)
    has_previous = window.after is not None if window.is_forward else has_more
    has_next = has_more if window.is_forward else True
    return Part(
        entries,
        str(name(entries[0])) if has_previous else None,
        str(name(entries[-1])) if has_next else None,
    )


def _past(column: InstrumentedAttribute[Any], value: Any, *, is_larger: bool) -> ColumnElement[bool]:  # noqa: ANN401
    past: ColumnElement[bool] = column > value if is_larger else column < value
    return past
