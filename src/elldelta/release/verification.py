"""What anybody can check again: a release against its manifest, both against the plan, and the diversity."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.certificate import certify
from elldelta.core.diversity import k_anonymity
from elldelta.core.promises import Shown
from elldelta.errors import FileError, ParameterError, RefusedError, counted
from elldelta.files import digest
from elldelta.plan.classes import Boxes, Merged
from elldelta.release.content import diversities_by_column
from elldelta.release.manifest import TERMS, Manifest, Persons, closeness_shown, moved
from elldelta.release.published import Published, not_as_described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.core.partition import Partition
    from elldelta.plan.plan import Plan
    from elldelta.release.manifest import Line


NO_PLAN = (
    "What the manifest says of its plan (number of releases, delta, failure, records per witness, closeness) "
    "was not compared with the plan."
)
"""What is not checked by whoever has no plan."""


@dataclass(frozen=True)
class Verification:
    """What a release's own file shows about it.

    Attributes:
        name: Words for it.
        records: Its records.
        column: The sensitive column, the first if there are several.
        classes: Its classes with a record.
        classes_planned: The classes of its plan.
        loss: How much information it loses, with the records that its manifest says are left out.
        ell: The diversity that is promised.
        diversity: The fewest values that a class shows.
        k: The fewest records of a class.
        plan_digest: The plan that it follows.
        is_certified: Whether its certificate was checked, and holds.
        beside: What it may be linked with, as the end of a sentence; empty without a certificate.
        line: The ledger's line that the manifest names, if it names one.
        is_line_checked: Whether that line was found in the ledger and compared with the release.
        claimed: What the manifest says and neither release nor plan can show: the owner's word.
        unchecked: What else could not be checked, in words.
        also: The same of further sensitive columns: name, ell and diversity.
        closeness: How far its classes are from the references, if that was promised and checked.
    """

    name: str
    records: int
    column: str
    classes: int
    classes_planned: int
    loss: float | None
    ell: int
    diversity: int | None
    k: int | None
    plan_digest: str
    is_certified: bool
    beside: str = ""
    line: Line | None = None
    is_line_checked: bool = False
    claimed: Mapping[str, Any] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    closeness: Mapping[str, Any] | None = None
    also: tuple[Mapping[str, Any], ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the file does not show: the owner's word, and what could not be checked."""
        numbers = {name: n for name, n in self.claimed.items() if isinstance(n, int | float) and n}
        claims = ", ".join(
            f"{name.replace('_', ' ')} {n:,}" if isinstance(n, int) else f"{name.replace('_', ' ')} {n:.4f}"
            for name, n in numbers.items()
        )
        return (
            *([f"The owner's word, which the file cannot show: {claims}."] if claims else []),
            *self._line_in_words,
            *self.unchecked,
        )

    @property
    def _line_in_words(self) -> list[str]:
        if self.line is None:
            return []
        which = f"line {self.line['sequence']:,} of a ledger, of {self.line['owner']!r}"
        if self.is_line_checked:
            return [f"It is {which}, which was compared with it."]
        return [f"The manifest says that it is {which}. That was not checked: the ledger would show it."]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        document = asdict(self)
        named = {"release": document.pop("name"), "certified": document.pop("is_certified")}
        return {**named, **document, "sentences": list(self.sentences)}


