"""The manifest beside a release: what was published, under which plan, and what it cost.

It lets anybody check and link the release without asking the owner. It holds numbers about classes and
the words of the schema, and no value of a single person.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta

from elldelta._version import __version__
from elldelta.core.partition import merged_classes
from elldelta.core.utility import information_loss, spans_of_hulls
from elldelta.errors import ParameterError, counted
from elldelta.files import (
    MALFORMED,
    MisfitError,
    changed,
    fields_of,
    is_digest,
    read_json,
    record_from,
    seal,
    unseal,
)
from elldelta.plan.classes import (
    Boxes,
    Classes,
    Ranges,
    check_ranges,
    class_labels,
    classes_from_dict,
    grouping_of,
)
from elldelta.plan.closeness import ClosenessShown
from elldelta.release.content import diversities_by_column
from elldelta.release.weights import WeightsShown, describe_weights
from elldelta.schema.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elldelta.plan.plan import Plan
    from elldelta.release.publishable import Publishable

FORMAT_VERSION = 1
"""Version of the file; others are refused."""

KIND = "manifest"

SUMMARY = (
    "records", "classes_published", "classes_planned", "loss", "plan_kind", "moving", "leave_out", "ledger",
    "ell", "diversity", "plan_digest", "content_digest",
)  # fmt: skip
"""What is told about a release that was just made."""

_SOFTWARE = re.compile(r"elldelta [0-9][0-9A-Za-z.+-]{0,30}")

Natural = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0 + 1e-9)]


class Line(TypedDict):
    """The line of a ledger."""

    sequence: int
    hash: str
    owner: str


class Persons(TypedDict):
    """What only an owner can count."""

    persons: Natural
    records_repeated: Natural
    persons_per_class: Natural


class Updated(TypedDict, total=False):
    """What has changed since the last release; the first time nothing has, and there are no keys."""

    classes_changed: Natural
    classes_unchanged: Natural
    classes_waiting: Natural
    classes_withheld: Natural
    longest_wait: Natural
    records_joined: Natural
    records_left: Natural
    records_waiting: Natural
    records_lingering: Natural
    records_moved: Natural
    records_returned: Natural


class Moved(TypedDict):
    """How classes moved up the tree of the plan; not which of them did so by chance, nor how many."""

    announced: str
    merge_risk: Share
    rho: Share
    q: Share
    k1: float
    odds_upper: float
    classes_planned: Natural
    classes_together: Natural


class Records(TypedDict):
    """What became of records: read and lingering are released, left out for a reason, and repeated."""

    read: int
    lingering: int
    released: int
    left_out: dict[str, int]
    repeated: int


class ColumnShown(TypedDict):
    """What is promised of a further sensitive column, and shown of it."""

    column: str
    ell: int
    diversity: int | None
    closeness: ClosenessShown | None


TERMS = ("delta", "releases", "failure_upper", "min_records", "k", "seen")
"""What a manifest repeats of its plan."""


@dataclass(frozen=True, eq=False)
class Manifest:
    """What a release says about itself.

    Attributes:
        schema: The columns of the release.
        classes: The published classes.
        software: Name and version of what wrote the release.
        plan_digest: The plan it follows.
        content_digest: Digest of the counts by (class, sensitive value), which are the whole content.
        ell: Diversity promised after linkage.
        delta: The chance that a release of the plan's size is refused.
        releases: How many releases the promise is for.
        failure_upper: Bound on the failure after linkage of that many.
        records_read: Records in the owner's table.
        records_released: Rows of the release.
        records_suppressed: Records left out because a value is missing.
        records_quarantined: Records left out because a value lies outside its domain.
        records_left_out: Records of classes that were not published.
        classes_published: Classes with at least one record.
        diversity: Diversity of the release by itself: the fewest values in any class.
        plan_kind: "certified", "probabilistic" or "paper", as in the plan.
        min_records: Records with which a witness counts as present.
        k: The fewest records of a class.
        moving: Where classes move: the chances, the announced name, the largest factor by which the choice of
            classes can change the odds of two tables that differ inside one class, and how many planned
            classes are published together with others. None where classes are fixed.
        leave_out: Whether classes that do not pass are left out.
        seen: The range of every quasi-identifier in which nearly all past records lie, as in the plan.
        loss: How much information is lost: the mean over all records of the share of these ranges that labels
            span; a record that is left out counts 1. None where there is no record.
        ledger: The line of the ledger that admitted the release, or None.
        nulls: Missing values per column.
        unknown: Values outside the domain, per column.
        persons: Where persons were counted, which only the owner can: how many persons the release shows, how
            many records repeat what others say of the same person, and the fewest persons of a class. None
            where records were counted.
        closeness: Where the plan promises closeness: the limit, what one release may use of it, and how far
            its classes are from the plan's references. None otherwise.
        update: Where the table is published again and again: numbers of classes and records that have
            changed, stayed, wait or are withheld, and what is assumed of who comes and goes. Otherwise None.
        also: Further sensitive columns: the name, the diversity that is promised, that of the release, and
            the same of closeness.
        weights: Where the schema names a column of weights: the steps of total weights, the fewest records
            that share a mean, whether a mean belongs to a value or to a class, and the digest of all steps.
    """

    schema: Schema
    classes: Classes
    software: str
    plan_digest: str
    content_digest: str
    ell: int
    delta: float | None
    releases: int
    failure_upper: float
    records_read: int
    records_released: int
    records_suppressed: int
    records_quarantined: int
    records_left_out: int
    classes_published: int
    diversity: int | None
    plan_kind: str
    min_records: int
    k: int
    moving: Moved | None
    leave_out: bool
    seen: Ranges
    loss: Share | None
    ledger: Line | None
    nulls: Mapping[str, int]
    unknown: Mapping[str, int]
    persons: Persons | None = None
    closeness: ClosenessShown | None = None
    update: Updated | None = None
    also: tuple[ColumnShown, ...] = ()
    weights: WeightsShown | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.schema.also_sensitive]
        if (
            [shown["column"] for shown in self.also] != names
            or (self.update and self.update.keys() != Updated.__annotations__.keys())
            or not (self.ledger is None or is_digest(self.ledger["hash"]))
            or not (self.weights is None or is_digest(self.weights["digest"]))
        ):
            raise ParameterError("A manifest contradicts itself.")
        check_ranges(self.seen, self.schema)

    @property
    def records(self) -> Records:
        """What became of the records, as one account that adds up."""
        return {
            "read": self.records_read,
            "lingering": 0 if self.update is None else self.update.get("records_lingering", 0),
            "released": self.records_released,
            "left_out": {
                "missing": self.records_suppressed,
                "outside": self.records_quarantined,
                "unpublished": self.records_left_out,
            },
            "repeated": 0 if self.persons is None else self.persons["records_repeated"],
        }

    @property
    def records_lost(self) -> int:
        """Records that the release does not show, for whatever reason; not those that repeat one."""
        return sum(self.records["left_out"].values())

    @property
    def classes_planned(self) -> int:
        """The classes of the plan."""
        return grouping_of(self.classes).n_quasi_identifiers

    @property
    def has_closeness(self) -> bool:
        """Whether closeness of a sensitive column is promised."""
        return any([self.closeness, *(unit["closeness"] for unit in self.also)])

    def for_column(self, index: int) -> Manifest:
        """What it says of one of several sensitive columns."""
        schema = self.schema.for_column(index)
        if index == 0:
            return replace(self, schema=schema, also=(), weights=None)
        shown: dict[str, Any] = {**self.also[index - 1]}
        del shown["column"]
        return replace(self, schema=schema, also=(), weights=None, **shown)

    @cached_property
    def labels(self) -> list[tuple[str, ...]]:
        """What the release shows for each class."""
        return class_labels(self.schema, self.classes)

    @property
    def beside(self) -> str:
        """What its certificate, without a ledger, allows it to be linked with, as the end of a sentence."""
        if self.releases > 1:
            return f"beside {counted(self.releases - 1, 'other release')} of this plan"
        return "by itself, and beside others of this plan only where one ledger has admitted all of them"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What became of the records and what is promised, in words."""
        from elldelta.release.words import sentences_of

        return sentences_of(self)

    def to_dict(self) -> dict[str, Any]:
        """The manifest as plain JSON values, with its digest."""
        content = {
            **fields_of(self),
            "schema": self.schema.to_dict(),
            "classes": self.classes.to_dict(),
            "nulls": dict(self.nulls),
            "unknown": dict(self.unknown),
            "also": list(self.also),
            "seen": [list(ends) for ends in self.seen],
        }
        return seal(KIND, FORMAT_VERSION, content)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The manifest") -> Manifest:
        """Reads what `to_dict` wrote; refuses other versions and content that does not match its digest."""
        content = unseal(KIND, FORMAT_VERSION, document, source)
        try:
            schema = Schema.from_dict(content["schema"])
            classes = classes_from_dict(content["classes"], schema)
            manifest = record_from(cls, {**content, "schema": schema, "classes": classes})
        except MisfitError as problem:
            raise changed(source, problem.words) from None
        except MALFORMED:
            raise changed(source) from None
        if not _SOFTWARE.fullmatch(manifest.software):
            raise changed(source, "It does not say which elldelta has written it.")
        if manifest.to_dict()["digest"] != document["digest"]:
            raise changed(source, "It holds a key that is not known here, or is written in another way.")
        return manifest


