"""Turns releases laid over each other into the numbers of an audit."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from elldelta.audit.documents import range_of_loss
from elldelta.audit.releases import Assumption, Topic
from elldelta.audit.result import (
    Audit,
    ReleaseSummary,
    WorstClass,
)
from elldelta.audit.series import READ_FROM_COUNTS, measure_series
from elldelta.audit.shares import MOST_WORST, inference_risks, measure_closeness
from elldelta.audit.subtraction import subtract
from elldelta.core.diversity import k_anonymity, n_groups_left, t_closeness
from elldelta.core.linkage import (
    distinct_cells,
    exposure_curve,
    fewest_in_any_group,
    fewest_in_union,
    leave_one_out,
    link,
    measure,
    smallest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from elldelta.audit.overlay import Overlay
    from elldelta.audit.series import OwnerSeries, SeriesResult
    from elldelta.audit.shares import ClosenessLimit
    from elldelta.audit.targets import TargetTotals
    from elldelta.core.linkage import ReleasedCounts
    from elldelta.model import Model

_MOST_WORK = 2_000_000_000
"""Counts that a curve of exposure may touch; with many cells it asks fewer groups, and says so."""


def summarize(
    overlay: Overlay,
    ell: int,
    *,
    model: Model | None = None,
    closeness: ClosenessLimit | None = None,
    contained: Sequence[Sequence[int]] | None = None,
    targets: TargetTotals | None = None,
    owners: Sequence[OwnerSeries] = (),
    judged: Sequence[Sequence[int]] = (),
) -> Audit:
    """Measures everything an audit reports.

    Args:
        overlay: The releases.
        ell: The number of values to compare with.
        model: Where the posterior's distribution comes from; by default the releases pooled.
        closeness: The closeness that is asked for.
        contained: Which populations are said to be contained in which; see `subtract`.
        targets: How the targets fare.
        owners: Series of one owner that are measured.
        judged: Series of one owner that a ledger has judged, by their places.
    """
    cells = distinct_cells(overlay.releases)
    linkage = link(cells)
    fewest = fewest_in_any_group(cells)
    exposure = measure(linkage.counts, ell, overlay.groups)
    n_cells, n_values = len(fewest), len(overlay.values)
    most_groups = int(np.clip(_MOST_WORK // (n_cells * n_values + 1), 2 * len(cells), 512))
    series = tuple(measure_series(overlay, owner, ell, closeness) for owner in owners)
    readings, reference, baseline = inference_risks(overlay, closeness, model)
    return Audit(
        releases=tuple(summary_of(overlay, place, ell) for place in range(len(overlay.releases))),
        range_of_loss=range_of_loss(overlay.described_by),
        columns=overlay.columns,
        sensitive=overlay.sensitive,
        plans=tuple(sorted({plan for plan in overlay.plans if plan is not None})),
        contents=overlay.contents,
        ell=ell,
        promised=overlay.promised,
        diversity_min_any=smallest(fewest),
        diversity_min_unknown=fewest_in_union(cells),
        diversity_min_unnamed=_fewest_unnamed(overlay),
        n_values=n_values,
        classes_below_any=int(((fewest > 0) & (fewest < ell)).sum()),
        exposure=exposure,
        readings=readings,
        reference=reference,
        baseline=baseline,
        closeness=None if closeness is None else measure_closeness(overlay, closeness)[0],
        curve=exposure_curve(cells, ell, most_groups=most_groups),
        left_out=leave_one_out(cells, ell),
        worst=_worst(overlay, cells, fewest),
        subtraction=subtract(overlay, ell, contained, [*(owner.places for owner in owners), *judged]),
        targets=targets,
        series=series,
        assumptions=(*overlay.assumptions, *_same_content(overlay), *_read_from_counts(series)),
        labels=overlay.labels,
        linkage=linkage,
    )


def _read_from_counts(series: Sequence[SeriesResult]) -> list[Assumption]:
    return [READ_FROM_COUNTS] if any(owner.is_read_from_counts for owner in series) else []


def summary_of(overlay: Overlay, place: int, ell: int) -> ReleaseSummary:
    """One release: its records and classes, and what somebody sees who knows where a person is."""
    classes, release = overlay.class_counts[place], overlay.releases[place]
    counts = release.counts
    by_itself = measure(counts, ell, release.groups)
    n_records = int(classes.sum())
    return ReleaseSummary(
        name=overlay.names[place],
        records=n_records,
        classes=int((classes.sum(axis=1) > 0).sum()),
        loss=overlay.losses[place],
        diversity=by_itself.diversity_min,
        k=k_anonymity(counts),
        entropy=by_itself.entropy_min,
        t_closeness=t_closeness(counts, classes.sum(axis=0)),
        classes_below=by_itself.classes_below,
        records_below=min(by_itself.records_below, n_records),  # overlapping classes count records twice
        described_by=overlay.described_by[place],
        records_left_out=overlay.left_out[place],
    )


def _fewest_unnamed(overlay: Overlay) -> int | None:
    return smallest(fewest_in_any_group(distinct_cells(overlay.unnamed))) if overlay.unnamed else None


def _same_content(overlay: Overlay) -> Iterator[Assumption]:
    """Says which releases show the same classes with the same counts: copies, most likely."""
    for one, other in combinations(overlay.layers, 2):
        if list(one.labels) == list(other.labels) and np.array_equal(one.counts, other.counts):
            words = f"The same content twice: {one.name} and {other.name} look like one release given twice."
            yield Assumption(words, Topic.SAME_CONTENT)


def _worst(
    overlay: Overlay, cells: Sequence[ReleasedCounts], fewest: NDArray[np.int64]
) -> tuple[WorstClass, ...]:
    """The cells with the fewest values left, each with the group of releases that leaves so few."""
    occupied = np.flatnonzero(fewest > 0)
    found = {}
    for cell in occupied[np.argsort(fewest[occupied], kind="stable")].tolist():
        rows = [int(release.partition.class_of[cell]) for release in cells]
        shown = np.stack([release.counts[row] for release, row in zip(cells, rows, strict=True)])
        best: tuple[float, tuple[int, ...], NDArray[np.int64]] | None = None
        for value in np.flatnonzero(shown.any(axis=0)):
            group = tuple(np.flatnonzero(shown[:, value] > 0).tolist())
            left = shown[list(group)].min(axis=0)
            share = float(left.max() / left.sum())
            if n_groups_left(left > 0, overlay.groups) == fewest[cell] and (best is None or share > best[0]):
                best = share, group, left
        if best is not None:
            share, group, left = best
            key = tuple((j, rows[j]) for j in group)  # a smaller group meets in several cells
            found[key] = WorstClass(
                tuple(overlay.names[j] for j in group),
                tuple(overlay.label(j, rows[j]) for j in group),
                int(fewest[cell]),
                int(left.sum()),
                share,
            )
        if len(found) == MOST_WORST:
            break
    return tuple(sorted(found.values(), key=lambda item: (item.values_left, -item.largest_share)))
