"""Populations and their models. A model is nearly records: it comes in and never goes out again."""

from __future__ import annotations

import contextlib
import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import AliasPath, Field
from sqlalchemy import select

from elldelta.agency.server.errors import ConflictError, TooLargeError, required
from elldelta.agency.server.paging import FIRST_PAGE, Cursor, Page, read_page
from elldelta.agency.server.services.jobs import enqueue
from elldelta.agency.server.services.plans import load_plan
from elldelta.agency.server.tables import (
    LedgerLine,
    ModelFile,
    Population,
    check_name,
    check_text,
)
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.views import View
from elldelta.core.ladder import STEP
from elldelta.errors import ParameterError, RefusedError, counted
from elldelta.files import digest
from elldelta.model import model_from_bytes, promise_to_the_past, rounded
from elldelta.plan.picture import picture_of_classes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency, Caller
    from elldelta.model import Model
    from elldelta.schema.schema import Column

MOST_POSITIONS = 100_000
"""More pairs of values than this make a map of classes that takes long to draw and shows nothing."""


class ColumnView(View):
    """A column of a population: its name, the kind of its values, how many there are."""

    name: str
    kind: str
    values: int
    has_hierarchy: bool


class FrontierRow(View):
    """The classes that so many records give, about, for each ell; None where nothing can be promised."""

    records: int
    classes: tuple[int | None, ...]


class FrontierView(View):
    """What records buy: classes of certified plans, for each of some ell."""

    ells: tuple[int, ...]
    releases: int
    delta: float
    rows: tuple[FrontierRow, ...]


class ModelView(View):
    """What may be known of a model: its shape and no count of it. Its digest is keyed: see `Agency.keyed`.

    Of an exact model, numbers have two digits. `protection` says what protects its past records, if any.
    """

    digest: str = Field(validation_alias="keyed_digest")
    quasi_identifiers: tuple[ColumnView, ...] = Field(
        validation_alias=AliasPath("summary", "quasi_identifiers")
    )
    sensitives: tuple[ColumnView, ...] = Field(validation_alias=AliasPath("summary", "sensitives"))
    combinations: int = Field(validation_alias=AliasPath("summary", "combinations"))
    combinations_with_records: int = Field(validation_alias=AliasPath("summary", "combinations_with_records"))
    past_records: int = Field(validation_alias=AliasPath("summary", "past_records"))
    protection: str = Field(default="", validation_alias=AliasPath("summary", "protection"))
    frontier: FrontierView | None = Field(description="None until the worker has computed it.")
    uploaded: dt.datetime = Field(validation_alias="uploaded_at")


class PopulationView(View):
    """A population."""

    name: str
    title: str
    created: dt.datetime = Field(validation_alias="created_at")
    model: ModelView | None


def create_population(agency: Agency, name: str, title: str) -> PopulationView:
    """Adds a population; it has no model yet."""
    population = Population(
        name=check_name("a population", name),
        title=check_text("A title", title, 200) or name,
        created_at=agency.clock(),
        model=None,
    )
    if not agency.database.insert(population):
        raise ConflictError("There is a population of this name already.", remedy="Choose another name.")
    return PopulationView.model_validate(population)


def list_populations(agency: Agency, cursor: Cursor = FIRST_PAGE) -> Page[PopulationView]:
    """All populations, by name."""
    return read_page(agency, select(Population), cursor, Population.name, view=PopulationView.of_row)


def show_population(agency: Agency, name: str) -> PopulationView:
    """One population."""
    with agency.database.reading() as session:
        return PopulationView.model_validate(find_population(session, name))


def upload_model(agency: Agency, caller: Caller, name: str, content: bytes) -> PopulationView:
    """Takes the model file of a population; requests are planned with it from now on.

    A job computes its frontier.

    Raises:
        FileError: It is not a model, or damaged.
        TooLargeError: Its table of counts is larger than the service plans with.
        RefusedError: It does not protect the past as whoever runs the service demands.
        ConflictError: Releases are registered that describe their columns differently: no release of a plan
            from this model could be linked with them.
    """
    model = _read_limited(content, agency.limits.model_cells)
    check_epsilon(model, agency.settings.require_epsilon)
    _check_schema(agency, name, model.schema.digest)
    with agency.database.writing() as session:
        population = find_population(session, name)
        population.model = uploaded = ModelFile(
            population_id=population.id,
            digest=model.digest,
            keyed_digest=agency.keyed(model.digest),
            file=content,
            summary=_summary(model),
            uploaded_by=caller.id,
            uploaded_at=agency.clock(),
            frontier=None,
        )
        session.flush()
        subject = digest({"kind": "frontier", "model": uploaded.id})
        enqueue(session, agency, caller, "frontier", subject, {"model": uploaded.id})
        return PopulationView.model_validate(population)


def find_population(session: Session, name: str) -> Population:
    """A population by its name.

    Raises:
        NotFoundError: There is none.
    """
    found = session.scalars(select(Population).where(Population.name == name)).one_or_none()
    return required(found, "population")


