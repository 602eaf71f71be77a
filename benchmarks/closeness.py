"""Certified closeness on UCI Adult: what owners publish, what it costs, and how far any two of them lead.

Plans for t = 2 and N = 30,000 on (sex, race, marital-status, age, education), boxes, close to the class; four
owners drawn from the model, all pairs. The loss of an owner is the NCP of what it publishes plus what it
leaves out. Then owners who are not the past: a plan from one half of the people, and a release
of the other half, which is refused or not. Ratios: the furthest pair divided by T (at most 1: the promise
holds), the share of refused halves, loss and time with ell = 5 as well or instead.
"""

import time
from fractions import Fraction
from itertools import combinations

import numpy as np

from benchmarks._adult import ADULT, adult_table, owners
from benchmarks._publishing import by_class
from benchmarks._publishing import publish as publish_one
from benchmarks._result import Fact
from elldelta.core.certificate import certify
from elldelta.core.promises import Close, Shown
from elldelta.ledger.publish import release
from elldelta.ledger.verification import verify
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

QUASI_IDENTIFIERS = ("sex", "race", "marital-status", "age", "education")
RELEASES, RECORDS = 2, 30_000
LIMITS = (0.4, 0.25, 0.15)
N_HALVES = 20


def publish(made, model, tables):
    return [publish_one(made, by_class(made, model, table)) for table in tables]


def linked_distance(results, references):
    """The largest TV between linked shares and references, from linked records, not from Theorem G."""
    shares = references / references.sum(axis=1, keepdims=True)
    furthest = 0.0
    for pair in combinations(results, 2):
        shown = np.stack([item.shown.counts[item.grouping.class_of] for item in pair])
        there = (shown.sum(axis=2) > 0).all(axis=0)
        linked = shown.min(axis=0)[there]
        g = linked / np.maximum(1, linked.sum(axis=1, keepdims=True))
        furthest = max(furthest, float(0.5 * np.abs(g - shares[there]).sum(axis=1).max(initial=0.0)))
    return furthest


def admitted(made, model, limit, seed=100, most=200):
    """How many owners a ledger admits that spends what was really used, each publishing as the plan says."""
    left = Close(made.promises[0].references, limit)
    for number in range(most):
        (table,) = owners(model, 1, RECORDS, seed=seed + number)
        (item,) = publish(made, model, [table])
        if left.violation(item.shown).any():
            return number
        left = left.after(item.shown)
    return most


def timed(work, n=1):
    start = time.perf_counter()
    found = [work() for _ in range(n)][-1]
    return (time.perf_counter() - start) / n, found


def run():
    if not ADULT.exists():
        print("  closeness: skipped, adult.csv is not there")
        return
    table = adult_table()
    model = estimate(table, Schema.infer(table, QUASI_IDENTIFIERS, "occupation", widen={"age": "no"}))
    tables = owners(model, 4, RECORDS, seed=1)
    wish = {"releases": RELEASES, "records": RECORDS}
    plan(model, ell=5, closeness=0.4, **wish)  # compiles
    ell_seconds, diverse = timed(lambda: plan(model, ell=5, **wish))
    for limit in LIMITS:
        seconds, made = timed(lambda limit=limit: plan(model, closeness=limit, **wish))
        results = publish(made, model, tables)
        loss = np.mean([item.loss for item in results])
        classes = np.mean([item.shown.n_published for item in results])
        furthest = linked_distance(results, made.promises[0].references)
        n_admitted = admitted(made, model, Fraction(str(limit)), most=60)
        print(
            f"  T = {limit}: {made.n_classes} planned, "
            f"{classes:.0f} published, loss {loss:.4f}, left out "
            f"{np.mean([item.left_out for item in results]):.2%}, furthest pair "
            f"{furthest:.3f}, a ledger admits {n_admitted}, {seconds:.1f} s"
        )
        yield Fact(
            "closeness",
            {
                "T": limit, "classes": float(classes), "loss": float(loss),
                "furthest": furthest, "admitted": n_admitted,
            },
        )  # fmt: skip
        yield f"furthest pair / T, T = {limit}", furthest / limit, 1.0
        yield f"seconds of planning / for ell = 5, T = {limit}", seconds / ell_seconds, 3.0
        both = publish(plan(model, ell=5, closeness=limit, **wish), model, tables)
        more = np.mean([item.loss for item in both]) / loss
        print(f"    with ell = 5 as well: loss {np.mean([item.loss for item in both]):.4f}")
        yield f"loss with ell = 5 as well / without, T = {limit}", more, 1.1
        found = through_a_ledger(model, limit)
        print(f"    through a ledger that spends what was used: loss {found[0]:.4f}, {found[1]:.0f} classes")
        yield Fact("ledger", {"T": limit, "loss": float(found[0]), "classes": float(found[1])})
        n_refused = refused_halves(table, model.schema, limit)
        print(f"    {n_refused} of {N_HALVES} halves are refused under a plan from the other half")
        yield Fact("halves", {"T": limit, "refused": n_refused, "of": N_HALVES})
        yield f"share of halves refused, T = {limit}", n_refused / N_HALVES, 0.15
    near = plan(model, closeness=0.4, **wish)
    own = table.take(np.random.default_rng(1).integers(0, table.num_rows, RECORDS))
    seconds = {name: times(own, made) for name, made in (("near", near), ("diverse", diverse))}
    for place, name in enumerate(("release", "verify")):
        ratio = seconds["near"][place] / seconds["diverse"][place]
        yield f"seconds of {name} / for ell = 5", ratio, 1.2


def refused_halves(table, schema, limit):
    """How many halves of the people are refused under a plan that was made from the other half."""
    rng, n_refused = np.random.default_rng(5), 0
    for _ in range(N_HALVES):
        past, other = (
            estimate(table.take(rows), schema) for rows in np.array_split(rng.permutation(table.num_rows), 2)
        )
        made = plan(past, closeness=limit, releases=RELEASES, records=other.n_records)
        n_refused += not certify(
            made.promises, Shown.of(by_class(made, other, other.counts.dense()))
        ).is_certified
    return n_refused


def times(table, made):
    """Seconds to release a table and to verify the release; the best of five."""
    releases = [timed(lambda: release(table, made, leave_out=True)) for _ in range(5)]
    checks = [timed(lambda: verify(releases[0][1], made))[0] for _ in range(5)]
    return min(seconds for seconds, _ in releases), min(checks)


def through_a_ledger(model, limit, share=0.6, n_draws=4):
    """Mean loss and classes of two owners, the second of whom may use what the first has left of T.

    Both follow a plan for one release that may use a share of T: what two releases lack of a reference is
    less than what each of them lacks, added up.
    """
    made = plan(model, closeness=round(limit * share, 6), releases=1, records=RECORDS)
    tables, losses, classes = owners(model, 2 * n_draws, RECORDS, seed=1), [], []
    for draw in range(n_draws):
        (close, size), left = made.promises, Close(made.promises[0].references, Fraction(str(limit)))
        for table in tables[2 * draw : 2 * draw + 2]:
            item = publish_one(made, by_class(made, model, table), (close, size))
            left = close = left.after(item.shown)
            losses.append(item.loss)
            classes.append(item.shown.n_published)
    return np.mean(losses), np.mean(classes)
