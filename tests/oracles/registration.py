"""Slow, obvious twin of the agency's decision, from the documents alone: plain loops over every combination.

A plan and a registration are JSON documents. Nothing of the package is used.
"""

from itertools import combinations, islice, product


def domain_size(column):
    return len(column["values"]) if column["kind"] == "categories" else column["high"] - column["low"] + 1


def people(plan):
    """Every combination of positions of the quasi-identifiers."""
    return product(*(range(domain_size(column)) for column in plan["schema"]["quasi_identifiers"]))


def base_class(plan, combination):
    """The class of a combination in the plan."""
    classes = plan["classes"]
    if classes["shape"] == "runs":
        rank = list(people(plan)).index(tuple(combination))
        return max(number for number, start in enumerate(classes["starts"]) if start <= rank)
    return leaf_of(classes["attributes"], classes["places"], combination)


def leaf_of(attributes, places, combination):
    """The leaf of a combination: walk down the cuts, which are written node, lower side, upper side."""

    def end(node):
        """The node behind everything below a node."""
        return node + 1 if attributes[node] < 0 else end(end(node + 1))

    node = 0
    while attributes[node] >= 0:
        is_below = combination[attributes[node]] <= places[node]
        node = node + 1 if is_below else end(node + 1)
    return sum(attribute < 0 for attribute in attributes[:node])


def witnesses_of(plan):
    """The witnesses of every base class, from the columns of the plan's file."""
    listed = iter(plan["columns"][0]["witnesses"]["values"])
    return [list(islice(listed, count)) for count in plan["columns"][0]["witnesses"]["counts"]]


def group_of(plan, registration):
    """The published class of every base class; published classes are numbered by their first base class."""
    first = list(range(len(plan["columns"][0]["witnesses"]["counts"])))
    for members in registration["merged"]:
        for member in members:
            first[member] = min(members)
    return [sorted(set(first)).index(own) for own in first]


def shown(plan, registration, base):
    """What the published class of a base class shows: records per value."""
    group = group_of(plan, registration)[base]
    cells = registration["cells"]
    found = {}
    for own, value, n in zip(cells["classes"], cells["values"], cells["counts"], strict=True):
        if own == group:
            found[value] = found.get(value, 0) + n
    return found


def missed(plan, registration, base):
    """M(c): the witnesses of a base class that its published class does not show with enough records."""
    counts = shown(plan, registration, base)
    if not counts:
        return set()
    return {value for value in witnesses_of(plan)[base] if counts.get(value, 0) < plan["min_records"]}


def is_certified(plan, registration):
    """Theorem E, with the largest allowances."""
    return all(
        len(missed(plan, registration, base))
        <= (len(witnesses) - plan["columns"][0]["ell"]) // plan["releases"]
        for base, witnesses in enumerate(witnesses_of(plan))
    )


def has_room(plan, registrations):
    """Theorem F: what no release misses is at least ell, in every base class."""
    return all(
        len(set(witnesses) - set().union(*(missed(plan, item, base) for item in registrations)))
        >= plan["columns"][0]["ell"]
        for base, witnesses in enumerate(witnesses_of(plan))
    )


def fewest_left(pairs, containing=None):
    """Over every person and every group of releases they can all be in: the values left, less the promise.

    `pairs` are plans and registrations. The promise is the largest of the plans in the group; a value counts
    with as many linked records as that plan says. `containing` asks only about groups with one release.
    """
    worst = None
    n_values = domain_size(pairs[0][0]["schema"]["sensitive"][0])
    for combination in people(pairs[0][0]):
        tables = [shown(plan, item, base_class(plan, combination)) for plan, item in pairs]
        for size in range(1, len(pairs) + 1):
            for group in combinations(range(len(pairs)), size):
                if containing is not None and containing not in group:
                    continue
                smallest = [min(tables[j].get(value, 0) for j in group) for value in range(n_values)]
                if not any(smallest):
                    continue  # nobody with this combination can be in all of them
                for plan in [pairs[j][0] for j in group]:
                    left = sum(n >= plan["min_records"] for n in smallest)
                    margin = left - plan["columns"][0]["ell"]
                    worst = margin if worst is None else min(margin, worst)
    return worst
