"""Options about releases of others: which columns they link by, and what their labels mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from elldelta.cli import options
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.audit.foreign_evidence import ForeignColumns

QuasiIdentifiers = Annotated[
    str | None,
    typer.Option("--qi", help="Columns to link by, separated by commas, if nothing describes the releases."),
]
Sensitive = Annotated[
    str | None, typer.Option("--sensitive", help="The sensitive column, if nothing describes the releases.")
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="A column that is called differently, such as b.csv:alter=age (in b.csv) or alter=age (wherever "
        "it occurs); b.csv:=age says that b.csv has no such column. May be given several times.",
    ),
]
Kind = Annotated[
    list[str] | None,
    typer.Option("--kind", help="What a column holds: age=number, born=date or zip=text."),
]
Empty = Annotated[
    list[str] | None,
    typer.Option(
        "--empty", help="What empty cells mean: age=unknown, age=category (a value of its own) or age=refuse."
    ),
]
Lists = Annotated[
    list[str] | None,
    typer.Option(
        "--lists", help="Whether a,b in a column of texts is a set or one value: job=sets or job=values."
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say how every label is understood, and link nothing.")
]


def foreign_columns(
    qi: str | None,
    sensitive: str | None,
    names: list[str] | None,
    kinds: list[str] | None,
    empty: list[str] | None,
    lists: list[str] | None,
    hierarchy: list[str] | None,
) -> ForeignColumns:
    """Puts the options together."""
    from elldelta.audit.foreign_evidence import ForeignColumns
    from elldelta.schema.foreign_columns import ColumnRules
    from elldelta.schema.hierarchies import read_hierarchies

    rules: dict[str, dict[str, Any]] = {}
    nulls: str = "refuse"
    for key, option, texts in (
        ("kind", "--kind", kinds),
        ("nulls", "--empty", empty),
        ("separators", "--lists", lists),
    ):
        for column, value in _pairs(texts, option):
            if key == "nulls" and column == sensitive:
                nulls = value
            else:
                rules.setdefault(column, {})[key] = value
    if nulls not in ("refuse", "category"):
        raise ParameterError(
            "An empty sensitive value is refused or a category.",
            remedy=f"Write --empty {sensitive}=category or leave it out.",
        )
    for column, rows in read_hierarchies(options.named_files(hierarchy, "--hierarchy")).items():
        rules.setdefault(column, {})["hierarchy"] = rows.checked()
    named, absent = [], []
    for text in names or ():
        release, colon, rest = text.rpartition(":")
        own, equals, common = (part.strip() for part in rest.partition("="))
        if not equals or not common or (not own and not colon):
            raise ParameterError(
                "--map must look like b.csv:alter=age or alter=age.",
                found=f"It is {text!r}.",
                remedy="Write the column of the release, an equals sign and the common name.",
            )
        if own:
            named.append((release.strip(), own, common))
        else:
            absent.append((release.strip(), common))
    return ForeignColumns(
        quasi_identifiers=tuple(part.strip() for part in (qi or "").split(",") if part.strip()),
        sensitive=sensitive or "",
        names=tuple(named),
        absent=tuple(absent),
        rules={column: ColumnRules(**said) for column, said in rules.items()},
        sensitive_nulls="category" if nulls == "category" else "refuse",
    )


def _pairs(texts: list[str] | None, option: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts or ():
        column, equals, value = (part.strip() for part in text.rpartition("="))
        if not equals or not column or not value:
            raise ParameterError(
                f"{option} must name a column and what is said about it.",
                found=f"It is {text!r}.",
                remedy="Write the column, an equals sign and a word.",
            )
        pairs.append((column, value))
    return pairs
