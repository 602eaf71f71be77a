"""What an agency admits: honest owners, and owners that lie about everything."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.agency.registrations import (
    DIAGONAL,
    NONCE,
    REGIONS,
    SEAL,
    SIZES,
    Agency,
    context_of,
    forged,
    full,
    make_plan,
    make_registration,
    plain,
    resealed,
)
from tests.oracles import registration as oracle
from tests.switch import quick_or_all
from tests.trees import random_tree

import elldelta as ed
from elldelta.agency.admission import (
    LedgerDamagedError,
    Registered,
    check_registration,
    ledger_chain,
    ledger_export,
)
from elldelta.agency.linking import PlanReleases
from elldelta.agency.registration import Registration, registration_of, validate_registration
from elldelta.errors import FileError, InputError, ParameterError, RefusedError
from elldelta.files import PrivateKey
from elldelta.ledger.ledger import verify_ledger
from elldelta.ledger.state import MOST_RECORDS
from elldelta.schema.schema import Schema

PLAN = make_plan()
MOVING = make_plan(moves=True)
"""The same classes: the first one, and beside it the second beside the other two."""


def admits(plan, document, entries=(), owner="A"):
    """What a server does with a document from the network."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    examined = validate_registration(plan, Registration.from_bytes(content), owner=owner)
    past = context_of(plan, examined, owner, entries)
    return check_registration(examined, past, owner=owner, nonce=NONCE)


class TestAdmission:
    def test_an_honest_release_gets_the_next_line(self, tmp_path):
        agency = Agency(PLAN)
        first = agency.register(PLAN, make_registration(PLAN, full(PLAN, (0, 1))), "A")
        second = agency.register(PLAN, make_registration(PLAN, full(PLAN, (1, 2))), "B")
        assert (first.entry.sequence, second.entry.sequence) == (1, 2)
        assert first.entry.misses == ((0, 1),)
        assert first.entry.certified
        exported = tmp_path / "export.ledger"
        exported.write_bytes(ledger_export(PLAN, agency.lines(PLAN)))
        report = verify_ledger(
            exported, plan_digest=PLAN.digest, promises=PLAN.promises, head=first.entry.hash
        )
        assert report.owners == ("A", "B")
        assert report.head == second.entry.hash

    def test_the_union_of_misses_decides(self):
        agency = Agency(PLAN)
        for number, owner in enumerate("ABCD"):
            agency.register(PLAN, make_registration(PLAN, full(PLAN, (2, number))), owner)
        before = agency.lines(PLAN)
        with pytest.raises(RefusedError, match="Together with the releases in the ledger") as refusal:
            agency.register(PLAN, make_registration(PLAN, full(PLAN, (2, 4))), "E")
        assert refusal.value.found == "Too few of the values of 'disease' that the plan counts on."
        assert refusal.value.remedy
        assert agency.lines(PLAN) == before
        agency.register(PLAN, make_registration(PLAN, full(PLAN, (1, 4))), "E")

    def test_the_same_again_is_the_same_line(self):
        agency = Agency(PLAN)
        registration = make_registration(PLAN, full(PLAN, (0, 1)))
        first = agency.register(PLAN, registration, "A")
        again = agency.register(PLAN, registration, "A")
        assert not again.is_new
        assert again.entry == first.entry
        assert len(agency.lines(PLAN)) == 1

    def test_the_release_of_another_owner_is_no_release_of_ones_own(self):
        agency = Agency(PLAN)
        registration = make_registration(PLAN, full(PLAN, (0, 1)))
        agency.register(PLAN, registration, "A")
        with pytest.raises(RefusedError, match="Another owner"):
            agency.register(PLAN, registration, "B")

    def test_an_owner_publishes_once(self):
        agency = Agency(MOVING)
        agency.register(MOVING, make_registration(MOVING, full(MOVING)), "A")
        merged = make_registration(MOVING, [[3] * 6] * 3, [0, 1, 2, 2])
        with pytest.raises(RefusedError, match="published under this plan before"):
            agency.register(MOVING, merged, "A")
        agency.register(MOVING, merged, "B")
        with pytest.raises(RefusedError, match="published under this plan before"):
            agency.register(MOVING, make_registration(MOVING, [[4] * 6] * 3, [0, 1, 2, 2]), "B")

    def test_a_release_that_does_not_pass_its_certificate(self):
        counts = full(PLAN, (0, 0), (0, 1), (0, 2))  # may miss (6 - 2) // 2 = 2
        with pytest.raises(RefusedError, match="certificate"):
            Agency(PLAN).register(PLAN, make_registration(PLAN, counts), "A")

    def test_fewer_records_than_planned_are_enough_for_a_certificate(self):
        plan = make_plan(records=10_000)
        assert Agency(plan).register(plan, make_registration(plan, full(plan, n=1)), "A").is_new

    def test_a_release_of_nobody(self):
        with pytest.raises(RefusedError, match="without a record"):
            Agency(PLAN).register(PLAN, make_registration(PLAN, 0 * full(PLAN)), "A")

    @pytest.mark.parametrize("owner", ["", " A", "A\n", "\x1b[31mA", "x" * 201])
    def test_owners_without_a_proper_name(self, owner):
        with pytest.raises(ParameterError):
            Agency(PLAN).register(PLAN, make_registration(PLAN, full(PLAN)), owner)

    def test_what_an_owner_sends_about_a_real_release(self, tmp_path):
        rng = np.random.default_rng(3)
        table = {
            "age": rng.integers(30, 34, 1_200),
            "region": np.array(["e", "n", "w"])[rng.integers(0, 3, 1_200)],
            "disease": np.array([f"d{number}" for number in range(6)])[rng.integers(0, 6, 1_200)],
        }
        path = tmp_path / "release.parquet"
        ed.release(pa.table(table), PLAN, to=path)
        registration = registration_of(path, PLAN)
        assert registration.n_records == 1_200
        assert Agency(PLAN).register(PLAN, registration, "A").is_new
        with pytest.raises(FileError, match="another plan"):
            registration_of(path, make_plan(records=11))