def verify_published(
    published: Published, plan: Plan | None = None, *, has_manifest: bool = True
) -> Verification:
    """Checks a release that was read: manifest against content, both against the plan, and the diversity.

    That the content has the digest of the manifest is checked by whoever reads the release.

    Args:
        published: The release.
        plan: Its plan, if it is at hand.
        has_manifest: Whether its manifest was written by its owner, and not computed from its counts, which
            do not tell whether persons were counted.

    Raises:
        FileError: The manifest is missing, or release, manifest and plan do not belong together.
        RefusedError: A class shows fewer values than were promised, or the certificate does not hold.
    """
    manifest, name = published.manifest, published.name
    if plan is not None and manifest.plan_digest != plan.digest:
        raise FileError(
            f"The release {name} was made with another plan.",
            found="The digest of the plan is not the one in the manifest.",
            remedy="Give the plan that the release was made with.",
        )
    diversities = diversities_by_column(published.schema, published.counts)
    realised, *others = (min(found[found > 0].tolist(), default=None) for found in diversities)
    n_classes = int(published.counts.any(axis=1).sum())
    _check_claims(published, manifest, n_classes, [realised, *others])
    if plan is not None:
        if has_manifest and plan.persons and manifest.persons is None:
            raise _not_of_plan(name, "It counts records, and releases of this plan count persons.")
        _check_plan(published, manifest, plan)
    if not _alike(manifest.loss, published.loss):
        raise not_as_described(name, "The manifest is wrong about the information that is lost.")
    promised = [manifest.ell, *(unit["ell"] for unit in manifest.also)]
    for ell, found in zip(promised, (realised, *others), strict=True):
        if found is not None and found < ell:
            raise _unreliable(
                f"The release {name} does not show {counted(ell, 'value')} in every class.",
                f"A class shows {found}.",
            )
    k = k_anonymity(published.schema.by_column(published.counts)[0])
    if k is not None and k < manifest.k:
        raise _unreliable(
            f"The release {name} does not hold {counted(manifest.k, 'record')} in every class.",
            f"A class holds {k}.",
        )
    return Verification(
        name,
        published.n_records,
        published.schema.sensitive.name,
        n_classes,
        manifest.classes_planned,
        published.loss,
        manifest.ell,
        realised,
        k,
        manifest.plan_digest,
        is_certified=(is_certified := plan is not None and plan.is_certified),
        beside=manifest.beside if is_certified else "",
        line=manifest.ledger,
        claimed=_claimed(manifest),
        unchecked=published.unchecked if plan is not None else (*published.unchecked, NO_PLAN),
        closeness=manifest.closeness if plan is not None else None,
        also=tuple(
            {"column": unit["column"], "ell": unit["ell"], "diversity": unit["diversity"]}
            for unit in manifest.also
        ),
    )


def _check_claims(
    published: Published, manifest: Manifest, n_classes: int, realised: Sequence[int | None]
) -> None:
    """Refuses a manifest that claims what the table does not show, wherever the table can tell."""
    claims = {
        "the number of records": (manifest.records_released, published.n_records),
        "the number of classes": (manifest.classes_published, n_classes),
        "the diversity": (
            [manifest.diversity, *(unit["diversity"] for unit in manifest.also)],
            list(realised),
        ),
    }
    wrong = [name for name, (claimed, found) in claims.items() if claimed != found]
    account = manifest.records
    lost = account["left_out"].values()
    shown = account["released"] + account["repeated"] - account["lingering"]
    if shown + sum(lost) != account["read"] or min(lost) < 0:
        wrong.append("what became of every record")
    if manifest.records_left_out and not manifest.leave_out and manifest.update is None:
        wrong.append("records that are left out")
    if manifest.persons is not None and not _can_be(manifest.persons, published, manifest):
        wrong.append("its persons")
    # A record may lack several values, and one that is put aside may lack some, too.
    missing, outside = (_tally(counts) for counts in (manifest.nulls, manifest.unknown))
    if min(outside, default=0) < 0 or not (
        max(outside, default=0) <= manifest.records_quarantined <= sum(outside)
    ):
        wrong.append("values outside their domains")
    if min(missing, default=0) < 0 or not (
        manifest.records_suppressed <= sum(missing)
        and max(missing, default=0) <= manifest.records_suppressed + manifest.records_quarantined
    ):
        wrong.append("missing values")
    if wrong:
        raise not_as_described(published.name, f"The manifest is wrong about {', '.join(wrong)}.")


def _can_be(persons: Persons, published: Published, manifest: Manifest) -> bool:
    """Whether a release can show so many persons, each once per value, and as many as were asked for."""
    sizes = published.schema.by_column(published.counts)[0].sum(axis=1)
    return (
        persons["persons"] <= published.n_records
        and persons["persons_per_class"] <= min(sizes[sizes > 0], default=0)
        and (not published.n_records or persons["persons_per_class"] >= manifest.k)
    )


def _tally(counts: Mapping[str, int]) -> list[int]:
    """Numbers of values per column; one that is not above 0 cannot be right."""
    return [n if n > 0 else -1 for n in counts.values()]


