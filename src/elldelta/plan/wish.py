"""What a client asks of the agency, checked as a whole before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from elldelta.core.checks import (
    MOST_RECORDS,
    check_beta,
    check_delta,
    check_ell,
    check_real,
    check_whole,
    described,
)
from elldelta.core.closeness import as_limit
from elldelta.core.like_values import one_of_each
from elldelta.errors import ParameterError, RefusedError
from elldelta.parameters import PLAN_KINDS, ClosenessTo, Movers, PlanKind
from elldelta.plan.several import wish_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.occupancy import CheckedBy
    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.schema.column import Column

USUAL_DELTA = 0.01
"""The usual failure probability of one release."""

K_WITH_CLOSENESS = 10
"""The fewest records of a published class where closeness is promised, unless another number is asked for."""

MOST_OWNERS = 100
"""Owners for whom a plan is tried out; a ledger admits more."""

Number = TypeVar("Number", int, float)

_WHOLE: Mapping[str, tuple[str, int, int | None]] = {
    "ell": ("ell", 1, None),
    "releases": ("the number of releases", 1, None),
    "records": ("the number of records", 1, MOST_RECORDS),
    "owners": ("the number of owners", 1, MOST_OWNERS),
    "min_records": ("the number of records per witness", 1, None),
    "k": ("k, the fewest records of a class", 1, MOST_RECORDS),
    "fewest_past": ("the number of past records per witness", 1, None),
}
"""What each whole number is called, and its range."""


@dataclass(frozen=True)
class Wish:
    """A wish for a plan: the same from Python, the command line, a form or the service.

    Exactly one of records, p and beta must be given, and ell, closeness or both.

    Attributes:
        ell: Sensitive values to be left for everybody; 1 if only closeness is asked for. Of several sensitive
            columns one number for all, or one for each by its name.
        delta: Failure probability of one release: of a certified plan, that an owner with the plan's records
            has to refuse.
        releases: How many releases may be linked; the failure after linkage is at most releases x delta.
        records: The records every owner can wait for.
        p: The paper's parameter; decides the records of a paper plan.
        beta: The same as a share of p_ell.
        kind: "certified": boxes by the sharp bound, which counts any ell values of a class; each release is
            checked before it is published, and the promise is certain. "probabilistic": such boxes, published
            at N without looking. "paper": the paper as it stands, with runs, its bound and its N.
        merge_risk: Makes a certified plan whose classes move up its tree of cuts: the chance that a class
            does not pass by itself. By default classes are fixed: a release shows all of them or is refused.
        owners: How many owners will publish one after the other through one ledger; releases is then 1,
            because the ledger decides what may be linked.
        min_records: A witness value counts as present only with so many records (certified).
        k: No published class holds fewer records (certified). What the promise of distinct values implies is
            the least, ell times min_records; with closeness the usual number is 10.
        fewest_past: A value is a witness of a class only if it occurs so often in its past records: a plan
            names its witnesses, so it would give away that somebody in the past had a rare value. How often
            it occurs is told rounded down in any case, to 0 below 5.
        movers: "declared": people move among the values of columns that the schema says change. "any": among
            all classes.
        closeness: T: how far, in total variation, shares of linked records may be from what the plan says
            (certified).
        closeness_to: What shares are compared with: "class", the distribution of the person's class in the
            model, smoothed, or "overall", that of everybody (t-closeness).
    """

    ell: int | Mapping[str, int] = 1
    delta: float = USUAL_DELTA
    releases: int = 1
    records: int | None = None
    p: float | None = None
    beta: float | None = None
    kind: PlanKind = "certified"
    merge_risk: float | None = None
    owners: int | None = None
    min_records: int = 1
    k: int | None = None
    fewest_past: int = 1
    movers: Movers = "declared"
    closeness: float | Mapping[str, float] | None = None
    closeness_to: ClosenessTo = "class"

    def __post_init__(self) -> None:
        for name, (words, least, most) in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, Mapping) and name == "ell":
                own = {str(column): check_whole(words, number, least) for column, number in value.items()}
                object.__setattr__(self, name, MappingProxyType(own))
            elif value is not None or name not in ("records", "owners", "k"):
                object.__setattr__(self, name, check_whole(words, value, least, most))
        if self.p is not None:  # its upper end depends on the model
            p = check_real(self.p, lambda p: 0.0 < p <= 1.0, "p must lie in (0, 1].")
            object.__setattr__(self, "p", p)
        if self.beta is not None:
            object.__setattr__(self, "beta", check_beta(self.beta))
        _check_choice("kind of plan", self.kind, PLAN_KINDS)
        _check_choice("word for who moves", self.movers, get_args(Movers))
        _check_choice("closeness", self.closeness_to, get_args(ClosenessTo))
        if self.closeness is not None:
            near = self.closeness
            if isinstance(near, Mapping):
                limits = {str(column): float(as_limit(limit)) for column, limit in near.items()}
                object.__setattr__(self, "closeness", MappingProxyType(limits))
            else:
                object.__setattr__(self, "closeness", float(as_limit(near)))
        self._check_budget()
        self._check_ways()
        self._check_combination()

    def _check_budget(self) -> None:
        object.__setattr__(self, "delta", check_delta(self.delta))
        if self.budget >= 1.0:
            raise ParameterError(
                "The failure of all releases together, their number times delta, must stay below 1 to mean "
                "anything.",
                found=f"{self.n_planned} x {self.delta:g} is {self.budget:g}.",
                remedy="Choose a smaller delta.",
            )
        if self.merge_risk is not None:
            risk = check_real(
                self.merge_risk,
                lambda risk: 0.0 < risk < 1.0,
                "The merge risk must lie strictly between 0 and 1.",
                "A useful value is 0.1. Leave it out for classes that are the same for everybody.",
            )
            object.__setattr__(self, "merge_risk", risk)

    def _check_ways(self) -> None:
        given = [way for way in (self.records, self.p, self.beta) if way is not None]
        if len(given) != 1:
            raise ParameterError(
                "Give exactly one of records, p and beta.",
                found=f"{len(given)} of them were given.",
                remedy="Usually: the number of records that every owner can wait for.",
            )

    def _check_combination(self) -> None:
        for is_wrong, problem, remedy in (
            (
                self.records is None and self.kind != "paper",
                "p and beta decide the records of a plan of the kind paper.",
                "Give the number of records that every owner can wait for.",
            ),
            (
                self.merge_risk is not None and not self.is_certified,
                "A merge risk is for a certified plan.",
                "Leave it out, or ask for a certified plan.",
            ),
            (
                self.owners is not None and not self.is_certified,
                "A number of owners is for a certified plan: a ledger admits releases that were checked.",
                "Leave it out, or ask for a certified plan.",
            ),
            (
                self.owners is not None and self.releases > 1,
                "Owners who share a ledger need a plan for one release: the ledger decides what is linked.",
                "Leave out the number of releases, or of owners.",
            ),
            (
                self.min_records > 1 and not self.is_certified,
                "A least number of records per witness is for a certified plan.",
                "Leave it out, or ask for a certified plan.",
            ),
            (
                self.min_records > 1 and self.largest_ell == 1 and self.closeness is not None,
                "Closeness alone has no witnesses that a number of records could be asked of.",
                "Give k, the fewest records of a class.",
            ),
            (
                self.k is not None and not self.is_certified,
                "A least number of records per class is for a certified plan.",
                "Leave it out, or ask for a certified plan.",
            ),
            (
                self.closeness is None and self.closeness_to != "class",
                "What to be close to matters only if a closeness is given.",
                "Give a closeness, or leave this out.",
            ),
            (
                self.closeness is not None and not self.is_certified,
                "Closeness is for a certified plan.",
                "Leave it out, or ask for a certified plan.",
            ),
            (
                self.closeness is not None and self.owners is not None,
                "Closeness is planned for a number of releases, not of owners.",
                "Give the number of releases that may be linked.",
            ),
        ):
            if is_wrong:
                raise ParameterError(problem, found=f"The kind of plan is {self.kind}.", remedy=remedy)

    @property
    def is_certified(self) -> bool:
        """Whether every release is checked before it is published."""
        return self.kind == "certified"

    @property
    def largest_ell(self) -> int:
        """ell, or the largest of several sensitive columns."""
        return max(self.ell.values(), default=1) if isinstance(self.ell, Mapping) else self.ell

    @property
    def least_records(self) -> int:
        """The fewest records of a published class: k, or more where the promise of values implies it."""
        if not self.is_certified:
            return 1
        usual = 1 if self.closeness is None else K_WITH_CLOSENESS
        return max(usual if self.k is None else self.k, self.largest_ell * self.min_records)

    @property
    def asked_k(self) -> int:
        """The k that asks for more than the promise of values implies; otherwise 1, which asks nothing."""
        return asked_k(self.least_records, self.largest_ell, self.min_records)

    @property
    def n_planned(self) -> int:
        """How many releases the plan is made for: those that may be linked, or one of every owner."""
        return self.owners or self.releases

    @property
    def budget(self) -> float:
        """The failure that all of these releases may have together."""
        return self.n_planned * self.delta

    def to_dict(self) -> dict[str, Any]:
        """The wish as plain JSON values; `from_dict` is the inverse."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return document | {name: dict(own) for name, own in document.items() if isinstance(own, Mapping)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Wish:
        """Reads what `to_dict` wrote."""
        unknown = document.keys() - {field.name for field in fields(cls)}
        if unknown or not document.keys() & {"ell", "closeness"}:
            raise ParameterError(
                "A wish says ell or closeness, and nothing that is not known here.",
                found=f"{len(unknown)} names are not known." if unknown else "There is neither.",
                remedy=f"Choose from: {', '.join(field.name for field in fields(cls))}.",
            )
        return cls(**document)


