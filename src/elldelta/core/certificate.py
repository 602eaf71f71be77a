"""Certificates: a release that any t - 1 others of its kind can be linked with, for certain (Theorem E).

A plan fixes base classes, witness values A_c and allowances b_c with t b_c <= a_c - ell. A release publishes
disjoint unions of base classes. It is certified if every published class with a record misses at most b_c of
the values of A_c, for every base class c inside it, also for those without a record of their own, if it is
close to the reference of each of them, where closeness is promised (Theorem G), and if it holds at least k
records. No distribution enters: the owner checks its own counts, alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_ell, check_releases, check_whole
from elldelta.core.distribution import frozen
from elldelta.core.diversity import as_count_table
from elldelta.core.partition import Partition, sum_by_class
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.closeness import ClosenessTerms
    from elldelta.core.several import Terms

LATER = (
    "The same people may be published under this plan at a later size or date that was announced beforehand. "
    "Whatever else is published of them now tells that this attempt failed."
)
"""All that a refusal offers."""


@dataclass(frozen=True, eq=False)
class CertificateTerms:
    """What a certified release must show: per base class the witnesses and how many of them may be missing.

    Attributes:
        membership: R x |S|: whether a value is in A_c, read-only.
        allowances: b_c, one per base class, read-only.
        ell: How many values survive the linkage.
        releases: t, how many certified releases may be linked.
        min_records: r: a witness counts as present only with at least r records in the published class. The
            linkage then leaves ell values with at least r linked records each.
        moves: Per base class the number of the classes among which somebody may move, who then have the same
            witnesses and allowance (Theorem H), read-only; None: nobody moves.
        closeness: How close to its references a release must stay, if that is promised. By itself it leaves
            at least one value, so that for ell = 1 no witnesses are needed.
        name: The sensitive column it is about, where there are several.
        k: The fewest records of a published class that has any. Witnesses alone make sure of ell x r.
    """

    membership: NDArray[np.bool_]
    allowances: NDArray[np.int64]
    ell: int
    releases: int
    min_records: int = 1
    moves: NDArray[np.int64] | None = None
    closeness: ClosenessTerms | None = None
    name: str = ""
    k: int = 1

    def __post_init__(self) -> None:
        membership = frozen(self.membership, np.bool_, copy=True)
        allowances = frozen(self.allowances, np.int64, copy=True)
        if membership.ndim != 2 or membership.size == 0 or allowances.shape != membership.shape[:1]:
            raise ParameterError(
                "A certificate needs witnesses and one allowance for every base class.",
                found=f"Shapes {membership.shape} and {allowances.shape}.",
            )
        ell = check_ell(self.ell, membership.shape[1])
        releases = check_releases(self.releases)
        min_records = check_whole("the number of records of a witness", self.min_records)
        k = check_whole("the fewest records of a class, k,", self.k)
        spare = membership.sum(axis=1) - ell
        if self.closeness is not None:
            if self.closeness.references.shape != membership.shape:
                raise ParameterError(
                    "Witnesses and references are about other classes or values.",
                    found=f"Shapes {membership.shape} and {self.closeness.references.shape}.",
                )
            if ell == 1:
                spare = np.maximum(spare, 0)
        # Python's whole numbers, not numpy's: t b must not wrap around for an absurdly large t.
        too_large = sum(
            b < 0 or releases * b > room
            for b, room in zip(allowances.tolist(), spare.tolist(), strict=True)
        )  # fmt: skip
        if too_large:
            raise ParameterError(
                "Allowances must not be negative, and t of them must leave ell of the witnesses "
                "(t b_c <= a_c - ell).",
                found=f"{too_large} of {allowances.size} base classes break this "
                f"for ell = {ell} and t = {releases}.",
                remedy="Use the allowances of the plan.",
            )
        if self.moves is not None:
            object.__setattr__(self, "moves", _common(self.moves, membership, allowances))
        object.__setattr__(self, "membership", membership)
        object.__setattr__(self, "allowances", allowances)
        object.__setattr__(self, "ell", ell)
        object.__setattr__(self, "releases", releases)
        object.__setattr__(self, "min_records", min_records)
        object.__setattr__(self, "k", k)

    @classmethod
    def from_lists(
        cls,
        witnesses: Sequence[Sequence[int]],
        n_values: int,
        *,
        ell: int,
        releases: int,
        allowances: ArrayLike | None = None,
        min_records: int = 1,
        moves: NDArray[np.int64] | None = None,
        closeness: ClosenessTerms | None = None,
        k: int = 1,
    ) -> CertificateTerms:
        """The terms of a plan file: the witness values of every base class, as positions.

        Allowances that are not given are the largest that t releases can share, floor((a_c - ell) / t).
        """
        n_values = check_whole("the number of sensitive values", n_values)
        releases = check_releases(releases)
        lengths = np.array([len(values) for values in witnesses], dtype=np.int64)
        positions = np.fromiter(chain.from_iterable(witnesses), np.int64, lengths.sum())
        if positions.size and not 0 <= positions.min() <= positions.max() < n_values:
            raise ParameterError(
                f"Witness values must be positions from 0 to {n_values - 1}.",
                found="At least one is outside.",
            )
        membership = np.zeros((lengths.size, n_values), dtype=np.bool_)
        membership[np.repeat(np.arange(lengths.size), lengths), positions] = True
        if allowances is None:
            allowances = np.maximum(0, membership.sum(axis=1) - ell) // min(releases, n_values + 1)
        return cls(membership, np.asarray(allowances), ell, releases, min_records, moves, closeness, k=k)

    @property
    def n_classes(self) -> int:
        """The number of base classes, R."""
        return int(self.membership.shape[0])

    @property
    def n_values(self) -> int:
        """The number of sensitive values, |S|."""
        return int(self.membership.shape[1])

    @property
    def parts(self) -> tuple[CertificateTerms, ...]:
        """The terms of every sensitive column: of this one (`elldelta.core.several` has those of several)."""
        return (self,)

    @property
    def columns(self) -> tuple[slice, ...]:
        """Where the values of every sensitive column stand."""
        return (slice(0, self.n_values),)

    @property
    def of_column(self) -> str:
        """Which column's values are meant, for sentences; nothing where there is one."""
        return f" of {self.name!r}" if self.name else ""

    @property
    def n_needed(self) -> int:
        """The witnesses that must survive: none where closeness is all that is promised."""
        return 0 if self.closeness is not None and self.ell == 1 else self.ell

    @cached_property
    def n_witnesses(self) -> NDArray[np.int64]:
        """a_c, one per base class."""
        return frozen(self.membership.sum(axis=1), np.int64)

    def check_counts(self, counts: ArrayLike) -> NDArray[np.int64]:
        """Returns an owner's records by base class and value, R x |S|, or raises."""
        table = as_count_table(counts)
        if table.shape != self.membership.shape:
            raise ParameterError(
                f"The plan has {self.n_classes} base classes and {self.n_values} sensitive values.",
                found=f"The count table has the shape {table.shape}.",
            )
        return table

    def check_grouping(self, grouping: Partition | None) -> Partition:
        """Returns a grouping of the base classes into published classes (None: each by itself)."""
        if grouping is None:
            return Partition(np.arange(self.n_classes))
        if grouping.n_quasi_identifiers != self.n_classes:
            raise ParameterError(
                f"The plan has {self.n_classes} base classes.",
                found=f"The grouping is about {grouping.n_quasi_identifiers}.",
            )
        return grouping


