"""Small plans and releases made by hand, and registrations of them; for tests about what an agency admits."""

import json
from dataclasses import replace

import numpy as np
from tests.planned import with_column
from tests.trees import tree_of

from elldelta.agency.admission import (
    AdmissionContext,
    Registered,
    check_registration,
    ledger_chain,
)
from elldelta.agency.linking import PlanReleases, as_published
from elldelta.agency.registration import Registration, validate_registration
from elldelta.core.moving import Moving
from elldelta.core.partition import Partition
from elldelta.core.witnesses import Witnesses
from elldelta.files import digest, seal
from elldelta.ledger import Cells, LedgerSnapshot, UpdateSummary, sealed_lines
from elldelta.plan.classes import Boxes, Merged, Runs, class_labels
from elldelta.plan.closeness import Closeness
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.failure import sharp_failures
from elldelta.plan.plan import Plan
from elldelta.release.content import content_digest
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

SIZES = (4, 3)
NONCE = "5e" * 32
SEAL = ("kind", "format", "digest")
DIAGONAL = (((0, 0), (1, 2)), ((2, 0), (3, 0)), ((2, 1), (2, 2)), ((3, 1), (3, 2)))
"""Four boxes that tile 4 x 3 positions."""

HALVES = (((0, 0), (1, 2)), ((2, 0), (3, 2)))
FIRST_AND_REST = (((0, 0), (0, 2)), ((1, 0), (3, 2)))
REGIONS = tuple(((0, place), (3, place)) for place in range(3))
SINGLE = tuple(((age, place), (age, place)) for age in range(4) for place in range(3))


def make_schema(n_values=6):
    return Schema(
        (Column("age", Integers(30, 33)), Column("region", Categories(("e", "n", "w")))),
        Column("disease", Categories(tuple(f"d{number}" for number in range(n_values)))),
    )


def make_plan(
    *,
    boxes=DIAGONAL,
    tree=None,
    witnesses=None,
    n_values=6,
    ell=2,
    releases=2,
    records=1_000,
    kind="certified",
    min_records=1,
    closeness=None,
    moves=False,
):
    """A plan with these classes, fixed or moving; every value is a witness unless told otherwise.

    Closeness is a limit and the reference of every class.
    """
    classes = Runs(np.array([0, 2, 5, 8])) if kind == "paper" else Boxes(tree or tree_of(boxes, SIZES))
    witnesses = witnesses if witnesses is not None else [list(range(n_values))] * classes.n_classes
    near = None
    if closeness is not None:
        limit, references = closeness
        near = Closeness(limit, "class", np.array(references), np.full(classes.n_classes, n_values))
    made = Plan(
        schema=make_schema(n_values),
        classes=classes,
        columns=(
            ColumnPlan(
                ell,
                0.02,
                None,
                Witnesses.of(witnesses),
                np.ones(sum(map(len, witnesses)), dtype=np.int64),
                classes.n_classes * n_values,
                near,
            ),
        ),
        delta=0.01,
        releases=releases,
        records=records,
        kind=kind,
        min_records=min_records,
        k=ell * min_records if kind == "certified" else 1,
        moving=Moving(0.1) if moves else None,
    )
    failure, worst = sharp_failures(made)
    if moves:
        made = replace(made, moving=Moving(max(0.1, min(0.999, 1.01 * worst))))
    delta = max(0.01, 1.01 * failure / releases)
    if max(failure, delta) >= 1.0:
        return made  # nobody could read it from a file
    return with_column(replace(made, delta=delta, promise="", conditions=()), failure_upper=failure)


def make_registration(plan, counts, group_of=None, update=None):
    """What an owner sends about counts, published class x value."""
    counts = np.asarray(counts, dtype=np.int64)
    grouping = Partition(np.arange(plan.n_classes) if group_of is None else np.asarray(group_of))
    classes = plan.classes if group_of is None else Merged(plan.classes, np.asarray(group_of))
    values = plan.schema.sensitive.released_values().to_pylist()
    content = content_digest(class_labels(plan.schema, classes), values, counts)
    return Registration.of(as_published(plan, grouping, counts, content, name="of a test"), update)


