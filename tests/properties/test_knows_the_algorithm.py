"""A reader who knows the algorithm: three cases in which choosing classes after a look gave people away.

The reader knows the plan, the program and who is in which ward, but nobody's value and no coins. So the
reader runs the program on every table that fits the release, and keeps those that give it.
"""

from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import elldelta as ed
from elldelta.cli.main import execute
from elldelta.files.signatures import PrivateKey
from elldelta.release.publishable import Coins, publishable
from elldelta.release.release import DECOYS

VALUES = tuple(f"value {place:02d}" for place in range(11))
TWICE = VALUES[-1]
NAMES = tuple(f"release {number}" for number in range(200))


@pytest.fixture(scope="module")
def key():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


@pytest.fixture(scope="module")
def wards():
    """A model in which a sixth of all people is in ward B, and all values are as frequent everywhere."""
    past = pd.DataFrame(
        [("B" if place % 6 == 0 else "A", VALUES[place // 6 % 11]) for place in range(6 * 11 * 40)],
        columns=["ward", "value"],
    )
    return ed.estimate(past, ed.Schema.infer(past, ["ward"], "value"))


def table_of(in_b, values=(*VALUES, TWICE)):
    """Twelve people, of whom these two values are in ward B."""
    rest = list(values)
    for value in in_b:
        rest.remove(value)
    rows = [("A", value) for value in rest] + [("B", value) for value in in_b]
    return pd.DataFrame(rows, columns=["ward", "value"])


@pytest.fixture(scope="module")
def every_table(wards):
    """All tables of ten people in A and two in B that show eleven values, the last one twice; counted."""
    pairs = combinations_with_replacement(VALUES, 2)
    return {pair: counted(table_of(pair), wards) for pair in pairs if pair[0] != pair[1] or pair[0] == TWICE}


def counted(table, known):
    """Records by combination and value, by the schema of a model or of a plan."""
    return ed.estimate(table, known.schema).counts


def published(counts, plan, key=None, name=None):
    """The labels of the classes that the program would publish, or that it refuses."""
    coins = None if key is None else Coins(key.secret_for(DECOYS), name)
    try:
        made = publishable(counts, plan, coins=coins)
    except ed.RefusedError:
        return "refused"
    return tuple(labels for labels, counts in zip(made.labels, made.counts, strict=True) if counts.any())


def test_wards_with_fixed_classes_are_refused_and_nothing_is_published(wards, every_table):
    plan = ed.plan(wards, ell=2, releases=1, records=12, delta=0.6)
    assert plan.n_classes == 2

    with pytest.raises(ed.RefusedError) as refused:
        ed.release(table_of((TWICE, TWICE)), plan)

    assert "1 of 2 classes" in str(refused.value)
    assert not any(value in str(refused.value) for value in VALUES)
    # What is published has the plan's classes, whichever of the other tables it is.
    others = [counts for pair, counts in every_table.items() if pair != (TWICE, TWICE)]
    shown = {published(counts, plan) for counts in others}
    assert shown == {(("A",), ("B",))}


def published_together(counts, plan, key, names=NAMES):
    """The names under which the program publishes both wards as one class."""
    return [name for name in names if published(counts, plan, key, name) == (("*",),)]


def odds_kept(decoys, plan):
    """Whether a table whose wards pass is published together as often as decoys are drawn: odds within K.

    One of two leaves is a decoy with a chance of 1 - (1 - rho)^2. The exact binomial test fails once in a
    million by chance, and notices if there are no decoys: the chance of none among 200 names is 1e-9.
    """
    chance = 1 - (1 - plan.moving.rho) ** 2
    assert 1 / chance <= plan.moving.odds_upper(1, is_root=True)
    return stats.binomtest(len(decoys), len(NAMES), chance).pvalue > 1e-6


def test_wards_with_moving_classes_every_table_is_possible_at_odds_of_at_most_k(wards, every_table, key):
    plan = ed.plan(wards, ell=2, releases=1, records=12, merge_risk=0.6)
    assert plan.n_classes == 2
    decoys = published_together(every_table[VALUES[:2]], plan, key)
    some = [*decoys[:3], *[name for name in NAMES if name not in decoys][:3]]

    found = {pair: published_together(counts, plan, key, some) for pair, counts in every_table.items()}

    assert len(found) == 56
    fits = {pair for pair, names in found.items() if names}
    assert len({value for pair in fits for value in pair}) >= 2, "two values were promised to B's people"
    assert fits == set(found), "every table that shows the same counts is possible"
    assert found.pop((TWICE, TWICE)) == some, "this one always"
    assert all(names == decoys[:3] for names in found.values()), "coins do not depend on the table"
    assert odds_kept(decoys, plan)


def test_nothing_that_is_published_tells_a_ward_that_failed_from_a_decoy(wards, key):
    plan = ed.plan(wards, ell=2, releases=1, records=12, merge_risk=0.6)
    failed, passed = table_of((TWICE, TWICE)), table_of(VALUES[:2])
    decoys = published_together(counted(passed, plan), plan, key)
    assert decoys
    for name in decoys[:3]:
        one, other = (ed.release(each, plan, key=key, announced=name) for each in (failed, passed))
        assert one.table.equals(other.table)
        assert one.manifest.to_dict() == other.manifest.to_dict()
        assert one.manifest.sentences == other.manifest.sentences


@pytest.fixture(scope="module")
def tests_of_wards():
    """10 % are positive in both wards; a fifth of all people is in ward B."""
    past = pd.DataFrame(
        [
            ("B" if place % 5 == 0 else "A", "positive" if place // 5 % 10 == 0 else "negative")
            for place in range(20_000)
        ],
        columns=["ward", "test"],
    )
    return ed.estimate(past, ed.Schema.infer(past, ["ward"], "test"))


def one_person_in_b(result):
    rows = [("A", "positive")] * 100 + [("A", "negative")] * 899 + [("B", result)]
    return pd.DataFrame(rows, columns=["ward", "test"])


@pytest.mark.parametrize("more", [{}, {"merge_risk": 0.1}])
def test_absence_is_not_the_answer_of_a_single_person(tests_of_wards, key, more):
    plan = ed.plan(tests_of_wards, closeness=0.2, releases=1, records=1000, **more)
    assert plan.labels == [("A",), ("B",)]
    tables = [counted(one_person_in_b(result), plan) for result in ("negative", "positive")]
    for name in NAMES[:20]:
        how = (key, name) if more else ()
        negative, positive = (published(counts, plan, *how) for counts in tables)
        assert negative == positive


def test_absence_is_not_the_answer_where_classes_of_one_may_be_published(tests_of_wards, key):
    plan = ed.plan(tests_of_wards, closeness=0.2, releases=1, records=1000, k=1, merge_risk=0.1)
    negative, positive = (counted(one_person_in_b(result), plan) for result in ("negative", "positive"))

    assert published_together(positive, plan, key, NAMES[:20]) == list(NAMES[:20])
    assert odds_kept(published_together(negative, plan, key), plan)


def voters(rng, n):
    """Survey-like people: parties depend on age, education and region."""
    age, sex = rng.integers(18, 90, n), rng.choice(["F", "M"], n)
    education = rng.choice(["none", "school", "college", "degree"], n, p=[0.15, 0.4, 0.25, 0.2])
    region = rng.choice(["N", "E", "S", "W", "C"], n, p=[0.1, 0.2, 0.25, 0.25, 0.2])
    weights = np.tile([0.3, 0.25, 0.15, 0.1, 0.08, 0.05, 0.04, 0.03], (n, 1))
    weights[age > 60, 0] *= 1.6
    weights[education == "degree", 3] *= 2.5
    weights[region == "N", 5] *= 3
    shares = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    party = np.minimum((rng.random(n)[:, None] > shares).sum(axis=1), 7)
    return pd.DataFrame(
        {"age": age, "sex": sex, "education": education, "region": region, "vote": party}
    ).astype({"vote": str})


@pytest.mark.parametrize(
    ("wish", "how"),
    [("--releases 3", ""), ("--owners 3", "--ledger ledger --owner {owner}")],
    ids=["certificates", "a ledger"],
)
def test_three_owners_who_share_people_are_safe_with_the_steps_of_the_readme(
    wish, how, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    voters(rng, 20_000).to_csv("past.csv", index=False)
    shared = voters(rng, 5_000)
    for owner in "abc":
        pd.concat([shared, voters(rng, 3_000)]).to_csv(f"{owner}.csv", index=False)
    steps = (
        "schema infer past.csv --qi age,sex,education,region --sensitive vote -o schema.toml",
        "estimate past.csv --schema schema.toml -o model.parquet",
        f"plan model.parquet --ell 3 {wish} --records 8000 -o plan.json",
        *(
            f"release {owner}.csv --plan plan.json {how.format(owner=owner)} -o {owner}_out.csv"
            for owner in "abc"
        ),
    )
    for step in steps:
        assert execute(step.split()) == 0, step
    capsys.readouterr()

    code = execute(["audit", "a_out.csv", "b_out.csv", "c_out.csv"])

    told = capsys.readouterr().out
    assert "Safe" in told
    assert "Not safe" not in told
    assert code == 0
