"""What an error in P costs: total variation eta between the P used for planning and the true one.

Total variation eta means that cells where the planned P is too large exceed the true one by at most eta
*in total*. The paper's mechanism pays cell by cell, as if every cell were wrong by eta; the sharp bound
pays once, because the worst case puts the whole error into one class (`docs/theory/sharper.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_eta

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def cellwise_lower(probabilities: ArrayLike, eta: float) -> NDArray[np.float64]:
    """max(0, P - eta) for every cell: no true cell is smaller (the paper's remark). Errs downwards."""
    return np.maximum(0.0, np.asarray(probabilities, dtype=np.float64) - check_eta(eta))


def total_failure_upper(failures_upper: ArrayLike, peaks: ArrayLike, n_records: int, eta: float) -> float:
    """Upper bound on the summed failure of all classes when P is off by at most eta; pays once.

    sum_c f_c + max_c f_c (exp(N eta / (1 - peak_c)) - 1), for the witnesses and allowances that gave f_c.

    Args:
        failures_upper: f_c of every class, computed with the P at hand.
        peaks: The largest P(c, s) of every class.
        n_records: N.
        eta: Total variation between the P at hand and the true one.
    """
    failures = np.asarray(failures_upper, dtype=np.float64)
    total = float(failures.sum())
    if check_eta(eta) == 0.0:
        return total
    with np.errstate(over="ignore", divide="ignore"):
        growth = np.expm1(n_records * eta / np.maximum(0.0, 1.0 - np.asarray(peaks, dtype=np.float64)))
    return total + float((failures * growth).max()) * (1.0 + 1e-9)
