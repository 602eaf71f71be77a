"""`elldelta audit`: link releases and see what an adversary would see; or ask before publishing one more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elldelta.cli import foreign, options, output
from elldelta.cli.progress import progress_bar
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.audit.foreign_evidence import ForeignColumns
    from elldelta.audit.gate import Gate
    from elldelta.audit.result import Audit
    from elldelta.engines.table import Engine
    from elldelta.files import CsvFormat
    from elldelta.schema.schema import Schema

_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(
        "audit",
        help="Link releases: how many values are left for somebody who is in several of them? "
        "Exit code 3 if fewer than ell for anybody. With --before: would one more release do that?",
        epilog="Example: elldelta audit release_a.parquet release_b.parquet --report audit.html",
    )(options.bundled(_run))


def _run(
    releases: Annotated[
        list[Path] | None, typer.Argument(help="Releases, with their manifests beside them.")
    ] = None,
    *,
    ell: Annotated[
        int | None, typer.Option("--ell", help="Diversity to compare with; by default what was promised.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="Describes the columns of releases without a manifest.")
    ] = None,
    qi: foreign.QuasiIdentifiers = None,
    sensitive: foreign.Sensitive = None,
    names: foreign.Map = None,
    kinds: foreign.Kind = None,
    empty: foreign.Empty = None,
    lists: foreign.Lists = None,
    hierarchy: options.Hierarchies = None,
    explain: foreign.Explain = False,
    before: Annotated[
        Path | None,
        typer.Option("--before", help="A release that is not yet published: may it join the others?"),
    ] = None,
    published: Annotated[
        list[Path] | None,
        typer.Option("--published", help="A release that is already published. May be given several times."),
    ] = None,
    targets: Annotated[
        Path | None,
        typer.Option(
            "--targets",
            help="People the adversary looks for: columns named like the quasi-identifiers; a missing column "
            "or an empty cell is unknown.",
        ),
    ] = None,
    targets_output: Annotated[
        Path | None,
        typer.Option("--targets-output", help="Put what is left for each target into this .csv or .parquet."),
    ] = None,
    same_records: Annotated[
        list[str] | None,
        typer.Option(
            "--same-records",
            help="Releases of the same records under different classes, such as a.csv,b.csv: what does "
            "subtraction isolate? May be given several times.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", help="Where the posterior's distribution comes from, instead of the releases."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page for people, into an .html file.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out labels of classes and small counts everywhere.")
    ] = False,
    picture: options.Picture = None,
    overwrite: options.Overwrite = False,
    csv: options.Csv,
    where: options.Where,
    json: options.Json = False,
) -> None:
    from elldelta.audit.audit import audit
    from elldelta.audit.document import audit_document
    from elldelta.files import check_writable
    from elldelta.model.model import read_model
    from elldelta.schema.schema_file import read_schema

    given = [*(published or ()), *(releases or ())]
    for path in (picture, report):
        if path is not None:
            check_writable(path, overwrite=overwrite)
    known = read_schema(schema) if schema else None
    columns = foreign.foreign_columns(qi, sensitive, names, kinds, empty, lists, hierarchy)
    if explain:
        with where.start() as active:
            _explain(
                [*given, *([before] if before else [])], columns, csv.format, active, public=public, json=json
            )
        return
    if before is not None:
        for name, value in (
            ("--targets", targets),
            ("--report", report),
            ("--picture", picture),
            ("--same-records", same_records),
        ):
            if value:
                raise ParameterError(
                    f"{name} does not go together with --before.",
                    remedy="Audit all releases, the new one included, for the full picture.",
                )
        with where.start() as active:
            _ask_before(
                before, given, columns, csv.format, active, ell=ell, schema=known, public=public, json=json
            )
        return
    if targets is not None and targets_output is None:
        raise ParameterError(
            "What is left for each target needs a file.",
            found="--targets was given without --targets-output.",
            remedy="Give --targets-output FILE; the terminal shows totals only.",
        )
    source = read_model(model) if model else None
    groups = [_places(text, given) for text in same_records or ()]
    with where.start() as active, progress_bar("Linking") as progress:
        result = audit(
            given,
            ell=ell,
            schema=known,
            model=source,
            foreign=columns,
            same_records=groups,
            targets=targets,
            targets_output=targets_output,
            overwrite=overwrite,
            csv_format=csv.format,
            engine=active,
            progress=progress,
        )
    if picture is not None:
        from elldelta.pages.charts import draw_histogram, write_picture

        bars = audit_document(result, public=public)["histogram"]
        write_picture(draw_histogram(bars, result.ell), picture, overwrite=overwrite)
    if report is not None:
        from elldelta.audit.page import render_audit
        from elldelta.files import AtomicFiles

        with AtomicFiles(overwrite=overwrite) as files:
            page = render_audit(audit_document(result, labels=True, public=public))
            files.stage(report).write_text(page, encoding="utf-8")
    if json:
        output.print_json(audit_document(result, public=public))
    else:
        _print(result, public=public)
    if not result.holds:
        raise typer.Exit(3)


def _ask_before(
    before: Path,
    published: Sequence[Path],
    columns: ForeignColumns,
    csv_format: CsvFormat,
    engine: Engine | None,
    *,
    ell: int | None,
    schema: Schema | None,
    public: bool,
    json: bool,
) -> None:
    from elldelta.audit.audit import audit_before
    from elldelta.audit.document import gate_document

    with progress_bar("Linking") as progress:
        result = audit_before(
            before,
            published,
            ell=ell,
            schema=schema,
            foreign=columns,
            csv_format=csv_format,
            engine=engine,
            progress=progress,
        )
    if json:
        output.print_json(gate_document(result, public=public))
    else:
        _print_gate(result, public=public)
    if not result.holds:
        raise typer.Exit(3)


def _explain(
    releases: Sequence[Path],
    columns: ForeignColumns,
    csv_format: CsvFormat,
    engine: Engine | None,
    *,
    public: bool,
    json: bool,
) -> None:
    """Says how labels are understood; values that may be somebody's own are taken together."""
    from elldelta.audit.audit import explain

    with progress_bar("Reading") as progress:
        found = explain(releases, columns, csv_format=csv_format, engine=engine, progress=progress)
    rows = [row for row in found.rows() if not public or row.label is None]
    if json:
        output.print_json(
            {
                "is_clear": found.is_clear,
                "labels": [
                    {
                        "column": row.column,
                        "label": row.label,
                        "labels": row.n_labels,
                        "meaning": row.meaning,
                        "releases": row.n_releases,
                        "problem": row.problem,
                    }
                    for row in rows
                ],
                "notes": list(found.notes),
            }
        )
    else:
        output.print_table(
            "How labels are understood",
            ("column", "label", "meaning", "releases"),
            [
                (
                    row.column,
                    f"{row.n_labels:,} labels" if row.label is None else row.label,
                    f"NOT CLEAR: {row.problem}" if row.problem else row.meaning,
                    str(row.n_releases),
                )
                for row in rows
            ],
        )
        output.print_text(*found.notes)
    if not found.is_clear:
        raise typer.Exit(2)