class TestRealOwners:
    """Releases as owners make them, with fixed classes and with moving ones, read back from their files."""

    @pytest.mark.parametrize("kind", ["certified", "moving", "probabilistic"])
    def test_what_is_admitted_leaves_ell(self, tmp_path, kind):
        fine, coins = {"kind": kind}, {}
        if kind == "moving":
            fine, coins = {"merge_risk": 0.2}, {"key": PrivateKey.create()}
        model = ed.estimate(
            hospital(20_000, 0), Schema.infer(hospital(20_000, 0), ["age\nof", "zip"], "disease")
        )
        plan = ed.plan(model, ell=3, releases=2, records=2_000, **fine)
        agency, admitted, n_together = Agency(plan), [], 0
        for number in range(1, 6):
            path = tmp_path / f"release_{number}.parquet"
            if kind == "moving":
                coins["announced"] = f"owner {number}"
            try:
                manifest = ed.release(hospital(2_000, number), plan, to=path, **coins).manifest
                agency.register(plan, registration_of(path, plan), f"owner {number}")
            except RefusedError:
                continue
            admitted.append(path)
            n_together += (manifest.moving or {}).get("classes_together", 0)
        if kind == "probabilistic":
            assert len(admitted) == plan.releases
        else:
            assert len(admitted) > plan.releases
        assert (n_together > 0) == (kind == "moving")
        assert ed.audit(admitted).diversity_min_any >= plan.columns[0].ell
        chain = ledger_chain(plan, agency.lines(plan))
        assert len(chain.active) == len(admitted)


def hospital(n_people, seed):
    """Records; a column has a name that nobody should have to print."""
    rng = np.random.default_rng(seed)
    chances = 0.8 ** np.arange(8) / sum(0.8 ** np.arange(8))
    return pa.table(
        {
            "age\nof": rng.integers(20, 60, n_people),
            "zip": np.array(["n", "s", "e", "w"])[rng.integers(0, 4, n_people)],
            "disease": np.array([f"d{number}" for number in range(8)])[rng.choice(8, n_people, p=chances)],
        }
    )


