"""Noise for the people in the past: counts with differential privacy, by OpenDP's measurements.

Everything that is read of the counts is read through a measurement of `_Measured`, which adds up what each
one costs. What is made of the noisy numbers afterwards costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.marginals import MarginalTree, evened, grouped, misfit, projected, raked, shrunk
from elldelta.engines import Table, sql
from elldelta.errors import InternalError, ParameterError, RefusedError
from elldelta.model.counts import Accounting, Counts
from elldelta.model.persons import check_person, person_key
from elldelta.model.protection import Mechanism, Protection, check_epsilon, opendp, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema

PARTS = 16
"""Cells of a protected model are counted in sixteenths of a record; fewer parts where there are many."""

MOST_DRAWN = 1 << 22
"""How many cells a model is drawn with at most."""

MOST_NOISED = 1 << 20
"""Tables with more cells are not noised cell by cell."""

MOST_GROUPS = 64
"""Groups of an attribute at most."""

MOST_ROWS = 1000
"""Records of a person that are counted at most."""

RECORDS_PER_CELL = 5.0
"""Noise on every cell is chosen if a cell has on average so many times the scale of its noise."""

RECORDS_PER_PAIR, RECORDS_PER_SINGLE = 6.0, 4.0
"""The same for tables of a pair of attributes and of a single one, with the sensitive column."""

FEWEST_GROUPS = 4
"""With fewer groups than this, tables of pairs are not worth their noise."""

LEAST = 1e-9
"""What a cell of a small table has at least, so that its margins can be fitted."""

SHARES: Mapping[str, float] = {"total": 0.02, "alone": 0.18, "choice": 0.05, "single": 0.25, "pairs": 0.5}
"""How epsilon is split between the number of records, attributes by themselves, the choice of pairs, tables
of one attribute and of two, each with the sensitive value. Without pairs, single ones get that too."""


def with_fewer_rows(table: Table, schema: Schema, person: str, most: int) -> Table:
    """The table with at most so many records of every person, chosen by that person's records alone.

    Records that name nobody are left out: they may be anybody's.
    """
    check_whole("the number of records of a person", most, 1, MOST_ROWS)
    check_person(person, schema.columns)
    names = [column.name for column in schema.counted_columns]
    table.require([person, *names])
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
    on every cell of the domain where records are many, and otherwise on small tables that are put together.
    """
    schema, random = counts.schema, np.random.default_rng(0)  # draws from what is noisy already
    if schema.also_sensitive:
        # A record is then in several cells of the table, one for each column: it changes more than 1.
        raise ParameterError(
            "Noise is put on counts of one sensitive column.",
            found=f"The schema has {len(schema.sensitives)}.",
            remedy="Estimate a model for each of them; their epsilons add up.",
        )
    measured = _Measured(check_epsilon(epsilon), most_rows)
    ((total,), total_variance) = measured.noised(
        "number of records", np.array([counts.n.sum()]), SHARES["total"]
    )
    n_records = max(1, int(total))
    n_cells = schema.n_combinations * schema.n_values
    rest = 1.0 - SHARES["total"]
    mechanism: Mechanism
    if delta is not None:
        mechanism = "keys"
        cells, noisy = measured.kept(counts, rest, delta)
    elif n_cells <= MOST_NOISED and n_records * rest * epsilon / (n_cells * most_rows) >= RECORDS_PER_CELL:
        mechanism = "cells"
        whole = _table(counts, range(len(schema.sizes))).ravel()
        noisy, variance = measured.noised("every cell", whole, rest)
        cells = np.arange(n_cells)
        # Two noisy totals: each counts for as much as it is exact.
        weight = total_variance / (total_variance + n_cells * variance)
        n_records = max(1, round(weight * int(noisy.sum()) + (1.0 - weight) * int(total)))
    else:
        mechanism = "marginals"
        tree = _Tree(counts, measured, n_records).grown()
        n_drawn = min(MOST_DRAWN, PARTS * n_records)
        positions, values = tree.draw(n_drawn, random)
        cells, noisy = np.unique(
            schema.ranks_of_columns(positions) * schema.n_values + values, return_counts=True
        )
    if mechanism != "marginals":
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


