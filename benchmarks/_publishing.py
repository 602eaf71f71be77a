"""What owners publish under a plan, from tables of counts by the plan's classes: for benchmarks of loss."""

from dataclasses import dataclass

import numpy as np

from elldelta.core.certificate import certify
from elldelta.core.moving import RHO, Q, move_up
from elldelta.core.partition import hulls_by_group
from elldelta.core.promises import Shown
from elldelta.core.utility import information_loss, spans_of_hulls


def draw_heights(rng, n_leaves, rho=RHO, q=Q):
    """Heights of decoys from a generator; owners draw theirs from a secret (`decoy_heights`)."""
    return np.where(rng.random(n_leaves) < rho, rng.geometric(1 - q, n_leaves), 0)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an owner publishes, and what it loses.

    Attributes:
        shown: What is published; its certificate holds.
        loss: Its information loss.
        left_out: The share of records that is left out.
    """

    shown: Shown
    loss: float
    left_out: float

    @property
    def grouping(self):
        return self.shown.grouping


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
    n_left_out = int(base.sum() - shown.counts.sum())
    return Fitted(shown, loss_of(made, shown, n_left_out), n_left_out / max(1, base.sum()))


def loss_of(made, shown, n_left_out):
    """The information loss of what is published under a plan."""
    spans = spans_of_hulls(*hulls_by_group(shown.grouping.class_of, *made.hulls), made.seen)
    return information_loss(shown.counts.sum(axis=1), spans, n_left_out)
