"""The certificate: the verdict on one release, promise by promise (Theorems E and G)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.errors import ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from elldelta.core.promises import Promise, Shown


@dataclass(frozen=True, eq=False)
class Verdict:
    """The verdict on one release, promise by promise and base class by base class.

    Attributes:
        promises: What was asked.
        shown: What the release shows.
        violations: By how much every base class breaks each promise; 0 where it is kept.
    """

    promises: tuple[Promise, ...]
    shown: Shown
    violations: tuple[NDArray[Any], ...]

    def about(self, promises: Sequence[Promise]) -> Verdict:
        """The verdict on some of the promises."""
        both = zip(self.promises, self.violations, strict=True)
        violations = tuple(violation for promise, violation in both if promise in promises)
        return Verdict(tuple(promises), self.shown, violations)

    @cached_property
    def fails(self) -> NDArray[np.bool_]:
        """Whether a base class breaks a promise, one per base class."""
        return frozen(np.any([violation > 0 for violation in self.violations], axis=0), np.bool_)

    @cached_property
    def failing_groups(self) -> NDArray[np.bool_]:
        """Whether a published class holds a base class that fails, one per published class."""
        groups = np.zeros(self.shown.grouping.n_classes, dtype=np.bool_)
        groups[self.shown.grouping.class_of[self.fails]] = True
        return frozen(groups, np.bool_)

    @property
    def is_certified(self) -> bool:
        """Whether every promise is kept in every base class."""
        return not self.fails.any()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Which promises are broken, and by how many base classes; no values."""
        return tuple(
            promise.words(violation)
            for promise, violation in zip(self.promises, self.violations, strict=True)
            if violation.any()
        )


def certify(promises: Sequence[Promise], shown: Shown) -> Verdict:
    """Checks one release (Theorems E and G). Exact: it counts, nothing is estimated.

    Args:
        promises: What is promised, about the same base classes.
        shown: What the release shows.

    >>> from elldelta.core.promises import Shown, Values
    >>> from elldelta.core.partition import Partition
    >>> values = Values.of([[0, 1, 2], [1, 2, 3]], 4, ell=2, releases=1)
    >>> certify([values], Shown.of([[5, 1, 0, 0], [0, 3, 0, 0]])).fails.tolist()
    [False, True]
    >>> certify([values], Shown.of([[5, 1, 0, 0], [0, 3, 0, 1]], Partition.single(2))).is_certified
    True
    """
    check_shown(promises, shown)
    return Verdict(tuple(promises), shown, tuple(promise.violation(shown) for promise in promises))


def check_shown(promises: Sequence[Promise], shown: Shown) -> None:
    """Refuses counts that are not about the sensitive columns of promises."""
    n_values = max((promise.values.stop for promise in promises), default=0)
    if shown.counts.shape[1] != n_values:
        raise ParameterError(
            f"The plan has {counted(n_values, 'sensitive value')}.",
            found=f"The table of counts has {counted(shown.counts.shape[1], 'column')}.",
        )
    slices = {(promise.values.start, promise.values.stop) for promise in promises}
    first, *others = (shown.counts[:, begin:end].sum(axis=1) for begin, end in sorted(slices))
    if any((first != sizes).any() for sizes in others):
        raise ParameterError(
            "Every record has one value in every sensitive column.",
            found="Some columns hold more records.",
        )
