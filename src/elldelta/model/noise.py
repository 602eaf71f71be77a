"""Noise for the people in the past: what differential privacy promises them, and OpenDP's measurements.

Everything that is read of the counts is read through a measurement of `_Measured`, which adds up what each
one costs. What is made of the noisy numbers afterwards costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from elldelta.core.checks import check_real, check_whole
from elldelta.engines import Table, sql
from elldelta.errors import InternalError, ParameterError, RefusedError, counted
from elldelta.model.counts import Accounting, Counts
from elldelta.model.persons import check_person, person_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema

Mechanism = Literal["cells", "keys"]

PARTS = 16
"""Cells of a protected model are counted in sixteenths of a record."""

MOST_NOISED = 1 << 20
"""Tables with more cells are not noised cell by cell."""

MOST_ROWS = 1000
"""Records of a person that are counted at most."""

SHARE_OF_TOTAL = 0.02
"""The share of epsilon that the number of records costs; the cells cost the rest."""


@dataclass(frozen=True)
class Protection:
    """What was done to protect the past records of one estimate, and what it promises.

    Attributes:
        epsilon: What everything that was measured costs together.
        delta: The chance at which that may fail; 0 except for a set of keys.
        unit: Whose presence is hidden: one "record", or one "person" with all records.
        most_rows: How many records of a person were counted at most; 1 for a record.
        mechanism: "cells": noise on every cell; "keys": on the cells with a record, and only those above a
            threshold are shown.
        records: The number of past records, with noise.
        steps: What was measured, and its epsilon.
    """

    epsilon: float
    delta: float
    unit: Literal["record", "person"]
    most_rows: int
    mechanism: Mechanism
    records: int
    steps: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_whole("the number of records", self.records)
        check_whole("the number of records of a person", self.most_rows)
        steps = tuple((str(name), float(cost)) for name, cost in self.steps)
        object.__setattr__(self, "steps", steps)
        spent = sum(Fraction(cost) for _, cost in steps)
        if (
            self.mechanism not in get_args(Mechanism)
            or self.unit not in ("record", "person")
            or not 0.0 <= self.delta < 1.0
            or spent > Fraction(self.epsilon)
        ):
            raise ParameterError("What is said about the protection of the past contradicts itself.")

    @property
    def words(self) -> str:
        """What it promises, in words."""
        who = (
            "Nobody can tell from it whether any one record was among the past records"
            if self.unit == "record"
            else "Nobody can tell from it whether any one person was among those of the past, with "
            f"{rows_of(self.most_rows)} at most"
        )
        chance = f" and delta {self.delta:g}" if self.delta else ""
        return (
            f"{who}, beyond epsilon {self.epsilon:g}{chance} (differential privacy): no result becomes more "
            f"than {math.exp(self.epsilon):.3g} times as likely by it."
        )

    def to_dict(self) -> dict[str, Any]:
        """The protection as plain JSON values."""
        return {**asdict(self), "steps": [list(step) for step in self.steps]}


def promise_to_the_past(protections: Sequence[Protection]) -> str:
    """The second promise of a plan: to the people in the past records."""
    if len(protections) == 1:
        return f"To the people in the past records: {protections[0].words}"
    epsilons = [protection.epsilon for protection in protections]
    deltas = sum(protection.delta for protection in protections)
    chance = f", delta {deltas:g}" if deltas else ""
    rows = max(protection.most_rows for protection in protections)
    unit = (
        "record"
        if all(protection.unit == "record" for protection in protections)
        else f"person with {rows_of(rows)} at most"
    )
    return (
        f"To the people in the past records of {len(protections)} estimates: each was protected by "
        f"differential privacy before it was merged, with epsilon {_listed(epsilons)}. One {unit} in only "
        f"one of them has that one's; who is in all of them has their sum, {sum(epsilons):g}{chance}."
    )


ADDS_UP = (
    "It adds up: every other estimate from the same records, and of other owners who know the same people, "
    "costs its epsilon again. Releases of owners are not covered by it."
)
"""What nobody may forget about it."""


def check_epsilon(epsilon: float) -> float:
    """A sensible epsilon."""
    return check_real(
        epsilon,
        lambda value: 0.0 < value <= 100.0,
        "epsilon must lie above 0, and not above 100.",
        "Useful values are 0.1 to 3; beyond 10 little is protected.",
    )


def check_protection(epsilon: float | None, delta: float | None, *, domains_are_public: bool) -> None:
    """Refuses, before anything is read, what would protect nobody.

    Raises:
        ParameterError: A delta without an epsilon, or one out of range.
        RefusedError: Nobody has said that the domains are public.
    """
    if epsilon is None:
        if delta is not None:
            raise ParameterError(
                "The delta of differential privacy needs an epsilon.",
                remedy="Give an epsilon, too.",
                parameter=("epsilon", "delta_dp"),
            )
        return
    check_epsilon(epsilon)
    if delta is not None:
        check_real(delta, lambda value: 0.0 < value < 0.1, "The delta of noise must lie between 0 and 0.1.")
    if not domains_are_public:
        raise RefusedError(
            "The values in the schema may come from the records that are to be protected.",
            found="A schema that was inferred from records shows their rarest values, the ends of their "
            "numbers and the edges of their bins, and no noise hides that.",
            remedy="Declare the values yourself, or infer the schema from a public table. Then say that they "
            "are public.",
            parameter="domains_are_public",
        )
    opendp()


def opendp() -> ModuleType:
    """The library that draws the noise, if it is installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ParameterError(
            "Noise needs a library that is not installed.",
            found="opendp was not found.",
            remedy="Install it with: pip install 'elldelta[dp]'.",
        ) from None
    dp.enable_features("contrib")
    return dp