def _check_plan(published: Published, manifest: Manifest, plan: Plan) -> None:
    """Refuses a release that is not made by the plan, promises something else, or does not pass."""
    classes, name = published.classes, published.name
    base = classes.base if isinstance(classes, Merged) else classes
    other = [term for term in TERMS if getattr(manifest, term) != getattr(plan, term)]
    if manifest.plan_kind != plan.kind:
        other.append("the kind of plan")
    if (manifest.ell, *(unit["ell"] for unit in manifest.also)) != plan.ells:
        other.append("ell")
    problems = {
        "It describes its columns differently.": published.schema.digest != plan.schema.digest,
        "Its classes are not those of the plan.": isinstance(base, Merged)
        or digest(base.to_dict()) != digest(plan.classes.to_dict()),
        "Its classes are published together otherwise than the plan says beforehand.": not is_cut(
            plan, published.grouping
        ),
        "It leaves classes out, which releases of this plan never do.": manifest.leave_out
        and not (plan.is_certified and plan.moving is None),
        "It counts persons, which releases of this plan never do.": manifest.persons is not None
        and not plan.is_certified,
        f"Its manifest and the plan disagree on {', '.join(other)}.": bool(other),
    }
    found = next((problem for problem, is_so in problems.items() if is_so), None)
    if found is not None:
        raise _not_of_plan(name, found)
    announced = "" if manifest.moving is None else manifest.moving["announced"]
    if not _alike(manifest.moving, moved(plan, classes, announced)):
        raise not_as_described(name, "The manifest is wrong about classes that are published together.")
    claimed = [manifest.closeness, *(unit["closeness"] for unit in manifest.also)]
    near = closeness_shown(plan, classes, published.counts)
    if not all(_alike(*pair) for pair in zip(claimed, near, strict=True)):
        raise not_as_described(name, "The manifest is wrong about how close it is to the references.")
    if not plan.is_certified and published.n_records < plan.records:
        raise _unreliable(
            f"The release {name} has fewer records than its plan asks for.",
            f"{counted(published.n_records, 'record')}; the plan asks for {plan.records:,}.",
        )
    shown = Shown(published.counts, published.grouping)
    verdict = certify(plan.promises, shown).about(plan.checked_promises)
    if not verdict.is_certified:
        raise _unreliable(
            f"The release {name} does not pass the certificate of its plan."
            if plan.is_certified
            else f"The release {name} does not keep what its plan promises of every class.",
            " ".join(verdict.reasons),
        )


def _claimed(manifest: Manifest) -> dict[str, Any]:
    """What a manifest says that neither the release nor the plan can show."""
    names = ["records_read", "records_suppressed", "records_quarantined", "records_left_out"]
    claimed = {name: getattr(manifest, name) for name in names}
    if manifest.moving is not None:
        claimed["announced"] = manifest.moving["announced"]
    claimed |= {**(manifest.persons or {}), **(manifest.update or {})}
    return {**claimed, "nulls": dict(manifest.nulls), "unknown": dict(manifest.unknown)}


def _alike(claimed: object, found: object) -> bool:
    """Whether numbers by name are the same; sums may be added up in another order elsewhere."""
    if isinstance(claimed, Mapping) and isinstance(found, Mapping):
        return claimed.keys() == found.keys() and all(_alike(claimed[key], found[key]) for key in found)
    if isinstance(claimed, int | float) and isinstance(found, float):
        if abs(claimed) > sys.float_info.max:  # a whole number that is no float
            return False
        return math.isclose(claimed, found, rel_tol=1e-9, abs_tol=1e-12)
    return type(claimed) is type(found) and claimed == found


def is_cut(plan: Plan, grouping: Partition) -> bool:
    """Whether all classes are the plan's own or, where these move, nodes of its tree."""
    if np.array_equal(grouping.class_of, np.arange(plan.n_classes)):
        return True
    if plan.moving is None or not isinstance(plan.classes, Boxes):
        return False
    try:
        plan.classes.tree.nodes_of(grouping)
    except ParameterError:
        return False
    return True


def _not_of_plan(name: str, found: str) -> FileError:
    return FileError(
        f"The release {name} does not follow the plan.",
        found=found,
        remedy="Do not rely on it, or give the plan that it was made with.",
    )


def _unreliable(problem: str, found: str) -> RefusedError:
    return RefusedError(problem, found=found, remedy="Do not rely on this release.")
