"""Inferring a schema from a table: a proposal that a person checks and edits.

Nothing is guessed to be harmless: only columns that somebody names get a role, the rest are dropped and
listed.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from elldelta.engines import sql
from elldelta.errors import Note, ParameterError, SchemaError, counted
from elldelta.schema.column import check_name
from elldelta.schema.composite import first_parts, is_composite, with_composites, with_parts
from elldelta.schema.domains import Bins, Categories, Dates, Domain, Integers
from elldelta.schema.hierarchy import HierarchyRows
from elldelta.schema.labels import EVERYTHING, missing_tokens, shows_nothing
from elldelta.schema.profile import DEFAULT_BINS, Profile, Profiler
from elldelta.schema.repeated import repeated_people
from elldelta.schema.schema import Column, NullPolicy, Schema
from elldelta.schema.weight import propose_weight

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elldelta.engines import Progress, Table

MOST_CATEGORIES = 10_000
_OPEN_ENDED = 20
"""Whole numbers with more positions than this have no natural end: the next owner may hold a larger one."""
_OLDEST = 120
_FEW_VALUES = 100
"""Up to so many different numbers of a sensitive column can well be shown one by one."""
_BIRTHDAYS = "changes every birthday, so the promise would not carry over to later releases."
_INSTEAD_OF_AGE = "Use a column with the year of birth instead, or declare that it changes."


@dataclass(frozen=True)
class Proposal:
    """A schema that a person should look at, and what to look at.

    Attributes:
        schema: The schema.
        profiles: What each counted column holds, the sensitive ones last.
        warnings: What may be wrong; what endangers people comes first.
    """

    schema: Schema
    profiles: tuple[Profile, ...]
    warnings: tuple[Note, ...]


def propose(
    table: Table,
    quasi_identifiers: Sequence[str],
    sensitive: str | Sequence[str],
    *,
    bins: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, HierarchyRows] | None = None,
    na: Mapping[str, Sequence[str]] | None = None,
    not_na: Mapping[str, Sequence[str]] | None = None,
    widen: Mapping[str, str] | None = None,
    changes: Sequence[str] = (),
    weight: str | None = None,
    most_categories: int = MOST_CATEGORIES,
    progress: Progress | None = None,
) -> Proposal:
    """Proposes a schema for a table.

    Whole numbers become integers, dates dates, other numbers bins, texts categories: in their order if they
    are codes of digits (postal codes), otherwise by falling frequency. Missing values get a category of their
    own in a quasi-identifier and are suppressed in the sensitive column, where "unknown" protects nobody;
    where none were seen they are refused. More than 20 different whole numbers in the sensitive column are
    put into bins, which releases show in their place.

    Args: as in `Schema.infer`, and
        table: The table.
        most_categories: More distinct texts than this are refused: they are hardly categories.

    Raises:
        DataError: A column is missing.
        SchemaError: A column has no value, too many different texts, or a hierarchy that does not fit.
    """
    entries = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    if isinstance(quasi_identifiers, str) or not entries or any(type(e) is not str for e in entries):
        raise ParameterError(
            "Quasi-identifiers are a list of columns, and sensitive columns are given by their names.",
            found=f"They are of type {type(quasi_identifiers).__name__} and {type(sensitive).__name__}.",
            remedy='Give a list of names, such as ["age", "sex"], and one name or a list.',
        )
    bins, hierarchies, widen = dict(bins or {}), dict(hierarchies or {}), dict(widen or {})
    na, not_na = dict(na or {}), dict(not_na or {})
    names = (*quasi_identifiers, *entries)
    tokens_of = {name: missing_tokens(na.get(name, ()), not_na.get(name, ())) for name in names}
    table = with_composites(table, {name: tokens_of[name] for name in entries})
    weights = () if weight is None else (weight,)
    for name in weights:
        check_name(name)
    table.require((*names, *weights))
    for given, what in ((bins, "bins"), (na, "missing values"), (not_na, "values"), (widen, "ends")):
        _check_known(given, names, f"A column without a role has {what}.", what)
    changing = dict.fromkeys(changes)
    _check_known(changing, quasi_identifiers, "Only quasi-identifiers change for somebody.", "changes")
    _check_known(hierarchies, names, "A hierarchy is given for a column without a role.", "hierarchy")
    for rows in hierarchies.values():
        rows.checked()  # what is wrong without looking at the table is told before it is read
    columns, profiles, warnings = [], [], list[Note]()
    for place, name in enumerate(names):
        is_sensitive = place >= len(quasi_identifiers)
        tokens = tokens_of[name]
        profiler = Profiler(table, name, tokens)
        profile = profiler.profile(bins.get(name), most_categories)
        if is_sensitive and name not in bins and _is_amount(profile):
            # 30,000 and 30,001 are no two values that protect anybody, and exact amounts can name people.
            in_bins = profiler.profile(DEFAULT_BINS, most_categories)
            profile = replace(in_bins, codes=profile.codes, notes=(_in_bins(name, in_bins),))
        if is_sensitive and isinstance(profile.domain, Categories):
            _check_seen(name, profile.domain, tokens)
        found_here = list(profile.warnings(name, is_sensitive=is_sensitive))
        if is_sensitive and name not in bins and isinstance(profile.domain, Bins):
            found_here.append(_in_bins(name, profile, f"{name}: "))
        if _is_age(name, profile.domain) and not is_sensitive and name not in changes:
            found_here.append(Note(f"{name} {_BIRTHDAYS}", _INSTEAD_OF_AGE, parameter="changes", value=name))
        rule = widen.get(name, _ends_of(hierarchies.get(name), bins.get(name), profile.domain))
        profile = _widened(profile, name, rule, is_sensitive=is_sensitive)
        column = _column(profile, name, tokens, [note.text for note in found_here], is_sensitive=is_sensitive)
        column = replace(column, changes=name in changes)
        columns.append(_with_hierarchy(column, hierarchies.get(name), is_sensitive=is_sensitive))
        profiles.append(_grouped_by(profile, hierarchies.get(name)))
        warnings = [*found_here, *warnings] if is_sensitive else [*warnings, *found_here]
        if progress:
            progress((place + 1) / len(names))
    table.check_read(profiles[0].n_rows)
    first = len(quasi_identifiers)
    proposed, remarks = propose_weight(table, weight)
    schema = Schema(
        tuple(columns[:first]),
        columns[first],
        _dropped(table, (*quasi_identifiers, *with_parts(entries), *weights)),
        also_sensitive=tuple(columns[first + 1 :]),
        weight=proposed,
    )
    people = repeated_people(table, (*names, *weights))
    return Proposal(schema, tuple(profiles), (*warnings, *remarks, *people))


def _grouped_by(profile: Profile, rows: HierarchyRows | None) -> Profile:
    """The profile of a column, which says that its values are grouped instead of how they could be."""
    if rows is None:
        return profile
    notes = (Note(note.text) if note.parameter == "hierarchies" else note for note in profile.notes)
    source = f"{rows.source[0].lower()}{rows.source[1:]}"
    return replace(
        profile, notes=(*notes, Note(f"Grouped by {source}, {counted(len(rows.rows[0]), 'level')}."))
    )


def _with_hierarchy(column: Column, rows: HierarchyRows | None, *, is_sensitive: bool) -> Column:
    """The column with its hierarchy; a composite sensitive column has that of its first parts."""
    domain = column.domain
    if rows is None and is_sensitive and is_composite(column.name) and isinstance(domain, Categories):
        groups = zip(domain.values, first_parts(column.name, domain.values), strict=True)
        rows = HierarchyRows(tuple((value, group, EVERYTHING) for value, group in groups))
    # Nobody has read the proposed values yet: one may be a slip with a person's name in it.
    return column if rows is None else replace(column, hierarchy=rows.checked(domain, naming=False))


def _check_seen(name: str, domain: Categories, tokens: tuple[str, ...]) -> None:
    """Refuses sensitive values that look like none: they would count as diversity."""
    unseen = [value for value in domain.values if shows_nothing(value, tokens)]
    if unseen:
        raise SchemaError(
            f"The sensitive column {name!r} has values that look like missing ones.",
            found=f"{len(unseen)} of {counted(domain.size, 'value')} show nothing, or only what "
            "stands for none.",
            remedy="Leave such cells empty, or name the text as one for a missing value.",
            parameter="na",
        )


def _column(
    profile: Profile, name: str, tokens: tuple[str, ...], warnings: Sequence[str], *, is_sensitive: bool
) -> Column:
    """A column as it is proposed; its note says what was found."""
    policy: NullPolicy = "refuse"
    if profile.n_missing:
        policy = "suppress" if is_sensitive else "category"
    note = [
        f"{counted(profile.n_rows, 'record')}, {profile.n_missing} without a value, "
        f"{counted(profile.n_distinct, 'different value')}, {counted(profile.domain.size, 'position')}",
        *map(str, profile.notes),
    ]
    if policy == "suppress":
        note.append("records without a value are left out: as a category they would count as diversity")
    return Column(name, profile.domain, policy, "\n".join((*note, *warnings)), missing=tokens)


def _check_known(given: Mapping[str, object], known: Sequence[str], problem: str, what: str) -> None:
    strangers = [name for name in given if name not in known]
    if strangers:
        raise ParameterError(
            problem,
            found=f"The column is {strangers[0]!r}.",
            remedy=f"Give the column a role, or leave its {what} out.",
        )


def _dropped(table: Table, used: Sequence[str]) -> tuple[str, ...]:
    """The columns that are there and not used; names that differ in upper and lower case only are one."""
    found: dict[str, str] = {}
    for name in (*table.names, *sorted(table.partial | table.hidden)):
        if sql.is_name(name):
            found.setdefault(name.casefold(), name)
    for name in used:
        found.pop(name.casefold(), None)
    return tuple(found.values())


def _widened(profile: Profile, name: str, rule: str | None, *, is_sensitive: bool) -> Profile:
    """A profile whose domain also holds what the next owner may have."""
    if rule == "no":
        return profile
    domain = profile.domain
    wider = (
        _usual_ends(domain, name, is_sensitive=is_sensitive)
        if rule is None
        else _chosen_ends(domain, name, rule)
    )
    if wider == domain:
        return profile
    seen = domain.label(0, domain.size - 1)
    note = Note(f"{seen} was seen; other owners may have more.", parameter="widen", value=f"{name}=no")
    return replace(profile, domain=wider, notes=(*profile.notes, note))


def _ends_of(rows: HierarchyRows | None, bins: str | None, domain: Domain) -> str | None:
    """The rule that a hierarchy or bins imply; a hierarchy says how far numbers go. None: the usual ends."""
    if rows is not None and isinstance(domain, Integers):
        leaves = {int(row[0]) for row in rows.rows if re.fullmatch("-?[0-9]{1,18}", str(row[0]))}
        if leaves.issuperset((domain.low, domain.high)) and max(leaves) - min(leaves) == len(leaves) - 1:
            return f"{min(leaves)}..{max(leaves)}"
    return "no" if rows is not None or not (bins or "quantile").startswith("quantile") else None


def _usual_ends(domain: Domain, name: str, *, is_sensitive: bool) -> Domain:
    if isinstance(domain, Bins):  # no position more: only the outer bins grow
        low, high = _rounded(domain.edges[0], domain.edges[-1], 1.0)
        return Bins((low, *domain.edges[1:-1], high))
    if not isinstance(domain, Integers) or is_sensitive:
        return domain
    if _is_age(name, domain):
        return Integers(0, _OLDEST)
    # Codes and years have a fixed number of digits: they are no amounts that could be a little larger.
    if domain.size <= _OPEN_ENDED or len(str(domain.low)) == len(str(domain.high)) >= 4:
        return domain
    low, high = _rounded(domain.low, domain.high, 0.25)
    return Integers(int(low), int(high))


def _is_amount(profile: Profile) -> bool:
    """Whether a column holds so many different whole numbers that they are no kinds of things."""
    return isinstance(profile.domain, Integers) and profile.n_distinct > _OPEN_ENDED


def _in_bins(name: str, profile: Profile, begin: str = "") -> Note:
    """What to say of sensitive numbers that were put into bins."""
    return Note(
        f"{begin}{counted(profile.n_distinct, 'different number')} in {counted(profile.domain.size, 'bin')} "
        f"made by {DEFAULT_BINS}; releases show the bin, not the number.",
        parameter="bins",
        value=f"{name}=values" if profile.n_distinct <= _FEW_VALUES else f"{name}=edges:...",
    )


def _is_age(name: str, domain: Domain) -> bool:
    """Whether a column seems to hold ages in years."""
    is_called_so = "age" in re.findall("[a-z]+", name.casefold())
    return is_called_so and isinstance(domain, Integers) and domain.low >= 0 and domain.high <= _OLDEST


def _rounded(low: float, high: float, share: float) -> tuple[float, float]:
    """Ends further out by a share of the range, and round; what is never negative stays so."""
    if not 1e-300 < high - low < 1e300:
        return low, high  # numbers end there, and could not be rounded
    step = 10.0 ** math.floor(math.log10(high - low))
    ends = [
        math.floor((low - share * (high - low)) / step) * step,
        math.ceil((high + share * (high - low)) / step) * step,
    ]
    return max(ends[0], 0.0) if low >= 0 else ends[0], min(ends[1], 0.0) if high <= 0 else ends[1]


def _chosen_ends(domain: Domain, name: str, rule: str) -> Domain:
    """The domain with the ends that somebody names."""
    ends = [end.strip() for end in rule.split("..")]
    wider: Domain | None = None
    try:
        if len(ends) == 2 and isinstance(domain, Integers):
            wider = Integers(min(int(ends[0]), domain.low), max(int(ends[1]), domain.high))
        elif len(ends) == 2 and isinstance(domain, Dates):
            days = [dt.date.fromisoformat(end) for end in ends]
            wider = Dates(min(days[0], domain.low), max(days[1], domain.high), domain.unit)
        elif len(ends) == 2 and isinstance(domain, Bins):
            edges = domain.edges
            low, high = min(float(ends[0]), edges[0]), max(float(ends[1]), edges[-1])
            wider = Bins((low, *edges[1:-1], high))
    except (ValueError, SchemaError):
        pass
    if wider is None:
        raise ParameterError(
            f"The ends of column {name!r} cannot be understood.",
            found="They are no two numbers or dates, or the column holds neither.",
            remedy='Write "0..120", "1900-01-01..2030-12-31", or "no" for what was seen.',
        )
    return wider
