"""What subtracting releases from each other shows, which none of them shows by itself.

Counts alone tell what one release minus another *can* isolate: the difference is a group of people where
everybody who is subtracted is in both. Whether one table's population is contained in another's nobody sees
in the counts (small classes nest by chance), so that is a question to people (`contained`), and the answer
decides whether a group is found or possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

from elldelta.audit.documents import plain
from elldelta.audit.shares import MOST_WORST
from elldelta.core.differencing import isolate
from elldelta.errors import DataError, ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.audit.overlay import Overlay
    from elldelta.core.differencing import Isolated

Status = Literal["found", "possible", "not tried", "not found"]
"""What subtraction has shown, worst first.

A group with too few values was found where a population is said to be contained in another; it is possible by
the counts, and nobody has said so; nothing was tried; or it was tried and there is none.
"""

Because = Literal["affirmed", "unanswered", "denied", "one release", "overlap", "too many pairs"]
"""Why: what was said about the populations where subtraction was tried, or what kept it from being tried."""

NOT_CONTAINED = "no"
"""The word with which people say that no table's population is contained in another's."""

_MOST_PAIRS = 500
"""Pairs of releases that are subtracted from each other; the others are said not to have been tried."""

_WHY_NOT = {
    "one release": "there is no other release",
    "overlap": "classes of a release overlap, or records are suppressed",
    "too many pairs": f"more than {_MOST_PAIRS} pairs of releases would have to be compared",
}


@dataclass(frozen=True)
class IsolatedGroup:
    """Records that subtracting one release from another isolates.

    Attributes:
        releases: The two releases.
        how: What is subtracted from what, in words.
        labels: The classes of both releases that it is about.
        records: Records that are isolated.
        diversity: Distinct values among them.
        status: Whether they are found, or possible by the counts.
    """

    releases: tuple[str, str]
    how: str
    labels: tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
    records: int
    diversity: int
    status: Literal["found", "possible"] = "found"


@dataclass(frozen=True)
class SubtractedPair:
    """What subtracting two releases from each other shows.

    Attributes:
        releases: The two releases; where something is isolated, the one that is subtracted comes second.
        status: What was found.
        because: Why.
        groups_below: Differences of classes that show too few values, found or possible as the status says;
            a group that is isolated in two ways counts twice.
        records_below: Records in them.
        diversity_min: The fewest values in one of them; None if there is none.
        is_series: Whether both are one owner's: what whole classes gain or lose is judged as a series.
    """

    releases: tuple[str, str]
    status: Status
    because: Because
    groups_below: int = 0
    records_below: int = 0
    diversity_min: int | None = None
    is_series: bool = False

    @classmethod
    def of(
        cls,
        releases: tuple[str, str],
        status: Literal["found", "possible"],
        because: Because,
        groups: Sequence[Isolated],
        *,
        is_series: bool = False,
    ) -> SubtractedPair:
        """What the groups show that were isolated between two releases; nothing was found without any."""
        if not groups:
            return cls(releases, "not found", because, is_series=is_series)
        worst = min(groups, key=lambda group: (group.diversity, group.records))
        if worst.how == "second minus first":
            releases = releases[1], releases[0]
        records = sum(group.records for group in groups)
        return cls(releases, status, because, len(groups), records, worst.diversity, is_series)


@dataclass(frozen=True)
class Subtraction:
    """What subtracting releases from each other shows: found, possible, not found or not tried, and why.

    Attributes:
        status: The worst of all pairs.
        because: Why.
        below: Groups count that show fewer values than this.
        pairs: What each pair of releases shows.
        smallest: The groups with the fewest values, at most twenty.
    """

    status: Status
    because: Because
    below: int
    pairs: tuple[SubtractedPair, ...] = ()
    smallest: tuple[IsolatedGroup, ...] = ()

    @classmethod
    def of(
        cls, pairs: Sequence[SubtractedPair], below: int, smallest: Sequence[IsolatedGroup] = ()
    ) -> Subtraction:
        """What all pairs show together: the worst of them."""
        if not pairs:
            return cls("not tried", "one release", below)
        statuses, reasons = get_args(Status), get_args(Because)
        worst = min(pairs, key=lambda pair: (statuses.index(pair.status), reasons.index(pair.because)))
        return cls(worst.status, worst.because, below, tuple(pairs), tuple(smallest))

    @property
    def holds(self) -> bool:
        """Whether no group with too few values was found."""
        return self.status != "found"

    @property
    def is_open(self) -> bool:
        """Whether people may be isolated, and nobody has said that it is not so."""
        return self.status == "possible" and self.because in ("unanswered", "affirmed")

    @property
    def worst(self) -> SubtractedPair | None:
        """The pair that isolates the fewest values, of those that have the status of all."""
        pairs = (pair for pair in self.pairs if (pair.status, pair.because) == (self.status, self.because))
        return min(pairs, key=lambda pair: pair.diversity_min or self.below, default=None)

    @property
    def diversity_min(self) -> int | None:
        """The fewest values in a group that is found, or else possible; None if there is none."""
        return None if self.worst is None else self.worst.diversity_min

    @property
    def isolates(self) -> str:
        """What the worst pair isolates, as the end of a sentence; empty if there is nothing."""
        pair = self.worst
        if pair is None or pair.diversity_min is None:
            return ""
        outer, inner = pair.releases
        fewest = f"{pair.diversity_min} of {counted(self.below, 'value')}"
        return f"{outer} minus {inner} isolates people with as few as {fewest}"

    @property
    def proviso(self) -> str:
        """What a verdict adds where subtraction is possible and nobody has said that it is not so."""
        return f" But if {self.condition}, {self.isolates}." if self.is_open else ""

    @property
    def condition(self) -> str:
        """What must be true for the worst pair to isolate people, as part of a sentence."""
        outer, inner = ("one", "another") if self.worst is None else self.worst.releases
        return f"everybody whom {inner} shows in these classes is also in {outer}"

    @property
    def question(self) -> str:
        """What to do where subtraction hangs on an answer; empty where it does not."""
        if not self.is_open:
            return ""
        if self.worst is not None and self.worst.is_series:
            return f"Say whether {self.condition}."
        names = ("they",) if self.worst is None else self.worst.releases
        return (
            f"If {' and '.join(names)} come from one owner, compare them as a series, in the order of "
            f"publication. If not, say whether {self.condition}."
        )

    @property
    def words(self) -> str:
        """What was found, possible, not found or not tried, and why; without counts."""
        n_left = sum(pair.status == "not tried" for pair in self.pairs)
        head = f"Subtraction: {self.status}."
        if self.status == "not tried":
            some = (
                f" for {n_left:,} of {counted(len(self.pairs), 'pair')} of releases; the others "
                "isolate no group"
            )
            among = some if 0 < n_left < len(self.pairs) else ""
            return f"Subtraction: not tried{among}, because {_WHY_NOT[self.because]}."
        if self.status == "not found":
            few = f"isolates a group that shows fewer than {counted(self.below, 'value')}."
            if any(pair.is_series for pair in self.pairs):
                return (
                    "Subtraction: not found outside of series. What whole classes of one owner gain or lose "
                    f"is judged as a series; no other difference of releases {few}"
                )
            return f"{head} No release minus another {few}"
        if self.status == "found":
            words = f"One population is said to be contained in the other, and {self.isolates}."
        else:
            words = f"If {self.condition}, {self.isolates}."
            words += {
                "unanswered": " Counts allow it; nobody has said whether it is so.",
                "denied": " Counts allow it; by the answer that was given it is not so.",
                "affirmed": " Counts allow it; by the answer and the numbers of records shown it is the "
                "other way round.",
            }.get(self.because, "")
        return f"{head} {words}" + (
            f" {counted(n_left, 'pair was', 'pairs were')} not tried." if n_left else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        pairs = [pair for pair in self.pairs if pair.status == self.status]
        return {
            **plain(self),
            "words": self.words,
            "question": self.question,
            "groups_below": sum(pair.groups_below for pair in pairs),
            "records_below": sum(pair.records_below for pair in pairs),
            "diversity_min": self.diversity_min,
        }


def contained_of(answers: Sequence[str] | None) -> list[list[str]] | None:
    """What people answer, as parameters: names separated by commas, or "no"; None if there is no answer.

    >>> contained_of(["a.csv,b.csv", "c.csv, d.csv"])
    [['a.csv', 'b.csv'], ['c.csv', 'd.csv']]
    >>> contained_of(["no"])
    []
    """
    if not answers:
        return None
    if NOT_CONTAINED in answers and len(answers) > 1:
        raise ParameterError(
            "The answer names releases, or says that no population is contained in another's.",
            found="It does both.",
            remedy=f"Say {NOT_CONTAINED!r} alone, or leave it out.",
            parameter="contained",
        )
    named = [] if list(answers) == [NOT_CONTAINED] else answers
    return [[name.strip() for name in answer.split(",")] for answer in named]


def subtract(
    overlay: Overlay,
    ell: int,
    contained: Sequence[Sequence[int]] | None = None,
    series: Sequence[Sequence[int]] = (),
    *,
    member_of: int | None = None,
) -> Subtraction:
    """Subtracts every two releases from each other, class by class, whatever their plans and owners.

    Args:
        overlay: The releases.
        ell: The number of values to compare with; at least 2, as one value is the value of everybody there.
        contained: Sets of releases of which one's people are all in the other, for any two of a set. None:
            nobody has said. Whoever says it names all of them, and none with an empty list.
        series: Releases of one owner, for each with several: what whole classes gain or lose there is judged
            as a series.
        member_of: Only pairs with this release.

    Raises:
        DataError: A population is said to be contained in another, and their counts exclude it, or classes
            of a release overlap.
    """
    affirmed = {pair for group in contained or () for pair in combinations(sorted(set(group)), 2)}
    known = {pair for places in series for pair in combinations(sorted(places), 2)}
    every = [
        pair for pair in combinations(range(len(overlay.layers)), 2) if member_of is None or member_of in pair
    ]
    below = max(ell, 2)
    order = {status: place for place, status in enumerate(get_args(Status))}
    pairs, groups = [], []
    for number, (one, other) in enumerate(sorted(every, key=lambda pair: pair not in affirmed)):
        answer: Because = "unanswered" if contained is None else "denied"
        pair = (one, other)
        if pair in affirmed:
            answer = "affirmed"
            _check_contained(overlay, pair)
        is_beyond = number >= _MOST_PAIRS and pair not in affirmed
        because: Because | None = "too many pairs" if is_beyond else None
        if any(overlay.layers[place].n_overlapping for place in pair):
            because = "overlap"
        if because is not None:
            names = overlay.names[one], overlay.names[other]
            pairs.append(SubtractedPair(names, "not tried", because))
            continue
        result, found = _subtracted(overlay, pair, answer, below, is_series=pair in known)
        pairs.append(result)
        groups += [
            (order[status], item.diversity, item.records, pair, item, status) for item, status in found
        ]
    groups.sort(key=lambda group: group[:3])
    smallest = tuple(_group(overlay, *group[3:]) for group in groups[:MOST_WORST])
    return Subtraction.of(pairs, below, smallest)


def _subtracted(
    overlay: Overlay, pair: tuple[int, int], answer: Because, below: int, *, is_series: bool
) -> tuple[SubtractedPair, list[tuple[Isolated, Literal["found", "possible"]]]]:
    """What two releases isolate below a number of values."""
    one, other = pair
    names = overlay.names[one], overlay.names[other]
    isolated = [
        item
        for item in isolate(overlay.releases[one], overlay.releases[other], below=below)
        if not (is_series and item.whole)
    ]
    sizes = [int(overlay.layers[place].counts.sum()) for place in pair]
    judged: list[tuple[Isolated, Literal["found", "possible"]]] = [
        (item, "found" if answer == "affirmed" and _follows(item, sizes) else "possible") for item in isolated
    ]
    certain = [item for item, status in judged if status == "found"]
    status: Literal["found", "possible"] = "found" if certain else "possible"
    found = SubtractedPair.of(names, status, answer, certain or isolated, is_series=is_series)
    return found, judged


def _follows(item: Isolated, sizes: Sequence[int]) -> bool:
    """Whether a group is one of people if the smaller table's people are all in the larger one."""
    return {
        "meet": True,  # in a component of as many records of every value
        "first minus second": sizes[1] <= sizes[0],
        "second minus first": sizes[0] <= sizes[1],
    }[item.how]


def _group(
    overlay: Overlay, pair: tuple[int, int], item: Isolated, status: Literal["found", "possible"]
) -> IsolatedGroup:
    first, second = pair
    return IsolatedGroup(
        (overlay.names[first], overlay.names[second]),
        item.how,
        (
            tuple(overlay.label(first, row) for row in item.first),
            tuple(overlay.label(second, row) for row in item.second),
        ),
        item.records,
        item.diversity,
        status,
    )


def _check_contained(overlay: Overlay, pair: tuple[int, int]) -> None:
    """Refuses what is said about two populations where their counts exclude it."""
    shown = [overlay.layers[place] for place in pair]
    if any(release.n_overlapping for release in shown):
        raise DataError(
            "Subtraction needs releases whose classes do not overlap.",
            found="Classes of a release overlap, or records are suppressed.",
            remedy="Do not say of it that it is contained in another.",
            parameter="contained",
        )
    first, second = (release.counts.sum(axis=0) for release in shown)
    if not ((first <= second).all() or (second <= first).all()):
        raise DataError(
            f"Neither {shown[0].name} nor {shown[1].name} can be contained in the other.",
            found="Each of them holds more records of some value than the other.",
            remedy="Name only releases of which one's people are all in the other.",
            parameter="contained",
        )
