"""`elldelta check`: the measures of the literature for one table, nothing else needed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import counted
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from elldelta.audit.check import TableCheck


@command("check", example="check any_table.csv --qi postal_code,gender,age --sensitive disease")
def _run(
    sources: options.Sources = None,
    *,
    qi: Annotated[str, Doc("The quasi-identifiers, separated by commas.")],
    sensitive: Annotated[str, Doc("The sensitive column.")],
    person: options.Person = None,
    groups: Annotated[
        Path | None,
        Doc("A file with groups of like sensitive values, value;group;...;root, which are counted, too."),
    ] = None,
    missing: options.Missing,
    tables: options.SourceOptions,
    json: options.Json = False,
) -> None:
    """k-anonymity, ell-diversity, t-closeness and their relatives of one table.

    Nothing is promised about linking it with others: that is what plans and audits are for.
    """
    from elldelta.audit.check import check
    from elldelta.release.manifest import manifest_path
    from elldelta.schema.hierarchies import read_rows

    source = tables.source(sources)
    with tables.reading("Reading") as read:
        found = check(
            source,
            options.names(qi),
            sensitive,
            person=person,
            groups=None if groups is None else read_rows(groups),
            missing=missing.tokens(sensitive),
            **read,
        )
    for code in found.codes:
        output.print_note(
            f"WARNING  {sensitive}: {code} may stand for a missing value. If so: --na {sensitive}={code}"
        )
    output.print_note(*(f"WARNING  {output.note_text(note)}" for note in found.warnings))
    if json:
        output.print_json(found.to_dict())
        return
    _print(found)
    output.print_text(*_summary(found, sensitive))
    table = [str(name) for name in sources or ["TABLE"]]
    again = [
        *_repeated("--csv", tables.csv),
        *([] if tables.engine == "duckdb" else ["--engine", tables.engine]),
    ]
    if sources and all(manifest_path(Path(name)).exists() for name in sources):
        linked = ["elldelta", "audit", *table, "OTHER", *again]
        output.print_text(f"Next, to link it with other releases: {shlex.join(linked)}")
        return
    again += [*_repeated("--na", missing.na), *_repeated("--not-na", missing.not_na)]
    columns = ["--qi", qi, "--sensitive", sensitive]
    infer = ["elldelta", "schema", "infer", *table, *columns, *again, "-o", "schema.toml"]
    output.print_text(f"Next, for a table that may be linked with others: {shlex.join(infer)}")


def _repeated(option: str, values: list[str] | None) -> list[str]:
    """An option as it was given, for a command that needs it, too."""
    return [word for value in values or () for word in (option, value)]


def _summary(found: TableCheck, sensitive: str) -> tuple[str, ...]:
    """What the table shows in one plain sentence."""
    who = "record" if found.persons is None else "person"
    if found.k == 1:
        alone = f"in at least one class a single {who} stands alone, and its {sensitive!r} is told"
        return (f"Not safe to publish as it is: {alone}.",)
    if found.ell == 1:
        return (f"Not safe to publish as it is: in at least one class everybody has the same {sensitive!r}.",)
    return (
        f"By itself it leaves everybody among at least {counted(found.ell, 'value')} of {sensitive!r} and "
        f"{counted(found.k, who)}; nothing is promised about linking it with another table.",
    )


def _print(found: TableCheck) -> None:
    ordered = "" if found.t_ordered is None else f"; with the order of the numbers {found.t_ordered:.4f}"
    who = "record" if found.persons is None else "person"
    output.print_pairs(
        f"{counted(found.records, 'record')} in {counted(found.classes, 'class', 'classes')}"
        + (
            ""
            if found.persons is None
            else f": {counted(found.persons, 'person')}, each once per class and value"
        ),
        [
            ("k-anonymity", f"{counted(found.k, who)} in the smallest class"),
            ("ell-diversity", f"{counted(found.ell, 'distinct value')} in the poorest class"),
            *([] if found.ell_groups is None else [("  groups", _groups(found.ell_groups))]),
            ("  entropy", f"{found.entropy_ell:.3f}"),
            ("  recursive", f"(c, {found.ell}) for every c above {found.recursive_c:.3f}"),
            ("t-closeness", f"{found.t:.4f}{ordered}"),
            ("beta-likeness", f"{found.beta:.4f}"),
            ("delta-disclosure", f"{found.delta_disclosure:.4f}" + _lacking(found.lacking)),
            ("best guess", f"right {found.best_guess:.1%} of the time in the worst class"),
            *(
                [("left out", f"{counted(found.left_out, 'record')} without a sensitive value")]
                if found.left_out
                else []
            ),
        ],
    )


def _groups(fewest: int) -> str:
    return f"{counted(fewest, 'group')} of like values in the poorest class"


def _lacking(n_classes: int) -> str:
    return (
        f" over the values shown; {counted(n_classes, 'class lacks', 'classes lack')} a value"
        if n_classes
        else ""
    )
