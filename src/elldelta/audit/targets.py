"""Use case: which values are left for particular people, given what an adversary knows about them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.audit.knowledge import BackgroundKnowledge
from elldelta.core.diversity import n_groups_left
from elldelta.engines import format_of, running
from elldelta.errors import DataError, RefusedError, counted
from elldelta.files import AtomicFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.audit.overlay import Overlay
    from elldelta.engines import Engine
    from elldelta.files import CsvFormat
    from elldelta.schema.label_columns import ColumnRules

_LINES_AT_ONCE = 1 << 18

RESULT_COLUMNS = ("values_left", "candidate", "records", "share")


@dataclass(frozen=True)
class TargetTotals:
    """How the targets fare, in totals only: a single target belongs into the file, not here.

    Attributes:
        targets: People asked about.
        in_all: Those who can be in all releases: at least one value is left.
        below: Those of them with fewer than ell values left.
        exposed: Those of them with exactly one value left.
        outside: People with a value that no release can show.
        partly_known: People of whom at least one quasi-identifier is not known.
    """

    targets: int
    in_all: int
    below: int
    exposed: int
    outside: int
    partly_known: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """Where people can be: one line per person and combination of rows they may have.

    Attributes:
        n_people: The number of people.
        person: The person of each line, rising.
        rows: The row of each release's table, lines x releases.
        tables: Per release what each row shows: rows x values.
        n_outside: People with a value that no release can show: they are in none.
    """

    n_people: int
    person: NDArray[np.int64]
    rows: NDArray[np.int64]
    tables: tuple[NDArray[np.int64], ...]
    n_outside: int


def find_people(overlay: Overlay, people: pa.Table) -> Candidates:
    """Where the people of a table can be; they must have been given when the releases were laid.

    Raises:
        DataError: Somebody is elsewhere in some of the releases, and not known in full.
    """
    sought = overlay.sought or overlay
    found = [
        sought.find(known)
        for known in known_in_each(people, overlay.columns, overlay.rules, len(overlay.layers))
    ]
    if len(found) == 1:
        return found[0]
    if any(np.unique(each.person).size < each.person.size for each in found):
        raise DataError(
            "People who are elsewhere in some of the releases must be known in full.",
            found="A quasi-identifier of a target is not known, or a label cuts through it.",
            remedy="Fill in all columns of these targets, or look for the others apart.",
        )
    everywhere = np.flatnonzero(
        np.sum([np.bincount(each.person, minlength=each.n_people) for each in found], axis=0) == len(found)
    )
    rows = [each.rows[np.searchsorted(each.person, everywhere), j] for j, each in enumerate(found)]
    n_outside = people.num_rows - everywhere.size
    return Candidates(
        people.num_rows, everywhere, np.stack(rows, axis=1).astype(np.int64), found[0].tables, n_outside
    )


def in_release(people: pa.Table, columns: Sequence[str], number: int) -> pa.Table:
    """People as they are in one release, counted from 1: there `age@2` stands for `age` in the second."""
    for name in columns:
        name_here = f"{name}@{number}"
        if name_here in people.column_names and name_here not in columns:
            if name in people.column_names:
                people = people.drop_columns([name])
            names = [name if each == name_here else each for each in people.column_names]
            people = people.rename_columns(names)
    return people


def known_in_each(
    people: pa.Table, columns: Sequence[str], rules: Mapping[str, ColumnRules], n_releases: int
) -> tuple[BackgroundKnowledge, ...]:
    """What is known about people, once for all releases or, if it differs, for each of them."""
    numbers = {f"{name}@{number}": number for name in columns for number in range(1, n_releases + 1)}
    others = [name for name in people.column_names if name not in columns]
    by_release = [name for name in others if name.rpartition("@")[0] in columns]
    strangers = [name for name in by_release if name not in numbers]
    if strangers:
        raise DataError(
            f"The column {strangers[0]!r} of the targets names no release.",
            found=f"There are {counted(n_releases, 'release')}.",
            remedy="Write the number of a release after the sign, from 1 in their order.",
        )
    changed = [in_release(people, columns, number + 1) for number in range(n_releases if by_release else 1)]
    return tuple(BackgroundKnowledge.from_table(each, columns, rules) for each in changed)


def values_left(overlay: Overlay, candidates: Candidates) -> NDArray[np.int64]:
    """The candidate values of people who are in all releases: people x values, 0 where one is excluded.

    A number is the fewest records, over the releases, that show the value in a class where the person can be.
    With full knowledge of the quasi-identifiers that is the paper's min-count.
    """
    counts = np.zeros((candidates.n_people, len(overlay.values)), dtype=np.int64)
    for lines in _whole_people(candidates.person):
        person, rows = candidates.person[lines], candidates.rows[lines]
        if not len(person):
            continue
        starts = np.flatnonzero(np.diff(person, prepend=-1))
        shown = [table[rows[:, j]] for j, table in enumerate(candidates.tables)]
        # A value is possible if one place a person can be at shows it in every release.
        linked = np.minimum.reduce(shown)
        possible = np.maximum.reduceat(linked, starts, axis=0) > 0
        fewest: NDArray[np.int64] | None = None
        for j, table in enumerate(shown):
            # a row that stands on several lines of a person is counted once
            order = np.lexsort((rows[:, j], person))
            is_new = np.ones(len(order), dtype=bool)
            is_new[1:] = (np.diff(person[order]) != 0) | (np.diff(rows[order, j]) != 0)
            total = np.add.reduceat(table[order] * is_new[:, np.newaxis], starts, axis=0)
            fewest = total if fewest is None else np.minimum(fewest, total)
        assert fewest is not None  # noqa: S101 (there is at least one release)
        counts[person[starts]] = np.where(possible, fewest, 0)
    counts.setflags(write=False)
    return counts


def audit_targets(
    overlay: Overlay,
    people: pa.Table,
    ell: int,
    *,
    output: Path | None = None,
    overwrite: bool = False,
) -> TargetTotals:
    """Looks up people in the releases; what is left for each goes into a file, totals are returned.

    Args:
        overlay: The releases.
        people: The people: columns named like the quasi-identifiers; `age@2` is the age in the second release
            where it is another one there. A missing column or an empty cell is something the adversary does
            not know. Other columns are carried into the output.
        ell: The number of values to compare with.
        output: A .csv or .parquet file: one line per target and candidate value.
        overwrite: Whether the output may replace a file.
    """
    if output is not None:
        format_of(output)
    known = known_columns(overlay, people)
    candidates = find_people(overlay, people)
    people_known = in_release(people, overlay.columns, 1)
    left = values_left(overlay, candidates)
    if output is not None:
        _write(candidate_values(overlay, people, left), output, overwrite=overwrite)
    diversities = n_groups_left(left > 0, overlay.groups)
    is_partial = np.full(people.num_rows, len(known) < len(overlay.columns))
    for name in known:
        is_partial |= people_known.column(name).combine_chunks().is_null().to_numpy(zero_copy_only=False)
    return TargetTotals(
        targets=people.num_rows,
        in_all=int((diversities > 0).sum()),
        below=int(((diversities > 0) & (diversities < ell)).sum()),
        exposed=int((diversities == 1).sum()),
        outside=candidates.n_outside,
        partly_known=int(is_partial.sum()),
    )


def known_columns(overlay: Overlay, people: pa.Table) -> list[str]:
    """The quasi-identifiers that are known of people; refused if there is none."""
    known = [name for name in overlay.columns if name in in_release(people, overlay.columns, 1).column_names]
    if not known:
        raise DataError(
            "The targets have no column of a quasi-identifier.",
            found=f"They have {counted(people.num_columns, 'column')}.",
            remedy=f"Name at least one of: {', '.join(overlay.columns)}.",
        )
    return known


def read_people(
    source: Any,  # noqa: ANN401 (a file or a table in memory)
    *,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
) -> pa.Table:
    """Reads the people an adversary looks for, as they are."""
    import pyarrow as pa

    if engine is not None and "files" not in engine.capabilities and isinstance(source, str | os.PathLike):
        engine = None  # they are in a file on this machine, wherever the releases are
    with running(engine) as active:
        table = active.open(source, csv_format)
        return pa.Table.from_batches(active.fetch(table.relation))


def _whole_people(person: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of lines that keep the lines of a person together."""
    start = 0
    while start < len(person):
        stop = min(start + _LINES_AT_ONCE, len(person))
        if stop < len(person):
            first_of_last = int(np.searchsorted(person, person[stop - 1]))
            stop = (
                first_of_last
                if first_of_last > start
                else int(np.searchsorted(person, person[stop - 1], side="right"))
            )
        yield slice(start, stop)
        start = stop


