"""Releases and audits one record and one combination at a time, from the files alone.

What is used of a plan or a manifest is what its JSON says: domains, and where the classes begin or lie.
"""

from collections import Counter
from itertools import chain, product
from itertools import combinations as subsets

from tests.oracles import paper
from tests.oracles.registration import leaf_of

MISSING = "(missing)"


def size(column):
    """The number of positions of a column."""
    if column["kind"] == "integers":
        values = len(range(column["low"], column["high"] + 1, column["width"]))
    else:
        values = len(column["values"])
    return values + (column["nulls"] == "category")


def position(column, cell):
    """The position of a cell; None if it has none."""
    if cell is None or cell == "":
        return size(column) - 1 if column["nulls"] == "category" else None
    if column["kind"] == "integers":
        inside = column["low"] <= int(cell) <= column["high"]
        return (int(cell) - column["low"]) // column["width"] if inside else None
    return column["values"].index(str(cell)) if str(cell) in column["values"] else None


def label(column, low, high):
    """What a release shows for a range of positions."""
    n_positions = size(column)
    n_values = n_positions - (column["nulls"] == "category")
    if low == 0 and high == n_positions - 1 > 0:
        return "*"
    if high == n_values:
        return MISSING if low == n_values else f"{label(column, low, n_values - 1)} or {MISSING}"
    if column["kind"] == "integers":
        first = column["low"] + low * column["width"]
        last = min(column["low"] + (high + 1) * column["width"] - 1, column["high"])
        if low < high and low == 0 and high < n_values - 1:
            return f"<={last}"
        if 0 < low < high == n_values - 1:
            return f"{first}+"
        return str(first) if first == last else f"{first}-{last}"
    values = column["values"][low : high + 1]
    if len(values) == 1:
        return values[0]
    return f"{values[0]}..{values[-1]}" if column["ordered"] else "{" + ", ".join(values) + "}"


def combinations(schema):
    """All combinations of positions of the quasi-identifiers, in lexicographic order."""
    return list(product(*(range(size(column)) for column in schema["quasi_identifiers"])))


def class_of(document):
    """The class of every combination, seen or not: {combination: class}."""
    classes = document["classes"]
    found = {}
    for rank, combination in enumerate(combinations(document["schema"])):
        if classes["shape"] == "runs":
            found[combination] = sum(start <= rank for start in classes["starts"]) - 1
        else:
            found[combination] = leaf_of(classes["attributes"], classes["places"], combination)
    return found


def class_labels(document):
    """The labels of every class: the smallest box around its combinations."""
    members = {}
    for combination, index in class_of(document).items():
        members.setdefault(index, []).append(combination)
    return {
        index: tuple(
            label(column, min(positions), max(positions))
            for column, positions in zip(
                document["schema"]["quasi_identifiers"], zip(*combinations, strict=True), strict=True
            )
        )
        for index, combinations in members.items()
    }


def combination_of(schema, row):
    """The positions of a record's quasi-identifiers; None if one has no place."""
    positions = tuple(position(column, row[column["name"]]) for column in schema["quasi_identifiers"])
    return None if None in positions else positions


def release(document, rows):
    """The rows that a release must hold: labels and sensitive value, with how often they occur."""
    schema = document["schema"]
    classes, labels = class_of(document), class_labels(document)
    shown = Counter()
    for row in rows:
        combination = combination_of(schema, row)
        value = row[schema["sensitive"][0]["name"]]
        if combination is not None and position(schema["sensitive"][0], value) is not None:
            shown[(*labels[classes[combination]], value)] += 1
    return shown


def fewest_in_any(documents, releases):
    """The fewest values left for anybody, whichever of the releases they are in."""
    numbers = range(len(releases))
    groups = chain.from_iterable(subsets(numbers, size) for size in range(1, len(releases) + 1))
    found = [
        link([documents[n] for n in group], [releases[n] for n in group], 1)["diversity_min"]
        for group in groups
    ]
    return min((number for number in found if number is not None), default=None)


def link(documents, releases, ell):
    """The audit, by looping over every combination of quasi-identifiers.

    Args:
        documents: For every release, its manifest or plan.
        releases: For every release, its rows: labels, then the sensitive value.
        ell: What to compare with.
    """
    values = sorted({row[-1] for rows in releases for row in rows})
    class_maps, tables = [], []
    for document, rows in zip(documents, releases, strict=True):
        number = {labels: index for index, labels in class_labels(document).items()}
        counted = Counter((number[tuple(row[:-1])], row[-1]) for row in rows)
        class_maps.append(class_of(document))
        tables.append([[counted[index, value] for value in values] for index in range(len(number))])
    linked = {}
    for combination in combinations(documents[0]["schema"]):
        key = tuple(classes[combination] for classes in class_maps)
        linked[key] = paper.linked_values(class_maps, tables, combination)
    left = [found for found in linked.values() if found]
    n_records = sum(sum(found.values()) for found in left)
    histogram = {}
    for found in left:
        bar = histogram.setdefault(len(found), [0, 0])
        bar[0] += 1
        bar[1] += sum(found.values())
    return {
        "ell": ell,
        "diversity_min": min(histogram, default=None),
        "classes_linked": len(left),
        "share_below": sum(n for d, (_, n) in histogram.items() if d < ell) / n_records if n_records else 0,
        "share_exposed": histogram.get(1, (0, 0))[1] / n_records if n_records else 0,
        "histogram": [
            {"diversity": d, "classes": c, "records": n} for d, (c, n) in sorted(histogram.items())
        ],
    }
