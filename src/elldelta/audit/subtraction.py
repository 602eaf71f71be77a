"""What subtracting releases from each other shows, which none of them shows by itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from elldelta.audit.shares import MOST_WORST
from elldelta.core.differencing import isolate
from elldelta.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.audit.evidence import Evidence


@dataclass(frozen=True)
class IsolatedGroup:
    """Records that subtracting one release from another isolates.

    Attributes:
        releases: The two releases.
        how: What is subtracted from what, in words.
        labels: The classes of both releases that it is about.
        records: Records that are isolated.
        diversity: Distinct values among them.
    """

    releases: tuple[str, str]
    how: str
    labels: tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
    records: int
    diversity: int


@dataclass(frozen=True)
class Differencing:
    """What subtraction isolates among releases that hold the same records, or may share people.

    Attributes:
        pairs: Pairs of releases that were compared.
        groups: Groups that were isolated.
        diversity_min: The fewest values in any of them; None if there is none.
        groups_below: Groups with fewer than ell values.
        records_below: Records in them.
        smallest: The groups with the fewest values, at most twenty.
        declared: Whether all of it is declared; if not, the people of subtracted classes must be in both.
    """

    pairs: int
    groups: int
    diversity_min: int | None
    groups_below: int
    records_below: int
    smallest: tuple[IsolatedGroup, ...]
    declared: bool = True


def differencing(evidence: Evidence, same_records: Sequence[Sequence[int]], ell: int) -> Differencing | None:
    """What subtraction isolates: between releases that are said to hold the same records, and of one plan.

    Releases of one plan that merge its classes differently are tried without being asked, as far as their
    counts allow that they share people; only groups below ell are told then.
    """
    declared = {pair for group in same_records for pair in combinations(sorted(set(group)), 2)}
    tried = [
        pair
        for pair in combinations(range(len(evidence.releases)), 2)
        if pair not in declared and evidence.is_one_plan(*pair)
    ]
    if declared and not evidence.is_disjoint:
        raise DataError(
            "Subtraction needs releases whose classes do not overlap.",
            found="Classes of a release overlap, or records are suppressed.",
            remedy="Leave out `same_records`.",
        )
    groups = [item for pair in sorted(declared) for item in isolated_groups(evidence, *pair, declared=True)]
    possible = [
        item
        for pair in (tried if evidence.is_disjoint else ())
        for item in isolated_groups(evidence, *pair, declared=False)
        if item.diversity < ell
    ]
    if not declared and not possible:
        return None
    groups = sorted((*groups, *possible), key=lambda item: (item.diversity, item.records))
    below = [item for item in groups if item.diversity < ell]
    return Differencing(
        pairs=len(declared) + len({item.releases for item in possible}),
        groups=len(groups),
        diversity_min=groups[0].diversity if groups else None,
        groups_below=len(below),
        records_below=sum(item.records for item in below),
        smallest=tuple(groups[:MOST_WORST]),
        declared=not possible,
    )


def isolated_groups(evidence: Evidence, first: int, second: int, *, declared: bool) -> list[IsolatedGroup]:
    """What subtracting two releases isolates; if nobody says that they share people, what it may isolate."""
    names, releases = evidence.names, evidence.releases
    return [
        IsolatedGroup(
            (names[first], names[second]),
            item.how,
            (
                tuple(evidence.label(first, row) for row in item.first),
                tuple(evidence.label(second, row) for row in item.second),
            ),
            item.records,
            item.diversity,
        )
        for item in isolate(releases[first], releases[second], declared=declared)
    ]
