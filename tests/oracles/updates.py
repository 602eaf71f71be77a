"""The slow twin of Theorem I: every person, every way to come and go, from the definition, with sets."""

from itertools import combinations, product


def histories(n_updates, stays):
    """All ways to come and go: rising events ("join" or "leave", update), at most so many stays."""
    for begins_inside in (True, False):
        for n_events in range(n_updates + 1):
            for events in combinations(range(n_updates), n_events):
                kinds = [("join", "leave")[(place + begins_inside) % 2] for place in range(n_events)]
                n_stays = kinds.count("join") + begins_inside
                if 1 <= n_stays <= stays:
                    yield tuple(zip(kinds, events, strict=True))


def fewest_left(witnesses, whole, updates, *, at_once=1, stays=1):
    """How many witnesses are left at the worst for one base class.

    Args:
        witnesses: A, a set.
        whole: What each whole table misses, a list of sets.
        updates: Per owner a list of (joiners, leavers, stayers): what each group misses, sets.
        at_once: At how many owners somebody knows when a person came and went.
        stays: How often a person may have been there.
    """
    fewest = len(witnesses.difference(*whole))
    for owners in combinations(sorted(updates), min(at_once, len(updates))):
        for ways in product(*(list(histories(len(updates[owner]), stays)) for owner in owners)):
            left = witnesses.difference(*whole)
            for owner, events in zip(owners, ways, strict=True):
                left = left.difference(*(stayers for _, _, stayers in updates[owner]))
                for kind, at in events:
                    left = left - updates[owner][at][kind == "leave"]
            fewest = min(fewest, len(left))
    return fewest
