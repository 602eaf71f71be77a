"""What the choice of classes tells: nothing if fixed, little if they move, more if some are left out."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.coins import COINS, KEY
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

import elldelta as ed
from elldelta.core.box_tree import BoxTree
from elldelta.core.moving import Moving, decoy_heights
from elldelta.core.promises import LATER
from elldelta.core.witnesses import Witnesses
from elldelta.engines.duckdb import connect
from elldelta.errors import ParameterError, RefusedError
from elldelta.files import PrivateKey, canonical_json
from elldelta.model import count
from elldelta.plan.classes import Boxes
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.plan import Plan
from elldelta.release import manifest_path
from elldelta.release.publishable import Coins, publishable
from elldelta.release.release import DECOYS
from elldelta.schema.schema import Categories, Column, Schema

VALUES = tuple(f"v{number:02}" for number in range(12))
FIXED = Plan(
    schema=Schema((Column("ward", Categories(("A", "B"))),), Column("disease", Categories(VALUES))),
    classes=Boxes(BoxTree([0, -1, -1], [0, 0, 0], (2,))),
    columns=(ColumnPlan(2, 0.01, None, Witnesses.of([range(12)] * 2), np.ones(24, dtype=np.int64), 24),),
    delta=0.01,
    releases=1,
    records=12,
    kind="certified",
    min_records=1,
    k=2,
)
MOVING = replace(FIXED, moving=Moving(0.1), promise="", conditions=())


def wards(ward_a, ward_b):
    values = [*ward_a, *ward_b]
    return pd.DataFrame(
        {"ward": ["A"] * len(ward_a) + ["B"] * len(ward_b), "disease": [VALUES[value] for value in values]}
    )


SHARED = wards(range(10), [10, 10])
"""Ten people with ten values, and two who share an eleventh."""
APART = wards([10, *range(9)], [9, 10])
"""The same twelve values, and both wards show two or more."""


def decoys(plan, announced, key=KEY):
    return decoy_heights(plan.moving, key.secret_for(DECOYS), plan.digest, announced, plan.n_classes)


def test_a_ward_whose_people_share_a_value_is_refused_and_no_way_out_is_offered():
    with pytest.raises(RefusedError) as refusal:
        ed.release(SHARED, FIXED)
    assert (
        refusal.value.found
        == "1 of 2 classes misses too many of the values of 'disease' that the plan counts on."
    )
    assert "announced beforehand" in refusal.value.remedy
    assert not any(word in str(refusal.value) for word in ("v10", "B", "merge", "another plan", "leave"))
    assert ed.release(APART, FIXED).manifest.classes_published == 2


def test_a_merged_release_does_not_tell_whether_a_ward_failed(tmp_path):
    """Where decoys lead to the same class, both tables give the same files and the same words."""
    by_chance = next(name for name in NAMES if decoys(MOVING, name).any())
    found = []
    for table in (SHARED, APART):
        path = tmp_path / "release.csv"
        mixed = table.sample(frac=1, random_state=len(found))
        made = ed.release(mixed, MOVING, to=path, key=KEY, announced=by_chance, overwrite=True)
        files = [file.read_bytes() for file in (path, manifest_path(path))]
        found.append((made.to_dict(), made.manifest.sentences, files))
        assert ed.verify(path, MOVING).is_certified
    assert found[0] == found[1]
    assert any("Of 2 planned classes 2 are published together" in said for said in found[0][1])


NAMES = [f"release {number}" for number in range(400)]


def counted(table):
    with connect() as engine:
        return count(engine.open(table), FIXED.schema).counts


def test_decoys_are_always_drawn_and_never_chosen():
    """Of two wards that pass, one is a decoy in 1 - 0.95^2 of cases: 39 of 400, deviation 6."""
    table, coins = counted(APART), [Coins(KEY.secret_for(DECOYS), name) for name in NAMES]
    merged = [publishable(table, MOVING, coins=own).certificate.shown.n_published == 1 for own in coins]
    assert 15 <= sum(merged) <= 63
    assert merged == [bool(decoys(MOVING, name).any()) for name in NAMES]
    assert merged != [bool(decoys(MOVING, name, PrivateKey.create()).any()) for name in NAMES]
    failing = counted(SHARED)
    assert all(publishable(failing, MOVING, coins=own).certificate.shown.n_published == 1 for own in coins)


def test_the_largest_factor_is_that_of_the_root():
    made = ed.release(SHARED, MOVING, **COINS).manifest
    assert made.moving["odds_upper"] == pytest.approx(20.0)  # 1 / rho


def test_what_even_all_classes_together_do_not_show_is_refused():
    with pytest.raises(RefusedError, match="not even as a single class"):
        ed.release(wards([3] * 10, [3, 3]), MOVING, **COINS)


def test_leaving_out_says_what_it_tells():
    made = ed.release(SHARED, FIXED, leave_out=True)
    assert made.manifest.leave_out
    assert made.manifest.records_left_out == 2
    assert any("in a missing class learns that it did not pass" in said for said in made.manifest.sentences)
    assert set(made.table["ward"]) == {"A"}
    assert ed.verify(made, FIXED).claimed["records_left_out"] == 2
    with pytest.raises(RefusedError, match="Nothing would be left"):
        ed.release(wards([3] * 10, [3, 3]), FIXED, leave_out=True)


def test_fewer_records_than_k_do_not_pass():
    few = replace(FIXED, k=3)
    with pytest.raises(RefusedError) as refusal:
        ed.release(APART, few)
    assert refusal.value.found == "Fewer than 3 records in 1 of 2 classes."
    assert ed.release(APART, few, leave_out=True).manifest.records_left_out == 2
    moves = replace(MOVING, k=3)
    for name in ("a", "b", "c"):
        assert ed.release(APART, moves, key=KEY, announced=name).manifest.classes_published == 1


PROBABILISTIC = replace(FIXED, kind="probabilistic", promise="", conditions=())


@pytest.mark.parametrize(
    ("plan", "options", "words"),
    [
        (FIXED, COINS, "classes are fixed"),
        (FIXED, {"key": KEY}, "There is no name"),
        (MOVING, {"announced": "2026"}, "There is no key"),
        (MOVING, {}, "private key"),
        (MOVING, {**COINS, "announced": " 2026"}, "spaces"),
        (MOVING, {**COINS, "announced": ""}, "empty"),
        (MOVING, {**COINS, "announced": "a\nb"}, "control"),
        (MOVING, {**COINS, "leave_out": True}, "move up a tree"),
        (PROBABILISTIC, {"leave_out": True}, "probabilistic"),
        (MOVING, {**COINS, "person": "who"}, "Where persons are counted"),
    ],
    ids=str,
)
def test_choices_that_do_not_go_together(plan, options, words):
    with pytest.raises(ParameterError) as refusal:
        ed.release(APART.assign(who=range(12)), plan, **options)
    assert words in str(refusal.value)
    assert refusal.value.remedy or "announced" in options


def test_what_theorem_k_does_not_cover_is_refused_with_a_ledger(tmp_path):
    book, files = ed.Ledger(tmp_path / "book", "a"), {"to": tmp_path / "a.csv", **COINS}
    movers = replace(MOVING, movers="any", promise="", conditions=())
    with pytest.raises(ParameterError, match="people move and a ledger"):
        ed.release(APART, movers, ledger=book, **files)
    updates = {"updates": ed.UpdatePolicy(tmp_path / "state.parquet"), "person": "who"}
    with pytest.raises(ParameterError, match="published again have fixed classes"):
        ed.release(APART.assign(who=range(12)), MOVING, ledger=book, **files, **updates)
    assert not list(tmp_path.iterdir())


N_OWNERS, RECORDS, ELL = 4, 1500, 3


@pytest.fixture(scope="module")
def model():
    past = to_arrow(make_rows(4000, 1))
    return ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))


@pytest.fixture(scope="module", params=["fixed", "moving"])
def plan(request, model):
    risk = {} if request.param == "fixed" else {"merge_risk": 0.2}
    return ed.plan(model, ell=ELL, records=RECORDS, owners=3, **risk)


def published(plan, folder, number, n=RECORDS, **options):
    chosen = {"leave_out": True} if plan.moving is None else {"key": KEY, "announced": f"of {number}"}
    files = {
        "to": folder / f"{number}.parquet",
        "ledger": ed.Ledger(folder / "ledger.jsonl", f"owner {number}"),
    }
    table = to_arrow(make_rows(n, 10 + number))
    return ed.release(table, plan, **{**files, **chosen, **options}).manifest


def covers(label, value):
    """Whether a label stands for a value: the value itself, a range, or a set."""
    text = str(value)
    if label in (text, "*"):
        return True
    if label.startswith("{"):
        return text in [part.strip() for part in label.strip("{}").split(",")]
    if label.startswith("<=") or label.endswith("+"):
        return value <= int(label[2:]) if label.startswith("<=") else value >= int(label[:-1])
    low, _, high = label.partition("-")
    return bool(high) and low <= text <= high


def test_whatever_a_ledger_admits_leaves_ell_values(plan, tmp_path):
    """Also more owners than expected: classes move up, or are left out, until the ledger has room."""
    shown = []
    for number in range(N_OWNERS):
        published(plan, tmp_path, number)
        found = {}
        for row in pq.read_table(tmp_path / f"{number}.parquet").to_pylist():
            found.setdefault(tuple(row[name] for name in QUASI_IDENTIFIERS), set()).add(row[SENSITIVE])
        shown.append(found)
    people = {tuple(row[name] for name in QUASI_IDENTIFIERS) for row in make_rows(RECORDS, 10)}
    n_linked = 0
    for person in people:
        own = [
            [values for labels, values in one.items() if all(map(covers, labels, person))] for one in shown
        ]
        for group in (group for size in (1, 2, 3, 4) for group in combinations(own, size)):
            if all(group):
                assert all(len(found) == 1 for found in group)
                assert len(set.intersection(*(found[0] for found in group))) >= ELL
                n_linked += 1
    assert n_linked > 100


def test_a_release_that_is_made_again_is_the_same(plan, tmp_path):
    """Also after others have published: what it must fit is what the ledger had left at its time."""
    made = [published(plan, tmp_path, number) for number in range(N_OWNERS)]
    for number in range(N_OWNERS):
        again = published(plan, tmp_path, number, overwrite=True)
        assert again.to_dict() == made[number].to_dict()


def test_owners_with_few_records_publish_where_classes_move(plan, tmp_path):
    if plan.moving is None:
        with pytest.raises(RefusedError, match="asks for 1,500 records"):
            published(plan, tmp_path, 0, n=200)
        return
    made = published(plan, tmp_path, 0, n=200)
    assert made.records_released == 200
    assert 1 <= made.classes_published < plan.n_classes / 2
    assert ed.verify(tmp_path / "0.parquet", plan).is_certified


def test_a_fixed_release_is_all_classes_or_none(model, tmp_path):
    """A ledger that has no room refuses the table; it does not change its classes."""
    plan = ed.plan(model, ell=ELL, records=RECORDS, owners=1)
    shown, refused = set(), set()
    for number in range(12):
        try:
            made = published(plan, tmp_path, number, leave_out=False)
        except RefusedError as refusal:
            refused.add(refusal.remedy)
            continue
        assert made.records_left_out == 0
        assert made.moving is None
        shown.add(canonical_json(made.to_dict()["classes"]))
    assert shown == {canonical_json(plan.classes.to_dict())}
    assert refused == {LATER}
    files = {path.name for path in tmp_path.iterdir()}
    assert 2 < len(files) < 25  # the ledger, and two files of every release


def test_nothing_is_admitted_to_a_copy_with_sealed_lines(plan, tmp_path):
    """Sealing a line keeps every hash; what it missed would be forgotten."""
    published(plan, tmp_path, 0)
    path = tmp_path / "ledger.jsonl"
    first, line, *rest = path.read_bytes().split(b"\n")
    entry = json.loads(line)
    kept = {name: entry[name] for name in ("sequence", "previous", "hash")}
    path.write_bytes(
        b"\n".join([first, canonical_json({"kind": "sealed", "is_update": False, **kept}), *rest])
    )
    with pytest.raises(RefusedError, match="not shown"):
        published(plan, tmp_path, 1)
    assert not (tmp_path / "1.parquet").exists()


def test_a_release_that_fits_the_copy_of_a_ledger(plan, tmp_path):
    """It uses only what the others have left, and nothing is written."""
    path = tmp_path / "ledger.jsonl"
    for number in range(3):
        published(plan, tmp_path, number)
    before = path.read_bytes()
    made = published(plan, tmp_path, 9, to=None, ledger=ed.Ledger(path, "owner 9", is_copy=True))
    assert path.read_bytes() == before
    assert made.ledger is None
    assert published(plan, tmp_path, 9).content_digest == made.content_digest


def test_numbers_of_classes_are_those_of_the_plan(plan, tmp_path):
    if plan.moving is None:
        assert published(plan, tmp_path, 3).moving is None
        return
    made = published(plan, tmp_path, 3, n=200)
    told = made.moving
    assert told["classes_planned"] == plan.n_classes
    sizes = np.bincount(made.classes.group_of)
    assert told["classes_together"] == sizes[sizes > 1].sum()
    assert (told["merge_risk"], told["rho"], told["q"]) == (0.2, 0.05, 0.1)
    assert told["k1"] == pytest.approx(1 / (0.05 * 0.9))
    assert told["odds_upper"] >= told["k1"]


def test_an_audit_of_releases_whose_classes_moved_warns_owners_who_share_people(plan, tmp_path):
    for number in (0, 1):
        published(plan, tmp_path, number)
    paths = [tmp_path / f"{number}.parquet" for number in (0, 1)]
    warned = "owners who share people should use a plan with fixed classes"
    found = [any(warned in line.words for line in ed.audit(some).assumptions) for some in (paths, paths[:1])]
    assert found == [plan.moving is not None, False]