def make_update(plan, counts, state, before=None, group_of=None):
    """A table that is published again: the owner's state, and the counts and the state before it.

    Where there are more records than before, they have come; the others stayed.
    """
    counts = np.asarray(counts, dtype=np.int64)
    told = UpdateSummary(digest(state))
    if before is not None:
        old, since = before
        came, went = (Cells.of(np.maximum(more, 0)) for more in (counts - old, old - counts))
        told = UpdateSummary(digest(state), digest(since), came, went)
    return make_registration(plan, counts, group_of, told)


def full(plan, *missing, n=3):
    """Counts that show every value in every class, but for some (class, value)."""
    counts = np.full((plan.n_classes, plan.schema.n_values), n)
    for base, value in missing:
        counts[base, value] = 0
    return counts


class Agency:
    """An agency that keeps everything in memory, as a database would."""

    def __init__(self, *plans):
        self.entries = {plan.digest: [] for plan in plans}
        self.sent = {plan.digest: [] for plan in plans}
        self.plans = {plan.digest: plan for plan in plans}
        self.hidden = set()

    def register(self, plan, registration, owner):
        """What a server does: check, and store line and counts; everything travels as bytes."""
        registration = Registration.from_bytes(registration.to_bytes())
        examined = validate_registration(plan, registration, owner=owner)
        context = self.context(plan, examined, owner)
        admission = check_registration(examined, context, owner=owner, nonce=NONCE)
        if admission.is_new:
            self.entries[plan.digest].append(Registered(plan, owner, admission.line, examined.counts))
            self.sent[plan.digest].append(registration)
        return admission

    def context(self, plan, examined, owner):
        """What a decision must know, looked for in everything that is there."""
        other_plans = {
            digest: items for digest, items in self.entries.items() if digest != plan.digest and items
        }
        return context_of(plan, examined, owner, self.entries[plan.digest], other_plans.values(), self.hidden)

    def hide(self, owner):
        """What this owner registers is not published."""
        self.hidden.add(owner)

    def lines(self, plan):
        return [item.line for item in self.entries[plan.digest]]

    def pairs(self):
        """Plans and registrations as plain documents, for the oracle."""
        return [
            (plain(self.plans[digest]), plain(item)) for digest in self.entries for item in self.sent[digest]
        ]


def context_of(plan, examined, owner, entries, other_plans=(), hidden=()):
    """What deciding about a release must know, from all that is registered: no state is kept.

    What owners in `hidden` have registered is not published.
    """
    other_plans = [list(items) for items in other_plans]
    all_plans = [(plan, entries), *((items[0].plan, items) for items in other_plans)]
    own = [item for item in entries if item.owner == owner]
    others = [item for items in other_plans for item in items]
    digest = examined.content_digest
    lines, unseen = [item.line for item in entries], {*hidden} - {owner}
    numbers = {item.entry.sequence for item in entries if item.owner in unseen}
    chain = ledger_chain(plan, sealed_lines(lines, numbers))
    return AdmissionContext(
        plan=plan,
        ledger=LedgerSnapshot(
            chain.state(plan.promises),
            chain.n_lines,
            chain.head,
            next((item.entry for item in own if item.entry.content_digest == digest), None),
            own[-1].entry if own else None,
        ),
        is_living=chain.is_living,
        released=tuple(PlanReleases.of(*items) for items in all_plans) if other_plans else (),
        n_waiting=sum(item.owner in unseen for item in [*entries, *others]) if other_plans else 0,
        is_taken=any(
            item.owner not in {owner, *unseen} and item.entry.content_digest == digest
            for item in [*entries, *others]
        ),
        comparable=(
            *(item for item in others if item.owner == owner),
            *(item for item in entries if item.entry.merged != examined.merged and item.owner not in unseen),
        ),
        series=tuple(own[::-1]),
    )


def plain(thing):
    """A document as JSON reads it back."""
    return json.loads(json.dumps(thing.to_dict()))


def forged(registration, **changes):
    """A registration that somebody has changed and sealed again."""
    document = {key: value for key, value in plain(registration).items() if key not in SEAL}
    return seal("registration", 1, {**document, **changes})


def resealed(document):
    """The document with a digest that fits."""
    content = {key: value for key, value in document.items() if key != "digest"}
    return {**content, "digest": digest(content)}
