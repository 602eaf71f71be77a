"""`elldelta audit`: link releases and see what an adversary would see; or ask before publishing one more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.cli.closing import of_audit, of_gate
from elldelta.errors import ParameterError, counted
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elldelta.audit.result import Audit

_SHOWN = 20


@dataclass(frozen=True)
class ReportOptions:
    """What is written besides, and how much is told."""

    overwrite: options.Overwrite = False
    report: Annotated[Path | None, Doc("Write a page for people, into an .html file.")] = None
    public: Annotated[
        bool, Doc("Leave out labels of classes and small counts everywhere.", panel="Expert")
    ] = False

    def __post_init__(self) -> None:
        from elldelta.pages.page import check_page

        check_page(self.report, overwrite=self.overwrite)

    def write(self, result: Audit) -> None:
        """Writes the page, if it was asked for."""
        if self.report is not None:
            from elldelta.audit.page import report

            report(result, self.report, public=self.public, overwrite=self.overwrite)


@dataclass(frozen=True)
class LimitOptions:
    """What must be left."""

    ell: Annotated[int | None, Doc("Diversity to compare with; by default what was promised.")] = None
    closeness: Annotated[
        float | None,
        Doc(
            "How far shares of linked records may be from the reference: 0.2 is 20 percentage points "
            "for any set of values."
        ),
    ] = None
    closeness_to: Annotated[
        str | None,
        Doc(
            "pooled (all releases together, the default), a plan (plan.json, whose closeness is the "
            "default) or a model (model.parquet).",
            panel="Expert",
        ),
    ] = None


@dataclass(frozen=True)
class RelationOptions:
    """What is known about how the people of releases are related."""

    contained: Annotated[
        list[str] | None,
        Doc(
            "Releases of which one's people are all in the other, such as a.csv,b.csv, or no if there "
            "are none: subtraction is then judged, not only possible. Repeatable.",
            panel="Tables published again",
        ),
    ] = None
    series: Annotated[
        list[str] | None,
        Doc(
            "Releases of one owner in the order of publication, such as q1.csv,q2.csv: what does "
            "subtracting each from the next show? Found without it where manifests name an owner. "
            "With --before: the releases before that one. Repeatable.",
            panel="Tables published again",
        ),
    ] = None

    @property
    def populations(self) -> list[list[str]] | None:
        """Releases of which one's people are in the other; None if nobody has answered that."""
        from elldelta.audit.subtraction import contained_of

        return contained_of(self.contained)

    @property
    def owners(self) -> list[tuple[str, ...]]:
        """The releases of each owner, in their order."""
        return [options.names(text) for text in self.series or ()]


@dataclass(frozen=True)
class TargetOptions:
    """People to look for."""

    targets: Annotated[
        Path | None,
        Doc(
            "People the adversary looks for, by their quasi-identifiers; what is missing is unknown. "
            "age@2 is the age in the second release, for people who moved.",
            panel="Expert",
        ),
    ] = None
    targets_output: Annotated[
        Path | None,
        Doc("Put what is left for each target into this .csv or .parquet.", panel="Expert"),
    ] = None


@command("audit", example="audit release_a.parquet release_b.parquet --report audit.html")
def _run(
    releases: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Releases, with their manifests beside them if they have one, or globs. With --before: "
            "those that are published."
        ),
    ] = None,
    *,
    columns: Annotated[
        Path | None,
        Doc(
            "Describes the columns of releases without a manifest: a schema, or a shorter .toml file "
            "that names them."
        ),
    ] = None,
    explain: Annotated[bool, Doc("Say how every label is understood, and link nothing.")] = False,
    before: Annotated[
        Path | None,
        Doc("A release that is not yet published: may it join the others?"),
    ] = None,
    model: Annotated[
        Path | None,
        Doc("Counts of past records that linking is compared with.", panel="Expert"),
    ] = None,
    limits: LimitOptions,
    related: RelationOptions,
    people: TargetOptions,
    shown: ReportOptions,
    details: options.Details = False,
    tables: options.EngineOptions,
    json: options.Json = False,
) -> None:
    """Link releases: how many values are left for somebody who is in several of them?

    Exit code 3 if fewer than ell for anybody, or if shares are further away than --closeness allows; 2 if
    only closeness was promised, and its plan is not given.
    """
    from elldelta.audit.audit import audit, audit_before
    from elldelta.audit.audit import explain as explained

    given = releases or []
    limit: dict[str, Any] = {**vars(limits), "contained": related.populations}
    _check(before, people, shown)
    with tables.reading("Linking") as read:
        read["columns"] = columns
        if explain:
            labels = explained([*given, *([before] if before else [])], **read)
            found = labels.to_dict(public=shown.public)
            if json:
                output.print_json(found)
            else:
                _print_labels(found)
            raise typer.Exit(0 if labels.is_clear else 2)
        if before is not None:
            gate = audit_before(before, given, series=next(iter(related.owners), ()), **limit, **read)
            found = gate.to_dict(public=shown.public)
            if json:
                output.print_json(found)
            else:
                _print_gate(found, details=details)
                of_gate(found).print()
            raise typer.Exit(0 if gate.holds else 3)
        result = audit(
            given,
            **limit,
            model=model,
            series=related.owners,
            **vars(people),
            overwrite=shown.overwrite,
            **read,
        )
    shown.write(result)
    found = result.to_dict(public=shown.public)
    if json:
        output.print_json(found)
    else:
        _print_audit(found, details=details)
        output.print_written(shown.report, people.targets_output)
        again = [] if not (shown.report or people.targets_output) or shown.overwrite else ["--overwrite"]
        of_audit(found, shown.report, again).print()
    raise typer.Exit(3 if result.is_refused else 0 if result.holds else 2)


