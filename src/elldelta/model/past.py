"""What every model says about the past records behind it, whether it is one file or a folder by region."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from elldelta.errors import counted
from elldelta.model.noise import ADDS_UP, Protection, promise_to_the_past
from elldelta.pages.page import Displayed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.model.counts import Accounting
    from elldelta.model.model import Model
    from elldelta.schema.schema import Schema


Places: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"
"""Positions of one quasi-identifier that occur, rising, and how many past records have each."""


def added_up(positions: NDArray[np.int64], records: NDArray[np.int64]) -> Places:
    """Adds the records of equal positions. Domains may be far larger than what occurs of them."""
    places, number = np.unique(positions, return_inverse=True)
    # Sums of whole numbers, exact below 2^53.
    return places, np.bincount(number, records, places.size).astype(np.int64)


class Past(Displayed):
    """Counts of past records: what plans are made from.

    Attributes:
        noise: How the past records are protected, one entry for each estimate that was merged; none if the
            counts are exact.
    """

    noise: tuple[Protection, ...]

    if TYPE_CHECKING:  # fields of a model by region, so that they may have no default here

        @property
        def schema(self) -> Schema:
            """What the numbers mean."""

        @property
        def accounting(self) -> Accounting:
            """What became of every record that was read."""

        @property
        def digest(self) -> str:
            """The digest of schema, counts and account."""

    @property
    @abstractmethod
    def n_combinations(self) -> int:
        """The number of combinations that occur."""

    @property
    @abstractmethod
    def spread(self) -> tuple[Places, ...]:
        """Where the past records lie, by quasi-identifier."""

    @property
    @abstractmethod
    def value_totals(self) -> NDArray[Any]:
        """The past records with each sensitive value."""

    @abstractmethod
    def to_distribution(self) -> JointDistribution:
        """P(Q, S) over the occupied combinations, or over coarser rows that cover them all."""

    @abstractmethod
    def models(self) -> Iterator[Model]:
        """The counts, in parts that fit into memory, one after the other."""

    @abstractmethod
    def whole(self) -> Model:
        """All counts in one memory."""

    @property
    def n_records(self) -> int:
        """The number of records the model was estimated from; with noise, if there is any."""
        if self.noise:
            return sum(protection.records for protection in self.noise)
        return self.accounting.n_counted

    @property
    def counts_persons(self) -> bool:
        """Whether people had several records, so that not records were counted, but persons."""
        account = self.accounting
        return account.n_repeated + account.n_further > 0 or any(each.unit == "person" for each in self.noise)

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        schema = self.schema
        return {
            "records": self.n_records,
            "left out": self.accounting.n_read - self.accounting.n_counted,
            "combinations": f"{self.n_combinations:,} of {schema.n_combinations:,} occur",
            "quasi-identifiers": ", ".join(schema.names),
            "sensitive": "; ".join(
                f"{column.name}, {counted(column.size, 'value')}" for column in schema.sensitives
            ),
            "digest": self.digest,
            **({"protection": promise_to_the_past(self.noise)} if self.noise else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """Sizes, and how the sensitive values are distributed, as plain JSON values; not the counts."""
        schema, distribution = self.schema, self.to_distribution()
        first, *others = (
            {
                "sensitive": column.name,
                "marginal": dict(zip(column.value_labels, marginals.value_marginal.tolist(), strict=True)),
                "p_ell": marginals.ranked_marginal.tolist(),
            }
            for column, marginals in (
                (column, distribution.for_column(place)) for place, column in enumerate(schema.sensitives)
            )
        )
        return {
            "records": self.n_records,
            "combinations": self.n_combinations,
            "combinations_possible": schema.n_combinations,
            "quasi_identifiers": dict(zip(schema.names, schema.sizes, strict=True)),
            **first,
            **({"also": others} if others else {}),
            "digest": self.digest,
            **({"noise": self.noise_head()} if self.noise else {}),
        }

    def noise_head(self) -> list[dict[str, Any]]:
        """What the file says about the protection of the past."""
        return [protection.to_dict() for protection in self.noise]

    def protection_lines(self) -> list[str]:
        """How the past records are protected, for people: what is promised, and what each part cost."""
        if not self.noise:
            return ["The counts are exact. Keep the file as safe as the records that were counted."]
        costs = [
            f"Estimate {place}: about {counted(each.records, 'record')}, {each.mechanism}, epsilon "
            f"{each.epsilon:g}: " + ", ".join(f"{name} {cost:.4g}" for name, cost in each.steps)
            for place, each in enumerate(self.noise, start=1)
        ]
        return [promise_to_the_past(self.noise), ADDS_UP, *costs]

    def plot(self) -> Figure:
        """How frequent the sensitive values are; of several columns those of the first."""
        from elldelta.pages.charts import draw_marginal

        sensitive = self.schema.sensitive
        marginal = self.to_distribution().for_column(0).value_marginal.tolist()
        return draw_marginal(
            sensitive.value_labels, marginal, f"{sensitive.name}: {counted(self.n_records, 'record')}"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