@dataclass(frozen=True, eq=False)
class Certificate:
    """The verdict on one release, base class by base class.

    Attributes:
        terms: What was asked.
        grouping: The published class of every base class.
        counts: Records by published class and value; zero where records are suppressed.
        suppressed: Whether the records of a published class are left out, one per published class.
        n_suppressed: How many records are left out.
        missed: M(c), R x |S|: the values of A_c that the published class of c does not show. Nothing is
            missed where the published class has no record: nobody is there who could be linked.
        distances_upper: E, one per base class: how far the published class of c is from the reference of c,
            with what other releases have used. None if closeness is not promised.
        too_far: Whether E exceeds its limit, one per base class, exactly.
        too_small: Whether the published class of c holds records, but fewer than k, one per base class.
    """

    terms: CertificateTerms
    grouping: Partition
    counts: NDArray[np.int64]
    suppressed: NDArray[np.bool_]
    n_suppressed: int
    missed: NDArray[np.bool_]
    distances_upper: NDArray[np.float64] | None
    too_far: NDArray[np.bool_]
    too_small: NDArray[np.bool_]

    @cached_property
    def misses_too_many(self) -> NDArray[np.bool_]:
        """Whether a base class misses more witnesses than its allowance, one per base class."""
        return frozen(self.n_missed > self.terms.allowances, np.bool_)

    @cached_property
    def fails(self) -> NDArray[np.bool_]:
        """Whether a base class misses too many witnesses, is too far from its reference or too small."""
        return frozen(self.misses_too_many | self.too_far | self.too_small, np.bool_)

    @property
    def is_certified(self) -> bool:
        """Whether no base class fails: then Theorems E and G hold for this release, and every class has k."""
        return not self.fails.any()

    @property
    def reasons(self) -> tuple[str, ...]:
        """How many base classes fail, and which promise they would break; no values."""
        n_missing, n_far = int(self.misses_too_many.sum()), int(self.too_far.sum())
        said = []
        if n_missing:
            excess = int((self.n_missed - self.terms.allowances).max())
            of = self.terms.of_column
            said.append(f"{n_missing} miss more witness values{of} than they may, by up to {excess}")
        if n_far and self.distances_upper is not None and self.terms.closeness is not None:
            limit = float(self.terms.closeness.limit)
            furthest = float(self.distances_upper.max())
            where = f" in {self.terms.name!r}" if self.terms.name else ""
            said.append(
                f"{n_far} are{where} up to {furthest:.3g} from their references, and may be {limit:.3g}"
            )
        if self.too_small.any():
            said.append(f"{int(self.too_small.sum())} hold fewer than {self.terms.k} records")
        return tuple(said)

    @property
    def broken_promise(self) -> str:
        """What a release that fails could do, in words: linked with others, or by itself."""
        fewer = f"show fewer than {self.terms.ell} values{self.terms.of_column}"
        further = "lead further away from what the plan says than was promised"
        smaller = f"show a class of fewer than {self.terms.k} records"
        parts = (
            (self.misses_too_many.any(), fewer),
            (self.too_far.any(), further),
            (self.too_small.any(), smaller),
        )
        return ", and ".join(words for is_so, words in parts if is_so)

    @cached_property
    def n_missed(self) -> NDArray[np.int64]:
        """How many witnesses are missing, one per base class."""
        return frozen(self.missed.sum(axis=1), np.int64)

    @cached_property
    def published(self) -> NDArray[np.bool_]:
        """Whether a published class has a record, one per published class."""
        return frozen(self.counts.any(axis=1), np.bool_)

    @property
    def n_published(self) -> int:
        """Published classes with at least one record."""
        return int(self.published.sum())

    @cached_property
    def failing_groups(self) -> NDArray[np.bool_]:
        """Whether a published class holds a base class that fails, one per published class."""
        groups = np.zeros(self.grouping.n_classes, dtype=np.bool_)
        groups[self.grouping.class_of[self.fails]] = True
        return frozen(groups, np.bool_)

    @property
    def n_records(self) -> int:
        """Records that the release shows."""
        return int(self.counts.sum())


