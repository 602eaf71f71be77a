"""What an agency's server tells: the same types for the server and for those who ask it.

The server fills them from its tables, by the aliases; a client reads them by the names. They need neither.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from elldelta.parameters import PlanKind
from elldelta.plan.signature import PlanStatus

ReleaseState = Literal["registered", "published", "voided"]


class View(BaseModel):
    """What callers see of a row: the fields that it names and nothing else."""

    model_config = ConfigDict(frozen=True, from_attributes=True, populate_by_name=True)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """What is seen of the first thing that a query has found."""
        return cls.model_validate(row[0])


class PlanView(View):
    """What a list says about a plan.

    Attributes:
        digest: Its digest, which is its name.
        population: Which people it is about.
        status: Whether it still admits releases.
        superseded_by: The digest of the plan that took its place.
        reason: Why it was withdrawn.
        ell: Sensitive values left for everybody; of several columns the fewest.
        delta: Failure probability of one release.
        releases: t, how many releases may be linked.
        records: N, the records every release needs.
        classes: How many classes it has.
        kind: "certified", "probabilistic" or "paper".
        promise: What it promises, in words.
        closeness: How far shares may be from what it says, of several columns the furthest; None if it
            promises distinct values only.
    """

    digest: str
    population: str = Field(validation_alias=AliasPath("population", "name"))
    status: PlanStatus
    superseded_by: str | None
    reason: str | None
    issued: dt.datetime = Field(validation_alias="issued_at")
    ended: dt.datetime | None = Field(validation_alias="ended_at")
    ell: int
    delta: float
    releases: int
    records: int
    classes: int = Field(validation_alias="n_classes")
    kind: PlanKind
    promise: str
    closeness: float | None


class ColumnPromise(View):
    """What a plan promises of one of several sensitive columns."""

    name: str
    ell: int
    closeness: float | None


class PlanDetails(View):
    """What a page says about a plan: the list's words, and what must be true for them.

    Attributes:
        plan: What a list says.
        owners: How many owners are expected to publish through its ledger; None if nobody said so.
        owners_admitted: How many owners have a release in it.
        k: The fewest records of a published class.
        merge_risk: The chance that a class does not pass by itself; None if classes are fixed.
        sensitive: The sensitive column, or all of them.
        columns: What is promised of each of several sensitive columns.
    """

    plan: PlanView
    owners: int | None
    owners_admitted: int
    k: int
    merge_risk: float | None
    conditions: tuple[str, ...]
    quasi_identifiers: tuple[str, ...]
    sensitive: str
    columns: tuple[ColumnPromise, ...]
    key_id: str


class OwnerProgress(View):
    """One owner's number."""

    owner: str
    records: int
    reached: bool
    reported: dt.datetime


class ProgressView(View):
    """How far owners are.

    Attributes:
        plan: The digest of the plan.
        needed: N, the records every release needs.
        owners_reached: How many owners have reached N.
        own_records: The caller's own number, if it is an owner that has reported.
        owners: Every owner, for the agency and for auditors; None for everybody else.
    """

    plan: str
    needed: int
    owners_reached: int
    own_records: int | None
    owners: tuple[OwnerProgress, ...] | None


class Admitted(View):
    """That a release has its line in the ledger: a receipt, signed by the agency.

    Attributes:
        is_new: Whether it got its line just now.
    """

    is_new: bool
    plan: str
    population: str
    owner: str
    content_digest: str
    sequence: int
    hash: str
    key_id: str
    signature: str


class ReleaseView(View):
    """What everybody may know about a registered release.

    Attributes:
        classes: Its classes with a record.
        classes_together: How many planned classes are published together with others.
        left_out: The records that its owner has left out, for whatever reason.
        loss: How much information is lost; a record that is left out counts 1.
        updates: Of a table that is published again, the line of the release that it updates; None for others.
        update: How many came and went since then; None for a release that stands alone.
    """

    sequence: int
    owner: str = Field(validation_alias=AliasPath("party", "name"))
    content_digest: str
    hash: str = Field(validation_alias=AliasPath("line", "hash"))
    records: int = Field(validation_alias=AliasPath("facts", "records"))
    classes: int = Field(validation_alias=AliasPath("facts", "classes"))
    diversity: int | None = Field(validation_alias=AliasPath("facts", "diversity"))
    classes_together: int = Field(validation_alias=AliasPath("facts", "classes_together"))
    left_out: int = Field(validation_alias=AliasPath("facts", "left_out"))
    loss: float = Field(validation_alias=AliasPath("facts", "loss"))
    certified: bool = Field(validation_alias=AliasPath("facts", "certified"))
    state: ReleaseState
    registered: dt.datetime = Field(validation_alias=AliasPath("line", "added_at"))
    updates: int | None = Field(default=None, validation_alias=AliasPath("facts", "updates"))
    update: dict[str, int] | None = Field(default=None, validation_alias=AliasPath("facts", "update"))


class SubtractionView(View):
    """What subtracting a release from what others have published shows.

    Attributes:
        status: Whether a group with too few values is possible by the counts, was not found, or nothing was
            there to try; what is found is refused.
        words: The same in a sentence.
    """

    status: Literal["found", "possible", "not tried", "not found"]
    words: str


class StateView(View):
    """What is known about a release now.

    Attributes:
        subtraction: Of a release that is published now: what subtraction shows.
    """

    plan: str
    content_digest: str
    state: ReleaseState
    subtraction: SubtractionView | None = None


class KeyView(View):
    """The keys with which everybody can check the agency's signatures.

    Attributes:
        id: The name of the present key.
        public_keys: A PEM bundle: the present key first, then those that the agency signed with before.
    """

    id: str
    algorithm: Literal["Ed25519"] = "Ed25519"
    public_keys: str
