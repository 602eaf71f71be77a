"""Options that several commands share, so that they are spelt and explained once."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elldelta.errors import ParameterError
from elldelta.files.csv_format import CsvFormat

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from elldelta.engines.database_source import Query, TableName
    from elldelta.engines.table import Engine

DATABASE = "ELLDELTA_DATABASE"
"""The variable that names the database: its address holds a password, and others see a command line."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Ell = Annotated[int, typer.Option("--ell", help="Sensitive values that must be left for everybody.")]
Delta = Annotated[float, typer.Option("--delta", help="Failure probability of one release, between 0 and 1.")]
Releases = Annotated[int, typer.Option("--releases", help="How many releases somebody may link together.")]
Eta = Annotated[
    float, typer.Option("--eta", help="An error of the model (total variation) the promise must survive.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Picture = Annotated[Path | None, typer.Option("--picture", help="Also draw it, into a .png or .svg file.")]
Sources = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files (.csv, .tsv, .parquet, also .gz), folders or globs; with --engine postgres a table.",
        show_default=False,
    ),
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="The schema that describes the columns.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of CSV files.")]
Separator = Annotated[
    str | None, typer.Option("--separator", help="Separator of CSV files; found from the header by default.")
]
Hierarchies = Annotated[
    list[str] | None,
    typer.Option(
        "--hierarchy",
        help="A file with groups of the values of a quasi-identifier, such as age=age.csv: one line per "
        "value, value;group;...;root. May be given several times.",
    ),
]
Quote = Annotated[str, typer.Option("--quote", help="Quote character of CSV files.")]
EngineName = Annotated[
    Literal["duckdb", "spark", "postgres"],
    typer.Option("--engine", help="Where the records are counted: duckdb on this machine, spark, postgres."),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="With --engine spark: local[2], spark://HOST:PORT, or sc://HOST:PORT for Spark Connect. "
        "All processors of this machine by default.",
    ),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        help="With --engine spark: a setting, such as spark.executor.memory=4g. May be given several times.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="With --engine postgres: its address, such as postgresql://user@host/name. By default what the "
        f"variable {DATABASE} says, so that no password need be on the command line.",
    ),
]
QueryText = Annotated[
    str | None,
    typer.Option("--query", help="With --engine postgres: read the result of this query instead of a table."),
]


def csv_format(encoding: str, separator: str | None, quote: str) -> CsvFormat:
    """The conventions of CSV files, from the three options; a tab may be written as backslash t."""
    return CsvFormat(encoding, "\t" if separator == "\\t" else separator, quote)


def named_files(texts: list[str] | None, option: str) -> dict[str, Path]:
    """Files by column, from options such as age=age.csv."""
    files: dict[str, Path] = {}
    for text in texts or ():
        name, equals, path = (part.strip() for part in text.partition("="))
        if not equals or not name or not path or name in files:
            raise ParameterError(
                f"{option} must look like age=age.csv, once per column.",
                found=f"It is {text!r}.",
                remedy="Write the column, an equals sign and the file.",
            )
        files[name] = Path(path)
    return files


def engine(
    name: str, master: str | None, spark_conf: list[str] | None, database: str | None
) -> AbstractContextManager[Engine | None]:
    """The engine that the four options ask for, started; None for DuckDB, which starts where it is needed."""
    for option, value, owner in (
        ("--master", master, "spark"),
        ("--spark-conf", spark_conf, "spark"),
        ("--database", database, "postgres"),
    ):
        if value and name != owner:
            raise ParameterError(
                f"{option} goes with --engine {owner}.",
                found=f"The engine is {name}.",
                remedy=f"Add --engine {owner}, or leave {option} out.",
            )
    if name == "duckdb":
        return nullcontext(None)
    from elldelta.engines import connect

    if name == "spark":
        return connect("spark", master=master, conf=_settings(spark_conf or []))
    address = database or os.environ.get(DATABASE)
    if not address:
        raise ParameterError(
            "There is no address of a database.",
            found=f"Neither --database nor the variable {DATABASE} is given.",
            remedy=f"Set {DATABASE} to an address such as postgresql://user@host/name.",
        )
    return connect("postgres", database=address)


def source(engine_name: str, sources: list[str] | None, query: str | None) -> list[str] | TableName | Query:
    """What is to be read: files, or in a database a table or a query."""
    from elldelta.engines.database_source import Query, TableName

    if query is not None and engine_name != "postgres":
        raise ParameterError(
            "--query goes with --engine postgres.",
            found=f"The engine is {engine_name}.",
            remedy="Add --engine postgres, or give files.",
        )
    given = sources or []
    if bool(given) == (query is not None):
        raise ParameterError(
            "There must be something to read, and only one thing.",
            found="Neither a name nor --query is given."
            if query is None
            else "A name and --query are given.",
            remedy="Name files, with --engine postgres a table, or give a query instead.",
        )
    if query is not None:
        return Query(query)
    if engine_name != "postgres":
        return given
    if len(given) > 1:
        raise ParameterError(
            "A database is read one table at a time.",
            found=f"{len(given)} are named.",
            remedy='Put them together: --query "SELECT ... UNION ALL SELECT ..."',
        )
    return TableName.parse(given[0])


def _settings(texts: list[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key.startswith("spark.") or key in settings:
            raise ParameterError(
                "--spark-conf must look like spark.executor.memory=4g, once per setting.",
                found="One of them does not.",
                remedy="Write the name of the setting, an equals sign and its value.",
            )
        settings[key] = value
    return settings
