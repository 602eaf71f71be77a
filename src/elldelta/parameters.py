"""Parameters that Python, the command line, forms and the service share: each is described once.

A class of parameters is a dataclass whose fields say what they mean: ``ell: Annotated[int, Doc("...")]``.
`parameters_of` reads it, and options, form fields, API models and the reference page are made from that.
The words among which a caller chooses stand here, too. Nothing here is slow to import: help should not wait.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        label: What a form writes beside its field; the name of the parameter if empty.
        metavar: What stands for its value in `--help`.
        choices: What each of its words means, if there are few.
        least: The smallest number that is taken.
        most: The largest one.
        is_open: Whether `least` and `most` are themselves left out.
        parse: Makes its value from a text, if that is more than a number or a name.
    """

    help: str
    panel: Panel = "Essential"
    label: str = ""
    metavar: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    least: float | None = None
    most: float | None = None
    is_open: bool = False
    parse: Callable[[str], Any] | None = None

    @property
    def text(self) -> str:
        """The help, with what each choice means."""
        return " ".join([self.help, *(f"{word}: {meaning}." for word, meaning in self.choices.items())])


@dataclass(frozen=True)
class Parameter:
    """One parameter of a class of parameters.

    Attributes:
        name: Its name in Python.
        kind: Its type, without what is said about it.
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


def parameters_of(kind: type) -> tuple[Parameter, ...]:
    """The parameters of a dataclass that have a `Doc`, in their order."""
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
