"""Engines: where the records are and the SQL runs. Each is imported only when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.data.table import Engine

ENGINES = {"duckdb": "elldelta.data.engines.duckdb"}
"""The engines by name; each module has a function `connect`."""


def connect(engine: str = "duckdb", **settings: Any) -> Engine:  # noqa: ANN401 (each engine has its own)
    """Starts an engine; use it in a `with` block."""
    if engine not in ENGINES:
        raise ParameterError(
            f"There is no engine {engine!r}.", found="It is not known.", remedy=f"Use {', '.join(ENGINES)}."
        )
    started: Engine = importlib.import_module(ENGINES[engine]).connect(**settings)
    return started
