"""Use cases: link releases to see what an adversary would see, and ask before one more is published."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.audit.gate import gate
from elldelta.audit.measures import summarize
from elldelta.audit.reader import ReleaseReader
from elldelta.audit.releases import Topic
from elldelta.audit.series import check_series, find_series
from elldelta.audit.shares import ClosenessLimit
from elldelta.audit.targets import (
    audit_targets,
    candidate_values,
    find_people,
    known_columns,
    read_people,
    values_left,
)
from elldelta.core.checks import check_whole
from elldelta.engines.task import computed, part
from elldelta.errors import ParameterError
from elldelta.files import check_writable, loaded
from elldelta.model import Model, read_model
from elldelta.release import each_once, locate_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from elldelta.audit.gate import Gate
    from elldelta.audit.overlay import Overlay
    from elldelta.audit.reader import Columns
    from elldelta.audit.releases import Understanding
    from elldelta.audit.result import Audit
    from elldelta.audit.series import OwnerSeries
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat
    from elldelta.plan.plan import Plan
    from elldelta.release import Located


def audit(
    releases: Sequence[Any],
    *,
    ell: int | None = None,
    closeness: float | None = None,
    closeness_to: Plan | Model | str | os.PathLike[str] | None = None,
    columns: Columns = None,
    model: Model | str | os.PathLike[str] | None = None,
    contained: Sequence[Sequence[int | str]] | None = None,
    series: Sequence[Sequence[int | str]] = (),
    targets: Any = None,  # noqa: ANN401 (a file or a table in memory)
    targets_output: Path | None = None,
    overwrite: bool = False,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Links releases as the adversary of the paper would, whatever their classes.

    Args:
        releases: Files with a manifest beside them, `Release` objects, or tables in memory.
        ell: The diversity to compare with; by default the largest that a manifest promises.
        closeness: T: shares of linked records must stay within this total variation of the reference.
        closeness_to: The reference: a plan or a model, or the file of one; by default "pooled", the overall
            distribution of the releases.
        columns: Describes the columns of releases without a manifest: a `Schema`, `ForeignColumns`, or the
            file of either.
        model: What linking is compared with instead of the reference: counts of past records.
        contained: Whether one table's population is contained in another's: sets of releases, by their places
            from 0 or their names, of which the people of one are all in the other, for any two of a set; an
            empty list: of none. What subtraction isolates is then found, not only possible. Nobody has said
            so by default.
        series: Releases of one owner in the order in which they were published, named in the same way: what
            subtracting each from the next shows. Those whose manifests name an owner and a line of a ledger
            are found without it.
        targets: People about whom the adversary knows quasi-identifiers.
        targets_output: A file for what is left for each target.
        overwrite: Whether that file may be replaced.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    _check_output(targets, targets_output, overwrite=overwrite)
    reader = ReleaseReader(columns, csv_format, engine, progress)
    limit = ClosenessLimit.of(closeness, closeness_to)
    question = _Question.of(reader, each_once(releases), ell, limit, contained, series)
    known = None if model is None else loaded(model, Model, read_model)
    people = None if targets is None else read_people(targets, csv_format=csv_format, engine=engine)
    one_number = limit is not None and (limit.plan is None or closeness is not None)
    if people is not None or known is not None or one_number:
        question.require_one_column()
    found = [
        question.audit(*asked, people, known, targets_output, overwrite=overwrite)
        for asked in question.overlays(people, known)
    ]
    return replace(found[0], also=tuple(found[1:]))


def targets(
    releases: Sequence[Any],
    people: Any,  # noqa: ANN401 (a file or a table in memory)
    *,
    columns: Columns = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Which values are left for particular people who are in all the releases.

    Args:
        releases: As in `audit`.
        people: Columns named like the quasi-identifiers; a missing column or an empty cell is unknown. Other
            columns are carried along.
        columns: Describes the columns of releases without a manifest, as in `audit`.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Returns:
        An Arrow table with a line per person and candidate value: how many values are left for the person,
        the value, the fewest records that show it, and their share. It is about single people.
    """
    sought = read_people(people, csv_format=csv_format, engine=engine)
    overlay = ReleaseReader(columns, csv_format, engine, progress).gather(releases, sought)
    known_columns(overlay, sought)
    return candidate_values(overlay, sought, values_left(overlay, find_people(overlay, sought)))


