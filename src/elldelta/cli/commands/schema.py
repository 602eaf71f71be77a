"""`elldelta schema infer`: propose a schema that a person then edits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from elldelta.cli import options, output
from elldelta.cli.app import command, family
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from elldelta.schema.infer import Proposal

_FAMILY = family("schema", "Describe the columns of a table: roles, domains, missing values.")


@dataclass(frozen=True)
class DomainOptions:
    """What is known about the values of columns."""

    bins: Annotated[
        list[str] | None,
        Doc(
            "Bins for a number: income=width:10000, income=quantile:8 or income=edges:0,100,200; "
            "code=values for one position per value. Repeatable."
        ),
    ] = None
    widen: Annotated[
        list[str] | None,
        Doc(
            "The ends of a column of numbers or dates, such as age=0..120, or age=no for what was seen. "
            "By default numbers without a natural end are widened, so that other owners' records fit "
            "in."
        ),
    ] = None
    changes: Annotated[
        str,
        Doc(
            "Quasi-identifiers that may change from one release to the next, separated by commas: plans "
            "then also hold for people who move."
        ),
    ] = ""
    weight: Annotated[
        str | None,
        Doc(
            "The column of a survey's weights. Records count as records for every promise; releases show "
            "rounded mean weights.",
            panel="Expert",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What a proposal takes."""
        return {
            "bins": options.column_rules(self.bins, "--bins", "income=width:10000"),
            "widen": options.column_rules(self.widen, "--widen", "age=0..120"),
            "changes": options.names(self.changes),
            "weight": self.weight,
        }


@command(
    "infer",
    example="schema infer past.parquet --qi postal_code,gender,age --sensitive disease -o schema.toml",
    home=_FAMILY,
)
def _infer(
    sources: options.Sources = None,
    *,
    qi: Annotated[str, Doc("The quasi-identifiers in their order, separated by commas.")],
    sensitive: Annotated[
        list[str],
        Doc("The sensitive column, or several: disease,income. A composite column: disease+stage."),
    ],
    target: options.Output,
    domains: DomainOptions,
    missing: options.Missing,
    hierarchy: options.Hierarchies = None,
    overwrite: options.Overwrite = False,
    tables: options.SourceOptions,
    json: options.Json = False,
) -> None:
    """Propose a schema from a table. Read and edit the file before you rely on it."""
    from elldelta.engines import running
    from elldelta.files import check_writable
    from elldelta.schema.hierarchies import read_hierarchies
    from elldelta.schema.infer import propose
    from elldelta.schema.schema_file import write_schema

    source = tables.source(sources)
    check_writable(target, overwrite=overwrite)
    files = options.named_files(hierarchy, "--hierarchy")
    hierarchies = read_hierarchies(files, replace(tables.format, separator=None))
    with tables.reading("Reading") as read, running(read["engine"]) as engine:
        proposal = propose(
            engine.open(source, tables.format),
            options.names(qi),
            [name for given in sensitive for name in options.names(given)],
            hierarchies=hierarchies,
            na=missing.added,
            not_na=missing.spared,
            **domains.arguments(),
            progress=read["progress"],
        )
    write_schema(proposal.schema, target, overwrite=overwrite)
    if json:
        output.print_json({"schema": str(target), **_document(proposal)})
        return
    _print(proposal)
    output.print_text(f"Wrote {target}. Read and edit it before you rely on it.")


def _document(proposal: Proposal) -> dict[str, Any]:
    schema = proposal.schema
    return {
        "quasi_identifiers": dict(zip(schema.names, schema.sizes, strict=True)),
        "sensitive": {column.name: column.size for column in schema.sensitives},
        "weight": None if schema.weight is None else schema.weight.to_dict(),
        "dropped": list(schema.dropped),
        "combinations": schema.n_combinations,
        "digest": schema.digest,
        "columns": [
            {
                "name": column.name,
                "kind": column.domain.kind,
                "range": profile.range,
                "distinct": profile.n_distinct,
                "missing": profile.n_missing,
                "missing_texts": list(column.missing),
                "made": [output.note_text(note) for note in profile.notes],
            }
            for column, profile in zip(schema.counted_columns, proposal.profiles, strict=True)
        ],
        "warnings": [output.note_text(warning) for warning in proposal.warnings],
    }


def _print(proposal: Proposal) -> None:
    schema = proposal.schema
    roles = [*(["quasi-identifier"] * len(schema.names)), *(["sensitive"] * len(schema.sensitives))]
    counted = zip(schema.counted_columns, roles, proposal.profiles, strict=True)
    rows = [
        (
            column.name,
            role,
            f"{column.domain.kind} {profile.range}",
            f"{profile.n_distinct:,}",
            profile.missing,
        )
        for column, role, profile in counted
    ]
    if schema.weight is not None:
        rows.append((schema.weight.name, "weight", f"numbers up to {schema.weight.largest:g}", "", ""))
    rows += [(name, "dropped", "", "", "") for name in schema.dropped]
    output.print_table("Columns", ("column", "role", "values", "distinct", "missing"), rows)
    for column, profile in zip(schema.counted_columns, proposal.profiles, strict=True):
        for note in profile.notes:
            output.print_text(f"{column.name}: {output.note_text(note)}")
    for warning in proposal.warnings:
        output.print_text(f"WARNING  {output.note_text(warning)}")
