"""Several sensitive columns: releases that do not tie them together, and what tied rows would give away."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coins import COINS

import elldelta as ed
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import seal
from elldelta.ledger import verify_ledger
from elldelta.plan.plan import Plan
from elldelta.release.row_checks import is_sliced
from elldelta.release.rows import ReleaseRows
from elldelta.schema.schema import Categories, Column, Integers, Schema

AGE = Column("age", Integers(0, 3))
SCHEMA = Schema(
    (AGE,),
    Column("disease", Categories(("flu", "gout", "HIV", "burn", "rash", "cold"))),
    also_sensitive=(Column("income", Integers(1, 3)),),
)


def drawn(rng, n=2500):
    """A table in which income follows from the disease, and the stage from nothing."""
    disease = rng.integers(0, 6, n)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 40, n),
            "sex": rng.choice(["F", "M"], n),
            "disease": np.array(["flu", "gout", "HIV", "burn", "rash", "cold"])[disease],
            "stage": rng.choice(["I", "II", "III", "IV"], n),
            "income": disease + rng.integers(0, 2, n),
        }
    )


@pytest.fixture(scope="module")
def past():
    return drawn(np.random.default_rng(1), 6000)


@pytest.fixture(scope="module")
def plan(past):
    schema = Schema.infer(past, ["age", "sex"], ["disease", "income"], widen={"age": "no"})
    model = ed.estimate(past[["age", "sex", "disease", "income"]], schema)
    return ed.plan(model, ell={"disease": 3, "income": 2}, releases=2, records=2500)


def survivors(tables, columns):
    """What is left of columns for every combination of the first table, if rows are linked on all of them."""
    left = {}
    for key in {key for table in tables for key in table["class"]}:
        rows = [set(table.loc[table["class"] == key, columns].itertuples(index=False)) for table in tables]
        common = set.intersection(*rows)
        left[key] = [len({row[place] for row in common}) for place in range(len(columns))]
    return left


def test_tied_rows_break_promises_that_columns_keep():
    """Two tables show both diseases and both incomes in common; the only row in common shows one of each."""
    first = pd.DataFrame({"class": "c", "disease": ["flu", "HIV"], "income": ["low", "high"]})
    second = pd.DataFrame({"class": "c", "disease": ["flu", "HIV", "flu"], "income": ["high", "low", "low"]})
    for column in ("disease", "income"):
        assert survivors([first, second], [column]) == {"c": [2]}
    assert survivors([first, second], ["disease", "income"]) == {"c": [1, 1]}


counts_of_classes = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=12), min_size=1, max_size=4
)


def table_of(records):
    table = np.zeros((len(records), 9), dtype=np.int64)
    for row, own in enumerate(records):
        for first, second in own:
            table[row, first] += 1
            table[row, 6 + second] += 1
    return table


@given(counts_of_classes, st.integers(1, 9))
@settings(max_examples=60)
def test_rows_have_the_counts_of_every_column_whatever_is_written_at_once(records, rows_at_once):
    table = table_of(records)
    rows = ReleaseRows(SCHEMA, [(str(place),) for place in range(len(records))], table)
    whole = rows.to_table().to_pandas()
    parts = replace(rows, rows_at_once=rows_at_once).to_table().to_pandas()
    assert whole.equals(parts)
    assert len(whole) == sum(map(len, records))
    for place, own in enumerate(records):
        shown = whole[whole["age"] == str(place)]
        diseases = SCHEMA.sensitive.domain.values
        assert sorted(shown["disease"]) == sorted(diseases[value] for value, _ in own)
        assert sorted(shown["income"]) == sorted(1 + value for _, value in own)


@given(counts_of_classes, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_rows_depend_on_the_counts_of_each_column_alone(records, random):
    """However the values of people were tied together, the rows are the same."""
    other = []
    for own in records:
        incomes = [value for _, value in own]
        random.shuffle(incomes)
        other.append([(first, income) for (first, _), income in zip(own, incomes, strict=True)])
    tables = [
        ReleaseRows(SCHEMA, [(str(place),) for place in range(len(records))], table_of(each)).to_table()
        for each in (records, other)
    ]
    assert tables[0] == tables[1]


def test_rows_that_tie_values_together_are_recognized():
    counts = table_of([[(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)] * 3])
    [(classes, *values)] = ReleaseRows(SCHEMA, [("0",)], counts).coded()
    columns = [own + shown.start for own, shown in zip(values, SCHEMA.value_slices, strict=True)]
    n = np.ones(classes.size, dtype=np.int64)
    assert is_sliced(SCHEMA, counts, classes, columns, n)
    tied = [columns[0], np.sort(columns[1])]
    assert not is_sliced(SCHEMA, counts, classes, tied, n)


def test_a_plan_for_several_columns_is_read_back_and_says_what_it_promises(plan):
    assert Plan.from_dict(plan.to_dict()) == plan
    for words in ("at least 3 values of 'disease'", "at least 2 values of 'income'"):
        assert words in plan.promise
    assert any("show their sensitive columns apart" in condition for condition in plan.conditions)


@pytest.mark.parametrize("also", [[[]], [1], 1, [], [{}]], ids=str)
def test_a_plan_whose_further_columns_are_no_promises_is_refused(plan, also):
    document = plan.to_dict()
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    with pytest.raises(FileError, match="changed or damaged"):
        Plan.from_dict(seal("plan", document["format"], {**content, "also": also}))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_release_shows_columns_apart_and_is_verified(plan, tmp_path, ending):
    table = drawn(np.random.default_rng(2))
    path = tmp_path / f"release.{ending}"
    made = ed.release(table, plan, to=path)
    shown = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path)
    assert sorted(shown["disease"]) == sorted(table["disease"])
    assert sorted(shown["income"]) == sorted(table["income"])
    assert made.manifest.also[0]["column"] == "income"
    assert made.manifest.also[0]["diversity"] >= 2
    checked = ed.verify(path, plan)
    assert checked.records == len(table)
    # In the records income follows from the disease; in the release it does not.
    order = {name: place for place, name in enumerate(["flu", "gout", "HIV", "burn", "rash", "cold"])}
    fits = [(row.income - order[row.disease]) in (0, 1) for row in shown.itertuples()]
    assert np.mean(fits) < 0.6


def test_a_release_whose_rows_were_tied_again_is_refused(plan, tmp_path):
    table = drawn(np.random.default_rng(3))
    path = tmp_path / "release.parquet"
    ed.release(table, plan, to=path)
    shown = pd.read_parquet(path)
    shown["income"] = shown.groupby(["age", "sex"])["income"].transform(sorted)
    pq.write_table(pa.Table.from_pandas(shown, preserve_index=False), path)
    with pytest.raises(FileError, match="not the one its manifest describes") as refused:
        ed.verify(path, plan)
    assert "tie sensitive columns together" in refused.value.found


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_rows_in_another_order_are_refused_though_the_first_column_is_sorted(plan, tmp_path, ending):
    path = tmp_path / f"release.{ending}"
    ed.release(drawn(np.random.default_rng(3)), plan, to=path)
    read, write = (pd.read_parquet, "to_parquet") if ending == "parquet" else (pd.read_csv, "to_csv")
    shown = read(path)
    by = ["age", "sex", "disease"]
    same = (shown[by].shift() == shown[by]).all(axis=1) & (shown["income"].shift() != shown["income"])
    row = int(np.flatnonzero(same)[0])
    shown.loc[[row - 1, row], "income"] = shown.loc[[row, row - 1], "income"].to_numpy()
    getattr(shown, write)(path, index=False)
    with pytest.raises(FileError, match="not the one its manifest describes") as refused:
        ed.verify(path, plan)
    assert "order" in refused.value.found


def test_linked_releases_leave_ell_values_of_every_column(plan):
    """An outsider who reads labels only, and links two releases in every column."""
    rng = np.random.default_rng(4)
    shown = []
    for _ in range(2):
        table = ed.release(drawn(rng), plan, leave_out=True).table
        table["class"] = table["age"] + "|" + table["sex"]
        shown.append(table)
    both = set(shown[0]["class"]) & set(shown[1]["class"])
    for column, ell in (("disease", 3), ("income", 2)):
        left = survivors([table[table["class"].isin(both)] for table in shown], [column])
        assert min(n for [n] in left.values()) >= ell


def test_every_column_stays_close_to_its_own_reference(past):
    schema = Schema.infer(past, ["age", "sex"], ["disease", "income"], widen={"age": "no"})
    wish = {"closeness": {"disease": 0.5, "income": 0.4}, "releases": 2, "records": 2500}
    plan = ed.plan(ed.estimate(past, schema), ell=2, **wish)
    assert Plan.from_dict(plan.to_dict()) == plan
    made = ed.release(drawn(np.random.default_rng(5)), plan)
    assert ed.verify(made, plan).is_certified
    said = [made.manifest.closeness, made.manifest.also[0]["closeness"]]
    assert [each["limit"] for each in said] == [0.5, 0.4]
    assert all(each["distance"] <= each["allowed"] for each in said)


def test_a_column_may_be_shown_without_a_promise(past):
    """With ell = 1: every class shows its values, and nobody's is hidden."""
    schema = Schema.infer(past, ["age"], ["disease", "sex"], widen={"age": "no"})
    plan = ed.plan(ed.estimate(past, schema), ell={"disease": 3, "sex": 1}, releases=2, records=2500)
    assert plan.ells == (3, 1)
    table = drawn(np.random.default_rng(8))
    made = ed.release(table, plan)
    assert ed.verify(made, plan).is_certified
    assert made.manifest.also[0]["ell"] == 1
    assert made.table["sex"].value_counts().to_dict() == table["sex"].value_counts().to_dict()