def certify(
    counts: ArrayLike,
    terms: CertificateTerms,
    grouping: Partition | None = None,
    suppressed: ArrayLike | None = None,
) -> Certificate:
    """Checks one release (Theorems E and G). Exact: it counts, nothing is estimated.

    Args:
        counts: The owner's records by base class and sensitive value, R x |S|.
        terms: What the plan asks.
        grouping: The published class of every base class; None publishes every base class by itself.
        suppressed: Published classes whose records are left out, one bool each; such a class has no record
            and imposes nothing.

    Returns:
        The verdict. Any t releases with `is_certified`, of any owners, linked in any way, leave at least ell
        values for every quasi-identifier that lies in a class with a record in each of them.

    >>> terms = CertificateTerms.from_lists([[0, 1, 2], [1, 2, 3]], 4, ell=2, releases=1)
    >>> certify([[5, 1, 0, 0], [0, 3, 0, 0]], terms).fails.tolist()
    [False, True]
    >>> certify([[5, 1, 0, 0], [0, 3, 0, 1]], terms, Partition.single(2)).is_certified
    True
    """
    table = terms.check_counts(counts)
    grouping = terms.check_grouping(grouping)
    shown = sum_by_class(table, grouping)
    left_out = np.zeros(grouping.n_classes, dtype=np.bool_)
    if suppressed is not None:
        left_out = frozen(suppressed, np.bool_, copy=True)
        if left_out.shape != (grouping.n_classes,):
            raise ParameterError(
                f"There are {grouping.n_classes} published classes.",
                found=f"Suppression is told for {left_out.shape[0] if left_out.ndim else 'none'}.",
            )
    n_suppressed = int(shown[left_out].sum())
    shown[left_out] = 0
    return certify_shown(shown, terms, grouping, left_out, n_suppressed)


