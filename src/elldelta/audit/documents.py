"""The documents of audits and gates: plain JSON values, and what of them may be shown to whom.

For the public they leave out whatever shows a cell of the data: the labels of classes, numbers about a single
class, and small counts. Counts are rounded up to tens and shares to whole percents, so that none is told
smaller than it is and no small group can be recognised by its size. How sure somebody can be at worst is
told, in whole percents: a verdict without it would say too little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from elldelta.pages.page import share_upper

_COUNTS = {
    "": {"classes_linked", "classes_without_common_value", "classes_below_any"},
    **{key: {"records", "classes", "classes_below", "records_below"} for key in ("release", "releases")},
    "records_left_out": {"missing", "outside", "unpublished"},
    "histogram": {"classes", "records"},
    "linked": {"records", "classes_below", "records_below", "classes_exposed", "records_exposed"},
    "left_out": {"classes_below_any"},
    "closeness": {"classes", "classes_above"},
    "series": {"groups_below", "people_below", "people_far"},
    "steps": {"classes", "changed"},
    **{key: {"groups", "people", "groups_below", "people_below"} for key in ("came", "went", "stayed")},
    "subtraction": {"groups_below", "records_below"},
    "pairs": {"groups_below", "records_below"},
    "targets": {"targets", "in_all", "below", "exposed", "outside", "partly_known"},
    "gate": {"classes_below", "classes_below_already", "records_below"},
}
"""What is rounded up, per part of a document."""
_SHARES = {"baseline", "loss", "guess_mean", "guess_mean_max", "surest_share", "distance", "bound"}
_WORDS = {
    *("name", "column", "verdict", "surest", "condition", "source"),
    *("without", "before", "after", "known_from"),
    *("status", "because"),
    *("public", "holds", "values_hold", "is_exact", "is_series"),
    *("reference", "words", "question", "note", "is_complete", "sensitive", "software"),
    *("range_of_loss", "judged", "described_by"),
}
_NUMBERS = {
    *("ell", "diversity", "diversity_min", "diversity_min_any", "releases", "groups", "groups_possible"),
    *(
        "promised",
        "allowed",
        "below",
        "values_min",
        "kinds",
        "in_all",
        "in_some_known",
        "in_some_unknown",
        "unknown",
    ),
}
_LISTS = {
    *("releases", "columns", "histogram", "readings", "curve", "left_out", "assumptions", "next_steps"),
    *("published", "labels_understood", "plans", "series", "steps", "pairs", "warnings"),
}


def plain(value: Any) -> Any:  # noqa: ANN401 (results, however deep, as JSON has them)
    """Results as plain JSON values: a dataclass is an object of its fields."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def without_labels(value: Any) -> Any:  # noqa: ANN401 (a document or a part of one)
    """A document without labels of classes and sensitive values, which are made of the data."""
    if isinstance(value, dict):
        return {
            key: [] if key in ("labels", "values") else without_labels(item) for key, item in value.items()
        }
    return [without_labels(item) for item in value] if isinstance(value, list) else value


def for_the_public(document: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """A document with counts and shares rounded up, and without whatever is not known to show no cell."""
    return {key: _public(key, value, part) for key, value in document.items()}


def _public(key: str, value: Any, part: str) -> Any:  # noqa: ANN401 (whatever a document holds)
    if isinstance(value, dict):
        return for_the_public(value, key)
    if isinstance(value, list):
        items = value if key in _LISTS else []
        return [for_the_public(item, key) if isinstance(item, dict) else item for item in items]
    if value is None:
        return None
    if key in _COUNTS.get(part, ()):
        return -(-value // 10) * 10
    if key in _SHARES or key.startswith("share_"):
        return share_upper(value, 2)
    return value if key in _WORDS or key in _NUMBERS else None


def range_of_loss(described_by: Collection[str]) -> str:
    """Over which range the information loss of releases is measured, in words.

    Args:
        described_by: What says what each of them shows: a manifest, a schema or its labels.
    """
    if {*described_by} == {"manifest"}:
        return "over the range that was seen in the past"
    words = "the domains of the schema" if "schema" in described_by else "the range that labels name"
    others = " where there is no manifest" if "manifest" in described_by else ""
    return f"over {words}{others}, without the records that were left out"