def test_classes_move_up_until_every_column_passes(past, plan):
    """Few records: many classes fail, and a node must satisfy both columns."""
    model = ed.estimate(past[["age", "sex", "disease", "income"]], plan.schema)
    moves = ed.plan(model, ell={"disease": 3, "income": 2}, releases=2, records=2500, merge_risk=0.05)
    made = ed.release(drawn(np.random.default_rng(6), 300), moves, **COINS)
    assert made.manifest.moving["classes_together"] > 0.3 * moves.n_classes
    assert ed.verify(made, moves).is_certified
    assert not made.manifest.records_left_out
    assert made.manifest.diversity >= 3
    assert made.manifest.also[0]["diversity"] >= 2


def test_groups_of_like_values_count_in_the_column_that_has_them(past):
    """A composite column beside another one: ell diseases, whatever their stages."""
    schema = Schema.infer(past, ["age", "sex"], ["disease+stage", "income"], widen={"age": "no"})
    wish = {"releases": 2, "records": 2500}
    plan = ed.plan(ed.estimate(past, schema), ell={"disease+stage": 3, "income": 2}, **wish)
    assert Plan.from_dict(plan.to_dict()) == plan
    assert "at least 3 groups of values of 'disease+stage'" in plan.promise
    names = [value.split(" + ")[0] for value in schema.sensitive.domain.values]
    assert all(len({names[value] for value in values}) == len(values) for values in plan.columns[0].witnesses)
    made = [ed.release(drawn(np.random.default_rng(seed)), plan, leave_out=True) for seed in (1, 2)]
    assert all(ed.verify(each, plan).is_certified for each in made)
    assert made[0].manifest.diversity <= 6
    tables = [each.table.assign(**{"class": each.table["age"] + "|" + each.table["sex"]}) for each in made]
    for key in set(tables[0]["class"]) & set(tables[1]["class"]):
        rows = [set(table.loc[table["class"] == key, "disease+stage"]) for table in tables]
        assert len({value.split(" + ")[0] for value in rows[0] & rows[1]}) >= 3
    assert ed.audit(made).holds