class TestProbabilisticPlans:
    plan = make_plan(kind="probabilistic", records=30)

    def test_t_releases_and_not_one_more(self):
        agency = Agency(self.plan)
        for number, owner in enumerate("AB"):
            agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, number))), owner)
        with pytest.raises(RefusedError, match="about 2 releases"):
            agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, 2))), "C")
        again = make_registration(self.plan, full(self.plan, (0, 1)))
        assert not agency.register(self.plan, again, "B").is_new

    def test_the_planned_number_of_records(self):
        few = make_registration(self.plan, full(self.plan, n=1))
        assert few.n_records < self.plan.records
        with pytest.raises(RefusedError, match="fewer records"):
            Agency(self.plan).register(self.plan, few, "A")

    def test_the_planned_classes(self):
        merged = make_registration(self.plan, [[9] * 6] * 3, [0, 1, 2, 2])
        with pytest.raises(FileError, match="not follow the plan"):
            Agency(self.plan).register(self.plan, merged, "A")

    def test_no_release_misses_more_than_its_share(self):
        """Whatever the others miss: an answer that looked at them would tell it."""
        agency = Agency(self.plan)
        agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, 0), (0, 1))), "A")
        with pytest.raises(RefusedError, match="asks of every release"):
            agency.register(
                self.plan, make_registration(self.plan, full(self.plan, (0, 0), (0, 1), (0, 2))), "B"
            )
        agency.register(self.plan, make_registration(self.plan, full(self.plan, (0, 2), (0, 3))), "B")


GOOD = make_registration(PLAN, full(PLAN, (0, 1)))
CELLS = plain(GOOD)["cells"]


def changed_cell(name, place, value):
    numbers = list(CELLS[name])
    numbers[place] = value
    return {name: numbers}


class TestLies:
    """Documents that somebody has made up and sealed, so that every digest fits."""

    def test_the_tools_of_these_tests_make_good_ones_too(self):
        assert admits(PLAN, forged(GOOD)).entry.misses == ((0, 1),)

    @pytest.mark.parametrize(
        "cells",
        [
            changed_cell("counts", 0, -1),
            changed_cell("counts", 0, 0),
            changed_cell("counts", 0, 2**53),
            changed_cell("counts", 0, 2**63),
            changed_cell("counts", 0, 2**64 + 3),
            changed_cell("counts", 0, 10**4000),
            {"counts": [MOST_RECORDS] * len(CELLS["counts"])},
            changed_cell("counts", 0, 3.0),
            changed_cell("counts", 0, 1.5),
            changed_cell("counts", 0, True),
            changed_cell("counts", 0, "3"),
            changed_cell("counts", 0, None),
            changed_cell("counts", 0, [3]),
            changed_cell("counts", 0, 4),
            changed_cell("classes", 0, -1),
            changed_cell("classes", -1, 4),
            changed_cell("classes", -1, 2**62),
            changed_cell("values", 0, -1),
            changed_cell("values", -1, 6),
            changed_cell("values", 1, 0),
            {name: CELLS[name][:-1] for name in CELLS},
            {name: [*CELLS[name], CELLS[name][-1]] for name in CELLS},
            {name: CELLS[name][::-1] for name in CELLS},
            {"classes": CELLS["classes"][:-1]},
            {"classes": {}},
            {"more": []},
            {"counts": None},
            {name: [] for name in CELLS},
        ],
        ids=lambda cells: str(cells)[:60],
    )
    def test_counts_that_are_none_or_have_another_digest(self, cells):
        with pytest.raises(InputError):
            admits(PLAN, forged(GOOD, cells={**CELLS, **cells}))

    @pytest.mark.parametrize(
        "top",
        [
            {"plan_digest": make_plan(records=11).digest},
            {"plan_digest": "sha256:0"},
            {"plan_digest": None},
            {"content_digest": "sha256:" + "0" * 64},
            {"content_digest": 7},
            {"merged": None},
            {"merged": {}},
            {"merged": [[]]},
            {"merged": [[2]]},
            {"merged": [2, 3]},
            {"merged": [[2, 3]]},  # the counts are those of four classes
            {"merged": [[2, 3.0]]},
            {"merged": [[2, -1]]},
            {"merged": [[2, 4]]},
            {"merged": [[2, 2**70]]},
            {"merged": [[2, 3], [3, 1]]},
            {"merged": [[2, True]]},
            {"manifest": {}},
            {"a_secret": "that the server would store"},
        ],
        ids=lambda top: str(top)[:60],
    )
    def test_fields_that_lie(self, top):
        with pytest.raises(InputError):
            admits(PLAN, forged(GOOD, **top))

    def test_merged_classes_have_one_order(self):
        plan = make_plan(
            boxes=tuple(((age, place), (age + 1, 2 * place)) for age in (0, 2) for place in (0, 1)),
            moves=True,
        )
        both = make_registration(plan, [[6] * 6] * 2, [0, 0, 1, 1])
        assert plain(both)["merged"] == [[0, 1], [2, 3]]
        assert admits(plan, plain(both)).is_new
        for merged in ([[2, 3], [0, 1]], [[1, 0], [2, 3]]):
            with pytest.raises(FileError):
                admits(plan, forged(both, merged=merged))

    def test_classes_that_are_fixed_are_not_put_together(self):
        node = make_registration(MOVING, [[5] * 6] * 3, [0, 1, 2, 2])
        assert admits(MOVING, plain(node)).is_new
        with pytest.raises(FileError, match="not follow the plan") as refused:
            admits(PLAN, forged(node, plan_digest=PLAN.digest))
        assert "the plan's classes as they are" in refused.value.found
        assert refused.value.remedy

    def test_classes_that_move_are_nodes_of_the_tree(self):
        """Boxes 0 and 3, whose hull covers the others; and boxes 1 and 2, which lie side by side."""
        for group_of in ([0, 1, 2, 0], [0, 1, 1, 2]):
            forbidden = make_registration(PLAN, [[5] * 6] * 3, group_of)
            with pytest.raises(FileError, match="not follow the plan") as refused:
                admits(MOVING, forged(forbidden, plan_digest=MOVING.digest))
            assert "nodes of the plan's tree" in refused.value.found
            assert refused.value.remedy

    def test_a_release_of_a_weaker_plan(self):
        """Made and certified under a plan with ell = 1, sealed again under the name of ours."""
        weak = make_plan(ell=1, releases=1)
        counts = full(weak, (0, 0), (0, 1), (0, 2), (0, 3))
        registration = make_registration(weak, counts)
        assert admits(weak, plain(registration)).is_new
        with pytest.raises(FileError, match="another plan"):
            admits(PLAN, plain(registration))
        with pytest.raises(RefusedError, match="certificate"):
            admits(PLAN, forged(registration, plan_digest=PLAN.digest))


