"""Which engine a use case runs on: the one it was given, or a new one for as long as it is needed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from elldelta.engines.table import Engine


def running(engine: Engine | None) -> AbstractContextManager[Engine]:
    """The engine that was given, which its owner closes, or DuckDB for this use."""
    if engine is not None:
        return nullcontext(engine)
    from elldelta.engines import connect

    return connect()
