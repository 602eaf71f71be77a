"""How the arena's owners publish: one common recoding, the paper's mechanism, and ours.

A method gives, for one draw, a list of tries: a setting and the three releases that it makes. The peers,
which run in an environment of their own, are in `_arena_peers`.
"""

import itertools
import time
from dataclasses import dataclass

import numpy as np

from benchmarks._arena_attacks import Published, ranges
from benchmarks._publishing import draw_heights
from elldelta.core.certificate import certify
from elldelta.core.ledger_state import LedgerState
from elldelta.core.moving import move_up
from elldelta.core.promises import Shown
from elldelta.errors import RefusedError
from elldelta.plan.classes import Merged
from elldelta.plan.planner import plan
from elldelta.release.publishable import publishable

LEAST_OWNER = 2
"""The owner with the fewest records, whose people are all with the first one."""
MERGE_RISK = 0.1
"""The chance that a class does not pass by itself, where classes move."""


@dataclass(frozen=True, eq=False)
class Try:
    """What one setting of a method gives in one draw.

    Attributes:
        method: The name of the method.
        setting: Its setting, in words.
        promise: "linked": nobody below ell after linking, for certain. "likely": except with a small
            probability. "single": ell values in every release by itself.
        releases: What the owners publish; None where the method gives up.
        seconds: Processor time of planning and of all releases.
    """

    method: str
    setting: str
    promise: str
    releases: list | None
    seconds: float


def levels(size):
    """Widths of the levels for a whole column: 1, 2, 4, ... and everything."""
    return [*(2**step for step in range((size - 1).bit_length())), size]


def certain_values(n_values, ell, n_releases):
    """How many values every class must show so that any t releases link to ell, for certain.

    Every release misses at most |S| - l values of a class, so t of them together at most t (|S| - l): the
    paper's worst case (Proposition 1). It holds for any classes, also for different ones.
    """
    return n_values - (n_values - ell) // n_releases


def thresholds(source, n_releases):
    """Least numbers of values per class to try, from what is asked for to what is certain after linking."""
    certain = certain_values(source.n_values, source.ell, n_releases)
    return list(range(source.ell, certain + 1))


def promise_of(least, source, n_releases):
    return "linked" if least >= certain_values(source.n_values, source.ell, n_releases) else "single"