def test_what_several_columns_do_not_go_with_is_refused(past):
    schema = Schema.infer(past, ["age", "sex"], ["disease", "income"])
    model = ed.estimate(past, schema)
    with pytest.raises(ParameterError, match="several sensitive columns"):
        ed.plan(model, ell=2, releases=1, records=2500, kind="paper")
    with pytest.raises(ParameterError, match="by its name"):
        ed.plan(model, ell={"disease": 3}, releases=1, records=2500)
    probabilistic = ed.plan(model, ell=3, releases=1, records=2500, kind="probabilistic")
    with pytest.raises(RefusedError, match="asks for 2,500 records"):
        ed.release(past.iloc[:100], probabilistic)


def test_a_probabilistic_plan_of_several_columns_is_released_and_verified(past, tmp_path):
    model = ed.estimate(past, Schema.infer(past, ["age", "sex"], ["disease", "income"]))
    plan = ed.plan(model, ell=3, releases=1, records=2500, kind="probabilistic")
    made = ed.release(past, plan, to=tmp_path / "release.parquet")
    assert made.manifest.records_released == len(past)
    assert ed.verify(made, plan).classes == made.manifest.classes_published


def test_a_ledger_takes_releases_that_fit_in_every_column_and_leave_their_promises(plan, tmp_path):
    """More releases than the plan is for; what the ledger has no room for is left out. Columns are linked."""
    ledger, rng, shown = tmp_path / "releases.ledger", np.random.default_rng(7), []
    for number in range(4):
        book = ed.Ledger(ledger, f"owner {number}")
        to = tmp_path / f"{number}.parquet"
        ed.release(drawn(rng), plan, to=to, ledger=book, leave_out=True)
        shown.append(to)
    told = verify_ledger(ledger, plan_digest=plan.digest, promises=plan.promises).to_dict()
    assert [promise["column"] for promise in told["promises"]] == ["disease", "income"]
    audit = ed.audit(shown)
    assert audit.diversity_min_any >= 3
    assert audit.also[0].diversity_min_any >= 2


