"""What a client asks of the agency: explained here, once, and checked before anything is computed.

The command line, the form, the service and the reference page are made from the fields of `Wish`. So nothing
slow is imported here before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from elldelta.core.checks import MOST_RECORDS, capitalized, check_real, check_whole, described
from elldelta.errors import ParameterError, RefusedError, counted
from elldelta.parameters import (
    ClosenessTo,
    Doc,
    Movers,
    Parameter,
    PlanKind,
    parameters_of,
    per_column,
    whole_numbers,
)

if TYPE_CHECKING:
    from elldelta.core.occupancy import CheckedBy
    from elldelta.model import Past
    from elldelta.plan.plan import Plan

USUAL_DELTA = 0.01
"""The usual failure probability of one release."""

K_WITH_CLOSENESS = 10
"""The fewest records of a published class where closeness is promised, unless another number is asked for."""

FOR_CERTIFIED = ("merge_risk", "owners", "min_records", "k", "closeness")
"""What only plans have whose releases are checked."""

MOST_OWNERS = 100
"""Owners for whom a plan is tried out; a ledger admits more."""

ELL = Doc(
    "Sensitive values that must be left for everybody after linkage.",
    noun="ell",
    label="ℓ: sensitive values left for everybody",
    least=1,
    most=MOST_RECORDS,
)
RELEASES = Doc(
    "How many releases somebody may link together.",
    noun="the number of releases",
    label="t: releases that may be linked",
    least=1,
    most=MOST_RECORDS,
)
DELTA = Doc(
    "Failure probability of one release: of a certified plan, that a table with so many records is refused. "
    "A smaller one costs classes.",
    "Expert",
    noun="delta",
    label="δ: chance that one release fails",
    above=0.0,
    below=1.0,
    usual="0.01",
)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a plan promises and to whom, whatever the number of records.

    ell, closeness or both must be given; and releases or owners.
    """

    ell: Annotated[
        int | Mapping[str, int] | None,
        replace(
            ELL,
            help=f"{ELL.help} Not needed with closeness. For several sensitive columns one number for "
            "all, or one for each: disease=5,income=3.",
            metavar="NUMBER",
            parse=per_column(int, "disease=5,income=3"),
        ),
    ] = None
    releases: Annotated[
        int | None,
        replace(RELEASES, help=f"{RELEASES.help} Required, except for a number of owners."),
    ] = None
    closeness: Annotated[
        float | Mapping[str, float] | None,
        Doc(
            "How far shares of linked records may be from what the plan says, between 0 and 1: 0.2 is 20 "
            "percentage points, for every set of values. With ell or instead of it; for several sensitive "
            "columns as there. For certified plans.",
            noun="the closeness",
            label="Closeness: how far shares may move",
            metavar="NUMBER",
            above=0.0,
            below=1.0,
            usual="0.2",
            parse=per_column(float, "disease=0.2,income=0.4"),
        ),
    ] = None
    owners: Annotated[
        int | None,
        Doc(
            "Owners who publish through one ledger, one after the other, instead of a number of releases: "
            "the ledger decides what may be linked, and classes are usually finer.",
            "Ledger",
            noun="the number of owners",
            label="Owners who publish one after the other, instead of t",
            least=1,
            most=MOST_OWNERS,
        ),
    ] = None
    kind: Annotated[
        PlanKind,
        Doc(
            "The kind of plan.",
            "Expert",
            noun="the kind of plan",
            label="Kind of plan",
            choices={
                "certified": "every release is checked before it is published, and the promise is certain",
                "probabilistic": "the same classes, published at N records without looking",
                "paper": "the paper as it stands, with runs, its bound and its N",
            },
        ),
    ] = "certified"
    delta: Annotated[float, DELTA] = USUAL_DELTA
    closeness_to: Annotated[
        ClosenessTo,
        Doc(
            "What shares are compared with.",
            "Expert",
            noun="the word for what to be close to",
            label="Closeness to",
            choices={
                "class": "what past records say about people of the class, smoothed and rounded",
                "overall": "what they say about everybody (t-closeness)",
            },
        ),
    ] = "class"
    movers: Annotated[
        Movers,
        Doc(
            "People who move to another class between releases, for whom the promise holds, too. It costs "
            "classes.",
            "Expert",
            noun="the word for who moves",
            label="People who move",
            choices={
                "declared": "only in columns that the schema says change (changes = true)",
                "any": "also if anything about them changes",
            },
        ),
    ] = "declared"
    merge_risk: Annotated[
        float | None,
        Doc(
            "Instead of fixed classes: the chance that a class does not pass by itself, such as 0.1. Classes "
            "then move up the plan's tree, some of them by chance. For owners who do not share people, and "
            "small ones. For certified plans.",
            "Expert",
            noun="the merge risk",
            label="Merge risk: classes that move",
            above=0.0,
            below=1.0,
            usual="0.1",
        ),
    ] = None
    k: Annotated[
        int | None,
        Doc(
            "No published class holds fewer records. If left out, what ell implies, and 10 with closeness. "
            "For certified plans.",
            "Expert",
            noun="k, the fewest records of a class,",
            label="k: fewest records of a class",
            least=1,
            most=MOST_RECORDS,
        ),
    ] = None
    min_records: Annotated[
        int,
        Doc(
            "Records with which a value counts as left in a class. More hides rare values better and costs "
            "classes. For certified plans.",
            "Expert",
            noun="the number of records per witness",
            label="Records behind a value",
            least=1,
            most=MOST_RECORDS,
        ),
    ] = 1

    def __post_init__(self) -> None:
        for parameter in parameters_of(Terms):
            _check_field(self, parameter)
        self._check_promise()
        self._check_budget()
        self._check_combination()

    def _check_promise(self) -> None:
        """Refuses a wish without a promise, or without a number of releases that it is about."""
        if self.ell is None and self.closeness is None:
            raise ParameterError(
                "A plan needs a promise: ell, closeness, or both.",
                found="Neither was given.",
                remedy="An ell of 5 leaves 5 distinct values, a closeness of 0.2 keeps shares of linked "
                "records within 20 percentage points of what the plan says.",
                parameter=("ell", "closeness"),
            )
        if self.releases is None and self.owners is None:
            raise ParameterError(
                "A plan needs the number of releases that somebody may link.",
                found="It was not given.",
                remedy="Count all releases about these people; 1 promises nothing about linking. Or give the "
                "number of owners who share a ledger.",
                parameter=("releases", "owners"),
            )
        object.__setattr__(self, "ell", 1 if self.ell is None else self.ell)
        object.__setattr__(self, "releases", self.n_linked)

    def _check_budget(self) -> None:
        if self.budget >= 1.0:
            raise ParameterError(
                "The failure of all releases together, their number times delta, must stay below 1 to mean "
                "anything.",
                found=f"{self.n_planned} x {self.delta:g} is {self.budget:g}.",
                remedy="Choose a smaller delta.",
                parameter="delta",
            )

    def _check_combination(self) -> None:
        defaults = {parameter.name: parameter for parameter in parameters_of(Terms)}
        for name in () if self.is_certified else FOR_CERTIFIED:
            if getattr(self, name) != defaults[name].default:
                raise ParameterError(
                    f"{capitalized(defaults[name].doc.noun)} is for a certified plan.",
                    found=f"The kind of plan is {self.kind}.",
                    remedy="Leave it out, or ask for a certified plan.",
                    parameter=(name, "kind"),
                )
        n_owners = counted(self.owners or 0, "owner")
        for is_wrong, problem, found, remedy, parameter in (
            (
                self.owners is not None and self.n_linked > 1,
                "Owners who share a ledger need a plan for one release: the ledger decides what is linked.",
                f"It was asked for {n_owners} and {counted(self.n_linked, 'release')}.",
                "Leave out the number of releases, or of owners.",
                ("owners", "releases"),
            ),
            (
                self.min_records > 1 and self.largest_ell == 1 and self.closeness is not None,
                "Closeness alone has no witnesses, so no number of records per witness.",
                f"It was asked for {counted(self.min_records, 'record')} per witness.",
                "Give k, the fewest records of a class.",
                ("k",),
            ),
            (
                self.closeness is None and self.closeness_to != "class",
                "What to be close to matters only if a closeness is given.",
                "There is no closeness.",
                "Give a closeness, or leave this out.",
                ("closeness_to", "closeness"),
            ),
            (
                self.closeness is not None and self.owners is not None,
                "Closeness is planned for a number of releases, not of owners.",
                f"It was asked for {n_owners}.",
                "Give the number of releases that may be linked.",
                ("releases", "owners"),
            ),
        ):
            if is_wrong:
                raise ParameterError(problem, found=found, remedy=remedy, parameter=parameter)

    @property
    def is_certified(self) -> bool:
        """Whether every release is checked before it is published."""
        return self.kind == "certified"

    @property
    def largest_ell(self) -> int:
        """ell, or the largest of several sensitive columns."""
        return max(self.ell.values(), default=1) if isinstance(self.ell, Mapping) else self.ell or 1

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
    def n_linked(self) -> int:
        """How many releases may be linked; 1 for owners who share a ledger, which decides it."""
        return self.releases or 1

    @property
    def n_planned(self) -> int:
        """How many releases the plan is made for: those that may be linked, or one of every owner."""
        return self.owners or self.n_linked

    @property
    def budget(self) -> float:
        """The failure that all of these releases may have together."""
        return self.n_planned * self.delta


