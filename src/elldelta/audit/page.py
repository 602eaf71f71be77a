"""The page about an audit that people read: one file without scripts that opens from disk."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.pages.page import write_page

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from elldelta.audit.result import Audit


def report(
    audit: Audit, to: str | os.PathLike[str], *, public: bool = False, overwrite: bool = False
) -> None:
    """Writes the page about an audit that people read, whole or not at all.

    Args:
        audit: What `elldelta.audit` found.
        to: An .html file; it needs no script and no network.
        public: Whether labels of classes and small counts are left out everywhere.
        overwrite: Whether the file may be replaced.
    """
    write_page(render_audit(audit.to_dict(labels=True, public=public)), Path(to), overwrite=overwrite)


def render_audit(document: Mapping[str, Any]) -> str:
    """One self-contained HTML page: no script, no network, opens from the file system, prints well.

    Args:
        document: What `Audit.to_dict` made, in full or for the public.
    """
    from elldelta.pages.charts import curve_words, draw_exposure_curve, draw_histogram, histogram_words
    from elldelta.pages.page import inline_svg, render

    ell, bars = document["ell"], document["histogram"]
    return render(
        "audit.html",
        audit=document,
        made=dt.datetime.now(dt.UTC).date(),
        curve=inline_svg(draw_exposure_curve(document["curve"], ell), "curve"),
        histogram=inline_svg(draw_histogram(bars, ell), "histogram") if bars else None,
        curve_words=curve_words(document["curve"], ell),
        histogram_words=histogram_words(bars, ell),
    )
