"""What a client asks of the agency, checked as a whole before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.choices import BOUNDS, GUARANTEES
from elldelta.core.additive_error import check_eta
from elldelta.core.checks import check_count, check_delta, check_releases
from elldelta.core.generalize.sweep import SharpOptions
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.choices import Bound, Guarantee, ShapeName


@dataclass(frozen=True)
class PlanRequest:
    """A wish for a plan. Exactly one of records, p, beta and classes must be given.

    Attributes:
        ell: Sensitive values to be left for everybody.
        delta: Failure probability of one release.
        releases: How many releases may be linked; the failure after linkage is at most releases x delta.
        bound: "sharp" counts any ell values, "paper" particular ones, "union" the same unrounded.
        records: The records every owner can wait for.
        p: The paper's parameter; decides the records.
        beta: The same as a share of p_ell.
        classes: A number of classes to reach with as few records as possible.
        eta: An error of the model in total variation that the promise must survive.
        shared_records: Promise only for releases that share at most so many records (sharp, probabilistic).
        shape: "boxes" or "runs"; None for boxes where there are two or more quasi-identifiers.
        guarantee: "certified": each release is checked before it is published, and the promise is certain.
            "probabilistic": publish at N without looking, as the paper does.
        waiting_risk: Instead of delta: the chance that a class needs merging in a certified release.
        min_records: A witness value counts as present only with so many records (certified).
        fewest_past: A value is a witness of a class only if it occurs so often in its past records: a plan
            names its witnesses, so it would give away that somebody in the past had a rare value.
        notes: Remarks for the readers of the plan, which it carries.
    """

    ell: int
    delta: float = 0.01
    releases: int = 1
    bound: Bound = "sharp"
    records: int | None = None
    p: float | None = None
    beta: float | None = None
    classes: int | None = None
    eta: float = 0.0
    shared_records: int | None = None
    shape: ShapeName | None = None
    guarantee: Guarantee = "certified"
    waiting_risk: float | None = None
    min_records: int = 1
    fewest_past: int = 1
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_releases(self.releases)
        check_eta(self.eta)
        check_count("the number of records per witness", self.min_records)
        check_count("the number of past records per witness", self.fewest_past)
        if self.bound not in BOUNDS:
            raise ParameterError(
                f"The bound must be one of {', '.join(BOUNDS)}.", found=f"It is {self.bound!r}."
            )
        if self.guarantee not in GUARANTEES:
            raise ParameterError(
                f"The guarantee must be one of {', '.join(GUARANTEES)}.", found=f"It is {self.guarantee!r}."
            )
        self._check_budget()
        self._check_ways()
        self._check_combination()

    def _check_budget(self) -> None:
        if self.waiting_risk is None and self.releases * self.delta >= 1.0:
            raise ParameterError(
                "The failure after linkage, releases x delta, must stay below 1 to mean anything.",
                found=f"{self.releases} x {self.delta:g} is {self.releases * self.delta:g}.",
                remedy="Choose a smaller delta.",
            )
        if self.waiting_risk is not None and not 0.0 < self.waiting_risk < 1.0:
            raise ParameterError(
                "The waiting risk must lie strictly between 0 and 1.",
                found=f"It is {self.waiting_risk}.",
                remedy="Useful values are 0.05 to 0.2.",
            )

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
                self.min_records > 1 and (not certified or self.bound != "sharp"),
                "A least number of records per witness needs the sharp bound and a certified guarantee.",
            ),
        ):
            if is_wrong:
                raise ParameterError(problem, found=f"bound is {self.bound}, guarantee is {self.guarantee}.")

    @property
    def budget(self) -> float:
        """The failure that linkage may cost: releases x delta."""
        return self.releases * self.delta

    @property
    def sharp_options(self) -> SharpOptions:
        """What the sharp bound assumes."""
        return SharpOptions(
            certifiable=self.guarantee == "certified",
            eta=self.eta,
            shared_records_upper=self.shared_records,
        )
