"""How a planner may rearrange a model: by value hierarchies, or by profiles of the sensitive column."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.model.model import Model, reordered
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.hierarchy_problems import refusal
from elldelta.schema.schema import Categories, Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


PSEUDO_RECORDS = 1.0
"""How many records, spread like P_S, are added to every category: the profile of a category with very few
records says little, and is drawn towards that of everybody."""

MOST_OPTIMAL = 400
"""Up to so many categories the leaves of the clustering are ordered optimally; beyond, as they come."""


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


def order_categories(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Orders unordered categories so that similar sensitive profiles are neighbours.

    Only the model decides, no owner's record: every promise about classes made afterwards stays what it is.
    Columns with a hierarchy keep the order of their hierarchy.

    Returns:
        The model in the new order, and the names of the columns that changed.
    """
    columns = tuple(_ordered(model, place) for place in range(len(model.schema.quasi_identifiers)))
    changed = tuple(
        new.name
        for new, old in zip(columns, model.schema.quasi_identifiers, strict=True)
        if new.domain != old.domain
    )
    if not changed:
        return model, ()
    return reordered(model, replace(model.schema, quasi_identifiers=columns)), changed


def order_note(column: str, sensitive: str) -> str:
    """What a plan says about a column whose categories were put into another order."""
    return (
        f"The values of {column!r} stand in an order made from the model: similar distributions of "
        f"{sensitive!r} next to each other."
    )


def _ordered(model: Model, place: int) -> Column:
    column, counts = model.schema.quasi_identifiers[place], model.counts
    if not isinstance(column.domain, Categories) or column.domain.ordered or column.hierarchy is not None:
        return column
    table = np.zeros((column.size, model.schema.n_values), dtype=np.int64)
    np.add.at(table, (counts.positions[counts.rows, place], counts.values), counts.n)
    known = table[: column.domain.size]  # missing values keep their place at the end
    if not known.any():
        return column
    values = column.domain.values
    return replace(column, domain=Categories(tuple(values[index] for index in order_by_profile(known))))


def order_by_profile(table: NDArray[np.int64]) -> NDArray[np.intp]:
    """A permutation of the categories that puts similar P(S | category) next to each other; deterministic.

    Average-linkage clustering of the Hellinger distances between profiles, its leaves ordered so that
    neighbours are as close as the tree allows. Of the two directions the one that begins with the lower
    index is taken.

    Args:
        table: Records by category and sensitive value.

    >>> order_by_profile(np.array([[90, 10], [10, 90], [80, 20], [20, 80]])).tolist()
    [0, 2, 3, 1]
    """
    n_categories = table.shape[0]
    if n_categories < 3:
        return np.arange(n_categories)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import pdist

    smoothed = table + PSEUDO_RECORDS * (table.sum(axis=0) / table.sum())
    roots = np.sqrt(smoothed / smoothed.sum(axis=1, keepdims=True))
    distances = pdist(roots) / np.sqrt(2.0)  # Hellinger: from 0, the same profile, to 1, nothing in common
    tree = linkage(distances, method="average", optimal_ordering=n_categories <= MOST_OPTIMAL)
    order: NDArray[np.intp] = leaves_list(tree).astype(np.intp)
    return order if order[0] < order[-1] else order[::-1].copy()
