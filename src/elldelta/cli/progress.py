"""Progress bars: on standard error, only on a terminal, only for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elldelta.engines import Progress

PATIENCE = 1.0
"""Seconds before a bar appears."""


@contextmanager
def progress_bar(doing: str) -> Iterator[Progress | None]:
    """Yields what to tell the progress to, or None where nobody is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    start = time.monotonic()
    bar: Any = None
    task: Any = None

    def tell(share: float) -> None:
        nonlocal bar, task
        if bar is None and time.monotonic() - start > PATIENCE:
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(doing, total=1.0)
        if bar is not None:
            bar.update(task, completed=min(1.0, max(0.0, share)))

    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()