def test_every_row_of_a_class_is_another_value_of_a_person_in_every_column(past, plan, tmp_path):
    """Patients with three records each: no person is behind a value of a column twice."""
    rng = np.random.default_rng(9)
    patients = drawn(rng, 2500).assign(who=[f"patient {n}" for n in range(2500)])
    visits = pd.concat([patients, patients.assign(disease=rng.permutation(patients["disease"])), patients])
    made = ed.release(visits, plan, to=tmp_path / "a.parquet", person="who", leave_out=True)
    kept = {
        (who, disease, income): None
        for who, own in visits.groupby("who")
        for disease, income in first_of_each(own, plan.schema.sensitive.domain.values)
    }
    manifest = made.manifest
    assert manifest.persons["persons"] == 2500 - manifest.records_left_out
    assert manifest.records_read == 7500
    assert manifest.persons["records_repeated"] == 7500 - len(kept)
    assert manifest.persons["persons_per_class"] >= 3
    shown = pd.read_parquet(tmp_path / "a.parquet")
    if not manifest.records_left_out:
        assert sorted(shown["disease"]) == sorted(disease for _, disease, _ in kept)
        assert sorted(shown["income"]) == sorted(income for _, _, income in kept)
    assert ed.verify(tmp_path / "a.parquet", plan).is_certified
    assert b"patient" not in (tmp_path / "a.parquet").read_bytes()
    model = ed.estimate(visits, plan.schema, person="who")
    assert model.n_records == len(kept)


def first_of_each(own, diseases):
    """The records of one person in whose columns every value is new: by age, sex, disease, income."""
    order = {name: place for place, name in enumerate(diseases)}
    rows = sorted({(order[row.disease], row.income) for row in own.itertuples()})
    return [
        (diseases[disease], income)
        for place, (disease, income) in enumerate(rows)
        if disease not in [other for other, _ in rows[:place]]
        and income not in [other for _, other in rows[:place]]
    ]


@pytest.fixture(scope="module")
def moving(past):
    """A plan for people who grow older; men and women stay what they are."""
    schema = Schema.infer(past, ["age", "sex"], ["disease", "income"], widen={"age": "no"}, changes=["age"])
    model = ed.estimate(past[["age", "sex", "disease", "income"]], schema)
    return ed.plan(model, ell={"disease": 3, "income": 2}, releases=2, records=2500)


def fewest_for_movers(tables, column):
    """The fewest values left for somebody who may be in any class of the same sex in every table."""
    left = []
    for sex in ("F", "M"):
        shown = [
            [set(own[column]) for (_, label), own in table.groupby(["age", "sex"]) if label in (sex, "*")]
            for table in tables
        ]
        left += [len(set.intersection(*path)) for path in product(*shown)]
    return min(left)


def test_columns_of_people_who_move_have_witnesses_in_common(moving, tmp_path):
    assert Plan.from_dict(moving.to_dict()) == moving
    assert all("also if 'age' changes" in moving.for_column(index).promise for index in range(2))
    for values in moving.promises[:-1]:
        for number in set(values.ranges.tolist()):
            rows = values.witnesses[values.ranges == number]
            assert (rows == rows[0]).all()
    rng, tables = np.random.default_rng(10), []
    for number in range(3):
        book, to = ed.Ledger(tmp_path / "releases.ledger", f"owner {number}"), tmp_path / f"{number}.parquet"
        ed.release(drawn(rng), moving, to=to, ledger=book, leave_out=True)
        tables.append(pd.read_parquet(to))
    told = verify_ledger(
        tmp_path / "releases.ledger", plan_digest=moving.digest, promises=moving.promises
    ).promise
    assert "also if they move" in told
    for column, ell in (("disease", 3), ("income", 2)):
        assert fewest_for_movers(tables, column) >= ell
