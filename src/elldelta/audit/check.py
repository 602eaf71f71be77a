"""What one table shows by itself: k, ell, t and their relatives, without a plan, a schema or a promise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core import diversity as measures
from elldelta.engines import running, sql
from elldelta.errors import DataError, Note, ParameterError, counted
from elldelta.model import check_person, person_key
from elldelta.pages.page import Displayed
from elldelta.release import count_release, values_shown
from elldelta.schema.infer import repeated_people
from elldelta.schema.label_columns import one_spelling
from elldelta.schema.labels import MISSING_TOKENS
from elldelta.schema.profile import Profiler, codes_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.engines import Engine, Progress, Table
    from elldelta.files import CsvFormat
    from elldelta.schema.hierarchy import HierarchyRows


@dataclass(frozen=True, repr=False)
class TableCheck(Displayed):
    """The measures of the literature for one table; a class is a set of records with equal quasi-identifiers.

    Attributes:
        records: Records of the table.
        classes: Its classes. A missing quasi-identifier is a value like any other.
        k: k-anonymity: the fewest records of a class.
        ell: Distinct ell-diversity: the fewest sensitive values of a class.
        entropy_ell: Entropy ell-diversity: exp of the smallest entropy of a class.
        recursive_c: The table is recursive (c, ell)-diverse for every c above this, with the ell above.
        t: t-closeness with equal distances: the largest total variation between a class and the whole table.
        t_ordered: The same by the earth mover's distance, where all sensitive values are numbers; else None.
        beta: Basic beta-likeness: by how much, relatively, a value can be more frequent in a class.
        delta_disclosure: The largest absolute log ratio of shares, over the values that classes show.
        best_guess: How often the most frequent value of a class is right, in the worst class.
        lacking: Classes that lack a sensitive value which the table has.
        left_out: Records without a sensitive value; they are left out of all measures.
        codes: Sensitive values that look as if they stood for a missing one.
        persons: The different persons of the table, where persons are counted: then every one counts once per
            class and sensitive value, and once per class in k. None where records are counted.
        warnings: What may be wrong.
        ell_groups: The fewest groups of like values of a class, where groups are given; otherwise None.
    """

    records: int
    classes: int
    k: int
    ell: int
    entropy_ell: float
    recursive_c: float
    t: float
    t_ordered: float | None
    beta: float
    delta_disclosure: float
    best_guess: float
    lacking: int
    left_out: int
    codes: tuple[str, ...]
    persons: int | None = None
    warnings: tuple[Note, ...] = ()
    ell_groups: int | None = None

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {
            "records": self.records,
            "classes": self.classes,
            "k-anonymity": self.k,
            "ell-diversity": self.ell,
            **({} if self.ell_groups is None else {"groups of like values": self.ell_groups}),
            "entropy": self.entropy_ell,
            "t-closeness": self.t,
            "beta-likeness": self.beta,
            "best guess in the worst class": f"{self.best_guess:.1%}",
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"warnings": [str(note) for note in self.warnings]}


def check(
    table: Any,  # noqa: ANN401 (files, or any table in memory)
    quasi_identifiers: Sequence[str],
    sensitive: str,
    *,
    person: str | None = None,
    groups: HierarchyRows | None = None,
    missing: Sequence[str] = MISSING_TOKENS,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> TableCheck:
    """Measures one table as it is: nothing is generalized, nothing is promised.

    Args:
        table: Files, folders, globs, or a table in memory (pandas, Polars, Arrow).
        quasi_identifiers: What somebody may know about a person.
        sensitive: What they would like to know.
        person: The column that tells persons apart, if some have several records.
        groups: Groups of like sensitive values, as a hierarchy has them: all cancers are one. The first group
            of a value counts.
        missing: Texts that stand for a missing sensitive value, as an empty cell does; it counts for nothing.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.
    """
    names = tuple(quasi_identifiers)
    if isinstance(quasi_identifiers, str) or not names or sensitive in names or len(set(names)) < len(names):
        raise ParameterError(
            "A check needs quasi-identifiers, each once, and a sensitive column that is none of them.",
            found=f"The quasi-identifiers are {quasi_identifiers!r}, the sensitive column is {sensitive!r}.",
            remedy='Give a list of names, such as ["age", "sex"].',
        )
    persons: _Persons | None = None
    warnings: tuple[Note, ...] = ()
    with running(engine) as active:
        opened = active.open(table, csv_format)
        opened.require((*names, sensitive))
        if person is not None:
            check_person(person, (*names, sensitive))
            persons = _Persons(opened, names, sensitive, person, missing)
            opened = persons.table
        else:
            warnings = tuple(repeated_people(opened, (*names, sensitive)))
        read = count_release(opened, names, sensitive, progress=progress)
    shown = values_shown(read.values, missing)
    spelling_of = one_spelling({value for value in shown if value is not None})
    values = [None if value is None else spelling_of[value] for value in shown]
    found = read.with_values(values, keep_missing=False)
    if not found.n_records:
        raise DataError("There is no record to check.", remedy="Check that this is the table that you meant.")
    measured = _measured(found.counts, found.values)
    return TableCheck(
        **measured,
        k=(measures.k_anonymity(found.counts) if persons is None else persons.fewest) or 0,
        left_out=read.n_records - found.n_records,
        persons=None if persons is None else persons.total,
        warnings=warnings,
        ell_groups=None if groups is None else _fewest_groups(found.counts, found.values, groups),
    )


def _measured(counts: NDArray[np.int64], values: Sequence[str | None]) -> dict[str, Any]:
    """The measures that follow from the counts alone."""
    ell, order = measures.diversity(counts) or 0, _rising(values)
    return {
        "records": int(counts.sum()),
        "classes": len(counts),
        "ell": ell,
        "entropy_ell": float(measures.entropy_diversities(counts).min()),
        "recursive_c": float(measures.recursive_c(counts, ell).max()),
        "t": measures.t_closeness(counts) or 0.0,
        "t_ordered": None if order is None else measures.t_closeness(counts[:, order], ordered=True),
        "beta": measures.beta_likeness(counts) or 0.0,
        "delta_disclosure": measures.delta_disclosure(counts) or 0.0,
        "best_guess": float(measures.largest_shares(counts).max()),
        "lacking": int((counts == 0).any(axis=1).sum()),
        "codes": codes_among([value for value in values if value is not None]),
    }


def _fewest_groups(counts: NDArray[np.int64], values: Sequence[str | None], groups: HierarchyRows) -> int:
    """The fewest groups of like values in any class."""
    leaves = groups.checked().rows
    texts = {*(value for value in values if value is not None), *(row[0] for row in leaves)}
    spelling_of = one_spelling(texts)
    group_of = {spelling_of[row[0]]: row[1] for row in leaves}
    strangers = sum(spelling_of[value or ""] not in group_of for value in values)
    if strangers:
        raise DataError(
            "Some sensitive values are in no group.",
            found=f"{strangers} of {counted(len(values), 'value')} do not stand in the hierarchy.",
            remedy="Add a line for each of them: value;group;...;root.",
        )
    numbers = {name: number for number, name in enumerate(dict.fromkeys(group_of.values()))}
    value_groups = [numbers[group_of[spelling_of[value or ""]]] for value in values]
    return int(measures.class_diversities(counts, np.array(value_groups, dtype=np.int64)).min())


class _Persons:
    """A table in which every person has one record per class and value, and how many persons there are."""

    def __init__(
        self, table: Table, names: Sequence[str], sensitive: str, person: str, missing: Sequence[str]
    ) -> None:
        table.check_all_read()
        who, kind = person_key(table, person), table.kind_of(sensitive)
        value = sql.identifier(sensitive)
        # One spelling per value, as values are read later: otherwise a person could count twice.
        trimmed = sql.trimmed(value) if kind == "text" else value
        classes = [(sql.identifier(name), name) for name in names]
        shown = sql.present(trimmed, kind, missing)
        columns = (*classes, (shown, sensitive), (who, person))
        kinds = tuple(column for column in table.columns if column.name in (*names, sensitive, person))
        self.table = replace(
            table, relation=sql.distinct_rows(table.relation, columns), columns=kinds, n_rows=None
        )
        of_class = sql.distinct_rows(table.relation, [*classes, (who, person)], shown)
        everybody = sql.distinct_rows(table.relation, [(who, person)], shown)
        by_class = replace(self.table, relation=of_class)
        totals = [batch.column(len(names)).to_pylist() for batch in by_class.count_texts(names)]
        self.fewest = min((n for part in totals for n in part), default=0)
        row = Profiler(table, person, ()).one_row(sql.distinct(everybody, person))
        self.total = int(row["n_distinct"])
        if row["n"] > self.total:
            raise DataError(
                f"Some records have no value in the column {person!r}, which tells persons apart.",
                remedy="Leave these records out, or give each of them a value.",
            )


def _rising(values: Sequence[str | None]) -> list[int] | None:
    """The places of sensitive values in the order of their numbers; None if one of them is no number."""
    try:
        numbers = [float(value or "none") for value in values]
    except ValueError:
        return None
    return np.argsort(numbers, kind="stable").tolist() if np.isfinite(numbers).all() else None