def leaves_below(attributes, node=0, first=0):
    """The leaves below every node from one on: walk down the cuts, written node, lower side, upper side."""
    if attributes[node] < 0:
        return [range(first, first + 1)], node + 1
    lower, upper = leaves_below(attributes, node + 1, first)
    n_lower = len(lower[0])
    higher, end = leaves_below(attributes, upper, first + n_lower)
    return [range(first, first + n_lower + len(higher[0])), *lower, *higher], end


@settings(max_examples=quick_or_all(60, 200))
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_only_nodes_of_the_tree_are_published_and_only_where_classes_move(seed, moves):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, SIZES, most_leaves=6)
    plan = make_plan(tree=tree, ell=1, releases=1, moves=moves)
    group_of = np.arange(plan.n_classes)
    for _ in range(rng.integers(0, 3)):  # some classes that follow each other, or any two
        one, other = np.sort(rng.choice(group_of, 2))
        is_there = np.isin(group_of, [one, other])
        group_of[is_there | ((group_of > one) & (group_of < other) & (rng.random() < 0.7))] = one
    group_of = np.unique(group_of, return_inverse=True)[1]
    classes = [frozenset(np.flatnonzero(group_of == number).tolist()) for number in range(group_of.max() + 1)]
    nodes = {frozenset(own) for own in leaves_below(tree.attributes.tolist())[0]}
    fixed = make_plan(tree=tree, ell=1, releases=1)
    sent = forged(make_registration(fixed, [[5] * 6] * len(classes), group_of), plan_digest=plan.digest)
    if all(len(own) == 1 or (moves and own in nodes) for own in classes):
        assert admits(plan, sent).is_new
    else:
        with pytest.raises(FileError, match="not follow the plan"):
            admits(plan, sent)


