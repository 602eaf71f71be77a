"""How pages are made: templates with everything inside, escaped by default."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from elldelta.pages.pictures import as_svg

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure


def render(template: str, **content: Any) -> str:  # noqa: ANN401 (whatever the template shows)
    """Fills in a template of `elldelta.pages.templates`; a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("elldelta.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    return environment.get_template(template).render(**content)


def inline_svg(figure: Figure, name: str) -> Markup:
    """A picture to be placed inside a page: the SVG element alone, which may shrink with the page.

    The identifiers inside begin with `name`, because several pictures share one page.
    """
    from markupsafe import Markup

    text = as_svg(figure).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'^<svg([^>]*?) width="[^"]*"', r"<svg\1", text, count=1)
    text = re.sub(r'^<svg([^>]*?) height="[^"]*"', r"<svg\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    return Markup(text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1))  # noqa: S704 (ours)
