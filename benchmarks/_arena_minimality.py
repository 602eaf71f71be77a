"""What knowing the algorithm adds: an attacker who inverts how the published classes were chosen.

The attacker knows the plan and the rule, and draws explanations of a published class: tables that would show
the same counts. Each is weighed by how likely the rule makes the release under it.

* Minimality (Wong et al. 2007): the attacker knows everybody's quasi-identifiers, and so how many records
  every leaf has. What value does somebody in a leaf have? Without the rule every record of the published
  class is equally likely to be theirs.
* Downcoding (Cohen 2022): the attacker knows nobody. From which leaf does a record of value s come? Without
  the rule that is P(leaf | s), as the history tells it.

Three rules for the same owner: fixed classes, and classes that move up the plan's tree, with the decoys of
the plan and without any (which no plan allows: it shows what decoys are for).
"""

from dataclasses import dataclass

import numpy as np

from benchmarks._arena_methods import LEAST_OWNER, MERGE_RISK
from benchmarks._publishing import draw_heights, loss_of
from elldelta.core.certificate import certify
from elldelta.core.moving import RHO, Q, move_up
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown
from elldelta.errors import RefusedError
from elldelta.plan.planner import plan

N_EXPLANATIONS = 400
SURE = 0.95
"""A chance of which one says that the attacker knows."""
OFTEN = 20
"""A value is ruled out for a leaf if so many explanations have it there, and none of weight."""


def knowing_the_algorithm(drawn, seed):
    """What the attacker finds in the release of the smallest owner, one row per rule."""
    source = drawn.source
    own, history = source.counts(drawn.owner(LEAST_OWNER)), source.model(drawn.history)
    wish = {"ell": source.ell, "releases": drawn.is_in.shape[1], "records": drawn.fewest}
    for method, rule, more in RULES:
        try:
            made = plan(history, **wish, **more)
            table = own.by_class(made.class_of(own.ranks), made.n_classes)
            published = rule(made, table, np.random.default_rng((seed, 1)))
        except RefusedError:
            yield {"method": method, "refused": True}
            continue
        mass = history.counts.by_class(made.class_of(history.counts.ranks), made.n_classes) + 0.1
        rng = np.random.default_rng((seed, 2))
        yield {"method": method, **attack(made, table, published, mass, source.ell, rng)}


@dataclass(frozen=True, eq=False)
class Chosen:
    """How an owner's classes were chosen.

    Attributes:
        grouping: The published class of every leaf.
        is_out: Whether a published class is left out.
        weigh: For the leaves of a published class, and those of them that have records, how likely the rule
            makes it under tables of the latter, tables x leaves x values; up to a factor.
    """

    grouping: Partition
    is_out: np.ndarray
    weigh: object


def fixed(made, table, rng):
    """All classes as they are, or nothing."""
    shown = Shown.of(table)
    if not certify(made.promises, shown).is_certified:
        raise RefusedError("Some class does not pass.")
    return Chosen(shown.grouping, shown.left_out, None)


def moving(made, table, rng, rho=RHO):
    """Classes that move up the tree of the plan."""
    tree, promise = made.classes.tree, made.promises[0]
    heights = draw_heights(rng, tree.n_leaves, rho)
    grouping = move_up(tree, heights, lambda each: ~certify([promise], Shown.of(table, each)).failing_groups)

    def weigh(leaves, occupied):
        moved = Moved(tree, promise, leaves, rho)

        def weighed(tables):
            whole = np.zeros((len(tables), len(leaves), tables.shape[2]), dtype=np.int64)
            whole[:, occupied] = tables
            return moved(whole)

        return weighed

    return Chosen(grouping, np.zeros(grouping.n_classes, bool), weigh)


def moving_without_decoys(made, table, rng):
    return moving(made, table, rng, rho=0.0)


RULES = (
    ("fixed classes", fixed, {}),
    ("moving, with decoys", moving, {"merge_risk": MERGE_RISK}),
    ("moving, without decoys", moving_without_decoys, {"merge_risk": MERGE_RISK}),
)


def misses_too_many(tables, membership, allowances, min_records):
    """Whether classes that show these counts miss too many witnesses; tables x ... x values."""
    missed = (membership & (tables < min_records)).sum(axis=-1)
    return (missed > allowances) & tables.any(axis=-1)


class Moved:
    """How likely the leaves below a node are published as that node (Theorem K's factor F), exactly.

    Below a node u let B be that no height leads beyond u, and let S(u) be the chance that B happens and the
    rule ends at u or below. If u passes, that is the chance of B; if not, both of its sides must end below.
    The node itself is published unless both of its sides end below it.
    """

    def __init__(self, tree, promise, leaves, rho, q=Q):
        self.tree, self.promise, self.rho, self.q = tree, promise, rho, q
        starts, stops = tree.leaf_ranges
        self.first = int(leaves[0])
        spans = (starts == self.first) & (stops == int(leaves[-1]) + 1)
        self.top = int(np.flatnonzero(spans)[0])

    def __call__(self, tables):
        """One chance per table; tables x leaves of the node x values."""
        ends_below, sides, stays = self._walk(self.top, tables)
        return ends_below if sides is None else stays - sides

    def _walk(self, node, tables):
        """S of the node, the product of S of its sides (None for a leaf), and the chance of B."""
        start, stop = (int(ends[node]) - self.first for ends in self.tree.leaf_ranges)
        leaves = slice(start + self.first, stop + self.first)
        shown = tables[:, start:stop].sum(axis=1)
        promise = self.promise
        fails = misses_too_many(
            shown[:, None], promise.witnesses[leaves], promise.allowances[leaves], promise.min_records
        ).any(axis=1)
        stays = np.prod([self._at_most(node, leaf) for leaf in self.tree.leaves[leaves].tolist()])
        if stop - start == 1:
            return np.where(fails, 0.0, stays), None, stays
        lower = node + 1
        upper = int(np.flatnonzero(self.tree.parents == node)[-1])
        sides = self._walk(lower, tables)[0] * self._walk(upper, tables)[0]
        return np.where(fails, sides, stays), sides, stays

    def _at_most(self, node, leaf):
        """The chance that a leaf's height does not lead beyond a node above it."""
        steps = 0
        while leaf != node:
            leaf, steps = int(self.tree.parents[leaf]), steps + 1
        return 1.0 if node == 0 else 1.0 - self.rho * self.q**steps