class TestDocuments:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"null",
            b"[]",
            b'"text"',
            b"{",
            b"\xff\xfe{}",
            b"{}",
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"kind":"elldelta registration","format":1,"cells":NaN}',
            b'{"kind":"elldelta registration","format":1e999}',
            b'{"n":' + b"9" * 5000 + b"}",
            b'{"kind":"elldelta plan","kind":"elldelta registration"}',
        ],
        ids=lambda content: repr(content[:40]),
    )
    def test_what_is_no_document(self, content):
        with pytest.raises(FileError):
            Registration.from_bytes(content)

    def test_a_document_that_can_be_read_in_two_ways(self):
        """The second key would win here, the first one elsewhere."""
        content = GOOD.to_bytes()
        doubled = content.replace(b'{"cells":', b'{"kind":"elldelta plan","cells":', 1)
        assert json.loads(doubled) == json.loads(content)
        with pytest.raises(FileError, match="not a registration"):
            Registration.from_bytes(doubled)

    @pytest.mark.parametrize("depth", [3, 100, 400, 900])
    def test_nested_deeper_than_anything_of_ours(self, depth):
        nested = 0
        for _ in range(depth):
            nested = [nested]
        for document in (
            {**plain(GOOD), "more": nested},
            {**plain(GOOD), "cells": nested},
            {**plain(GOOD), "merged": nested},
        ):
            with pytest.raises(FileError):
                admits(PLAN, document)

    def test_deep_nesting_under_digests_that_fit(self):
        nested = 0
        for _ in range(150):
            nested = {"a": nested}
        with pytest.raises(FileError):
            admits(PLAN, forged(GOOD, merged=nested))

    @pytest.mark.parametrize(
        "changes",
        [{"format": 2}, {"format": 0}, {"format": True}, {"format": 1.0}, {"kind": "elldelta plan"}],
        ids=repr,
    )
    def test_other_versions_and_kinds(self, changes):
        with pytest.raises(FileError):
            admits(PLAN, resealed({**plain(GOOD), **changes}))

    def test_one_key_too_many_or_too_few(self):
        with pytest.raises(FileError):
            admits(PLAN, forged(GOOD, note="x"))
        for name in plain(GOOD):
            document = plain(GOOD)
            del document[name]
            with pytest.raises(FileError):
                admits(PLAN, document)

    @settings(max_examples=quick_or_all(60, 120))
    @given(st.data())
    def test_every_changed_byte_is_noticed_or_means_the_same(self, data):
        content = bytearray(GOOD.to_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
        try:
            admission = admits(PLAN, bytes(content))
        except InputError:
            return
        assert admission.entry.content_digest == GOOD.content_digest

    def test_it_survives_the_network(self):
        again = Registration.from_bytes(GOOD.to_bytes())
        assert again.digest == GOOD.digest
        assert again.to_bytes() == GOOD.to_bytes()
        assert again.n_records == GOOD.n_records


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=quick_or_all(80, 160))
@given(st.data())
def test_any_field_may_hold_anything(data):
    """Whatever stands anywhere, under digests that fit: it changes nothing, or is refused politely."""
    value, name = data.draw(JSON_VALUES), data.draw(st.sampled_from([*sorted(CELLS), *sorted(plain(GOOD))]))
    assume(name not in SEAL)
    lie = forged(GOOD, cells={**CELLS, name: value}) if name in CELLS else forged(GOOD, **{name: value})
    try:
        admission = admits(PLAN, lie)
    except (InputError, RefusedError):
        return
    assert admission.entry.content_digest == GOOD.content_digest
    assert admission.entry.misses == ((0, 1),)


class TestDamagedLedger:
    @pytest.fixture
    def entries(self):
        agency = Agency(PLAN)
        for number, owner in enumerate("ABC"):
            agency.register(PLAN, make_registration(PLAN, full(PLAN, (1, number))), owner)
        return agency.entries[PLAN.digest]

    def check(self, entries):
        """A population with several plans: what is left is made from the counts, too."""
        ledger_chain(PLAN, [item.line for item in entries])
        PlanReleases.of(PLAN, entries)
        return admits(PLAN, GOOD.to_bytes(), entries, owner="D")

    def test_intact(self, entries):
        assert self.check(entries).entry.sequence == 4

    @pytest.mark.parametrize(
        "damage",
        [
            lambda e: [e[0], e[2]],
            lambda e: [e[1], e[2]],
            lambda e: [e[0], e[2], e[1]],
            lambda e: [e[0], e[0], e[1], e[2]],
            lambda e: [*e[:2], replaced(e[2], line=e[2].line.replace(b'"C"', b'"X"'))],
            lambda e: [*e[:2], replaced(e[2], line=e[2].line[:-1])],
            lambda e: [*e[:2], replaced(e[2], line=e[2].line[:-9])],
            lambda e: [*e[:2], replaced(e[2], line=b"\n")],
            lambda e: [*e[:2], replaced(e[2], line=b"")],
            lambda e: [*e[:2], replaced(e[2], owner="X")],
            lambda e: [*e[:2], replaced(e[2], counts=e[1].counts)],
            lambda e: [*e[:2], replaced(e[2], counts=e[2].counts + 1)],
            lambda e: [*e[:2], replaced(e[2], counts=e[2].counts[1:])],
        ],
    )
    def test_nothing_is_admitted_to_a_damaged_ledger(self, entries, damage):
        with pytest.raises(LedgerDamagedError):
            self.check(damage(entries))

    def test_a_ledger_that_was_cut_shows_to_those_who_know_a_hash(self, entries, tmp_path):
        lost = json.loads(entries[2].line)["hash"]
        path = tmp_path / "export.ledger"
        path.write_bytes(ledger_export(PLAN, [item.line for item in entries[:2]]))
        verify_ledger(path)
        with pytest.raises(FileError, match="does not hold a line"):
            verify_ledger(path, head=lost)

    def test_lines_of_another_plan(self, entries):
        other = make_plan(records=11)
        with pytest.raises(FileError):
            ledger_chain(other, [item.line for item in entries])


