"""Plans as files and as promises: what the words say, what is refused, what is not given away."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planned import with_column

import elldelta as ed
from elldelta.core.moving import Moving
from elldelta.core.witnesses import Witnesses
from elldelta.errors import FileError, ParameterError
from elldelta.files import seal
from elldelta.parameters import PLAN_KINDS
from elldelta.plan.consistency import contradiction
from elldelta.plan.plan import Plan
from elldelta.plan.words import rounded_up
from elldelta.schema.schema import Schema


@given(st.floats(1e-300, 1.0))
def test_words_never_promise_less_failure_than_the_bound(probability):
    assert Decimal(rounded_up(probability)) >= Decimal(probability) * (1 - Decimal("1e-15"))
    assert float(rounded_up(probability)) <= probability * 1.0101


@pytest.fixture(scope="module")
def past():
    """Many people, and a single one with a rare disease."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 40, 8000),
            "zip": np.array(["A", "B", "C", "D"])[rng.integers(0, 4, 8000)],
            "disease": np.array(["flu", "cold", "gout", "acne", "mumps"])[rng.integers(0, 5, 8000)],
        }
    )
    rare = pd.DataFrame({"age": [25], "zip": ["A"], "disease": ["hiv"]})
    return pd.concat([table, rare], ignore_index=True)


@pytest.fixture(scope="module")
def model(past):
    return ed.estimate(past, Schema.infer(past, ["age", "zip"], "disease"))


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_a_plan_can_be_made_without_telling_of_rare_values(model, kind):
    rare = model.schema.sensitive.domain.values.index("hiv")
    plan = ed.plan(model, ell=3, releases=1, records=3000, kind=kind, delta=0.01)
    assert all(rare not in values for values in plan.columns[0].witnesses)
    assert plan.columns[0].past_counts.min() >= 5
    assert plan.failure_upper <= 0.01


