"""Use case: whether a release may join those that were admitted before; what only the agency can know.

Nothing here reads a file, a clock or a database. Whoever keeps the ledger calls `check_registration` while
nobody else can add a line, and stores `Admission.line` and the counts.

A decision looks at the plan's ledger, whose state is a reduce over its lines; and, where a population has
releases of several plans, at what these releases show (`PlanReleases`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from elldelta.agency.linking import PlanReleases, as_published, check_linkage
from elldelta.audit.overlay import Overlay
from elldelta.audit.subtraction import SubtractedPair, Subtraction
from elldelta.core.certificate import certify
from elldelta.core.differencing import isolate
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.partition import grouping_from_merged
from elldelta.core.promises import LATER, Shown
from elldelta.errors import FileError, RefusedError, counted
from elldelta.files import digest
from elldelta.ledger import (
    Admission,
    LedgerEntry,
    LedgerHeader,
    LedgerSnapshot,
    LedgerTotals,
    SealedLine,
    VoidLine,
    admit,
    check_owner,
    check_plan,
    damaged,
    first_line,
    parse_chain,
    parse_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from elldelta.agency.registration import ValidatedRelease
    from elldelta.core.certificate import Verdict
    from elldelta.core.differencing import Isolated
    from elldelta.core.ledger_state import LedgerState
    from elldelta.core.partition import Partition
    from elldelta.ledger import LedgerChain, Revision
    from elldelta.plan.plan import Plan
    from elldelta.release import Published

_LEDGER = "The agency's ledger"


class LedgerDamagedError(FileError):
    """What the agency has stored is not what it was. Nothing can be admitted until it is restored."""


@dataclass(frozen=True, eq=False)
class Registered:
    """A release that was admitted before. Worth keeping in memory: it is understood once.

    Attributes:
        plan: The plan it follows.
        owner: Who registered it.
        line: Its line of the plan's ledger, with the newline.
        counts: What its published classes show, classes x values; numbered by their first base class.
    """

    plan: Plan
    owner: str
    line: bytes
    counts: NDArray[np.int64]

    @cached_property
    def entry(self) -> LedgerEntry:
        """What its line says.

        Raises:
            LedgerDamagedError: The line is not intact, or is that of another owner.
        """
        entry = read_entry(self.plan, self.line)
        if entry.owner != self.owner:
            raise _not_what_it_was("A line does not belong to the registration that is stored with it.")
        return entry

    @property
    def grouping(self) -> Partition:
        """The published class of every planned class."""
        return grouping_from_merged(self.entry.merged, self.plan.n_classes)

    @cached_property
    def published(self) -> Published:
        """What it shows.

        Raises:
            LedgerDamagedError: Its counts are no longer those that were registered.
        """
        content_digest, grouping = self.entry.content_digest, self.grouping
        if self.counts.shape == (grouping.n_classes, self.plan.schema.n_values):
            published = as_published(
                self.plan, grouping, self.counts, content_digest, name=f"of {self.owner}"
            )
            if published.digest == content_digest:
                return published
        raise _not_what_it_was("The counts do not have the digest that the line names.")


@dataclass(frozen=True, eq=False)
class AdmissionContext:
    """What a decision about one release of one owner must know.

    Attributes:
        plan: The plan of the release.
        ledger: Its ledger as the owner may see it: what others have not published counts at its worst.
        is_living: Whether a table is published again under this plan.
        released: What every plan for these people has released, if there is more than one.
        n_waiting: Where there is more than one plan: how many releases of others are not published.
        is_taken: Whether another owner has published the same content, under any of these plans.
        comparable: Releases with other classes that may share people with this one: those of the owner under
            the other plans, and the published ones of everybody under this plan. Others nobody may see: a
            refusal because of one of these would tell its counts to whoever tries often enough.
        series: The last release of the owner under this plan, if there is one; and, if its table is published
            again, those before it as far as classes are withheld since.
    """

    plan: Plan
    ledger: LedgerSnapshot
    is_living: bool = False
    released: tuple[PlanReleases, ...] = ()
    n_waiting: int = 0
    is_taken: bool = False
    comparable: tuple[Registered, ...] = ()
    series: tuple[Registered, ...] = ()


class KnownLedger:
    """What a process knows of a plan's ledger: every line is read and checked once.

    Releases that are published are added up; the others are kept, so that each owner's own can be added and
    those of everybody else count at their worst. A release that is taken back was never added up.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        header = LedgerHeader.of(plan.digest, plan.promises)
        self.head = str(json.loads(first_line(header))["hash"])
        self.n_lines = 1
        self._waiting: dict[int, LedgerEntry] = {}
        self._published = LedgerTotals.none(header)
        self._has_series = False

    @property
    def waiting(self) -> tuple[int, ...]:
        """The lines of releases that are neither published nor taken back."""
        return tuple(self._waiting)

    def read(self, lines: Iterable[bytes]) -> None:
        """Adds the lines that follow.

        Raises:
            LedgerDamagedError: One does not follow the one before it, or is not intact.
        """
        for content in lines:
            line = _read_line(self._plan, content, self.head)
            if line.sequence != self.n_lines or isinstance(line, SealedLine):
                raise _not_what_it_was("A line is not the one that should stand there.")
            if isinstance(line, LedgerEntry):
                self._waiting[line.sequence] = line
            else:
                self._waiting.pop(line.voids, None)
            self.head, self.n_lines = line.hash, self.n_lines + 1

    def publish(self, numbers: Iterable[int]) -> None:
        """Adds up releases that are published."""
        for number in numbers:
            entry = self._waiting.pop(number)
            self._published = self._published.joined(entry)
            self._has_series |= entry.update is not None

    @property
    def is_living(self) -> bool:
        """Whether a table is published again."""
        return self._has_series or any(entry.update is not None for entry in self._waiting.values())

    def seen_by(
        self, owner: str, known: LedgerEntry | None = None, last: LedgerEntry | None = None
    ) -> LedgerSnapshot:
        """The ledger as an owner may see it, and two lines of its own."""
        others = [entry for entry in self._waiting.values() if entry.owner != owner]
        of_owner = (entry for entry in self._waiting.values() if entry.owner == owner)
        state = reduce(LedgerTotals.joined, of_owner, self._published).state(self._plan.promises)
        if others:
            is_update = any(one.update is not None and one.update.updates is not None for one in others)
            state = state.beside_unseen(len(others), with_updates=is_update)
        return LedgerSnapshot(state, self.n_lines, self.head, known, last)


