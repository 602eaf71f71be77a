"""Parameters that Python, the command line, forms and the service share: each is described once.

A class of parameters is a dataclass whose fields say what they mean: ``ell: Annotated[int, Doc("...")]``.
`parameters_of` reads it, and options, form fields, API models and the reference page are made from that.
The words among which a caller chooses stand here, too. Nothing here is slow to import: help should not wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

PlanKind = Literal["certified", "probabilistic", "paper"]
"""What kind of plan: boxes by the sharp bound, with releases that are checked; the same published at N
records without looking; or the paper as it stands: runs, its bound and its N."""

PLAN_KINDS: tuple[PlanKind, ...] = ("certified", "probabilistic", "paper")

DateUnit = Literal["day", "month", "year"]

ClosenessTo = Literal["class", "overall"]
"""What shares are compared with: the distribution of the person's class, or that of everybody."""

Movers = Literal["declared", "any"]
"""Who moves between classes: people whose columns may change as the schema declares, or everybody."""

Panel = Literal["Essential", "Ledger", "Tables published again", "Reading files", "Engine", "Expert"]
"""Where `--help`, a form and the reference page show a parameter."""


@dataclass(frozen=True)
class Doc:
    """What a parameter means, for everybody who shows it.

    Attributes:
        help: What it is, in one or two sentences without the name of an option.
        panel: The group in which it is shown.
        noun: What messages call it: "the number of releases".
        label: What a form writes beside its field; the name of the parameter if empty.
        metavar: What stands for its value in `--help`.
        choices: What each of its words means, if there are few.
        least: The smallest number that is taken.
        most: The largest one.
        above: It is larger than this.
        below: It is smaller than this.
        usual: A value that is often chosen.
        parse: Makes its value from a text, if that is more than a number or a name.
    """

    help: str
    panel: Panel = "Essential"
    noun: str = ""
    label: str = ""
    metavar: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    least: int | None = None
    most: int | None = None
    above: float | None = None
    below: float | None = None
    usual: str = ""
    parse: Callable[[str], Any] | None = None

    @property
    def text(self) -> str:
        """The help, with what each choice means."""
        return " ".join([self.help, *(f"{word}: {meaning}." for word, meaning in self.choices.items())])

    def includes(self, number: float) -> bool:
        """Whether a number is in the range."""
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    @property
    def range(self) -> str:
        """The range in words: 1 or more; above 0 and at most 1; strictly between 0 and 1."""
        if self.above is not None and self.below is not None:
            return f"strictly between {self.above:g} and {self.below:g}"
        words = (
            ("at least", self.least),
            ("above", self.above),
            ("below", self.below),
            ("at most", self.most),
        )
        return " and ".join(f"{word} {number:,g}" for word, number in words if number is not None)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a class of parameters.

    Attributes:
        name: Its name in Python.
        kind: Its type, without its `Doc`.
        default: Its value if it is left out; None also if it must be given.
        is_required: Whether it must be given.
        doc: What it means.
    """

    name: str
    kind: Any
    default: Any
    is_required: bool
    doc: Doc

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that its value may have; None is not among them."""
        kinds = (self.kind,) if get_origin(self.kind) is Literal else get_args(self.kind) or (self.kind,)
        return tuple(kind for kind in kinds if kind is not type(None))

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return int in self.types

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return self.is_whole or float in self.types

    @property
    def default_text(self) -> str:
        """Its default as a person types it; empty if there is none."""
        return "" if self.default is None else str(self.default)

    @property
    def takes_columns(self) -> bool:
        """Whether one value for each of several columns may be given, by their names."""
        return any(get_origin(kind) is Mapping for kind in self.types)


def parameters_of(kind: type) -> tuple[Parameter, ...]:
    """The parameters of a dataclass that have a `Doc`, in their order."""
    return _parameters_of(kind)


@cache
def _parameters_of(kind: Any) -> tuple[Parameter, ...]:  # noqa: ANN401 (a class, which is hashable)
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for item in fields(kind):
        hint = hints[item.name]
        docs = [extra for extra in get_args(hint)[1:] if isinstance(extra, Doc)]
        if get_origin(hint) is not Annotated or not docs:
            continue
        is_required = item.default is MISSING and item.default_factory is MISSING
        default = None if item.default is MISSING else item.default
        found.append(Parameter(item.name, get_args(hint)[0], default, is_required, docs[0]))
    return tuple(found)


Number = TypeVar("Number", int, float)


def per_column(kind: type[Number], example: str) -> Callable[[str], Number | dict[str, Number]]:
    """What reads a number, or one for each of several columns: 5, or disease=5,income=3."""

    def read(text: str) -> Number | dict[str, Number]:
        try:
            if "=" not in text:
                return kind(text)
            pairs = [pair.rpartition("=") for pair in text.split(",")]
            found = {name.strip(): kind(number) for name, _, number in pairs}
            if len(found) == len(pairs) and all(found):
                return found
        except ValueError:
            pass
        raise ParameterError(
            "This must be a number, or one for each sensitive column.",
            found=f"It is {text!r}.",
            remedy=f"Write one number, or a name and a number for each column: {example}.",
        )

    return read


def whole_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers that are separated by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            "These must be whole numbers, separated by commas.",
            found=f"It is {text!r}.",
            remedy="For example: 10000,30000,100000.",
        ) from None


Subject = TypeVar("Subject")
Arguments = TypeVar("Arguments")
Result = TypeVar("Result")
Keywords = ParamSpec("Keywords")


def with_keywords(
    arguments: Callable[Keywords, Arguments], function: Callable[[Subject, Arguments], Result]
) -> Callable[Concatenate[Subject, Keywords], Result]:
    """A function of a subject and a class of parameters that takes the fields of the class as keywords.

    So the class is the only place that lists the parameters, and type checkers know them.
    """

    def call(subject: Subject, /, *nothing: Keywords.args, **keywords: Keywords.kwargs) -> Result:
        return function(subject, arguments(*nothing, **keywords))

    first, _ = inspect.signature(function).parameters.values()
    others = inspect.signature(arguments)
    parameters = [first.replace(kind=first.POSITIONAL_ONLY), *others.parameters.values()]
    call.__signature__ = others.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = function.__name__.removeprefix("_")
    call.__doc__, call.__module__ = function.__doc__, function.__module__
    return call