def _check(before: Path | None, people: TargetOptions, shown: ReportOptions) -> None:
    """Refuses options that do not go together, before anything is read."""
    for name, value in (
        ("--targets", people.targets),
        ("--report", shown.report),
    ):
        if before is not None and value:
            raise ParameterError(
                f"{name} does not go together with --before.",
                remedy="Audit all releases, the new one included, for the full picture.",
            )
    if people.targets is not None and people.targets_output is None:
        raise ParameterError(
            "What is left for each target needs a file.",
            found="--targets was given without --targets-output.",
            remedy="Give --targets-output FILE; the terminal shows totals only.",
        )


def _print_audit(found: dict[str, Any], *, details: bool) -> None:
    alone = len(found["releases"]) == 1
    columns = [found, *found.get("also", ())]
    output.print_table(
        "The release" if alone else "Each release by itself",
        ("release", "records", "classes", "loss", *map(_fewest, columns), "fewest records"),
        [
            (
                item["name"],
                f"{item['records']:,}",
                f"{item['classes']:,}",
                "-" if item["loss"] is None else f"{item['loss']:.4f}",
                *(str(column["releases"][place]["diversity"]) for column in columns),
                "not shown" if found["public"] else str(item["k"]),
            )
            for place, item in enumerate(found["releases"])
        ],
    )
    if found["labels_understood"]:
        output.print_table(
            "Labels (all of them: --explain)",
            ("column", "kinds of labels understood"),
            [(row["column"], str(row["kinds"])) for row in found["labels_understood"]],
        )
    for column in columns:
        _print_linked(column, alone=alone)
    if details:
        for column in columns:
            output.print_text(*_in_words(column))
        output.print_text(*found["assumptions"])


def _print_linked(column: dict[str, Any], *, alone: bool) -> None:
    """What is left of the values of one sensitive column."""
    from elldelta.pages.page import percent

    name, ell = repr(column["sensitive"]), column["ell"]
    output.print_table(
        f"Values left of {name}" if alone else f"Linked: values left of {name}",
        ("values left", "classes", "records" if alone else "linked records"),
        [
            (str(bar["diversity"]), f"{bar['classes']:,}", f"{bar['records']:,}")
            for bar in column["histogram"]
        ],
    )
    if alone:
        return
    output.print_table(
        f"By number of releases (worst group): values left of {name}",
        ("releases", "fewest values", f"below {ell}", "one value left"),
        [
            (
                str(point["releases"]),
                str(point["diversity_min"]),
                percent(point["share_below_max"]),
                percent(point["share_exposed_max"]),
            )
            for point in column["curve"]
        ],
    )


def _fewest(column: dict[str, Any]) -> str:
    return f"fewest values of {column['sensitive']}"


