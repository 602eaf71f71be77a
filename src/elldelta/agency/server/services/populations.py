"""Populations and their models. A model is nearly records: it comes in and never goes out again."""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from elldelta.agency.server.errors import ConflictError, NotFoundError, TooLargeError
from elldelta.agency.server.services.names import check_name, check_text
from elldelta.agency.server.services.paging import BEGINNING, Order, Window, read_part
from elldelta.agency.server.services.plans import load_plan
from elldelta.agency.server.tables import LedgerLine, ModelFile, Plan, Population
from elldelta.errors import FileError
from elldelta.model.model import read_model

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.services.paging import Part
    from elldelta.agency.server.state import Agency
    from elldelta.model.model import Model
    from elldelta.schema.schema import Column

UPLOAD = "upload.parquet"


@dataclass(frozen=True)
class ColumnView:
    """A column of a population: its name, the kind of its values, how many there are."""

    name: str
    kind: str
    values: int
    has_hierarchy: bool


@dataclass(frozen=True)
class ModelView:
    """What may be known of a model: its shape and no count of it."""

    digest: str
    quasi_identifiers: tuple[ColumnView, ...]
    sensitive: ColumnView
    combinations: int
    combinations_with_records: int
    past_records: int
    uploaded: dt.datetime


@dataclass(frozen=True)
class PopulationView:
    """A population."""

    name: str
    title: str
    created: dt.datetime
    model: ModelView | None


def create_population(agency: Agency, name: str, title: str) -> PopulationView:
    """Adds a population; it has no model yet."""
    population = Population(
        name=check_name("a population", name),
        title=check_text("A title", title, 200) or name,
        created_at=agency.clock(),
    )
    try:
        with agency.database.writing() as session:
            session.add(population)
            session.flush()
            return _view(session, population)
    except IntegrityError:
        pass
    raise ConflictError("There is a population of this name already.", remedy="Choose another name.")


def list_populations(agency: Agency, window: Window = BEGINNING) -> Part[PopulationView]:
    """All populations, by name."""
    with agency.database.reading() as session:
        return read_part(
            session,
            select(Population),
            Order(Population.name),
            window,
            most=agency.limits.page_size,
            view=lambda row: _view(session, row.Population),
        )


def show_population(agency: Agency, name: str) -> PopulationView:
    """One population."""
    with agency.database.reading() as session:
        return _view(session, find_population(session, name))


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
        row = ModelFile(
            population_id=population.id,
            digest=model.digest,
            file=content,
            summary=_summary(model),
            uploaded_by=caller.id,
            uploaded_at=agency.clock(),
        )
        session.add(row)
        session.flush()
        population.model_id = row.id
        return _view(session, population)


def find_population(session: Session, name: str) -> Population:
    """A population by its name.

    Raises:
        NotFoundError: There is none.
    """
    population = session.scalars(select(Population).where(Population.name == name)).one_or_none()
    if population is None:
        raise NotFoundError("population")
    return population


def current_model_id(session: Session, population: Population) -> int:
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
        most = agency.limits.model_cells
        try:
            n_rows = pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError):
            n_rows = 0  # read_model says what is wrong
        if n_rows > most:
            raise _too_large(n_rows, most)
        problem: FileError
        try:
            model = read_model(path)
        except FileError as error:
            words = (part.replace(str(path), "that was sent") for part in (error.problem, error.found))
            problem = FileError(next(words), found=next(words), remedy=error.remedy)
        else:
            n_cells = len(model.ranks) * model.schema.n_values
            if n_cells > most:
                raise _too_large(n_cells, most)
            return model
    raise problem


def _too_large(n_cells: int, most: int) -> TooLargeError:
    return TooLargeError(
        "The model is too large.",
        found=f"Its table has {n_cells} cells; the service plans with at most {most}.",
        remedy="Use coarser values, or ask whoever runs the service for a larger limit.",
    )


def _summary(model: Model) -> dict[str, Any]:
    schema = model.schema
    return {
        "quasi_identifiers": [asdict(_column(column)) for column in schema.quasi_identifiers],
        "sensitive": asdict(_column(schema.sensitive)),
        "combinations": schema.n_combinations,
        "combinations_with_records": len(model.ranks),
        "past_records": model.n_records,
    }


def _column(column: Column) -> ColumnView:
    kind = type(column.domain).__name__.lower()
    return ColumnView(column.name, kind, column.size, column.hierarchy is not None)


def _view(session: Session, population: Population) -> PopulationView:
    model = None
    if population.model_id is not None:
        row = session.get_one(ModelFile, population.model_id)
        columns = tuple(ColumnView(**column) for column in row.summary["quasi_identifiers"])
        model = ModelView(
            digest=row.digest,
            quasi_identifiers=columns,
            sensitive=ColumnView(**row.summary["sensitive"]),
            combinations=row.summary["combinations"],
            combinations_with_records=row.summary["combinations_with_records"],
            past_records=row.summary["past_records"],
            uploaded=row.uploaded_at,
        )
    return PopulationView(population.name, population.title, population.created_at, model)
