"""Survey weights: rounded means beside the rows of a release, which anybody can check."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.coins import COINS
from tests.oracles import weights as oracle

import elldelta as ed
from elldelta.agency.registration import registration_of, validate_registration
from elldelta.audit.reader import MEAN_WEIGHTS
from elldelta.errors import DataError, FileError, ParameterError
from elldelta.files import as_bytes, seal
from elldelta.ledger import UpdatePolicy
from elldelta.release.manifest import FORMAT_VERSION, KIND, manifest_path

N = 1500


def drawn(seed, n=N):
    """A survey in which some groups were asked more often than others, whatever they vote."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 78, n)
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "vote": rng.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]),
            "media": rng.choice(["tv", "net", "print"], n),
            "w": np.where(age < 40, 2.5, 0.7) * rng.uniform(0.8, 1.2, n),
        }
    )


def planned(sensitive="vote", **wish):
    past = drawn(1, 4000)
    schema = ed.Schema.infer(past, ["age", "sex"], sensitive, widen={"age": "no"}, weight="w")
    return ed.plan(ed.estimate(past, schema), releases=2, records=N, **wish)


@pytest.fixture(scope="module")
def plan():
    return planned(ell=2)


def labels_of(table, plan):
    """The class of every record, looked up by its label in the plan."""
    number = {labels: place for place, labels in enumerate(plan.labels)}
    return np.array([number[labels] for labels in zip(table.age, table.sex, strict=True)])


def in_classes(table, plan):
    age, sex = (column.domain for column in plan.schema.quasi_identifiers)
    positions = np.stack([table.age - age.low, [sex.values.index(each) for each in table.sex]], axis=1)
    return plan.class_of(plan.schema.ranks(positions))


def expected_means(table, plan, values):
    """The means by the definition, from the records themselves."""
    classes = in_classes(table, plan)
    texts = plan.schema.sensitive.domain.values
    places = [texts.index(value) for value in table.vote] if values else [0] * len(table)
    weights_of = {}
    for cell, weight in zip(zip(classes.tolist(), places, strict=True), table.w, strict=True):
        weights_of.setdefault(cell, []).append(weight)
    counts = [
        [len(weights_of.get((number, value), [])) for value in range(len(texts) if values else 1)]
        for number in range(plan.n_classes)
    ]
    weight = plan.schema.weight
    return oracle.means(counts, weights_of, weight.largest, weight.fewest)


def test_rows_show_the_mean_weight_of_their_class_and_value(plan):
    table = drawn(2)
    shown = ed.release(table, plan).table
    assert list(shown.columns) == ["age", "sex", "vote", "w"]
    expected = expected_means(table, plan, values=True)
    texts = plan.schema.sensitive.domain.values
    cells = zip(labels_of(shown, plan).tolist(), [texts.index(value) for value in shown.vote], strict=True)
    assert shown.w.tolist() == pytest.approx([float(expected[cell]) for cell in cells], rel=1e-12)
    assert shown.w.nunique() > 5
    assert shown.w.sum() == pytest.approx(table.w.sum(), rel=0.02)


@pytest.mark.parametrize("wish", [{"sensitive": ["vote", "media"], "ell": 2}, {"closeness": 0.4}])
def test_where_weights_would_tell_of_values_all_rows_of_a_class_share_one(wish):
    plan, table = planned(**wish), drawn(2)
    made = ed.release(table, plan)
    assert made.manifest.weights["per"] == "class"
    assert MEAN_WEIGHTS not in ed.audit([made], ell=2).assumptions
    expected = expected_means(table, plan, values=False)
    cells = labels_of(made.table, plan).tolist()
    assert made.table.w.tolist() == pytest.approx([float(expected[cell, 0]) for cell in cells], rel=1e-12)
    assert ed.verify(made, plan).is_certified


def test_records_count_as_records_for_every_promise(plan):
    unweighted = replace(plan.schema, weight=None)
    plain = ed.plan(ed.estimate(drawn(1, 4000), unweighted), ell=2, releases=2, records=N)
    assert [plain.n_classes, plain.failure_upper] == [plan.n_classes, plan.failure_upper]
    table = drawn(2)
    first, second = (ed.release(table, each) for each in (plain, plan))
    assert first.table.equals(second.table.drop(columns="w"))
    assert first.manifest.content_digest == second.manifest.content_digest


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_the_order_of_the_records_and_the_engine_leave_the_file_as_it_is(plan, tmp_path, name):
    table = drawn(2)
    for place, records in enumerate((table, table.sample(frac=1, random_state=1))):
        ed.release(records, plan, to=tmp_path / f"{place}{name}")
    assert (tmp_path / f"0{name}").read_bytes() == (tmp_path / f"1{name}").read_bytes()
    assert ed.verify(tmp_path / f"0{name}", plan).is_certified
    audit = ed.audit([tmp_path / f"0{name}"])
    assert audit.holds
    assert MEAN_WEIGHTS in audit.assumptions


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
@pytest.mark.parametrize("change", ["one row", "a whole group", "all", "gone", "no number"])
def test_weights_that_somebody_has_changed_are_refused(plan, tmp_path, name, change):
    path = tmp_path / name
    table = ed.release(drawn(2), plan, to=path) and ed.release(drawn(2), plan).table
    group = table.w == table.w[0]
    if change == "one row":
        table.loc[0, "w"] *= 2
    elif change == "a whole group":
        table.loc[group, "w"] = plan.schema.weight.largest * 2 / int(group.sum())
    elif change == "all":
        table["w"] = 1.0
    elif change == "gone":
        table.loc[0, "w"] = np.nan
    else:
        table["w"] = "heavy"
    table.to_csv(path, index=False) if name == "r.csv" else table.to_parquet(path, index=False)
    with pytest.raises(FileError, match="not the one its manifest describes") as caught:
        ed.verify(path, plan)
    assert "weights" in caught.value.found