def by_column(text: str | None, what: str, kind: type[Number]) -> Number | dict[str, Number] | None:
    """A number, or one for each of several columns: 5, or disease=5,income=3."""
    if text is None:
        return None
    try:
        if "=" not in text:
            return kind(text)
        pairs = [pair.rpartition("=") for pair in text.split(",")]
        found = {name.strip(): kind(number) for name, _, number in pairs}
        if len(found) == len(pairs) and all(found):
            return found
    except ValueError:
        pass
    raise ParameterError(
        f"{what} is a number, or one for each sensitive column.",
        found=f"It is {text!r}.",
        remedy=f"Write {'5' if kind is int else '0.2'}, or a name and a number for each column: "
        f"{'disease=5,income=3' if kind is int else 'disease=0.2,income=0.4'}.",
    )


def promised_ell(
    ell: int | Mapping[str, int] | None, closeness: float | Mapping[str, float] | None
) -> int | Mapping[str, int]:
    """ell, or 1 if only closeness is asked for; refuses a plan that promises neither."""
    if ell is None and closeness is None:
        raise ParameterError(
            "A plan needs a promise: ell, closeness, or both.",
            found="Neither was given.",
            remedy="ell = 5 leaves 5 distinct values, closeness = 0.2 keeps shares of linked records "
            "within 20 percentage points of what the plan says.",
        )
    return 1 if ell is None else ell


