"""Plans: one portable file that tells every owner what to publish, and everybody what is promised.

A plan is canonical JSON with a digest over its content, so the same plan has the same digest everywhere
and an edited one is noticed. It is made from a model only, never from an owner's records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from elldelta.core.checks import check_releases, check_whole
from elldelta.core.moving import Moving
from elldelta.errors import ParameterError
from elldelta.files import (
    MALFORMED,
    AtomicFiles,
    MisfitError,
    NumberColumn,
    changed,
    fields_of,
    read_json,
    record_from,
    sealed_bytes,
    skeleton,
    unseal,
)
from elldelta.model.noise import ADDS_UP, Protection, promise_to_the_past
from elldelta.pages.page import Displayed
from elldelta.parameters import PLAN_KINDS, Movers, PlanKind
from elldelta.plan.classes import (
    Boxes,
    Classes,
    Runs,
    check_ranges,
    classes_from_dict,
    hull_labels,
    whole_ranges,
)
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.words import about_changes, conditions_of, promise_of
from elldelta.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from elldelta.core.promises import Promise
    from elldelta.model.past import Past
    from elldelta.plan.closeness import Closeness

FORMAT_VERSION = 1
"""Version of the file and of the words in it (`words.py`); others are refused."""

KIND = "plan"


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed):
    """Classes, witness values, records to wait for, and the promise.

    Attributes:
        schema: The columns the plan is about.
        classes: Which combinations of quasi-identifiers are published together.
        columns: What is promised of every sensitive column; one or more, in the order of the schema.
        delta: The failure probability of one release that was asked for.
        releases: t, how many releases may be linked.
        records: N, the records every release needs.
        kind: "certified": boxes; every release is checked, and the promise is certain. "probabilistic":
            boxes; it holds except with probability failure_upper. "paper": the same of the paper's runs.
        min_records: A witness counts as present only with so many records.
        k: No published class of a certified release holds fewer records.
        moving: How classes move up the tree of the plan; None if they are fixed, the same for everybody.
        promise: What is promised, in words; written when the plan is made and never reworded.
        conditions: What must be true for the promise to hold.
        owners: How many owners are expected to publish through one ledger, if the plan was made for them.
        movers: Who moves among classes, so that these have their witnesses in common; None if nobody does.
        persons: Whether every release counts persons, as the model did because people have several records.
        model: What an agency calls the model the plan was made from; a digest would confirm guesses of it.
        past: How the past records behind the plan are protected by noise, if they are.
        seen: The range of every quasi-identifier in which nearly all past records lie; loss is measured
            against it. By default the whole domain.
    """

    schema: Schema
    classes: Classes
    columns: tuple[ColumnPlan, ...]
    delta: float
    releases: int
    records: int
    kind: PlanKind
    min_records: int
    k: int = 1
    moving: Moving | None = None
    promise: str = ""
    conditions: tuple[str, ...] = ()
    owners: int | None = None
    movers: Movers | None = None
    past: tuple[Protection, ...] = ()
    seen: tuple[tuple[int, int], ...] = ()
    persons: bool = False
    model: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.classes, Runs if self.kind == "paper" else Boxes):
            raise ParameterError("The classes of a plan are boxes, or the runs of a paper plan.")
        check_releases(self.releases)
        check_whole("the number of records", self.records)
        if self.kind not in PLAN_KINDS:
            raise ParameterError(f"The kind of a plan must be one of {', '.join(PLAN_KINDS)}.")
        if self.persons and not self.is_certified:
            raise ParameterError("Only releases of certified plans count persons.")
        if not 0.0 < self.delta < 1.0:
            raise ParameterError("delta must lie strictly between 0 and 1.")
        check_whole("the number of records per witness", self.min_records)
        check_whole("the fewest records of a class", self.k)
        if self.movers not in (None, *get_args(Movers)):
            raise ParameterError("Who moves under a plan is not known here.")
        object.__setattr__(self, "columns", tuple(self.columns))
        if len(self.columns) != len(self.schema.sensitives):
            raise ParameterError("A plan makes its promise for every sensitive column.")
        for column, sensitive in zip(self.columns, self.schema.sensitives, strict=True):
            column.check(self.n_classes, sensitive)
            if column.failure_upper == 1.0 and not self.is_certified:
                raise ParameterError("The failure probability of a plan must lie between 0 and 1.")
        object.__setattr__(self, "seen", tuple(map(tuple, self.seen)) or whole_ranges(self.schema))
        check_ranges(self.seen, self.schema)
        object.__setattr__(self, "promise", self.promise or promise_of(self))
        object.__setattr__(self, "conditions", tuple(self.conditions) or conditions_of(self))

    def for_column(self, index: int) -> Plan:
        """The plan of one of its sensitive columns, with the same classes."""
        if len(self.columns) == 1:
            return self
        schema, columns = self.schema.for_column(index), (self.columns[index],)
        return replace(self, schema=schema, columns=columns, promise="", conditions=())

    @property
    def ells(self) -> tuple[int, ...]:
        """Ell of every sensitive column."""
        return tuple(column.ell for column in self.columns)

    @property
    def failure_upper(self) -> float:
        """Bound on the probability that the promise of any column does not hold, or a release is refused.

        Not for closeness: that chance is estimated, at most delta per release.
        """
        return min(self.n_planned * self.delta, sum(column.failure_upper for column in self.columns))

    @property
    def promises_closeness(self) -> bool:
        """Whether something is promised about shares of linked records."""
        return any(column.closeness is not None for column in self.columns)

    @cached_property
    def promises(self) -> tuple[Promise, ...]:
        """What every release must show: of each sensitive column in turn, and at last of its classes."""
        from elldelta.core.promises import Size

        ranges, slices = None, self.schema.value_slices
        if self.movers is not None:
            from elldelta.plan.movers import range_numbers

            ranges = range_numbers(self.schema, self.classes, self.movers)
        columns = zip(self.columns, self.schema.sensitives, slices, strict=True)
        return (
            *(
                promise
                for column, sensitive, values in columns
                for promise in column.promises(
                    sensitive,
                    values.start,
                    releases=self.releases,
                    min_records=self.min_records,
                    ranges=ranges,
                )
            ),
            Size(self.k, slices[0]),
        )

    @property
    def checked_promises(self) -> tuple[Promise, ...]:
        """Those that every release is checked for: all of a certified plan, of others the size of classes."""
        return self.promises if self.is_certified else self.promises[-1:]

    def past_records(self, model: Past) -> NDArray[np.int64]:
        """How many records of a model lie in each class."""
        import numpy as np

        from elldelta.model.model import reordered

        records = np.zeros(self.n_classes, dtype=np.int64)
        for part in model.models():
            counts = reordered(part, self.schema).counts
            found = np.bincount(self.class_of(counts.ranks), counts.combination_totals, self.n_classes)
            records += found.astype(np.int64)
        return records

    def loss(self, model: Past, past_records: NDArray[np.int64] | None = None) -> float:
        """How much information a release of the past records would lose: 0 is exact, 1 tells nothing.

        Args:
            model: The model.
            past_records: How many records of it lie in each class, where that is known already.
        """
        from elldelta.core.utility import information_loss, spans_of_hulls

        spans, account = spans_of_hulls(*self.hulls, self.seen), model.accounting
        n_left_out = account.n_suppressed + account.n_quarantined
        records = self.past_records(model) if past_records is None else past_records
        return information_loss(records, spans, n_left_out) or 0.0

    @property
    def is_certified(self) -> bool:
        """Whether every release is checked before it is published."""
        return self.kind == "certified"

    @property
    def n_planned(self) -> int:
        """How many releases the failure of a certified plan is about: t, or one of every owner."""
        return self.owners or self.releases

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {
            "promise": self.promise,
            **self._by_column("ell", [column.ell for column in self.columns if column.promises_values]),
            **self._by_column("closeness", [near.limit for near in self._closeness]),
            "releases": self.releases,
            "records": self.records,
            "classes": f"{self.n_classes:,} {self.classes.shape}",
            "kind": self.kind,
            **({"fewest records of a class": self.k} if self.k > 1 else {}),
            **({} if self.moving is None else {"merge risk": self.moving.merge_risk}),
            "digest": self.digest,
            **({"past": self.past_promise} if self.past else {}),
        }

    @property
    def _closeness(self) -> list[Closeness]:
        return [column.closeness for column in self.columns if column.closeness is not None]

    def _by_column(self, name: str, numbers: Sequence[float]) -> dict[str, object]:
        """Numbers of the sensitive columns in a row; nothing where there are none."""
        return {name: ", ".join(f"{number:g}" for number in numbers)} if numbers else {}

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """What must be true for the promise to hold."""
        return ("what must be true",), [(condition,) for condition in self.conditions]

    def plot(self, columns: Sequence[str] | None = None) -> Figure | None:
        """The classes over two quasi-identifiers, by default the finest; None if there is only one."""
        from elldelta.plan.picture import picture_of_classes

        return picture_of_classes(self, columns) if len(self.schema.names) > 1 else None

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return self.classes.n_classes

    @cached_property
    def hulls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier."""
        return self.classes.hulls(self.schema)

    @cached_property
    def labels(self) -> list[tuple[str, ...]]:
        """What a release shows for each class: one label per quasi-identifier."""
        return hull_labels(self.schema, *self.hulls)

    def cells(self) -> NDArray[np.float64]:
        """P(c, s), classes x values; 0 for values that are no witnesses, which errs on the safe side."""
        import numpy as np

        columns = zip(self.columns, self.schema.sensitives, strict=True)
        return np.concatenate([column.cells(sensitive.size) for column, sensitive in columns], axis=1)

    def class_of(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination, seen or not."""
        return self.classes.class_of(self.schema, ranks)

    @property
    def past_promise(self) -> str:
        """The second promise, to the people in the past records; empty where nothing protects them."""
        return f"{promise_to_the_past(self.past)} {ADDS_UP}" if self.past else ""

    @property
    def about_changes(self) -> str:
        """What the promise assumes about changes of people between releases, in a sentence."""
        return about_changes(self.schema, self.movers)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values, with its digest."""
        document: dict[str, Any] = json.loads(self.file_content[1])
        return document

    @cached_property
    def file_content(self) -> tuple[str, bytes]:
        """The digest of everything the plan says, and the bytes of its file."""
        return sealed_bytes(KIND, FORMAT_VERSION, self._content())

    def _content(self) -> dict[str, Any]:
        """What the plan says."""
        import numpy as np

        content = {
            **fields_of(self),
            "schema": self.schema.to_dict(),
            "classes": {
                name: NumberColumn.of(np.array(member)) if isinstance(member, list) else member
                for name, member in self.classes.to_dict().items()
            },
            "conditions": list(self.conditions),
            "past": [protection.to_dict() for protection in self.past],
            "columns": [column.to_dict() for column in self.columns],
            "moving": None if self.moving is None else fields_of(self.moving),
        }
        content["plan_kind"] = content.pop("kind")  # a file has its own kind
        return content

    def summary(self) -> dict[str, Any]:
        """What the plan promises as plain JSON values, without its classes and witnesses."""
        return {
            "classes": self.n_classes,
            "records": self.records,
            "columns": [
                {"column": name, **column.summary()}
                for name, column in zip(self.schema.sensitive_names, self.columns, strict=True)
            ],
            "delta": self.delta,
            "releases": self.releases,
            "failure_upper": self.failure_upper,
            "kind": self.kind,
            "k": self.k,
            "moving": None if self.moving is None else {**fields_of(self.moving), "k1": self.moving.k1},
            "owners": self.owners,
            "digest": self.digest,
            "promise": self.promise,
            "conditions": list(self.conditions),
            "movers": self.movers,
            "persons": self.persons,
            **({"past_promise": self.past_promise} if self.past else {}),
        }

    @cached_property
    def digest(self) -> str:
        """The digest of everything the plan says."""
        return self.file_content[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _is_as_read(self, text: bytes, digest: str) -> bool:
        """Whether the plan says what was read under a digest, to the letter."""
        if skeleton(self._content())[0] == text:  # its columns are those that were read
            self.__dict__["digest"] = digest
            return True
        return self.digest == digest

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The plan") -> Plan:
        """Reads what `to_dict` wrote; refuses other versions and content that does not match its digest."""
        from elldelta.plan.consistency import contradicting, contradiction

        content = unseal(KIND, FORMAT_VERSION, document, source)
        text, numbers = skeleton(content)
        for column in numbers:  # otherwise they keep the file in memory
            column.forget_text()
        try:
            schema = Schema.from_dict(content["schema"])
            classes = classes_from_dict(content["classes"], schema)
            columns = zip(content["columns"], schema.sensitives, strict=True)
            parameters = {
                **content,
                "kind": content["plan_kind"],
                "schema": schema,
                "classes": classes,
                "columns": tuple(ColumnPlan.from_dict(column, values) for column, values in columns),
            }
            plan = record_from(cls, parameters)
            # The words must be those that this format has for the numbers: nobody else's promise counts.
            intact = (
                plan._is_as_read(text, document["digest"])
                and plan.promise == promise_of(plan)
                and plan.conditions == conditions_of(plan)
            )
            problem = contradiction(plan, recompute=False) if intact else None
        except MisfitError as misfit:
            raise changed(source, misfit.words) from None
        except MALFORMED:
            intact = False
        if not intact:
            raise changed(source)
        if problem is not None:
            raise contradicting(source, problem)
        return plan


class Made(NamedTuple):
    """A plan that was made, and how many records of its model lie in each class, which it does not tell."""

    plan: Plan
    past_records: NDArray[np.int64]

    def loss(self, model: Past) -> float:
        """How much information a release of the records of the model would lose."""
        return self.plan.loss(model, self.past_records)


def write_plan(plan: Plan, path: Path, *, overwrite: bool = False) -> None:
    """Writes a plan as canonical JSON, whole or not at all."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_bytes(plan.file_content[1])


def read_plan(path: Path) -> Plan:
    """Reads a plan; refuses other files, other versions and edited plans."""
    return Plan.from_dict(read_json(path, KIND, columns=True), source=f"The plan {path}")
