"""Runs the notebooks when the site is built, and shows them with what they print and draw.

A cell is run as Python, the value of its last line is shown as a notebook would show it. Nothing but this
package is needed for that, and a cell that fails stops the build. Stored notebooks hold no outputs: what a
page shows was computed by the version that it documents.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def on_files(files: Any, *, config: Any) -> Any:  # noqa: ANN401 (called by mkdocs)
    """Adds a page for every notebook; the notebook itself can be downloaded from it."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=as_markdown(file.abs_src_path)))
    return files


def as_markdown(path: str | Path) -> str:
    """A notebook that was run, as a page."""
    name = str(path).replace("\\", "/").rpartition("/")[2]
    first, *rest = run(path)
    return "\n\n".join([first, f"[Download this notebook]({name})", *rest])


def run(path: str | Path) -> Iterator[str]:
    """What a reader sees of each cell, one after the other.

    Raises:
        Exception: Whatever a cell raises.
    """
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 (mkdocs gives texts)
        cells = json.load(file)["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        printed, value = _execute(text, names)
        yield f"```python\n{text}\n```"
        if printed:
            yield f"```text\n{textwrap.fill(printed.strip(), 88, replace_whitespace=False)}\n```"
        if value is not None:
            yield _shown(value)


def _execute(text: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 (our own notebooks)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307
    return printed.getvalue(), value


def _shown(value: object) -> str:
    from matplotlib.figure import Figure

    from elldelta.pages.page import inline_svg

    if isinstance(value, Figure):
        html = f"<figure>{inline_svg(value)}</figure>"
    elif hasattr(value, "_repr_html_"):
        html = value._repr_html_()
    else:
        return f"```text\n{textwrap.fill(repr(value), 88)}\n```"
    # In one piece: an empty line would end the block of HTML.
    return "\n".join(line for line in html.splitlines() if line.strip())
