"""Slow, obvious twins of promises and of a ledger that keeps them: random plans, releases and updates as
plain lists, and every verdict from the definition, with sets and exact fractions. Nothing of the package is
used.

A plan is a dictionary. A release is a table (rows of counts per base class, the values of the first column
and then those of the next), the published class of every base class, and those that are left out.
"""

from fractions import Fraction
from itertools import chain, combinations

from tests.oracles import certificate, updates
from tests.oracles.closeness import furthest_set, linked_counts, shares


def random_plan(random):
    """Random columns x values and closeness x movers, with ell, t, r and k."""
    n_classes, releases = random.randint(1, 3), random.randint(1, 3)
    ranges = [random.randrange(n_classes) for _ in range(n_classes)] if random.random() < 0.3 else None
    columns = []
    for _ in range(random.randint(1, 3)):
        n_values = random.randint(2, 4)
        what = random.choice(("values", "values", "both", "close" if ranges is None else "values"))
        ell = random.randint(1, n_values) if what == "values" else random.randint(2, n_values)
        column = {"n_values": n_values, "ell": None, "references": None}
        if what != "close":
            witnesses = [
                sorted(random.sample(range(n_values), random.randint(ell, n_values)))
                for _ in range(n_classes)
            ]
            allowances = [random.randint(0, (len(own) - ell) // releases) for own in witnesses]
            if random.random() < 0.7:
                allowances = [(len(own) - ell) // releases for own in witnesses]
            if ranges is not None:  # in common where people move
                first = [ranges.index(own) for own in ranges]
                witnesses, allowances = [witnesses[c] for c in first], [allowances[c] for c in first]
            column |= {"ell": ell, "witnesses": witnesses, "allowances": allowances}
        if what != "values":
            limit = Fraction(random.randint(1, 9), 10)
            references = [[random.randint(0, 4) for _ in range(n_values)] for _ in range(n_classes)]
            for row in references:
                row[random.randrange(n_values)] += 1
            column |= {"references": references, "limit": limit}
        columns.append(column)
    return {
        "n_classes": n_classes,
        "releases": releases,
        "min_records": random.randint(1, 2),
        "k": random.randint(1, 4),
        "ranges": ranges,
        "columns": columns,
    }


def random_table(random, plan, most=5):
    """Every record has one value of every column; some classes have no record."""
    table = []
    for _ in range(plan["n_classes"]):
        row = []
        n_records = random.choice((0, random.randint(1, most), 3 * most))
        for column in plan["columns"]:
            n_shown = random.randint(1, column["n_values"])
            drawn = [random.randrange(n_shown) for _ in range(n_records)]
            turn = random.randrange(column["n_values"])
            row += [
                sum((value + turn) % column["n_values"] == own for value in drawn)
                for own in range(column["n_values"])
            ]
        table.append(row)
    return table


def random_events(random, plan, most=5):
    """Releases in random order; some tables are published again, in the classes of the plan."""
    n_classes = plan["n_classes"]
    alone = tuple(range(n_classes))
    events = []
    for _ in range(random.randint(1, most)):
        owner = random.choice("abc")
        is_update = plan["ranges"] is None and random.random() < 0.3
        table = random_table(random, plan)
        group_of = alone if is_update else random.choice(list(certificate.groupings(n_classes)))
        left_out = {group for group in set(group_of) if random.random() < 0.1}
        event = {"owner": owner, "release": (table, group_of, left_out), "groups": None}
        if is_update:
            joiners, leavers = random_table(random, plan, 3), random_table(random, plan, 3)
            event["groups"] = (joiners, leavers, table)
            whole = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(joiners, table, strict=True)]
            event["release"] = (whole, alone, set())
        events.append(event)
    return events


def apart(plan, table):
    """A table cut into those of every column."""
    ends = [
        sum(column["n_values"] for column in plan["columns"][: n + 1]) for n in range(len(plan["columns"]))
    ]
    begins = [0, *ends[:-1]]
    return [[row[begin:end] for row in table] for begin, end in zip(begins, ends, strict=True)]


def missed(plan, release):
    """M(c) of every column: a set per base class."""
    table, group_of, left_out = release
    return [
        certificate.missed(column["witnesses"], own, group_of, left_out, plan["min_records"])
        if column["ell"]
        else [set() for _ in range(plan["n_classes"])]
        for column, own in zip(plan["columns"], apart(plan, table), strict=True)
    ]


def excess(reference, rows):
    """E of Theorem G, from the rows of the releases that show somebody."""
    pi, shown = shares(reference), [shares(row) for row in rows if sum(row)]
    return sum((max([Fraction(0), *(pi[s] - f[s] for f in shown)]) for s in range(len(pi))), Fraction(0))


def rows_of(plan, releases, place, base):
    """What releases show of a column in the published class of a base class."""
    return [
        certificate.shown(apart(plan, table)[place], group_of, left_out, group_of[base])
        for table, group_of, left_out in releases
    ]


def failing(plan, release):
    """Per promise of the plan the base classes that a release by itself would break: what it may miss of the
    witnesses of every column, how close to the references it stays, and the size of published classes."""
    found = []
    bases = range(plan["n_classes"])
    for place, (column, own) in enumerate(zip(plan["columns"], missed(plan, release), strict=True)):
        if column["ell"]:
            found.append({base for base in bases if len(own[base]) > column["allowances"][base]})
        if column["references"]:
            limit = column["limit"] / plan["releases"]
            found.append(
                {
                    base
                    for base in bases
                    if excess(column["references"][base], rows_of(plan, [release], place, base)) > limit
                }
            )
    sizes = [sum(rows_of(plan, [release], 0, base)[0]) for base in bases]
    found.append({base for base in bases if 0 < sizes[base] < plan["k"]})
    return found


def below(plan, admitted, updated):
    """Per promise that a ledger keeps, the base classes that all releases together would break.

    Args:
        plan: The plan.
        admitted: The releases.
        updated: Per owner the joiners, leavers and stayers of its updates, as tables.
    """
    alone, bases = tuple(range(plan["n_classes"])), range(plan["n_classes"])
    misses = [missed(plan, release) for release in admitted]
    found = []
    for place, column in enumerate(plan["columns"]):
        if column["ell"]:
            left = []
            for base in bases:
                whole = [own[place][base] for own in misses]
                groups = {
                    owner: [_group_misses(plan, groups, alone, place, base) for groups in own]
                    for owner, own in updated.items()
                }
                left.append(updates.fewest_left(set(column["witnesses"][base]), whole, groups))
            if plan["ranges"] is not None:
                left = [_left_to_movers(plan, [own[place] for own in misses], place, base) for base in bases]
            found.append({base for base in bases if left[base] < column["ell"]})
        if column["references"]:
            found.append(
                {
                    base
                    for base in bases
                    if excess(column["references"][base], rows_of(plan, admitted, place, base))
                    > column["limit"]
                }
            )
    return found


def _group_misses(plan, groups, alone, place, base):
    """What joiners, leavers and stayers miss; nothing in a class without a change."""
    own = [apart(plan, table)[place] for table in groups]
    if not any(map(sum, (own[0][base], own[1][base]))):
        return (set(), set(), set())
    witnesses = plan["columns"][place]["witnesses"]
    return tuple(certificate.missed(witnesses, table, alone, (), plan["min_records"])[base] for table in own)


def _left_to_movers(plan, misses, place, base):
    """The better of two counts: what no class of the range misses, or the worst class of every release."""
    witnesses, ranges = set(plan["columns"][place]["witnesses"][base]), plan["ranges"]
    inside = [other for other, own in enumerate(ranges) if own == ranges[base]]
    union = set().union(*(own[other] for own in misses for other in inside))
    by_number = sum(max(len(own[other]) for other in inside) for own in misses)
    return max(len(witnesses - union), len(witnesses) - by_number)


def check_linkage(plan, admitted):
    """Links every subset of admitted releases, column by column, and looks at everybody; returns how many."""
    n_linked = 0
    subsets = chain.from_iterable(combinations(admitted, n) for n in range(1, len(admitted) + 1))
    for subset in subsets:
        for place, column in enumerate(plan["columns"]):
            own = [(apart(plan, table)[place], group_of, out) for table, group_of, out in subset]
            if column["ell"] and plan["ranges"] is not None:
                fewest = certificate.fewest_on_any_path(own, plan["ranges"], plan["min_records"])
                assert fewest is None or fewest >= column["ell"]
            for base in range(plan["n_classes"]):
                left = certificate.linked(own, base, plan["min_records"])
                if left is None:
                    continue
                n_linked += 1
                if column["ell"]:
                    assert len(left) >= column["ell"]
                if column["references"]:
                    linked = shares(linked_counts(own, base))
                    assert furthest_set(linked, shares(column["references"][base])) <= column["limit"]
    return n_linked
