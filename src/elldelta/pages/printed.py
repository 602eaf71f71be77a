"""Sections of plain words and tables, as a page and as a PDF that say the same.

A block of a section is one of: {"text": words}, {"list": lines}, {"header": names, "rows": rows} and
{"picture": a figure, "words": what it shows}. PDF is written by fpdf2, which is plain Python; the letters are
those that matplotlib brings along, so that nothing depends on the machine.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.pages.page import as_text, inline_svg, render

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from fpdf import FPDF

    Block = Mapping[str, Any]
    Section = tuple[str, Sequence[Block]]

_MARGIN = 18.0
_FONT = "DejaVu"
_SMALL, _PLAIN, _HEADING, _TITLE = 8.0, 10.0, 13.0, 18.0
_WIDTH_MM = 110.0
"""The width of a picture."""


def as_html(title: str, verdict: str, sections: Sequence[Section], footer: str) -> str:
    """One self-contained page."""
    shown = [
        (
            name,
            [
                {**block, "picture": inline_svg(block["picture"])} if "picture" in block else block
                for block in map(_spelt, blocks)
            ],
        )
        for name, blocks in sections
    ]
    return render("printed.html", title=title, verdict=verdict, sections=shown, footer=footer)


def as_pdf(title: str, verdict: str, sections: Sequence[Section], footer: str, *, made: dt.datetime) -> bytes:
    """The same as a PDF; the same bytes for the same words and the same moment."""
    from fpdf import FPDF

    class Pages(FPDF):
        def footer(self) -> None:
            self.set_y(-_MARGIN + 4)
            self.set_font(_FONT, size=_SMALL)
            self.cell(0, 5, f"{footer}   {self.page_no()} / {{nb}}", align="C")

    pdf = Pages(format="A4")
    pdf.set_creation_date(made)
    pdf.set_title(title)
    pdf.set_lang("en")
    pdf.set_margin(_MARGIN)
    pdf.set_auto_page_break(True, _MARGIN)
    _add_letters(pdf)
    pdf.add_page()
    _words(pdf, title, _TITLE, bold=True)
    _words(pdf, verdict, _PLAIN + 1, bold=True)
    for name, blocks in sections:
        if pdf.will_page_break(30):
            pdf.add_page()
        pdf.ln(4)
        pdf.start_section(name)
        _words(pdf, name, _HEADING, bold=True)
        for block in map(_spelt, blocks):
            _add(pdf, block)
    return bytes(pdf.output())


def _spelt(block: Block) -> Block:
    """The cells of a table as texts."""
    if "rows" not in block:
        return block
    return {**block, "rows": [[as_text(cell) for cell in row] for row in block["rows"]]}


def _add_letters(pdf: FPDF) -> None:
    import matplotlib as mpl

    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    pdf.add_font(_FONT, fname=folder / "DejaVuSans.ttf")
    pdf.add_font(_FONT, style="B", fname=folder / "DejaVuSans-Bold.ttf")


def _words(pdf: FPDF, text: str, size: float, *, bold: bool = False, indent: float = 0.0) -> None:
    pdf.set_font(_FONT, style="B" if bold else "", size=size)
    pdf.set_x(_MARGIN + indent)
    pdf.multi_cell(0, size * 0.5, text, align="L", new_x="LMARGIN", new_y="NEXT")
    pdf.ln(1.5)


def _add(pdf: FPDF, block: Block) -> None:
    if "text" in block:
        _words(pdf, block["text"], _PLAIN)
    elif "list" in block:
        for line in block["list"]:
            _words(pdf, f"•  {line}", _PLAIN, indent=3)
    elif "picture" in block:
        image = io.BytesIO()
        block["picture"].savefig(image, format="png", dpi=160)
        pdf.image(image, w=_WIDTH_MM, alt_text=block["words"])
        pdf.ln(2)
    else:
        pdf.set_font(_FONT, size=_SMALL)
        widths = _widths([block["header"], *block["rows"]])
        with pdf.table(
            col_widths=widths,
            text_align="LEFT",
            borders_layout="HORIZONTAL_LINES",
            line_height=4.4,
            padding=0.7,
        ) as table:
            for row in (block["header"], *block["rows"]):
                line = table.row()
                for cell in row:
                    line.cell(cell or "\n\n")  # room to write by hand
        pdf.ln(2)


def _widths(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Widths of columns in proportion to what stands in them; no word is broken where there is room."""
    return tuple(
        max(
            8,
            min(60, max(map(len, column))),
            *(len(word) + 3 for cell in column[:-1] for word in cell.split()[:20] if len(word) < 30),
            *(
                len(word) + 25 for cell in column for word in cell.split()[:1] if 70 < len(word) < 80
            ),  # a digest
        )
        for column in zip(*rows, strict=True)
    )
