"""Records from plain values: what a type declares is what a document must hold.

Plain values come from JSON or TOML. A type is a frozen dataclass: its annotations say which keys there are
and of which type, and what it checks when it is made says the rest. Every refusal names the place in the
document and never quotes a value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from elldelta.errors import ElldeltaError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

Record = TypeVar("Record")
Place = tuple[str | int, ...]

_NAMES = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "null": "nothing",
    "array": "a list", "object": "a table of keys", "date": "a date",
}  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class MisfitError(ParameterError):
    """A document does not hold what its type declares.

    Attributes:
        place: The keys and positions that lead to what is wrong.
    """

    def __init__(self, problem: str, *, found: str = "", remedy: str = "", place: Place = ()) -> None:
        self.place = place
        super().__init__(problem, found=found, remedy=remedy)

    @property
    def words(self) -> str:
        """What is wrong, and where."""
        where = f"{dotted(self.place)}: " if self.place else ""
        return f"{where}{self.problem} {self.found}".rstrip()


def record_from(
    kind: type[Record],
    document: object,
    read: Callable[[type[Any], Any], Any] | None = None,
) -> Record:
    """A record of a type from plain values.

    Keys that the type does not have are passed over: whoever reads a file writes the record down again and
    compares, which also tells other spellings.

    Args:
        kind: The type.
        document: The plain values.
        read: Makes values of types that are no records themselves.

    Raises:
        MisfitError: The document holds something else.
    """
    import msgspec

    try:
        return msgspec.convert(document, kind, dec_hook=read)
    except msgspec.ValidationError as problem:
        text, _, path = str(problem).partition(" - at `$")
        place: Place = tuple(name or int(number) for name, number in _STEP.findall(path))
        cause = problem.__cause__
    if isinstance(cause, ElldeltaError):
        raise MisfitError(cause.problem, found=cause.found, remedy=cause.remedy, place=place)
    raise MisfitError(_problem(text, place), found=_found(text), place=place)


def dotted(place: Place) -> str:
    """A place as it is written: `columns[0].name`.

    >>> dotted(("columns", 0, "name"))
    'columns[0].name'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _problem(text: str, place: Place) -> str:
    missing = re.match(r"Object missing required field `(.*)`", text)
    if missing is not None:
        return f"The key {missing[1]!r} is missing."
    name = next((step for step in reversed(place) if isinstance(step, str)), "document")
    expected = re.match(r"Expected `([^`]*)`", text)
    types = expected[1].split(" | ") if expected is not None else []
    if types and all(kind in _NAMES for kind in types):
        of = "An entry of " if place and isinstance(place[-1], int) else ""
        return f"{of or 'The '}{name!r} must be {' or '.join(_NAMES[kind] for kind in types)}."
    return f"The {name!r} is not what it must be."


def _found(text: str) -> str:
    """What was found, from words that may quote a value."""
    if text.startswith("Object missing"):
        return "It is required."
    got = re.search(r", got `(\w+)`$", text)
    return f"It is {_NAMES.get(got[1], 'something else')}." if got is not None else "It is something else."
