"""Use case: from past records to a model of the population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elldelta.engines.running import running
from elldelta.model.counting import count
from elldelta.model.model import Model

if TYPE_CHECKING:
    from elldelta.engines.table import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.model.counting import UnknownPolicy
    from elldelta.schema.schema import Schema


def estimate(
    source: Any,  # noqa: ANN401 (files, or any table in memory)
    schema: Schema,
    *,
    unknown: UnknownPolicy = "refuse",
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Model:
    """Counts past records by (quasi-identifiers, sensitive value).

    Args:
        source: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
        schema: What the columns mean.
        unknown: What to do with a value outside its domain: "refuse", or leave the record out and count it
            ("quarantine").
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    with running(engine) as active:
        counted = count(active.open(source, csv_format), schema, unknown=unknown, progress=progress)
    return Model(counted.counts)
