"""Boxes from their definitions: slow and obvious."""

import csv
import itertools
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

EDUCATION = [
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
]


@cache
def adult(*names):
    """Counts by combination and occupation, the positions of the combinations, and the domain sizes."""
    file = Path(__file__).parents[3] / "shared" / "data" / "adult.csv"
    if not file.exists():
        pytest.skip("The Adult data set is not at hand.")
    with file.open(newline="") as lines:
        records = list(csv.DictReader(lines))
    domains = {}
    for name in (*names, "occupation"):
        counts = Counter(record[name] for record in records)
        domains[name] = sorted(counts, key=lambda value, counts=counts: (-counts[value], value))
    if "education" in names:
        domains["education"] = EDUCATION
    if "age" in names:
        domains["age"] = sorted(domains["age"], key=int)
    places = {name: {value: place for place, value in enumerate(domains[name])} for name in domains}
    points = np.array([[places[name][record[name]] for name in names] for record in records])
    values = np.array([places["occupation"][record["occupation"]] for record in records])
    positions, row_of = np.unique(points, axis=0, return_inverse=True)
    table = np.zeros((len(positions), len(domains["occupation"])), dtype=np.int64)
    np.add.at(table, (row_of.ravel(), values), 1)
    return table, positions, tuple(len(domains[name]) for name in names)


def every_combination(sizes):
    return list(itertools.product(*map(range, sizes)))


def boxes_around(lows, highs, point):
    """All boxes that hold a point."""
    return [
        box
        for box, (low, high) in enumerate(zip(lows, highs, strict=True))
        if all(a <= x <= b for a, x, b in zip(low, point, high, strict=True))
    ]


def ncp(table, positions, sizes, class_of):
    """The definition, class by class and attribute by attribute."""
    total = table.sum()
    loss = 0.0
    for label in set(class_of.tolist()):
        members = [row for row in range(len(table)) if class_of[row] == label and table[row].sum() > 0]
        share = sum(table[row].sum() for row in members) / total
        for attribute, size in enumerate(sizes):
            places = [positions[row][attribute] for row in members]
            if places and size > 1:
                loss += share * (max(places) - min(places)) / (size - 1) / len(sizes)
    return loss


def chance_of_too_few(cells, ell, n_records):
    """The exact chance that a class has a record but shows fewer than ell values, by inclusion-exclusion."""
    outside = 1.0 - sum(cells)
    chance = 0.0
    for n_shown in range(1, ell):
        for shown in itertools.combinations(cells, n_shown):
            for n_kept in range(n_shown + 1):
                sign = (-1) ** (n_shown - n_kept)
                for kept in itertools.combinations(shown, n_kept):
                    chance += sign * (outside + sum(kept)) ** n_records
    return chance


def sibling_runs(levels):
    """All intervals that are a node or a run of siblings, from the tree written out."""
    runs = set()
    for groups, parents in itertools.pairwise(levels):
        for parent in set(parents):
            inside = [place for place in range(len(parents)) if parents[place] == parent]
            children = []
            for place in inside:
                if not children or groups[place] != groups[children[-1][0]]:
                    children.append([place])
                else:
                    children[-1].append(place)
            for first in range(len(children)):
                for last in range(first, len(children)):
                    runs.add((children[first][0], children[last][-1]))
    return runs


def most_guillotine_classes(table, positions, sizes, cost, budget, *, each):
    """The most classes of any guillotine partition whose costs (their sum, or each) keep the budget.

    Every box has a list: entry k is the smallest total cost of k + 1 classes. Cuts with an empty side are of
    no use: the empty side joins the other.
    """

    @cache
    def cheapest(lows, highs):
        inside = [
            row
            for row, point in enumerate(positions)
            if all(a <= x <= b for a, x, b in zip(lows, point, highs, strict=True))
        ]
        if not inside:
            return None
        whole = cost(table[inside].sum(axis=0))
        best = [whole if not each or whole <= budget else np.inf]
        for attribute in range(len(sizes)):
            for place in range(lows[attribute], highs[attribute]):
                below = cheapest(lows, (*highs[:attribute], place, *highs[attribute + 1 :]))
                above = cheapest((*lows[:attribute], place + 1, *lows[attribute + 1 :]), highs)
                if below is None or above is None:
                    continue
                for i, first in enumerate(below):
                    for j, second in enumerate(above):
                        best += [np.inf] * (i + j + 2 - len(best))
                        best[i + j + 1] = min(best[i + j + 1], first + second)
        return tuple(best)

    totals = cheapest((0,) * len(sizes), tuple(size - 1 for size in sizes))
    limit = np.inf if each else budget
    return max(k + 1 for k, total in enumerate(totals) if total <= limit and total < np.inf)
