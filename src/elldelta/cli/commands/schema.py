"""`elldelta schema infer`: propose a schema that a person then edits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command, family
from elldelta.cli.progress import progress_bar
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.schema.schema import Schema

_FAMILY = family("schema", "Describe the columns of a table: roles, domains, missing values.")


@command(
    "infer",
    example="schema infer past.parquet --qi postal_code,gender,age --sensitive disease -o schema.toml",
    home=_FAMILY,
)
def _infer(
    sources: options.Sources = None,
    *,
    qi: Annotated[
        str, typer.Option("--qi", help="The quasi-identifiers in their order, separated by commas.")
    ],
    sensitive: Annotated[str, typer.Option("--sensitive", help="The sensitive column.")],
    target: options.Output,
    keep: Annotated[
        str, typer.Option("--keep", help="Columns that releases show unchanged, separated by commas.")
    ] = "",
    bins: Annotated[
        list[str] | None,
        typer.Option(
            "--bins",
            help="Bins for a number: income=width:10000, income=quantile:8 or income=edges:0,100,200. "
            "May be given several times.",
        ),
    ] = None,
    hierarchy: options.Hierarchies = None,
    overwrite: options.Overwrite = False,
    csv: options.Csv,
    where: options.WhereFrom,
    json: options.Json = False,
) -> None:
    """Propose a schema from a table. Read and edit the file before you rely on it."""
    from elldelta.files import check_writable
    from elldelta.schema.hierarchies import read_hierarchies
    from elldelta.schema.schema import Schema
    from elldelta.schema.schema_file import write_schema

    source = where.source(sources)
    check_writable(target, overwrite=overwrite)
    files = options.named_files(hierarchy, "--hierarchy")
    rules = _bins(bins or [])
    hierarchies = read_hierarchies(files, replace(csv, separator=None).format)
    with where.start() as active, progress_bar("Reading") as progress:
        schema = Schema.infer(
            source,
            _names(qi),
            sensitive,
            kept=_names(keep) if keep else (),
            bins=rules,
            hierarchies=hierarchies,
            csv_format=csv.format,
            engine=active,
            progress=progress,
        )
    write_schema(schema, target, overwrite=overwrite)
    if json:
        output.print_json(
            {
                "schema": str(target),
                "quasi_identifiers": dict(zip(schema.names, schema.sizes, strict=True)),
                "sensitive": {schema.sensitive.name: schema.n_values},
                "kept": list(schema.kept),
                "dropped": list(schema.dropped),
                "combinations": schema.n_combinations,
                "digest": schema.digest,
            }
        )
        return
    _print(schema)
    output.print_text(f"Wrote {target}. Read and edit it before you rely on it.")


def _print(schema: Schema) -> None:
    roles = [(column.name, "quasi-identifier", f"{column.size:,}") for column in schema.quasi_identifiers]
    roles.append((schema.sensitive.name, "sensitive", f"{schema.n_values:,}"))
    roles += [(name, "kept unchanged", "") for name in schema.kept]
    roles += [(name, "dropped", "") for name in schema.dropped]
    output.print_table("Columns", ("column", "role", "positions"), roles)
    for column in schema.counted_columns:
        if "differ from others in spelling only" in column.note:
            output.print_text(
                f"Look at {column.name}: values that differ in spelling only count as different."
            )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _bins(texts: list[str]) -> dict[str, str]:
    bins = {}
    for text in texts:
        name, equals, rule = text.partition("=")
        if not equals:
            raise ParameterError(
                "--bins must look like income=width:10000.",
                found=f"It is {text!r}.",
                remedy="Rules are width:W, quantile:K and edges:E1,E2,...",
            )
        bins[name.strip()] = rule.strip()
    return bins
