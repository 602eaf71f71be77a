"""`elldelta estimate`: from past records to a model."""

from __future__ import annotations

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.cli.progress import progress_bar


@command("estimate", example="estimate past.parquet --schema schema.toml -o model.parquet")
def _run(
    sources: options.Sources = None,
    *,
    schema: options.SchemaFile,
    target: options.Output,
    person: options.Person = None,
    show_values: options.ShowValues = False,
    overwrite: options.Overwrite = False,
    csv: options.Csv,
    where: options.WhereFrom,
    json: options.Json = False,
) -> None:
    """Count past records by quasi-identifiers and sensitive value: the model a plan is made from."""
    import numpy as np

    from elldelta.files import check_writable
    from elldelta.model import estimate, write_model
    from elldelta.schema.profile import warned_of
    from elldelta.schema.schema_file import read_schema

    source = where.source(sources)
    check_writable(target, overwrite=overwrite)
    described = read_schema(schema)
    with where.start() as active, progress_bar("Counting") as progress:
        model = estimate(
            source,
            described,
            person=person,
            show_values=output.show_values if show_values else None,
            csv_format=csv.format,
            engine=active,
            progress=progress,
        )
    write_model(model, target, overwrite=overwrite)
    counts = model.counts
    totals = np.bincount(counts.values, counts.n, counts.schema.n_values)
    output.print_note(*(f"WARNING  {said}" for said in warned_of(counts.schema.sensitive, totals)))
    output.print_result(
        {
            "model": str(target),
            "digest": model.digest,
            "records_read": counts.accounting.n_read,
            "records": counts.n_records,
            "records_repeated": counts.accounting.n_repeated,
            "records_suppressed": counts.accounting.n_suppressed,
            "combinations": counts.n_combinations,
            "combinations_possible": counts.schema.n_combinations,
            "values": counts.schema.n_values,
        },
        f"Counted {counts.n_records:,} of {counts.accounting.n_read:,} records: "
        f"{counts.n_combinations:,} of {counts.schema.n_combinations:,} combinations occur, "
        f"with {counts.schema.n_values} sensitive values.",
        *(
            [f"{counts.accounting.n_repeated:,} records repeat a person's value; they count once."]
            if counts.accounting.n_repeated
            else []
        ),
        f"Wrote {target}",
        as_json=json,
    )