def check_registration(
    release: ValidatedRelease, context: AdmissionContext, *, owner: str, nonce: str
) -> Admission:
    """Decides whether a release is admitted; changes nothing.

    In this order: the owner sends its own release; the plan's ledger has room for what it misses (Theorem F)
    and stays close to the references with it (Theorem G), and the owner keeps its classes; and linked with
    everything that is registered under other plans, exactly, it leaves everybody as many values as was
    promised, and shares as close. Under its own plan Theorems F and G say that.

    Nothing here depends on what others have registered and not published, but for how many releases that are:
    otherwise whoever is refused would find out their counts by trying.

    A certified plan admits any number of releases. A probabilistic plan is about t releases: the first t
    that miss no more than the plan allows one of them are admitted, and the next one is refused.

    Args:
        release: What the owner sent, as `validate_registration` has found it to follow the plan.
        context: What is registered, for this owner and this release.
        owner: The name of the owner, as the agency knows it; never from what was sent.
        nonce: Random: until the release is published others see the hash of its line and nothing else.

    Returns:
        The admission; with nothing to be added if the same owner has registered the same content before.

    Raises:
        RefusedError: It is not admitted; the error says why.
    """
    owner = check_owner(owner)
    plan, snapshot = context.plan, context.ledger
    if context.is_taken:
        raise taken()
    state, is_known = snapshot.state, snapshot.known is not None
    if not is_known:
        _check_number(plan, state.n_releases)
        _check_waiting(context.n_waiting)
    grouping, revision = grouping_from_merged(release.merged, plan.n_classes), release.revision
    if revision is not None and snapshot.known is not None:
        return _known_update(snapshot.known, revision, state)
    _check_one_plan(context, is_update=revision is not None)
    left_out = np.zeros(grouping.n_classes, dtype=np.bool_)
    if revision is not None:
        left_out[grouping.class_of[list(_withheld_by(release, context.series))]] = True
    verdict = certify(state.promises, Shown(release.counts, grouping, left_out))
    if not verdict.is_certified and not is_known:
        raise _not_certified(verdict)
    admission = admit(
        snapshot,
        verdict,
        owner=owner,
        content_digest=release.content_digest,
        revision=revision,
        nonce=nonce,
    )
    if admission.is_new and context.released:
        check_linkage(plan, grouping, release.counts, context.released)
    if admission.is_new and context.comparable:
        sent = as_published(plan, grouping, release.counts, release.content_digest, name="that was sent")
        check_subtraction(plan, sent, context.comparable, owner=owner)
    return admission


def taken() -> RefusedError:
    """The refusal of what another owner has published."""
    return RefusedError(
        "Another owner has published exactly this release.",
        found="Its content has the digest of a release that is published.",
        remedy="Register your own release. If it is yours, tell the agency that somebody else sent it.",
    )