def candidate_values(overlay: Overlay, people: pa.Table, counts: NDArray[np.int64]) -> pa.Table:
    """One line per target and candidate value; a target without any has one line that says 0."""
    import pyarrow as pa

    taken = [name for name in RESULT_COLUMNS if name in people.column_names]
    if taken:
        raise RefusedError(
            f"The targets already have a column {taken[0]!r}, which the result needs.",
            remedy="Rename it.",
        )
    values, diversities = overlay.values, n_groups_left(counts > 0, overlay.groups)
    person, value = np.nonzero(counts)
    none = np.flatnonzero(diversities == 0)
    order = np.argsort(np.concatenate([person, none]), kind="stable")
    person = np.concatenate([person, none])[order]
    value = np.concatenate([value, np.full(len(none), -1)])[order]
    records = np.where(value >= 0, counts[person, value], 0)
    totals = np.maximum(counts.sum(axis=1), 1)[person]
    names = pa.array([*values, None], pa.string())
    result = people.take(pa.array(person))
    for name, column in zip(
        RESULT_COLUMNS,
        (
            pa.array(diversities[person]),
            names.take(pa.array(np.where(value >= 0, value, len(values)))),
            pa.array(records),
            pa.array(records / totals),
        ),
        strict=True,
    ):
        result = result.append_column(name, column)
    return result


def _write(result: pa.Table, output: Path, *, overwrite: bool) -> None:
    import pyarrow.csv as pcsv
    import pyarrow.parquet as pq

    with AtomicFiles(overwrite=overwrite) as files:
        target = files.stage(output, private=True)
        if format_of(output) == "parquet":
            pq.write_table(result, target, compression="zstd")
        else:
            pcsv.write_csv(result, target)