def replaced(item, **changes):
    fields = {name: getattr(item, name) for name in ("plan", "owner", "line", "counts")}
    return Registered(**{**fields, **changes})


class TestOtherPlans:
    other = make_plan(boxes=(((0, 0), (3, 0)), ((0, 1), (3, 2))), n_values=6, ell=3, releases=1)

    def test_the_larger_promise_counts(self):
        """Each passes by itself; linked they leave two values, and one plan promised three."""
        agency = Agency(PLAN, self.other)
        agency.register(PLAN, make_registration(PLAN, full(PLAN, (0, 0), (0, 1))), "A")
        with pytest.raises(RefusedError, match="Fewer than 3") as refusal:
            agency.register(self.other, make_registration(self.other, full(self.other, (0, 2), (0, 3))), "B")
        assert refusal.value.found == "Fewer than 3 values of 'disease'."
        agency.register(self.other, make_registration(self.other, full(self.other, (0, 2))), "B")

    def test_a_larger_promise_is_not_owed_to_those_it_was_not_made_to(self):
        """Where the other plan's release has nobody, two values are enough for a plan that promises two."""
        plan = make_plan(releases=1)
        agency = Agency(plan, self.other)
        nobody_in_the_east = full(self.other)
        nobody_in_the_east[0] = 0
        agency.register(self.other, make_registration(self.other, nobody_in_the_east), "A")
        two_values_in_the_east = full(plan)
        two_values_in_the_east[1, 2:] = 0
        assert agency.register(plan, make_registration(plan, two_values_in_the_east), "B").is_new

    def test_the_release_of_another_owner_under_another_plan(self):
        """The same classes under another ell: the tables are the same to the last byte."""
        twin = make_plan(ell=1, releases=3)
        agency = Agency(PLAN, twin)
        counts = full(PLAN, (0, 1))
        agency.register(PLAN, make_registration(PLAN, counts), "A")
        with pytest.raises(RefusedError, match="Another owner"):
            agency.register(twin, make_registration(twin, counts), "B")
        agency.register(twin, make_registration(twin, counts), "A")

    def test_the_same_records_under_two_plans(self):
        """One owner, the same people, other classes: subtraction shows what neither release does."""
        people = np.zeros((4, 3, 6), dtype=int)
        people[:] = 1
        people[0:2, 0] = [4, 0, 0, 0, 0, 0]  # in box 0 of one plan and box 0 of the other
        first = [people[a : c + 1, b : d + 1].sum(axis=(0, 1)) for (a, b), (c, d) in DIAGONAL]
        coarse = (((0, 0), (3, 0)), ((0, 1), (3, 2)))
        other = make_plan(boxes=coarse, n_values=6)
        second = [people[a : c + 1, b : d + 1].sum(axis=(0, 1)) for (a, b), (c, d) in coarse]
        agency = Agency(PLAN, other)
        agency.register(PLAN, make_registration(PLAN, first), "A")
        with pytest.raises(RefusedError, match="may isolate people") as refusal:
            agency.register(other, make_registration(other, second), "A")
        assert refusal.value.found.endswith("in both.")
        agency.register(other, make_registration(other, np.array(second) + 1), "A")

    def test_components_are_judged_one_by_one(self):
        """Somebody more in the last row: the records are not the same, and row 1 is found all the same."""
        people = np.full((4, 6), 3)
        people[1] = [4, 0, 0, 0, 0, 0]
        one, other = (
            make_plan(boxes=[((low, 0), (high, 2)) for low, high in rows])
            for rows in ([(0, 0), (1, 2), (3, 3)], [(0, 1), (2, 2), (3, 3)])
        )
        agency = Agency(one, other)
        agency.register(one, make_registration(one, [people[0], people[1:3].sum(axis=0), people[3]]), "A")
        second = [people[:2].sum(axis=0), people[2], people[3] + 1]
        with pytest.raises(RefusedError, match="may isolate people"):
            agency.register(other, make_registration(other, second), "A")
        agency.register(other, make_registration(other, second), "B")  # another owner, under another plan

    def test_another_schema_cannot_be_linked(self):
        agency = Agency(PLAN, make_plan(n_values=5))
        first, second = PLAN, make_plan(n_values=5)
        agency.register(first, make_registration(first, full(first)), "A")
        with pytest.raises(RefusedError, match="cannot be linked"):
            agency.register(second, make_registration(second, full(second)), "B")


