"""Options that several commands share, so that they are spelt and explained once.

Options that belong together are a bundle: a frozen class with one field per option. A `bundled` command takes
a parameter of that class, and the command line shows its fields. Fields with a `Doc` are parameters of the
library, and their options are made from it; others say with `typer.Option` what they are. An option is called
as its parameter, unless a name is given: those without a value have one, or they would get a negation.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from elldelta.cli import output
from elldelta.errors import ParameterError
from elldelta.files import CsvFormat
from elldelta.parameters import Doc, parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from matplotlib.figure import Figure

    from elldelta.engines import Engine, Query, TableName
    from elldelta.engines.workers import Workers
    from elldelta.model.counting import ShowValues


DATABASE = "ELLDELTA_DATABASE"
"""The variable that names the database: its address holds a password, and others see a command line."""


def examples_of_values(outside: object) -> ShowValues | None:
    """What shows examples of values outside their domains, if that is asked for and only a person sees it."""
    if outside != "show":
        return None
    if not sys.stderr.isatty():
        raise ParameterError(
            "--outside show prints values of people, to a terminal only.",
            found="Messages do not go to a terminal here.",
            remedy="Leave it out, or run the command by hand.",
        )
    return output.show_values


def note_ell_of_one(ell: int | None) -> int | None:
    """Says that an ell of 1 promises nothing."""
    if ell == 1:
        output.print_note("Note: ell = 1 promises nothing, everybody has one value. Useful are 2 and more.")
    return ell


Json = Annotated[bool, Doc("Print one JSON object and nothing else.", panel="Expert")]
Details = Annotated[
    bool,
    Doc("Print all that was found, above the five closing lines.", panel="Expert"),
]
Ell = Annotated[
    int,
    typer.Option("--ell", help="Sensitive values that must be left for everybody.", callback=note_ell_of_one),
]
Person = Annotated[
    str | None,
    Doc(
        "The column that tells persons apart, if some have several records: everyone counts once "
        "per sensitive value. It is never published.",
        panel="Reading files",
        metavar="COLUMN",
    ),
]
Overwrite = Annotated[bool, Doc("Replace what is already there.", panel="Expert")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Picture = Annotated[Path | None, Doc("Draw it, into a .png or .svg file.", panel="Expert")]
ModelFile = Annotated[
    Path, typer.Argument(help="A model that 'elldelta estimate' has written: a file, or a folder by region.")
]
Sources = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files (.csv, .tsv, .parquet, .feather, .jsonl, also .gz), folders, globs, - (standard input); "
        'with --engine postgres a table, or a query such as "SELECT ...".',
        show_default=False,
    ),
]
SchemaFile = Annotated[Path, Doc("The schema that describes the columns.")]
Hierarchies = Annotated[
    list[str] | None,
    Doc(
        "A file with groups of the values of a column, such as age=age.csv: one line per value, "
        "value;group;...;root. Repeatable.",
        panel="Reading files",
        metavar="COLUMN=FILE",
    ),
]


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """Shows the fields of a command's bundles as options of the command."""
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = bundles.get(parameter.name)
        if kind is None:
            parameters.append(parameter.replace(annotation=_option(parameter.name, hints[parameter.name])))
        else:
            parameters += _field_options(kind)

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 (whatever the options are)
        made = {
            name: kind(**_parsed(kind, {field.name: given.pop(field.name) for field in fields(kind)}))
            for name, kind in bundles.items()
        }
        command(**given, **made)

    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    return run


