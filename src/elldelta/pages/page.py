"""How pages and parts of pages are made: templates with everything inside, escaped by default.

What our nouns have in common when somebody looks at one of them is here, too: a few lines in a terminal,
tables and a picture in a notebook.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError
from elldelta.files import AtomicFiles, check_writable
from elldelta.pages.charts import as_svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure


def render(template: str, **content: Any) -> str:  # noqa: ANN401 (whatever the template shows)
    """Fills in a template of `elldelta.pages.templates`."""
    return environment_of("elldelta.pages").get_template(template).render(**content)


def environment_of(package: str) -> Environment:
    """What fills in the templates of a package; a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["share"] = percent
    return environment


def check_page(path: Path | None, *, overwrite: bool) -> None:
    """Refuses a page that could not be written, before anything long runs; None is no page."""
    if path is None:
        return
    if path.suffix.lower() not in {".html", ".htm"}:
        raise FileError(
            f"The page {path} cannot be written.",
            found="It would be HTML, and its name does not end in .html.",
            remedy="Use a name that ends in .html; a browser prints the page to a PDF.",
        )
    check_writable(path, overwrite=overwrite)


def write_page(page: str, path: Path, *, overwrite: bool = False) -> None:
    """Writes a page, whole or not at all."""
    check_page(path, overwrite=overwrite)
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_text(page, encoding="utf-8")


def fragment(
    title: str,
    facts: Mapping[str, object],
    *,
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
    picture: Figure | None = None,
    words: str = "",
) -> str:
    """A small piece of HTML for a notebook: needs no script and no network, and looks like our pages.

    Args:
        title: What it is about.
        facts: Names and values, as a table of two columns; numbers get separators, None becomes a dash.
        columns: The headings of a further table.
        rows: Its rows.
        picture: A picture below the tables.
        words: What the picture shows, for those who do not see it.
    """
    return render(
        "fragment.html",
        title=title,
        facts=[(name, as_text(value)) for name, value in facts.items()],
        columns=columns,
        rows=[[as_text(value) for value in row] for row in rows],
        picture=None if picture is None else inline_svg(picture),
        words=words,
    )


def as_text(value: object) -> str:
    """A value as a reader expects it in a table."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)


def share_upper(share: float, digits: int = 3) -> float:
    """A share with a few digits, never too small, and 1 only if it is 1.

    >>> share_upper(0.8609), share_upper(0.992, 2), share_upper(1.0)
    (0.861, 0.992, 1.0)
    """
    for more in range(digits, 16):
        rounded: float = math.ceil(share * 10**more - 1e-9) / 10**more
        if rounded < 1.0:
            return rounded
    return 1.0 if share >= 1.0 else share


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent as `share_upper` rounds it; a dash for none.

    >>> percent(0.97), percent(0.8609), percent(0.99996), percent(0.9992, 0), percent(None)
    ('97 %', '86.1 %', '99.996 %', '99.92 %', '–')
    """
    if share is None:
        return "–"
    percent = f"{100 * share_upper(share, digits + 2):.10g} %"
    return "above 99.99999999 %" if percent == "100 %" and share < 1.0 else percent


def inline_svg(figure: Figure, name: str = "") -> Markup:
    """A picture to be placed inside a page: the SVG element alone, which may shrink with the page.

    The identifiers inside begin with `name`, because several pictures share one page; by default with one
    that no other picture has.
    """
    from markupsafe import Markup

    svg = as_svg(figure)
    name = name or f"picture-{hashlib.sha256(svg).hexdigest()[:12]}"
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'^<svg([^>]*?) width="[^"]*"', r"<svg\1", text, count=1)
    text = re.sub(r'^<svg([^>]*?) height="[^"]*"', r"<svg\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    return Markup(text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1))  # noqa: S704 (ours)


class Displayed:
    """What the nouns of the story have in common when somebody looks at one of them."""

    def facts(self) -> Mapping[str, object]:
        """What is worth knowing at a glance, at most nine facts."""
        raise NotImplementedError

    def listing(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        """The headings and rows of a table that says more; without any by default."""
        return (), ()

    def plot(self) -> Figure | None:
        """A picture, where one says more than numbers."""
        return None

    def __repr__(self) -> str:
        lines = (f"  {name}: {as_text(value)}" for name, value in self.facts().items())
        return "\n".join([type(self).__name__, *(line[:200] for line in lines)])

    def _repr_html_(self) -> str:
        """The same in a notebook, with the tables and pictures of our pages; nothing from the network."""
        columns, rows = self.listing()
        return fragment(type(self).__name__, self.facts(), columns=columns, rows=rows, picture=self.plot())