@dataclass(frozen=True, kw_only=True)
class Wish(Terms):
    """A wish for a plan: the same from Python, the command line, a form or the service.

    Besides its terms one of records, p and beta must be given.
    """

    records: Annotated[
        int | None,
        Doc(
            "Records that every owner can wait for. More records allow more, and smaller, classes.",
            noun="the number of records",
            label="Records that every owner can reach",
            least=1,
            most=MOST_RECORDS,
        ),
    ] = None
    p: Annotated[
        float | None,
        Doc(
            "Of a plan of the kind paper: its p, which decides the records.",
            "Expert",
            noun="p",
            above=0.0,
            most=1.0,  # less in most models
        ),
    ] = None
    beta: Annotated[
        float | None,
        Doc("The same as a share of the largest p.", "Expert", noun="beta", above=0.0, most=1.0),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        ways = ("records", "p", "beta")
        for parameter in parameters_of(Wish):
            if parameter.name in ways:
                _check_field(self, parameter)
        given = [name for name in ways if getattr(self, name) is not None]
        if len(given) != 1:
            raise ParameterError(
                "Give exactly one of records, p and beta.",
                found=f"{len(given)} of them were given.",
                remedy="Usually: the number of records that every owner can wait for.",
                parameter=ways if given else "records",
            )
        if self.records is None and self.kind != "paper":
            raise ParameterError(
                "p and beta decide the records of a plan of the kind paper.",
                found=f"The kind of plan is {self.kind}.",
                remedy="Give the number of records that every owner can wait for.",
                parameter=("records", "kind"),
            )

    def to_dict(self) -> dict[str, Any]:
        """The wish as plain JSON values; `from_dict` is the inverse."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return document | {
            name: dict(numbers) for name, numbers in document.items() if isinstance(numbers, Mapping)
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Wish:
        """Reads what `to_dict` wrote."""
        unknown = document.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ParameterError(
                "A wish says nothing that is not known here.",
                found=f"{counted(len(unknown), 'name is', 'names are')} not known.",
                remedy=f"Choose from: {', '.join(field.name for field in fields(cls))}.",
            )
        return cls(**document)


@dataclass(frozen=True, kw_only=True)
class FrontierWish(Terms):
    """What a frontier is about: plans with the same terms for several numbers of records."""

    records: Annotated[
        Sequence[int] | None,
        Doc(
            "Numbers of records to try, such as 10000,30000. If left out, from the fewest that promise "
            "anything to ten times the records of the model.",
            noun="the number of records",
            metavar="NUMBERS",
            least=1,
            most=MOST_RECORDS,
            parse=whole_numbers,
        ),
    ] = None

    def for_records(self, n_records: int) -> Wish:
        """The wish for a plan with so many records."""
        return Wish(**{field.name: getattr(self, field.name) for field in fields(Terms)}, records=n_records)


def _check_field(terms: Terms, parameter: Parameter) -> None:
    """Puts the value of a field into the form in which it is kept, if it lies in its range."""
    value = getattr(terms, parameter.name)
    if value is not None or parameter.default is not None:
        object.__setattr__(terms, parameter.name, _checked(parameter, value))


def _checked(parameter: Parameter, value: object) -> object:
    """What was given for a parameter, if it lies in its range."""
    if isinstance(value, Mapping) and parameter.takes_columns:
        return MappingProxyType({str(name): _checked(parameter, number) for name, number in value.items()})
    doc = parameter.doc
    if doc.choices:
        if isinstance(value, str) and value in doc.choices:
            return value
        words = ", ".join(doc.choices)
        raise ParameterError(
            f"{capitalized(doc.noun)} must be one of {words}.",
            found=f"It is {described(value)}.",
            remedy=f"Leave it out for {parameter.default}, or write one of {words}.",
            parameter=parameter.name,
        )
    if parameter.is_whole:
        return check_whole(doc.noun, value, doc.least or 0, doc.most, parameter=parameter.name)
    return check_real(
        value,
        doc.includes,
        f"{capitalized(doc.noun)} must be {doc.range}.",
        f"A useful value is {doc.usual}." if doc.usual else "Choose a number in that range.",
        parameter=parameter.name,
    )


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


def check_persons(wish: Wish, model: Past) -> None:
    """What cannot be made where persons were counted because they have several records.

    That is whatever relies on independent records: values of one person come together. 100 records of 5
    persons are 5 draws, and show fewer values than 100 draws would. One record of each person is a draw from
    another distribution than that of all values. And it is what no release that counts persons may do.
    """
    if model.accounting.n_further and not wish.is_certified:
        raise RefusedError(
            f"A {wish.kind} plan is not made from persons with several values.",
            found="Its promise would rest on independent records, and records of one person are not.",
            remedy="Ask for a certified plan, or estimate from a table with one record of every person.",
        )
    if model.counts_persons and wish.merge_risk is not None:
        raise RefusedError(
            "Where persons are counted, classes are fixed.",
            found="People of the model have several records, and a merge risk was given.",
            remedy="Leave the merge risk out, or estimate from a table with one record of every person.",
            parameter="merge_risk",
        )
    if model.counts_persons and model.schema.weight is not None:
        raise RefusedError(
            "Where persons are counted, no weights are shown.",
            found="People of the model have several records, and its schema names a column of weights.",
            remedy="Take the weights out of the schema, or estimate from one record of every person.",
        )


def checked_by(promise: Wish | Plan) -> CheckedBy:
    """Who makes sure that the releases of a plan leave enough values."""
    if not promise.is_certified:
        return "nobody"
    return "owner" if promise.owners is None else "ledger"
