"""Several sensitive columns under one plan: each has its own promise, all have the same classes.

Releases are *sliced*: inside a class they show the values of every column, but not which of them belong to
one person. Then what linking tells about one column is what it would tell if the others were not there, and
the promises hold side by side. So such a plan is several plans of one column each, its *faces*, with the same
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from elldelta.errors import ParameterError
from elldelta.files import record_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema

OWN = ("ell", "failure_upper", "p", "witnesses", "witness_cells")
"""What each face says for itself, besides its closeness."""

APART = (
    "All linked releases show their sensitive columns apart: which values of different columns belong to one "
    "person is not told, and nothing public ties them (a drug that names its disease)."
)


def faces_of(plan: Plan) -> tuple[Plan, ...]:
    """The plans of one sensitive column each that a plan is made of."""
    if not plan.schema.also_sensitive:
        return (plan,)
    first = replace(plan, schema=plan.schema.for_column(0), promise="", conditions=(), also=())
    return (first, *plan.also)


def check_faces(plan: Plan) -> None:
    """Refuses faces of other classes or columns."""
    if len(plan.also) + 1 != len(plan.schema.sensitives):
        raise ParameterError("A plan makes one promise for every sensitive column.")
    for place, face in enumerate(plan.also, start=1):
        shared = (
            "classes",
            "releases",
            "records",
            "delta",
            "kind",
            "min_records",
            "k",
            "moving",
            "movers",
            "seen",
        )
        if face.schema != plan.schema.for_column(place) or any(
            getattr(face, name) is not getattr(plan, name) and getattr(face, name) != getattr(plan, name)
            for name in shared
        ):
            raise ParameterError("The promises of a plan are about other classes or columns.")


def face_to_dict(face: Plan) -> dict[str, Any]:
    """What a face says for itself, as plain JSON values."""
    content: dict[str, Any] = {name: getattr(face, name) for name in OWN}
    content["witnesses"] = [list(values) for values in face.witnesses]
    content["witness_cells"] = [list(cells) for cells in face.witness_cells]
    content["closeness"] = None if face.closeness is None else face.closeness.to_dict()
    return content


def face_from_dict(shared: Mapping[str, Any], schema: Schema, document: Mapping[str, Any]) -> Plan:
    """The inverse of `face_to_dict`.

    Args:
        shared: What the plan says of all its faces.
        schema: The schema of this face.
        document: What it says for itself.
    """
    from elldelta.plan.plan import Plan

    if set(document) != {*OWN, "closeness"}:
        raise ParameterError("A promise has other fields than those that are known here.")
    return record_from(Plan, {**shared, **document, "schema": schema, "promise": "", "conditions": ()})


def slicing_conditions(schema: Schema) -> tuple[str, ...]:
    """What must be true where there are several sensitive columns."""
    return (APART,) if schema.also_sensitive else ()


def together(model: Model, made: Sequence[tuple[Plan | None, float]]) -> tuple[Plan | None, float]:
    """The plan of all columns, if each has one, and by what factor they exceed what is allowed.

    Args:
        model: The model of all columns.
        made: The plan of each column, if it keeps what is allowed, and its own factor.
    """
    faces = [face for face, _ in made if face is not None]
    excess = sum(own for _, own in made)
    if len(faces) < len(made):
        return None, excess
    joined = replace(
        faces[0],
        schema=model.schema,
        model_digest=model.digest,
        also=tuple(faces[1:]),
        promise="",
        conditions=(),
    )
    return joined, excess
