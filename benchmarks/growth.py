"""How the time of planning, certifying, admitting and linking grows with what there is.

An exponent of 1 means twice the time for twice the size. It is fitted by least squares to the logarithms of
times and sizes. Exponents may exceed 1 a little: what is 1 in theory has caches and sorting in practice.
Linking t releases takes about t squared: they cut the combinations into t times as many cells, and each cell
is looked at in t releases. All times are processor time, so that what else the machine does counts little.
"""

import numpy as np

from benchmarks._fit import grown
from elldelta.core.certificate import certify
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.generalize.boxes import boxes
from elldelta.core.ledger_state import LedgerState
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.core.partition import Partition, greedy
from elldelta.core.promises import Shown, Values

ELL, RELEASES, BUDGET = 10, 2, 0.02
N_VALUES = (10, 30, 100, 300, 1000)
N_RELEASES = (2, 3, 5, 7, 10)
N_CLASSES = (1_000, 3_000, 10_000, 30_000, 100_000)
N_REGISTRATIONS = (10, 30, 100, 300)
MIDDLE, N_LINKED = 3_000, 100_000
"""Combinations, while values or releases grow; and for linking, which is fast."""
AXES = (30, 10)
"""Sizes of two attributes; a third one is as long as it takes to get so many combinations."""


def run(size):
    few_values = 30 if size.name == "quick" else 50
    yield from grown("combinations", size.combinations, lambda n: planners(n, few_values, RELEASES), 1.35)
    yield from grown("sensitive values", N_VALUES, lambda n: planners(MIDDLE, n, RELEASES), 1.35)
    yield from grown("releases", N_RELEASES, lambda n: planners(MIDDLE, 50, n), 1.35)
    yield from grown("releases", N_RELEASES, linking, 2.35)
    yield from grown("classes", N_CLASSES, certifying, 1.35)
    yield from grown("registrations", N_REGISTRATIONS, admitting, 1.35)


def planners(n_combinations, n_values, releases):
    """Ways to make a plan, on one random table; ten records per combination."""
    distribution, positions, sizes = random_model(n_combinations, n_values)
    n_records = 10 * n_combinations
    criterion = SharpBound(ELL, n_records, releases, BUDGET)
    p = float(distribution.ranked_marginal[ELL - 1]) / max(10, n_combinations // 100)
    return {
        "plan, runs, paper": lambda: greedy(distribution, ELL, p),
        "plan, boxes, sharp": lambda: boxes(distribution, positions, sizes, (criterion,)),
    }


def linking(n_releases):
    """The audit's innermost step: the values that linking leaves, for releases with classes of their own."""
    rng = np.random.default_rng(n_releases)
    tables = []
    for _ in range(n_releases):
        starts = np.zeros(N_LINKED, dtype=np.int64)
        starts[rng.choice(np.arange(1, N_LINKED), N_LINKED // 50, replace=False)] = 1
        tables.append(
            ReleasedCounts.from_table(rng.poisson(1.0, (N_LINKED, 50)), Partition(np.cumsum(starts)))
        )
    return {"link": lambda: link(tables)}


def certifying(n_classes, n_values=50):
    """The certificate of one release, from its counts."""
    promise, shown = published(n_classes, n_values)
    return {"certify": lambda: certify([promise], shown)}


def admitting(n_registrations, n_classes=MIDDLE, n_values=50):
    """A ledger that admits so many releases, one after the other."""
    promise, shown = published(n_classes, n_values)

    def admit_all():
        state = LedgerState.empty([promise])
        for _ in range(n_registrations):
            assert state.admits(shown)
            state = state.admit(shown)

    return {"admit all": admit_all}


def published(n_classes, n_values):
    """A promise about classes with all values as witnesses, and a release that misses a few of them."""
    counts = np.random.default_rng(n_classes).poisson(6.0, (n_classes, n_values))
    allowances = np.full(n_classes, (n_values - ELL) // RELEASES)
    promise = Values(np.ones(counts.shape, dtype=np.bool_), allowances, ELL, RELEASES)
    return promise, Shown.of(counts)


def random_model(n_combinations, n_values, seed=1):
    """P with falling frequencies of values, different in every row, over three attributes."""
    rng = np.random.default_rng(seed)
    longest = -(-n_combinations // (AXES[0] * AXES[1]))
    sizes = (*AXES, longest)
    positions = np.stack(np.unravel_index(np.arange(n_combinations), sizes[::-1]), axis=1)[:, ::-1]
    mass = rng.random((n_combinations, n_values), dtype=np.float64)
    mass *= 0.97 ** np.arange(n_values)
    mass /= mass.sum()
    return JointDistribution(mass, 1.0), np.ascontiguousarray(positions), sizes
