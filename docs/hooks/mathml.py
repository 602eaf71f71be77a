"""Turns the formulas of every page into MathML when the site is built.

Browsers show MathML by themselves, so a reader needs neither a script nor the network. A formula that the
converter does not understand stops the build instead of showing up as raw LaTeX.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?:\(|\[)(?P<latex>.*?)\\(?:\)|\])</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, *, page: Any, **_: Any) -> str:  # noqa: ANN401 (called by mkdocs)
    """Replaces what `pymdownx.arithmatex` has marked as a formula."""

    def to_mathml(match: re.Match[str]) -> str:
        latex = html.unescape(match["latex"]).strip()
        is_block = match["tag"] == "div"
        mathml = convert(latex, display="block" if is_block else "inline")
        if "\\" in mathml:
            raise PluginError(f"{page.file.src_uri}: a formula has an unknown command: {latex}")
        return f'<div class="formula">{mathml}</div>' if is_block else mathml

    return FORMULA.sub(to_mathml, content)
