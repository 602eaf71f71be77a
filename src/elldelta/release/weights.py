"""Mean weights beside the rows of a release: whose they are, what a manifest says of them, their check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

import numpy as np

from elldelta.core.weights import MeanWeights, mean_weights
from elldelta.files import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.plan.plan import Plan
    from elldelta.release.manifest import Manifest
    from elldelta.schema.schema import Schema


class WeightsShown(TypedDict):
    """What a manifest says of the mean weights of its release."""

    column: str
    step: float
    fewest: int
    per: Literal["class", "value"]
    digest: str


class RowWeights(NamedTuple):
    """The weights of different rows, as somebody has read them: which one each has."""

    code_of: NDArray[np.int64]
    texts: Sequence[str | None]


def weights_shown(plan: Plan, counts: NDArray[np.int64], units: NDArray[np.int64]) -> MeanWeights | None:
    """The mean weights of a release.

    Args:
        plan: The plan.
        counts: Records by published class and sensitive value.
        units: Their weights, added up.
    """
    weight = plan.schema.weight
    if weight is None:
        return None
    first = plan.schema.value_slices[0]
    shown, units = counts[:, first], np.where(counts > 0, units, 0)[:, first]  # of no class that is left out
    if per_class(plan.schema, has_closeness=any(column.closeness for column in plan.columns)):
        shown, units = shown.sum(axis=1, keepdims=True), units.sum(axis=1, keepdims=True)
    return mean_weights(shown, units, weight.largest, weight.fewest)


def per_class(schema: Schema, *, has_closeness: bool) -> bool:
    """Whether all rows of a class share a mean weight.

    Weights that differ between values would make some likelier than their shares say, which closeness
    bounds; and where there are several sensitive columns, rows belong to the values of none of them.
    """
    return has_closeness or bool(schema.also_sensitive)


def describe_weights(
    schema: Schema, weights: MeanWeights | None, *, has_closeness: bool
) -> WeightsShown | None:
    """What a manifest says of the weights of a release."""
    if weights is None or schema.weight is None:
        return None
    return {
        "column": schema.weight.name,
        "step": weights.step,
        "fewest": schema.weight.fewest,
        "per": "class" if per_class(schema, has_closeness=has_closeness) else "value",
        "digest": digest(weights.steps.tolist()),
    }


def read_weights(
    manifest: Manifest,
    counts: NDArray[np.int64],
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    found: RowWeights,
) -> MeanWeights | None:
    """The mean weights of rows; None if they are not those that a manifest describes.

    Args:
        manifest: The manifest.
        counts: Records by class and sensitive value.
        rows: Of every different row its class, and its value in the first sensitive column.
        found: Its weight.
    """
    schema, has_closeness = manifest.schema, manifest.has_closeness
    if schema.weight is None:
        return None
    step, fewest, first = schema.weight.largest, schema.weight.fewest, schema.value_slices[0]
    shown = counts[:, first]
    if per_class(schema, has_closeness=has_closeness):
        shown = shown.sum(axis=1, keepdims=True)
    groups = MeanWeights.groups_of(shown, fewest, step)
    group = groups.groups(rows[0], rows[1])
    try:
        means = np.array([float(text or "nan") for text in found.texts], dtype=np.float64)[found.code_of]
    except ValueError:
        return None
    if not np.isfinite(means).all():
        return None
    totals = np.ones(groups.records.size)
    totals[group] = means * groups.records[group] / step
    steps = np.clip(np.rint(totals), 1, np.maximum(1, groups.records - 1)).astype(np.int64)
    weights = replace(groups, steps=steps)
    is_mean = np.isclose(means, weights.means[group], rtol=1e-9, atol=0.0).all()
    described = describe_weights(schema, weights, has_closeness=has_closeness)
    return weights if is_mean and manifest.weights == described else None
