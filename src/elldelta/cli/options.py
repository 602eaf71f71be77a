"""Options that several commands share, so that they are spelt and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.data.csv_format import CsvFormat
from elldelta.errors import ParameterError

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
    list[str], typer.Argument(help="Files (.csv, .tsv, .parquet, also .gz), folders or globs.")
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
