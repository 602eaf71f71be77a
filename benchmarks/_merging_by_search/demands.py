"""What base classes ask of the class they are published in, and what a hull loses: compiled."""

from typing import NamedTuple

import numpy as np

from elldelta.core.kernels import compiled


class Demands(NamedTuple):
    """What base classes ask of the class they are published in."""

    witnesses: np.ndarray  # R x words of 64 bits, the sets A_c
    allowances: np.ndarray  # R
    barred: np.ndarray  # R, classes that must not be published together with a record
    min_records: int


class Shape(NamedTuple):
    """Where base classes lie, and what it costs to blur them."""

    lows: np.ndarray  # R x d
    highs: np.ndarray  # R x d
    weights: np.ndarray  # d, loss per position of length
    mass: np.ndarray  # R


@compiled
def lacking(demands, base, present):
    """How many witnesses too many a base class misses if its published class shows these values."""
    total = -demands.allowances[base]
    for word in range(present.size):
        bits = demands.witnesses[base, word] & ~present[word]
        while bits != np.uint64(0):
            bits &= bits - np.uint64(1)
            total += 1
    return float(max(0, total))


@compiled
def lacking_of_each(demands, shown):
    """What each base class lacks if its published class shows so many records of each value, R x |S|."""
    found = np.zeros(demands.allowances.size)
    for base in range(found.size):
        found[base] = lacking(demands, base, present_values(shown[base], demands.min_records))
    return found


@compiled
def present_values(counts, min_records):
    """The values with enough records, as a set."""
    present = np.zeros((counts.size + 63) // 64, dtype=np.uint64)
    for value in range(counts.size):
        if counts[value] >= min_records:
            present[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
    return present


@compiled
def hull_loss(mass, low, high, weights):
    """The loss of a class: its mass times the weighted lengths of its hull."""
    length = 0.0
    for attribute in range(weights.size):
        length += weights[attribute] * (high[attribute] - low[attribute])
    return mass * length
