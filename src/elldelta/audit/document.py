"""An audit as one plain document: what `--json` prints and what the report shows, in full or for the public.

The public version leaves out whatever shows a cell of the data: the labels of classes, numbers about a single
class, and small counts. Counts are rounded up to tens and shares to whole percents, so that none is told
smaller than it is and no small group can be recognised by its size.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elldelta.audit.gate import Gate, GateClass
    from elldelta.audit.result import Audit, Differencing, WorstClass
    from elldelta.core.exposure import CurvePoint, LeftOut

LIMITS = (
    "Linking is counted as in the paper: a value is left if the person's class in every linked release shows "
    "it. People are matched by their quasi-identifiers alone.",
    "What somebody learns from other sources, or from how a release was made, is not in these numbers.",
)
"""What every audit takes for granted."""


def audit_document(audit: Audit, *, labels: bool = False, public: bool = False) -> dict[str, Any]:
    """The audit as plain JSON values.

    Args:
        audit: What was found.
        labels: Whether classes are told by their labels. They are made of values of the data, so they belong
            on a page that somebody asked for, not on a terminal or in a log.
        public: Leave out whatever shows a cell of the data, labels included.
    """
    tell = _Public() if public else _Full()
    labels = labels and not public
    exposure = audit.exposure
    return {
        "releases": [
            {
                "name": item.name,
                "records": tell.count(item.records),
                "classes": tell.count(item.classes),
                "diversity": item.diversity,
                "k": tell.detail(item.k),
                "entropy": tell.detail(item.entropy),
                "t_closeness": tell.detail(item.t_closeness),
                "classes_below": tell.count(item.classes_below),
                "records_below": tell.count(item.records_below),
            }
            for item in audit.releases
        ],
        "columns": list(audit.columns),
        "public": public,
        "ell": audit.ell,
        "holds": audit.holds,
        "verdict": audit.verdict,
        "diversity_min": audit.diversity_min,
        "diversity_min_any": audit.diversity_min_any,
        "groups_complete": audit.groups_complete,
        "classes_linked": tell.count(audit.classes_linked),
        "classes_without_common_value": tell.count(audit.classes_without_common_value),
        "classes_below_any": tell.count(audit.classes_below_any),
        "share_below": tell.share(audit.share_below),
        "share_exposed": tell.share(audit.share_exposed),
        "histogram": [
            {
                "diversity": bar.diversity,
                "classes": tell.count(bar.classes),
                "records": tell.count(bar.records),
            }
            for bar in audit.histogram
        ],
        "linked": {
            "records": tell.count(exposure.records),
            "classes_below": tell.count(exposure.classes_below),
            "records_below": tell.count(exposure.records_below),
            "classes_exposed": tell.count(exposure.classes_exposed),
            "records_exposed": tell.count(exposure.records_exposed),
            "entropy_min": tell.detail(exposure.entropy_min),
            "log_entropy_min": tell.detail(
                None if exposure.entropy_min is None else math.log(exposure.entropy_min)
            ),
            # no c is large enough if a class shows fewer than ell values
            "recursive_c": tell.detail(
                None
                if exposure.recursive_c_max is None or math.isinf(exposure.recursive_c_max)
                else exposure.recursive_c_max
            ),
        },
        "baseline": tell.share(audit.baseline),
        "guesses": [
            {
                "name": guess.name,
                "worst": tell.detail(guess.worst),
                "mean": None if guess.mean is None else tell.share(guess.mean),
                "condition": guess.condition,
                "source": guess.source,
            }
            for guess in audit.guesses
        ],
        "curve": [_curve_point(point, tell) for point in audit.curve],
        "left_out": [_left_out(item, audit, tell) for item in audit.left_out],
        "memberships": asdict(audit.memberships),
        "worst_classes": [] if public else [_worst(item, labels=labels) for item in audit.worst],
        "differencing": _differencing(audit.differencing, tell, labels=labels, public=public),
        "targets": None
        if audit.targets is None
        else {name: tell.count(number) for name, number in asdict(audit.targets).items()},
        "assumptions": [*LIMITS, *audit.assumptions],
        "labels": [
            {"column": column, "label": label, "meaning": meaning} for column, label, meaning in audit.labels
        ]
        if labels
        else [],
        "next_steps": next_steps(audit),
    }


def gate_document(gate: Gate, *, public: bool = False) -> dict[str, Any]:
    """The answer of the gate as plain JSON values."""
    tell = _Public() if public else _Full()
    return {
        "before": gate.before,
        "published": list(gate.published),
        "columns": list(gate.columns),
        "public": public,
        "ell": gate.ell,
        "holds": gate.holds,
        "verdict": gate.public_verdict if public else gate.verdict,
        "diversity_min": gate.diversity_min,
        "classes_below": tell.count(len(gate.classes)),
        "classes_below_already": tell.count(gate.already_below),
        "records_below": tell.count(gate.records_below),
        "classes": [] if public else [_gate_class(item) for item in gate.classes],
        "assumptions": [*LIMITS, *gate.assumptions],
    }


def next_steps(audit: Audit) -> list[str]:
    """What to do about it."""
    if audit.diversity_min_any is None:
        return ["Check that these are the releases that you meant: none of them holds a record."]
    steps = []
    if not audit.holds:
        alone = [
            item.name for item in audit.releases if item.diversity is not None and item.diversity < audit.ell
        ]
        if alone:
            steps.append(
                f"Already alone, {', '.join(alone)} shows fewer than {audit.ell} values in some class: "
                "repair that first."
            )
        if audit.left_out:
            best = min(
                audit.left_out, key=lambda item: (item.classes_below_any, -(item.diversity_min_any or 0))
            )
            if best.classes_below_any < audit.classes_below_any:
                steps.append(
                    f"{audit.releases[best.release].name} does the most harm: withdraw it, or publish it "
                    "again with larger classes."
                )
        if audit.differencing is not None and audit.differencing.groups_below:
            steps.append(
                "Publish the same records under one set of classes only: different ones can be subtracted."
            )
        steps.append(
            "Make the next releases from one plan (elldelta plan, elldelta release): the classes are then "
            "the same everywhere, and the promise is about the linked releases."
        )
    else:
        steps.append("Keep the classes as they are: the same people under other classes can be subtracted.")
    steps.append(
        "Ask before the next one is published: elldelta audit --before NEW --published OLD ... exits with 3 "
        "if it would take anybody below ell."
    )
    return steps


def _curve_point(point: CurvePoint, tell: _Full) -> dict[str, Any]:
    return {
        "releases": point.n_releases,
        "groups": point.groups,
        "groups_possible": point.groups_possible,
        "diversity_min": point.diversity_min,
        "share_below_max": tell.share(point.share_below_max),
        "share_below_mean": tell.share(point.share_below_mean),
        "share_exposed_max": tell.share(point.share_exposed_max),
        "share_exposed_mean": tell.share(point.share_exposed_mean),
        "guess_mean_max": None if point.guess_mean_max is None else tell.share(point.guess_mean_max),
    }


def _left_out(item: LeftOut, audit: Audit, tell: _Full) -> dict[str, Any]:
    return {
        "without": audit.releases[item.release].name,
        "diversity_min": item.shares.diversity_min,
        "diversity_min_any": item.diversity_min_any,
        "classes_below_any": tell.count(item.classes_below_any),
        "share_below": tell.share(item.shares.share_below),
        "share_exposed": tell.share(item.shares.share_exposed),
    }


def _worst(item: WorstClass, *, labels: bool) -> dict[str, Any]:
    return {
        "releases": list(item.releases),
        "labels": [list(own) for own in item.labels] if labels else [],
        "values_left": item.values_left,
        "records": item.records,
        "largest_share": item.largest_share,
    }


def _differencing(
    found: Differencing | None, tell: _Full, *, labels: bool, public: bool
) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "pairs": found.pairs,
        "groups": tell.count(found.groups),
        "diversity_min": found.diversity_min,
        "groups_below": tell.count(found.groups_below),
        "records_below": tell.count(found.records_below),
        "smallest": []
        if public
        else [
            {
                "releases": list(item.releases),
                "how": item.how,
                "labels": [[list(own) for own in side] for side in item.labels] if labels else [],
                "records": item.records,
                "diversity": item.diversity,
            }
            for item in found.smallest
        ],
    }


def _gate_class(item: GateClass) -> dict[str, Any]:
    return {
        "labels": list(item.labels),
        "records": item.records,
        "values_alone": item.values_alone,
        "values_left": item.values_left,
        "values_before": item.values_before,
    }


class _Full:
    """Tells numbers as they are."""

    def count(self, number: int) -> int:
        return number

    def share(self, share: float) -> float:
        return share

    def detail(self, number: float | None) -> float | None:
        return number


class _Public(_Full):
    """Tells nothing about a single class, counts rounded up to tens, shares up to whole percents."""

    def count(self, number: int) -> int:
        return -(-number // 10) * 10

    def share(self, share: float) -> float:
        return min(1.0, math.ceil(share * 100 - 1e-9) / 100)

    def detail(self, number: float | None) -> float | None:
        return None