class TestSharedPeople:
    """The classes of owners who share people have moved differently: B has nobody in the second one."""

    plan = make_plan(
        boxes=REGIONS,
        n_values=4,
        ell=3,
        releases=1,
        witnesses=[[0, 1, 2], [0, 1, 2], [1, 2, 3]],
        moves=True,
    )
    people = np.array([[2, 1, 1, 0], [1, 0, 0, 0], [0, 2, 1, 1]])

    def registered(self, *more):
        c1, c2, c3 = self.people
        agency = Agency(self.plan)
        agency.register(self.plan, make_registration(self.plan, [c1, c2 + c3], [0, 1, 1]), "A")
        second = np.array([c1, 0 * c2, c3])
        for place, value in more:
            second[place, value] += 1
        agency.register(self.plan, make_registration(self.plan, second), "B")

    def test_what_is_left_when_shared_people_are_taken_away(self):
        with pytest.raises(RefusedError, match="may isolate people"):
            self.registered()

    def test_the_records_need_not_be_the_same_everywhere(self):
        with pytest.raises(RefusedError, match="may isolate people") as refusal:
            self.registered((0, 3), (0, 3))
        assert "A" not in refusal.value.found.split()

    def test_counts_that_exclude_it(self):
        self.registered((2, 1))  # B shows more of a value than A does around it


class TestSeveralRecordsOfEachValue:
    plan = make_plan(min_records=3)

    def test_two_records_of_a_witness_are_not_enough(self):
        counts = full(self.plan)
        counts[0, :2] = 2
        agency = Agency(self.plan)
        admission = agency.register(self.plan, make_registration(self.plan, counts), "A")
        assert admission.entry.misses == ((0, 0, 1),)
        assert ledger_chain(self.plan, agency.lines(self.plan)).room.tolist() == [2, 4, 4, 4]

    def test_other_plans_are_linked_with_as_many_records(self):
        other = make_plan(boxes=(((0, 0), (3, 2)),), n_values=6, min_records=1)
        agency = Agency(self.plan, other)
        agency.register(self.plan, make_registration(self.plan, full(self.plan)), "A")
        few, enough = [[3, 2, 2, 2, 2, 2]], [[3, 3, 2, 2, 2, 2]]
        with pytest.raises(RefusedError, match="Fewer than 2"):
            agency.register(other, make_registration(other, few), "B")
        agency.register(other, make_registration(other, enough), "B")


def test_what_an_agency_says_names_no_other_owner():
    agency = Agency(PLAN)
    registration = make_registration(PLAN, full(PLAN, (0, 1)))
    agency.register(PLAN, registration, "a hospital with a name")
    with pytest.raises(RefusedError) as refusal:
        agency.register(PLAN, registration, "B")
    assert "hospital" not in str(refusal.value)


def test_margins_of_the_oracle():
    """The oracle itself, on a case that can be done by hand."""
    pairs = [
        (plain(PLAN), plain(make_registration(PLAN, full(PLAN, (0, 0), (0, 1), (0, 2))))),
        (plain(PLAN), plain(make_registration(PLAN, full(PLAN, (0, 3))))),
    ]
    assert oracle.fewest_left(pairs) == 2 - 2
    assert oracle.fewest_left(pairs[1:]) == 5 - 2
