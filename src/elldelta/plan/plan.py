"""Plans: one portable file that tells every owner what to publish, and everybody what is promised.

A plan is canonical JSON with a digest over its content, so the same plan has the same digest everywhere
and an edited one is noticed. It is made from a model only, never from an owner's records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, get_args

from elldelta.core.checks import check_ell, check_releases, check_whole
from elldelta.core.moving import Moving
from elldelta.errors import ElldeltaError, FileError, ParameterError
from elldelta.files import (
    AtomicFiles,
    MisfitError,
    changed,
    fields_of,
    read_json,
    record_from,
    sealed_bytes,
    unsealed_parts,
)
from elldelta.model.noise import ADDS_UP, Protection, promise_to_the_past
from elldelta.pages.page import Displayed
from elldelta.parameters import PLAN_KINDS, Movers, PlanKind
from elldelta.plan.classes import (
    Boxes,
    Classes,
    Runs,
    class_labels,
    classes_from_dict,
    clipped,
    lengths_of,
    whole_ranges,
)
from elldelta.plan.closeness import Closeness
from elldelta.plan.several import (
    check_faces,
    face_from_dict,
    face_to_dict,
    faces_of,
)
from elldelta.plan.words import conditions_of, promise_of
from elldelta.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from elldelta.core.certificate import CertificateTerms
    from elldelta.core.several import Terms
    from elldelta.core.utility import HullLoss, Utility
    from elldelta.model.model import Model

FORMAT_VERSION = 1
"""Version of the file; others are refused."""

KIND = "plan"

_TABLES = ("witnesses", "witness_cells")


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed):
    """Classes, witness values, records to wait for, and the promise.

    Attributes:
        schema: The columns the plan is about.
        classes: Which combinations of quasi-identifiers are published together.
        ell: Sensitive values left for everybody who is in all linked releases.
        delta: The failure probability of one release that was asked for.
        releases: t, how many releases may be linked.
        records: N, the records every release needs.
        failure_upper: Bound on the probability that linking t releases leaves somebody below ell; in a
            certified plan, that one of t releases, or of those of all owners, with N records each is refused.
        kind: "certified": boxes; every release is checked, and the promise is certain. "probabilistic":
            boxes; it holds except with probability failure_upper. "paper": the same of the paper's runs.
        witnesses: Per class, the values that the proof counts, most probable first.
        witness_cells: Their probabilities P(c, s) in the model, so that promises can be recomputed and
            composed from plans alone.
        p: What ell cells of every class of a paper plan reach.
        min_records: A witness counts as present only with so many records.
        model_digest: The model the plan was made from.
        k: No published class of a certified release holds fewer records.
        moving: How classes move up the tree of the plan; None if they are fixed, the same for everybody.
        promise: What is promised, in words; written when the plan is made and never reworded.
        conditions: What must be true for the promise to hold.
        owners: How many owners are expected to publish through one ledger, if the plan was made for them.
        movers: Who moves among classes, so that these have their witnesses in common; None if nobody does.
        past: How the past records behind the plan are protected by noise, if they are.
        closeness: What is promised about shares of linked records, if that was asked for. With ell = 1 it is
            all that is promised, and there are no witnesses.
        seen: The range of every quasi-identifier in which nearly all past records lie; loss is measured
            against it. By default the whole domain.
        also: Where there are several sensitive columns: the plans of the further ones, with the same classes.
            What this plan says of values is about the first.
    """

    schema: Schema
    classes: Classes
    ell: int
    delta: float
    releases: int
    records: int
    failure_upper: float
    kind: PlanKind
    witnesses: tuple[tuple[int, ...], ...]
    witness_cells: tuple[tuple[float, ...], ...]
    p: float | None
    min_records: int
    model_digest: str
    k: int = 1
    moving: Moving | None = None
    promise: str = ""
    conditions: tuple[str, ...] = ()
    owners: int | None = None
    movers: Movers | None = None
    past: tuple[Protection, ...] = ()
    closeness: Closeness | None = None
    seen: tuple[tuple[int, int], ...] = ()
    also: tuple[Plan, ...] = ()

    def __post_init__(self) -> None:
        self._check_numbers()
        n_values = self.schema.sensitive.size  # of the first sensitive column
        check_ell(self.ell, self.schema.sensitive.n_groups)
        check_releases(self.releases)
        check_whole("the number of records", self.records)
        if self.kind not in PLAN_KINDS:
            raise ParameterError(f"The kind of a plan must be one of {', '.join(PLAN_KINDS)}.")
        if not 0.0 <= self.failure_upper <= 1.0 or (self.failure_upper == 1.0 and not self.is_certified):
            raise ParameterError("The failure probability of a plan must lie between 0 and 1.")
        if not 0.0 < self.delta < 1.0:
            raise ParameterError("delta must lie strictly between 0 and 1.")
        check_whole("the number of records per witness", self.min_records)
        check_whole("the fewest records of a class", self.k)
        if self.movers not in (None, *get_args(Movers)):
            raise ParameterError("Who moves under a plan is not known here.")
        witnesses = self.witness_arrays[1]
        fewest = self.ell if self.promises_values else 0
        if (
            len(self.witnesses) != self.classes.n_classes
            or min(map(len, self.witnesses), default=fewest) < fewest
            or not all(len(set(values)) == len(values) for values in self.witnesses)
            or (witnesses.size and not 0 <= witnesses.min() <= witnesses.max() < n_values)
        ):
            raise ParameterError("Every class of a plan needs at least ell different witness values.")
        object.__setattr__(self, "seen", tuple(map(tuple, self.seen)) or whole_ranges(self.schema))
        if len(self.seen) != len(self.schema.sizes) or not all(
            0 <= low <= high < size for (low, high), size in zip(self.seen, self.schema.sizes, strict=True)
        ):
            raise ParameterError("The ranges that were seen must lie inside their domains.")
        if self.closeness is not None:
            self.closeness.check(self.n_classes, n_values)
        object.__setattr__(self, "also", tuple(self.also))
        if self.schema.also_sensitive or self.also:
            check_faces(self)
        object.__setattr__(self, "promise", self.promise or promise_of(self))
        object.__setattr__(self, "conditions", tuple(self.conditions) or conditions_of(self))

    def _check_numbers(self) -> None:
        """Plans come from files: numbers must be possible before anything is computed with them."""
        real = (self.failure_upper, self.delta, self.p)
        if not all(n is None or 0.0 <= n <= 1.0 for n in real):
            raise ParameterError("A probability of the plan does not lie between 0 and 1.")
        if list(map(len, self.witnesses)) != list(map(len, self.witness_cells)):
            raise ParameterError("Every witness value of a plan needs its probability.")
        try:
            cells = self.witness_arrays[2]
        except OverflowError:
            raise ParameterError("A number of the plan is too large.") from None
        if not ((cells >= 0.0) & (cells <= 1.0)).all():
            raise ParameterError("The probability of a witness must lie between 0 and 1.")
        if not isinstance(self.classes, Runs if self.kind == "paper" else Boxes):
            raise ParameterError("The classes of a plan are boxes, or the runs of a paper plan.")

    @cached_property
    def witness_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The witnesses of all classes, one class after the other: where each begins, values and cells."""
        import numpy as np

        offsets = np.cumsum([0, *map(len, self.witnesses)])
        values = np.fromiter(chain.from_iterable(self.witnesses), np.int64, offsets[-1])
        cells = np.fromiter(chain.from_iterable(self.witness_cells), np.float64, offsets[-1])
        return offsets, values, cells

    @cached_property
    def faces(self) -> tuple[Plan, ...]:
        """The plans of one sensitive column each that this one is made of; mostly itself."""
        return faces_of(self)

    @property
    def ells(self) -> tuple[int, ...]:
        """Ell of every sensitive column."""
        return (self.ell, *(face.ell for face in self.also))

    @cached_property
    def all_terms(self) -> Terms:
        """What a certified release must show, in every sensitive column."""
        from elldelta.core.several import joint

        if not self.also:
            return self.faces[0].terms
        return joint([replace(face.terms, name=face.schema.sensitive.name) for face in self.faces])

    @cached_property
    def terms(self) -> CertificateTerms:
        """What a certified release must show, if there is one sensitive column.

        Raises:
            ParameterError: There are several.
        """
        from elldelta.core.certificate import CertificateTerms
        from elldelta.plan.movers import range_numbers

        if self.schema.also_sensitive:
            raise ParameterError(
                "This is computed for plans with one sensitive column.",
                found=f"This one has {len(self.schema.sensitives)}: "
                f"{', '.join(map(repr, self.schema.sensitive_names))}.",
                remedy="Make a plan for one of them.",
            )
        return CertificateTerms.from_lists(
            self.witnesses,
            self.schema.n_values,
            ell=self.ell,
            releases=self.releases,
            min_records=self.min_records,
            k=self.k,
            moves=range_numbers(self.schema, self.classes, self.movers),
            closeness=None if self.closeness is None else self.closeness.terms(self.n_classes, self.releases),
        )

    @property
    def promises_values(self) -> bool:
        """Whether distinct values are promised, and not only closeness."""
        return self.closeness is None or self.ell > 1

    @cached_property
    def hull_loss(self) -> HullLoss:
        """Where the classes lie, weighed by what the plan expects in them, not by an owner's records."""
        from elldelta.core.utility import HullLoss

        lows, highs = clipped(self.seen, self.classes.hulls(self.schema))
        return HullLoss(lows, highs, lengths_of(self.seen), self.masses_lower)

    @property
    def masses_lower(self) -> NDArray[np.float64]:
        """How probable each class is at least: as its witnesses are together, or as closeness tells."""
        import numpy as np

        if self.closeness is not None:
            return np.array(self.closeness.masses)
        return self.by_class(self.witness_arrays[2])

    def by_class(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """What numbers of all witnesses, as in `witness_arrays`, add up to in each class."""
        import numpy as np

        classes = np.repeat(np.arange(self.n_classes), np.diff(self.witness_arrays[0]))
        sums: NDArray[np.float64] = np.bincount(classes, cells, self.n_classes).astype(np.float64)
        return sums

    def utility(self, model: Model) -> Utility:
        """How much information the classes keep, measured on a model: a forecast for the plan's records."""
        import numpy as np

        from elldelta.core.utility import measure_utility
        from elldelta.model.model import reordered

        model = reordered(model, self.schema)
        totals = model.counts.combination_totals
        shares = np.bincount(self.class_of(model.ranks), totals, self.n_classes) / totals.sum()
        lows, highs = clipped(self.seen, self.classes.hulls(self.schema))
        return measure_utility(shares, lows, highs, lengths_of(self.seen), self.records)

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
            **(
                {"ell": ", ".join(map(str, self.ells)) if self.also else self.ell}
                if self.promises_values
                else {}
            ),
            **({} if self.closeness is None else {"closeness": self.closeness.limit}),
            "releases": self.releases,
            "records": self.records,
            "classes": f"{self.n_classes:,} {self.classes.shape}",
            "kind": self.kind,
            **({"fewest records of a class": self.k} if self.k > 1 else {}),
            **({} if self.moving is None else {"merge risk": self.moving.merge_risk}),
            "digest": self.digest,
            **({"past": self.past_promise} if self.past else {}),
        }

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """What must be true for the promise to hold."""
        return ("what must be true",), [(condition,) for condition in self.conditions]

    def plot(self, columns: Sequence[str] | None = None) -> Figure | None:
        """The classes over two quasi-identifiers, by default the finest; None if there is only one."""
        from elldelta.plan.picture import picture_of_classes

        return picture_of_classes(self, columns=columns) if len(self.schema.names) > 1 else None

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return self.classes.n_classes

    @cached_property
    def labels(self) -> list[tuple[str, ...]]:
        """What a release shows for each class: one label per quasi-identifier."""
        return class_labels(self.schema, self.classes)

    def cells(self) -> NDArray[np.float64]:
        """P(c, s), classes x values; 0 for values that are no witnesses, which errs on the safe side."""
        import numpy as np

        if self.schema.also_sensitive:
            return np.concatenate([face.cells() for face in self.faces], axis=1)
        table = np.zeros((self.n_classes, self.schema.n_values))
        offsets, values, cells = self.witness_arrays
        table[np.repeat(np.arange(self.n_classes), np.diff(offsets)), values] = cells
        return table

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
        from elldelta.plan.movers import about_changes

        return about_changes(self.schema, self.movers)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values, with its digest."""
        content = self._content()
        tables = {name: list(map(list, content[name])) for name in _TABLES}
        return {
            "kind": f"elldelta {KIND}",
            "format": FORMAT_VERSION,
            **content,
            **tables,
            "digest": self.digest,
        }

    @cached_property
    def file_content(self) -> tuple[str, bytes]:
        """The digest of everything the plan says, and the bytes of its file."""
        self.__dict__.pop("witness_arrays", None)  # large, as the bytes are: whoever writes a plan needs none
        return sealed_bytes(KIND, FORMAT_VERSION, self._content())

    def _content(self) -> dict[str, Any]:
        """What the plan says."""
        content = {
            **fields_of(self),
            "schema": self.schema.to_dict(),
            "classes": self.classes.to_dict(),
            "conditions": list(self.conditions),
            "past": [protection.to_dict() for protection in self.past],
            "closeness": None if self.closeness is None else self.closeness.to_dict(),
            "moving": None if self.moving is None else fields_of(self.moving),
            "also": [face_to_dict(face) for face in self.also],
        }
        content["plan_kind"] = content.pop("kind")  # a file has its own kind
        return content

    def summary(self) -> dict[str, Any]:
        """What the plan promises as plain JSON values, without its classes and witnesses."""
        return {
            "classes": self.n_classes,
            "records": self.records,
            "ell": self.ell,
            "delta": self.delta,
            "releases": self.releases,
            "failure_upper": self.failure_upper,
            "kind": self.kind,
            "k": self.k,
            "moving": None if self.moving is None else {**fields_of(self.moving), "k1": self.moving.k1},
            "owners": self.owners,
            "p": self.p,
            "digest": self.digest,
            "promise": self.promise,
            "conditions": list(self.conditions),
            "movers": self.movers,
            **({"past_promise": self.past_promise} if self.past else {}),
            **(
                {}
                if self.closeness is None
                else {"closeness": self.closeness.limit, "closeness_to": self.closeness.to}
            ),
        }

    @cached_property
    def digest(self) -> str:
        """The digest of everything the plan says."""
        return self.file_content[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The plan") -> Plan:
        """Reads what `to_dict` wrote; refuses other versions and content that does not match its digest."""
        from elldelta.plan.consistency import contradiction

        content, parts = unsealed_parts(KIND, FORMAT_VERSION, document, source)
        try:
            schema = Schema.from_dict(content["schema"])
            classes = classes_from_dict(content["classes"], schema)
            first = schema.for_column(0) if schema.also_sensitive else schema
            said = {**content, "kind": content["plan_kind"], "schema": first, "classes": classes, "also": ()}
            plan = record_from(cls, said)
            if schema.also_sensitive:
                further = enumerate(content["also"], start=1)
                also = tuple(face_from_dict(said, schema.for_column(place), own) for place, own in further)
                plan = replace(plan, schema=schema, also=also)
            # These hold what stands in the document, so they need not be written out again.
            written = {name: parts[name] for name in _TABLES}
            plan.__dict__["file_content"] = sealed_bytes(KIND, FORMAT_VERSION, plan._content(), written)
            # The words must be those that this format has for the numbers: nobody else's promise counts.
            intact = (
                plan.digest == document["digest"]
                and plan.promise == promise_of(plan)
                and plan.conditions == conditions_of(plan)
            )
            problem = contradiction(plan) if intact else None
        except MisfitError as misfit:
            raise changed(source, misfit.words) from None
        except (
            ElldeltaError,
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            RecursionError,
        ):
            intact = False
        if not intact:
            raise changed(source)
        if problem is not None:
            raise FileError(
                f"{source} contradicts itself.",
                found=problem,
                remedy="Do not rely on it; fetch the original from whoever made it.",
            )
        return plan


def write_plan(plan: Plan, path: Path, *, overwrite: bool = False) -> None:
    """Writes a plan as canonical JSON, whole or not at all."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_bytes(plan.file_content[1])


def read_plan(path: Path) -> Plan:
    """Reads a plan; refuses other files, other versions and edited plans."""
    return Plan.from_dict(read_json(path, KIND), source=f"The plan {path}")
