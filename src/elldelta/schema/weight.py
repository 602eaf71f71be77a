"""The column of weights of a survey: how many people a record stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.engines import sql
from elldelta.errors import DataError, Note, SchemaError, counted
from elldelta.files import fields_of
from elldelta.schema.column import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.engines import Table

FEWEST = 10
"""So many records share a mean weight, if weights are much alike."""
_SMALLEST_MEAN = 4
"""Records that share a mean weigh at least this many steps together, on average: rounding then moves it by at
most an eighth."""


@dataclass(frozen=True)
class Weight:
    """The column of weights.

    Attributes:
        name: The name in the table.
        largest: No record weighs more. It is public, and the step to which total weights are rounded.
        fewest: So many records at least share a mean weight in releases.
    """

    name: str
    largest: float
    fewest: int = FEWEST

    def __post_init__(self) -> None:
        check_name(self.name)
        if not (math.isfinite(self.largest) and 1e-100 < self.largest < 1e100):
            raise SchemaError(
                f"The largest weight in column {self.name!r} must be a number above 0.",
                found="It is 0, negative or not finite.",
                remedy="Give the largest weight that a record of any owner may have.",
            )
        if self.fewest < 2:
            raise SchemaError(
                "At least 2 records share a mean weight.",
                found=f"It is to be shared by {self.fewest}.",
                remedy=f"Write fewest = {FEWEST}, or more.",
            )
        object.__setattr__(self, "largest", float(self.largest))

    def to_dict(self) -> dict[str, object]:
        """As plain JSON values."""
        return fields_of(self)

    def number(self, table: Table) -> str:
        """The SQL expression of the weights of a table as real numbers; NULL where there is none."""
        table.require([self.name])
        kind = table.kind_of(self.name)
        if kind not in {"integer", "real", "text"}:
            raise DataError(
                f"Column {self.name!r} cannot hold weights.",
                found=f"Its values are of kind {kind}.",
                remedy="Weights are numbers. Convert the column, or name another one.",
            )
        return sql.real(sql.identifier(self.name), kind)

    def check(self, problems: Mapping[str, int], n_read: int) -> None:
        """Refuses records whose weights cannot be used; `problems` counts them, by what is wrong."""
        found = [f"{n:,} {words}" for words, n in problems.items() if n]
        if found:
            raise DataError(
                f"Column {self.name!r} holds weights that cannot be used.",
                found=f"{', '.join(found)}; of {counted(n_read, 'record')}. A weight is above 0 and at most "
                f"{self.largest:g}, which the schema says is the largest.",
                remedy="Correct them, leave these records out, trim large weights, or ask for a plan whose "
                "schema allows larger ones.",
            )


WRONG_WEIGHTS = ("without a number", "zero or negative", "too large or infinite")
"""What may be wrong with weights, in the order of `elldelta.engines.sql.wrong_weights`."""


def propose_weight(table: Table, name: str | None) -> tuple[Weight | None, tuple[Note, ...]]:
    """The column of weights of a table, with rounded numbers about it; and what looks wrong."""
    if name is None:
        return None, ()
    number = Weight(name, 1.0).number(table)
    engine = table.engine
    stored = engine.store(sql.weights_seen(table.relation, number))
    with engine.discarding([stored]):
        [row] = [row for batch in engine.fetch(stored) for row in batch.to_pylist()]
    n_usable = int(row["n_usable"])
    if not n_usable:
        raise DataError(
            f"Column {name!r} holds no weight.",
            found=f"None of {counted(int(row['n']), 'record')} has a number above 0 there.",
            remedy="Name the column that says how many people a record stands for.",
        )
    largest = _round_up(float(row["high"]))
    ratio = largest / (float(row["total"]) / n_usable)
    fewest = max(FEWEST, int(_round_up(_SMALLEST_MEAN * ratio)))
    n_wrong = int(row["n"]) - n_usable
    note = Note(
        f"{name}: no weight above 0 in {n_wrong:,} of {counted(int(row['n']), 'record')}. A release "
        "refuses such.",
        "Correct them, or leave these records out.",
    )
    return Weight(name, largest, fewest), (note,) if n_wrong else ()


def _round_up(number: float) -> float:
    """The next number with one digit: it tells less of a single record than the largest weight itself."""
    power = math.floor(math.log10(number))
    return float(f"{math.ceil(number / 10.0**power)}e{power}")
