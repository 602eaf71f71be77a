"""Plans for closeness: what they promise in words, what they give away, and how they are read again."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
from elldelta.core.closeness import MOST_PARTS, public_references
from elldelta.core.generalize.bounds import FEWEST_EXPECTED
from elldelta.core.partition import Partition
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import seal
from elldelta.plan.plan import Plan
from elldelta.plan.wish import Wish

DISEASES = np.array(["flu", "cold", "gout", "acne", "mumps"])


def people(n_people, seed):
    """Diseases depend on age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 40, n_people)
    young = rng.choice(5, n_people, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    old = rng.choice(5, n_people, p=[0.1, 0.2, 0.3, 0.2, 0.2])
    disease = DISEASES[np.where(age < 30, young, old)]
    return pd.DataFrame(
        {"age": age, "zip": np.array(list("ABCD"))[rng.integers(0, 4, n_people)], "disease": disease}
    )


@pytest.fixture(scope="module")
def model():
    past = people(8000, 0)
    return ed.estimate(past, ed.Schema.infer(past, ["age", "zip"], "disease", widen={"age": "no"}))


@pytest.fixture(scope="module")
def plan(model):
    return ed.plan(model, closeness=0.2, releases=2, records=6000, merge_risk=0.05)


@pytest.fixture(scope="module")
def both(model):
    return ed.plan(model, ell=3, closeness=0.2, releases=2, records=6000, merge_risk=0.05)


def test_the_promise_speaks_of_shares_and_of_what_they_do_not_bound(plan, both):
    for made in (plan, both):
        assert "the share that any set of values of 'disease' has among the records linked to" in made.promise
        assert "differs from what this plan already says of people of that class" in made.promise
        assert "linking any 2 releases" in made.promise
        assert "believ" not in f"{made.promise} {made.conditions}"
        [limit] = [condition for condition in made.conditions if "Bayes" in condition]
        assert "shares of linked records" in limit
    assert "20 percentage points" in plan.promise
    assert "For certain" in plan.promise
    # Without ell nothing is said about distinct values.
    assert plan.ell == 1
    assert "at least" not in plan.promise.partition("In a release")[0]
    assert not any(plan.witnesses)
    assert not any("values. 'elldelta audit'" in condition for condition in plan.conditions)
    assert "at least 3 values of 'disease'" in both.promise


@pytest.mark.parametrize("name", ["plan", "both"])
def test_a_plan_is_read_as_it_was_written(name, request):
    made = request.getfixturevalue(name)
    document = made.to_dict()
    again = Plan.from_dict(document)
    assert again == made
    assert again.closeness.references == made.closeness.references
    assert again.terms.closeness.limit == Fraction(str(made.closeness.limit)) / 2


@pytest.mark.parametrize(
    "change",
    [
        {"limit": 0.1},
        {"limit": 1.5},
        {"to": "overall"},
        {"to": "nobody"},
        {"references": [[1, 2]]},
        {"masses": [0.5]},
        {"masses": "a"},
        {"more": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_edited_plans_are_refused(plan, change):
    document = plan.to_dict()
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    assert Plan.from_dict(seal("plan", 1, content)) == plan
    content["closeness"] = {**content["closeness"], **change}
    with pytest.raises(FileError):
        Plan.from_dict(seal("plan", 1, content))


@pytest.mark.parametrize("most", [2**53, 10**400], ids=["53 bits", "400 digits"])
def test_references_of_more_records_than_anybody_has_are_refused(plan, most):
    content = {key: value for key, value in plan.to_dict().items() if key not in ("kind", "format", "digest")}
    rows = [[most, *row[1:]] for row in content["closeness"]["references"]]
    content["closeness"] = {**content["closeness"], "references": rows}
    with pytest.raises(FileError, match="changed or damaged"):
        Plan.from_dict(seal("plan", 1, content))


def test_references_are_near_the_classes_and_tell_no_counts(model, plan):
    class_of = plan.class_of(model.ranks)
    counts = np.zeros((plan.n_classes, 5))
    np.add.at(counts, class_of, model.counts.dense())
    sizes = counts.sum(axis=1)
    references = np.array(plan.closeness.references)
    parts = references.sum(axis=1)
    assert (parts <= 0.75 * sizes).all()  # a part stands for more than one record
    assert (parts <= MOST_PARTS).all()
    shares = counts / sizes[:, None]
    assert 0.5 * np.abs(references / parts[:, None] - shares).sum(axis=1).max() < 0.05
    # Many different counts give the same reference.
    moved = counts.copy()
    moved[:, 0] += 1
    same = (public_references(moved) == public_references(counts)).all(axis=1)
    assert same.mean() > 0.3


def test_few_past_people_lend_their_class_no_reference():
    """Somebody far from everybody else has a class apart, which would tell the value as its reference."""
    far = pd.DataFrame({"age": [90], "zip": ["A"], "disease": ["mumps"]})
    past = pd.concat([people(3000, 0), far], ignore_index=True)
    model = ed.estimate(past, ed.Schema.infer(past, ["age", "zip"], "disease", widen={"age": "no"}))
    wish = {"closeness": 0.5, "releases": 2, "records": 3000, "merge_risk": 0.2}
    made = ed.plan(model, **wish)
    counts = np.zeros((made.n_classes, 5))
    np.add.at(counts, made.class_of(model.ranks), model.counts.dense())
    alone = counts.sum(axis=1) == 1
    assert alone.any()  # cutting the person off loses less than a class that reaches so far
    assert (np.count_nonzero(np.array(made.closeness.references)[alone], axis=1) > 1).all()
    # The same references whatever the disease of that one person is.
    other = past.copy()
    other.loc[other.index[-1], "disease"] = "gout"
    again = ed.plan(ed.estimate(other, model.schema), **wish)
    place = int(made.class_of(model.ranks)[-1])
    near = np.array(made.closeness.references)[place], np.array(again.closeness.references)[place]
    assert np.abs(near[0] / near[0].sum() - near[1] / near[1].sum()).max() < 0.02
    # Owners with such people merge them with others or leave them out; the others are published.
    owner = pd.concat([people(3000, 5), far], ignore_index=True)
    assert ed.release(owner, made).manifest.records_released >= 2900


def test_the_estimated_chance_of_passing_is_about_right(model):
    """Owners drawn from the model: the share of classes that fail is near the waiting risk, never far above.

    The largest classes fail more rarely than the risk, so only the upper side is a claim. With 400 owners and
    some 20 classes the mean of the worst class is known to about 0.03: three times that is allowed.
    """
    made = ed.plan(model, closeness=0.2, releases=2, records=6000, merge_risk=0.2)
    rng = np.random.default_rng(1)
    counts = np.zeros((made.n_classes, 5))
    np.add.at(counts, made.class_of(model.ranks), model.counts.dense())
    fails, large = np.zeros(made.n_classes), counts.sum(axis=1) / counts.sum() * 6000 > FEWEST_EXPECTED
    grouping = Partition(np.arange(made.n_classes))
    for _ in range(400):
        table = rng.multinomial(6000, (counts / counts.sum()).ravel()).reshape(counts.shape)
        fails += made.terms.closeness.is_too_far(table, grouping)
    assert (fails[large] / 400).max() < 0.2 + 0.09
    assert (fails[large] / 400).max() > 0.05  # and not so careful that the number means nothing


def test_overall_is_one_reference_for_everybody(model):
    made = ed.plan(model, closeness=0.6, closeness_to="overall", releases=2, records=6000, merge_risk=0.05)
    assert len(made.closeness.references) == 1
    assert "already says of everybody" in made.promise
    assert Plan.from_dict(made.to_dict()) == made
    assert made.terms.closeness.references.shape == (made.n_classes, 5)


def test_a_plan_promises_something(model):
    with pytest.raises(ParameterError, match="needs a promise"):
        ed.plan(model, records=3000)
    for wrong in (
        {"closeness": 0.0},
        {"closeness": 0.2, "kind": "probabilistic"},
        {"closeness": 0.2, "kind": "paper"},
        {"ell": 3, "closeness_to": "overall"},
        {"closeness": 0.2, "closeness_to": "mine"},
    ):
        with pytest.raises(ParameterError):
            ed.plan(model, records=3000, **wrong)
    with pytest.raises(RefusedError, match="stay within"):
        ed.plan(model, closeness=0.05, releases=2, records=30)


def test_a_wish_is_read_as_it_was_written():
    wish = Wish(closeness=0.25, closeness_to="overall", records=100)
    assert Wish.from_dict(wish.to_dict()) == wish
    assert Wish.from_dict({"closeness": 0.25, "records": 100}).ell == 1
    with pytest.raises(ParameterError, match="ell or closeness"):
        Wish.from_dict({"records": 100})
