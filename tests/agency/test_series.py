"""Tables that are published again and registered: the same judgement as in a file, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from tests.agency.living_owners import LivingOwners
from tests.agency.registrations import Agency, full, make_plan, make_registration, make_update

import elldelta as ed
from elldelta.agency.admission import ledger_chain, ledger_export
from elldelta.agency.registration import Registration, registration_of
from elldelta.errors import ElldeltaError, FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, seal
from elldelta.ledger import Cells, verify_ledger


@pytest.fixture
def owners(living_owners):
    return living_owners


def again(owners, *names):
    """An agency to which only these were sent."""
    agency = Agency(owners.plan)
    for name in names:
        agency.register(owners.plan, owners.sent[name], name[0])
    return agency


def changed(registration, **update):
    """A registration that says something else about who came and went, sealed again."""
    return replace(registration, update=replace(registration.update, **update))


def test_lines_say_what_they_update_and_the_chain_holds(owners):
    entries = owners.entries
    assert [entry.update.updates for entry in entries.values()] == [None, None, 1, 3, 4]
    chain = ledger_chain(owners.plan, owners.agency.lines(owners.plan))
    assert len(chain.totals.missed[0].series.updates["a"]) == 3
    assert (chain.room >= 0).all()
    assert entries["a2"].suppressed  # somebody had to go at once: their classes are withheld
    changed_classes = {
        name: {*sent.update.came.classes, *sent.update.went.classes} if sent.update else set()
        for name, sent in owners.sent.items()
    }
    assert sum(map(len, changed_classes.values())) > 10
    assert changed_classes["a3"]


def test_a_file_judges_in_the_same_way(owners, tmp_path):
    """The first update through a ledger that is a file has the same misses in its line."""
    copy = LivingOwners.__new__(LivingOwners)
    copy.__dict__ |= owners.__dict__ | {"folder": tmp_path}
    path = tmp_path / "ledger"
    path.write_bytes(ledger_export(owners.plan, owners.agency.lines(owners.plan)[:-1]))
    (tmp_path / "a2.state.parquet").write_bytes(owners.state("a2").read_bytes())
    copy.made("a3", "a", "a2", ledger=ed.Ledger(path, "a"))
    (line,) = [entry for entry in verify_ledger(path).active if entry.sequence == 5]
    other = owners.entries["a3"]
    assert (line.misses, line.content_digest) == (other.misses, other.content_digest)
    for group in ("joiners", "leavers", "stayers", "updates"):
        assert getattr(line.update, group) == getattr(other.update, group)


def test_a_retry_adds_nothing_and_a_fork_is_refused(owners):
    agency = again(owners, "a0", "a1")
    assert not agency.register(owners.plan, owners.sent["a1"], "a").is_new
    with pytest.raises(RefusedError, match="not that of the last release") as refused:
        agency.register(owners.plan, owners.fork, "a")
    assert "used already" in refused.value.found
    agency = again(owners, "a0")
    assert agency.register(owners.plan, owners.fork, "a").is_new
    with pytest.raises(RefusedError, match="not that of the last release"):
        agency.register(owners.plan, owners.sent["a1"], "a")


def test_another_owners_update_and_one_of_nothing_are_refused(owners):
    agency = again(owners, "a0", "b0")
    with pytest.raises(RefusedError):
        agency.register(owners.plan, owners.sent["a1"], "b")
    with pytest.raises(RefusedError):
        again(owners).register(owners.plan, owners.sent["a1"], "a")


def test_what_shows_nothing_new_is_not_registered(owners):
    agency = again(owners, "a0")
    other = changed(owners.sent["a0"], state="sha256:" + "1" * 64)
    with pytest.raises(RefusedError, match="shows what one that you have registered shows"):
        agency.register(owners.plan, other, "a")


def test_a_table_that_is_published_again_cannot_stop_saying_so(owners):
    agency = again(owners, "a0")
    with pytest.raises(RefusedError):
        agency.register(owners.plan, replace(owners.sent["a1"], update=None), "a")


@pytest.mark.parametrize("name", ["came", "went"])
def test_who_came_and_went_must_add_up(owners, name):
    agency = again(owners, "a0")
    honest = owners.sent["a1"]
    told = getattr(honest.update, name)
    classes, values, counts = told.classes, told.values, told.counts
    with pytest.raises(ElldeltaError, match="add up"):
        agency.register(
            owners.plan, changed(honest, **{name: Cells(classes[1:], values[1:], counts[1:])}), "a"
        )
    most = counts.index(max(counts))
    more, fewer = list(counts), counts.index(max(counts[:most] + counts[most + 1 :]))
    more[most] += 1
    more[fewer] -= 1
    if more[fewer] and fewer != most:
        with pytest.raises(ElldeltaError, match="add up"):
            agency.register(owners.plan, changed(honest, **{name: Cells(classes, values, tuple(more))}), "a")


def test_a_class_that_was_withheld_is_compared_with_what_it_last_showed(owners):
    """Between a2, which withholds it, and a3 an owner cannot pretend that it was empty."""
    agency = again(owners, "a0", "a1", "a2")
    withheld = owners.entries["a2"].suppressed
    grouping = agency.entries[owners.plan.digest][-1].grouping.class_of
    honest = owners.sent["a3"]
    told = honest.update.went
    classes, values, counts = told.classes, told.values, told.counts
    hidden = set(grouping[list(withheld)].tolist())
    kept = [place for place, number in enumerate(classes) if number not in hidden]
    assert len(kept) < len(classes)  # otherwise nothing is tried
    lie = Cells(*(tuple(row[place] for place in kept) for row in (classes, values, counts)))
    with pytest.raises(ElldeltaError, match="add up"):
        agency.register(owners.plan, changed(honest, went=lie), "a")
    assert agency.register(owners.plan, honest, "a").is_new


def test_the_classes_of_a_series_are_those_of_the_plan():
    plan = make_plan()
    agency, first = Agency(plan), full(plan)
    agency.register(plan, make_update(plan, first, "one"), "a")
    merged, group_of = np.stack([first[0], first[1], first[2] + first[3]]), [0, 1, 2, 2]
    coarser = make_update(plan, merged + 2, "two", (merged, "one"), group_of)
    with pytest.raises(FileError, match="not follow the plan"):
        agency.register(plan, coarser, "a")
    moving = make_plan(moves=True)
    with pytest.raises(ElldeltaError):
        Agency(moving).register(moving, make_update(moving, first, "one"), "a")
    assert agency.register(plan, make_update(plan, first + 2, "two", (first, "one")), "a").is_new


@pytest.mark.parametrize(
    "update",
    [
        {"state": "x"},
        {"since": None},
        {"came": {"classes": [0], "values": [0], "counts": [0]}},
        {"came": {"classes": [1, 0], "values": [0, 0], "counts": [1, 1]}},
        {"came": {"classes": [0, 0], "values": [1, 1], "counts": [1, 1]}},
        {"came": {"classes": [-1], "values": [0], "counts": [1]}},
        {"came": {"classes": [0], "values": [-1], "counts": [1]}},
        {"came": {"classes": [0], "values": [0], "counts": [True]}},
        {"came": {"classes": [0], "values": [0], "counts": [2**53]}},
        {"came": {"classes": [0], "values": [0], "counts": []}},
        {"came": {"classes": []}},
        {"came": [[0], [0], [1]]},
        {"who": ["p1"]},
    ],
)
def test_an_update_that_cannot_be_one_is_refused(owners, update):
    honest = owners.sent["a1"].to_dict()
    content = {key: value for key, value in honest.items() if key not in ("kind", "format", "digest")}
    Registration.from_bytes(as_bytes(seal("registration", 1, content)))
    content["update"] = {**content["update"], **update}
    with pytest.raises(FileError):
        Registration.from_bytes(as_bytes(seal("registration", 1, content)))


def test_people_of_several_plans_are_not_published_again(owners):
    other = make_plan()
    agency = Agency(owners.plan, other)
    agency.register(owners.plan, owners.sent["a0"], "a")
    with pytest.raises(RefusedError, match="under one plan"):
        agency.register(other, make_registration(other, full(other)), "b")


def test_what_is_sent_names_nobody(owners):
    for registration in (*owners.sent.values(), owners.fork):
        assert b"canary" not in registration.to_bytes()
    assert b"canary" not in b"".join(owners.agency.lines(owners.plan))


def test_what_belongs_together_is_told(owners, tmp_path):
    release = owners.folder / "a1.parquet"
    with pytest.raises(ParameterError, match="with its state"):
        registration_of(release, owners.plan)
    for other in ("a0", "a3"):  # the states of the first time, and of another update
        with pytest.raises(FileError, match=r"do not agree|contradicts itself"):
            registration_of(release, owners.plan, state=owners.state(other))
    nothing = tmp_path / "nothing.parquet"
    nothing.write_bytes(b"PAR1")
    with pytest.raises(FileError, match="is not a state"):
        registration_of(release, owners.plan, state=nothing)
    with pytest.raises(FileError):
        registration_of(release, owners.plan, state=tmp_path / "missing.parquet")
