"""What protects the people in the past records: differential privacy, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

from elldelta.core.checks import check_real, check_whole
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

Mechanism = Literal["cells", "keys"]


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
            raise ParameterError("`delta_dp` belongs to `epsilon`.", remedy="Give `epsilon`, too.")
        return
    check_epsilon(epsilon)
    if delta is not None:
        check_real(delta, lambda value: 0.0 < value < 0.1, "`delta_dp` must lie between 0 and 0.1.")
    if not domains_are_public:
        raise RefusedError(
            "The values in the schema may come from the records that are to be protected.",
            found="A schema that was inferred from records shows their rarest values, the ends of their "
            "numbers and the edges of their bins, and no noise hides that.",
            remedy="Declare the values yourself, or infer the schema from a public table. Then say so, with "
            "`domains_are_public=True`.",
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
    return "one record" if n == 1 else f"{n} records"


def _listed(numbers: Sequence[float]) -> str:
    return " and ".join(", ".join(f"{number:g}" for number in numbers).rsplit(", ", 1))