@pytest.mark.parametrize(
    "changes", [{"step": 1.0}, {"fewest": 2}, {"per": "class"}, {"digest": "sha256:" + "0" * 64}, None]
)
def test_a_manifest_that_is_wrong_about_weights_is_refused(plan, tmp_path, changes):
    path = tmp_path / "r.parquet"
    ed.release(drawn(2), plan, to=path)
    document = json.loads(manifest_path(path).read_text())
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    content["weights"] = None if changes is None else {**content["weights"], **changes}
    manifest_path(path).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))
    with pytest.raises(FileError, match="not the one its manifest describes"):
        ed.verify(path, plan)


def test_a_release_without_the_column_it_should_show_is_refused(plan, tmp_path):
    path = tmp_path / "r.parquet"
    ed.release(drawn(2), plan, to=path)
    pq.write_table(pq.read_table(path).drop(["w"]), path)
    with pytest.raises(DataError, match="Column 'w' is missing"):
        ed.verify(path, plan)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (0.0, "1 zero or negative"),
        (-73.25, "1 zero or negative"),
        (np.nan, "1 without a number"),
        (np.inf, "1 too large or infinite"),
        (-np.inf, "1 zero or negative"),
        (7325.5, "1 too large or infinite"),
        ("x7325x", "1 without a number"),
        ("", "1 without a number"),
        (None, "1 without a number"),
    ],
)
def test_weights_that_are_none_are_refused_without_them(plan, tmp_path, weight, words):
    table = drawn(2)
    table["w"] = table.w.astype(object)
    table.loc[5, "w"] = weight
    if isinstance(weight, str):
        table["w"] = table.w.astype(str)
    with pytest.raises(DataError, match="weights that cannot be used") as caught:
        ed.release(table, plan, to=tmp_path / "r.csv")
    assert words in caught.value.found
    assert "73" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_weights_of_records_that_are_left_out_do_not_matter(plan):
    schema = replace(plan.schema, sensitive=replace(plan.schema.sensitive, nulls="suppress"))
    plan = ed.plan(ed.estimate(drawn(1, 4000), schema), ell=2, releases=2, records=N)
    table = drawn(2, N + 1)
    table.loc[5, ["vote", "w"]] = [None, 0.0]
    assert ed.release(table, plan).manifest.records_suppressed == 1


def test_classes_that_are_left_out_or_move_show_weights_of_what_is_there(plan):
    past = drawn(1, 4000)
    table = drawn(2)
    table = table[(table.age > 21) | (table.vote == "a")]
    table = pd.concat([table, drawn(3, N - len(table)).assign(age=60)])
    left = ed.release(table, plan, leave_out=True)
    assert left.manifest.records_left_out > 0
    assert ed.verify(left, plan).is_certified
    moving = ed.plan(ed.estimate(past, plan.schema), ell=2, releases=2, records=N, merge_risk=0.5)
    moved = ed.release(table, moving, **COINS)
    assert moved.manifest.moving["classes_together"] > 0
    assert ed.verify(moved, moving).is_certified


def test_a_column_of_weights_may_have_another_name_but_no_other_values(plan):
    table = drawn(2)
    named = ed.release(table.rename(columns={"w": "wt"}), plan, columns={"wt": "w"})
    assert named.table.equals(ed.release(table, plan).table)
    with pytest.raises(ParameterError, match="cannot be mapped"):
        ed.release(table, plan, values={"w": {"heavy": "9"}})
    with pytest.raises(DataError, match="Column 'w' is missing"):
        ed.release(table.drop(columns="w"), plan)


def test_persons_and_tables_that_are_published_again_have_no_weights(plan, tmp_path):
    table = drawn(2).assign(id=range(N))
    with pytest.raises(ParameterError, match="no weights are shown"):
        ed.release(table, plan, person="id")
    with pytest.raises(ParameterError, match="no weights are shown"):
        ed.release(
            table,
            plan,
            person="id",
            to=tmp_path / "r.csv",
            ledger=ed.Ledger(tmp_path / "l", "a"),
            updates=UpdatePolicy(tmp_path / "s.parquet"),
        )
    assert not list(tmp_path.iterdir())


def test_an_agency_and_a_ledger_admit_weighted_releases_as_others(plan, tmp_path):
    path = tmp_path / "r.csv"
    made = ed.release(drawn(2), plan, to=path, ledger=ed.Ledger(tmp_path / "l", "a"))
    assert ed.verify(path, plan).is_certified
    registered = validate_registration(plan, registration_of(path, plan), owner="a")
    assert registered.content_digest == made.manifest.content_digest
    assert any("the mean weight of the class and value" in words for words in made.manifest.sentences)