def attack(made, table, chosen, mass, ell, rng):
    """What the attacker finds, as shares of the records that are published.

    *impossible* is the share of explanations that the rule rules out, and *odds* the largest factor by which
    it makes one explanation of a class likelier than another, None if it rules one out.
    """
    group_of = chosen.grouping.class_of
    found, n_merged = [], 0
    for group, leaves in enumerate(chosen.grouping):
        if chosen.is_out[group] or not table[leaves].any():
            continue
        own = table[leaves]
        occupied = own.any(axis=1)
        if occupied.sum() < 2:
            shown = own.sum(axis=0)
            found.append(alone(shown, ell))
            continue
        n_merged += int(own.sum())
        weigh = chosen.weigh(leaves, occupied)
        found.append(
            {
                **minimality(own[occupied], weigh, ell, rng),
                **downcoding(own[occupied], mass[leaves[occupied]], weigh, rng),
            }
        )
    n_records = sum(each["records"] for each in found)
    names = [name for name in found[0] if name not in ("records", "fewest", "odds")]
    total = {name: sum(each[name] for each in found) / n_records for name in names}
    shown = Shown.of(table, chosen.grouping, chosen.is_out)
    return {
        "loss": loss_of(made, shown, int(table.sum()) - n_records),
        "classes": float(np.unique(group_of[table.any(axis=1)]).size),
        "merged": n_merged / n_records,
        "fewest": min(each["fewest"] for each in found),
        "odds": None if None in (odds := [each["odds"] for each in found]) else max(odds),
        **total,
    }


def alone(shown, ell):
    """A class of one leaf: knowing the rule adds nothing."""
    n, right, n_values = int(shown.sum()), float(shown.max()), int(np.count_nonzero(shown))
    return {
        "records": n,
        "value_plain": right,
        "value_knowing": right,
        "belief_gain": 0.0,
        "below": float(n * (n_values < ell)),
        "fewest": n_values,
        "impossible": 0.0,
        "odds": 1.0,
        "class_plain": float(n),
        "class_knowing": float(n),
        "sure_plain": float(n),
        "sure_knowing": float(n),
    }


def minimality(table, weigh, ell, rng, n=N_EXPLANATIONS):
    """How many records' values are guessed right without and with the rule, and how many values stay."""
    sizes, totals = table.sum(axis=1), table.sum(axis=0)
    values = np.repeat(np.arange(len(totals)), totals)
    shuffled = rng.permuted(np.tile(values, (n, 1)), axis=1)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    drawn = np.zeros((n, *table.shape), dtype=np.int64)
    np.add.at(drawn, (np.arange(n)[:, None], classes[None, :], shuffled), 1)
    plain = np.tile(totals / totals.sum(), (len(sizes), 1))
    weights = np.asarray(weigh(drawn), dtype=np.float64)
    fits = weights > 0
    knowing = _mean(drawn, weights) / sizes[:, None] if fits.any() else plain
    often = (drawn > 0).sum(axis=0) >= OFTEN
    ruled_out = often & ~(drawn[fits] > 0).any(axis=0) & fits.any()
    left = ((totals > 0) & ~ruled_out).sum(axis=1)
    return {
        "records": int(sizes.sum()),
        "value_plain": _right(plain, table),
        "value_knowing": _right(knowing, table),
        "belief_gain": float((sizes * (knowing - plain).max(axis=1)).sum()),
        "below": float(sizes[left < ell].sum()),
        "fewest": int(left.min()),
        "impossible": float(sizes.sum() * (~fits).mean()),
        "odds": float(weights.max() / weights.min()) if fits.all() else None,
    }


def downcoding(table, mass, weigh, rng, n=N_EXPLANATIONS):
    """How many records' leaves are guessed without and with the rule, and how many surely."""
    plain = mass / mass.sum(axis=0)
    drawn = np.stack(
        [rng.multinomial(total, plain[:, s], size=n) for s, total in enumerate(table.sum(axis=0))]
    )
    drawn = drawn.transpose(1, 2, 0)
    weights = np.asarray(weigh(drawn), dtype=np.float64)
    totals = np.maximum(1, table.sum(axis=0))
    knowing = _mean(drawn, weights) / totals if weights.any() else plain
    per_value = table.sum(axis=0)
    return {
        "class_plain": _right(plain.T, table.T),
        "class_knowing": _right(knowing.T, table.T),
        "sure_plain": float(per_value[(plain > SURE).any(axis=0)].sum()),
        "sure_knowing": float(per_value[(knowing > SURE).any(axis=0)].sum()),
    }


def _mean(drawn, weights):
    """The mean explanation."""
    return np.tensordot(weights / weights.sum(), drawn, axes=1)


def _right(beliefs, table):
    """The records for which the likeliest guess of their row is right; equals are guessed at random."""
    best = np.isclose(beliefs, beliefs.max(axis=1, keepdims=True))
    return float(((table * best).sum(axis=1) / best.sum(axis=1)).sum())
