"""What the classes of a plan must fulfil, apart from their shape: the input of every planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.core.checks import check_releases, check_whole
from elldelta.core.generalize.runs import ANY_DEPENDENCE, CERTIFIABLE
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.core.generalize.sweep import SharpOptions


@dataclass(frozen=True)
class TotalFailure:
    """The failures of all classes add up to at most a budget (Theorem C, or D' with shared records).

    Attributes:
        ell: How many values must survive the linkage.
        n_records: N, the fewest records of a release.
        releases: t, how many releases are linked.
        failure_upper_budget: The budget after linkage, t delta, in (0, 1).
        options: What the bound assumes.
    """

    ell: int
    n_records: int
    releases: int
    failure_upper_budget: float
    options: SharpOptions = ANY_DEPENDENCE

    def __post_init__(self) -> None:
        _check(self.n_records, self.releases, self.failure_upper_budget)


@dataclass(frozen=True)
class EachFailure:
    """Each class fails with at most the given chance: how often the owner of a certified release must wait.

    Attributes:
        ell: How many values must survive the linkage.
        n_records: N, the fewest records of a release.
        releases: t, how many releases are linked.
        class_failure_upper: The chance per class, in (0, 1); per release in a certifiable plan.
        options: What the bound assumes.
    """

    ell: int
    n_records: int
    releases: int
    class_failure_upper: float
    options: SharpOptions = CERTIFIABLE

    def __post_init__(self) -> None:
        _check(self.n_records, self.releases, self.class_failure_upper)


@dataclass(frozen=True)
class Admissible:
    """The paper's criterion: every class has at least ell cells with P(c, s) >= p.

    Attributes:
        ell: How many cells must reach p.
        p: In (0, p_ell].
    """

    ell: int
    p: float


Criterion = TotalFailure | EachFailure | Admissible


def _check(n_records: int, releases: int, chance: float) -> None:
    check_whole("the number of records", n_records)
    check_releases(releases)
    if isinstance(chance, bool) or not 0.0 < chance < 1.0:
        raise ParameterError(
            "A failure bound must lie strictly between 0 and 1.",
            found=f"It is {chance}.",
            remedy="The budget after linkage is the number of releases times delta; lower one of the two.",
        )