class _Measured:
    """The measurements of one estimate: each is OpenDP's, and costs what OpenDP says, together epsilon.

    The distance of neighbours is the number of rows that one record or one person can have in any table.
    """

    def __init__(self, epsilon: float, most_rows: int) -> None:
        self._dp = opendp()
        self._epsilon, self._rows = epsilon, most_rows
        self.epsilon_per_row = epsilon / most_rows
        self.steps: list[tuple[str, float]] = []

    def noised(self, name: str, table: NDArray[np.int64], share: float) -> tuple[NDArray[np.int64], float]:
        """A table of counts with discrete Laplace noise on every cell, and the variance of the noise."""
        if table.size > MOST_NOISED:
            raise ParameterError(
                "A table has too many cells for noise on each of them.",
                found=f"{name}: {table.size:,} cells.",
                remedy="Use wider ranges or coarser dates, or give a delta: then only what occurs is noised.",
            )
        dp = self._dp
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        scale = self._scale(lambda scale: dp.m.make_laplace(*space, scale=scale).map(self._rows), share)
        noise = dp.m.make_laplace(*space, scale=scale)
        self._spend(name, noise.map(self._rows))
        ratio = math.exp(-1.0 / scale)
        noisy = np.array(noise(table.ravel().tolist()), dtype=np.int64).reshape(table.shape)
        return noisy, 2.0 * ratio / (1.0 - ratio) ** 2

    def chosen(self, name: str, scores: Sequence[int], share: float) -> int:
        """The place of a score that is nearly the highest; one row changes a score by at most 1."""
        dp = self._dp
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")

        def choice(scale: float) -> Any:  # noqa: ANN401 (OpenDP's)
            return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)

        chosen = choice(self._scale(lambda scale: choice(scale).map(self._rows), share))
        self._spend(name, chosen.map(self._rows))
        return int(chosen(list(scores)))

    def kept(self, counts: Counts, share: float, delta: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells whose noisy number of records is above a threshold, and these numbers."""
        dp, schema = self._dp, counts.schema
        if schema.n_combinations * schema.n_values >= 2**63:
            raise ParameterError("There are too many combinations.", remedy="Use wider ranges.")
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
        keys = counts.ranks[counts.rows] * schema.n_values + counts.values
        shown = noise(dict(zip(keys.tolist(), counts.n.tolist(), strict=True)))
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


class _Tree:
    """Chooses small tables, measures them and puts them together."""

    def __init__(self, counts: Counts, measured: _Measured, n_records: int) -> None:
        self._counts, self._measured, self._n_records = counts, measured, n_records
        sizes, n_values = counts.schema.sizes, counts.schema.n_values
        self._names = counts.schema.names
        per_value = n_records * measured.epsilon_per_row / n_values
        n = len(sizes)
        groups = int(math.sqrt(per_value * SHARES["pairs"] / (max(1, n - 1) * RECORDS_PER_PAIR)))
        self._has_pairs = n > 1 and groups >= FEWEST_GROUPS
        self._share = SHARES["single"]
        if not self._has_pairs:
            self._share += SHARES["pairs"] + SHARES["choice"]
            groups = int(per_value * self._share / (n * RECORDS_PER_SINGLE))
        groups = min(MOST_GROUPS, max(FEWEST_GROUPS, groups))
        self._wide = [place for place, size in enumerate(sizes) if 2 * size > 3 * groups]
        self._groups = [np.arange(size) for size in sizes]
        self._spread = [np.ones(size) for size in sizes]
        self._most = groups

    def grown(self) -> MarginalTree:
        """The tree."""
        self._group_wide()
        noisy = [self._noisy((place,), self._share / len(self._groups)) for place in range(len(self._groups))]
        # Every table tells how frequent the values are, the better the fewer rows it adds up.
        precisions = np.array([1.0 / len(table) for table, _ in noisy])
        totals = sum(weight * table.sum(axis=0) for weight, (table, _) in zip(precisions, noisy, strict=True))
        values = projected(totals / precisions.sum(), float(self._n_records))
        singles = [self._single(place, *found, values) for place, found in enumerate(noisy)]
        edges = self._edges(singles, values) if self._has_pairs else []
        pairs = {}
        for one, other in edges:
            table, variance = self._noisy((one, other), SHARES["pairs"] / len(edges))
            expected = _independent(singles[one], singles[other], values)
            table = np.maximum(shrunk(table, variance, expected), LEAST)
            pairs[one, other] = raked(table, [((0, 2), singles[one]), ((1, 2), singles[other])])
        order, parents = _rooted(len(singles), edges)
        tables = []
        for place, parent in enumerate(parents):
            if parent is None:
                tables.append(singles[place][np.newaxis])
            elif parent < place:
                tables.append(pairs[parent, place])
            else:
                tables.append(pairs[place, parent].transpose(1, 0, 2))
        return MarginalTree(
            values, tuple(self._groups), tuple(self._spread), tuple(order), tuple(parents), tuple(tables)
        )

    def _group_wide(self) -> None:
        """Measures the wide attributes by themselves, and makes groups of their positions."""
        counts = self._counts
        for place in self._wide:
            column = counts.positions[counts.rows, place]
            own = np.bincount(column, counts.n, len(self._groups[place])).astype(np.int64)
            noisy, variance = self._measured.noised(
                self._names[place], own, SHARES["alone"] / len(self._wide)
            )
            groups = grouped(projected(noisy.astype(np.float64), float(self._n_records)), self._most)
            smooth = evened(noisy.astype(np.float64), variance, groups)
            self._groups[place], self._spread[place] = groups, projected(smooth, float(self._n_records))

    def _single(
        self, place: int, noisy: NDArray[np.float64], variance: float, values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """An attribute with the sensitive values, consistent with each by itself."""
        total = values.sum()
        own = np.maximum(noisy.sum(axis=1), 0.0)
        if place in self._wide:
            own = np.bincount(self._groups[place], self._spread[place])
        own = own * (total / own.sum()) if own.sum() > 0.0 else np.full(own.size, total / own.size)
        table = np.maximum(shrunk(noisy, variance, np.outer(own, values) / total), LEAST)
        return raked(table, [((0,), own), ((1,), values)])

    def _edges(
        self, singles: Sequence[NDArray[np.float64]], values: NDArray[np.float64]
    ) -> list[tuple[int, int]]:
        """The pairs of a tree, one by one those that attributes by themselves explain worst, nearly."""
        n = len(singles)
        scores = {
            (one, other): misfit(
                _table(self._counts, (one, other), self._groups),
                _independent(singles[one], singles[other], values),
            )
            for one, other in combinations(range(n), 2)
        }
        component = list(range(n))
        edges: list[tuple[int, int]] = []
        while len(edges) < n - 1:
            free = [pair for pair in scores if component[pair[0]] != component[pair[1]]]
            place = self._measured.chosen(
                f"choice of pair {len(edges) + 1}",
                [scores[pair] for pair in free],
                SHARES["choice"] / (n - 1),
            )
            edges.append(free[place])
            kept, gone = (component[end] for end in free[place])
            component = [kept if own == gone else own for own in component]
        return edges

    def _noisy(self, places: tuple[int, ...], share: float) -> tuple[NDArray[np.float64], float]:
        names = (*(self._names[place] for place in places), self._counts.schema.sensitive.name)
        table = _table(self._counts, places, self._groups)
        noisy, variance = self._measured.noised(" x ".join(names), table, share)
        return noisy.astype(np.float64), variance


def _table(
    counts: Counts, places: Sequence[int], groups: Sequence[NDArray[np.int64]] | None = None
) -> NDArray[np.int64]:
    """Records by (groups of) some attributes and the sensitive value: one record is in one cell of it."""
    shape = [
        counts.schema.sizes[place] if groups is None else int(groups[place].max()) + 1 for place in places
    ]
    index = np.zeros(counts.n.size, dtype=np.int64)
    for place, size in zip(places, shape, strict=True):
        column = counts.positions[counts.rows, place]
        index = index * size + (column if groups is None else groups[place][column])
    index = index * counts.schema.n_values + counts.values
    table = np.zeros(math.prod(shape) * counts.schema.n_values, dtype=np.int64)
    np.add.at(table, index, counts.n)
    return table.reshape(*shape, counts.schema.n_values)


def _independent(
    one: NDArray[np.float64], other: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What two attributes that are independent given the sensitive value would show together."""
    share = np.divide(other, values, out=np.zeros_like(other), where=values > 0.0)
    return one[:, np.newaxis, :] * share[np.newaxis, :, :]


def _rooted(n: int, edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int | None]]:
    """The attributes, parents first, and the parent of each."""
    near: list[list[int]] = [[] for _ in range(n)]
    for one, other in edges:
        near[one].append(other)
        near[other].append(one)
    parents: list[int | None] = [None] * n
    order: list[int] = []
    for root in range(n):
        waiting = [] if root in order else [root]
        while waiting:
            place = waiting.pop()
            order.append(place)
            for child in near[place]:
                if child not in order:
                    parents[child] = place
                    waiting.append(child)
    return order, parents
