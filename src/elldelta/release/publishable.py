"""What of an owner's table may be published under a plan: count, choose classes, certify.

Under a plan with fixed classes nothing about the classes depends on anybody's values: all of them are
published as planned, or nothing is. Under a plan whose classes move they climb its tree, some by chance
(Theorem K, `elldelta.core.moving`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import LATER
from elldelta.core.closeness import values_lower
from elldelta.core.moving import decoy_heights, move_up
from elldelta.core.partition import Partition
from elldelta.core.several import certify, certify_shown
from elldelta.errors import InternalError, ParameterError, RefusedError
from elldelta.plan.classes import Boxes, Classes, Merged, class_labels
from elldelta.release.content import content_digest, diversities_by_column, released_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from elldelta.core.box_tree import BoxTree
    from elldelta.core.several import AnyCertificate, AnyState
    from elldelta.model import Counts
    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema

LEFT_OUT = -1
"""The class number of a combination whose records are not released."""

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
class Publishable:
    """What may be published of an owner's records.

    Attributes:
        records: The owner's records, counted.
        class_of: The published class of each combination that occurs, or `LEFT_OUT`.
        classes: The published classes: the plan's, or nodes of its tree.
        labels: What the release shows for each of them, one label per quasi-identifier. No two classes may
            have the same labels: a reader could not tell them apart.
        checked: The certificate of what is published; None for a probabilistic plan.
        announced: The name under which it was announced, where classes move.
        leaves_out: Whether classes that do not pass are left out.
    """

    records: Counts
    class_of: NDArray[np.int64]
    classes: Classes
    labels: Sequence[tuple[str, ...]]
    checked: AnyCertificate | None = None
    announced: str | None = None
    leaves_out: bool = False

    def __post_init__(self) -> None:
        class_of = np.array(self.class_of, dtype=np.int64, copy=True)
        class_of.setflags(write=False)
        object.__setattr__(self, "class_of", class_of)
        object.__setattr__(self, "labels", tuple(map(tuple, self.labels)))
        n_classes, n_columns = len(self.labels), len(self.schema.names)
        if class_of.shape != self.records.ranks.shape:
            raise ParameterError(
                "The classes do not cover the combinations of the table.",
                found=f"{self.records.n_combinations} occur, {class_of.size} have a class.",
            )
        if class_of.size and not LEFT_OUT <= class_of.min() <= class_of.max() < n_classes:
            raise ParameterError(
                f"Class numbers run from 0 to {n_classes - 1}, or are {LEFT_OUT} for records left out.",
                found=f"They run from {class_of.min()} to {class_of.max()}.",
            )
        if len(set(self.labels)) < n_classes or any(len(labels) != n_columns for labels in self.labels):
            raise ParameterError(
                f"Every class needs labels of its own, one for each of {n_columns} quasi-identifiers.",
                found=f"{n_classes} classes have {len(set(self.labels))} different sets of labels.",
            )

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.records.schema

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Records by published class and sensitive value; none where records are left out."""
        return self.records.by_class(self.class_of, len(self.labels))

    @property
    def n_records(self) -> int:
        """The number of records that are released."""
        return int(self.schema.by_column(self.counts)[0].sum())

    @cached_property
    def persons_lower(self) -> NDArray[np.int64] | None:
        """At least so many persons are in each published class; None if records were counted.

        Those who are counted in one class only, or all who share a value, whichever are more.
        """
        if self.records.persons is None:
            return None
        shown = self.class_of >= 0
        once = np.bincount(self.class_of[shown], self.records.persons[shown], minlength=len(self.labels))
        lower: NDArray[np.int64] = np.maximum(once.astype(np.int64), self.counts.max(axis=1, initial=0))
        return lower

    @property
    def certificate(self) -> AnyCertificate:
        """The certificate of what is published."""
        if self.checked is None:
            raise InternalError("A probabilistic release has no certificate.")
        return self.checked

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
    state: AnyState | None = None,
) -> Publishable:
    """Decides what may be published; nothing has been written yet.

    Whether a ledger admits a release with fixed classes is for the ledger to say. Where classes move or are
    left out, they do so until they pass the plan's certificate and fit what the ledger has left.

    Args:
        counts: The owner's records.
        plan: The plan.
        leave_out: Whether classes that do not pass are left out; only where classes are fixed.
        coins: What decoys come from; needed where classes move.
        state: What the releases of a ledger have left, if a ledger must admit this one.

    Raises:
        RefusedError: Too few records, or the table does not pass.
    """
    check_choice(plan, leave_out=leave_out, has_coins=coins is not None)
    if not plan.is_certified:
        return _require_persons(_as_planned(counts, plan), plan)
    if plan.moving is not None and coins is not None:
        tree = tree_of(plan)
        heights = decoy_heights(plan.moving, coins.secret, plan.digest, coins.announced, tree.n_leaves)
        grouping = move_up(tree, heights, _passing(counts, plan, state))
        return _checked(counts, plan, grouping, announced=coins.announced)
    _require_records(counts, plan)
    alone = Partition(np.arange(plan.n_classes))
    fails = ~_passing(counts, plan, state)(alone) if leave_out else None
    return _require_persons(_checked(counts, plan, alone, fails), plan)


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


