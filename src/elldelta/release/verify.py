"""What a release shows about itself, checked against its manifest and its plan; nothing is read here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.core.diversity import diversity, k_anonymity
from elldelta.errors import FileError, RefusedError
from elldelta.plan.classes import Merged
from elldelta.release.certify import check_classes, check_published

if TYPE_CHECKING:
    from elldelta.plan.plan import Plan
    from elldelta.release.manifest import Manifest
    from elldelta.release.published import Published


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


def verify_published(published: Published, plan: Plan | None = None) -> Verification:
    """Checks a release that was read: manifest against content, both against the plan, and the diversity.

    That the content has the digest of the manifest is checked by whoever reads the release.

    Raises:
        FileError: The manifest is missing, or release, manifest and plan do not belong together.
        RefusedError: A class shows fewer values than were promised, or the certificate does not hold.
    """
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
    realised = diversity(published.counts)
    _check_claims(published, manifest, realised)
    is_certified = False
    if plan is not None:
        _check_terms(published, manifest, plan)
        if plan.guarantee == "certified":
            check_published(published, plan)
            is_certified = True
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


def _check_claims(published: Published, manifest: Manifest, realised: int | None) -> None:
    """Refuses a manifest that claims what the table does not show, wherever the table can tell."""
    n_classes = int((published.counts.sum(axis=1) > 0).sum())
    claims = {
        "the number of records": (manifest.records_released, published.n_records),
        "the number of classes": (manifest.classes_published, n_classes),
        "the diversity": (manifest.diversity, realised),
    }
    wrong = [name for name, (claimed, found) in claims.items() if claimed != found]
    lost = (manifest.records_left_out, manifest.records_suppressed, manifest.records_quarantined)
    if manifest.records_released + sum(lost) != manifest.records_read or min(lost) < 0:
        wrong.append("what became of every record")
    if wrong:
        raise FileError(
            f"The release {published.name} is not the one its manifest describes.",
            found=f"The manifest is wrong about {', '.join(wrong)}.",
            remedy="Fetch both again from whoever published them.",
        )


def _check_terms(published: Published, manifest: Manifest, plan: Plan) -> None:
    """Refuses a release whose manifest promises other things than the plan, or that is not made by it."""
    check_classes(published, plan)
    names = ("ell", "delta", "releases", "failure_upper", "guarantee", "min_records")
    other = [name for name in names if getattr(manifest, name) != getattr(plan, name)]
    if other:
        raise FileError(
            f"The release {published.name} does not follow the plan.",
            found=f"Its manifest and the plan disagree on {', '.join(other)}.",
            remedy="Do not rely on this release.",
        )
    if plan.guarantee != "probabilistic":
        return
    if isinstance(published.classes, Merged):
        raise FileError(
            f"The release {published.name} does not follow the plan.",
            found="It merges classes; releases of a probabilistic plan use the plan's classes as they are.",
            remedy="Do not rely on this release.",
        )
    if published.n_records < plan.records:
        raise RefusedError(
            f"The release {published.name} has fewer records than its plan asks for.",
            found=f"{published.n_records} records; the plan asks for {plan.records}.",
            remedy="Do not rely on this release.",
        )
