"""Use case: whether a release may join those that were admitted before; what only the agency can know.

Nothing here reads a file, a clock or a database. Whoever keeps the ledger calls `check_registration` while
nobody else can add a line, and stores `Admission.line`, the counts and the state that follows.

A decision does not read what is registered, however much that is, but a state of every plan (`PlanState`):
what its releases miss together, and, where a population has releases of several plans, what they leave to
somebody. A state names the line it belongs to and can always be made again from the lines and the counts.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from elldelta.agency.linking import check_linkage, published_classes
from elldelta.agency.series import known_update, withheld_by
from elldelta.audit.evidence import Evidence
from elldelta.core.closeness import SmallestShares
from elldelta.core.differencing import isolate
from elldelta.core.ledger_state import LedgerState
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.linked_state import LinkedState
from elldelta.core.partition import grouping_from_merged
from elldelta.core.several import joint_state
from elldelta.core.updates import Series, Update
from elldelta.errors import ElldeltaError, FileError, RefusedError, counted
from elldelta.files import digest
from elldelta.ledger import (
    LedgerHeader,
    Standing,
    admit,
    check_owner,
    check_plan,
    damaged,
    first_line,
    parse_chain,
    parse_line,
)
from elldelta.release import Published, recomputed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.agency.registration import Examined
    from elldelta.core.partition import Partition
    from elldelta.core.several import AnyState
    from elldelta.ledger import Admission, LedgerChain, LedgerEntry
    from elldelta.plan.plan import Plan

SHARES = 0
"""Among the numbers of records that a state knows: the smallest shares."""

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
        own, grouping = self.entry.content_digest, self.grouping
        if self.counts.shape == (grouping.n_classes, self.plan.schema.n_values):
            published = _published(self.plan, grouping, self.counts, own)
            if published.digest == own:
                return replace(published, name=f"of {self.owner}")
        raise _not_what_it_was("The counts do not have the digest that the line names.")


@dataclass(frozen=True, eq=False)
class PlanState:
    """What a decision must know of the releases of one plan; it follows from the lines up to one of them.

    Attributes:
        plan: The plan.
        n_lines: How many lines its ledger has, with the first one.
        head: The hash of the last of them.
        ledger: What the releases miss together (Theorem F).
        linked: What they leave to somebody of every sensitive column, by the records with which a value
            counts; only as far as it was asked for: by itself a plan does not need it.
        is_stored: Whether it is stored as it is, and need not be stored again.
        shares: The smallest shares of every sensitive column that they show, if that was asked for.
        is_living: Whether some of the tables are published again.
    """

    plan: Plan
    n_lines: int
    head: str
    ledger: AnyState
    linked: Mapping[int, tuple[LinkedState, ...]] = field(default_factory=dict)
    is_stored: bool = False
    shares: tuple[SmallestShares, ...] | None = None
    is_living: bool = False

    @classmethod
    def of(
        cls,
        plan: Plan,
        lines: Iterable[bytes],
        min_records: Collection[int] = (),
        counts_of: Callable[[LedgerEntry], Registered] | None = None,
    ) -> PlanState:
        """From the lines themselves, each of which is checked.

        Args:
            plan: The plan.
            lines: The line of every release, in order, with its newline.
            min_records: The numbers of records for which to know what is left to somebody, and `SHARES`
                to know the smallest shares.
            counts_of: The release of a line; needed for that.

        Raises:
            LedgerDamagedError: A line or a release is not what it was.
        """
        try:
            chain = ledger_chain(plan, lines)
        except FileError as problem:
            raise LedgerDamagedError(problem.problem, found=problem.found, remedy=problem.remedy) from None
        shapes = [(plan.n_classes, column.size) for column in plan.schema.sensitives]
        linked = {
            n: tuple(LinkedState.empty(*shape, n) for shape in shapes) for n in min_records if n != SHARES
        }
        shares = tuple(SmallestShares.none(*shape) for shape in shapes) if SHARES in min_records else None
        known = chain.state(plan.all_terms)
        state = cls(plan, chain.n_lines, chain.head, known, linked, shares=shares, is_living=chain.is_living)
        if min_records and counts_of is not None:
            for entry in chain.active:
                own = counts_of(entry)
                state = state._joined(own.published.counts, own.grouping)
        return state

    def knows(self, min_records: frozenset[int]) -> bool:
        """Whether it was made for these numbers."""
        return self.linked.keys() >= min_records - {SHARES} and (
            SHARES not in min_records or self.shares is not None
        )

    def after(self, admission: Admission, examined: Examined) -> PlanState:
        """The state with one more release."""
        return replace(
            self._joined(examined.counts, grouping_from_merged(examined.merged, self.plan.n_classes)),
            n_lines=admission.entry.sequence + 1,
            head=admission.entry.hash,
            ledger=admission.state,
            is_stored=False,
            is_living=self.is_living or examined.revision is not None,
        )

    def _joined(self, counts: NDArray[np.int64], grouping: Partition) -> PlanState:
        """The state in which somebody may also be in a release with these counts."""
        apart = self.plan.schema.by_column(counts)
        linked = {
            n: tuple(state.joined(own[grouping.class_of]) for state, own in zip(states, apart, strict=True))
            for n, states in self.linked.items()
        }
        shares = self.shares
        if shares is not None:
            shares = tuple(each.joined(own, grouping) for each, own in zip(shares, apart, strict=True))
        return replace(self, linked=linked, shares=shares)

    def to_bytes(self) -> bytes:
        """The state as it is stored; `from_bytes` reads it."""
        arrays: dict[str, NDArray[np.generic]] = {
            "n_releases": np.array(self.ledger.n_releases),
            "missed": np.packbits(self.ledger.missed),
        }
        for place, part in enumerate(self.ledger.parts):
            if part.spent is not None:
                arrays[f"spent{place}"] = part.spent
            shares = {"ledger": part.smallest, "all": None if self.shares is None else self.shares[place]}
            for name, smallest in shares.items():
                if smallest is not None:
                    arrays |= {
                        f"{name}{place}_counts": smallest.counts,
                        f"{name}{place}_sizes": smallest.sizes,
                    }
            for n, states in self.linked.items():
                arrays |= {
                    f"shown{place}_{n}": np.packbits(states[place].shown),
                    f"left{place}_{n}": states[place].left,
                }
        if self.is_living:
            series = [(owner, one) for owner, own in self.ledger.series.updates.items() for one in own]
            arrays["owners"] = np.array([owner for owner, _ in series], "U")
            groups = [(one.joiners, one.leavers, one.stayers) for _, one in series]
            arrays["groups"] = np.packbits(np.array(groups, dtype=np.bool_))
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        return content.getvalue()

    @classmethod
    def from_bytes(cls, plan: Plan, n_lines: int, head: str, content: bytes) -> PlanState | None:
        """What `to_bytes` wrote; None if it is not that, and must be made again."""
        columns = list(enumerate(zip((terms := plan.all_terms).parts, terms.columns, strict=True)))

        def table(bits: NDArray[np.uint8], n_values: int) -> NDArray[np.bool_]:
            n_bits = plan.n_classes * n_values
            return np.unpackbits(bits, count=n_bits).reshape(-1, n_values).astype(np.bool_)

        def shares(found: Mapping[str, NDArray[np.int64]], name: str) -> SmallestShares:
            return SmallestShares(found[f"{name}_counts"], found[f"{name}_sizes"])

        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as found:
                missed = table(found["missed"], terms.n_values)
                updates, is_living = dict[str, list[Update]](), "owners" in found
                if is_living:
                    owners = found["owners"].tolist()
                    bits = np.unpackbits(found["groups"], count=3 * len(owners) * missed.size)
                    groups = bits.reshape(len(owners), 3, *missed.shape).astype(np.bool_)
                    for owner, own in zip(owners, groups, strict=True):
                        updates.setdefault(owner, []).append(Update(*own))
                series = Series(updates)
                ledger = joint_state(
                    LedgerState(
                        part,
                        missed[:, own],
                        int(found["n_releases"]),
                        found.get(f"spent{place}"),
                        None if part.closeness is None else shares(found, f"ledger{place}"),
                        series.of(own),
                    )
                    for place, (part, own) in columns
                )
                known = [shares(found, f"all{place}") for place, _ in columns if "all0_counts" in found]
                numbers = [int(name.removeprefix("left0_")) for name in found if name.startswith("left0_")]
                linked = {
                    n: tuple(
                        LinkedState(
                            n,
                            table(found[f"shown{place}_{n}"], part.n_values),
                            found[f"left{place}_{n}"].reshape(part.n_classes, part.n_values, -1),
                        )
                        for place, (part, _) in columns
                    )
                    for n in numbers
                }
        except (ElldeltaError, OSError, ValueError, KeyError, EOFError):
            return None
        return cls(
            plan,
            n_lines,
            head,
            ledger,
            linked,
            is_stored=True,
            shares=tuple(known) or None,
            is_living=is_living,
        )


@dataclass(frozen=True, eq=False)
class Past:
    """What a decision about one release of one owner must know.

    Attributes:
        own: The plan of the release.
        elsewhere: Other plans for the same population under which something is registered.
        known: The line of this very release, if it is registered already.
        is_taken: Whether another owner has registered the same content, under any of these plans.
        comparable: Releases with other classes that may share people with this one: those of the owner under
            the other plans, and the published ones of everybody under this plan. Others nobody may see: a
            refusal because of one of these would tell its counts to whoever tries often enough.
        series: The last release of the owner under this plan, if there is one; and, if its table is published
            again, those before it as far as classes are withheld since.
    """

    own: PlanState
    elsewhere: tuple[PlanState, ...] = ()
    known: LedgerEntry | None = None
    is_taken: bool = False
    comparable: tuple[Registered, ...] = ()
    series: tuple[Registered, ...] = ()


def check_registration(examined: Examined, past: Past, *, owner: str) -> Admission:
    """Decides whether a release is admitted; changes nothing.

    In this order: the owner sends its own release; the plan's ledger has room for what it misses (Theorem F)
    and stays close to the references with it (Theorem G), and the owner keeps its classes; and linked with
    everything that is registered under other plans, exactly, it leaves everybody as many values as was
    promised, and beliefs as close. Under its own plan Theorems F and G say that.

    A certified plan admits any number of releases. A probabilistic plan is about t releases: the first t
    that pass the same checks are admitted, and the next one is refused.

    Args:
        examined: What the owner sent, as `examine` has found it to follow the plan.
        past: What is registered, for this owner and this release.
        owner: The name of the owner, as the agency knows it; never from what was sent.

    Returns:
        The admission; with nothing to be added if the same owner has registered the same content before.

    Raises:
        RefusedError: It is not admitted; the error says why.
    """
    owner = check_owner(owner)
    plan = past.own.plan
    if past.is_taken:
        raise RefusedError(
            "Another owner has registered exactly this release.",
            found="Its content has the digest of a release that was admitted before.",
            remedy="Register your own release. If it is yours, tell the agency that somebody else sent it.",
        )
    if past.known is None:
        _check_number(plan, past.own.ledger.n_releases)
    grouping, revision = grouping_from_merged(examined.merged, plan.n_classes), examined.revision
    if revision is not None and past.known is not None:
        return known_update(past.known, revision, past.own.ledger)
    if past.elsewhere and (revision or any(state.is_living for state in (past.own, *past.elsewhere))):
        raise RefusedError(
            "Where a table is published again, all releases about these people are under one plan.",
            found="Releases are registered under another plan, and what linking them with who came and went "
            "shows is not bounded.",
            remedy="Publish under the plan that the others use.",
        )
    withheld = withheld_by(examined, past.series) if revision is not None else ()
    last = past.series[0].entry if past.series else None
    admission = admit(
        Standing(past.own.ledger, past.own.n_lines, past.own.head, past.known, last),
        grouping,
        examined.counts,
        owner=owner,
        content_digest=examined.content_digest,
        suppressed=withheld,
        revision=revision,
    )
    if admission.is_new and past.elsewhere:
        check_linkage(plan, grouping, examined.counts, (past.own, *past.elsewhere))
    if admission.is_new and past.comparable:
        published = _published(plan, grouping, examined.counts, examined.content_digest)
        check_subtraction(plan, published, past.comparable)
    return admission


def grouping_digest(merged: tuple[tuple[int, ...], ...]) -> str:
    """Names the classes that a release publishes under its plan."""
    return digest([list(members) for members in merged])


def linked_numbers(plans: Collection[Plan]) -> frozenset[int]:
    """What states must know of each other: records with which a value counts, and `SHARES` for closeness."""
    if len(plans) < 2:
        return frozenset()
    is_close = any(face.closeness is not None for plan in plans for face in plan.faces)
    return frozenset({*(plan.min_records for plan in plans), *([SHARES] if is_close else [])})


def read_entry(plan: Plan, line: bytes) -> LedgerEntry:
    """The release that a stored line is about.

    Raises:
        LedgerDamagedError: It is not intact, or about no release.
    """
    _, entry = _read_line(plan, line)
    if entry is None:
        raise _not_what_it_was("A line that should be about a release is not.")
    return entry


def line_hash(plan: Plan, line: bytes) -> str:
    """The hash of a stored line.

    Raises:
        LedgerDamagedError: It is not intact.
    """
    return _read_line(plan, line)[0]


def ledger_chain(plan: Plan, lines: Iterable[bytes]) -> LedgerChain:
    """The ledger of a plan, from the lines that were stored, checked like one in a file.

    Args:
        plan: The plan.
        lines: The line of every admitted release, in order, with its newline.

    Raises:
        FileError: A line was changed, removed, put in between, or is no line of this plan's ledger.
    """
    chain = parse_chain(ledger_export(plan, lines), _LEDGER)
    if chain.tail or not chain.ends_in_newline:
        raise damaged(_LEDGER, chain.n_lines + 1)
    check_plan(chain, plan.digest, plan.all_terms, _LEDGER)
    return chain


def ledger_export(plan: Plan, lines: Iterable[bytes]) -> bytes:
    """The ledger of a plan as a file that `elldelta ledger verify` reads."""
    return first_line(LedgerHeader.of(plan.digest, plan.all_terms, plan.owners)) + b"".join(lines)


def check_subtraction(plan: Plan, published: Published, comparable: Iterable[Registered]) -> None:
    """Refuses a release if subtraction shows a group with too few values, where counts allow shared people.

    Nobody tells an agency who shares people. Counts that fit are taken for shared people: a coincidence costs
    a refusal, and the other way round it would cost somebody the promise.
    """
    for item, (place, column) in product(comparable, enumerate(plan.schema.sensitives)):
        ell = max(plan.ells[place], item.plan.ells[place])
        below = [
            group
            for group in isolate(
                *_side_by_side(item, plan, published, place, column.value_groups), declared=False
            )
            if group.diversity < ell
        ]
        if below:
            raise RefusedError(
                "Subtracted from a release that is published, or yours, this one may isolate people.",
                found=f"Their classes differ, and so many groups with fewer than {ell} values"
                f"{plan.all_terms.parts[place].of_column} remain, if the people of the classes that are "
                f"subtracted are in both: {len(below)}.",
                remedy="Publish the same people under one plan and with the same classes. Otherwise merge "
                "more classes, or leave the records of merged classes out, and register again.",
            )


def _check_number(plan: Plan, n_admitted: int) -> None:
    """Refuses one more release than a probabilistic plan is about."""
    if plan.guarantee == "probabilistic" and n_admitted >= plan.releases:
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
        both = [each.face(place) for each in both]
    if item.plan.digest == plan.digest:
        return [ReleasedCounts(each.grouping, each.counts, groups) for each in both]
    return [replace(each, groups=groups) for each in Evidence.from_published(both).releases]


def _published(plan: Plan, grouping: Partition, counts: NDArray[np.int64], content_digest: str) -> Published:
    """A release as if it had been read, with what follows from its counts."""
    classes = published_classes(plan, grouping)
    manifest = recomputed(plan, classes, counts, content_digest)
    return Published("that was sent", plan.schema, classes, counts, manifest)


def _read_line(plan: Plan, line: bytes) -> tuple[str, LedgerEntry | None]:
    try:
        return parse_line(line, LedgerHeader.of(plan.digest, plan.all_terms), _LEDGER)
    except FileError as problem:
        raise LedgerDamagedError(problem.problem, found=problem.found, remedy=problem.remedy) from None


def _not_what_it_was(found: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"{_LEDGER} holds a release that is not what it was.",
        found=found,
        remedy="Restore the ledger and its registrations from a copy.",
    )
