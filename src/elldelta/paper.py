"""The paper, executable: what it proves and computes, as functions of a few numbers.

* `worst_case`: how far diversity can fall when releases are linked (Proposition 1)
* `sample_size`, `Mechanism`, `smallest_p`, `largest_ell`: records to wait for, and the inverses (Algorithm 1)
* `greedy_generalize`, `generalize_independent`, `uniform_classes`: classes (Algorithms 2 and 3, Corollary 2),
  with the faults of the printed pseudo-code corrected
* `compose`: what releases of one plan promise together (Theorem 2)
* `figure_series`, `write_figures`: the four figures, and the numbers behind them

Distributions are made with `JointDistribution`, `uniform_marginal` and `geometric_marginal`.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import (
    check_beta,
    check_delta,
    check_ell,
    check_p,
    check_p_or_beta,
    check_releases,
    check_whole,
)
from elldelta.core.distribution import RELATIVE_TOLERANCE, JointDistribution, check_marginal
from elldelta.core.partition import Partition
from elldelta.core.partition import greedy as greedy_generalize
from elldelta.core.sample_size import (
    Mechanism,
    geometric_marginal,
    p_ell,
    ranked,
    smallest_p,
    uniform_marginal,
)
from elldelta.errors import ParameterError, RefusedError, counted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from elldelta.engines import Progress

__all__ = [
    "ComposedGuarantee",
    "FigurePoint",
    "JointDistribution",
    "Mechanism",
    "Partition",
    "SampleSize",
    "WorstCase",
    "compose",
    "figure_series",
    "generalize_independent",
    "geometric_marginal",
    "greedy_generalize",
    "largest_ell",
    "p_ell",
    "sample_size",
    "smallest_p",
    "uniform_classes",
    "uniform_marginal",
    "worst_case",
    "write_figures",
]


@dataclass(frozen=True)
class WorstCase:
    """The lowest possible diversity after linkage, and releases that attain it.

    Attributes:
        diversity: The fewest values that can be left for somebody who is in all releases.
        values: |S|.
        ell: The diversity of each release.
        releases: How many releases there are.
        example: One set of values per release that attains it; value 0 is the shared person's own.
    """

    diversity: int
    values: int
    ell: tuple[int, ...]
    releases: int
    example: tuple[tuple[int, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """The worst case as plain JSON values."""
        return asdict(self)


def worst_case(n_values: int, ell: int | Sequence[int], releases: int | None = None) -> WorstCase:
    """The smallest diversity after linking releases (Proposition 1, generalized), with an example.

    Release j may miss |S| - ell_j values. Those misses do most harm when they do not overlap, so
    |S| - Σ_j (|S| - ell_j) values are left, but always the one of the person who is in all of them.
    The paper's formula is the case of equal ell with t dividing |S| - 1; Corollary 1 is t = 2.

    The example has value 0 in every release. The missing values of the releases are laid end to end,
    cyclically, over the other |S| - 1 values: they overlap only once every one of those is missing somewhere.

    Args:
        n_values: |S|.
        ell: The diversity of all releases, or of each.
        releases: How many there are; 2 by default where they have one diversity.

    >>> worst_case(50, 30).diversity
    10
    """
    n_values = check_whole("the number of sensitive values", n_values)
    if isinstance(ell, int | np.integer):
        ell = (int(ell),) * check_releases(2 if releases is None else releases)
    elif releases not in (None, len(ell)):
        raise ParameterError(
            "One diversity for each release is given, so the number of releases must agree or be left out.",
            found=f"{len(ell)} diversities and {counted(releases, 'release')}.",
        )
    ells = tuple(check_ell(each, n_values) for each in ell)
    if not ells:
        raise ParameterError("At least one release is needed.", found="No diversity was given.")
    example, n_missed = [], 0
    for each in ells:
        missing = {1 + (n_missed + step) % (n_values - 1) for step in range(n_values - each)}
        example.append(tuple(value for value in range(n_values) if value not in missing))
        n_missed += n_values - each
    return WorstCase(max(1, n_values - n_missed), n_values, ells, len(ells), tuple(example))


@dataclass(frozen=True)
class SampleSize:
    """Records to wait for, and what they promise.

    Attributes:
        p: The probability that ell cells of every class reach.
        p_ell: The largest p possible: the ell-th largest marginal.
        m: An upper bound on the number of classes (Lemma 2).
        records_exact: The records before rounding up.
        records: The records to wait for.
        delta: The failure probability of one release.
        classes: The classes there are if all quasi-identifiers are equally frequent.
        ell: The diversity promised.
    """

    p: float
    p_ell: float
    m: float
    records_exact: float
    records: int
    delta: float
    classes: int
    ell: int

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain JSON values."""
        return asdict(self)