def audit_before(
    new: Any,  # noqa: ANN401 (a file, a Release, or a table in memory)
    published: Sequence[Any],
    *,
    ell: int | None = None,
    closeness: float | None = None,
    closeness_to: Plan | Model | str | os.PathLike[str] | None = None,
    columns: Columns = None,
    series: Sequence[int | str] = (),
    contained: Sequence[Sequence[int | str]] | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Gate:
    """Whether publishing a new release would take anybody below ell, or shares too far from a reference.

    If it is the next one of an owner (`series` names those before it, in their order, or their manifests say
    so), also whether subtracting them would show too few values of those who came, went or stayed. And
    whether subtracting it from the others isolates people, if one population is contained in another
    (`contained`).
    """
    given = each_once([*published, new])
    named = [[*series, len(given) - 1]] if series else []
    limit = ClosenessLimit.of(closeness, closeness_to)
    reader = ReleaseReader(columns, csv_format, engine, progress)
    question = _Question.of(reader, given, ell, limit, contained, named)
    answers = []
    for overlay, wanted, column_limit in question.overlays():
        open_topics = {each.topic for each in overlay.assumptions}
        if wanted == 1 and column_limit is None and Topic.CLOSENESS_NOT_CHECKED in open_topics:
            raise ParameterError(
                "The releases promise closeness and no number of values.",
                found="Nothing was given that shares are to be close to.",
                remedy="Give their plan to compare with, an ell or a closeness.",
                parameter=("closeness_to", "ell", "closeness"),
            )
        answers.append(gate(overlay, wanted, column_limit, question.owners, question.contained))
    # Every sensitive column must hold; the first that does not, or that hangs on an answer, says why.
    return min(answers, key=lambda answer: (answer.holds, not answer.subtraction.is_open))


def explain(
    releases: Sequence[Any],
    columns: Columns = None,
    *,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Understanding:
    """How the labels of releases are understood."""
    return ReleaseReader(columns, csv_format, engine, progress).understanding(releases)


@dataclass(frozen=True)
class _Question:
    """Releases, and what an audit or a gate asks about them.

    Attributes:
        reader: How they are read.
        releases: The releases.
        ell: The diversity to compare with; None for what was promised.
        limit: The closeness that is asked for.
        contained: Which populations are said to be contained in which; None if nobody has said.
        owners: Which releases are one owner's.
    """

    reader: ReleaseReader
    releases: Sequence[Located]
    ell: int | None
    limit: ClosenessLimit | None
    contained: Sequence[Sequence[int]] | None
    owners: Sequence[OwnerSeries]

    @classmethod
    def of(
        cls,
        reader: ReleaseReader,
        releases: Sequence[Any],
        ell: int | None,
        limit: ClosenessLimit | None,
        contained: Sequence[Sequence[int | str]] | None,
        series: Sequence[Sequence[int | str]],
    ) -> _Question:
        """With releases found, by their places or names, that somebody names together."""
        inside = None if contained is None else [_places(each, releases, "contained") for each in contained]
        named = [_places(each, releases, "series") for each in series]
        found, owners = locate_all(releases, reader.engine), []
        if named or any(item.manifest is not None and item.manifest.ledger is not None for item in found):
            check_series(named)
            owners = find_series(found, named)
        return cls(reader, found, ell, limit, inside, owners)

    def require_one_column(self) -> None:
        """Refuses releases of several sensitive columns, where only one can be meant."""
        n_columns = len(self.reader.sensitive_places(self.releases))
        if n_columns > 1:
            raise ParameterError(
                "Targets, models and a closeness of your own are about one sensitive column.",
                found=f"The releases have {n_columns}.",
                remedy="Name the one to ask about.",
                parameter="columns",
            )

    def overlays(
        self, people: pa.Table | None = None, model: Model | None = None
    ) -> Iterator[tuple[Overlay, int, ClosenessLimit | None]]:
        """For each sensitive column the releases laid over each other, and what is asked of it."""
        places = self.reader.sensitive_places(self.releases)
        found = self.reader.overlays(self.releases, places, people, model, self.limit)
        for place, overlay in zip(places, found, strict=True):
            limit = None if self.limit is None else self.limit.for_column(place)
            yield overlay, _wanted(self.ell, overlay, limit), limit

    def audit(
        self,
        overlay: Overlay,
        ell: int,
        limit: ClosenessLimit | None,
        people: pa.Table | None,
        model: Model | None,
        output: Path | None,
        *,
        overwrite: bool,
    ) -> Audit:
        """Measures the linkage of one sensitive column; what is left for targets goes into a file."""
        totals = None
        if people is not None:
            totals = audit_targets(overlay, people, ell, output=output, overwrite=overwrite)
        asked: dict[str, Any] = {"model": model, "closeness": limit, "contained": self.contained}
        return computed(
            lambda _: summarize(overlay, ell, **asked, targets=totals, owners=self.owners),
            part(self.reader.progress, 1.0, 1.0),  # the releases are read; what is left shows that it goes on
        )


def _check_output(targets: Any, output: Path | None, *, overwrite: bool) -> None:  # noqa: ANN401 (as in audit)
    """Refuses a file for targets that cannot be written, or where there are none."""
    if output is None:
        return
    if targets is None:
        raise ParameterError(
            "There is nothing to write about targets.",
            found="No targets were given.",
            remedy="Name the file with the targets.",
            parameter="targets",
        )
    check_writable(output, overwrite=overwrite)


def _places(names: Sequence[int | str], releases: Sequence[Any], parameter: str) -> list[int]:
    """The places of releases that are named together."""
    places = []
    for name in names:
        found = [
            place
            for place, item in enumerate(releases)
            if name == place
            or (isinstance(item, str | os.PathLike) and name in (item, os.fspath(item), Path(item).name))
        ]
        if len(found) != 1:
            raise ParameterError(
                f"There is no release {name!r} to compare with.",
                found=f"{len(found)} of the releases are called so.",
                remedy="Name releases of this audit as they are given, separated by commas.",
                parameter=parameter,
            )
        places += found
    if len(set(places)) < 2:
        raise ParameterError(
            "At least two releases must be named.",
            remedy="Write them with a comma: a.csv,b.csv.",
            parameter=parameter,
        )
    return places


def _wanted(ell: int | None, overlay: Overlay, limit: ClosenessLimit | None) -> int:
    if ell is not None:
        return check_whole("ell", ell)
    if overlay.promised is None:
        if limit is not None:
            return 1  # what every release shows: closeness is all that is asked for
        raise ParameterError(
            "There is no ell to compare with.",
            found="No release has a manifest.",
            remedy="Give an ell, or a closeness.",
            parameter=("ell", "closeness"),
        )
    return overlay.promised