def describe(
    plan: Plan,
    content: Publishable,
    *,
    ledger: Line | None = None,
    persons: Persons | None = None,
    update: Updated | None = None,
) -> Manifest:
    """The manifest of what is about to be published: what was checked and what becomes of the records.

    Args:
        plan: The plan.
        content: What is published.
        ledger: The line of the ledger that admits it.
        persons: Its persons, where a table is published again; by default as the content has them.
        update: What has changed since the last release of such a table.
    """
    account = content.accounting
    # Who has left a table that is published again may still be shown: these are no part of what was read.
    lingering = (update or {}).get("records_lingering", 0)
    left_out = account.n_counted + lingering - content.n_records
    lost = account.n_suppressed + account.n_quarantined + left_out
    made = recomputed(plan, content.classes, content.counts, content.digest, lost)
    return replace(
        made,
        software=f"elldelta {__version__}",
        records_read=account.n_read,
        records_suppressed=account.n_suppressed,
        records_quarantined=account.n_quarantined,
        records_left_out=left_out,
        moving=moved(plan, content.classes, content.announced or ""),
        leave_out=content.leaves_out,
        ledger=ledger,
        nulls=account.nulls,
        unknown=account.unknown,
        persons=_persons(content) if persons is None else persons,
        update=update,
        weights=describe_weights(plan.schema, content.weights, has_closeness=made.has_closeness),
    )


