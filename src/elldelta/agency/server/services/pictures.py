"""Pictures: drawn once, by the worker whose job they belong to, and stored for the pages.

A plan has a map of its classes, a preview its frontier, an audit two charts. What was made before pictures
were stored is drawn later, a few at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from sqlalchemy import exists, literal, select

from elldelta.agency.server import logs
from elldelta.agency.server.services.populations import can_draw, draw_classes
from elldelta.agency.server.tables import Job, Picture
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.pages.charts import as_svg, draw_exposure_curve, draw_frontier, draw_histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from elldelta.agency.server.state import Agency

Width = Literal["wide", "narrow"]
Drawing = Literal["frontier", "histogram", "curve"]

SIZES: Mapping[Width, tuple[float, float]] = {"wide": (6.4, 4.2), "narrow": (3.8, 3.6)}
"""In inches. On a phone the same letters need a smaller drawing."""

AT_A_TIME = 5
"""Plans, and jobs, whose pictures are drawn later at a time."""


def map_of(plan_digest: str) -> str:
    """What the map of a plan's classes is stored under."""
    return f"classes {plan_digest}"


def chart_of(job_id: str, drawing: Drawing) -> str:
    """What a chart of a job's result is stored under."""
    return f"{drawing} {job_id}"


def stored_picture(agency: Agency, subject: str, width: Width) -> bytes | None:
    """A picture; None if it is not drawn yet, or there is nothing to draw."""
    known = agency.pictures.peek((subject, width))
    if known is None:
        with agency.database.reading() as session:
            row = session.get(Picture, (subject, width))
        if row is None or not row.content:
            return None
        known = agency.pictures.get((subject, width), lambda: row.content)
    return known


def draw_map(agency: Agency, plan_digest: str) -> None:
    """Draws and stores the map of a plan's classes, if there is one."""
    draw = (lambda: draw_classes(agency, plan_digest)) if can_draw(agency, plan_digest) else None
    _store(agency, map_of(plan_digest), draw, is_map=True)


def draw_charts(agency: Agency, job_id: str, result: Mapping[str, Any]) -> None:
    """Draws and stores what belongs to the result of a preview or an audit."""
    if "frontier" in result:
        rows = result["frontier"]
        _store(agency, chart_of(job_id, "frontier"), (lambda: frontier_figure(rows)) if rows else None)
        return
    audit = result["audit"]
    _store(agency, chart_of(job_id, "histogram"), lambda: draw_histogram(audit["histogram"], audit["ell"]))
    _store(agency, chart_of(job_id, "curve"), lambda: draw_exposure_curve(audit["curve"], audit["ell"]))


def draw_missing(agency: Agency) -> int:
    """Draws a few of the pictures that were not stored when they could have been; says how many."""

    def is_missing(subject: Any) -> Any:  # noqa: ANN401 (SQL)
        return ~exists().where(Picture.subject == subject)

    with agency.database.reading() as session:
        plans = session.scalars(
            select(PlanRow.digest)
            .where(is_missing(literal("classes ") + PlanRow.digest))
            .order_by(PlanRow.issued_at.desc())
            .limit(AT_A_TIME)
        ).all()
        jobs = session.execute(
            select(Job.id, Job.result)
            .where(Job.status == "done", Job.kind.in_(("preview", "audit")))
            .where(is_missing(literal("frontier ") + Job.id), is_missing(literal("histogram ") + Job.id))
            .order_by(Job.created_at.desc())
            .limit(AT_A_TIME)
        ).all()
    for plan_digest in plans:
        draw_map(agency, plan_digest)
    for job_id, result in jobs:
        draw_charts(agency, job_id, result)
    return len(plans) + len(jobs)


def frontier_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Classes against records, one line for every kind of plan that was computed."""
    records = [row["records"] for row in rows]
    kinds = list(rows[0]["classes"])
    return draw_frontier(records, {kind: [row["classes"][kind] for row in rows] for kind in kinds}, "")


def _store(agency: Agency, subject: str, draw: Callable[[], Figure] | None, *, is_map: bool = False) -> None:
    """Draws something in both widths. A picture is no reason for a job to fail: what fails stays empty."""
    for width in get_args(Width):
        content = b""
        try:
            if draw is not None:
                figure = draw()
                across, up = SIZES[width]
                figure.set_size_inches(across, up + 0.6 * is_map)
                content = as_svg(figure)
        except Exception as error:  # noqa: BLE001 (its text might quote a label)
            logs.log_bug("picture was not drawn", error)
        with agency.database.writing() as session:
            session.merge(Picture(subject=subject, width=width, content=content))
