"""Proposition 1: how far diversity can fall when releases are linked, if nothing else is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.core.checks import check_ell, check_releases, check_whole
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class WorstCase:
    """The lowest possible diversity after linkage, and releases that attain it.

    Attributes:
        n_values: |S|.
        ells: The diversity of each release.
        diversity: The fewest values that can be left for somebody who is in all releases.
        example: One set of values per release that attains it; value 0 is the shared person's own.
    """

    n_values: int
    ells: tuple[int, ...]
    diversity: int
    example: tuple[tuple[int, ...], ...]


def worst_case_diversity(n_values: int, ells: Sequence[int]) -> int:
    """The smallest diversity after linking releases of diversities `ells` (Proposition 1, generalized).

    Release j may miss |S| - ell_j values. Those misses do most harm when they do not overlap, so
    |S| - Σ_j (|S| - ell_j) values are left, but always the one of the person who is in all of them.
    The paper's formula is the case of equal ell with t dividing |S| - 1; Corollary 1 is t = 2.

    >>> worst_case_diversity(50, [30, 30])
    10
    """
    n_values, ells = _check(n_values, ells)
    return max(1, n_values - sum(n_values - ell for ell in ells))


def worst_case(n_values: int, ells: Sequence[int]) -> WorstCase:
    """The worst case with an example that attains it.

    Value 0 is in every release. The missing values of the releases are laid end to end, cyclically, over
    the other |S| - 1 values: they overlap only once every one of those is missing somewhere.
    """
    n_values, ells = _check(n_values, ells)
    n_others = n_values - 1
    example = []
    offset = 0
    for ell in ells:
        missing = {1 + (offset + step) % n_others for step in range(n_values - ell)}
        example.append(tuple(value for value in range(n_values) if value not in missing))
        offset += n_values - ell
    return WorstCase(n_values, tuple(ells), worst_case_diversity(n_values, ells), tuple(example))


def repeat_ell(ell: int, releases: int) -> tuple[int, ...]:
    """The diversities of `releases` releases that all have diversity `ell`."""
    return (ell,) * check_releases(releases)


def _check(n_values: int, ells: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    n_values = check_whole("the number of sensitive values", n_values)
    if not ells:
        raise ParameterError("At least one release is needed.", found="No diversity was given.")
    return n_values, tuple(check_ell(ell, n_values) for ell in ells)
