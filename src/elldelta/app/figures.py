"""Use case: write the paper's four figures, each with the numbers behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.data.files import write_files
from elldelta.report.paper_figures import draw
from elldelta.report.paper_series import paper_series, series_as_csv

if TYPE_CHECKING:
    from pathlib import Path


def write_figures(folder: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Writes the four figures as SVG and PNG, each with a CSV of its series; returns the files."""
    points = paper_series()
    contents: dict[str, bytes] = {}
    for figure in range(1, 5):
        series = tuple(point for point in points if point.figure == figure)
        contents[f"figure_{figure}.csv"] = series_as_csv(series)
        for suffix, picture in draw(figure, series).items():
            contents[f"figure_{figure}.{suffix}"] = picture
    return write_files(folder, contents, overwrite=overwrite)
