"""Slow, obvious twins of classes that move up a tree, from the definition: exact fractions, every draw.

A tree is nested pairs of leaf numbers, `((0, 1), 2)`; a node is the tuple of the leaves below it, and a cut
a frozenset of nodes. A table holds the records of every leaf by value. Whether nodes pass is asked of the
table and of what is public; nothing here uses Theorem K.
"""

from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

from tests.oracles.certificate import missed
from tests.oracles.closeness import furthest_set, shares

REFUSED = None
"""Stands for the cut of a table that does not pass as a single class."""


@cache
def leaves(tree):
    """The leaves below a node, from left to right."""
    return (tree,) if isinstance(tree, int) else tuple(leaf for side in tree for leaf in leaves(side))


@cache
def nodes(tree):
    """All nodes, a node before what is below it."""
    below = () if isinstance(tree, int) else tuple(node for side in tree for node in nodes(side))
    return (leaves(tree), *below)


def path(tree, leaf):
    """The nodes from a leaf to the root."""
    return sorted((node for node in nodes(tree) if leaf in node), key=len)


def cuts(tree):
    """All ways to publish the leaves as nodes."""
    if isinstance(tree, int):
        return [frozenset([(tree,)])]
    below = [frozenset().union(*pair) for pair in product(*map(cuts, tree))]
    return [frozenset([leaves(tree)]), *below]


def chance_of_height(height, steps_to_root, rho, q):
    """How likely a leaf moves up so many steps; what would lead beyond the root ends there."""
    if height == 0:
        return 1 - rho if steps_to_root else Fraction(1)
    here = rho * q ** (height - 1)
    return here if height == steps_to_root else here * (1 - q)


def topmost(chosen):
    """Those of some nodes that do not lie below another of them."""
    return frozenset(node for node in chosen if not any(set(node) < set(other) for other in chosen))


def final_cuts(tree, cut, passing):
    """What raising failing nodes can end in, whichever is raised first: every order is tried."""
    failing = [node for node in cut if node not in passing]
    if not failing:
        return {cut}
    if failing == [leaves(tree)]:
        return {REFUSED}
    found = set()
    for node in failing:
        parent = path(tree, node[0])[path(tree, node[0]).index(node) + 1]
        found |= final_cuts(tree, topmost(cut | {parent}), passing)
    return found


@cache
def distribution(tree, passing, rho, q):
    """The chance of every final cut, given the nodes that pass: all draws of all leaves are added up."""
    upwards = [path(tree, leaf) for leaf in leaves(tree)]
    found = {}
    for heights in product(*(range(len(above)) for above in upwards)):
        chance = prod(
            chance_of_height(height, len(above) - 1, rho, q)
            for height, above in zip(heights, upwards, strict=True)
        )
        start = topmost({above[height] for height, above in zip(heights, upwards, strict=True)})
        ends = final_cuts(tree, start, passing)
        assert len(ends) == 1, "the order in which nodes are raised does not matter"
        end = ends.pop()
        found[end] = found.get(end, Fraction(0)) + chance
    assert sum(found.values()) == 1
    return found


def odds_bound(tree, node, rho, q):
    """K_d of Theorem K, for two tables that differ inside this node of the cut."""
    steps = min(path(tree, leaf).index(node) for leaf in node)
    if steps == 0:
        return Fraction(1)
    return 1 / (rho * q ** (steps - 1) * (1 if node == leaves(tree) else 1 - q))


def sharp_odds(tree, node, rho, q):
    """The largest ratio that there can be at all: one over the chance that a decoy ends just there.

    Given that no decoy below the node goes beyond it.
    """
    none = Fraction(1)
    for leaf in node:
        above = path(tree, leaf)
        steps = above.index(node)
        chances = [chance_of_height(height, len(above) - 1, rho, q) for height in range(steps + 1)]
        none *= 1 - chances[-1] / sum(chances)
    return Fraction(1) if len(node) == 1 else 1 / (1 - none)


def published(table, cut):
    """What a release shows: every node of the cut that has records, with its counts."""
    sums = {node: tuple(map(sum, zip(*(table[leaf] for leaf in node), strict=True))) for node in cut}
    return frozenset((node, counts) for node, counts in sums.items() if any(counts))


def compositions(total, n_parts):
    """All ways to write a number as a sum of so many counts."""
    if n_parts == 1:
        return [(total,)]
    return [(n, *rest) for n in range(total + 1) for rest in compositions(total - n, n_parts - 1)]


def tables(people, n_values):
    """All tables with so many people in every leaf."""
    return list(product(*(compositions(n, n_values) for n in people)))


# Whether a node passes, from the definitions of the promises.


def _one_class(rows):
    return rows, [0] * len(rows)


def shows_values(witnesses, allowances, min_records=1):
    """Every base class below a node misses at most its allowance of its witnesses (Theorem E)."""

    def passes(table, node):
        rows, group_of = _one_class([table[leaf] for leaf in node])
        misses = missed([witnesses[leaf] for leaf in node], rows, group_of, (), min_records)
        return all(len(own) <= allowances[leaf] for leaf, own in zip(node, misses, strict=True))

    return passes


def shows_values_beside(witnesses, ell, earlier):
    """Linked with earlier releases, of which each missed some witnesses, ell of them are left (Theorem F)."""

    def passes(table, node):
        rows, group_of = _one_class([table[leaf] for leaf in node])
        misses = missed([witnesses[leaf] for leaf in node], rows, group_of)
        return all(
            len(set(witnesses[leaf]) - own - set(earlier[leaf])) >= ell
            for leaf, own in zip(node, misses, strict=True)
        )

    return passes


def is_close(references, limit, k=1):
    """A node without a record, or with k of them whose shares are within the limit of every reference."""

    def passes(table, node):
        counts = [sum(column) for column in zip(*(table[leaf] for leaf in node), strict=True)]
        if not sum(counts):
            return True
        near = all(furthest_set(shares(counts), shares(references[leaf])) <= limit for leaf in node)
        return near and sum(counts) >= k

    return passes


def is_close_beside(references, limit, smallest):
    """What this release or earlier ones lack of a reference, added up, is within the limit (Theorem G)."""

    def passes(table, node):
        counts = [sum(column) for column in zip(*(table[leaf] for leaf in node), strict=True)]
        if not sum(counts):
            return True
        for leaf in node:
            least = map(min, shares(counts), smallest[leaf])
            lacks = (max(Fraction(0), pi - f) for pi, f in zip(shares(references[leaf]), least, strict=True))
            if sum(lacks) > limit:
                return False
        return True

    return passes


def all_of(*promises):
    """Several promises at once."""
    return lambda table, node: all(passes(table, node) for passes in promises)
