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
    overwrite: options.Overwrite = False,
    csv: options.Csv,
    where: options.WhereFrom,
    json: options.Json = False,
) -> None:
    """Count past records by quasi-identifiers and sensitive value: the model a plan is made from."""
    from elldelta.files import check_writable
    from elldelta.model.model import estimate, write_model
    from elldelta.schema.schema_file import read_schema

    source = where.source(sources)
    check_writable(target, overwrite=overwrite)
    described = read_schema(schema)
    with where.start() as active, progress_bar("Counting") as progress:
        model = estimate(
            source,
            described,
            csv_format=csv.format,
            engine=active,
            progress=progress,
        )
    write_model(model, target, overwrite=overwrite)
    result = {
        "model": str(target),
        "digest": model.digest,
        "records_read": model.accounting.n_read,
        "records": model.n_records,
        "records_suppressed": model.accounting.n_suppressed,
        "combinations": model.counts.n_combinations,
        "combinations_possible": described.n_combinations,
        "values": described.n_values,
    }
    if json:
        output.print_json(result)
        return
    output.print_text(
        f"Counted {model.n_records:,} of {model.accounting.n_read:,} records: "
        f"{model.counts.n_combinations:,} of {described.n_combinations:,} combinations occur, "
        f"with {described.n_values} sensitive values.",
        f"Wrote {target}",
    )
