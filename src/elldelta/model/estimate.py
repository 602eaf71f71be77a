"""Use case: from past records to a model of the population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elldelta.engines import running
from elldelta.files import loaded
from elldelta.model.counting import count
from elldelta.model.model import Model
from elldelta.schema.schema import Schema
from elldelta.schema.schema_file import read_schema

if TYPE_CHECKING:
    import os

    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.model.counting import UnknownPolicy


def estimate(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    schema: Schema | str | os.PathLike[str],
    *,
    unknown: UnknownPolicy = "refuse",
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Model:
    """Counts past records by (quasi-identifiers, sensitive value).

    Args:
        source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
        schema: What the columns mean, or the file that says so.
        unknown: What to do with a value outside its domain: "refuse", or leave the record out and count it
            ("quarantine").
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    described = loaded(schema, Schema, read_schema)
    with running(engine) as active:
        counted = count(active.open(source, csv_format), described, unknown=unknown, progress=progress)
    return Model(counted.counts)