def grouping_digest(merged: tuple[tuple[int, ...], ...]) -> str:
    """Names the classes that a release publishes under its plan."""
    return digest([list(members) for members in merged])


def read_entry(plan: Plan, line: bytes) -> LedgerEntry:
    """The release that a stored line is about.

    Raises:
        LedgerDamagedError: It is not intact, or about no release.
    """
    entry = _read_line(plan, line)
    if not isinstance(entry, LedgerEntry):
        raise _not_what_it_was("A line that should be about a release is not.")
    return entry


def ledger_chain(plan: Plan, lines: Iterable[bytes]) -> LedgerChain:
    """The ledger of a plan, from the lines that were stored, checked like one in a file.

    Args:
        plan: The plan.
        lines: The line of every admitted release, in order, with its newline.

    Raises:
        LedgerDamagedError: A line was changed, removed, put in between, or is none of this plan's ledger.
    """
    try:
        chain = parse_chain(ledger_export(plan, lines), _LEDGER)
        if chain.tail or not chain.ends_in_newline:
            raise damaged(_LEDGER, chain.n_lines + 1)
        check_plan(chain, plan.digest, plan.promises, _LEDGER)
    except FileError as problem:
        raise LedgerDamagedError(problem.problem, found=problem.found, remedy=problem.remedy) from None
    return chain


def ledger_export(plan: Plan, lines: Iterable[bytes]) -> bytes:
    """The ledger of a plan as a file that `elldelta ledger verify` reads."""
    return first_line(LedgerHeader.of(plan.digest, plan.promises)) + b"".join(lines)


def check_subtraction(
    plan: Plan, published: Published, comparable: Iterable[Registered], *, owner: str
) -> None:
    """Refuses a release if subtraction shows a group with too few values, where counts allow shared people.

    Nobody tells an agency who shares people. Where classes differ, and among the releases of one owner,
    counts that fit are taken for shared people: a coincidence costs a refusal, and the other way round it
    would cost somebody the promise. Equal classes of two owners are told when it is published (`subtracted`).
    """
    for item, place in product(comparable, range(len(plan.schema.sensitives))):
        ell, groups = _isolated(plan, published, item, place)
        below = [
            group for group in groups if item.owner == owner or not _is_of_equals(group, item, published)
        ]
        if below:
            raise RefusedError(
                "Subtracted from a release that is published, or yours, this one may isolate people.",
                found=f"Their classes differ, and differences with fewer than {counted(ell, 'value')} of "
                f"{plan.schema.sensitive_names[place]!r} remain, if the people of the classes that are "
                "subtracted are in both.",
                remedy="Publish the same people under one plan with fixed classes only.",
            )


def subtracted(plan: Plan, published: Published, others: Iterable[Registered]) -> Subtraction:
    """What subtracting a release from those of other owners, under any plan, may isolate by the counts."""
    pairs, below_any = [], max(2, *plan.ells)
    for item in others:
        below_any = max(below_any, *item.plan.ells)
        found = [_isolated(plan, published, item, place)[1] for place in range(len(plan.schema.sensitives))]
        below = [group for groups in found for group in groups]
        names = f"the release of {item.owner}", published.name
        pairs.append(SubtractedPair.of(names, "possible", "unanswered", below))
    return Subtraction.of(pairs, below_any)


def _is_of_equals(group: Isolated, item: Registered, published: Published) -> bool:
    """Whether a group is the difference of one class in two releases; a class that moved is another one."""
    if not group.is_of_equals:
        return False
    first, second = item.grouping.class_of == group.first[0], published.grouping.class_of == group.second[0]
    return bool(first.shape == second.shape and (first == second).all())


def _isolated(
    plan: Plan, published: Published, item: Registered, place: int
) -> tuple[int, tuple[Isolated, ...]]:
    """The groups of a sensitive column that subtraction gives, below the larger of two promises."""
    ell = max(2, plan.ells[place], item.plan.ells[place])
    groups = plan.schema.sensitives[place].value_groups
    return ell, isolate(*_side_by_side(item, plan, published, place, groups), below=ell)


def _known_update(known: LedgerEntry, revision: Revision, state: LedgerState) -> Admission:
    """The answer to an update whose content is registered: the same one again, or nothing has changed."""
    if known.update is not None and known.update.state == revision.state:
        return Admission(known, state, b"")
    raise RefusedError(
        "The release shows what one that you have registered shows.",
        found="Its content has the same digest; nobody would see a difference.",
        remedy="There is nothing to publish. Keep the state of your last release, and update it later.",
    )


