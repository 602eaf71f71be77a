"""The file of an owner's state: what it says about itself. Who is in it is read in engines only."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta.errors import FileError, ParameterError, counted
from elldelta.files import (
    MALFORMED,
    MisfitError,
    changed,
    check_format,
    fields_of,
    is_digest,
    record_from,
    unreadable,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from elldelta.plan.plan import Plan

FORMAT_VERSION = 1
METADATA_KEY = b"elldelta.state"
COLUMNS = ("who", "val", "home", "shown", "has_left", "waited")


MOST_RECORDS = 2**53 - 1
"""More records than this cannot be added up everywhere without a rounding error, and nobody has them."""


@dataclass(frozen=True)
class Cells:
    """Counts by published class and value, without zeros and in their only order.

    Attributes:
        classes: Published classes with a record of a value, rising; numbered by their first base class.
        values: The positions of these values, rising within a class.
        counts: How many records, at least 1.
    """

    classes: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        is_even = len(self.classes) == len(self.values) == len(self.counts)
        places = list(zip(self.classes, self.values, strict=False))
        if (
            not is_even
            or not all(one < other for one, other in pairwise(places))
            or min((0, *self.classes[:1], *self.values)) < 0
            or min(self.counts, default=1) < 1
            or sum(self.counts) > MOST_RECORDS
        ):
            raise ParameterError("Counts must be above 0, and stand in the order of classes and values.")

    def to_dict(self) -> dict[str, Any]:
        """The cells as plain JSON values."""
        return fields_of(self)

    @classmethod
    def of(cls, table: NDArray[np.int64]) -> Self:
        """The cells of a table, classes x values."""
        places = np.nonzero(table)
        return cls(*(tuple(numbers.tolist()) for numbers in (*places, table[places])))

    def table(self, n_classes: int, n_values: int) -> NDArray[np.int64]:
        """The counts as a table, classes x values.

        Raises:
            FileError: They speak of classes or values that there are not.
        """
        if max(self.classes, default=0) >= n_classes or max(self.values, default=0) >= n_values:
            raise FileError(
                "There are counts of classes or values that the release does not have.",
                found=f"The plan has {counted(n_classes, 'class', 'classes')} and "
                f"{counted(n_values, 'sensitive value')}.",
                remedy="Make them from the release and the plan it was made with.",
            )
        table = np.zeros((n_classes, n_values), dtype=np.int64)
        table[list(self.classes), list(self.values)] = self.counts
        return table


@dataclass(frozen=True)
class UpdateSummary:
    """What an agency is told of a table that is published again: numbers of records, nothing about a person.

    Attributes:
        state: The digest of the owner's state, which stays with the owner.
        since: The digest of the state before it; None the first time.
        came: Who came since then.
        went: Who went.
    """

    state: str
    since: str | None = None
    came: Cells = Cells()
    went: Cells = Cells()

    def __post_init__(self) -> None:
        is_first = self.since is None
        if (
            not is_digest(self.state)
            or not (is_first or is_digest(self.since))
            or (is_first and (self.came.counts or self.went.counts))
        ):
            raise ParameterError("What a state says about an update contradicts itself.")

    def to_dict(self) -> dict[str, Any]:
        """What is told as plain JSON values."""
        return {**fields_of(self), "came": self.came.to_dict(), "went": self.went.to_dict()}


@dataclass(frozen=True)
class StateHead:
    """What a state says about itself.

    Attributes:
        format: The version of the file.
        plan: The digest of the plan.
        owner: The owner.
        person: What tells persons apart: a column, and the kind of its values.
        secret: Keeps anybody from guessing who is in the state and comparing digests.
        since: The digest of the state before it; None the first time.
        came: Who came since then.
        went: Who went.
    """

    format: int
    plan: str
    owner: str
    person: tuple[str, str]
    secret: str
    since: str | None
    came: Cells
    went: Cells

    def to_dict(self) -> dict[str, Any]:
        """The head as plain JSON values."""
        return {**fields_of(self), "came": self.came.to_dict(), "went": self.went.to_dict()}


def read_update_summary(path: Path, plan: Plan) -> UpdateSummary:
    """What a state says for an agency.

    Raises:
        FileError: It is no state of a table under this plan.
    """
    head = read_head(path)
    if head.plan != plan.digest:
        raise FileError(
            f"The state {path} does not belong to this release.",
            found="It is that of another plan.",
            remedy="Give the state that was written with the release.",
        )
    try:
        return UpdateSummary(state_digest(path), head.since, head.came, head.went)
    except ParameterError as problem:
        raise changed(f"The state {path}", problem.problem) from None


def read_head(path: Path) -> StateHead:
    """What a state says about itself."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = f"The state {path}"
    try:
        head: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[METADATA_KEY])
        version = head["format"]
    except OSError as problem:
        raise unreadable(path, "state", problem) from None
    except (pa.ArrowException, *MALFORMED):
        raise FileError(
            f"{source} is not a state.",
            found="It is not a file that a release has written for its owner.",
            remedy="Give the file that was written with the last release.",
            parameter="since",
        ) from None
    check_format(source, version, FORMAT_VERSION)
    try:
        return record_from(StateHead, head)
    except MisfitError as problem:
        raise changed(source, problem.words) from None


def state_digest(path: Path) -> str:
    """The digest of a state, which the owner's line in the ledger names."""
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise unreadable(path, "state", problem) from None
