"""Owners who publish one after the other through one ledger, and leave something for those who follow."""

import json
from itertools import combinations

import pyarrow.parquet as pq
import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

import elldelta as ed
from elldelta.files import canonical_json, seal
from elldelta.ledger import begin_ledger, verify_ledger
from elldelta.release import manifest_path, read_manifest

ELL, RECORDS, N_OWNERS = 3, 1500, 3


@pytest.fixture(scope="module")
def plan():
    past = to_arrow(make_rows(4000, 1))
    model = ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))
    return ed.plan(model, ell=ELL, records=RECORDS, owners=N_OWNERS)


def published(plan, folder, *, looks_ahead):
    """The releases of all owners, admitted one after the other, as anybody reads them."""
    for number in range(N_OWNERS):
        to_come = N_OWNERS - 1 - number if looks_ahead else None
        path = folder / f"{number}.parquet"
        ed.release(
            to_arrow(make_rows(RECORDS, 10 + number)),
            plan,
            to=path,
            ledger=ed.Ledger(folder / "ledger.jsonl", f"owner {number}", to_come),
            on_failure="coarsen-suppress",
        )
        yield path


def classes_of(path):
    """What each label shows, read from the file alone: ranges of ages, sets of the others."""
    found = {}
    for row in pq.read_table(path).to_pylist():
        found.setdefault(tuple(row[name] for name in QUASI_IDENTIFIERS), set()).add(row[SENSITIVE])
    return found


def covers(label, value):
    """Whether a label stands for a value: the value itself, a range, or a set."""
    text = str(value)
    if label in (text, "*"):
        return True
    if label.startswith("{"):
        return text in [part.strip() for part in label.strip("{}").split(",")]
    low, _, high = label.partition("-")
    return bool(high) and low <= text <= high


def test_whatever_is_linked_leaves_ell_values(plan, tmp_path):
    shown = [classes_of(path) for path in published(plan, tmp_path, looks_ahead=True)]
    people = {tuple(row[name] for name in QUASI_IDENTIFIERS) for row in make_rows(RECORDS, 10)}
    n_linked = 0
    for person in people:
        own = [
            [values for labels, values in one.items() if all(map(covers, labels, person))] for one in shown
        ]
        for group in (group for size in (1, 2, 3) for group in combinations(own, size)):
            if all(group):
                assert all(len(found) == 1 for found in group)
                assert len(set.intersection(*(found[0] for found in group))) >= ELL
                n_linked += 1
    assert n_linked > 100


def test_the_plan_is_for_one_release_and_a_ledger(plan):
    assert plan.releases == 1
    assert plan.moving is None
    assert any("one ledger has admitted all of them" in condition for condition in plan.conditions)


def test_more_owners_than_expected_are_admitted(plan, tmp_path):
    list(published(plan, tmp_path, looks_ahead=True))
    ed.release(
        to_arrow(make_rows(RECORDS, 99)),
        plan,
        to=tmp_path / "late.parquet",
        ledger=ed.Ledger(tmp_path / "ledger.jsonl", "late", 0),
        on_failure="coarsen-suppress",
    )
    assert (tmp_path / "late.parquet").exists()


@pytest.mark.parametrize("wish", [{"releases": 2}, {"owners": 0}, {"kind": "probabilistic"}])
def test_wishes_that_contradict_a_ledger(wish):
    with pytest.raises(ed.ParameterError):
        ed.plan("no model is read", **{"ell": 2, "records": 10, "owners": 2, **wish})


def test_how_many_are_to_come_is_a_whole_number(tmp_path):
    with pytest.raises(ed.ParameterError, match="owners to come"):
        ed.Ledger(tmp_path / "ledger.jsonl", "a", -1)


def publish(plan, folder, seed, **options):
    ledger = ed.Ledger(folder / "ledger.jsonl", "owner", options.pop("to_come", 2))
    return ed.release(
        to_arrow(make_rows(options.pop("n", RECORDS), seed)),
        plan,
        to=folder / f"{seed}.parquet",
        ledger=ledger,
        **options,
    )


def test_an_owner_that_only_leaves_out(plan, tmp_path):
    """There is nothing to merge, so there is no reserve to keep; what fails is left out all the same."""
    assert publish(plan, tmp_path, 5, on_failure="suppress").manifest.records_released > 0