def _withheld_by(release: ValidatedRelease, series: Sequence[Registered]) -> tuple[int, ...]:
    """The base classes that an update withholds, after comparing it with what was last published.

    A class shows what it showed when it was last published, or nothing; or those who stayed and those who
    went are what it showed.

    Raises:
        RefusedError: It does not.
    """
    revision, last = release.revision, series[0].entry.update if series else None
    if revision is None or revision.groups is None or last is None or last.state != revision.since:
        return ()  # the first one; or it updates another one, which the ledger refuses
    groups, old = revision.groups, series[0].grouping
    new = grouping_from_merged(release.merged, old.class_of.size)
    if new != old:
        return ()  # other classes, which the ledger refuses
    shown, is_open = np.zeros_like(release.counts), np.ones(new.n_classes, dtype=np.bool_)
    for item in series:
        is_here = is_open.copy()
        is_here[new.class_of[list(item.entry.suppressed)]] = False
        shown[is_here] = item.counts[is_here]
        is_open &= ~is_here
    changes, shows = groups.changes, release.counts.any(axis=1)
    fits = np.where(changes[:, np.newaxis], groups.leavers + groups.stayers, release.counts) == shown
    withheld = ~changes & ~shows & shown.any(axis=1)
    if not (fits.all(axis=1) | withheld).all():
        raise RefusedError(
            "What came and went does not lead from your last release to this one.",
            found=f"In {counted(int((~fits.all(axis=1) & ~withheld).sum()), 'class', 'classes')} "
            "the numbers do not add up.",
            remedy="Make the release again, with the state of your last registered release.",
        )
    return tuple(np.flatnonzero(withheld[new.class_of]).tolist())


def _check_one_plan(context: AdmissionContext, *, is_update: bool) -> None:
    """Refuses releases under several plans where a table is published again."""
    is_living = is_update or context.is_living or any(each.is_living for each in context.released)
    if context.released and is_living:
        raise RefusedError(
            "Where a table is published again, all releases about these people are under one plan.",
            found="Releases are registered under another plan, and what linking them with who came and went "
            "shows is not bounded.",
            remedy="Publish under the plan that the others use.",
        )


def _check_waiting(n_waiting: int) -> None:
    """Refuses a release while others, of which nothing may be told, are to be linked with it exactly."""
    if n_waiting:
        raise RefusedError(
            "Releases under several plans are linked with each other, so they wait for each other.",
            found=f"{counted(n_waiting, 'release')} of other owners {'is' if n_waiting == 1 else 'are'} not "
            "published yet.",
            remedy="Register this release again, as it is, once they are published or taken back.",
        )


def _not_certified(verdict: Verdict) -> RefusedError:
    """The refusal of what misses more than the plan allows a release."""
    broken = (
        promise.broken
        for promise, violation in zip(verdict.promises, verdict.violations, strict=True)
        if violation.any()
    )
    return RefusedError(
        "The release does not keep what the plan asks of every release.",
        found=" ".join(f"{words}." for words in broken),
        remedy=LATER,
    )


def _check_number(plan: Plan, n_admitted: int) -> None:
    """Refuses one more release than a probabilistic plan is about."""
    if not plan.is_certified and n_admitted >= plan.releases:
        raise RefusedError(
            f"The plan is about {counted(plan.releases, 'release')}, and no more can be registered.",
            found=f"{counted(n_admitted, 'is', 'are')} admitted; the promise says nothing about one more.",
            remedy="Ask the agency for a plan for more releases, or for a certified one.",
        )


def _side_by_side(
    item: Registered, plan: Plan, published: Published, place: int, groups: NDArray[np.int64] | None
) -> Sequence[ReleasedCounts]:
    """Two releases over common cells, in one sensitive column; within a plan these are its classes."""
    both = [item.published, published]
    if plan.schema.also_sensitive:
        both = [each.for_column(place) for each in both]
    if item.plan.digest == plan.digest:
        return [ReleasedCounts(each.grouping, each.counts, groups) for each in both]
    return [replace(each, groups=groups) for each in Overlay.from_published(both).releases]


def _read_line(plan: Plan, line: bytes, previous: str | None = None) -> LedgerEntry | SealedLine | VoidLine:
    try:
        return parse_line(line, LedgerHeader.of(plan.digest, plan.promises), _LEDGER, previous)
    except FileError as problem:
        raise LedgerDamagedError(problem.problem, found=problem.found, remedy=problem.remedy) from None


def _not_what_it_was(found: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"{_LEDGER} holds a release that is not what it was.",
        found=found,
        remedy="Restore the ledger and its registrations from a copy.",
    )
