"""What knowing the algorithm adds: minimality and downcoding attacks on merged classes.

An owner merges base classes only where one of them does not pass by itself. Whoever knows the plan knows that
at least one of the base classes in a merged class fails, and can leave out every explanation of the merged
class in which none does.

* Minimality (Wong et al. 2007): the attacker knows everybody's quasi-identifiers, and so how many records
  every base class has. What value does somebody in base class c have? Without the algorithm every record of
  the merged class is equally likely to be theirs.
* Downcoding (Cohen 2022): the attacker knows nobody. From which base class does a record of value s come?
  Without the algorithm that is P(c | s), as the history tells it.

Both are computed by drawing explanations at random and keeping those that fit.
"""

import numpy as np

from benchmarks._arena_methods import LEAST_OWNER
from elldelta.core.certificate import certify
from elldelta.errors import RefusedError
from elldelta.plan.planner import plan
from elldelta.release.publishable import publishable

N_EXPLANATIONS = 400
SURE = 0.95
"""A belief of which one says that the attacker knows."""


def knowing_the_algorithm(drawn, seed):
    """What both attacks find in the release of the smallest owner; nothing if nothing is merged."""
    source = drawn.source
    own = source.counts(drawn.owner(LEAST_OWNER))
    try:
        made = plan(
            source.model(drawn.history), ell=source.ell, releases=drawn.is_in.shape[1], records=drawn.fewest
        )
        coarsening = publishable(own, made, on_failure="coarsen-suppress").coarsening
    except RefusedError:
        return
    terms, group_of = made.terms, coarsening.grouping.class_of
    table = own.by_class(made.class_of(own.ranks), made.n_classes)
    history = source.model(drawn.history).counts
    mass = history.by_class(made.class_of(history.ranks), made.n_classes) + 0.1
    rng = np.random.default_rng(seed)
    found = []
    for group in np.flatnonzero(np.bincount(group_of) > 1):
        members = np.flatnonzero((group_of == group) & table.any(axis=1))
        if len(members) < 2 or coarsening.suppressed[group]:
            continue
        lacks = Lacks(terms.membership[members], terms.allowances[members], terms.min_records)
        assert lacks(table[members][None])[0] == certify(table, terms).fails[members].any()
        found.append(
            {
                **minimality(table[members], lacks, source.ell, rng),
                **downcoding(table[members], mass[members], lacks, rng),
            }
        )
    n_merged = sum(each["records"] for each in found)
    if n_merged:
        total = {name: sum(each[name] for each in found) / n_merged for name in found[0] if name != "records"}
        total["fewest"] = min(each["fewest"] for each in found)
        yield {"merged": n_merged / own.n_records, **total}


class Lacks:
    """Whether some base class with a record misses more of its witnesses than it may."""

    def __init__(self, membership, allowances, min_records=1):
        self.membership = membership
        self.allowances = allowances
        self.min_records = min_records

    def __call__(self, tables):
        """One answer per table; tables x classes x values."""
        missed = (self.membership & (tables < self.min_records)).sum(axis=2)
        return ((missed > self.allowances) & tables.any(axis=2)).any(axis=1)


def minimality(table, lacks, ell, rng, n=N_EXPLANATIONS):
    """How many records' values are guessed right without and with the algorithm, and how many values stay."""
    sizes, totals = table.sum(axis=1), table.sum(axis=0)
    values = np.repeat(np.arange(len(totals)), totals)
    shuffled = rng.permuted(np.tile(values, (n, 1)), axis=1)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    drawn = np.zeros((n, *table.shape), dtype=np.int64)
    np.add.at(drawn, (np.arange(n)[:, None], classes[None, :], shuffled), 1)
    plain = np.tile(totals / totals.sum(), (len(sizes), 1))
    fitting = drawn[lacks(drawn)]
    knowing = fitting.mean(axis=0) / sizes[:, None] if len(fitting) else plain
    left = (fitting > 0).any(axis=0).sum(axis=1) if len(fitting) else np.full(len(sizes), (totals > 0).sum())
    return {
        "records": int(sizes.sum()),
        "value_plain": _right(plain, table),
        "value_knowing": _right(knowing, table),
        "belief_gain": float((sizes * (knowing - plain).max(axis=1)).sum()),
        "below": float(sizes[left < ell].sum()),
        "fewest": int(left.min()),
    }


def downcoding(table, mass, lacks, rng, n=N_EXPLANATIONS):
    """How many records' base classes are guessed without and with the algorithm, and how many surely."""
    plain = mass / mass.sum(axis=0)
    drawn = np.stack(
        [rng.multinomial(total, plain[:, s], size=n) for s, total in enumerate(table.sum(axis=0))]
    )
    drawn = drawn.transpose(1, 2, 0)
    fitting = drawn[lacks(drawn)]
    totals = np.maximum(1, table.sum(axis=0))
    knowing = fitting.mean(axis=0) / totals if len(fitting) else plain
    per_value = table.sum(axis=0)
    return {
        "class_plain": _right(plain.T, table.T),
        "class_knowing": _right(knowing.T, table.T),
        "sure_plain": float(per_value[(plain > SURE).any(axis=0)].sum()),
        "sure_knowing": float(per_value[(knowing > SURE).any(axis=0)].sum()),
    }


def _right(beliefs, table):
    """The records for which the likeliest guess of their row is right; equals are guessed at random."""
    best = np.isclose(beliefs, beliefs.max(axis=1, keepdims=True))
    return float(((table * best).sum(axis=1) / best.sum(axis=1)).sum())
