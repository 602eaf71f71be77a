"""Theorem 2: what releases made with one plan promise when they are linked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.core.checks import check_delta, check_releases, check_whole
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

THEOREM_2_CONDITIONS = (
    "All releases use the same classes, fixed before anybody's records were seen.",
    "In every class all releases rely on the same ell witness values: "
    "the ell most probable ones, ties by their order.",
    "The records of each release are independent draws from the distribution the plan was made for.",
    "Each release has at least as many records as its delta was computed for.",
)
"""What must be true for `compose`. Releases may depend on each other in any way: they may share people."""


@dataclass(frozen=True)
class ComposedGuarantee:
    """After linkage, every person is left among >= ell values with probability at least 1 - delta.

    Attributes:
        ell: Values left for everybody who is in all releases.
        delta: Upper bound on the probability that this fails anywhere.
        releases: The number of releases linked.
        conditions: What must be true for the promise to hold.
    """

    ell: int
    delta: float
    releases: int
    conditions: tuple[str, ...] = THEOREM_2_CONDITIONS

    @property
    def is_meaningful(self) -> bool:
        """Whether delta is below 1; otherwise nothing is promised."""
        return self.delta < 1.0


def compose(ell: int, deltas: Sequence[float]) -> ComposedGuarantee:
    """(ell, delta_j)-diverse releases of one plan link to (ell, Σ_j delta_j)-diversity (Theorem 2).

    The sum is a union bound and does not exceed 1.

    >>> compose(10, [0.01, 0.01, 0.02]).delta
    0.04
    """
    if not deltas:
        raise ParameterError("At least one release is needed.", found="No delta was given.")
    total = math.fsum(check_delta(delta) for delta in deltas)
    return ComposedGuarantee(check_whole("ell", ell), min(1.0, total), len(deltas))


def compose_equal(ell: int, delta: float, releases: int) -> ComposedGuarantee:
    """Composes t releases of one plan with the same delta: (ell, t delta)-diversity."""
    releases = check_releases(releases)
    delta = check_delta(delta)
    return ComposedGuarantee(check_whole("ell", ell), min(1.0, releases * delta), releases)
