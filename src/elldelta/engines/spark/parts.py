"""The part files that Spark leaves in a folder: named in their order, without its marks, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.errors import FileError
from elldelta.files import part_name, remove

if TYPE_CHECKING:
    from pathlib import Path

    from elldelta.engines.sources import FileFormat


def name_parts(folder: Path, file_format: FileFormat) -> tuple[Path, ...]:
    """Names the part files after their numbers alone, and removes everything else that Spark left."""
    found = sorted(path for path in folder.iterdir() if path.is_file() and path.name.startswith("part-"))
    if not found:
        raise FileError(
            f"{folder} holds nothing after Spark has written it.",
            found="The workers write to another disk than this machine reads.",
            remedy="Choose an output on storage that driver and workers share under the same name.",
        )
    parts = []
    for number, path in enumerate(found):
        part = folder / part_name(number, file_format)
        path.replace(part)
        parts.append(part)
    for path in folder.iterdir():
        if path not in parts:
            remove(path)
    return tuple(parts)


def count_parquet(parts: tuple[Path, ...]) -> int:
    """The rows of Parquet files, as each of them says."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(part).num_rows for part in parts)
