"""What Py4J and PySpark say by themselves when the JVM ends: kept away, for it may quote records."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def silence(context: Any) -> Callable[[], None]:  # noqa: ANN401 (a context of Spark)
    """Silences the loggers of Py4J and the server of accumulators; returns what gives the loggers back."""
    import py4j

    folder = Path(py4j.__file__).parent
    root, logger = logging.getLogger(), logging.getLogger("py4j")
    propagates = logger.propagate

    def is_of_others(record: logging.LogRecord) -> bool:
        return folder not in Path(record.pathname).parents

    root.addFilter(is_of_others)  # Py4J gives what it cannot send to the root itself, past its own logger
    logger.propagate = False
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None  # prints a traceback; that the JVM has ended is told elsewhere

    def restore() -> None:
        root.removeFilter(is_of_others)
        logger.propagate = propagates

    return restore
