"""Which engine a use case runs on: the one it was given, or a new one for as long as it is needed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from elldelta.engines.table import Engine


def running(engine: Engine | str | None) -> AbstractContextManager[Engine]:
    """The engine that was given, which its owner closes, or one for this use: by its name, or DuckDB."""
    if engine is not None and not isinstance(engine, str):
        return nullcontext(engine)
    from elldelta.engines import connect

    return connect(engine or "duckdb")
