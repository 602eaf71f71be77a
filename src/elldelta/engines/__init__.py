"""Engines: where the records are and the SQL runs.

The contract (`table`), what can be read (`sources`), the only SQL text (`sql`), how cells are read (`cells`);
and DuckDB, Spark and PostgreSQL, each of them imported only when it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from elldelta.engines.formats import FileFormat, format_of, source_format
from elldelta.engines.sources import Query, TableName, from_arrow, is_frame, to_arrow
from elldelta.engines.table import Engine, Progress, Table, TableColumn, ValueKind, require
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ENGINES = {
    "duckdb": "elldelta.engines.duckdb",
    "spark": "elldelta.engines.spark.engine",
    "postgres": "elldelta.engines.postgres.engine",
}
"""The engines by name; each module has a function `connect`."""

_PACKAGES = {"spark": ("pyspark",), "postgres": ("adbc_driver_postgresql",)}
"""What an engine needs beyond the package itself; the extra has the engine's name."""


def connect(engine: str = "duckdb", **settings: Any) -> Engine:  # noqa: ANN401 (each engine has its own)
    """Starts an engine; use it in a `with` block."""
    if engine not in ENGINES:
        raise ParameterError(
            f"There is no engine {engine!r}.", found="It is not known.", remedy=f"Use {', '.join(ENGINES)}."
        )
    _check_installed(engine)
    started: Engine = importlib.import_module(ENGINES[engine]).connect(**settings)
    return started


def running(engine: Engine | str | None) -> AbstractContextManager[Engine]:
    """The engine that was given, which its owner closes, or one for this use: by its name, or DuckDB."""
    return connect(engine or "duckdb") if engine is None or isinstance(engine, str) else nullcontext(engine)


def _check_installed(engine: str) -> None:
    missing = [name for name in _PACKAGES.get(engine, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise ParameterError(
            f"The engine {engine!r} is not installed.",
            found=f"There is no package {' or '.join(missing)}.",
            remedy=f"pip install 'elldelta[{engine}]'",
        )
