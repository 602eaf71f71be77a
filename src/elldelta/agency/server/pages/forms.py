"""What a browser has posted: texts, files, and numbers, with messages that a person understands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from starlette.datastructures import UploadFile

from elldelta.errors import ParameterError

Number = TypeVar("Number", int, float)

_WHOLE = re.compile(r"[0-9]{1,18}\Z")
_DECIMAL = re.compile(r"(?=.{1,30}\Z)([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")


@dataclass(frozen=True, repr=False)
class Posted:
    """The fields of a form.

    Attributes:
        texts: What was typed or chosen, by the name of the field.
        files: What was uploaded.
    """

    texts: Mapping[str, str]
    files: Mapping[str, bytes]

    def text(self, name: str) -> str:
        """A field as it was typed; empty if it is not there."""
        return self.texts.get(name, "")

    def whole(self, name: str, what: str) -> int:
        """A whole number; spaces between its digits are fine."""
        text = "".join(self.text(name).split())
        if not _WHOLE.match(text):
            raise ParameterError(
                f"{what} must be a whole number.",
                found="The field is empty." if not text else "The field holds something else.",
                remedy="Write digits only, for example 5000.",
            )
        return int(text)

    def number(self, name: str, what: str) -> float:
        """A number with a decimal point."""
        text = self.text(name).strip()
        if not _DECIMAL.match(text):
            raise ParameterError(
                f"{what} must be a number.",
                found="The field is empty." if not text else "The field holds something else.",
                remedy="Write it with a point, for example 0.01.",
            )
        return float(text)

    def maybe(self, name: str, read: Callable[[str, str], Number], what: str) -> Number | None:
        """A number that may be left out: None if its field is empty."""
        return read(name, what) if self.text(name).strip() else None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """One of several; None if the field is empty."""
        text = self.text(name)
        if text and text not in allowed:
            raise ParameterError("One of the choices is not on offer.", remedy="Load the page again.")
        return text or None

    def reason(self) -> str:
        """Why something was decided, on one line; nobody is left without one."""
        text = " ".join(self.text("reason").split())
        if not text:
            raise ParameterError(
                "A reason is needed.",
                found="The field is empty.",
                remedy="Write a sentence for those concerned.",
            )
        return text

    def file(self, name: str, what: str) -> bytes:
        """An uploaded file."""
        content = self.files.get(name, b"")
        if not content:
            raise ParameterError(
                f"Choose {what}.",
                found="No file came with the form, or an empty one.",
                remedy="Choose a file.",
            )
        return content

    @property
    def typed(self) -> dict[str, str]:
        """What to show again after an error; never a secret."""
        return {name: text for name, text in self.texts.items() if name != "password"}


async def _posted(request: Request) -> AsyncIterator[Posted]:
    form = await request.form()
    texts, files = {}, {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files[name] = await value.read()
        else:
            texts[name] = value
    try:
        yield Posted(texts, files)
    finally:
        await form.close()


PostedForm = Annotated[Posted, Depends(_posted)]
