"""Promises against their definitions: random columns x values and closeness x movers x updates.

A release is certified, and a ledger admits it, exactly if the definitions say so (`tests.oracles.promises`):
the union of what releases miss, the better of two counts for people who move, every way of coming and going,
and E in exact fractions. Whatever is admitted is linked, in every subset, and leaves what was promised.
"""

from random import Random

import numpy as np
import pytest
from tests.oracles import promises as oracle

from elldelta.core.certificate import certify
from elldelta.core.ledger_state import LedgerState
from elldelta.core.partition import Partition
from elldelta.core.promises import Close, Shown, Size, Values
from elldelta.core.updates import Groups, missed_witnesses
from elldelta.errors import RefusedError


def promises_of(plan):
    """The promises of a random plan, in the order of the oracle's verdicts."""
    promises, start = [], 0
    ranges = None if plan["ranges"] is None else np.array(plan["ranges"])
    for number, column in enumerate(plan["columns"]):
        where = {"column": f"column {number}", "start": start}
        if column["ell"]:
            promises.append(
                Values.of(
                    column["witnesses"],
                    column["n_values"],
                    ell=column["ell"],
                    releases=plan["releases"],
                    allowances=column["allowances"],
                    min_records=plan["min_records"],
                    ranges=ranges,
                    **where,
                )
            )
        if column["references"]:
            references = np.array(column["references"])
            promises.append(Close(references, column["limit"], plan["releases"], **where))
        start += column["n_values"]
    return (*promises, Size(plan["k"], slice(0, plan["columns"][0]["n_values"])))


def shown_of(release):
    table, group_of, left_out = release
    return Shown.of(
        table, Partition(group_of), np.array([group in left_out for group in range(max(group_of) + 1)])
    )


def sets(violations):
    return [set(np.flatnonzero(own).tolist()) for own in violations]


def check_certificate(plan, promises, release):
    """Theorems E and G for one release, promise by promise, and its words."""
    verdict, expected = certify(promises, shown_of(release)), oracle.failing(plan, release)
    assert sets(verdict.violations) == expected
    assert verdict.is_certified == (not any(expected))
    broken = [(one, own) for one, own in zip(promises, expected, strict=True) if own]
    assert len(verdict.reasons) == len(broken)
    for reason, (promise, own) in zip(verdict.reasons, broken, strict=True):
        assert f"{len(own)} of {plan['n_classes']} class" in reason
        assert isinstance(promise, Size) or promise.column in reason
    groups = {release[1][base] for base in set().union(*expected)}
    assert set(np.flatnonzero(verdict.failing_groups).tolist()) == groups
    missed = [set(np.flatnonzero(row).tolist()) for row in missed_witnesses(promises, shown_of(release))]
    starts = np.cumsum([0, *(column["n_values"] for column in plan["columns"])])
    for base, own in enumerate(missed):
        each = enumerate(oracle.missed(plan, release))
        assert own == {starts[place] + value for place, rows in each for value in rows[base]}


@pytest.mark.parametrize("seeds", [range(150), range(150, 300)])
def test_certified_and_admitted_exactly_by_the_definition(seeds):
    n_admitted = n_refused = n_linked = n_updates = 0
    for seed in seeds:
        random = Random(seed)
        plan = oracle.random_plan(random)
        promises = promises_of(plan)
        state, admitted, updated = LedgerState.empty(promises), [], {}
        for event in oracle.random_events(random, plan):
            release, shown = event["release"], shown_of(event["release"])
            check_certificate(plan, promises, release)
            update, then = None, updated
            if event["groups"] is not None:
                groups = Groups(*map(np.array, event["groups"]))
                update = event["owner"], groups.missed(promises, shown.grouping)
                then = {**updated, event["owner"]: [*updated.get(event["owner"], []), event["groups"]]}
            below = oracle.below(plan, [*admitted, release], then)
            assert sets(state.violations(shown, update)) == below
            fits_alone = certify(state.left(), shown).is_certified
            if any(below):
                n_refused += 1
                assert update is not None or not fits_alone  # what is left suffices
                with pytest.raises(RefusedError) as refusal:
                    (state if update is None else state.with_update(*update)).admit(shown)
                assert " class" not in refusal.value.found  # which promise, and no more
                continue
            state = (state if update is None else state.with_update(*update)).admit(shown)
            admitted, updated = [*admitted, release], then
            n_updates += update is not None
        n_admitted += len(admitted)
        assert state.n_releases == len(admitted)
        n_linked += oracle.check_linkage(plan, admitted)
    assert n_admitted > 100
    assert n_refused > 100
    assert n_linked > 150
    assert n_updates > 5


def test_what_the_next_release_must_show_suffices():
    """A fold of `after` never lets a release pass that a ledger would refuse."""
    n_passed = 0
    for seed in range(300):
        random = Random(seed)
        plan = oracle.random_plan(random)
        promises = promises_of(plan)
        asked, admitted = promises, []
        for event in oracle.random_events(random, plan):
            release = event["release"]
            if not certify(asked, shown_of(release)).is_certified:
                continue
            admitted.append(release)
            assert not any(oracle.below(plan, admitted, {}))
            asked = tuple(promise.after(shown_of(release)) for promise in asked)
            n_passed += 1
    assert n_passed > 200
