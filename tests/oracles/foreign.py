"""Releases whose classes overlap, nest and are suppressed, from the definition: every combination in turn.

Nothing here looks at how labels are parsed or cells are built: a label comes with the set of values that it
was written for.
"""

import itertools


def covering(classes, combination):
    """The classes (tuples of sets of values) that contain a combination."""
    return frozenset(
        number
        for number, sets in enumerate(classes)
        if all(value in allowed for value, allowed in zip(combination, sets, strict=True))
    )


def visible(classes, counts, combination, values):
    """What a release shows about a combination: the sum over all classes that contain it."""
    inside = covering(classes, combination)
    return tuple(sum(counts[number].get(value, 0) for number in inside) for value in values)


def cells(releases, domains):
    """Per combination that some class contains: which classes, of every release.

    Args:
        releases: Per release its classes, each a tuple of sets of values.
        domains: The values of each column.
    """
    found = {}
    for combination in itertools.product(*domains):
        key = tuple(covering(classes, combination) for classes in releases)
        if any(key):
            found[combination] = key
    return found


def left(releases, combination, values):
    """The sensitive values left for somebody with a combination who is in all releases."""
    shown = [visible(classes, counts, combination, values) for classes, counts in releases]
    return {value for place, value in enumerate(values) if all(row[place] > 0 for row in shown)}