class Recoding:
    """One level for every column, the same for everybody."""

    def __init__(self, widths, sizes):
        self.widths = np.array(widths)
        self.sizes = np.array(sizes)
        self.n_steps = -(-self.sizes // self.widths)

    def codes(self, points):
        code = np.zeros(len(points), dtype=np.int64)
        for column, n_steps in enumerate(self.n_steps):
            code = code * n_steps + points[:, column] // self.widths[column]
        return code

    def boxes(self, codes):
        steps = np.stack(np.unravel_index(codes, self.n_steps), axis=1)
        lows = steps * self.widths
        return lows, np.minimum(lows + self.widths, self.sizes) - 1

    def tally(self, people, n_values):
        """The classes that occur, and records by class and value."""
        codes, number = np.unique(self.codes(people.points), return_inverse=True)
        table = np.zeros((len(codes), n_values), dtype=np.int64)
        np.add.at(table, (number.reshape(-1), people.values), 1)
        return codes, table

    def publish(self, people, n_values, least):
        """Publishes the classes with at least so many values and leaves the other records out."""
        codes, table = self.tally(people, n_values)
        kept = np.count_nonzero(table, axis=1) >= least
        codes, table = codes[kept], table[kept]

        def find(points):
            wanted = self.codes(points)
            places = np.minimum(np.searchsorted(codes, wanted), max(0, len(codes) - 1))
            return np.where(codes[places] == wanted, places, -1) if len(codes) else np.full(len(points), -1)

        return Published(ranges(*self.boxes(codes), self.sizes), table, find, len(people))


def choose_recodings(history, sizes, n_values, thresholds, n_records, rng):
    """For every threshold the levels that lose least, as the history tells it.

    The history is thinned, or repeated, to as many records as an owner has; what a class with too few values
    costs is what leaving its records out costs. All combinations of levels are tried.
    """
    sample = history.take(rng.choice(len(history), n_records, replace=n_records > len(history)))
    spans = np.maximum(1, np.array(sizes) - 1)
    best = dict.fromkeys(thresholds, (np.inf, None))
    for widths in itertools.product(*(levels(size) for size in sizes)):
        recoding = Recoding(widths, sizes)
        codes, table = recoding.tally(sample, n_values)
        lows, highs = recoding.boxes(codes)
        lost = ((highs - lows) / spans).mean(axis=1)
        n_shown, records = np.count_nonzero(table, axis=1), table.sum(axis=1)
        for least in thresholds:
            loss = float(records @ np.where(n_shown >= least, lost, 1.0)) / n_records
            if loss < best[least][0]:
                best[least] = loss, recoding
    return {least: recoding for least, (_, recoding) in best.items()}


def common_recoding(drawn, seed):
    source, n_owners = drawn.source, drawn.is_in.shape[1]
    start = time.process_time()
    tried = thresholds(source, n_owners)
    rng = np.random.default_rng(seed)
    chosen = choose_recodings(drawn.history, source.sizes, source.n_values, tried, drawn.fewest, rng)
    planning = (time.process_time() - start) / len(tried)
    for least, recoding in chosen.items():
        start = time.process_time()
        releases = [
            recoding.publish(drawn.owner(number), source.n_values, least) for number in range(n_owners)
        ]
        seconds = planning + time.process_time() - start
        promise = promise_of(least, source, n_owners)
        yield Try("common recoding", f"{least} values", promise, releases, seconds)


def as_published(schema, classes, counts, n_records):
    """Our release, as everybody sees it."""
    named = ranges(*classes.hulls(schema), schema.sizes)

    def find(points):
        number = classes.class_of(schema, schema.ranks(points))
        return np.where(counts.any(axis=1)[number], number, -1)

    return Published(named, counts, find, n_records)


def as_planned(made, records, state, rng, **how):
    """The plan's classes as they are."""
    left = () if state is None else state.left()
    release = publishable(records, made, promises_left=left, **how)
    state = None if state is None else state.admit(release.certificate.shown)
    return release.classes, release.counts, state


def moved_up(made, records, state, rng):
    """Classes that move up the plan's tree."""
    table = records.by_class(made.class_of(records.ranks), made.n_classes)
    tree = made.classes.tree

    def passes(grouping):
        return ~certify(made.promises, Shown.of(table, grouping)).failing_groups

    grouping = move_up(tree, draw_heights(rng, tree.n_leaves), passes)
    return Merged(made.classes, grouping.class_of), Shown.of(table, grouping).counts, state


def _ours(drawn, method, setting, promise, wish, publish, *, ledger=False, **how):
    source, n_owners = drawn.source, drawn.is_in.shape[1]
    tables = [source.counts(drawn.owner(number)) for number in range(n_owners)]
    model = source.model(drawn.history)
    start = time.process_time()
    releases = [None] * n_owners
    rng = np.random.default_rng(drawn.is_in.sum(axis=0))
    try:
        made = plan(model, ell=source.ell, records=drawn.fewest, **wish)
        state = LedgerState.empty(made.promises) if ledger else None
        for number in drawn.order:
            classes, counts, state = publish(made, tables[number], state, rng, **how)
            releases[number] = as_published(made.schema, classes, counts, tables[number].n_records)
    except RefusedError:
        releases = None
    return Try(method, setting, promise, releases, time.process_time() - start)


def paper(drawn):
    """The paper's mechanism: particular values, runs of the order, a failure probability."""
    wish = {"kind": "paper", "delta": 0.01, "releases": drawn.is_in.shape[1]}
    yield _ours(drawn, "the paper", "runs, delta 0.01", "likely", wish, as_planned)


def ours(drawn):
    n_owners = drawn.is_in.shape[1]
    certain, moving = {"releases": n_owners}, {"releases": n_owners, "merge_risk": MERGE_RISK}
    how = {"leave_out": True}
    yield _ours(drawn, "elldelta, certificates", "default", "linked", certain, as_planned, **how)
    yield _ours(
        drawn, "elldelta, ledger", "default", "linked", {"owners": n_owners}, as_planned, ledger=True, **how
    )
    yield _ours(drawn, "elldelta, one release", "default", "single", {"releases": 1}, as_planned, **how)
    yield _ours(drawn, "elldelta, certificates", "or refused", "linked", certain, as_planned)
    yield _ours(drawn, "elldelta, moving", f"merge risk {MERGE_RISK:g}", "linked", moving, moved_up)
