"""What owners publish under a plan, from tables of counts by the plan's classes: for benchmarks of loss."""

from dataclasses import dataclass

import numpy as np

from elldelta.core.moving import RHO, Q, move_up
from elldelta.core.several import AnyCertificate, certify
from elldelta.core.utility import HullLoss


def draw_heights(rng, n_leaves, rho=RHO, q=Q):
    """Heights of decoys from a generator; owners draw theirs from a secret (`decoy_heights`)."""
    return np.where(rng.random(n_leaves) < rho, rng.geometric(1 - q, n_leaves), 0)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an owner publishes, and what it loses.

    Attributes:
        certificate: Of what is published; it holds.
        ncp: Mean loss of what is published, over the owner's own records.
        left_out: The share of records that is left out.
    """

    certificate: AnyCertificate
    ncp: float
    left_out: float

    @property
    def grouping(self):
        return self.certificate.grouping

    @property
    def loss(self):
        return self.ncp * (1.0 - self.left_out) + self.left_out


def by_class(made, model, table):
    """An owner's records by class of the plan and value; the table is by combination of the model."""
    base = np.zeros((made.n_classes, table.shape[1]), dtype=np.int64)
    np.add.at(base, made.class_of(model.ranks), table)
    return base


def publish(made, base, terms=None, *, seed=0, rho=None):
    """Publishes a table: classes move up if the plan says so, else those that fail are left out.

    Another rho than the plan's says what decoys cost.
    """
    terms = made.all_terms if terms is None else terms
    if made.moving is None:
        certificate = certify(base, terms)
        certificate = certify(base, terms, None, certificate.failing_groups)
    else:
        rho = made.moving.rho if rho is None else rho
        heights = draw_heights(np.random.default_rng(seed), made.n_classes, rho, made.moving.q)
        grouping = move_up(
            made.classes.tree, heights, lambda each: ~certify(base, terms, each).failing_groups
        )
        certificate = certify(base, terms, grouping)
    assert certificate.is_certified
    hulls, mass = made.hull_loss, base.sum(axis=1).astype(float)
    own = HullLoss(hulls.lows, hulls.highs, hulls.sizes, mass)
    left_out = certificate.n_suppressed / max(1.0, mass.sum())
    return Fitted(certificate, own.ncp(certificate.grouping, certificate.suppressed), left_out)