def rows_of(n: int) -> str:
    """A number of records, in words."""
    return "one record" if n == 1 else counted(n, "record")


def _listed(numbers: Sequence[float]) -> str:
    return " and ".join(", ".join(f"{number:g}" for number in numbers).rsplit(", ", 1))


def with_fewer_rows(table: Table, schema: Schema, person: str, most: int) -> Table:
    """The table with at most so many records of every person, chosen by that person's records alone.

    Records that name nobody are left out: they may be anybody's.
    """
    check_whole("the number of records of a person", most, 1, MOST_ROWS)
    check_person(person, schema.columns)
    names = [column.name for column in schema.counted_columns]
    table.require([person, *names])
    table.check_all_read()
    who = person_key(table, person)  # as persons are told apart everywhere: no text for nobody, no spaces
    return replace(table, relation=sql.few_rows_each(table.relation, who, names, most), n_rows=None)


def scaled(counts: Counts, total: Fraction) -> Counts:
    """The counts in such parts that they add up to a total, nearly."""
    factor = total / counts.n_records
    if factor == 1:
        return counts
    n = np.maximum(1, np.rint(counts.n * float(factor))).astype(np.int64)
    whole = int(n.sum())
    ranks = counts.ranks[counts.rows]
    return Counts.from_cells(counts.schema, ranks, counts.values, n, Accounting(whole, whole))


def protected(
    counts: Counts,
    epsilon: float,
    delta: float | None = None,
    *,
    unit: Literal["record", "person"] = "record",
    most_rows: int = 1,
) -> tuple[Counts, Protection]:
    """Counts that may be shown to anybody, made from noisy measurements of the true ones.

    With a delta, all cells with a record are noised and those above a threshold shown. Without, noise is put
    on every cell of the domain.
    """
    schema = counts.schema
    _check_domain(schema, delta)
    n_cells = schema.n_combinations * schema.n_values
    measured = _Measured(check_epsilon(epsilon), most_rows)
    ((total,), total_variance) = measured.noised(
        "number of records", np.array([counts.n.sum()]), SHARE_OF_TOTAL
    )
    n_records = max(1, int(total))
    rest = 1.0 - SHARE_OF_TOTAL
    keys = counts.ranks[counts.rows] * schema.n_values + counts.values
    mechanism: Mechanism
    if delta is not None:
        mechanism = "keys"
        cells, noisy = measured.kept(keys, counts.n, rest, delta)
    else:
        mechanism = "cells"
        whole = np.zeros(n_cells, dtype=np.int64)
        np.add.at(whole, keys, counts.n)
        noisy, variance = measured.noised("every cell", whole, rest)
        cells = np.arange(n_cells)
        # Two noisy totals: each counts for as much as it is exact.
        weight = total_variance / (total_variance + n_cells * variance)
        n_records = max(1, round(weight * int(noisy.sum()) + (1.0 - weight) * int(total)))
    noisy = np.rint(projected(noisy.astype(np.float64), float(n_records)) * PARTS).astype(np.int64)
    is_there = noisy > 0
    if not is_there.any():
        raise RefusedError(
            "Nothing is left of the past records beneath the noise.",
            found=f"epsilon is {epsilon:g}, for {rows_of(most_rows)} of everybody.",
            remedy="Estimate from more records, with a larger epsilon, or merge models of several owners.",
        )
    cells, noisy = cells[is_there], noisy[is_there]
    n = int(noisy.sum())
    done = Protection(epsilon, delta or 0.0, unit, most_rows, mechanism, n_records, tuple(measured.steps))
    ranks, values = cells // schema.n_values, cells % schema.n_values
    return Counts.from_cells(schema, ranks, values, noisy, Accounting(n, n)), done


