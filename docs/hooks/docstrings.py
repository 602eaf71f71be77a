"""Lets docstrings that are written for people at a terminal be read as Markdown.

Examples that follow a sentence become code blocks, and the theory's n_[t](s) is not taken for a link.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n(?:^(?!\s*$).*(?:\n|\Z))*)+", re.MULTILINE)
SUBSCRIPT = re.compile(r"_\[(\w+)\]")


class ReadableDocstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 (called by griffe)
        """Called once for every module, class, function and attribute."""
        if obj.docstring is None:
            return
        text = obj.docstring.value + "\n"
        parts = []
        end = 0
        for example in EXAMPLE.finditer(text):
            parts.append(SUBSCRIPT.sub(r"_&#91;\1&#93;", text[end : example.start()]))
            parts.append(f"```pycon\n{example.group().rstrip()}\n```\n")
            end = example.end()
        parts.append(SUBSCRIPT.sub(r"_&#91;\1&#93;", text[end:]))
        obj.docstring.value = "".join(parts).strip()