def _in_words(found: dict[str, Any]) -> Iterator[str]:
    from elldelta.pages.page import percent

    ell, alone = found["ell"], len(found["releases"]) == 1
    everywhere = "the release" if alone else "all releases"
    if found["diversity_min"] is None:
        yield f"Nobody can be in {everywhere}."
    else:
        fewest = f"{counted(found['diversity_min'], 'value')} of {found['sensitive']!r}"
        yield f"Everybody{found['whom']} who is in {everywhere} is left among at least {fewest}."
        records = "records" if alone else "linked records"
        yield (
            f"The most frequent value of a class has {percent(found['linked']['guess_mean'])} of the "
            f"{records} there, on average. {found['reference'][0].upper()}{found['reference'][1:]}: at most "
            f"{percent(found['baseline'])} for one value."
        )
    if not alone:
        yield _subtraction_in_words(found["subtraction"])
    for owner in found.get("series", ()):
        yield from _series_in_words(owner, ell)
    yield from filter(None, re.split(r"(?<=\.) (?=[A-Z])", found["surest"]))
    if found["closeness"] is not None:
        yield from _closeness_in_words(found["closeness"])
    if found["share_below"]:
        yield (
            f"Of the records in {everywhere}, {percent(found['share_below'])} are in classes below {ell}, "
            f"{percent(found['share_exposed'])} in classes with a single value."
        )


def _subtraction_in_words(found: dict[str, Any]) -> str:
    n_below = found["groups_below"]
    counted = f" Differences of classes that show so few values: {n_below:,}." if n_below else ""
    return f"{found['words']}{counted}"


def _series_in_words(found: dict[str, Any], ell: int) -> Iterator[str]:
    for step in found["steps"]:
        of = f"{step['changed']:,} of {counted(step['classes'], 'class', 'classes')} change"
        step_words = f"From {step['before']} to {step['after']}: {of}"
        if not step["known_from"]:
            yield f"{step_words}; who came cannot be told from who stayed."
            continue
        groups = [
            f"{counted(step[kind]['people'], 'person', 'people')} {kind}"
            for kind in ("came", "went", "stayed")
        ]
        below = sum(step[kind]["people_below"] for kind in ("came", "went", "stayed"))
        yield (
            f"{step_words}: {', '.join(groups)} in them; "
            f"{counted(below, 'is', 'are')} in groups with fewer than {counted(ell, 'value')}."
        )


def _closeness_in_words(found: dict[str, Any]) -> Iterator[str]:
    from elldelta.pages.page import percent

    if found["distance"] is None:
        return
    yield (
        f"Closeness to {found['reference']}: furthest {found['distance']:.3f}, bound for any group of "
        f"releases {found['bound']:.3f}, {found['allowed']:g} allowed; further away: "
        f"{found['classes_above']:,} of {counted(found['classes'], 'place')}."
    )
    if found["note"]:
        yield found["note"]
    if found["worst"]:
        worst = found["worst"][0]
        yield (
            f"In the furthest place the largest share goes from {percent(worst['guess_before'])} to "
            f"{percent(worst['guess_after'])}, and the set of values that gains the most from "
            f"{percent(worst['set_before'])} to {percent(worst['set_after'])}."
        )


def _print_gate(found: dict[str, Any], *, details: bool) -> None:
    if details:
        output.print_text(_subtraction_in_words(found["subtraction"]))
        if "series" in found:
            output.print_text(*_series_in_words(found["series"], found["ell"]))
        if found["closeness"] is not None:
            output.print_text(*_closeness_in_words(found["closeness"]))
        output.print_text(*found["assumptions"])
    if not found["classes"]:
        return
    if found["classes_below_already"]:
        output.print_text(
            f"In {found['classes_below_already']:,} of these classes the published releases leave fewer than "
            f"{found['ell']} even without it."
        )
    far = found["closeness"] is not None
    output.print_table(
        f"Classes of {found['before']} that fail",
        (
            *(*found["columns"], "records", "values alone", "values left", "left before"),
            *(["too far"] if far else []),
        ),
        [
            (
                *item["labels"],
                f"{item['records']:,}",
                str(item["values_alone"]),
                str(item["values_left"]),
                "-" if item["values_before"] is None else str(item["values_before"]),
                *(["yes" if item["too_far"] else "no"] if far else []),
            )
            for item in found["classes"][:_SHOWN]
        ],
    )
    if len(found["classes"]) > _SHOWN:
        output.print_text(f"And {len(found['classes']) - _SHOWN:,} more; --json lists all.")


def _print_labels(found: dict[str, Any]) -> None:
    output.print_table(
        "How labels are understood",
        ("column", "label", "meaning", "releases"),
        [
            (
                row["column"],
                f"{counted(row['labels'], 'label')}" if row["label"] is None else row["label"],
                f"NOT CLEAR: {row['problem']}" if row["problem"] else row["meaning"],
                str(row["releases"]),
            )
            for row in found["labels"]
        ],
    )
    output.print_text(*found["notes"])