def republished(counts: Counts, plan: Plan) -> Publishable:
    """A table whose classes were decided upon one by one; refuses it if one of them does not pass."""
    return _checked(counts, plan, Partition(np.arange(plan.n_classes)))


def tree_of(plan: Plan) -> BoxTree:
    """The tree of cuts of a certified plan."""
    if not isinstance(plan.classes, Boxes):
        raise InternalError("A certified plan has boxes.")
    return plan.classes.tree


def _passing(counts: Counts, plan: Plan, state: AnyState | None) -> Callable[[Partition], NDArray[np.bool_]]:
    """Says of published classes whether they pass: by the plan, and by what a ledger has left."""
    table = _by_plan(counts, plan)
    asked = [plan.all_terms, *([] if state is None else [state.terms_left()])]

    def passes(grouping: Partition) -> NDArray[np.bool_]:
        fails = [certify(table, terms, grouping).failing_groups for terms in asked]
        passing: NDArray[np.bool_] = ~np.any(fails, axis=0)
        return passing

    return passes


def _by_plan(counts: Counts, plan: Plan) -> NDArray[np.int64]:
    return counts.by_class(plan.class_of(counts.ranks), plan.n_classes)


def _checked(
    counts: Counts,
    plan: Plan,
    grouping: Partition,
    left_out: NDArray[np.bool_] | None = None,
    announced: str | None = None,
) -> Publishable:
    """These classes with their certificate, or a refusal."""
    verdict = certify(_by_plan(counts, plan), plan.all_terms, grouping, left_out)
    if not verdict.is_certified:
        could = f"linked with others it could {verdict.broken_promise}"
        raise _refused(f"The release does not pass the certificate of its plan: {could}.", plan, verdict)
    if not verdict.n_published:
        raise RefusedError(
            "Nothing would be left to release.",
            found=f"None of {counts.n_records} records is in a class that passes the certificate.",
            remedy=LATER,
        )
    # Without a move every class keeps its number, so that plan and release speak of the same ones.
    is_whole = grouping.n_classes == plan.n_classes
    classes: Classes = plan.classes if is_whole else Merged(plan.classes, grouping.class_of)
    numbers = np.where(verdict.suppressed[grouping.class_of], LEFT_OUT, grouping.class_of)
    return Publishable(
        counts,
        numbers[plan.class_of(counts.ranks)],
        classes,
        class_labels(plan.schema, classes),
        verdict,
        announced,
        leaves_out=left_out is not None,
    )


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
            f"Every class needs {least} persons.",
            found=f"{int(few.sum())} of {int(shown.sum())} classes may have fewer; somebody with values "
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
    for face in plan.faces:
        if face.closeness is not None:
            near = values_lower(face.closeness.shares, face.closeness.limit / face.releases)
            least = max(least, 2, int(near.min()))
    return least


def _as_planned(counts: Counts, plan: Plan) -> Publishable:
    """A probabilistic plan: N records, and every class must show ell values, or nothing is published."""
    _require_records(counts, plan)
    made = Publishable(counts, plan.class_of(counts.ranks), plan.classes, plan.labels)
    shown = np.array(diversities_by_column(made.schema, made.counts))
    n_below = int(((shown > 0) & (shown < np.array(plan.ells)[:, None])).any(axis=0).sum())
    verdict = certify_shown(made.counts, plan.all_terms, Partition(np.arange(plan.n_classes)))
    if n_below or verdict.too_far.any() or verdict.too_small.any():
        raise _refused("The release would not keep what its plan promises.", plan, verdict, n_below)
    return made


def _refused(problem: str, plan: Plan, verdict: AnyCertificate, n_below: int | None = None) -> RefusedError:
    """The refusal of a table that does not pass: how many classes fail, not which.

    It offers no quick way out: any would tell that this attempt failed.
    """
    n_below = int(verdict.misses_too_many.sum()) if n_below is None else n_below
    n_far, n_small = int(verdict.too_far.sum()), int(verdict.too_small.sum())
    said = [
        *([f"{n_below:,} show too few values"] if n_below else []),
        *([f"{n_far:,} are too far from their references"] if n_far else []),
        *([f"{n_small:,} hold fewer than {plan.k} records"] if n_small else []),
    ]
    return RefusedError(problem, found=f"Of {plan.n_classes:,} classes {', '.join(said)}.", remedy=LATER)


def _require_records(counts: Counts, plan: Plan) -> None:
    if counts.n_records >= plan.records:
        return
    account = counts.accounting
    left_out = account.n_read - counts.n_records
    why = (
        f" Of {account.n_read} records {left_out} were left out: {account.n_suppressed} with a missing "
        f"value, {account.n_quarantined} with a value outside its domain."
    )
    raise RefusedError(
        f"The plan asks for {plan.records} records.",
        found=f"The table has {counts.n_records} that can be used; "
        f"{plan.records - counts.n_records} are missing.{why if left_out else ''}",
        remedy="Wait until there are enough, or ask for a plan for fewer records.",
    )
