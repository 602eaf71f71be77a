"""What is published in the arena, what attackers make of it, and what it is still worth.

All attackers know everybody's quasi-identifiers and which owners hold them, and hold all releases and the
history. They attack the people who are with several owners.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elldelta.core.inference import posterior, smoothed
from elldelta.core.utility import information_loss

N_QUERIES = 200
SANITY = 0.005
"""The floor under the truth of a range query, as a share of an owner's records."""
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Published:
    """One owner's release: disjoint classes, what each says about quasi-identifiers, what it shows.

    Attributes:
        named: Per column, which positions a class names, classes x positions: a range, or any set.
        counts: Records by class and value.
        find: For points, the class that they lie in, or -1.
        n_records: Records that the owner has, published or not.
    """

    named: list[np.ndarray]
    counts: np.ndarray
    find: Callable[[np.ndarray], np.ndarray]
    n_records: int

    def shown(self, points):
        """Records by value in the class of every point; nothing where no class is published."""
        nothing = np.zeros((1, self.counts.shape[1]), dtype=self.counts.dtype)
        return np.concatenate([self.counts, nothing])[self.find(points)]


def ranges(lows, highs, sizes):
    """The positions that boxes name, per column."""
    return [
        (np.arange(size) >= low[:, None]) & (np.arange(size) <= high[:, None])
        for low, high, size in zip(lows.T, highs.T, sizes, strict=True)
    ]


def naming(named):
    """A way to find the class that names all positions of a point; no two classes do."""

    def find(points):
        distinct, number = np.unique(points, axis=0, return_inverse=True)
        is_named = np.ones((len(distinct), len(named[0])), dtype=bool)
        for column, positions in enumerate(named):
            is_named &= positions.T[distinct[:, column]]
        found = np.where(is_named.any(axis=1), is_named.argmax(axis=1), -1) if len(named[0]) else -1
        return np.broadcast_to(found, len(distinct))[number.reshape(-1)]

    return find


def linked(releases, is_in, points):
    """What every release shows about people in it; None stands for people of whom it says nothing."""
    tables = []
    for release, members in zip(releases, is_in.T, strict=True):
        shown = release.shown(points)
        says = members & shown.any(axis=1)
        tables.append((shown, says))
    return tables


def values_left(tables):
    """Intersection: which values every class of a person shows, people x values."""
    left = np.ones(tables[0][0].shape, dtype=bool)
    for shown, says in tables:
        left &= (shown > 0) | ~says[:, None]
    return left


def least_counts(tables):
    """The paper's post-linkage data set: for every value the least count among a person's classes."""
    most = np.iinfo(np.int64).max
    least = np.full(tables[0][0].shape, most)
    for shown, says in tables:
        least = np.minimum(least, np.where(says[:, None], shown, most))
    return np.where(least == most, 1, least)  # published nowhere: nothing is known


def beliefs(releases, tables, points, prior, masses):
    """Bayes' rule, as if all records but the person's were independent draws from one distribution."""
    counts, chances = [], []
    for (shown, says), release, by_class in zip(tables, releases, masses, strict=True):
        counts.append(np.where(says[:, None], shown, 1))
        chances.append(np.where(says[:, None], by_class[release.find(points)], 1.0))
    return posterior(prior, counts, chances)


def hits(scores, truth):
    """How often the highest score is the truth; a guess among equals is right with its share."""
    best = scores == scores.max(axis=1, keepdims=True)
    return float((best[np.arange(len(truth)), truth] / best.sum(axis=1)).mean())


def subtract(outer, inner, ell):
    """People in the rest of a class, where all people of the inner release are in the outer one.

    A class less all inner classes that lie within it is a group of people; returns how many people are in
    groups with fewer than ell values, and how many have one value.
    """
    below = single = 0
    occupied = np.flatnonzero(inner.counts.any(axis=1))
    within = np.ones((len(outer.counts), len(occupied)), dtype=bool)
    for around, inside in zip(outer.named, inner.named, strict=True):
        # Nothing that the inner class names may be foreign to the outer one.
        within &= ~((~around).astype(np.int64) @ inside[occupied].T.astype(np.int64)).astype(bool)
    for counts, is_within in zip(outer.counts, within, strict=True):
        if not is_within.any():
            continue
        rest = counts - inner.counts[occupied[is_within]].sum(axis=0)
        if (rest < 0).any():  # an owner left out what the other shows: nothing follows
            continue
        n_left = np.count_nonzero(rest)
        below += int(rest.sum()) if 0 < n_left < ell else 0
        single += int(rest.sum()) if n_left == 1 else 0
    return below, single


def learnt_prior(history, sizes, n_values, points):
    """P(value | combination) as one learns it from the history alone: naive Bayes, each count plus one."""
    per_value = np.bincount(history.values, minlength=n_values) + 1.0
    log_prior = np.tile(np.log(per_value / per_value.sum()), (len(points), 1))
    for column, size in enumerate(sizes):
        table = np.ones((size, n_values))
        np.add.at(table, (history.points[:, column], history.values), 1.0)
        log_prior += np.log(table / table.sum(axis=0))[points[:, column]]
    prior = np.exp(log_prior - log_prior.max(axis=1, keepdims=True))
    return prior / prior.sum(axis=1, keepdims=True)