def test_nothing_is_no_release(plan, tmp_path):
    with pytest.raises(ed.RefusedError, match="Nothing would be left"):
        publish(plan, tmp_path, 5, n=2, on_failure="coarsen-suppress")
    assert not (tmp_path / "5.parquet").exists()


def test_a_plan_for_several_releases_keeps_no_reserve(plan, tmp_path):
    past = to_arrow(make_rows(4000, 1))
    model = ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))
    other = ed.plan(model, ell=ELL, records=RECORDS, releases=2)
    with pytest.raises(ed.ParameterError, match="one release"):
        publish(other, tmp_path, 5)


def test_nothing_is_admitted_to_a_copy_with_sealed_lines(plan, tmp_path):
    """Sealing a line keeps every hash; what it missed would be forgotten."""
    publish(plan, tmp_path, 5)
    path = tmp_path / "ledger.jsonl"
    first, line, *rest = path.read_bytes().split(b"\n")
    entry = json.loads(line)
    kept = {name: entry[name] for name in ("sequence", "previous", "hash")}
    forged = canonical_json({"kind": "sealed", **kept})
    path.write_bytes(b"\n".join([first, forged, *rest]))
    with pytest.raises(ed.RefusedError, match="not shown"):
        publish(plan, tmp_path, 6, on_failure="coarsen")
    assert not (tmp_path / "6.parquet").exists()


def test_the_plan_says_how_many_are_expected(plan, tmp_path):
    """Without a word about it, a ledger of such a plan is begun for its owners and counts down."""
    assert plan.owners == N_OWNERS
    assert "one ledger has admitted" in plan.promise
    assert ed.read_plan(written(plan, tmp_path)) == plan
    for folder in ("said", "known"):
        (tmp_path / folder).mkdir()
        list(published(plan, tmp_path / folder, looks_ahead=folder == "said"))
    said, known = ((tmp_path / folder / "ledger.jsonl").read_bytes() for folder in ("said", "known"))
    assert said == known


def written(plan, folder, **changes):
    """A plan as a file, perhaps edited and sealed again."""
    document = {
        key: value for key, value in plan.to_dict().items() if key not in ("digest", "kind", "format")
    }
    path = folder / "plan.json"
    path.write_bytes(canonical_json(seal("plan", plan.to_dict()["format"], {**document, **changes})))
    return path


@pytest.mark.parametrize("owners", [1, 30, 0, -1, "3"])
def test_a_number_of_owners_from_which_the_risk_does_not_follow(plan, tmp_path, owners):
    with pytest.raises(ed.FileError):
        ed.read_plan(written(plan, tmp_path, owners=owners))


def test_a_ledger_for_another_number_of_owners(plan, tmp_path):
    begin_ledger(tmp_path / "ledger.jsonl", plan, 7)
    publish(plan, tmp_path, 5, to_come=None)
    assert verify_ledger(tmp_path / "ledger.jsonl").to_come("somebody") == 5
    with pytest.raises(ed.FileError, match="exists"):
        begin_ledger(tmp_path / "ledger.jsonl", plan, 7)


def test_a_release_that_fits_the_copy_of_a_ledger(plan, tmp_path):
    """It uses only what the others have left, and nothing is written."""
    path = tmp_path / "ledger.jsonl"
    list(published(plan, tmp_path, looks_ahead=False))
    before = path.read_bytes()
    copied = {"ledger": ed.Ledger(path, "late", is_copy=True), "on_failure": "coarsen-suppress"}
    made = ed.release(to_arrow(make_rows(RECORDS, 77)), plan, **copied)
    assert path.read_bytes() == before
    assert made.manifest.ledger is None
    into = ed.Ledger(path, "late")
    again = ed.release(
        to_arrow(make_rows(RECORDS, 77)),
        plan,
        to=tmp_path / "late.parquet",
        ledger=into,
        on_failure="coarsen-suppress",
    )
    assert again.manifest.content_digest == made.manifest.content_digest


def test_without_a_ledger_at_hand_an_owner_leaves_enough_for_the_others(plan, tmp_path):
    table = to_arrow(make_rows(RECORDS, 10))
    alone = ed.release(table, plan, on_failure="coarsen-suppress").manifest
    first = next(published(plan, tmp_path, looks_ahead=True))
    assert read_manifest(manifest_path(first)).content_digest == alone.content_digest
