"""The slow twin of Theorem I: every person, every way to come and go, from the definition, with sets."""

from itertools import combinations


def histories(n_updates):
    """All ways to come and go once: who was there before, or came, and stayed, or went later."""
    yield ()
    yield from (((kind, at),) for kind in ("join", "leave") for at in range(n_updates))
    yield from ((("join", came), ("leave", went)) for came, went in combinations(range(n_updates), 2))


def fewest_left(witnesses, whole, updates):
    """How many witnesses are left at the worst for one base class.

    Args:
        witnesses: A, a set.
        whole: What each whole table misses, a list of sets.
        updates: Per owner a list of (joiners, leavers, stayers): what each group misses, sets.
    """
    fewest = len(witnesses.difference(*whole))
    for own in updates.values():
        for events in histories(len(own)):
            left = witnesses.difference(*whole, *(stayers for _, _, stayers in own))
            for kind, at in events:
                left = left - own[at][kind == "leave"]
            fewest = min(fewest, len(left))
    return fewest
