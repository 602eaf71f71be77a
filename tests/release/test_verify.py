"""What an outsider's check must notice: manifests that were rewritten and sealed again by somebody else."""

import json

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, seal
from elldelta.release.manifest import FORMAT_VERSION, KIND, content_digest, manifest_path
from elldelta.schema.schema import Schema


def people(n_people, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 40, n_people),
            "zip": np.array(["A", "B", "C", "D"])[rng.integers(0, 4, n_people)],
            "disease": np.array(["flu", "hiv", "cold", "gout", "acne", "mumps"])[
                rng.choice(6, n_people, p=[0.3, 0.1, 0.2, 0.2, 0.1, 0.1])
            ],
        }
    )


@pytest.fixture(scope="module")
def model():
    past = people(8000, 0)
    return ed.estimate(past, Schema.infer(past, ["age", "zip"], "disease"))


@pytest.fixture
def released(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=2, records=3000)
    path = tmp_path / "release.parquet"
    ed.release(people(3000, 1), plan, to=path)
    assert ed.verify(path, plan).is_certified
    return path, plan


def rewritten(path, **changes):
    """Rewrites the manifest of a release and seals it again, as an attacker can."""
    document = json.loads(manifest_path(path).read_text())
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    content.update(changes)
    manifest_path(path).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))


@pytest.mark.parametrize(
    "changes",
    [
        {"records_released": 1},
        {"records_left_out": -5},
        {"classes_published": 1},
        {"diversity": 50},
        {"releases": 99},
        {"ell": 1},
        {"failure_upper": 0.0},
        {"guarantee": "probabilistic"},
        {"min_records": 7},
        {"ell": "3"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_claims_that_the_table_or_the_plan_contradicts(released, changes):
    path, plan = released
    rewritten(path, **changes)
    with pytest.raises((FileError, RefusedError)):
        ed.verify(path, plan)


def test_another_schema_with_the_same_classes(released):
    """One disease in six spellings would look diverse."""
    path, plan = released
    schema = json.loads(manifest_path(path).read_text())["schema"]
    values = schema["sensitive"]["values"]
    schema["sensitive"]["values"] = [values[1], values[0], *values[2:]]
    published = ed.audit([path]).linkage.counts
    other = Schema.from_dict(schema)
    labels = plan.labels
    swapped = np.zeros((plan.n_classes, 6), dtype=np.int64)
    swapped[:] = published[:, [1, 0, 2, 3, 4, 5]]
    digest = content_digest(labels, other.sensitive.released_values().to_pylist(), swapped)
    rewritten(path, schema=schema, content_digest=digest)
    with pytest.raises(FileError, match=r"not follow the plan|not the one"):
        ed.verify(path, plan)


def test_a_probabilistic_release_must_have_the_plans_classes_and_records(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=2, records=3000, guarantee="probabilistic")
    path = tmp_path / "release.csv"
    ed.release(people(3000, 1), plan, to=path)
    ed.verify(path, plan)
    rewritten(path, classes={"shape": "runs", "starts": [0]})
    with pytest.raises(FileError):
        ed.verify(path, plan)


def test_merged_classes_with_equal_labels_are_refused(model, tmp_path):
    """Two groups with the same hull: records of one could be claimed for the other."""
    plan = ed.plan(model, ell=3, releases=2, records=3000)
    path = tmp_path / "release.parquet"
    ed.release(people(3000, 1), plan, to=path)
    lows, highs = plan.classes.hulls(plan.schema)
    corners = np.lexsort((lows[:, 1], lows[:, 0]))
    group_of = np.zeros(plan.n_classes, dtype=int)
    group_of[corners[1:-1]] = 1  # both groups span nearly everything
    assert (highs >= lows).all()
    rewritten(
        path, classes={"shape": "merged", "base": plan.classes.to_dict(), "group_of": group_of.tolist()}
    )
    with pytest.raises(FileError):
        ed.verify(path, plan)


def test_a_manifest_tells_nothing_about_places_inside_classes(model, tmp_path):
    """The same counts by class, once spread out and once at one place: the same manifest."""
    plan = ed.plan(model, ell=3, records=500)
    spread = people(600, 5)
    lows, _ = plan.classes.hulls(plan.schema)
    ranks = plan.schema.ranks(
        np.stack(
            [
                column.encode(__import__("pyarrow").array(spread[column.name]))
                for column in plan.schema.quasi_identifiers
            ],
            axis=1,
        )
    )
    corner = lows[plan.class_of(ranks)]
    squeezed = spread.assign(
        age=corner[:, 0] + 20, zip=np.array(plan.schema.quasi_identifiers[1].domain.values)[corner[:, 1]]
    )
    one, other = ed.release(spread, plan), ed.release(squeezed, plan)
    assert one.manifest.to_dict() == other.manifest.to_dict()


def test_outputs_and_inputs_must_be_different_files(model, tmp_path):
    plan = ed.plan(model, ell=3, records=500)
    source = tmp_path / "people.csv"
    people(600, 5).to_csv(source, index=False)
    before = source.read_bytes()
    (tmp_path / "sub").mkdir()
    with pytest.raises(ParameterError, match="input"):
        ed.release(source, plan, to=tmp_path / "sub" / ".." / "people.csv", overwrite=True)
    assert source.read_bytes() == before
    with pytest.raises(ParameterError, match="different files"):
        ed.release(source, plan, to=tmp_path / "out.csv", quarantine=tmp_path / "sub" / ".." / "out.csv")
    with pytest.raises(ParameterError, match="different files"):
        ed.release(source, plan, to=tmp_path / "out.csv", ledger=ed.Ledger(tmp_path / "out.csv", "o"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "sub"]


def test_a_pending_file_of_somebody_else_moves_nothing(model, tmp_path):
    plan = ed.plan(model, ell=3, records=500)
    ledger, precious = tmp_path / "book.ledger", tmp_path / "precious.txt"
    ed.release(people(600, 5), plan, to=tmp_path / "a.csv", ledger=ed.Ledger(ledger, "a"))
    precious.write_text("mine")
    found = precious.stat()
    content = {
        "n_bytes": ledger.stat().st_size,
        "hash": "sha256:" + "0" * 64,
        "overwrite": True,
        "files": [[str(precious), str(tmp_path / "b.csv"), found.st_ino, found.st_size, found.st_mtime_ns]],
    }
    (tmp_path / ".book.ledger.pending").write_bytes(as_bytes(seal("pending release", 1, content)))
    with pytest.raises(FileError, match="not written by a release"):
        ed.release(people(600, 6), plan, to=tmp_path / "b.csv", ledger=ed.Ledger(ledger, "b"))
    assert precious.read_text() == "mine"
    assert not (tmp_path / "b.csv").exists()
