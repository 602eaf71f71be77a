"""Use cases: check one release from its file, and link several to see what an adversary would see."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.app.certify import check_published
from elldelta.app.engine import running
from elldelta.app.release import Release
from elldelta.core.checks import check_count
from elldelta.core.diversity import diversity, k_anonymity
from elldelta.core.linkage import fewest_values, link
from elldelta.data.frames import is_frame
from elldelta.data.manifest import manifest_path, read_manifest
from elldelta.data.published import overlay, read_published
from elldelta.errors import DataError, FileError, ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.core.linkage import Linkage
    from elldelta.data.csv_format import CsvFormat
    from elldelta.data.manifest import Manifest
    from elldelta.data.plan_file import Plan
    from elldelta.data.published import Published
    from elldelta.data.schema import Schema
    from elldelta.data.table import Engine, Progress


@dataclass(frozen=True)
class ReleaseSummary:
    """One release by itself."""

    name: str
    records: int
    classes: int
    diversity: int | None
    k: int | None


@dataclass(frozen=True)
class HistogramBar:
    """How many linkage classes, and linked records in them, leave a given number of values."""

    diversity: int
    classes: int
    records: int


@dataclass(frozen=True, eq=False)
class Audit:
    """What linking the releases shows.

    Attributes:
        releases: Each release by itself.
        ell: The diversity to compare with.
        diversity_min: The fewest values left for anybody who is in all releases; None if nobody can be.
        diversity_min_any: The fewest values left for anybody, whichever of the releases they are in: the
            smallest over every group of the releases. The verdict looks at this one, because linking all of
            them can show that nobody is in all, and say nothing about those who are in some.
        groups_complete: Whether every group was asked; with very many releases only small ones and all are.
        classes_linked: Combinations of classes, one per release, that share a quasi-identifier, have a record
            in every release and at least one value in common.
        classes_without_common_value: Combinations with records in every release but no value in common:
            nobody can be in all of them.
        share_below: Share of the linked records that lie in classes with fewer than ell values left.
        share_exposed: Share of the linked records that lie in classes with exactly one value left.
        histogram: The same in full.
        linkage: The linkage itself.
    """

    releases: tuple[ReleaseSummary, ...]
    ell: int
    diversity_min: int | None
    diversity_min_any: int | None
    groups_complete: bool
    classes_linked: int
    classes_without_common_value: int
    share_below: float
    share_exposed: float
    histogram: tuple[HistogramBar, ...]
    linkage: Linkage

    @property
    def holds(self) -> bool:
        """Whether everybody is left among at least ell values, whichever of the releases they are in."""
        return self.diversity_min_any is None or self.diversity_min_any >= self.ell


def audit(
    releases: Sequence[Any],
    *,
    ell: int | None = None,
    schema: Schema | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Links releases as the adversary of the paper would, whatever their classes.

    Args:
        releases: Files with a manifest beside them, `Release` objects, or tables in memory.
        ell: The diversity to compare with; by default the largest that a manifest promises.
        schema: What the columns mean, for releases without a manifest.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    if not releases:
        raise ParameterError("An audit needs at least one release.", found="None was given.")
    published = [
        open_published(item, schema=schema, csv_format=csv_format, engine=engine, progress=progress)
        for item in releases
    ]
    promised = [item.manifest.ell for item in published if item.manifest is not None]
    if ell is None and not promised:
        raise ParameterError(
            "There is no ell to compare with.",
            found="No release has a manifest.",
            remedy="Give --ell (in Python: ell=...).",
        )
    wanted = check_count("ell", ell) if ell is not None else max(promised)
    return _summary(published, wanted)


def _summary(published: Sequence[Published], ell: int) -> Audit:
    """Links releases and turns the linkage into the numbers of an audit."""
    over_cells = overlay(published)
    linkage = link(over_cells)
    fewest, is_complete = fewest_values(over_cells)
    left = linkage.class_diversities
    records = linkage.counts.sum(axis=1)
    n_linked = int(records.sum())
    bars = tuple(
        HistogramBar(int(value), int((left == value).sum()), int(records[left == value].sum()))
        for value in np.unique(left[left > 0])
    )

    def share(chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
        return float(records[chosen].sum() / n_linked) if n_linked else 0.0

    return Audit(
        releases=tuple(
            ReleaseSummary(
                item.name,
                item.n_records,
                int((item.counts.sum(axis=1) > 0).sum()),
                diversity(item.counts),
                k_anonymity(item.counts),
            )
            for item in published
        ),
        ell=ell,
        diversity_min=linkage.diversity,
        diversity_min_any=fewest,
        groups_complete=is_complete,
        classes_linked=int((left > 0).sum()),
        classes_without_common_value=linkage.n_without_common_value,
        share_below=share(left < ell),
        share_exposed=share(left == 1),
        histogram=bars,
        linkage=linkage,
    )


def open_published(
    item: Any,  # noqa: ANN401 (a file, a Release, or a table in memory)
    *,
    schema: Schema | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Published:
    """Reads one release, with its manifest where it has one."""
    manifest: Manifest | None = None
    if isinstance(item, Release):
        source, name, manifest = item.table, "a release in memory", item.manifest
    elif is_frame(item):
        source, name = item, "a release in memory"
    else:
        source, name = item, Path(item).name
        beside = manifest_path(item)
        manifest = read_manifest(beside) if beside.exists() else None
    if manifest is not None:
        schema = manifest.schema
    elif schema is None:
        raise DataError(
            f"The release {name} comes without a manifest.",
            found="Nothing says what its columns mean.",
            remedy="Put the manifest beside it, or give the schema (--schema).",
        )
    with running(engine) as active:
        return read_published(active.open(source, csv_format), name, schema, manifest, progress)


@dataclass(frozen=True)
class Verification:
    """What a release's own file shows about it."""

    name: str
    records: int
    classes: int
    ell: int
    diversity: int | None
    k: int | None
    plan_digest: str
    is_certified: bool


def verify(
    item: Any,  # noqa: ANN401 (a file or a Release)
    plan: Plan | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Re-checks a release as an outsider would: content against manifest, manifest against plan, diversity.

    With a certified plan the certificate itself is checked again, from the published table.

    Raises:
        FileError: The manifest is missing, or release, manifest and plan do not belong together.
        RefusedError: A class shows fewer values than were promised, or the certificate does not hold.
    """
    published = open_published(item, schema=plan.schema if plan else None, engine=engine, progress=progress)
    manifest = published.manifest
    if manifest is None:
        raise FileError(
            f"The release {published.name} comes without a manifest.",
            found="Nothing says under which plan it was made.",
            remedy="Put the manifest beside it.",
        )
    if plan is not None and manifest.plan_digest != plan.digest:
        raise FileError(
            f"The release {published.name} was made with another plan.",
            found="The digest of the plan is not the one in the manifest.",
            remedy="Give the plan that the release was made with.",
        )
    is_certified = False
    if plan is not None and plan.guarantee == "certified":
        check_published(published, plan)
        is_certified = True
    realised = diversity(published.counts)
    if realised is not None and realised < manifest.ell:
        raise RefusedError(
            f"The release {published.name} does not show {manifest.ell} values in every class.",
            found=f"A class shows {realised}.",
            remedy="Do not rely on this release.",
        )
    return Verification(
        published.name,
        published.n_records,
        int((published.counts.sum(axis=1) > 0).sum()),
        manifest.ell,
        realised,
        k_anonymity(published.counts),
        manifest.plan_digest,
        is_certified,
    )
