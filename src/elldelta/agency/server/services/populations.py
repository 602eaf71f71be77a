"""Populations and their models. A model is nearly records: it comes in and never goes out again."""

from __future__ import annotations

import contextlib
import datetime as dt
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import AliasPath, Field
from sqlalchemy import select

from elldelta.agency.server.errors import ConflictError, NotFoundError, TooLargeError
from elldelta.agency.server.paging import BEGINNING, Part, Window, read_part
from elldelta.agency.server.services.plans import find_plan, load_plan
from elldelta.agency.server.tables import (
    LedgerLine,
    ModelFile,
    Plan,
    Population,
    View,
    check_name,
    check_text,
)
from elldelta.errors import FileError, ParameterError
from elldelta.model import read_model
from elldelta.plan.picture import picture_of_classes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.model import Model
    from elldelta.schema.schema import Column

UPLOAD = "upload.parquet"

MOST_POSITIONS = 100_000
"""More pairs of values than this make a map of classes that takes long to draw and shows nothing."""


class ColumnView(View):
    """A column of a population: its name, the kind of its values, how many there are."""

    name: str
    kind: str
    values: int
    has_hierarchy: bool


class ModelView(View):
    """What may be known of a model: its shape and no count of it."""

    digest: str
    quasi_identifiers: tuple[ColumnView, ...] = Field(
        validation_alias=AliasPath("summary", "quasi_identifiers")
    )
    sensitive: ColumnView = Field(validation_alias=AliasPath("summary", "sensitive"))
    combinations: int = Field(validation_alias=AliasPath("summary", "combinations"))
    combinations_with_records: int = Field(validation_alias=AliasPath("summary", "combinations_with_records"))
    past_records: int = Field(validation_alias=AliasPath("summary", "past_records"))
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


def list_populations(agency: Agency, window: Window = BEGINNING) -> Part[PopulationView]:
    """All populations, by name."""
    return read_part(
        agency,
        select(Population),
        window,
        Population.name,
        view=lambda row: PopulationView.model_validate(row.Population),
    )


def show_population(agency: Agency, name: str) -> PopulationView:
    """One population."""
    with agency.database.reading() as session:
        return PopulationView.model_validate(find_population(session, name))


def upload_model(agency: Agency, caller: Caller, name: str, content: bytes) -> PopulationView:
    """Takes the model file of a population; requests are planned with it from now on.

    Raises:
        FileError: It is not a model, or damaged.
        TooLargeError: Its table of counts is larger than the service plans with.
        ConflictError: Releases are registered that describe their columns differently: no release of a plan
            from this model could be linked with them.
    """
    model = _read(agency, content)
    _check_schema(agency, name, model)
    with agency.database.writing() as session:
        population = find_population(session, name)
        population.model = ModelFile(
            population_id=population.id,
            digest=model.digest,
            file=content,
            summary=_summary(model),
            uploaded_by=caller.id,
            uploaded_at=agency.clock(),
        )
        return PopulationView.model_validate(population)


def find_population(session: Session, name: str) -> Population:
    """A population by its name.

    Raises:
        NotFoundError: There is none.
    """
    population = session.scalars(select(Population).where(Population.name == name)).one_or_none()
    if population is None:
        raise NotFoundError("population")
    return population


def current_model_id(population: Population) -> int:
    """The number of the model that counts now.

    Raises:
        ConflictError: There is none yet.
    """
    if population.model_id is None:
        raise ConflictError(
            "The population has no model yet.",
            found="Nothing is known about its people.",
            remedy="The agency uploads one first.",
        )
    return population.model_id


def load_model(agency: Agency, model_id: int) -> Model:
    """A model, read again from its file."""

    def load() -> Model:
        with agency.database.reading() as session:
            content = session.scalars(select(ModelFile.file).where(ModelFile.id == model_id)).one()
        return _read(agency, content)

    return agency.models.get(model_id, load)


def can_draw(agency: Agency, plan_digest: str) -> bool:
    """Whether there is a map of a plan's classes: it needs two quasi-identifiers, and not too many values."""
    sizes = sorted(load_plan(agency, plan_digest).schema.sizes, reverse=True)
    return len(sizes) >= 2 and sizes[0] * sizes[1] <= MOST_POSITIONS


def draw_classes(agency: Agency, plan_digest: str) -> Figure:
    """The map of a plan's classes; it shows how much of a population a class holds, and no count.

    Raises:
        ParameterError: There is none; see `can_draw`.
    """
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        population_id = find_plan(session, plan_digest).population_id
        model_id = session.scalars(
            select(ModelFile.id)
            .where(ModelFile.population_id == population_id, ModelFile.digest == plan.model_digest)
            .order_by(ModelFile.id.desc())
            .limit(1)
        ).one_or_none()
    if model_id is None or not can_draw(agency, plan_digest):
        raise ParameterError("The classes of this plan cannot be drawn.")
    return picture_of_classes(plan, load_model(agency, model_id))


def _check_schema(agency: Agency, name: str, model: Model) -> None:
    with agency.database.reading() as session:
        registered = select(LedgerLine.plan_digest).join(Plan, Plan.digest == LedgerLine.plan_digest)
        population = find_population(session, name)
        digests = session.scalars(registered.where(Plan.population_id == population.id).distinct()).all()
    for digest in digests:
        if load_plan(agency, digest).schema.digest != model.schema.digest:
            raise ConflictError(
                "The model describes its columns differently from releases that are registered.",
                found="No release of a plan from this model could be linked with them, or admitted.",
                remedy="Estimate it with the schema of the earlier model, or add another population.",
            )


def _read(agency: Agency, content: bytes) -> Model:
    """Reads a model file; its table must fit what the service plans with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="elldelta-") as folder:  # only its owner may read it
        path = Path(folder) / UPLOAD
        path.write_bytes(content)
        with contextlib.suppress(pa.ArrowException, OSError):  # read_model says what is wrong
            _check_size(agency, pq.read_metadata(path).num_rows)
        try:
            model = read_model(path)
        except FileError as error:
            problem, found = (
                text.replace(str(path), "that was sent") for text in (error.problem, error.found)
            )
            raise FileError(problem, found=found, remedy=error.remedy) from None
    _check_size(agency, len(model.ranks) * model.schema.n_values)
    return model


def _check_size(agency: Agency, n_cells: int) -> None:
    most = agency.limits.model_cells
    if n_cells > most:
        raise TooLargeError(
            "The model is too large.",
            found=f"Its table has {n_cells} cells; the service plans with at most {most}.",
            remedy="Use coarser values, or ask whoever runs the service for a larger limit.",
        )


def _summary(model: Model) -> dict[str, Any]:
    schema = model.schema
    return {
        "quasi_identifiers": [_column(column) for column in schema.quasi_identifiers],
        "sensitive": _column(schema.sensitive),
        "combinations": schema.n_combinations,
        "combinations_with_records": len(model.ranks),
        "past_records": model.n_records,
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": type(column.domain).__name__.lower(),
        "values": column.size,
        "has_hierarchy": column.hierarchy is not None,
    }
