"""Tables in memory: pandas, Polars and Arrow in through Arrow, and the same kind out again.

None of these libraries but Arrow is needed to run elldelta, so a table is recognised by what it can do (the
Arrow PyCapsule interface), not by its class.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from elldelta.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def is_frame(source: object) -> bool:
    """Whether something is a table in memory."""
    return hasattr(source, "__arrow_c_stream__") or _library(source) in {"pandas", "polars"}


def to_arrow(frame: Any) -> pa.Table:  # noqa: ANN401 (recognised by what it can do)
    """Any table in memory as an Arrow table; the index of a pandas table is left behind."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    table = None
    try:
        if _library(frame) == "pandas":
            table = pa.Table.from_pandas(frame, preserve_index=False)
        elif hasattr(frame, "__arrow_c_stream__"):
            table = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # Arrow's message quotes cells; the error below is raised outside, so that nothing carries it
    if table is None:
        raise DataError(
            "The table cannot be converted to Arrow.",
            found=f"It is a {type(frame).__name__}; a column may mix values of different types.",
            remedy="Give a table whose columns have one type each (a lazy table must be collected first).",
        )
    return table


def from_arrow(table: pa.Table, like: object) -> Any:  # noqa: ANN401 (the kind of table that was given)
    """An Arrow table as the same kind of table as `like`."""
    library = _library(like)
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        return sys.modules["polars"].from_arrow(table)
    return table


def _library(frame: object) -> str:
    return type(frame).__module__.partition(".")[0]