def _check_domain(schema: Schema, delta: float | None) -> None:
    """Refuses a schema on whose cells noise cannot be put."""
    if schema.also_sensitive:
        # A record is then in several cells of the table, one for each column: it changes more than 1.
        raise ParameterError(
            "Noise is put on counts of one sensitive column.",
            found=f"The schema has {len(schema.sensitives)}.",
            remedy="Estimate a model for each of them; their epsilons add up.",
        )
    n_cells = schema.n_combinations * schema.n_values
    if delta is None and n_cells > MOST_NOISED:
        raise ParameterError(
            "The domain has too many cells for noise on each of them.",
            found=f"{counted(schema.n_combinations, 'combination')} of "
            f"{counted(schema.n_values, 'value')} each.",
            remedy="Give a delta for the noise, such as 1e-6: then only what occurs is noised. Or use wider "
            "ranges, coarser dates or fewer columns.",
            parameter="delta_dp",
        )
    if n_cells >= 2**63:
        raise ParameterError("There are too many combinations.", remedy="Use wider ranges.")


def projected(noisy: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest table without negative cells that adds up to a total (least squares).

    The same amount is taken off every cell, and what falls below 0 stays at 0: small noisy cells vanish.

    >>> projected(np.array([6.0, 3.0, -1.0]), 7.0).tolist()
    [5.0, 2.0, 0.0]
    """
    if total <= 0.0 or not noisy.size:
        return noisy * 0.0
    flat = np.sort(noisy.ravel())[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    nearest: NDArray[np.float64] = np.maximum(noisy - excess[np.flatnonzero(flat > excess)[-1]], 0.0)
    return nearest


class _Measured:
    """The measurements of one estimate: each is OpenDP's, and costs what OpenDP says, together epsilon.

    The distance of neighbours is the number of rows that one record or one person can have in any table.
    """

    def __init__(self, epsilon: float, most_rows: int) -> None:
        self._dp = opendp()
        self._epsilon, self._rows = epsilon, most_rows
        self.steps: list[tuple[str, float]] = []

    def noised(self, name: str, table: NDArray[np.int64], share: float) -> tuple[NDArray[np.int64], float]:
        """A table of counts with discrete Laplace noise on every cell, and the variance of the noise."""
        dp = self._dp
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        scale = self._scale(lambda scale: dp.m.make_laplace(*space, scale=scale).map(self._rows), share)
        noise = dp.m.make_laplace(*space, scale=scale)
        self._spend(name, noise.map(self._rows))
        ratio = math.exp(-1.0 / scale)
        noisy = np.array(noise(table.ravel().tolist()), dtype=np.int64).reshape(table.shape)
        return noisy, 2.0 * ratio / (1.0 - ratio) ** 2

    def kept(
        self, keys: NDArray[np.int64], n: NDArray[np.int64], share: float, delta: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells whose noisy number of records is above a threshold, and these numbers."""
        dp = self._dp
        space = (
            dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64")),
            dp.l01inf_distance(dp.absolute_distance(T="i64")),
        )
        near = (self._rows, self._rows, self._rows)  # cells that change, by how much together, by how much

        def made(scale: float, threshold: int) -> Any:  # noqa: ANN401 (OpenDP's)
            return dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)

        scale = self._scale(lambda scale: made(scale, _HUGE).map(near)[0], share)
        cost = made(scale, _HUGE).map(near)[0]
        threshold = dp.binary_search_param(
            lambda threshold: made(scale, threshold), d_in=near, d_out=(cost, delta), T=int
        )
        noise = made(scale, threshold)
        self._spend("cells that occur", noise.map(near)[0])
        shown = noise(dict(zip(keys.tolist(), n.tolist(), strict=True)))
        found = sorted(shown.items())
        return tuple(np.array([item[place] for item in found], np.int64) for place in (0, 1))  # type: ignore[return-value]

    def _scale(self, cost: Callable[[float], float], share: float) -> float:
        """The scale whose cost, by OpenDP's own account, is a share of epsilon, and not above it."""
        wanted = share * self._epsilon * _BELOW
        scale = cost(1.0) / wanted  # the cost falls as the scale grows, up to rounding
        while cost(scale) > wanted:
            scale *= 1.0 + 1e-12
        return scale

    def _spend(self, name: str, cost: float) -> None:
        """Adds up exactly; the last digits of a float are no excuse."""
        self.steps.append((name, float(cost)))
        if sum(Fraction(cost) for _, cost in self.steps) > Fraction(self._epsilon):
            raise InternalError("More was measured than epsilon allows.")


_HUGE = 1 << 60
"""A threshold that decides nothing: what is left is what the noise costs."""

_BELOW = 1.0 - 1e-9
"""Shares stay so far below, so that their sum is never above epsilon by rounding."""
