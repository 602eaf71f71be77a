"""The arena's rivals from PyPI, each owner by itself: anonypyx's Mondrian and anjana's l-diversity.

Every draw is made by a twin of the peer's algorithm (`_arena_twins`). On a part of the first draw the peer
itself makes all settings, too, in one process per tool and table: classes must be the same, and its time is
the one shown.
"""

import numpy as np

from benchmarks._arena_attacks import Published, naming
from benchmarks._arena_data import N_OWNERS
from benchmarks._arena_methods import Recoding, Try, certain_values, levels, promise_of
from benchmarks._arena_twins import anjana, mondrian, named_by
from benchmarks._processes import run_peer

SUPPRESSED = 5
"""Per cent of the records that anjana may leave out."""
SIZES = (10, 20, 40, 80)
"""Least class sizes that are tried besides, with the number of values that is asked for."""
NAMES = {"anonypyx": "Mondrian (anonypyx)", "anjana": "anjana"}


def settings(source):
    """Pairs of k and least number of values."""
    certain = certain_values(source.n_values, source.ell, N_OWNERS)
    return [(source.ell, source.ell), *((k, source.ell) for k in SIZES), (certain, certain)]


def peer_tries(tool, drawn, seconds=None):
    """What the twin of a tool makes of a draw; `seconds` are the peer's own, per setting."""
    source = drawn.source
    for number, (k, least) in enumerate(settings(source)):
        releases = [release(tool, source, drawn.owner(owner), k, least) for owner in range(N_OWNERS)]
        words = f"{least} values" if k == least else f"{least} values, {k} records"
        made = None if None in releases else releases
        spent = float("nan") if seconds is None else seconds[number]
        yield Try(NAMES[tool], words, promise_of(least, source, N_OWNERS), made, spent)


def release(tool, source, people, k, least):
    """One owner's release; None where the tool finds nothing."""
    if tool == "anonypyx":
        is_category = [not is_long for is_long in source.is_long]
        class_of = mondrian(people.points, people.values, k, least, is_category)
        named = named_by(class_of, people.points, source.sizes, is_category)
        counts = np.zeros((len(named[0]), source.n_values), dtype=np.int64)
        np.add.at(counts, (class_of, people.values), 1)
        return Published(named, counts, naming(named), len(people))
    widths = [levels(size) for size in source.sizes]
    found = anjana(people.points, people.values, k, least, SUPPRESSED, widths)
    if found is None:
        return None
    chosen, shown = found
    part = Recoding(chosen, source.sizes).publish(people.take(shown), source.n_values, 1)
    return Published(part.named, part.counts, part.find, len(people))


def check_twin(tool, drawn, folder):
    """Runs the peer itself: its processor time per setting, and in how many releases the twin differs."""
    source, jobs = drawn.source, []
    for owner in range(N_OWNERS):
        people = drawn.owner(owner)
        np.save(folder / f"{owner}.npy", np.column_stack([people.points, people.values]))
    for k, least in settings(source):
        for owner in range(N_OWNERS):
            output = folder / f"{len(jobs)}.npz"
            about = {"table": str(folder / f"{owner}.npy"), "output": str(output)}
            jobs.append({**about, "k": k, "ell": least})
    answer = run_peer(
        "partitions",
        tool=tool,
        jobs=jobs,
        suppressed=SUPPRESSED,
        sizes=source.sizes,
        levels=[levels(size) for size in source.sizes],
        categories=[not is_long for is_long in source.is_long],
    )
    answers = answer.get("answers") or [answer] * len(jobs)
    n_different, seconds = 0, []
    for number, (job, found) in enumerate(zip(jobs, answers, strict=True)):
        people = drawn.owner(number % N_OWNERS)
        twin = release(tool, source, people, job["k"], job["ell"])
        if "problem" in found or twin is None:
            n_different += not ("problem" in found and twin is None)
            continue
        n_different += as_text(twin) != as_text(from_classes(np.load(job["output"]), people, source))
    for number in range(len(settings(source))):
        own = answers[number * N_OWNERS : (number + 1) * N_OWNERS]
        seconds.append(sum(each.get("seconds", float("nan")) for each in own))
    return seconds, n_different


def from_classes(made, people, source):
    """A release from the class of every record, -1 for those left out, and what the classes name."""
    class_of, named = made["class_of"], [made[f"q{column}"] for column in range(len(source.sizes))]
    counts = np.zeros((len(named[0]), source.n_values), dtype=np.int64)
    shown = class_of >= 0
    np.add.at(counts, (class_of[shown], people.values[shown]), 1)
    return Published(named, counts, naming(named), len(people))


def as_text(release):
    """The classes of a release in an order of their own, to be compared."""
    rows = np.concatenate([*release.named, release.counts], axis=1)
    return sorted(map(tuple, rows.astype(np.int64).tolist()))
