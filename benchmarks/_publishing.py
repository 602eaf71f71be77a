"""What owners publish under a plan, from tables of counts by the plan's classes: for benchmarks of loss."""

from dataclasses import dataclass

import numpy as np

from elldelta.core.moving import RHO, Q, move_up
from elldelta.core.promises import Shown, certify
from elldelta.core.utility import HullLoss


def draw_heights(rng, n_leaves, rho=RHO, q=Q):
    """Heights of decoys from a generator; owners draw theirs from a secret (`decoy_heights`)."""
    return np.where(rng.random(n_leaves) < rho, rng.geometric(1 - q, n_leaves), 0)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an owner publishes, and what it loses.

    Attributes:
        shown: What is published; its certificate holds.
        ncp: Mean loss of what is published, over the owner's own records.
        left_out: The share of records that is left out.
    """

    shown: Shown
    ncp: float
    left_out: float

    @property
    def grouping(self):
        return self.shown.grouping

    @property
    def loss(self):
        return self.ncp * (1.0 - self.left_out) + self.left_out


def by_class(made, model, table):
    """An owner's records by class of the plan and value; the table is by combination of the model."""
    base = np.zeros((made.n_classes, table.shape[1]), dtype=np.int64)
    np.add.at(base, made.class_of(model.ranks), table)
    return base


def publish(made, base, promises=None, *, seed=0, rho=None):
    """Publishes a table: classes move up if the plan says so, else those that fail are left out.

    Another rho than the plan's says what decoys cost.
    """
    promises = made.promises if promises is None else promises

    def failing(grouping=None):
        return certify(promises, Shown.of(base, grouping)).failing_groups

    if made.moving is None:
        shown = Shown.of(base, None, failing())
    else:
        rho = made.moving.rho if rho is None else rho
        heights = draw_heights(np.random.default_rng(seed), made.n_classes, rho, made.moving.q)
        shown = Shown.of(base, move_up(made.classes.tree, heights, lambda each: ~failing(each)))
    assert certify(promises, shown).is_certified
    hulls, mass = made.hull_loss, base.sum(axis=1).astype(float)
    loss = HullLoss(hulls.lows, hulls.highs, hulls.sizes, mass)
    left_out = (base.sum() - shown.counts.sum()) / max(1.0, mass.sum())
    return Fitted(shown, loss.ncp(shown.grouping, shown.left_out), left_out)
