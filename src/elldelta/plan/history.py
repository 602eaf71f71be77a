"""Plans whose promise allows for a finite history: the past records are a sample, not the distribution.

The history is split at random. One half proposes classes, from coarse to fine; the other half, which knows
nothing of them, says how small their cells may be (Clopper and Pearson). See docs/theory/noise.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution
from elldelta.errors import RefusedError
from elldelta.model import Accounting, Counts, Model
from elldelta.plan.planner import Planner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.plan.plan import Plan

CANDIDATES = tuple(2.0 ** (-step / 2.0) for step in range(16, -1, -1))
"""Shares of the records that candidates are made for, rising: with fewer records classes are larger."""


class HistoryPlanner(Planner):
    """A planner of probabilistic plans that hold for the true distribution, with some confidence."""

    def _sharp(self, n_records: int) -> Plan:
        """The finest candidate that passes before one does not: so many may be tried at no cost."""
        confidence = self.wish.history_confidence
        if confidence is None:
            return super()._sharp(n_records)
        if self.model.accounting.n_repeated:
            raise RefusedError(
                "A confidence needs past records that are independent of each other.",
                found="People have several records in this model.",
                remedy="Ask for a certified plan, or estimate from one record per person.",
            )
        if self.model.schema.also_sensitive:
            raise RefusedError(
                "A confidence in the history is computed for one sensitive column.",
                found=f"The schema has {len(self.model.schema.sensitives)}.",
                remedy="Ask for a certified plan, which needs none.",
            )
        learned, tested = split(self.model, np.random.default_rng(0))
        learner = Planner(learned, self.wish, is_draft=self.is_draft, progress=self.progress)
        whole, found = self._column_bound(n_records), None
        for share in CANDIDATES:
            planned_for = max(1, round(share * n_records))
            try:
                _, classes = learner.classes(self._bound(n_records).with_records(planned_for))
            except RefusedError:  # not even one class for everybody, with so few records
                continue
            if found is not None and classes.n_classes <= found[0].n_classes:
                continue
            counts = tested.counts.by_class(classes.class_of(tested.schema, tested.ranks), classes.n_classes)
            # Every candidate pays its share: which of them is chosen then costs nothing.
            lower = cells_lower(counts, tested.n_records, (1.0 - confidence) / len(CANDIDATES))
            masses = JointDistribution(lower, 1.0)
            sharp = whole.evaluate(masses)
            if sharp.failure_upper > self.wish.budget:
                break
            found = classes, masses, sharp
        if found is None:
            raise RefusedError(
                "The past records are too few for such a plan.",
                found=f"With a confidence of {confidence:g}, {self.model.n_records} past records do not show "
                "that a single class for everybody keeps the promise.",
                remedy="Estimate from more records, ask for more records of every owner, for a smaller ell, "
                "or for a certified plan, which needs no confidence.",
            )
        classes, masses, sharp = found
        return self._finished("sharp", n_records, classes, masses, sharp.witnesses, sharp.failure_upper, None)


def split(model: Model, random: np.random.Generator) -> tuple[Model, Model]:
    """Two models: a coin for every past record says in which one it is, so they are independent."""
    counts = model.counts
    first = random.binomial(counts.n, 0.5)
    halves = []
    for n in (first, counts.n - first):
        is_there, total = n > 0, int(n.sum())
        cells = (counts.ranks[counts.rows][is_there], counts.values[is_there], n[is_there])
        halves.append(Model(Counts.from_cells(model.schema, *cells, Accounting(total, total))))
    return halves[0], halves[1]


def cells_lower(counts: NDArray[np.int64], n_records: int, alpha: float) -> NDArray[np.float64]:
    """Lower bounds on P(c, s) of all cells, which hold together with probability 1 - alpha. Errs downwards.

    One-sided bounds of Clopper and Pearson, each at alpha divided by the number of cells.
    """
    from scipy.stats import beta

    lower = beta.ppf(alpha / counts.size, np.maximum(counts, 1), n_records - np.maximum(counts, 1) + 1)
    return np.where(counts > 0, lower * (1.0 - 1e-9), 0.0)