def _places(text: str, releases: Sequence[Path]) -> list[int]:
    """The places of releases that are named together, separated by commas."""
    places = []
    for name in (part.strip() for part in text.split(",")):
        found = [place for place, path in enumerate(releases) if name in (str(path), path.name)]
        if len(found) != 1:
            raise ParameterError(
                f"--same-records names {name!r}.",
                found=f"{len(found)} of the releases are called so.",
                remedy="Name releases of this audit as they are given, separated by commas.",
            )
        places.append(found[0])
    if len(set(places)) < 2:
        raise ParameterError(
            "--same-records needs at least two releases.", remedy="Write them with a comma: a.csv,b.csv."
        )
    return places


def _print(result: Audit, *, public: bool) -> None:
    from elldelta.audit.document import audit_document

    shown = audit_document(result, public=public)
    output.print_table(
        "Each release by itself",
        ("release", "records", "classes", "fewest values", "fewest records"),
        [
            (
                item["name"],
                f"{item['records']:,}",
                f"{item['classes']:,}",
                str(item["diversity"]),
                "not shown" if public else str(item["k"]),
            )
            for item in shown["releases"]
        ],
    )
    if result.labels:
        by_column = Counter(column for column, _, _ in result.labels)
        output.print_table(
            "Labels (all of them: --explain)",
            ("column", "kinds of labels understood"),
            [(column, str(number)) for column, number in by_column.items()],
        )
    output.print_table(
        "Linked",
        ("values left", "classes", "linked records"),
        [(str(bar["diversity"]), f"{bar['classes']:,}", f"{bar['records']:,}") for bar in shown["histogram"]],
    )
    if len(result.releases) > 1:
        output.print_table(
            "By number of releases (worst group)",
            ("releases", "fewest values", f"below {result.ell}", "one value left"),
            [
                (
                    str(point["releases"]),
                    str(point["diversity_min"]),
                    f"{point['share_below_max']:.1%}",
                    f"{point['share_exposed_max']:.1%}",
                )
                for point in shown["curve"]
            ],
        )
    if result.diversity_min is None:
        output.print_text("Nobody can be in all of these releases.")
    else:
        output.print_text(
            f"Everybody who is in all releases is left among at least {result.diversity_min} values."
        )
        guess = shown["guesses"][0]
        output.print_text(
            f"The best guess about them is right {guess['mean']:.1%} of the time; without any release it is "
            f"{shown['baseline']:.1%}."
        )
    if shown["differencing"] is not None:
        found = shown["differencing"]
        output.print_text(
            f"Subtraction isolates {found['groups']:,} groups that no release shows, "
            f"{found['groups_below']:,} of them with fewer than {result.ell} values."
        )
    if shown["targets"] is not None:
        people = shown["targets"]
        output.print_text(
            f"Of {people['targets']:,} targets, {people['in_all']:,} can be in all releases; "
            f"{people['below']:,} are left with fewer than {result.ell} values, "
            f"{people['exposed']:,} with one."
        )
    output.print_text(result.verdict)
    if result.share_below:
        output.print_text(
            f"Of the records in all releases, {shown['share_below']:.1%} are in classes below {result.ell}, "
            f"{shown['share_exposed']:.1%} in classes with a single value."
        )


def _print_gate(result: Gate, *, public: bool) -> None:
    output.print_text(result.public_verdict if public else result.verdict)
    if result.holds or public:
        return
    if result.already_below:
        output.print_text(
            f"In {result.already_below:,} of these classes the published releases leave fewer than "
            f"{result.ell} even without it."
        )
    output.print_table(
        f"Classes of {result.before} that fail",
        (*result.columns, "records", "values alone", "values left", "left before"),
        [
            (
                *(str(label) for label in item.labels),
                f"{item.records:,}",
                str(item.values_alone),
                str(item.values_left),
                "-" if item.values_before is None else str(item.values_before),
            )
            for item in result.classes[:_SHOWN]
        ],
    )
    if len(result.classes) > _SHOWN:
        output.print_text(f"And {len(result.classes) - _SHOWN:,} more; --json lists all.")