def asked_k(k: int, ell: int, min_records: int) -> int:
    """The k that asks for more than ell values of so many records each; otherwise 1, which asks nothing."""
    return k if k > ell * min_records else 1


def check_noisy(wish: Wish) -> None:
    """What cannot be made from a model with noise: whatever relies on its numbers being right."""
    if not wish.is_certified:
        raise RefusedError(
            f"A {wish.kind} plan is not made from a model with noise.",
            found="Its promise would rest on the numbers of the model, and noise makes them wrong.",
            remedy="Ask for a certified plan: what it promises does not depend on the model.",
        )
    if wish.fewest_past > 1:
        raise ParameterError(
            "A least number of past records needs an exact model.",
            found="Nobody knows the true numbers of a model with noise, and its past records need no more.",
            remedy="Leave it out: noise protects also people with a rare value.",
        )


def checked_by(asked: Wish | Plan) -> CheckedBy:
    """Who makes sure that the releases of a plan leave enough values."""
    if not asked.is_certified:
        return "nobody"
    return "owner" if asked.owners is None else "ledger"


def _check_choice(name: str, value: object, known: Sequence[object]) -> None:
    if value not in known:
        words = ", ".join(str(word) for word in known if word is not None)
        raise ParameterError(
            f"The {name} must be one of {words}.",
            found=f"It is {described(value)}.",
            remedy=f"Leave it out for what is usual, or write one of {words}.",
        )


def plan_groups(model: Model, wish: Wish) -> tuple[JointDistribution, NDArray[np.int64] | None]:
    """What classes are planned with, and the groups of values that count as one; None if all count.

    Raises:
        ParameterError: The wish is for a plan that cannot count groups, or for more than there are.
    """
    past, schema = model.to_distribution(), model.schema
    groups, counted = np.arange(schema.n_values), False
    for place, (column, values) in enumerate(zip(schema.sensitives, schema.value_slices, strict=True)):
        asked = wish_of(wish, schema, place)
        if column.value_groups is None or asked.ell == 1:  # closeness alone covers all groups at once
            continue
        _check_groups(asked, column)
        groups[values], counted = column.value_groups + values.start, True
    return (one_of_each(past, groups), groups) if counted else (past, None)


def _check_groups(wish: Wish, column: Column) -> None:
    """Refuses a wish for more groups of values than there are, or for a plan that cannot count them."""
    if wish.kind == "paper" or wish.closeness is not None:
        raise ParameterError(
            "A plan that counts groups of values is certified or probabilistic, without closeness.",
            found=f"The values of {column.name!r} have groups.",
            remedy="Closeness alone (without ell) covers every group of values at once. Otherwise leave that "
            "out, or the groups.",
        )
    check_ell(wish.ell, column.n_groups)
