"""Use case: propose a schema from a table, and keep schemas in files that a person edits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.engines.running import running
from elldelta.files.atomic import AtomicFiles
from elldelta.files.text_file import read_text
from elldelta.schema.infer import infer_schema
from elldelta.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elldelta.engines.table import Engine, Progress
    from elldelta.files.csv_format import CsvFormat
    from elldelta.schema.hierarchy import HierarchyRows


def infer(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    quasi_identifiers: Sequence[str],
    sensitive: str,
    *,
    kept: Sequence[str] = (),
    bins: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, HierarchyRows] | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Schema:
    """Proposes a schema for files or a table in memory; the arguments are those of `infer_schema`."""
    with running(engine) as active:
        table = active.open(source, csv_format)
        return infer_schema(
            table,
            quasi_identifiers,
            sensitive,
            kept=kept,
            bins=bins,
            hierarchies=hierarchies,
            progress=progress,
        )


def write_schema(schema: Schema, path: Path, *, overwrite: bool = False) -> None:
    """Writes a schema as TOML with comments, whole or not at all."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_text(schema.to_toml(), encoding="utf-8")


def read_schema(path: Path) -> Schema:
    """Reads a schema, and the files of hierarchies that it names beside it.

    What cannot be meant is refused with its line.
    """
    text = read_text(path, "schema", remedy="Give a TOML file that 'elldelta schema infer' has written.")
    return Schema.from_toml(text, source=str(path), folder=Path(path).parent)