def certify_shown(
    shown: NDArray[np.int64],
    terms: CertificateTerms,
    grouping: Partition,
    suppressed: NDArray[np.bool_] | None = None,
    n_suppressed: int = 0,
) -> Certificate:
    """The verdict on what published classes show, also if nothing else is known of the release.

    Args:
        shown: Records by published class and value; none where records are left out.
        terms: What the plan asks.
        grouping: The published class of every base class.
        suppressed: Published classes whose records are left out, if that is known.
        n_suppressed: How many records that are.
    """
    left_out = np.zeros(grouping.n_classes, dtype=np.bool_) if suppressed is None else suppressed
    closeness = terms.closeness
    distances = None if closeness is None else closeness.distances_upper(shown, grouping)
    too_far = np.zeros(terms.n_classes) if closeness is None else closeness.is_too_far(shown, grouping)
    sizes = shown.sum(axis=1)
    is_small = (sizes > 0) & (sizes < terms.k)
    return Certificate(
        terms=terms,
        grouping=grouping,
        counts=frozen(shown, np.int64, copy=True),
        suppressed=frozen(left_out, np.bool_),
        n_suppressed=n_suppressed,
        missed=frozen(missing_witnesses(shown, terms, grouping), np.bool_),
        distances_upper=None if distances is None else frozen(distances, np.float64),
        too_far=frozen(too_far, np.bool_),
        too_small=frozen(is_small[grouping.class_of], np.bool_),
    )


def missing_witnesses(shown: NDArray[np.int64], terms: Terms, grouping: Partition) -> NDArray[np.bool_]:
    """M(c), R x |S|, from what the published classes show."""
    absent = (shown < terms.min_records) & shown.any(axis=1, keepdims=True)
    missed: NDArray[np.bool_] = terms.membership & absent[grouping.class_of]
    return missed


def _common(
    moves: NDArray[np.int64], membership: NDArray[np.bool_], allowances: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the classes among which people move, or refuses terms that these do not have in common."""
    own: NDArray[np.int64] = frozen(moves, np.int64, copy=True)
    if own.shape == allowances.shape and own.min() >= 0:
        _, first, number = np.unique(own, return_index=True, return_inverse=True)
        example = first[number]
        if (membership == membership[example]).all() and (allowances == allowances[example]).all():
            return own
    raise ParameterError(
        "Classes among which people move must have their witnesses and their allowance in common.",
        found="They have not, or it is not told which classes these are.",
    )
