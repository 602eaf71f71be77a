"""The exception tree, used by all layers.

Every error a user can meet has three parts: what is wrong, what was found, what to do. None of the parts
may carry a value of a single person: names of columns, positions, counts and bounds are fine, cells are not.
The texts name no parameter in code: `parameter` does, and each surface shows it its way, as the parameter of
Python, as an option of the command line, or as a field of a form.

The class of an error decides the exit code of the command line: bad input is 2, a refusal because a
guarantee would not hold is 3, and anything that is our own mistake is 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


def counted(number: int, noun: str, nouns: str = "") -> str:
    """So many of something, for messages: `1 release`, `2 releases`, `1,200 classes`."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def named(what: str, names: Iterable[str]) -> str:
    """What a message ends with: `Parameter: ell.`, `Options: --ell, --closeness.`; nothing without names."""
    listed = tuple(names)
    return f"{what}{'s' * (len(listed) > 1)}: {', '.join(listed)}." if listed else ""


class ElldeltaError(Exception):
    """Base of everything that elldelta raises on purpose.

    Attributes:
        problem: What is wrong, in one sentence.
        found: What was found, in one sentence, or an empty string.
        remedy: What to do about it, in one sentence, or an empty string.
        parameter: The parameters that it is about or that would help, as Python names them.
    """

    exit_code: ClassVar[int] = 4

    def __init__(
        self, problem: str, *, found: str = "", remedy: str = "", parameter: str | tuple[str, ...] = ()
    ) -> None:
        self.problem = problem
        self.found = found
        self.remedy = remedy
        self.parameter = (parameter,) if isinstance(parameter, str) else parameter
        names = named("Parameter", self.parameter)
        super().__init__(" ".join(part for part in (problem, found, remedy, names) if part))


@dataclass(frozen=True)
class Note:
    """A remark that is no error.

    Attributes:
        text: What was found.
        remedy: What to do about it, or an empty string.
        parameter: The parameter that would help, as Python names it, or an empty string.
        value: What to give for it, as the command line writes it.
    """

    text: str
    remedy: str = ""
    parameter: str = ""
    value: str = ""

    def __str__(self) -> str:
        names = named("Parameter", (self.parameter,) if self.parameter else ())
        return " ".join(part for part in (self.text, self.remedy, names) if part)


class TableWarning(UserWarning):
    """A remark about a table that Python gives as a warning, where the command line prints it."""


class InputError(ElldeltaError):
    """Something the user gave cannot be used: a parameter, a file, a table."""

    exit_code = 2


class ParameterError(InputError, ValueError):
    """A parameter lies outside its range; the message names the range."""


class DistributionError(InputError, ValueError):
    """A table of counts or probabilities is not a distribution."""


class SchemaError(InputError, ValueError):
    """A description of the columns is contradictory or does not fit the table."""


class FileError(InputError):
    """A file is missing, unreadable, damaged, in the way or cannot be written."""


class DataError(InputError):
    """A table does not fit its schema: a missing column, a value outside its domain, a forbidden null."""


class RemoteError(InputError):
    """The agency's server cannot be reached, does not know the caller, or answers something else."""


class RefusedError(ElldeltaError):
    """The request is well-formed, but the guarantee would not hold."""

    exit_code = 3


class InternalError(ElldeltaError):
    """Our own mistake: an invariant that must hold did not."""

    exit_code = 4