def sample_size(
    marginal: ArrayLike,
    n_quasi_identifiers: int,
    ell: int,
    *,
    p: float | None = None,
    beta: float | None = None,
    delta: float | None = None,
    records: int | None = None,
    eta: float = 0.0,
) -> SampleSize:
    """Algorithm 1: the records to wait for, from the marginal distribution of S alone; or their delta.

    Args:
        marginal: P_S, one probability per sensitive value.
        n_quasi_identifiers: |Q|.
        ell: The diversity wanted.
        p: The probability that ell cells of every class reach.
        beta: The same as a share of p_ell, instead of p.
        delta: The failure probability of one release; 0.01 by default.
        records: Instead of delta: what do so many records promise?
        eta: An error of the distribution, in total variation, that the promise must survive.

    Raises:
        RefusedError: So many records promise nothing at this p.

    >>> sample_size(uniform_marginal(50), 3000, 10, beta=0.01).records
    65606
    """
    if delta is not None and records is not None:
        raise ParameterError(
            "Give delta or records, not both.",
            found="Both were given.",
            remedy="Leave out the one that is to be computed.",
            parameter=("delta", "records"),
        )
    check_p_or_beta(p, beta)
    mechanism = (
        Mechanism.create(marginal, n_quasi_identifiers, ell, p, eta)
        if p is not None
        else Mechanism.from_beta(marginal, n_quasi_identifiers, ell, check_beta(beta), eta)
    )
    if records is None:
        reached = check_delta(0.01 if delta is None else delta)
        exact, records = mechanism.records_exact(reached), mechanism.records(reached)
    else:
        reached, exact = mechanism.delta_reached(records), float(records)
        if reached >= 1.0:
            raise RefusedError(
                f"{counted(records, 'record promises', 'records promise')} nothing at this p.",
                found="The bound on the failure probability is 1.",
                remedy=f"For delta = 0.01 wait for {counted(mechanism.records(0.01), 'record')}, or "
                "choose a larger p.",
            )
    return SampleSize(
        p=mechanism.p,
        p_ell=mechanism.p_ell,
        m=mechanism.classes_upper,
        records_exact=exact,
        records=records,
        delta=reached,
        classes=uniform_classes(n_quasi_identifiers, mechanism.p, mechanism.p_ell),
        ell=mechanism.ell,
    )


def largest_ell(
    marginal: ArrayLike,
    n_quasi_identifiers: int,
    delta: float,
    n_records: int,
    *,
    p: float | None = None,
    beta: float | None = None,
) -> int:
    """The largest ell whose N, at the given p or beta, is at most the records at hand.

    N is not monotone in ell (m falls while ell grows), so every ell is tried.

    Raises:
        RefusedError: Not even ell = 1 can be promised.
    """
    check_p_or_beta(p, beta)
    check_whole("the number of records", n_records)
    probabilities = check_marginal(marginal)
    best = 0
    for ell, largest in enumerate(ranked(probabilities).tolist(), start=1):
        share = largest * check_beta(beta) if p is None else p
        if not 0.0 < share <= largest * (1.0 + RELATIVE_TOLERANCE):
            continue
        mechanism = Mechanism.create(probabilities, n_quasi_identifiers, ell, min(share, largest))
        if mechanism.records(delta) <= n_records:
            best = ell
    if best == 0:
        raise RefusedError(
            f"{counted(n_records, 'record does', 'records do')} not even promise ell = 1 at delta = "
            f"{delta:g}.",
            remedy="Wait for more records, or choose a larger p or delta.",
        )
    return best


