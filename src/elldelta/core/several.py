"""Several sensitive columns side by side: one certificate for each, one grouping for all.

Where releases do not tell which values of different columns belong to one person, linking crosses out the
values of each column by itself. So a release is certified if it is certified for every column, and a ledger
admits it if it does so for every column. A table of counts has the values of the first column, then those of
the next; every record counts once in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import Certificate, CertificateTerms
from elldelta.core.certificate import certify as certify_column
from elldelta.core.certificate import certify_shown as certify_column_shown
from elldelta.core.distribution import frozen
from elldelta.core.ledger_state import LedgerState
from elldelta.core.updates import Series
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.ledger_state import Shown
    from elldelta.core.partition import Partition
    from elldelta.core.updates import Update


@dataclass(frozen=True, eq=False)
class JointTerms:
    """What a release with several sensitive columns must show.

    Attributes:
        parts: The terms of every column; all about the same base classes and the same number of releases.
    """

    parts: tuple[CertificateTerms, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if len({(part.n_classes, part.releases, part.min_records, part.k) for part in self.parts}) != 1:
            raise ParameterError(
                "Sensitive columns of one plan share base classes, releases, records per witness and k.",
                found=f"There are {len(self.parts)} columns, and they differ.",
            )

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """Where the values of every column stand."""
        ends = accumulate(part.n_values for part in self.parts)
        return tuple(slice(stop - part.n_values, stop) for stop, part in zip(ends, self.parts, strict=True))

    @property
    def n_classes(self) -> int:
        """The number of base classes, R."""
        return self.parts[0].n_classes

    @property
    def n_values(self) -> int:
        """The number of values of all columns."""
        return sum(part.n_values for part in self.parts)

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """R x |S|: whether a value of any column is a witness, read-only."""
        return frozen(np.concatenate([part.membership for part in self.parts], axis=1), np.bool_)

    @property
    def min_records(self) -> int:
        """r: a witness counts as present only with at least r records in the published class."""
        return self.parts[0].min_records

    @property
    def k(self) -> int:
        """The fewest records of a published class that has any."""
        return self.parts[0].k

    def split(self, table: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """A table over all values, cut into those of every column."""
        return [np.ascontiguousarray(table[..., own]) for own in self.columns]

    def check_counts(self, counts: ArrayLike) -> NDArray[np.int64]:
        """Returns an owner's records by base class and value, or raises."""
        table = np.asarray(counts)
        if table.ndim != 2 or table.shape[1] != self.n_values:
            raise ParameterError(
                f"The plan has {self.n_classes} base classes and {self.n_values} sensitive values.",
                found=f"The count table has the shape {table.shape}.",
            )
        checked = [part.check_counts(own) for own, part in zip(self.split(table), self.parts, strict=True)]
        return self.check_shown(np.concatenate(checked, axis=1))

    def check_shown(self, shown: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns records by class and value, or refuses a table with more records in one of the columns."""
        first, *others = [own.sum(axis=1) for own in self.split(shown)]
        if any((first != own).any() for own in others):
            raise ParameterError(
                "Every record has one value in every sensitive column.",
                found="Some columns hold more records.",
            )
        return shown

    def check_grouping(self, grouping: Partition | None) -> Partition:
        """Returns a grouping of the base classes into published classes (None: each by itself)."""
        return self.parts[0].check_grouping(grouping)


@dataclass(frozen=True, eq=False)
class JointCertificate:
    """The verdict on one release, for every sensitive column.

    Attributes:
        terms: What was asked.
        parts: The verdict on every column; all have the same grouping, and the same records left out.
    """

    terms: JointTerms
    parts: tuple[Certificate, ...]

    @property
    def grouping(self) -> Partition:
        """The published class of every base class."""
        return self.parts[0].grouping

    @property
    def suppressed(self) -> NDArray[np.bool_]:
        """Whether the records of a published class are left out, one per published class."""
        return self.parts[0].suppressed

    @property
    def n_suppressed(self) -> int:
        """How many records are left out."""
        return self.parts[0].n_suppressed

    @property
    def n_records(self) -> int:
        """Records that the release shows."""
        return self.parts[0].n_records

    @property
    def published(self) -> NDArray[np.bool_]:
        """Whether a published class has a record, one per published class."""
        return self.parts[0].published

    @property
    def n_published(self) -> int:
        """Published classes with at least one record."""
        return self.parts[0].n_published

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Records by published class and value."""
        return frozen(np.concatenate([part.counts for part in self.parts], axis=1), np.int64)

    @cached_property
    def missed(self) -> NDArray[np.bool_]:
        """The witnesses that the published class of each base class does not show."""
        return frozen(np.concatenate([part.missed for part in self.parts], axis=1), np.bool_)

    @cached_property
    def fails(self) -> NDArray[np.bool_]:
        """Whether a base class fails in any column."""
        return frozen(np.any([part.fails for part in self.parts], axis=0), np.bool_)

    @cached_property
    def misses_too_many(self) -> NDArray[np.bool_]:
        """Whether a base class misses more witnesses of any column than it may."""
        return frozen(np.any([part.misses_too_many for part in self.parts], axis=0), np.bool_)

    @cached_property
    def too_far(self) -> NDArray[np.bool_]:
        """Whether a base class is too far from its reference in any column."""
        return frozen(np.any([part.too_far for part in self.parts], axis=0), np.bool_)

    @property
    def too_small(self) -> NDArray[np.bool_]:
        """Whether the published class of a base class holds records, but fewer than k."""
        return self.parts[0].too_small

    @property
    def is_certified(self) -> bool:
        """Whether no base class fails in any column."""
        return not self.fails.any()

    @cached_property
    def failing_groups(self) -> NDArray[np.bool_]:
        """Whether a published class holds a base class that fails, one per published class."""
        return frozen(np.any([part.failing_groups for part in self.parts], axis=0), np.bool_)

    @property
    def reasons(self) -> tuple[str, ...]:
        """How many base classes fail, and which promise they would break; no values."""
        return tuple(dict.fromkeys(reason for part in self.parts for reason in part.reasons))

    @property
    def broken_promise(self) -> str:
        """What a release that fails could do when it is linked, in words."""
        return ", and ".join(
            dict.fromkeys(part.broken_promise for part in self.parts if not part.is_certified)
        )


@dataclass(frozen=True, eq=False)
class JointState:
    """What all releases of a plan together leave, for every sensitive column.

    Attributes:
        parts: What they leave of every column (Theorems F, G and I, each by itself).
    """

    parts: tuple[LedgerState, ...]

    @cached_property
    def terms(self) -> JointTerms:
        """What the plan asks."""
        return JointTerms(tuple(part.terms for part in self.parts))

    @property
    def n_releases(self) -> int:
        """How many releases were admitted."""
        return self.parts[0].n_releases

    @property
    def missed(self) -> NDArray[np.bool_]:
        """Witnesses that at least one admitted release does not show, R x |S|."""
        return np.concatenate([part.missed for part in self.parts], axis=1)

    @property
    def series(self) -> Series:
        """What owners have changed in tables that they published again, over the values of all columns."""
        first, *others = [part.series for part in self.parts]
        updates = {
            owner: [
                own.beside(same)
                for own, *same in zip(
                    first.updates[owner], *(each.updates[owner] for each in others), strict=True
                )
            ]
            for owner in first.updates
        }
        return Series(updates)

    def admits(self, misses: NDArray[np.bool_], shown: Shown | None = None) -> bool:
        """Whether every column would still keep its promise with one more release."""
        return all(part.admits(own, seen) for part, own, seen in self._apart(misses, shown))

    def admit(self, misses: NDArray[np.bool_], shown: Shown | None = None) -> JointState:
        """The state with one more release.

        Raises:
            RefusedError: A column would no longer keep its promise; the error names it.
        """
        return JointState(tuple(part.admit(own, seen) for part, own, seen in self._apart(misses, shown)))

    def with_update(self, owner: str, update: Update) -> JointState:
        """The state in which an owner has changed its table so."""
        columns = zip(self.parts, self.terms.columns, strict=True)
        return JointState(tuple(part.with_update(owner, update.of(own)) for part, own in columns))

    def terms_left(self) -> JointTerms:
        """What the next release must show in every column to be admitted, as terms of a certificate."""
        return JointTerms(tuple(part.terms_left() for part in self.parts))

    def _apart(
        self, misses: NDArray[np.bool_], shown: Shown | None
    ) -> Iterator[tuple[LedgerState, NDArray[np.bool_], Shown | None]]:
        for part, own in zip(self.parts, self.terms.columns, strict=True):
            yield part, misses[:, own], None if shown is None else (shown[0][:, own], shown[1])


Terms = CertificateTerms | JointTerms
AnyCertificate = Certificate | JointCertificate
AnyState = LedgerState | JointState


def joint_state(parts: Iterable[LedgerState]) -> AnyState:
    """What releases leave of several columns, or of the only one."""
    found = tuple(parts)
    return found[0] if len(found) == 1 else JointState(found)


def joint(parts: Sequence[CertificateTerms]) -> Terms:
    """The terms of several columns, or of the only one."""
    return parts[0] if len(parts) == 1 else JointTerms(tuple(parts))


def certify(
    counts: ArrayLike,
    terms: Terms,
    grouping: Partition | None = None,
    suppressed: ArrayLike | None = None,
) -> AnyCertificate:
    """Checks one release (Theorems E and G), every sensitive column by itself; see `certificate.certify`."""
    if isinstance(terms, CertificateTerms):
        return certify_column(counts, terms, grouping, suppressed)
    tables = terms.split(terms.check_counts(counts))
    parts = [
        certify_column(own, part, grouping, suppressed) for own, part in zip(tables, terms.parts, strict=True)
    ]
    return JointCertificate(terms, tuple(parts))


def certify_shown(shown: NDArray[np.int64], terms: Terms, grouping: Partition) -> AnyCertificate:
    """The verdict on what published classes show, if nothing else is known of the release."""
    if isinstance(terms, CertificateTerms):
        return certify_column_shown(shown, terms, grouping)
    parts = [
        certify_column_shown(own, part, grouping)
        for own, part in zip(terms.split(shown), terms.parts, strict=True)
    ]
    return JointCertificate(terms, tuple(parts))
