"""What a client asks of the agency, checked as a whole before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np

from elldelta.choices import (
    GUARANTEES,
    PLAN_BOUNDS,
    CategoryOrder,
    ClosenessTo,
    Guarantee,
    Movers,
    PlanBound,
    ShapeName,
)
from elldelta.core.checks import (
    MOST_RECORDS,
    check_beta,
    check_delta,
    check_ell,
    check_eta,
    check_real,
    check_whole,
    described,
)
from elldelta.core.closeness import as_limit
from elldelta.core.like_values import one_of_each
from elldelta.errors import ParameterError, RefusedError
from elldelta.plan.several import wish_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.model import Model
    from elldelta.schema.column import Column

USUAL_DELTA = 0.01
"""The failure probability of one release, where one is needed and none was given."""

USUAL_WAIT = 0.3
"""The chance that a class of a table that is published again cannot change, where none was given."""

MOST_OWNERS = 100
"""Owners for whom a plan is tried out; a ledger admits more."""

Number = TypeVar("Number", int, float)

_WHOLE: Mapping[str, tuple[str, int, int | None]] = {
    "ell": ("ell", 1, None),
    "releases": ("the number of releases", 1, None),
    "records": ("the number of records", 1, MOST_RECORDS),
    "classes": ("the number of classes", 1, None),
    "shared_records": ("the number of shared records", 0, MOST_RECORDS),
    "owners": ("the number of owners", 1, MOST_OWNERS),
    "min_records": ("the number of records per witness", 1, None),
    "fewest_past": ("the number of past records per witness", 1, None),
}
"""What each whole number is called, and its range."""


@dataclass(frozen=True)
class Wish:
    """A wish for a plan: the same from Python, the command line, a form or the service.

    Exactly one of records, p, beta and classes must be given, and ell, closeness or both.

    Attributes:
        ell: Sensitive values to be left for everybody; 1 if only closeness is asked for. Of several sensitive
            columns one number for all, or one for each by its name.
        delta: Failure probability of one release. By default the waiting risk of a certified plan is chosen
            instead, as with "auto"; where there is none to choose (another guarantee, bound or eta, or
            another way than records), delta is 0.01.
        releases: How many releases may be linked; the failure after linkage is at most releases x delta.
        records: The records every owner can wait for.
        p: The paper's parameter; decides the records.
        beta: The same as a share of p_ell.
        classes: A number of classes to reach with as few records as possible.
        bound: "sharp" counts any ell values of a class, "paper" particular ones. A stored wish may say
            "union", by which no plan is made any more.
        eta: An error of the model in total variation that the promise must survive.
        shared_records: Promise only for releases that share at most so many records (sharp, probabilistic).
        shape: "boxes" or "runs"; None for boxes where there are two or more quasi-identifiers.
        guarantee: "certified": each release is checked before it is published, and the promise is certain.
            "probabilistic": publish at N without looking, as the paper does.
        waiting_risk: Instead of delta: the chance that a class needs merging in a certified release; "auto"
            for the one that is expected to lose least information.
        owners: How many owners will publish one after the other through one ledger: the waiting risk is
            chosen for them, and releases is 1, because the ledger decides what may be linked.
        min_records: A witness value counts as present only with so many records (certified).
        fewest_past: A value is a witness of a class only if it occurs so often in its past records: a plan
            names its witnesses, so it would give away that somebody in the past had a rare value.
        category_order: "given": categories stay in the order of the schema. "profile": unordered categories
            without a hierarchy are ordered so that similar sensitive profiles are neighbours.
        movers: "declared": people move among the values of columns that the schema says change. "any": among
            all classes.
        closeness: T: how far, in total variation, linking may lead beliefs away from what the plan says.
        closeness_to: What beliefs are compared with: "class", the distribution of the person's class in the
            model, smoothed, or "overall", that of everybody (t-closeness).
        exact_references: Whether the plan may tell the past records of every class as they are.
        history_confidence: How sure a probabilistic promise must be that the past records do not mislead.
        turnover: For a table that is published again: the share of the records that come, and of those that
            go, between two releases. The waiting risk is then that a class cannot change; 0.3 by default.
    """

    ell: int | Mapping[str, int] = 1
    delta: float | None = None
    releases: int = 1
    records: int | None = None
    p: float | None = None
    beta: float | None = None
    classes: int | None = None
    bound: PlanBound = "sharp"
    eta: float = 0.0
    shared_records: int | None = None
    shape: ShapeName | None = None
    guarantee: Guarantee = "certified"
    waiting_risk: float | Literal["auto"] | None = None
    owners: int | None = None
    min_records: int = 1
    fewest_past: int = 1
    category_order: CategoryOrder = "given"
    movers: Movers = "declared"
    closeness: float | Mapping[str, float] | None = None
    closeness_to: ClosenessTo = "class"
    exact_references: bool = False
    history_confidence: float | None = None
    turnover: float | None = None

    def __post_init__(self) -> None:
        for name, (words, least, most) in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, Mapping) and name == "ell":
                own = {str(column): check_whole(words, number, least) for column, number in value.items()}
                object.__setattr__(self, name, MappingProxyType(own))
            elif value is not None or name not in ("records", "classes", "shared_records", "owners"):
                object.__setattr__(self, name, check_whole(words, value, least, most))
        if (self.owners, self.turnover) != (None, None) and self.waiting_risk is None:
            object.__setattr__(self, "waiting_risk", "auto" if self.turnover is None else USUAL_WAIT)
        object.__setattr__(self, "eta", check_eta(self.eta))
        if self.p is not None:  # its upper end depends on the model
            p = check_real(self.p, lambda p: 0.0 < p <= 1.0, "p must lie in (0, 1].")
            object.__setattr__(self, "p", p)
        if self.beta is not None:
            object.__setattr__(self, "beta", check_beta(self.beta))
        _check_choice("bound", self.bound, PLAN_BOUNDS)
        _check_choice("guarantee", self.guarantee, GUARANTEES)
        _check_choice("shape", self.shape, (None, *get_args(ShapeName)))
        _check_choice("category order", self.category_order, get_args(CategoryOrder))
        _check_choice("word for who moves", self.movers, get_args(Movers))
        _check_choice("closeness", self.closeness_to, get_args(ClosenessTo))
        if self.closeness is not None:
            near = self.closeness
            if isinstance(near, Mapping):
                limits = {str(column): float(as_limit(limit)) for column, limit in near.items()}
                object.__setattr__(self, "closeness", MappingProxyType(limits))
            else:
                object.__setattr__(self, "closeness", float(as_limit(near)))
        self._check_shares()
        if self.delta is None and self.waiting_risk is None:
            is_certain = self.guarantee == "certified" and self.bound == "sharp"
            can_choose = is_certain and self.records is not None and self.eta == 0.0
            name, usual = ("waiting_risk", "auto") if can_choose else ("delta", USUAL_DELTA)
            object.__setattr__(self, name, usual)
        self._check_budget()
        self._check_ways()
        self._check_combination()

    def _check_shares(self) -> None:
        if self.history_confidence is not None:
            confidence = check_real(
                self.history_confidence,
                lambda value: 0.5 <= value < 1.0,
                "The confidence in the history must lie between 0.5 and 1, and below 1.",
                "Usual is 0.95.",
            )
            object.__setattr__(self, "history_confidence", confidence)
        if self.turnover is not None:
            share = check_real(
                self.turnover,
                lambda value: 0.0 < value <= 0.5,
                "The turnover must lie above 0 and be at most 0.5.",
                "Usual is 0.05 to 0.2: the share of the records that come, or go, between two releases.",
            )
            object.__setattr__(self, "turnover", share)

    def _check_budget(self) -> None:
        if self.delta is not None:
            object.__setattr__(self, "delta", check_delta(self.delta))
        if self.waiting_risk is None:
            if self.budget >= 1.0:
                raise ParameterError(
                    "The failure after linkage, releases x delta, must stay below 1 to mean anything.",
                    found=f"{self.releases} x {self.release_failure:g} is {self.budget:g}.",
                    remedy="Choose a smaller delta.",
                )
        elif self.waiting_risk != "auto":
            risk = check_real(
                self.waiting_risk,
                lambda risk: 0.0 < risk < 1.0,
                "The waiting risk must lie strictly between 0 and 1, or auto.",
                "Useful values are 0.05 to 0.2.",
            )
            object.__setattr__(self, "waiting_risk", risk)

    def _check_ways(self) -> None:
        given = [way for way in (self.records, self.p, self.beta, self.classes) if way is not None]
        if len(given) != 1:
            raise ParameterError(
                "Give exactly one of records, p, beta and classes.",
                found=f"{len(given)} of them were given.",
                remedy="Usually: the number of records that every owner can wait for.",
            )

    def _check_combination(self) -> None:
        certified = self.guarantee == "certified"
        for is_wrong, problem in (
            (
                self.shared_records is not None and (certified or self.bound != "sharp"),
                "A number of shared records needs the sharp bound and a probabilistic guarantee.",
            ),
            (
                self.waiting_risk is not None and (not certified or self.bound != "sharp"),
                "A waiting risk needs the sharp bound and a certified guarantee.",
            ),
            (
                self.waiting_risk is not None and self.eta > 0.0,
                "A waiting risk is not computed for an error of the model: a certificate needs none.",
            ),
            (
                self.owners is not None and self.releases > 1,
                "Owners who share a ledger need a plan for one release: the ledger decides what is linked.",
            ),
            (
                self.turnover is not None
                and (self.releases > 1 or self.owners is not None or self.closeness is not None),
                "A turnover is for a table that is published again through a ledger, which decides what may "
                "be linked: for one release, no number of owners, and without closeness.",
            ),
            (
                self.turnover is not None and self.waiting_risk in (None, "auto"),
                "With a turnover the waiting risk is the chance that a class cannot change: give a number.",
            ),
            (
                self.turnover is not None and int((self.records or 0) * self.turnover) < self.min_records,
                "A turnover needs the number of records, and so many that some come and go.",
            ),
            (
                self.min_records > 1 and (not certified or self.bound != "sharp"),
                "A least number of records per witness needs the sharp bound and a certified guarantee.",
            ),
            (
                self.closeness is None and (self.closeness_to != "class" or self.exact_references),
                "What to be close to matters only if a closeness is given.",
            ),
            (
                self.closeness is not None
                and (self.bound != "sharp" or self.eta > 0.0 or self.p is not None or self.beta is not None),
                "Closeness needs the sharp bound, without an error of the model, p or beta.",
            ),
            (
                self.closeness is not None and certified and self.waiting_risk is None,
                "A certified plan for closeness needs a waiting risk: its chance of passing is estimated.",
            ),
            (
                self.history_confidence is not None
                and (certified or self.bound != "sharp" or self.eta > 0.0 or self.closeness is not None),
                "A confidence in the history needs a probabilistic guarantee with the sharp bound, without "
                "an error of the model or closeness: a certificate needs no confidence.",
            ),
            (
                self.history_confidence is not None
                and (self.classes is not None or self.category_order != "given" or self.fewest_past > 1),
                "A confidence in the history is for given records, categories in their order and any past "
                "value: what is chosen by looking at all past records would have to be paid for.",
            ),
            (
                self.closeness is not None and self.owners is not None,
                "Closeness is planned for a number of releases, not of owners.",
            ),
            (
                self.closeness is not None and not certified and self.fewest_past > 1,
                "A least number of past records per witness needs a certified guarantee with closeness.",
            ),
        ):
            if is_wrong:
                raise ParameterError(problem, found=f"bound is {self.bound}, guarantee is {self.guarantee}.")

    @property
    def largest_ell(self) -> int:
        """ell, or the largest of several sensitive columns."""
        return max(self.ell.values(), default=1) if isinstance(self.ell, Mapping) else self.ell

    @property
    def release_failure(self) -> float:
        """delta, or the usual one where a waiting risk stands in its place."""
        return USUAL_DELTA if self.delta is None else self.delta

    @property
    def budget(self) -> float:
        """The failure that linkage may cost: releases x delta."""
        return self.releases * self.release_failure

    def to_dict(self) -> dict[str, Any]:
        """The wish as plain JSON values; `from_dict` is the inverse."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return document | {name: dict(own) for name, own in document.items() if isinstance(own, Mapping)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Wish:
        """Reads what `to_dict` wrote, in this version or an earlier one that said less."""
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
            remedy="ell = 5 leaves 5 distinct values, closeness = 0.2 keeps beliefs within 20 percentage "
            "points of what the plan says.",
        )
    return 1 if ell is None else ell


def check_noisy(wish: Wish) -> None:
    """What cannot be made from a model with noise: whatever relies on its numbers being right."""
    if wish.guarantee != "certified":
        raise RefusedError(
            "A probabilistic plan is not made from a model with noise.",
            found="Its promise would rest on the numbers of the model, and noise makes them wrong.",
            remedy="Ask for a certified plan: what it promises does not depend on the model.",
        )
    if wish.fewest_past > 1:
        raise ParameterError(
            "A least number of past records needs an exact model.",
            found="Nobody knows the true numbers of a model with noise, and its past records need no more.",
            remedy="Leave it out: noise protects also people with a rare value.",
        )


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
    if wish.bound != "sharp" or wish.closeness is not None or wish.history_confidence is not None:
        raise ParameterError(
            "A plan that counts groups of values uses the sharp bound, without closeness or a confidence in "
            "the history.",
            found=f"The values of {column.name!r} have groups.",
            remedy="Closeness alone (without ell) covers every group of values at once. Otherwise leave that "
            "out, or the groups.",
        )
    check_ell(wish.ell, column.n_groups)