def generalize_independent(quasi_identifiers: ArrayLike, values: ArrayLike, ell: int, p: float) -> Partition:
    """Generalize-Ind (Algorithm 3): runs of equal length, for quasi-identifiers independent of the values.

    Cuts Q into runs of T = ceil(|Q| p / (theta p_ell)), the remainder joining the last. theta is
    |Q| min_q P_Q(q), so every run of T has mass at least T theta / |Q| >= p / p_ell, and its ell most
    probable cells reach p. The printed T = |Q| / floor(theta p_ell / p) need not be an integer and divides
    by zero for p > theta p_ell; a single class (Q itself) is always admissible.

    Args:
        quasi_identifiers: P_Q, in the order whose runs become classes.
        values: P_S.
        ell: The diversity wanted.
        p: The probability that ell cells of every class reach.

    >>> generalize_independent(uniform_marginal(9), uniform_marginal(5), 2, 0.05).starts.tolist()
    [0, 3, 6]
    """
    marginal = check_marginal(quasi_identifiers)
    largest = p_ell(values, ell)
    p = check_p(p, largest, ell)
    length = _run_length(marginal.size, p, marginal.size * float(marginal.min()) * largest)
    n_classes = max(1, marginal.size // length)
    return Partition.from_starts(np.arange(n_classes) * length, marginal.size)


def uniform_classes(n_quasi_identifiers: int, p: float, p_ell: float) -> int:
    """The most classes of any admissible partition if Q is uniform and independent of S.

    max(1, floor(|Q| / ceil(|Q| p / p_ell))): Corollary 2 with the number of quasi-identifiers per class
    rounded up to a whole one. Greedy-Generalize attains it.
    """
    n_quasi_identifiers = check_whole("the number of quasi-identifiers", n_quasi_identifiers)
    return max(1, n_quasi_identifiers // _run_length(n_quasi_identifiers, p, p_ell))


def _run_length(n_rows: int, p: float, p_per_row_share: float) -> int:
    """The fewest rows whose cells reach p, at most all of them, with the same tolerance as the sweep."""
    if p_per_row_share <= 0.0:
        return n_rows
    return max(1, min(n_rows, math.ceil(n_rows * p / p_per_row_share * (1.0 - RELATIVE_TOLERANCE))))


THEOREM_2_CONDITIONS = (
    "All releases use the same classes, fixed before anybody's records were seen.",
    "In every class all releases rely on the same ell witness values: "
    "the ell most probable ones, ties by their order.",
    "The records of each release are independent draws from the distribution the plan was made for.",
    "Each release has at least as many records as its delta was computed for.",
)
"""What must be true for `compose`. Releases may depend on each other in any way: they may share people."""


@dataclass(frozen=True)
class ComposedGuarantee:
    """After linkage, every person is left among >= ell values with probability at least 1 - delta.

    Attributes:
        ell: Values left for everybody who is in all releases.
        delta: Upper bound on the probability that this fails anywhere; with 1 nothing is promised.
        releases: The number of releases linked.
        conditions: What must be true for the promise to hold.
    """

    ell: int
    delta: float
    releases: int
    conditions: tuple[str, ...] = THEOREM_2_CONDITIONS


def compose(ell: int, deltas: Sequence[float]) -> ComposedGuarantee:
    """(ell, delta_j)-diverse releases of one plan link to (ell, Σ_j delta_j)-diversity (Theorem 2).

    The sum is a union bound and does not exceed 1.

    >>> compose(10, [0.01, 0.01, 0.02]).delta
    0.04
    """
    if not deltas:
        raise ParameterError("At least one release is needed.", found="No delta was given.")
    total = math.fsum(check_delta(delta) for delta in deltas)
    return ComposedGuarantee(check_whole("ell", ell), min(1.0, total), len(deltas))


@dataclass(frozen=True)
class FigurePoint:
    """One point of a figure, with everything that determines it."""

    figure: int
    marginal: str
    ell: int
    beta: float
    delta: float
    p: float
    records: int


def figure_series() -> tuple[FigurePoint, ...]:
    """The series behind the paper's four figures (Section 5): |Q| = 3000, |S| = 50."""
    return (*_against_delta(1, "uniform"), *_against_p(), *_against_delta(3, "geometric"), *_against_ell())


def _mechanism(name: str, ell: int, beta: float) -> Mechanism:
    marginal = uniform_marginal(50) if name == "uniform" else geometric_marginal(50, 0.95)
    return Mechanism.from_beta(marginal, 3000, ell, beta)


def _point(figure: int, name: str, mechanism: Mechanism, beta: float, delta: float) -> FigurePoint:
    return FigurePoint(figure, name, mechanism.ell, beta, delta, mechanism.p, mechanism.records(delta))


def _against_delta(figure: int, name: str) -> Iterator[FigurePoint]:
    """N as a function of delta, for two beta and two ell (Figures 1 and 3)."""
    deltas = np.concatenate((np.geomspace(0.001, 0.1, 40, endpoint=False), np.linspace(0.1, 0.99, 60)))
    for beta in (0.01, 0.02):
        for ell in (10, 30):
            mechanism = _mechanism(name, ell, beta)
            for delta in deltas.tolist():
                yield _point(figure, name, mechanism, beta, delta)


def _against_p() -> Iterator[FigurePoint]:
    """N as a function of p from 0.001 to p_ell, uniform (Figure 2)."""
    for delta in (0.01, 0.001):
        for ell in (10, 30):
            for p in np.geomspace(1e-3, 1 / 50, 80).tolist():
                mechanism = Mechanism.create(uniform_marginal(50), 3000, ell, p)
                yield _point(2, "uniform", mechanism, mechanism.p / mechanism.p_ell, delta)


def _against_ell() -> Iterator[FigurePoint]:
    """N as a function of ell from 5 to 40, geometric (Figure 4)."""
    for beta in (0.01, 0.02):
        for delta in (0.01, 0.001):
            for ell in range(5, 41):
                yield _point(4, "geometric", _mechanism("geometric", ell, beta), beta, delta)


def write_figures(
    folder: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress | None = None
) -> tuple[Path, ...]:
    """Writes the four figures as SVG and PNG, each with a CSV of its series; returns the files."""
    from elldelta.files import AtomicFiles

    folder = Path(folder)
    points = figure_series()
    contents: dict[Path, bytes] = {}
    for figure in range(1, 5):
        if progress is not None:
            progress(figure / 5)
        series = tuple(point for point in points if point.figure == figure)
        contents[folder / f"figure_{figure}.csv"] = _as_csv(series)
        for suffix, picture in _draw(figure, series).items():
            contents[folder / f"figure_{figure}.{suffix}"] = picture
    with AtomicFiles(overwrite=overwrite) as files:
        files.make_folder(folder)
        for path, content in contents.items():
            files.stage(path).write_bytes(content)
    return tuple(contents)


def _as_csv(series: Sequence[FigurePoint]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("figure", "marginal", "ell", "beta", "delta", "p", "records"))
    for point in series:
        numbers = (f"{number:.10g}" for number in (point.beta, point.delta, point.p))
        writer.writerow((point.figure, point.marginal, point.ell, *numbers, point.records))
    return text.getvalue().encode()


def _draw(figure: int, series: Sequence[FigurePoint]) -> dict[str, bytes]:
    """Draws one of the figures 1 to 4; returns its bytes by file suffix."""
    from matplotlib.ticker import LogLocator

    from elldelta.pages.charts import as_png, as_svg, new_figure

    canvas = new_figure()
    axes = canvas.add_subplot()
    name = "uniform" if figure < 3 else "geometric"
    if figure == 2:
        against = "p"
        _plot_two_ells(axes, series, lambda point: ("δ", point.delta), lambda point: point.p)
        axes.set(xlabel="p, the probability that ℓ cells of every class reach", xscale="log", yscale="log")
    elif figure == 4:
        against = "ℓ"
        _plot_against_ell(axes, series)
        axes.set(xlabel="ℓ, the values that every class must show", yscale="log")
    else:
        against = "δ"
        _plot_two_ells(axes, series, lambda point: ("β", point.beta), lambda point: point.delta)
        axes.set(xlabel="failure probability of one release, δ", xscale="log")
    title = f"Records to wait for against {against} ({name} sensitive values)"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.set_ylabel("records to wait for, N")
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_minor_formatter(lambda _value, _: "")
    axes.grid(visible=True, which="major", color="#d9dde2", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, handlelength=3.6)
    return {"svg": as_svg(canvas), "png": as_png(canvas)}


def _plot_two_ells(
    axes: Axes,
    series: Sequence[FigurePoint],
    group: Callable[[FigurePoint], tuple[str, float]],
    x: Callable[[FigurePoint], float],
) -> None:
    """Curves for two values of ell: a wide pale line under a thin dashed one, for they may coincide."""
    from elldelta.pages.charts import COLOURS, DASHES

    for index, (name, number) in enumerate(sorted({group(point) for point in series})):
        for ell, width, alpha, dash in ((10, 5.0, 0.35, DASHES[0]), (30, 1.6, 1.0, DASHES[1])):
            points = [point for point in series if point.ell == ell and group(point)[1] == number]
            axes.plot(
                [x(point) for point in points],
                [point.records for point in points],
                color=COLOURS[index],
                linewidth=width,
                alpha=alpha,
                linestyle=dash,
                label=f"{name} = {number:g}, ℓ = {ell}",
            )


def _plot_against_ell(axes: Axes, series: Sequence[FigurePoint]) -> None:
    from elldelta.pages.charts import COLOURS, DASHES

    for index, beta in enumerate(sorted({point.beta for point in series})):
        for dash, delta in enumerate(sorted({point.delta for point in series})):
            points = [point for point in series if (point.beta, point.delta) == (beta, delta)]
            axes.plot(
                [point.ell for point in points],
                [point.records for point in points],
                color=COLOURS[index],
                linewidth=1.8,
                linestyle=DASHES[dash],
                label=f"β = {beta:g}, δ = {delta:g}",
            )
