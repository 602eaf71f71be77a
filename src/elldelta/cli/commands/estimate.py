"""`elldelta estimate`: from past records to a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import ParameterError, counted
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.model import Model, Past


@dataclass(frozen=True)
class Noise:
    """How the past records are protected."""

    epsilon: Annotated[
        float | None,
        Doc(
            "Protect the people in the past records by noise (differential privacy). Useful are 0.1 to "
            "3; less is safer.",
            panel="Expert",
        ),
    ] = None
    delta_dp: Annotated[
        float | None,
        Doc(
            "With --epsilon, for domains far too large: show only combinations whose noisy count is "
            "above a threshold, which fails with at most this chance, such as 1e-6.",
            panel="Expert",
        ),
    ] = None
    domains_are_public: Annotated[
        bool,
        Doc(
            "With --epsilon, you declare: the values in the schema are public, not inferred from these "
            "records.",
            panel="Expert",
        ),
    ] = False
    rows_per_person: Annotated[
        int,
        Doc(
            "With --epsilon and --person: how many records of a person are counted at most. More cost "
            "more noise.",
            panel="Expert",
        ),
    ] = 1


@command("estimate", example="estimate past.parquet --schema schema.toml -o model.parquet")
def _run(
    sources: options.Sources = None,
    *,
    schema: options.SchemaFile,
    target: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write; with --by a folder that is not there.")
    ],
    person: options.Person = None,
    by: Annotated[
        str | None,
        Doc(
            "Count region by region, so that no memory holds the counts of all: the quasi-identifier whose "
            "values are the regions. Plans are then made by region.",
            panel="Expert",
            metavar="COLUMN",
        ),
    ] = None,
    noise: Noise,
    outside: Annotated[
        Literal["show"] | None,
        Doc(
            "Show examples of values outside their domains, on a terminal only: they are personal data.",
            panel="Reading files",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    tables: options.SourceOptions,
    json: options.Json = False,
) -> None:
    """Count past records by quasi-identifiers and sensitive value: the model a plan is made from."""
    from elldelta.files import check_writable
    from elldelta.model import estimate, estimate_by_region, write_model
    from elldelta.schema.schema_file import read_schema

    source = tables.source(sources)
    shown = options.examples_of_values(outside)
    if by is not None:
        _check_by_region(person, noise, overwrite=overwrite)
        with tables.reading("Counting") as read:
            regional = estimate_by_region(source, schema, by, target, show_values=shown, **read)
        regions: dict[str, str | int] = {"by": by, "regions": len(regional.regions)}
        _print_counted(regional, target, regions, as_json=json)
        return
    check_writable(target, overwrite=overwrite)
    described = read_schema(schema)
    with tables.reading("Counting") as read:
        model = estimate(
            source,
            described,
            person=person,
            **vars(noise),
            show_values=shown,
            **read,
        )
    write_model(model, target, overwrite=overwrite)
    if model.noise:
        _print_protected(model, target, as_json=json)
    else:
        _print_counted(model, target, {}, as_json=json)


def _check_by_region(person: str | None, noise: Noise, *, overwrite: bool) -> None:
    """Refuses what is computed of all records together, and to replace a folder."""
    if overwrite:
        raise ParameterError(
            "A folder of regions is not replaced.",
            found="Somebody may be planning from its parts.",
            remedy="Name another folder, or remove this one first.",
            parameter=("by", "overwrite"),
        )
    given = {"person": person is not None, "epsilon": noise.epsilon is not None}
    if any(given.values()):
        raise ParameterError(
            "Persons and noise are not counted region by region.",
            found="Each person counts once in the whole table, and noise is drawn for all of it.",
            remedy="Estimate without regions, and use 'elldelta model split' then.",
            parameter=("by", *(name for name, is_given in given.items() if is_given)),
        )


def _print_counted(model: Past, target: Path, regions: Mapping[str, str | int], *, as_json: bool) -> None:
    """What was counted; of a model by region also what the regions are, for a machine."""
    from elldelta.schema.profile import warned_of

    schema, losses = model.schema, model.accounting
    for column, of_column in zip(schema.sensitives, schema.by_column(model.value_totals), strict=True):
        output.print_note(*(f"WARNING  {warning}" for warning in warned_of(column, of_column)))
    repeated = counted(losses.n_repeated, "record repeats", "records repeat")
    output.print_result(
        {
            "model": str(target),
            "digest": model.digest,
            **regions,
            "records_read": losses.n_read,
            "records": model.n_records,
            "records_repeated": losses.n_repeated,
            "records_suppressed": losses.n_suppressed,
            "combinations": model.n_combinations,
            "combinations_possible": schema.n_combinations,
            "values": schema.n_values,
        },
        f"Counted {model.n_records:,} of {counted(losses.n_read, 'record')}: "
        f"{model.n_combinations:,} of {counted(schema.n_combinations, 'combination')} occur, "
        f"with {counted(schema.n_values, 'sensitive value')}.",
        *([f"{repeated} a person's value and count once."] if losses.n_repeated else []),
        *(
            [f"Left out: {counted(losses.n_suppressed, 'record')} with a missing value."]
            if losses.n_suppressed
            else []
        ),
        f"Wrote {target}",
        as_json=as_json,
    )


def _print_protected(model: Model, target: Path, *, as_json: bool) -> None:
    """Nothing but what stands in the file: what was counted is nobody's business any more."""
    from elldelta.model import ADDS_UP, promise_to_the_past

    (protection,) = model.noise
    output.print_result(
        {
            "model": str(target),
            "digest": model.digest,
            "records": model.n_records,
            "noise": protection.to_dict(),
        },
        f"Counted about {counted(model.n_records, 'record')}, with noise on "
        f"{_MECHANISMS[protection.mechanism]}.",
        f"{promise_to_the_past(model.noise)} {ADDS_UP}",
        f"Wrote {target}",
        as_json=as_json,
    )


_MECHANISMS = {
    "cells": "every combination and value",
    "keys": "combinations that occur, of which only frequent ones are shown",
}