def _field_options(kind: type[Any]) -> Iterator[inspect.Parameter]:
    """The options of a bundle."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_option(field.name, hints[field.name]),
        )


def _option(name: str, hint: Any) -> Any:  # noqa: ANN401 (annotations)
    """The annotation of an option or argument: made from its `Doc`, if it has one."""
    kind, *extras = get_args(hint)
    for doc in extras:
        if isinstance(doc, Doc):
            names = [f"--{name.replace('_', '-')}"] if kind is bool else []
            if doc.parse is not None:  # a text here; `_parsed` reads it
                kind = str | None
            option = typer.Option(
                *names, help=doc.text, rich_help_panel=doc.panel, metavar=doc.metavar or None
            )
            return Annotated[kind, option]
    return hint


def _parsed(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """What was given for the fields of a bundle, with texts read by what their parameters say."""
    readers = {parameter.name: parameter.doc.parse for parameter in parameters_of(kind)}
    for name, value in given.items():
        parse = readers.get(name)
        if parse is not None and isinstance(value, str):
            try:
                given[name] = parse(value)
            except ParameterError as error:
                raise ParameterError(
                    error.problem, found=error.found, remedy=error.remedy, parameter=name
                ) from None
    return given


@dataclass(frozen=True)
class Drawn:
    """A picture that is asked for besides; what cannot be written is refused before anything long runs."""

    picture: Picture = None
    overwrite: Overwrite = False

    def __post_init__(self) -> None:
        from elldelta.pages.charts import check_picture

        check_picture(self.picture, overwrite=self.overwrite)

    def draw(self, make: Callable[[], Figure]) -> None:
        """Draws it, if it is asked for."""
        from elldelta.pages.charts import write_picture

        if self.picture is not None:
            write_picture(make(), self.picture, overwrite=self.overwrite)


@dataclass(frozen=True)
class Csv:
    """How CSV files are written; a tab may be given as backslash t."""

    csv: Annotated[
        list[str] | None,
        Doc(
            "How CSV files are written: encoding=latin-1, separator=; or quote='. By default utf-8, the "
            "separator of the first line, and double quotes. Repeatable.",
            panel="Reading files",
        ),
    ] = None

    @property
    def format(self) -> CsvFormat:
        """The conventions, checked."""
        given: dict[str, str] = {}
        for text in self.csv or ():
            name, _, value = text.partition("=")
            if name not in ("encoding", "separator", "quote") or not value or name in given:
                raise ParameterError(
                    "--csv must look like encoding=latin-1, separator=; or quote=', each once.",
                    found=f"It is {text!r}.",
                    remedy="Write the convention, an equals sign and what it is.",
                )
            given[name] = "\t" if value == "\\t" else value
        return CsvFormat(**given)


@dataclass(frozen=True)
class Missing:
    """What stands for a missing value."""

    na: Annotated[
        list[str] | None,
        Doc(
            "Texts that stand for a missing value in a column, besides the usual ones (NA, NULL, ?, - "
            "and their like): vote=99,refused. Repeatable.",
            panel="Reading files",
        ),
    ] = None
    not_na: Annotated[
        list[str] | None,
        Doc(
            "Usual texts that are values in a column: country=NA. Repeatable.",
            panel="Reading files",
        ),
    ] = None

    @property
    def added(self) -> dict[str, tuple[str, ...]]:
        """The texts of --na by column."""
        return _lists(self.na, "--na")

    @property
    def spared(self) -> dict[str, tuple[str, ...]]:
        """The texts of --not-na by column."""
        return _lists(self.not_na, "--not-na")

    def tokens(self, column: str) -> tuple[str, ...]:
        """All texts that stand for a missing value in the only column that may be spoken of."""
        from elldelta.schema.labels import missing_tokens

        strangers = {*self.added, *self.spared} - {column}
        if strangers:
            raise ParameterError(
                "Only missing sensitive values are left out here.",
                found=f"--na or --not-na speaks of {sorted(strangers)[0]!r}; sensitive is {column!r}.",
                remedy="Leave it out: of the other columns a missing value is a value like any other.",
            )
        return missing_tokens(self.added.get(column, ()), self.spared.get(column, ()))


@dataclass(frozen=True)
class EngineOptions(Csv):
    """Where tables are counted, and how those in CSV files are written."""

    engine: Annotated[
        str,
        Doc(
            "Where records are counted: duckdb or spark on this machine, the master of a Spark cluster "
            f"(local[2], spark://HOST:PORT, sc://HOST:PORT), or postgres at the address in {DATABASE}.",
            panel="Engine",
        ),
    ] = "duckdb"

    @contextmanager
    def reading(self, doing: str) -> Iterator[dict[str, Any]]:
        """What every use case that reads tables takes: the format, the engine, and whom to tell how far."""
        with self._start() as engine, output.progress_bar(doing) as progress:
            yield {"csv_format": self.format, "engine": engine, "progress": progress}

    def _start(self) -> AbstractContextManager[Engine | None]:
        """Starts the engine that is asked for; None for DuckDB, which starts where it is needed."""
        return nullcontext(None) if self.engine == "duckdb" else started(self.engine)


def started(engine: str) -> Engine:
    """Starts an engine by its name, or Spark by its master."""
    from elldelta.engines import connect

    if re.match(r"local\b|[a-z0-9]+://", engine):
        return connect("spark", master=engine)
    if engine != "postgres":
        return connect(engine)
    address = os.environ.get(DATABASE)
    if not address:
        raise ParameterError(
            "There is no address of a database.",
            found=f"The variable {DATABASE} is not set.",
            remedy=f"Set {DATABASE} to an address such as postgresql://user@host/name.",
        )
    return connect("postgres", database=address)


@dataclass(frozen=True)
class WorkerOptions:
    """Where the regions of a model by region are planned."""

    processes: Annotated[
        int,
        Doc(
            "Of a model by region: plan so many regions at the same time, each on a process of its own. The "
            "plan is the same.",
            panel="Engine",
            noun="the number of processes",
            least=1,
        ),
    ] = 1
    engine: Annotated[
        str | None,
        Doc(
            "The same on the workers of Spark: spark on this machine, or the master of a cluster, whose "
            "workers must see the folder of the model.",
            panel="Engine",
        ),
    ] = None

    @contextmanager
    def started(self) -> Iterator[Workers]:
        """The workers, for as long as they are needed."""
        from elldelta.engines.workers import Workers, processes_and_engine

        if self.engine is not None and self.processes > 1:
            raise processes_and_engine(self.processes, self.engine)
        if self.engine in ("duckdb", "postgres"):
            raise ParameterError(
                "Regions are planned on this machine, or on the workers of Spark.",
                found=f"The engine is {self.engine}, which counts records.",
                remedy="Leave the engine out, or name Spark.",
                parameter="engine",
            )
        with nullcontext(None) if self.engine is None else started(self.engine) as engine:
            yield Workers(self.processes, engine)


@dataclass(frozen=True)
class SourceOptions(EngineOptions):
    """The same, for a table of records: files, or a table or a query of a database."""

    def source(self, names: list[str] | None) -> list[str] | TableName | Query:
        """What is to be read: files, or in a database a table or the result of a query."""
        from elldelta.engines import Query, TableName

        if not names:
            raise ParameterError(
                "There is nothing to read.",
                remedy="Name files, or with --engine postgres a table or a query.",
            )
        is_query = re.match(r"(select|with|values)\s|\(", names[0].strip(), re.IGNORECASE)
        if self.engine != "postgres":
            if is_query and not Path(names[0]).exists():
                raise ParameterError(
                    "A query is for a database.",
                    found=f"The engine is {self.engine}.",
                    remedy="Add --engine postgres, or name files.",
                )
            return names
        if len(names) > 1:
            raise ParameterError(
                "A database is read one table at a time.",
                found=f"{len(names)} are named.",
                remedy='Put them together: "SELECT ... UNION ALL SELECT ..."',
            )
        return Query(names[0]) if is_query else TableName.parse(names[0])


def names(text: str) -> tuple[str, ...]:
    """Names that are separated by commas; none of an empty text."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


def whole_numbers(text: str, option: str, example: str) -> tuple[int, ...]:
    """Whole numbers that are separated by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            f"{option} must be whole numbers, separated by commas.",
            found=f"It is {text!r}.",
            remedy=f"For example: {option} {example}.",
        ) from None


def named_files(texts: list[str] | None, option: str) -> dict[str, Path]:
    """Files by column, from options such as age=age.csv."""
    return {name: Path(path) for name, path in column_rules(texts, option, "age=age.csv").items()}


def column_rules(texts: list[str] | None, option: str, example: str) -> dict[str, str]:
    """What options such as age=0..120 say, by column."""
    rules: dict[str, str] = {}
    for text in texts or ():
        name, equals, rule = (part.strip() for part in text.partition("="))
        if not equals or not name or not rule or name in rules:
            raise ParameterError(
                f"{option} must look like {example}, once per column.",
                found=f"It is {text!r}.",
                remedy="Write the column, an equals sign and its rule.",
            )
        rules[name] = rule
    return rules


def _lists(texts: list[str] | None, option: str) -> dict[str, tuple[str, ...]]:
    rules = column_rules(texts, option, "vote=NA,99")
    return {name: names(rule) for name, rule in rules.items()}
