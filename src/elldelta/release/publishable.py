"""What of an owner's table may be published under a plan: count, choose classes, certify.

Under a plan with fixed classes nothing about the classes depends on anybody's values: all of them are
published as planned, or nothing is. Under a plan whose classes move they climb its tree, some by chance
(Theorem K, `elldelta.core.moving`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import certify
from elldelta.core.closeness import values_lower
from elldelta.core.distribution import frozen
from elldelta.core.moving import decoy_heights, move_up
from elldelta.core.partition import Partition
from elldelta.core.promises import LATER, Close, Shown
from elldelta.errors import InternalError, ParameterError, RefusedError, counted
from elldelta.plan.classes import Boxes, Classes, Merged, class_labels
from elldelta.release.content import content_digest, diversities_by_column, released_values
from elldelta.release.weights import weights_shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.box_tree import BoxTree
    from elldelta.core.certificate import Verdict
    from elldelta.core.promises import Promise
    from elldelta.core.weights import MeanWeights
    from elldelta.model import Accounting, Counts
    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema

MOST_ANNOUNCED_CHARACTERS = 200


@dataclass(frozen=True)
class Coins:
    """What the decoys of a release come from: known to its owner, and the same whenever it is made again.

    Attributes:
        secret: What only the owner knows.
        announced: The name under which the release was announced, before anybody looked at its table.
    """

    secret: bytes = field(repr=False)
    announced: str

    def __post_init__(self) -> None:
        name = self.announced
        if not 0 < len(name) <= MOST_ANNOUNCED_CHARACTERS or not name.isprintable() or name != name.strip():
            raise ParameterError(
                f"The announced name of a release has 1 to {MOST_ANNOUNCED_CHARACTERS} printable characters.",
                found="It is empty or too long, holds control characters, or has spaces around it.",
            )


@dataclass(frozen=True, eq=False)
class RecordsByClass:
    """An owner's records by the classes of a plan: all that a release is made from.

    Attributes:
        counts: Records by planned class and sensitive value.
        accounting: What became of every record of the owner's table.
        persons: Per planned class how many persons are counted there, each in one class; None where records
            are counted.
        weights: Their weights by planned class and sensitive value, added up; None if there are none.
    """

    counts: NDArray[np.int64]
    accounting: Accounting
    persons: NDArray[np.int64] | None = None
    weights: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, counts: Counts, plan: Plan) -> RecordsByClass:
        """Adds up the combinations of every class."""
        class_of = plan.class_of(counts.ranks)
        persons = None
        if counts.persons is not None:
            persons = np.bincount(class_of, counts.persons, minlength=plan.n_classes).astype(np.int64)
        weights = counts.weights_by_class(class_of, plan.n_classes)
        return cls(counts.by_class(class_of, plan.n_classes), counts.accounting, persons, weights)


@dataclass(frozen=True, eq=False)
class Publishable:
    """What may be published: classes, and how often every sensitive value occurs in each.

    Attributes:
        schema: What the columns mean.
        classes: The published classes: the plan's, or nodes of its tree.
        labels: What the release shows for each of them, one label per quasi-identifier. No two classes may
            have the same labels: a reader could not tell them apart.
        counts: Records by published class and sensitive value; none where records are left out.
        accounting: What became of every record of the owner's table.
        verdict: Which promises of the plan that keeps; None for a probabilistic plan.
        n_persons: How many persons are in published classes; None where records are counted.
        persons_lower: At least so many persons are in each published class: those who are counted in one
            class only, or all who share a value, whichever are more.
        announced: The name under which it was announced, where classes move.
        leaves_out: Whether classes that do not pass are left out.
        weights: The mean weights that are shown beside the rows, if the schema names a column of weights.
    """

    schema: Schema
    classes: Classes
    labels: Sequence[tuple[str, ...]]
    counts: NDArray[np.int64]
    accounting: Accounting
    verdict: Verdict | None = None
    n_persons: int | None = None
    persons_lower: NDArray[np.int64] | None = None
    announced: str | None = None
    leaves_out: bool = False
    weights: MeanWeights | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", frozen(self.counts, np.int64, copy=True))
        object.__setattr__(self, "labels", tuple(map(tuple, self.labels)))
        n_classes, n_columns = len(self.labels), len(self.schema.names)
        if len(set(self.labels)) < n_classes or set(map(len, self.labels)) - {n_columns}:
            raise ParameterError(
                f"Every class needs labels of its own, one for each of {n_columns} quasi-identifiers.",
                found=f"{counted(n_classes, 'class has', 'classes have')} {len(set(self.labels))} "
                "different sets of labels.",
            )
        if self.counts.shape != (n_classes, self.schema.n_values):
            raise ParameterError(
                f"{counted(n_classes, 'class', 'classes')} and "
                f"{counted(self.schema.n_values, 'sensitive value')} are counted.",
                found=f"The table of counts has the shape {self.counts.shape}.",
            )

    @property
    def certificate(self) -> Verdict:
        """The verdict on what is published."""
        if self.verdict is None:
            raise InternalError("A probabilistic release has no certificate.")
        return self.verdict

    @property
    def n_records(self) -> int:
        """The number of records that are released."""
        return int(self.schema.by_column(self.counts)[0].sum())

    @cached_property
    def digest(self) -> str:
        """The digest of the content, by which manifest and ledger know it."""
        return content_digest(self.labels, released_values(self.schema), self.counts)


def publishable(
    counts: Counts,
    plan: Plan,
    *,
    leave_out: bool = False,
    coins: Coins | None = None,
    promises_left: Sequence[Promise] = (),
) -> Publishable:
    """Decides what may be published; nothing has been written yet.

    Whether a ledger admits a release with fixed classes is for the ledger to say. Where classes move or are
    left out, they do so until they pass the plan's certificate and fit what the ledger has left.

    Args:
        counts: The owner's records.
        plan: The plan.
        leave_out: Whether classes that do not pass are left out; only where classes are fixed.
        coins: What decoys come from; needed where classes move.
        promises_left: What the releases of a ledger have left, if a ledger must admit this one.

    Raises:
        RefusedError: Too few records, or the table does not pass.
    """
    check_choice(plan, leave_out=leave_out, has_coins=coins is not None)
    records = RecordsByClass.of(counts, plan)
    if not plan.is_certified:
        return _require_persons(_as_planned(records, plan), plan)
    passes = partial(_passes, records.counts, (*plan.promises, *promises_left))
    if plan.moving is not None and coins is not None:
        tree = tree_of(plan)
        heights = decoy_heights(plan.moving, coins.secret, plan.digest, coins.announced, tree.n_leaves)
        return certified(records, plan, move_up(tree, heights, passes), announced=coins.announced)
    _require_records(records.accounting, plan)
    alone = Partition(np.arange(plan.n_classes))
    left_out = ~passes(alone) if leave_out else None
    return _require_persons(certified(records, plan, alone, left_out), plan)


def check_choice(plan: Plan, *, leave_out: bool, has_coins: bool) -> None:
    """Refuses choices that the plan does not leave to a release, or that are missing."""
    if leave_out and not (plan.is_certified and plan.moving is None):
        raise ParameterError(
            "Classes are left out under certified plans with fixed classes only.",
            found=f"The plan is {plan.kind}." if not plan.is_certified else "Its classes move up a tree.",
            remedy="Let no class be left out.",
            parameter="leave_out",
        )
    if has_coins == (plan.moving is not None):
        return
    raise ParameterError(
        "A key and an announced name are for plans whose classes move, and these need both.",
        found="The plan's classes are fixed." if plan.moving is None else "The plan's classes move.",
        remedy="Leave both out."
        if plan.moving is None
        else "Give the owner's private key, as 'elldelta signature key' makes it, and the name under which "
        "the release was announced.",
        parameter=("key", "announced"),
    )


def tree_of(plan: Plan) -> BoxTree:
    """The tree of cuts of a certified plan."""
    if not isinstance(plan.classes, Boxes):
        raise InternalError("A certified plan has boxes.")
    return plan.classes.tree


def _passes(counts: NDArray[np.int64], promises: Sequence[Promise], grouping: Partition) -> NDArray[np.bool_]:
    """Which published classes pass: by the plan, and by what a ledger has left."""
    passing: NDArray[np.bool_] = ~certify(promises, Shown.of(counts, grouping)).failing_groups
    return passing


def certified(
    records: RecordsByClass,
    plan: Plan,
    grouping: Partition,
    left_out: NDArray[np.bool_] | None = None,
    announced: str | None = None,
) -> Publishable:
    """These classes with their certificate, or a refusal.

    Args:
        records: The owner's records.
        plan: The plan.
        grouping: The published class of every planned class.
        left_out: Published classes that are left out, one bool each.
        announced: The name under which the release was announced, where classes move.
    """
    shown = Shown.of(records.counts, grouping, left_out)
    verdict = certify(plan.promises, shown)
    if not verdict.is_certified:
        raise _refused("The release does not pass the certificate of its plan.", verdict.reasons)
    if not shown.n_published:
        raise RefusedError(
            "Nothing would be left to release.",
            found=f"None of {counted(records.accounting.n_counted, 'record')} is in a class that passes the "
            "certificate.",
            remedy=LATER,
        )
    # Without a move every class keeps its number, so that plan and release speak of the same ones.
    is_whole = grouping.n_classes == plan.n_classes
    classes: Classes = plan.classes if is_whole else Merged(plan.classes, grouping.class_of)
    made = Publishable(
        plan.schema,
        classes,
        plan.labels if is_whole else class_labels(plan.schema, classes),
        shown.counts,
        records.accounting,
        verdict,
        announced=announced,
        leaves_out=left_out is not None,
    )
    return _completed(made, records, plan, shown)


def _completed(made: Publishable, records: RecordsByClass, plan: Plan, shown: Shown) -> Publishable:
    """The same with its mean weights, and its persons where those of every planned class were counted."""
    persons, units = records.persons, records.weights
    if units is not None and plan.schema.weight is not None:
        together = np.zeros_like(made.counts)
        np.add.at(together, shown.grouping.class_of, units)
        made = replace(made, weights=weights_shown(plan, made.counts, together))
    if persons is None:
        return made
    grouping = shown.grouping
    once = np.bincount(grouping.class_of, persons, minlength=grouping.n_classes).astype(np.int64)
    once[shown.left_out] = 0
    lower = np.maximum(once, made.counts.max(axis=1, initial=0))
    return replace(made, n_persons=int(once.sum()), persons_lower=frozen(lower, np.int64))


def _require_persons(made: Publishable, plan: Plan) -> Publishable:
    """Refuses classes of fewer persons than a table of one record each would have there.

    There ell witnesses with r records each are ell r persons. Where people have several records, all values
    of a class may be those of one person.
    """
    if made.persons_lower is None:
        return made
    least, shown = fewest_persons(plan), made.counts.any(axis=1)
    few = shown & (made.persons_lower < least)
    if few.any():
        raise RefusedError(
            f"Every class needs {counted(least, 'person')}.",
            found=f"{int(few.sum())} of {counted(int(shown.sum()), 'class', 'classes')} may have "
            "fewer; somebody with values "
            "in several classes counts in one of them.",
            remedy=LATER,
        )
    return made


def fewest_persons(plan: Plan) -> int:
    """How many persons every published class has to have, where persons are counted.

    As many as a table of one record each would have: a witness is one person's, and shares that are close to
    their references show some number of values.
    """
    least = max(plan.k, max(plan.ells) * plan.min_records)
    for promise in plan.promises:
        if isinstance(promise, Close):
            near = values_lower(promise.shares, float(promise.allowed))
            least = max(least, 2, int(near.min()))
    return least


def _as_planned(records: RecordsByClass, plan: Plan) -> Publishable:
    """A probabilistic plan: N records, and every class must show ell values, or nothing is published."""
    _require_records(records.accounting, plan)
    made = Publishable(plan.schema, plan.classes, plan.labels, records.counts, records.accounting)
    diversities = diversities_by_column(made.schema, made.counts)
    classes = counted(plan.n_classes, "class", "classes")
    below = [
        f"Fewer than {counted(ell, 'value')} of {name!r} in {n_below:,} of {classes}."
        for name, ell, found in zip(plan.schema.sensitive_names, plan.ells, diversities, strict=True)
        if (n_below := int(((found > 0) & (found < ell)).sum()))
    ]
    shown = Shown.of(records.counts)
    reasons = (*below, *certify(plan.promises, shown).about(plan.checked_promises).reasons)
    if reasons:
        raise _refused("The release would not keep what its plan promises.", reasons)
    return _completed(made, records, plan, shown)


def _refused(problem: str, reasons: Sequence[str]) -> RefusedError:
    """The refusal of a table that does not pass: how many classes fail, not which.

    It offers no quick way out: any would tell that this attempt failed.
    """
    return RefusedError(problem, found=" ".join(reasons), remedy=LATER)


def _require_records(account: Accounting, plan: Plan) -> None:
    if account.n_counted >= plan.records:
        return
    left_out = account.n_read - account.n_counted
    why = (
        f" Of {counted(account.n_read, 'record')} {counted(left_out, 'was', 'were')} left out: "
        f"{account.n_suppressed:,} with a missing value, {account.n_quarantined:,} with a value outside its "
        "domain."
    )
    raise RefusedError(
        f"The plan asks for {counted(plan.records, 'record')}.",
        found=f"The table has {account.n_counted:,} that can be used; "
        f"{counted(plan.records - account.n_counted, 'is', 'are')} missing.{why if left_out else ''}",
        remedy="Wait until there are enough, or ask for a plan for fewer records.",
    )
