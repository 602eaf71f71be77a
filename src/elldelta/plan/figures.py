"""Use case: write the paper's four figures, each with the numbers behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.files import AtomicFiles, unwritable
from elldelta.plan.paper_figures import draw
from elldelta.plan.paper_series import paper_series, series_as_csv

if TYPE_CHECKING:
    from pathlib import Path


def write_figures(folder: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Writes the four figures as SVG and PNG, each with a CSV of its series; returns the files."""
    points = paper_series()
    contents: dict[Path, bytes] = {}
    for figure in range(1, 5):
        series = tuple(point for point in points if point.figure == figure)
        contents[folder / f"figure_{figure}.csv"] = series_as_csv(series)
        for suffix, picture in draw(figure, series).items():
            contents[folder / f"figure_{figure}.{suffix}"] = picture
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise unwritable(folder, problem) from None
    with AtomicFiles(overwrite=overwrite) as files:
        for path, content in contents.items():
            files.stage(path).write_bytes(content)
    return tuple(contents)
