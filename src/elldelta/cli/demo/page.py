"""The page at the end of the demonstration: what goes wrong, the plan, and what does not go wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.pages.charts import draw_frontier, draw_patients
from elldelta.pages.page import inline_svg, render

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Side:
    """One side of the comparison.

    Attributes:
        diversity_each: The fewest diseases in any class, per release.
        classes_each: Classes per release.
        diversity_linked: The fewest diseases left for any patient who is in all releases.
        patients_by_values: How many of those patients are left with how many diseases.
    """

    diversity_each: tuple[int, ...]
    classes_each: tuple[int, ...]
    diversity_linked: int
    patients_by_values: Mapping[int, int]

    @property
    def n_patients(self) -> int:
        """The patients who are in all releases."""
        return sum(self.patients_by_values.values())

    @property
    def n_exposed(self) -> int:
        """Patients who are left with exactly one disease."""
        return self.patients_by_values.get(1, 0)

    def n_below(self, ell: int) -> int:
        """Patients who are left with fewer than ell diseases."""
        return sum(number for left, number in self.patients_by_values.items() if left < ell)


@dataclass(frozen=True)
class DemoNumbers:
    """Everything the page shows."""

    ell: int
    n_hospitals: int
    n_records: int
    n_common: int
    promise: str
    conditions: tuple[str, ...]
    classes: Mapping[str, int | None]
    without: Side
    with_plan: Side
    frontier_records: tuple[int, ...]
    frontier_classes: Mapping[str, tuple[int | None, ...]]


def render_demo(numbers: DemoNumbers) -> str:
    """One self-contained HTML page: no script, no network, opens from the file system."""
    ell = numbers.ell
    sides = {"without": numbers.without, "with_plan": numbers.with_plan}
    highest = max(max(side.patients_by_values) for side in sides.values())
    pictures = {
        name: inline_svg(draw_patients(side.patients_by_values, ell, highest), name)
        for name, side in sides.items()
    }
    frontier = draw_frontier(
        numbers.frontier_records,
        numbers.frontier_classes,
        f"Classes against records (ℓ = {ell}, {numbers.n_hospitals} releases)",
    )
    return render("demo.html", numbers=numbers, pictures=pictures, frontier=inline_svg(frontier, "frontier"))
