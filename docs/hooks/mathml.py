"""Turns the formulas of every page into MathML when the site is built.

Browsers show MathML by themselves, so a reader needs neither a script nor the network. A formula that the
converter does not understand stops the build instead of showing up as raw LaTeX.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?:\(|\[)(?P<latex>.*?)\\(?:\)|\])</(?P=tag)>', re.DOTALL
)
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
WITH_LIMITS = {"∑", "∏", "⋃", "⋂", "min", "max", "sup", "inf"}
TIGHT = {"|": "0", "/": "0.05em"}
PRIME = "′"
UNDER = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}


def on_page_content(content: str, *, page: Any, **_: Any) -> str:  # noqa: ANN401 (called by mkdocs)
    """Replaces what `pymdownx.arithmatex` has marked as a formula."""

    def to_mathml(match: re.Match[str]) -> str:
        latex = html.unescape(match["latex"]).strip()
        is_block = match["tag"] == "div"
        mathml = convert(latex, display="block" if is_block else "inline")
        if "\\" in mathml.replace("&#x0005C;", ""):
            raise PluginError(f"{page.file.src_uri}: a formula has an unknown command: {latex}")
        mathml = _polish(mathml, is_block=is_block)
        return f'<div class="formula">{mathml}</div>' if is_block else mathml

    return FORMULA.sub(to_mathml, content)


def _gap(operator: str) -> str | None:
    """The space on either side of an operator, where the usual one is too wide: bars, slashes, Pr, min."""
    if operator.isalpha() and len(operator) > 1:
        return "0.1em"
    return TIGHT.get(operator)


def _polish(mathml: str, *, is_block: bool) -> str:
    """Removes wide gaps, lowers primes, and puts the limits of big operators below them."""
    ET.register_namespace("", NAMESPACE)
    root = ET.fromstring(mathml)  # noqa: S314 (our own output)
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if name == "mo" and (gap := _gap(element.text or "")) is not None:
            element.set("lspace", gap)
            element.set("rspace", gap)
        if name == "msup" and element[1].text == PRIME:  # the sign is raised already
            element.tag = f"{{{NAMESPACE}}}mrow"
        if is_block and name in UNDER and len(element) and element[0].text in WITH_LIMITS:
            element.tag = f"{{{NAMESPACE}}}{UNDER[name]}"
    return ET.tostring(root, encoding="unicode")
