"""Records from plain values: what a type declares is what a document must hold.

Plain values come from JSON or TOML. A type is a frozen dataclass: its annotations say which keys there are
and of which type, and what it checks when it is made says the rest. Every refusal names the place in the
document and never quotes a value.
"""

from __future__ import annotations

import re
import threading
from contextlib import nullcontext, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from elldelta.errors import ElldeltaError, ParameterError
from elldelta.files.number_columns import NumberColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

MALFORMED = (
    ElldeltaError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
)
"""What reading plain values may raise that are not ours: of other types, too large, nested too deep."""

Record = TypeVar("Record")
Place = tuple[str | int, ...]

_NAMES = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "null": "nothing",
    "array": "a list", "object": "a table of keys", "date": "a date",
}  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

_LEARNING = threading.RLock()
_known: set[type[Any]] = set()
"""Types whose annotations were looked at. msgspec keeps what it finds there half done while it looks, and a
thread that meets it then ends the process: the first record of every type is made by one thread alone."""


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
        with nullcontext() if kind in _known else _LEARNING:
            return msgspec.convert(document, kind, dec_hook=read)
    except msgspec.ValidationError as problem:
        text, _, path = str(problem).partition(" - at `$")
        place: Place = tuple(name or int(number) for name, number in _STEP.findall(path.removesuffix("`")))
        cause = problem.__cause__
    finally:
        _known.add(kind)
    if isinstance(cause, ElldeltaError):
        raise MisfitError(cause.problem, found=cause.found, remedy=cause.remedy, place=place) from cause
    wrong, found, remedy = _words(text, place, kind)
    raise MisfitError(wrong, found=found, remedy=remedy, place=place)


def whole_numbers_of(document: Mapping[str, Any], name: str) -> NDArray[Any]:
    """A column of whole numbers of a document.

    Raises:
        MisfitError: It is something else.
    """
    import numpy as np

    listed = document[name]
    if isinstance(listed, NumberColumn):
        return listed.numbers
    if isinstance(listed, list) and set(map(type, listed)) <= {int}:
        with suppress(OverflowError):
            return np.array(listed, dtype=np.int64)
    raise MisfitError(f"The {name!r} must be whole numbers.", found="They are not.", place=(name,))


def fields_of(record: Any) -> dict[str, Any]:  # noqa: ANN401 (any dataclass)
    """The fields of a record and their values; also those that a document has left out, by their defaults."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def dotted(place: Place) -> str:
    """A place as it is written: `columns[0].name`.

    >>> dotted(("columns", 0, "name"))
    'columns[0].name'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _words(text: str, place: Place, kind: type[Any]) -> tuple[str, str, str]:
    """The three parts of a refusal, from words that may quote a value."""
    missing = re.match(r"Object missing required field `(.*)`", text)
    if missing is not None:
        return f"The key {missing[1]!r} is missing.", "It is required.", "Add it."
    name = next((step for step in reversed(place) if isinstance(step, str)), "document")
    what = f"An entry of {name!r}" if place and isinstance(place[-1], int) else f"The {name!r}"
    choices = get_args(get_type_hints(kind).get(name)) if len(place) == 1 else ()
    if text.startswith("Invalid enum value") and choices:
        listed = ", ".join(map(str, choices))
        return f"{what} is not known.", f"It is none of {listed}.", "Write one of them."
    if text.startswith("Invalid RFC3339"):
        return f"{what} must be a date.", "It is another text.", "Write it as YYYY-MM-DD."
    expected = re.match(r"Expected `([^`]*)`( [<>]=? [-+.0-9]+| of length [<>]=? [0-9]+)?(.*)", text)
    types = expected[1].split(" | ") if expected is not None else []
    got = re.search(r", got `(\w+)`$", text)
    found = f"It is {_NAMES.get(got[1], 'something else')}." if got is not None else "It is not."
    if expected is None or not all(each in _NAMES for each in types):
        return f"{what} is not what it must be.", found, ""
    return f"{what} must be {' or '.join(_NAMES[each] for each in types)}{expected[2] or ''}.", found, ""
