"""The chance that not even all classes together pass: when a plan whose classes move has to refuse.

A union of classes passes if it shows enough of the witnesses of every class in it. All that a plan tells of a
value is its probability in the classes that have it as a witness; added up, that is at most what it has
overall, which errs on the safe side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import ClosenessBound
from elldelta.core.occupancy import class_failures_upper
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from elldelta.core.generalize.bounds import SharpBound
    from elldelta.plan.closeness import Closeness
    from elldelta.plan.columns import ColumnPlan
    from elldelta.plan.wish import Wish


def root_failure_upper(column: ColumnPlan, n_values: int, bound: SharpBound) -> float:
    """Bound on the chance that one of t releases, or of those of all owners, does not pass as a single class.

    Args:
        column: What the plan promises of a column; only its witnesses and their cells matter.
        n_values: The number of values of the column.
        bound: What the plan promises of values, checked by owners or by a ledger.
    """
    if not column.promises_values:
        return 0.0
    offsets, sizes, values = column.witnesses.offsets, column.witnesses.counts, column.witnesses.values
    overall = np.bincount(values, column.witness_cells, n_values)
    failures = []
    for size in np.unique(sizes).tolist():
        starts = offsets[:-1][sizes == size]
        witnesses = np.sort(values[starts[:, np.newaxis] + np.arange(size)], axis=1)
        shares = overall[np.unique(witnesses, axis=0)]  # classes with the same witnesses fail together
        ell, releases = bound.ell, bound.releases
        if bound.checked_by == "owner":  # given witnesses, of which a release may miss the allowance
            ell, releases = size - (size - ell) // releases, 1
        found = class_failures_upper(shares, ell, bound.n_records, releases, checked_by=bound.checked_by)
        failures.append(found.failures_upper)
    return bound.total(np.concatenate(failures))


def root_distance_risk(near: Closeness, past: JointDistribution, wish: Wish, n_records: int) -> float:
    """The estimated chance that all classes together are too far from the reference of any of them.

    Args:
        near: The references.
        past: The past records by class and value.
        wish: What is asked for.
        n_records: The records of a release.

    Raises:
        RefusedError: It is more than a release may be refused with.
    """
    rows = np.unique(near.shares, axis=0)
    whole = JointDistribution(np.repeat(past.value_marginal[np.newaxis], len(rows), axis=0), 1.0)
    bound = ClosenessBound(float(near.exact_limit / wish.n_linked), n_past=past.total)
    risk = min(1.0, float(bound.chances(whole, n_records, rows).sum()))
    if risk > wish.delta:
        raise RefusedError(
            "Classes that move up must stay close to the reference of every class that they hold, and all of "
            "them together would not.",
            found="A release whose classes have moved up that far is refused with a chance of about "
            f"{risk:.2g}; {wish.delta:g} is allowed.",
            remedy="Leave the merge risk out: fixed classes. Or compare with everybody, or allow a larger "
            "closeness.",
            parameter=("merge_risk", "closeness_to", "closeness"),
        )
    return risk


def failing_root(delta: float) -> RefusedError:
    """The refusal of a plan whose classes together do not show enough values often enough."""
    return RefusedError(
        "No classes were found of which all together pass often enough.",
        found=f"By what a plan may tell of past counts, more than {delta:g} of releases would be refused.",
        remedy="Wait for more records, allow a larger delta, or leave the merge risk out.",
    )