def current_model(agency: Agency, population: Population) -> ModelFile:
    """The model that counts now.

    Raises:
        ConflictError: There is none yet, or it was uploaded before models had to protect the past.
    """
    if population.model is None:
        raise ConflictError(
            "The population has no model yet.",
            found="Nothing is known about its people.",
            remedy="The agency uploads one first.",
        )
    if agency.settings.require_epsilon is not None and "protection" not in population.model.summary:
        raise ConflictError(
            "Nothing is planned from this population's model any more.",
            found="Its counts are exact. Whoever runs the service demands models that protect the past.",
            remedy="The agency uploads one that was estimated with an epsilon.",
        )
    return population.model


@lru_cache(maxsize=2)
def load_model(agency: Agency, model_id: int) -> Model:
    """A model, read again from its file. It never changes."""
    return _read_limited(model_content(agency, model_id), agency.limits.model_cells)


def model_content(agency: Agency, model_id: int) -> bytes:
    """The file of a model."""
    with agency.database.reading() as session:
        return session.scalars(select(ModelFile.file).where(ModelFile.id == model_id)).one()


def can_draw(agency: Agency, plan_digest: str) -> bool:
    """Whether there is a map of a plan's classes: it needs two quasi-identifiers, and not too many values."""
    sizes = sorted(load_plan(agency, plan_digest).schema.sizes, reverse=True)
    return len(sizes) >= 2 and sizes[0] * sizes[1] <= MOST_POSITIONS


def draw_classes(agency: Agency, plan_digest: str) -> Figure:
    """The map of a plan's classes, by what the plan tells.

    Raises:
        ParameterError: There is none; see `can_draw`.
    """
    if not can_draw(agency, plan_digest):
        raise ParameterError("The classes of this plan cannot be drawn.")
    return picture_of_classes(load_plan(agency, plan_digest))


def check_epsilon(model: Model, most_epsilon: float | None) -> None:
    """Refuses a model that does not protect its past records with at most so large an epsilon, if any."""
    epsilon = sum(each.epsilon for each in model.noise)
    if most_epsilon is not None and not 0.0 < epsilon <= most_epsilon:
        raise RefusedError(
            f"This service takes only models that protect the past, with epsilon {most_epsilon:g} at most.",
            found=f"Its epsilon is {epsilon:g}, if all its estimates share people."
            if model.noise
            else "Its counts are exact.",
            remedy=f"Estimate it with an epsilon of {most_epsilon:g}, and upload that.",
            parameter="epsilon",
        )


def protected_model(model: Model, secret: bytes) -> Model:
    """The model from which frontiers are computed: noise or rounding hides every count."""
    return model if model.noise else rounded(model, np.random.default_rng(list(secret)))


def _check_schema(agency: Agency, name: str, schema_digest: str) -> None:
    with agency.database.reading() as session:
        registered = select(LedgerLine.plan_digest).join(PlanRow, PlanRow.digest == LedgerLine.plan_digest)
        population = find_population(session, name)
        digests = session.scalars(registered.where(PlanRow.population_id == population.id).distinct()).all()
    for plan_digest in digests:
        if load_plan(agency, plan_digest).schema.digest != schema_digest:
            raise ConflictError(
                "The model describes its columns differently from releases that are registered.",
                found="No release of a plan from this model could be linked with them, or admitted.",
                remedy="Estimate it with the schema of the earlier model, or add another population.",
            )


def _read_limited(content: bytes, most_cells: int) -> Model:
    """A model, unless its table has more cells; a small file may unpack to a huge one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.suppress(pa.ArrowException, OSError):  # what reads the model says what is wrong
        _check_size(pq.read_metadata(pa.BufferReader(content)).num_rows, most_cells)
    model = model_from_bytes(content)
    _check_size(len(model.ranks) * model.schema.n_values, most_cells)
    return model


def _check_size(n_cells: int, most: int) -> None:
    if n_cells > most:
        raise TooLargeError(
            "The model is too large.",
            found=f"Its table has {counted(n_cells, 'cell')}; the service plans with at most {most}.",
            remedy="Use coarser values, or ask whoever runs the service for a larger limit.",
        )


def _summary(model: Model) -> dict[str, Any]:
    schema, shown = model.schema, (int if model.noise else _two_digits)
    return {
        "quasi_identifiers": [_column(column) for column in schema.quasi_identifiers],
        "sensitives": [_column(column) for column in schema.sensitives],
        "combinations": schema.n_combinations,
        "combinations_with_records": shown(len(model.ranks)),
        "past_records": shown(model.n_records),
        **({"protection": promise_to_the_past(model.noise)} if model.noise else {}),
    }


def _two_digits(number: int) -> int:
    """A number rounded down to two digits and zeros, and to steps of plans."""
    step = max(STEP, int(10 ** (len(str(number)) - 2)))
    return number // step * step


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": type(column.domain).__name__.lower(),
        "values": column.size,
        "has_hierarchy": column.hierarchy is not None,
    }