def resealed(plan, **changes):
    document = plan.to_dict()
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    return seal("plan", document["format"], {**content, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"promise": "At least 50 values, for certain."},
        {"conditions": ["None."]},
        {"ell": 1},
        {"releases": 10**30},
        {"records": 3000.0},
        {"moving": {"merge_risk": 5, "rho": 0.05, "q": 0.1}},
        {"moving": 5},
        {"k": 0},
        {"failure_upper": 1e-300},
        {"past_counts": None},
        {"classes": 1},
        {"schema": 1},
        {"closeness": -1},
        {"plan_kind": "sure"},
        {"plan_kind": "paper"},
        {"failure_upper": 10**400},
        {"p": 10**400},
        {"records": 10**400},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_plans_whose_words_and_numbers_do_not_agree_are_refused(model, changes):
    plan = ed.plan(model, ell=3, releases=2, records=3000, delta=0.01)
    assert Plan.from_dict(resealed(plan)) == plan
    with pytest.raises(FileError, match="changed or damaged"):
        Plan.from_dict(resealed(plan, **changes))


def test_merged_classes_are_no_plan(model):
    plan = ed.plan(model, ell=3, releases=1, records=3000)
    merged = {"shape": "merged", "base": plan.classes.to_dict(), "group_of": [0] * plan.n_classes}
    with pytest.raises(FileError):
        Plan.from_dict(resealed(plan, classes=merged))


def test_several_records_of_each_witness(model):
    """With min_records = 3 the linkage of two releases leaves ell values with 3 records each."""
    plan = ed.plan(model, ell=3, releases=2, records=4000, min_records=3)
    rng = np.random.default_rng(4)
    releases = []
    for _ in range(2):
        table = pd.DataFrame(
            {
                "age": rng.integers(20, 40, 4000),
                "zip": np.array(["A", "B", "C", "D"])[rng.integers(0, 4, 4000)],
                "disease": np.array(["flu", "cold", "gout", "acne", "mumps"])[rng.integers(0, 5, 4000)],
            }
        )
        releases.append(ed.release(table, plan))
    linkage = ed.audit(releases).linkage
    assert ((linkage.counts >= 3).sum(axis=1) >= 3).all()


@pytest.mark.parametrize(
    "wish", [{}, {"kind": "probabilistic"}, {"kind": "paper"}, {"min_records": 2}], ids=str
)
class TestNumbersThatWereEdited:
    """Sealed again with fitting words, as somebody would who wants to promise more than is true."""

    @pytest.fixture
    def plan(self, model, wish):
        return ed.plan(model, ell=3, releases=2, records=4000, delta=0.01, **wish)

    def refused(self, plan, **changes):
        return self.check(plan, replace(plan, promise="", conditions=(), **changes))

    def refused_column(self, plan, **changes):
        return self.check(plan, with_column(plan, **changes))

    def check(self, plan, forged):
        """Whoever reads it notices; of a certified plan, whose promise is certain, whoever verifies it."""
        assert forged.promise == forged.to_dict()["promise"]
        words = contradiction(forged)
        assert words is not None
        if not plan.is_certified:
            with pytest.raises(FileError, match="contradicts itself") as caught:
                Plan.from_dict(forged.to_dict())
            assert caught.value.found == words
        return words

    def test_the_plan_itself_is_read(self, plan):
        assert Plan.from_dict(plan.to_dict()) == plan

    def test_a_smaller_failure(self, plan):
        # What a certified plan tells is rounded down, and only its chance of passing depends on it.
        times = 1e30 if plan.is_certified else 1000
        words = self.refused_column(plan, failure_upper=plan.failure_upper / times)
        assert "from its witness cells follows" in words

    def test_fewer_records(self, plan):
        self.refused(plan, records=plan.records // 4)

    def test_more_releases(self, plan):
        if plan.kind != "probabilistic":
            pytest.skip("it rounds by a number that only the model tells")
        self.refused(plan, releases=4)

    def test_smaller_cells(self, plan):
        self.refused_column(plan, past_counts=plan.columns[0].past_counts // 2)

    def test_some_larger_cells(self, plan):
        """Cells that make some class look safer: then everything else does not follow from them."""
        if plan.kind != "probabilistic":
            pytest.skip("it rounds by a number that only the model tells")
        column = plan.columns[0]
        counts = np.where(column.witnesses.classes % 8 == 0, 2, 1) * column.past_counts
        self.refused_column(plan, past_counts=counts)

    def test_cells_of_more_than_everybody(self, plan):
        counts = np.full_like(plan.columns[0].past_counts, plan.columns[0].past_records)
        assert "add up to" in self.refused_column(plan, past_counts=counts)


def test_a_merge_risk_must_be_that_of_the_classes(model):
    plan = ed.plan(model, ell=3, releases=2, records=3000, merge_risk=0.3)
    assert Plan.from_dict(plan.to_dict()) == plan
    forged = replace(plan, moving=replace(plan.moving, merge_risk=1e-9), promise="", conditions=())
    assert "merge risk" in contradiction(forged)


@pytest.mark.parametrize(
    ("wish", "changes"),
    [
        ({"kind": "paper"}, {"moving": Moving(1e-9)}),
        ({}, {"k": 2}),
        ({"kind": "paper"}, {"min_records": 50}),
        ({"kind": "paper"}, {"delta": 1e-9}),
        ({}, {"delta": 1e-9}),
        ({"kind": "probabilistic"}, {"delta": 1e-9}),
        ({"kind": "probabilistic"}, {"min_records": 2}),
        ({"kind": "probabilistic"}, {"movers": "any"}),
    ],
    ids=str,
)
def test_terms_from_which_nothing_follows_are_refused(model, wish, changes):
    """Words that sound stronger, over numbers that stay as they are."""
    plan = ed.plan(model, ell=3, releases=2, records=4000, delta=0.01, **wish)
    assert Plan.from_dict(plan.to_dict()) == plan
    forged = replace(plan, promise="", conditions=(), **changes)
    with pytest.raises(FileError, match="contradicts itself"):
        Plan.from_dict(forged.to_dict())


def test_a_witness_that_never_occurs_is_counted_as_written():
    """floor((a - ell) / t) stays, and every release misses one more: nobody would pass."""
    rng = np.random.default_rng(0)
    values = rng.choice(list("abcz"), 4000, p=[0.333, 0.333, 0.333, 0.001])
    past = pd.DataFrame({"age": rng.integers(0, 30, 4000), "d": values})
    plan = ed.plan(ed.estimate(past, Schema.infer(past, ["age"], "d")), ell=3, releases=2, records=400)
    unseen = plan.schema.sensitive.domain.values.index("z")
    padded = with_column(
        plan,
        witnesses=Witnesses.of([[*values, unseen] for values in plan.columns[0].witnesses]),
        past_counts=np.insert(plan.columns[0].past_counts, plan.columns[0].witnesses.offsets[1:], 0),
    )
    assert "failure probability" in contradiction(padded)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("witnesses", (0, 0, 1)),
        ("witnesses", (0, 1, 99)),
        ("witnesses", (0, 1, -1)),
        ("witnesses", (0, 1, 1 << 32)),
        ("witnesses", (0, 1)),
        ("past_counts", (500, 500, 10**9)),
        ("past_counts", (500, 500, -1)),
        ("past_counts", (500, 500)),
    ],
)
def test_witnesses_that_no_plan_has_are_refused(model, name, row):
    plan = ed.plan(model, ell=3, releases=1, records=3000, delta=0.01)
    [column] = plan.columns
    first, *others = column.witnesses

    def forged():
        if name == "witnesses":
            return with_column(plan, witnesses=Witnesses.of([row, *others]))
        return with_column(plan, past_counts=np.array([*row, *column.past_counts[first.size :]]))

    with pytest.raises(ParameterError):
        forged()


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("counts", 2.0),
        ("values", True),
        ("values", 10**30),
        ("past_counts", "5"),
        ("past_counts", True),
        ("past_counts", None),
    ],
)
def test_entries_of_another_type_are_refused_with_their_place(model, name, entry):
    plan = ed.plan(model, ell=3, releases=1, records=3000, delta=0.01)
    [column] = plan.to_dict()["columns"]
    (column if name in column else column["witnesses"])[name][2] = entry
    with pytest.raises(FileError, match=f"{name}: The '{name}' must be whole numbers"):
        Plan.from_dict(resealed(plan, columns=[column]))
