"""The series behind the paper's four figures (Section 5): |Q| = 3000, |S| = 50."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import geometric_marginal, uniform_marginal
from elldelta.core.sample_size import Mechanism

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

N_QUASI_IDENTIFIERS = 3000
N_VALUES = 50
RATIO = 0.95


@dataclass(frozen=True)
class SeriesPoint:
    """One point of a figure, with everything that determines it."""

    figure: int
    marginal: str
    ell: int
    beta: float
    delta: float
    p: float
    records: int


def paper_series() -> tuple[SeriesPoint, ...]:
    """All points of Figures 1 to 4."""
    return (*_against_delta(1, "uniform"), *_against_p(), *_against_delta(3, "geometric"), *_against_ell())


def series_as_csv(series: tuple[SeriesPoint, ...]) -> bytes:
    """The points of a figure as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("figure", "marginal", "ell", "beta", "delta", "p", "records"))
    for point in series:
        numbers = (f"{number:.10g}" for number in (point.beta, point.delta, point.p))
        writer.writerow((point.figure, point.marginal, point.ell, *numbers, point.records))
    return text.getvalue().encode()


def _marginal(name: str) -> NDArray[np.float64]:
    return uniform_marginal(N_VALUES) if name == "uniform" else geometric_marginal(N_VALUES, RATIO)


def _point(figure: int, name: str, mechanism: Mechanism, beta: float, delta: float) -> SeriesPoint:
    return SeriesPoint(figure, name, mechanism.ell, beta, delta, mechanism.p, mechanism.records(delta))


def _against_delta(figure: int, name: str) -> Iterator[SeriesPoint]:
    """N as a function of delta, for two beta and two ell (Figures 1 and 3)."""
    deltas = np.concatenate((np.geomspace(0.001, 0.1, 40, endpoint=False), np.linspace(0.1, 0.99, 60)))
    for beta in (0.01, 0.02):
        for ell in (10, 30):
            mechanism = Mechanism.from_beta(_marginal(name), N_QUASI_IDENTIFIERS, ell, beta)
            for delta in deltas:
                yield _point(figure, name, mechanism, beta, float(delta))


def _against_p() -> Iterator[SeriesPoint]:
    """N as a function of p from 0.001 to p_ell, uniform (Figure 2)."""
    marginal = _marginal("uniform")
    for delta in (0.01, 0.001):
        for ell in (10, 30):
            for p in np.geomspace(1e-3, 1 / N_VALUES, 80):
                mechanism = Mechanism.create(marginal, N_QUASI_IDENTIFIERS, ell, float(p))
                yield _point(2, "uniform", mechanism, mechanism.p / mechanism.p_ell, delta)


def _against_ell() -> Iterator[SeriesPoint]:
    """N as a function of ell from 5 to 40, geometric (Figure 4)."""
    marginal = _marginal("geometric")
    for beta in (0.01, 0.02):
        for delta in (0.01, 0.001):
            for ell in range(5, 41):
                mechanism = Mechanism.from_beta(marginal, N_QUASI_IDENTIFIERS, ell, beta)
                yield _point(4, "geometric", mechanism, beta, delta)
