"""The story from Python: pandas, Polars and Arrow in and out give what files give, and change nothing."""

import hashlib
import json
import random
import traceback
from collections import Counter
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.audit import brute_force
from tests.release.hospital_tables import (
    QUASI_IDENTIFIERS,
    SENSITIVE,
    make_rows,
    read_rows,
    to_arrow,
    write_csv,
    write_parquet,
)

import elldelta as ed
from elldelta.errors import DataError, ElldeltaError, FileError, ParameterError, RefusedError

KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": to_arrow,
}


def cells(frame):
    """The rows of any table in memory, as tuples, in their order."""
    columns = frame.to_dict("list") if isinstance(frame, pd.DataFrame) else to_table(frame).to_pydict()
    return list(zip(*columns.values(), strict=True))


def to_table(frame):
    return frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame


def a_copy(frame):
    if isinstance(frame, pa.Table):
        return pa.table(frame.to_pydict(), frame.schema)
    return frame.copy() if isinstance(frame, pd.DataFrame) else frame.clone()


@pytest.fixture(scope="module")
def past():
    return make_rows(6000, seed=1)


@pytest.fixture(scope="module")
def plan(past):
    schema = ed.Schema.infer(to_arrow(past), QUASI_IDENTIFIERS, SENSITIVE)
    return ed.plan(ed.estimate(to_arrow(past), schema), ell=3, releases=2, records=2500, delta=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_model_and_plan_do_not_depend_on_the_kind_of_table(tmp_path, past, plan, kind):
    frame = KINDS[kind](past)
    before = a_copy(frame)
    schema = ed.Schema.infer(frame, QUASI_IDENTIFIERS, SENSITIVE)
    model = ed.estimate(frame, schema)
    assert frame.equals(before)
    file = write_csv(tmp_path / "past.csv", past)
    from_file = ed.estimate(file, ed.Schema.infer(file, QUASI_IDENTIFIERS, SENSITIVE))
    assert model == from_file
    assert ed.plan(model, ell=3, releases=2, records=2500, delta=0.01) == plan


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_in_memory_is_the_release_on_disk(tmp_path, plan, kind):
    rows = make_rows(3000, seed=2)
    frame = KINDS[kind](rows)
    before = a_copy(frame)
    release = ed.release(frame, plan)
    assert type(release.table) is type(frame)
    assert frame.equals(before)

    target = tmp_path / "release.parquet"
    manifest = ed.release(write_parquet(tmp_path / "owner.parquet", rows), plan, to=target).manifest
    on_disk = pq.read_table(target)
    assert cells(release.table) == cells(on_disk)
    names = release.table.column_names if kind == "arrow" else list(release.table.columns)
    assert names == on_disk.column_names
    assert release.manifest.to_dict() == manifest.to_dict()
    assert release.manifest.records_released == len(release.table) == 3000
    expected = brute_force.release(json.loads(json.dumps(plan.to_dict())), rows)
    assert Counter(cells(release.table)) == expected


def test_the_order_of_the_records_changes_nothing(plan):
    rows = make_rows(3000, seed=2)
    shuffled = random.Random(1).sample(rows, len(rows))
    one, other = (ed.release(pd.DataFrame(part), plan) for part in (rows, shuffled))
    assert one.table.equals(other.table)
    assert one.manifest.to_dict() == other.manifest.to_dict()


def test_a_plan_may_be_given_as_its_file_which_is_never_written_over(tmp_path, plan):
    frame, path = pd.DataFrame(make_rows(3000, seed=2)), tmp_path / "plan.csv"
    ed.write_plan(plan, path)
    by_file = ed.release(frame, path, name="hospital A")
    assert by_file.name == "hospital A"
    assert by_file.place is None
    assert by_file.table.equals(ed.release(frame, plan).table)
    with pytest.raises(ParameterError, match="cannot be written at the same time"):
        ed.release(frame, path, to=path, overwrite=True)
    assert ed.read_plan(path) == plan


def test_a_release_knows_where_it_is(tmp_path, plan):
    frame, target = pd.DataFrame(make_rows(3000, seed=2)), tmp_path / "release.csv"
    written = ed.release(frame, plan, to=target)
    assert written.table is None
    assert written.place == target
    document = written.to_dict()
    assert document["release"] == str(target)
    assert written.name == "release.csv"
    assert json.loads(Path(document["manifest"]).read_text()) == written.manifest.to_dict()
    assert document["records"]["released"] == 3000
    named = ed.release(frame, plan, name="hospital A")
    assert [item.name for item in ed.audit([written, named]).releases] == ["release.csv", "hospital A"]
    assert ed.audit([written]).diversity_min == ed.audit([target]).diversity_min


def test_a_ledger_admits_only_files(tmp_path, plan):
    ledger = ed.Ledger(tmp_path / "releases.ledger", "hospital A")
    with pytest.raises(ParameterError, match="releases that are files"):
        ed.release(pd.DataFrame(make_rows(3000, seed=2)), plan, ledger=ledger)
    assert not list(tmp_path.iterdir())


def test_an_audit_takes_files_releases_and_tables_together(tmp_path, plan):
    frames = [KINDS[kind](make_rows(3000, seed=seed)) for seed, kind in enumerate(KINDS, start=2)]
    releases = [ed.release(frame, plan) for frame in frames]
    target = tmp_path / "third.csv"
    ed.release(frames[2], plan, to=target)
    result = ed.audit([releases[0], releases[1], target])
    documents = [json.loads(json.dumps(release.manifest.to_dict())) for release in releases]
    tables = [cells(release.table) for release in releases]
    expected = brute_force.link(documents, tables, 3)
    assert result.diversity_min == expected["diversity_min"] >= 3
    assert result.classes_linked == expected["classes_linked"]
    assert result.histogram == expected["histogram"]
    assert result.holds
    if plan.classes.shape == "boxes":  # without a manifest, by the labels alone; runs may overlap there
        bare = ed.audit([releases[0].table, releases[1].table], ell=3, columns=plan.schema)
        assert bare.diversity_min == ed.audit(releases[:2]).diversity_min


def test_the_digest_of_the_content_is_that_of_its_cells(tmp_path, plan):
    """From the file alone: every (labels, value) with its number, sorted by how Python writes it."""
    target = tmp_path / "release.csv"
    manifest = ed.release(pd.DataFrame(make_rows(3000, seed=2)), plan, to=target).manifest
    counted = Counter(read_rows(target)[1])
    found = sorted(([*row, n] for row, n in counted.items()), key=repr)
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    assert manifest.content_digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_many_combinations_are_found_in_their_boxes():
    """Eight million combinations: too many to write down the class of each."""
    rng = random.Random(3)
    data = {name: [rng.randrange(200) for _ in range(4000)] for name in "abc"}
    data["a"][:2], data["b"][:2], data["c"][:2] = [0, 199], [0, 199], [0, 199]
    data["s"] = [f"value {rng.randrange(5)}" for _ in range(4000)]
    schema = ed.Schema.infer(pa.table(data), ["a", "b", "c"], "s", widen=dict.fromkeys("abc", "no"))
    assert schema.n_combinations == 8_000_000
    plan = ed.plan(ed.estimate(pa.table(data), schema), ell=3, releases=1, records=3000)
    assert plan.n_classes > 20
    labels = {}
    for low, high in zip(*(ends.tolist() for ends in plan.classes.hulls(schema)), strict=True):
        ends = zip(low, high, strict=True)
        texts = tuple(
            "*" if (a, b) == (0, 199)
            else str(a) if a == b
            else f"<={b}" if a == 0
            else f"{a}+" if b == 199
            else f"{a}-{b}"
            for a, b in ends
        )  # fmt: skip
        labels[texts] = (low, high)
    expected = Counter()
    for *point, value in zip(*data.values(), strict=True):
        [found] = [
            texts
            for texts, (low, high) in labels.items()
            if all(a <= at <= b for a, at, b in zip(low, point, high, strict=True))
        ]
        expected[(*found, value)] += 1
    assert Counter(cells(ed.release(pa.table(data), plan).table)) == expected


def test_an_owner_may_leave_out_what_the_domain_does_not_hold(tmp_path, plan):
    rows = make_rows(3000, seed=2)
    for row in rows[:7]:
        row["age"] = 199
    with pytest.raises(DataError, match="'age': 7"):
        ed.release(pl.DataFrame(rows), plan)
    apart = tmp_path / "quarantine.csv"
    release = ed.release(pl.DataFrame(rows), plan, quarantine=apart)
    assert release.manifest.records_quarantined == len(read_rows(apart)[1]) == 7
    assert len(release.table) == 2993


def test_too_few_records_are_refused(plan):
    with pytest.raises(RefusedError) as refusal:
        ed.release(pd.DataFrame(make_rows(2400, seed=2)), plan)
    assert "100 are missing" in refusal.value.found
    assert refusal.value.exit_code == 3


def test_plans_and_models_come_back_from_their_files(tmp_path, past, plan):
    model = ed.estimate(to_arrow(past), plan.schema)
    ed.write_model(model, tmp_path / "model.parquet")
    ed.write_plan(plan, tmp_path / "plan.json")
    assert ed.read_model(tmp_path / "model.parquet") == model
    assert ed.read_plan(tmp_path / "plan.json") == plan
    with pytest.raises(FileError, match="exists already"):
        ed.write_plan(plan, tmp_path / "plan.json")
    halves = [ed.estimate(to_arrow(part), plan.schema) for part in (past[:2000], past[2000:])]
    assert ed.merge_models(halves) == model


CANARY = "Zzyzx-Quokka"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ["postal_code", "gender", SENSITIVE])
def test_no_error_carries_a_cell(plan, kind, column):
    """Neither in its text nor in what Python prints of it: causes, contexts and their texts."""
    rows = make_rows(3000, seed=2)
    rows[5][column] = CANARY
    for call in (lambda frame: ed.release(frame, plan), lambda frame: ed.estimate(frame, plan.schema)):
        with pytest.raises(ElldeltaError) as error:
            call(KINDS[kind](rows))
        assert error.value.__cause__ is None
        lines = traceback.TracebackException.from_exception(error.value, capture_locals=False).format()
        assert CANARY not in "".join(lines)
        assert CANARY not in repr(vars(error.value))


def test_a_table_of_mixed_types_is_refused_without_its_cells(plan):
    frame = pd.DataFrame(make_rows(3000, seed=2))
    frame["age"] = frame["age"].astype(object)
    frame.loc[7, "age"] = CANARY
    with pytest.raises(ElldeltaError) as error:
        ed.release(frame, plan)
    assert CANARY not in "".join(traceback.TracebackException.from_exception(error.value).format())


def test_importing_the_package_imports_no_engine():
    import subprocess
    import sys

    script = (
        "import sys, elldelta; sys.exit(', '.join({'duckdb', 'numba', 'pyarrow'} & set(sys.modules)) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
