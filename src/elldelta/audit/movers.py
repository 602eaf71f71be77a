"""People who are looked for where they are in each release: an age that has changed, another town."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.audit.releases import Known
from elldelta.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from elldelta.schema.label_columns import ColumnRules


def in_release(people: pa.Table, columns: Sequence[str], number: int) -> pa.Table:
    """People as they are in one release, counted from 1: there `age@2` stands for `age` in the second."""
    for name in columns:
        own = f"{name}@{number}"
        if own in people.column_names and own not in columns:
            if name in people.column_names:
                people = people.drop_columns([name])
            people = people.rename_columns([name if each == own else each for each in people.column_names])
    return people


def known_in_each(
    people: pa.Table, columns: Sequence[str], rules: Mapping[str, ColumnRules], n_releases: int
) -> tuple[Known, ...]:
    """What is known about people, once for all releases or, if it differs, for each of them."""
    numbers = {f"{name}@{number}": number for name in columns for number in range(1, n_releases + 1)}
    others = [name for name in people.column_names if name not in columns]
    said = [name for name in others if name.rpartition("@")[0] in columns]
    strangers = [name for name in said if name not in numbers]
    if strangers:
        raise DataError(
            f"The column {strangers[0]!r} of the targets names no release.",
            found=f"There are {n_releases} releases.",
            remedy="Write the number of a release after the sign, from 1 in their order.",
        )
    changed = [in_release(people, columns, number + 1) for number in range(n_releases if said else 1)]
    return tuple(Known.from_table(each, columns, rules) for each in changed)
