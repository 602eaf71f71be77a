"""Releases of plans for closeness: what passes, what is refused and why, and what an outsider can check."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from tests.plan.test_closeness import people

import elldelta as ed
from elldelta.errors import FileError, RefusedError
from elldelta.files import as_bytes, seal
from elldelta.release.manifest import manifest_path


@pytest.fixture(scope="module")
def model():
    past = people(8000, 0)
    return ed.estimate(past, ed.Schema.infer(past, ["age", "zip"], "disease", widen={"age": "no"}))


@pytest.fixture(scope="module")
def plan(model):
    return ed.plan(model, closeness=0.2, releases=2, records=6000)


def counts_of(release, plan):
    """What a release shows about each combination of age and zip, by the labels of its own rows."""
    manifest = release.manifest
    table = release.table
    values = ["flu", "cold", "gout", "acne", "mumps"]
    rows = {
        labels: [int(group["disease"].value_counts().get(value, 0)) for value in values]
        for labels, group in table.groupby(["age", "zip"])
    }
    ranks = np.arange(plan.schema.n_combinations)
    labels = manifest.labels
    shown = np.array([rows.get(tuple(own), [0] * 5) for own in labels])
    return shown[manifest.classes.class_of(plan.schema, ranks)], values


def test_linked_releases_stay_near_what_the_plan_says(plan):
    releases = [ed.release(people(6000, seed), plan) for seed in (1, 2, 3)]
    shown = [counts_of(release, plan) for release in releases]
    domain = list(plan.schema.sensitive.domain.values)
    order = [domain.index(value) for value in shown[0][1]]
    references = np.array(plan.columns[0].closeness.references)[:, order]
    own = references[plan.class_of(np.arange(plan.schema.n_combinations))]
    public = own / own.sum(axis=1, keepdims=True)
    for one, other in combinations(shown, 2):
        linked = np.minimum(one[0], other[0])
        there = one[0].any(axis=1) & other[0].any(axis=1)
        shares = linked[there] / linked[there].sum(axis=1, keepdims=True)
        assert 0.5 * np.abs(shares - public[there]).sum(axis=1).max() <= 0.2
    said = " ".join(releases[0].manifest.sentences)
    assert "0.1 is allowed, 0.2 after linking 2 releases" in said
    assert "were promised" not in said


def test_others_who_differ_are_refused_and_told_why(plan):
    wrong = people(6000, 1)
    wrong["disease"] = wrong["disease"].where(wrong["age"] < 35, "flu")
    with pytest.raises(RefusedError) as refusal:
        ed.release(wrong, plan)
    assert "does not pass the certificate" in refusal.value.problem
    assert "away from the reference of" in refusal.value.found
    assert "flu" not in str(refusal.value)
    made = ed.release(wrong, plan, leave_out=True)
    assert made.manifest.records_left_out > 0
    assert ed.verify(made, plan).closeness["distance"] <= 0.1


def test_with_ell_both_promises_are_checked(model):
    plan = ed.plan(model, ell=3, closeness=0.2, releases=2, records=6000)
    made = ed.release(people(6000, 1), plan)
    checked = ed.verify(made, plan)
    assert checked.is_certified
    assert checked.diversity >= 3
    assert checked.closeness["distance"] <= 0.1
    # Few values, in the right proportions as far as they go: both fail, and both are named.
    few = people(6000, 1)
    few = few[few["disease"].isin(["flu", "cold"])]
    few = pd.concat([few] * 4, ignore_index=True)
    with pytest.raises(RefusedError) as refusal:
        ed.release(few, plan)
    assert "does not pass the certificate" in refusal.value.problem
    assert "too many of the values" in refusal.value.found
    assert "away from the reference of" in refusal.value.found


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    plan = ed.plan(model, closeness=0.2, releases=2, records=6000)
    path = tmp_path_factory.mktemp("closeness") / "release.parquet"
    ed.release(people(6000, 1), plan, to=path)
    return path, plan


@pytest.mark.parametrize(
    "change",
    [{"distance": 0.001}, {"limit": 0.1}, {"allowed": 0.2}, {"to": "overall"}, {"distance": "a"}, None],
    ids=str,
)
def test_a_manifest_that_was_rewritten_is_noticed(written, tmp_path, change):
    path, plan = written
    copy = tmp_path / "release.parquet"
    copy.write_bytes(path.read_bytes())
    document = json.loads(manifest_path(path).read_text())
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    if change is None:
        content["closeness"] = None
    else:
        content["closeness"] = {**content["closeness"], **change}
    manifest_path(copy).write_bytes(as_bytes(seal("manifest", 1, content)))
    with pytest.raises(FileError):
        ed.verify(copy, plan)


def test_without_the_plan_closeness_is_not_checked(written):
    path, plan = written
    assert "closeness) was not compared with the plan" in " ".join(ed.verify(path).sentences)
    assert ed.verify(path, plan).sentences == tuple(
        text for text in ed.verify(path, plan).sentences if "references" not in text
    )
