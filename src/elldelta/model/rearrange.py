"""A model with hierarchies that were given when a plan is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elldelta.model.model import Model, reordered
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.hierarchy_problems import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_hierarchies(model: Model, hierarchies: Mapping[str, HierarchyRows | Hierarchy]) -> Model:
    """The model with hierarchies for some quasi-identifiers, in the order that they ask for.

    Raises:
        SchemaError: Lists everything that is wrong with any of the hierarchies.
    """
    if not hierarchies:
        return model
    written = {
        name: HierarchyRows(given.rows) if isinstance(given, Hierarchy) else given
        for name, given in hierarchies.items()
    }
    schema = model.schema
    found = {name: rows.problems(schema.quasi_identifier(name).domain) for name, rows in written.items()}
    wrong = [name for name, problems in found.items() if problems]
    if wrong:
        problems = [
            replace(each, words=f"Column {name!r}: {each.words}") for name in wrong for each in found[name]
        ]
        unit = "line" if all(written[name].lines for name in wrong) else "row"
        sources = " and ".join(written[name].source for name in wrong)
        raise refusal(f"{sources} cannot be used.", problems, unit)
    columns = tuple(
        replace(column, hierarchy=written[column.name].checked(column.domain))
        if column.name in written
        else column
        for column in schema.quasi_identifiers
    )
    return reordered(model, replace(schema, quasi_identifiers=columns))
