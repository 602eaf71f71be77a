"""The log: one JSON object per line on standard error, about requests and never about what is in them.

No bodies, no values of queries, no tokens, no names: a route by its template, a party by its number.
Texts of exceptions are left out, because they may quote what somebody sent.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import traceback
from typing import Any

LOGGER = "elldelta.agency.server"

_FIELD = "elldelta"


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
        }
        fields = getattr(record, _FIELD, None)
        if fields is not None:
            line |= fields
        elif record.name.startswith("uvicorn"):
            line["event"] = record.getMessage() if _is_plain(record) else str(record.msg)
        else:
            line["event"] = str(record.msg)
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = place_of(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True)


def configure(level: str) -> None:
    """Sends all log records of this process to standard error, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in (LOGGER, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.access").disabled = True  # it logs paths with their queries; ours does not


def log(event: str, *, level: int = logging.INFO, **facts: str | int | float | bool | None) -> None:
    """Writes one line."""
    logger = logging.getLogger(LOGGER)
    if logger.isEnabledFor(level):
        logger.log(level, event, extra={_FIELD: {"event": event, **facts}})


def log_bug(event: str, error: BaseException, **facts: str | int | None) -> None:
    """Writes one line about an exception that nobody foresaw: its type and place, not its text."""
    log(event, level=logging.ERROR, exception=place_of(error), **facts)


def place_of(error: BaseException) -> str:
    """The type of an exception and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-4:])
    return f"{type(error).__name__} in {places}"


def _is_plain(record: logging.LogRecord) -> bool:
    """Whether a message of the web server is filled with nothing but numbers and its own addresses."""
    return not record.args or all(isinstance(part, str | int) for part in record.args)
