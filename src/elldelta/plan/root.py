"""The chance that not even all classes together pass: when a plan whose classes move has to refuse.

A union of classes passes if it shows enough of the witnesses of every class in it. All that a plan tells of a
value is its probability in the classes that have it as a witness; added up, that is at most what it has
overall, which errs on the safe side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.occupancy import class_failures_upper

if TYPE_CHECKING:
    from elldelta.core.generalize.bounds import SharpBound
    from elldelta.plan.plan import Plan


def root_failure_upper(plan: Plan, bound: SharpBound) -> float:
    """Bound on the chance that one of t releases, or of those of all owners, does not pass as a single class.

    Args:
        plan: The plan; only its classes' witnesses and their cells matter.
        bound: What the plan promises of values, checked by owners or by a ledger.
    """
    if not plan.promises_values:
        return 0.0
    offsets, values, cells = plan.witness_arrays
    overall = np.bincount(values, cells, plan.schema.n_values)
    sizes = np.diff(offsets)
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