def mass_by_class(release, history, n_values):
    """P(class, value) up to a factor, from the history and the release; the last row is for no class.

    The history alone is too small: what chance did to its counts would look like evidence.
    """
    overall = np.bincount(history.values, minlength=n_values) + 1.0
    table = np.zeros((len(release.counts) + 1, n_values), dtype=np.int64)
    np.add.at(table, (release.find(history.points), history.values), 1)
    table[:-1] += release.counts
    return smoothed(table, overall / overall.sum())


def exposure(drawn, releases):
    """What all attackers find, as shares of the people who are with several owners."""
    source = drawn.source
    several = drawn.is_in.sum(axis=1) > 1
    people, is_in = drawn.people.take(several), drawn.is_in[several]
    tables = linked(releases, is_in, people.points)
    n_left = values_left(tables).sum(axis=1)
    prior = learnt_prior(drawn.history, source.sizes, source.n_values, people.points)
    masses = [mass_by_class(release, drawn.history, source.n_values) for release in releases]
    least = least_counts(tables)
    baseline = hits(prior, people.values)
    gains = {
        "guess": hits(least, people.values) - baseline,
        "weighed": hits(prior * least, people.values) - baseline,
        "posterior": hits(beliefs(releases, tables, people.points, prior, masses), people.values) - baseline,
    }
    below, single = subtract(releases[0], releases[2], source.ell)
    n_outer = int(drawn.is_in[:, 0].sum())
    return {
        "below": float((n_left < source.ell).mean()),
        "one": float((n_left == 1).mean()),
        "anybody": float((n_left < source.ell).any()),
        "fewest": float(n_left.min()),
        "baseline": baseline,
        **gains,
        "best": max(gains.values()),
        "subtracted": below / n_outer,
        "subtracted_one": single / n_outer,
    }


def loss_of(release):
    """The information loss; a label spans (positions named - 1) / (positions - 1) of a column."""
    spans = [(named.sum(axis=1) - 1) / max(1, named.shape[1] - 1) for named in release.named]
    records = release.counts.sum(axis=1)
    return information_loss(records, np.stack(spans, axis=1), release.n_records - int(records.sum()))


ANY_VALUE = -1
"""A query that does not ask for a sensitive value."""


@dataclass(frozen=True, eq=False)
class Queries:
    """Random range queries, and how many records of an owner fulfil each.

    Each asks for some attributes, from 1 to d; of a domain of n positions for about n s^(1/m) neighbours,
    m being the number of attributes and s a tenth; and every second one for one sensitive value.
    """

    lows: np.ndarray
    highs: np.ndarray
    values: np.ndarray
    truth: np.ndarray

    @classmethod
    def about(cls, people, sizes, n_values, rng):
        domain = np.array(sizes)
        n_asked = rng.integers(1, domain.size + 1, N_QUERIES)
        is_asked = np.argsort(rng.random((N_QUERIES, domain.size)), axis=1) < n_asked[:, np.newaxis]
        shares = 0.1 ** (1.0 / n_asked)
        lengths = np.clip(np.rint(domain * shares[:, np.newaxis]), 1, domain).astype(np.int64)
        lengths = np.where(is_asked, lengths, domain)
        lows = rng.integers(0, domain - lengths + 1)
        values = np.where(rng.random(N_QUERIES) < 0.5, rng.integers(0, n_values, N_QUERIES), ANY_VALUE)
        truth = []
        for low, high, value in zip(lows, lows + lengths - 1, values, strict=True):
            is_inside = ((people.points >= low) & (people.points <= high)).all(axis=1)
            truth.append((is_inside & ((value == ANY_VALUE) | (people.values == value))).sum())
        return cls(lows, lows + lengths - 1, values, np.array(truth))

    def error(self, release):
        """The median relative error of the answers that a release gives, records spread evenly in classes."""
        answers = []
        before = [np.pad(np.cumsum(named, axis=1), ((0, 0), (1, 0))) for named in release.named]
        totals = release.counts.sum(axis=1)
        for low, high, value in zip(self.lows, self.highs, self.values, strict=True):
            covered = np.ones(len(totals))
            for upto, first, last in zip(before, low, high, strict=True):
                covered *= (upto[:, last + 1] - upto[:, first]) / upto[:, -1]
            answers.append(covered @ (totals if value == ANY_VALUE else release.counts[:, value]))
        truth, answers = (np.array(each) / release.n_records for each in (self.truth, answers))
        return float(np.median(np.abs(answers - truth) / np.maximum(truth, SANITY)))


def worth(releases, queries):
    """What the releases keep, as means over owners: each owner counts alike."""
    found = []
    for release, asked in zip(releases, queries, strict=True):
        left_out = 1 - release.counts.sum() / release.n_records
        found.append((loss_of(release), left_out, asked.error(release)))
    loss, left_out, error = np.mean(found, axis=0).tolist()
    worst = max(each[0] for each in found)
    classes = float(np.mean([(release.counts.sum(axis=1) > 0).sum() for release in releases]))
    return {
        "loss": loss,
        "worst": worst,
        "left_out": left_out,
        "queries": error,
        "classes": classes,
    }


def interval(numbers):
    """Mean and half width of the t interval of the mean, at 95 %: one number per seed."""
    from scipy.stats import t

    n = len(numbers)
    mean = math.fsum(numbers) / n
    if n < 2:
        return mean, math.inf
    spread = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (n - 1))
    return mean, float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * spread / math.sqrt(n)


def none_in(n_runs):
    """The largest chance per run that is compatible with never, at 95 %: 1 - 0.05^(1/n)."""
    return 1 - (1 - CONFIDENCE) ** (1 / n_runs)
