"""Rooms whose names are verbs, too: `elldelta.plan(...)` is `elldelta.plan.planner.plan(...)`."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class CallableRoom(ModuleType):
    """A room that can be called."""

    __wrapped_name__: str

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The verb; `inspect.signature` finds it here."""
        home, _, verb = self.__wrapped_name__.rpartition(".")
        found: Callable[..., Any] = getattr(import_module(home), verb)
        return found

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 (those of the verb)
        """Does what the verb does."""
        return self.__wrapped__(*arguments, **options)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)  # other processes may be handed the verb


def make_callable(room: str, verb: str) -> None:
    """Lets a room be called: its `__init__` gives its own name, and where the verb is."""
    module = sys.modules[room]
    module.__class__ = CallableRoom
    module.__wrapped_name__ = verb  # type: ignore[attr-defined]