def _persons(content: Publishable) -> Persons | None:
    if content.n_persons is None or content.persons_lower is None:
        return None
    shown = content.persons_lower[content.counts.any(axis=1)]
    return {
        "persons": content.n_persons,
        "records_repeated": content.accounting.n_repeated,
        "persons_per_class": int(shown.min()) if shown.size else 0,
    }


def recomputed(
    plan: Plan, classes: Classes, counts: NDArray[np.int64], content_digest: str, n_left_out: int = 0
) -> Manifest:
    """A manifest of counts with what follows from them and the plan, and nothing that only an owner knows."""
    n_records = int(plan.schema.by_column(counts)[0].sum())
    near = closeness_shown(plan, classes, counts)
    hulls = plan.hulls if classes is plan.classes else classes.hulls(plan.schema)
    diversities = diversities_by_column(plan.schema, counts)
    first, *others = ([int(n) for n in found[found > 0]] for found in diversities)
    return Manifest(
        schema=plan.schema,
        classes=classes,
        software="",
        plan_digest=plan.digest,
        plan_kind=plan.kind,
        content_digest=content_digest,
        records_read=n_records,
        records_released=n_records,
        records_suppressed=0,
        records_quarantined=0,
        records_left_out=0,
        classes_published=len(first),
        diversity=min(first, default=None),
        moving=moved(plan, classes, ""),
        leave_out=False,
        ell=plan.columns[0].ell,
        loss=loss_of(plan.schema, hulls, counts, plan.seen, n_left_out),
        ledger=None,
        nulls={},
        unknown={},
        closeness=near[0],
        also=tuple(
            {
                "column": name,
                "ell": column.ell,
                "diversity": min(shown, default=None),
                "closeness": distance,
            }
            for name, column, shown, distance in zip(
                plan.schema.sensitive_names[1:], plan.columns[1:], others, near[1:], strict=True
            )
        ),
        **{name: getattr(plan, name) for name in TERMS},
    )


def moved(plan: Plan, classes: Classes, announced: str) -> Moved | None:
    """How classes moved, from the plan and what is published; None where they are fixed."""
    if plan.moving is None or not isinstance(plan.classes, Boxes):
        return None
    tree, grouping, moving = plan.classes.tree, grouping_of(classes), plan.moving
    nodes = tree.nodes_of(grouping)
    steps = [(int(tree.steps_to_leaf[node]), node == 0) for node in nodes.tolist()]
    return {
        "announced": announced,
        "merge_risk": moving.merge_risk,
        "rho": moving.rho,
        "q": moving.q,
        "k1": moving.k1,
        "odds_upper": max(moving.odds_upper(up, is_root=is_root) for up, is_root in steps),
        "classes_planned": plan.n_classes,
        "classes_together": sum(map(len, merged_classes(grouping))),
    }


def closeness_shown(plan: Plan, classes: Classes, counts: NDArray[np.int64]) -> list[ClosenessShown | None]:
    """How far published classes are from what the plan says of every column; None: it promises none."""
    tables = plan.schema.by_column(counts)
    return [
        None
        if column.closeness is None
        else column.closeness.shown(table, grouping_of(classes), plan.releases)
        for column, table in zip(plan.columns, tables, strict=True)
    ]


def loss_of(
    schema: Schema,
    hulls: tuple[NDArray[np.int64], NDArray[np.int64]],
    counts: NDArray[np.int64],
    seen: Ranges,
    n_left_out: int = 0,
) -> float | None:
    """How much information a release loses, from what it shows and how many records it leaves out."""
    records = schema.by_column(counts)[0].sum(axis=1)
    return information_loss(records, spans_of_hulls(*hulls, seen), n_left_out)


def manifest_path(release: Path) -> Path:
    """Where the manifest of a release lies: beside it, with `.manifest.json` added to its name."""
    release = Path(release)
    return release.with_name(release.name + ".manifest.json")


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest; refuses other files, other versions and edited ones."""
    return Manifest.from_dict(read_json(path, KIND), source=f"The manifest {path}")
