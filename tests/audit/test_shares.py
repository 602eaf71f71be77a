"""Closeness and gains in audits and gates against the definition: every person, group and set of values."""

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.audit.test_audit import COLUMNS, COMBINATIONS, VALUES, as_plain, random_release, table_of
from tests.oracles import belief as oracle
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.audit.audit import audit, audit_before
from elldelta.audit.page import render_audit
from elldelta.engines.duckdb import connect
from elldelta.errors import ParameterError
from elldelta.pages.page import percent
from elldelta.release import open_published


@pytest.fixture(scope="module")
def engine():
    with connect() as running:
        yield running


def pooled(releases):
    held = [value for release in releases for _, values in release.values() for value in values]
    return [held.count(value) for value in VALUES]


@pytest.mark.parametrize("seed", range(quick_or_all(8, 16)))
def test_closeness_to_the_pooled_releases_is_the_loop_over_people_groups_and_sets(engine, seed):
    rng = random.Random(seed)
    releases = [random_release(rng, disjoint=seed % 2 == 0) for _ in range(rng.randrange(1, 4))]
    allowed = rng.choice(["0.1", "0.25", "0.4", "0.5"])
    result = audit(
        [table_of(release) for release in releases],
        closeness=float(allowed),
        columns=COLUMNS,
        engine=engine,
    )
    plain, reference = as_plain(releases), pooled(releases)
    cells = range(len(COMBINATIONS))
    truth = [oracle.furthest(plain, cell, reference) for cell in cells]
    furthest = max(distance for distance in truth if distance is not None)
    found = result.closeness
    assert found.is_complete
    assert found.distance == pytest.approx(float(furthest), abs=1e-12)
    assert found.bound == pytest.approx(
        float(max(oracle.excess(plain, cell, reference) for cell in cells if truth[cell] is not None))
    )
    assert found.holds == result.holds == (furthest <= Fraction(allowed))
    assert result.verdict.startswith("Safe" if result.holds else "Not safe")
    assert "the overall distribution of the releases" in result.verdict
    worst = found.worst[0]
    assert worst.set_after - worst.set_before == pytest.approx(found.distance)
    assert worst.guess_before == pytest.approx(max(reference) / sum(reference))
    chances = [oracle.shares(reference)] * len(plain)
    led = [
        [oracle.surest_and_gain(oracle.led_by_shares(plain, cell), reference) for cell in cells],
        [
            oracle.surest_and_gain(oracle.led_by_bayes(plain, cell, reference, chances), reference)
            for cell in cells
        ],
    ]
    assert result.reference == "the overall distribution of the releases"
    assert result.baseline == pytest.approx(max(reference) / sum(reference))
    for reading, every in zip(result.readings, led, strict=True):
        each = [pair for pair in every if pair is not None]
        assert reading.share_surest == pytest.approx(float(max(surest for surest, _ in each)))
        assert reading.share_after - reading.share_before == pytest.approx(
            float(max(gain for _, gain in each))
        )
    assert ("none of them is in two releases" in result.readings[1].condition) == (len(releases) > 1)
    assert ("can be led further" in found.note) == (seed % 2 == 1)


@pytest.mark.parametrize("seed", range(quick_or_all(5, 10)))
def test_the_gate_asks_groups_with_the_new_release(engine, seed):
    rng = random.Random(50 + seed)
    releases = [random_release(rng, disjoint=True) for _ in range(rng.randrange(1, 4))]
    *published, new = [table_of(release) for release in releases]
    result = audit_before(new, published, closeness=0.4, columns=COLUMNS, engine=engine)
    plain, last, reference = as_plain(releases), len(releases) - 1, pooled(releases)
    truth = [oracle.furthest(plain, cell, reference, last) for cell in range(len(COMBINATIONS))]
    assert result.holds == all(distance is None or distance <= Fraction(2, 5) for distance in truth)
    failing = {
        labels
        for labels, (sets, _) in releases[-1].items()
        for cell, (age, job) in enumerate(COMBINATIONS)
        if age in sets[0] and job in sets[1] and truth[cell] is not None and truth[cell] > Fraction(2, 5)
    }
    assert {item.labels for item in result.classes if item.too_far} == failing
    assert result.holds or "Do not publish: in " in result.verdict


def skewed(n_common):
    """97 of 100 have the flu: four values are left, and everybody knows."""
    values = ["flu"] * n_common + ["gout", "mumps", "rash"]
    return pa.table({"age": ["0-4"] * len(values), "job": ["p"] * len(values), "disease": values})


def test_a_headline_says_against_what_and_how_sure_somebody_can_be(engine):
    plain = audit([skewed(97), skewed(90)], ell=4, columns=COLUMNS, engine=engine)
    assert plain.verdict.startswith("Safe against linking, in distinct values: ")
    assert f"At worst one value has {percent(plain.surest_share)} of the linked records" in plain.surest
    assert f"at most {percent(plain.baseline)} for one value" in plain.surest
    assert "the other people of each release are independent draws from the reference" in plain.surest
    assert "There is no limit on how sure a guess can be" in plain.surest
    uniform = pa.table({"age": ["0-4"] * 4, "job": ["q"] * 4, "disease": list(VALUES)})
    both = pa.concat_tables([skewed(97), *[uniform] * 25])
    far = audit([both], ell=4, closeness=0.2, columns=COLUMNS, engine=engine)
    assert not far.holds
    assert far.values_hold
    assert far.verdict.startswith("Not safe: shares of linked records differ by up to ")
    page = render_audit(far.to_dict(labels=True))
    assert '<h1 class="bad">Not safe' in page
    assert "How far it leads" in page.split("<h2>")[0]
    public = far.to_dict(public=True)
    assert public["closeness"]["worst"] == []
    assert public["closeness"]["distance"] == 0.36
    assert f"one value has {percent(public['surest_share'], 0)} of the records" in public["surest"]
    assert f"one value has {percent(far.surest_share)} of the records" in far.surest
    assert "mumps" not in str(public)
    assert "mumps" not in str(far.to_dict())


def test_closeness_alone_asks_for_no_number_of_values(engine):
    result = audit([skewed(97), skewed(90)], closeness=0.1, columns=COLUMNS, engine=engine)
    assert result.holds
    assert result.verdict.startswith("Safe against linking, in shares: ")
    assert "asked for" not in result.verdict


def test_closeness_to_a_model_compares_with_its_distribution_in_each_place(engine):
    past = pa.table(
        {
            "age": [0] * 8 + [1] * 8,
            "disease": ["flu"] * 6 + ["gout"] * 2 + ["flu"] * 2 + ["gout"] * 6,
        }
    )
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive="disease")
    model = ed.estimate(past, schema)
    release = pa.table({"age": ["0"] * 4 + ["1"] * 4, "disease": ["flu"] * 4 + ["flu", *["gout"] * 3]})
    result = ed.audit([release], closeness=0.3, closeness_to=model, columns=schema)
    # One more record is spread like the whole: (6 + 1/2) / 9 of the flu where the age is 0.
    assert result.closeness.distance == pytest.approx(1 - 6.5 / 9)
    assert result.closeness.reference == "the model of 16 past records"
    assert result.holds
    worst = result.closeness.worst[0]
    assert (worst.values, worst.guess_after) == (("flu",), 1.0)


def test_a_model_counts_all_its_past_records_also_those_in_no_class(engine):
    ages, diseases = [0] * 8 + [1] * 8 + [2] * 32, ["flu"] * 6 + ["gout"] * 2 + ["flu"] * 2 + ["gout"] * 38
    past = pa.table({"age": ages, "disease": diseases})
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive="disease")
    release = pa.table({"age": ["0"] * 4 + ["1"] * 4, "disease": ["flu"] * 4 + ["flu", *["gout"] * 3]})
    result = ed.audit([release], closeness=0.9, closeness_to=ed.estimate(past, schema), columns=schema)
    assert result.reference == "the model of 48 past records"
    assert result.baseline == pytest.approx(40 / 48)  # of the 16 in released classes only half have gout
    assert result.closeness.distance == pytest.approx(1 - (6 + 8 / 48) / 9)


def test_a_reference_without_a_closeness_is_refused():
    with pytest.raises(ParameterError, match="closeness"):
        ed.audit([skewed(9)], ell=2, columns=COLUMNS, closeness_to="pooled")
    with pytest.raises(ParameterError, match="between 0 and 1"):
        ed.audit([skewed(9)], ell=2, columns=COLUMNS, closeness=1.5)


def people_of(seed, n=2000):
    """People whose values hang on their age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 8, n)
    value = (age // 3 + rng.choice(4, n, p=[0.5, 0.2, 0.2, 0.1])) % 4
    return pa.table({"age": age, "disease": np.array(VALUES)[value]})


@pytest.fixture(scope="module")
def planned():
    """A plan for closeness alone, and three releases of owners who draw from the same people."""
    past = people_of(3, 4000)
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive="disease")
    plan = ed.plan(ed.estimate(past, schema), closeness=0.3, releases=3, records=2000)
    return plan, [ed.release(people_of(seed), plan) for seed in range(6, 9)]


def test_releases_for_closeness_are_audited_without_their_plan_and_not_judged(planned):
    _, releases = planned
    found = ed.audit(releases)
    assert not found.is_judged
    assert not found.holds
    assert found.verdict.startswith("Not judged: closeness was promised")
    assert found.surest_share is not None  # what linking shows is there all the same
    assert "with their plan" in found.next_steps[0]
    assert ed.audit(releases, ell=2).is_judged
    with pytest.raises(ParameterError, match="no number of values"):
        ed.audit_before(releases[0], releases[1:])


def test_what_is_found_not_to_hold_is_an_answer_where_closeness_is_not_judged(planned):
    plan, _ = planned
    more = pa.concat_tables([(rows := people_of(3)), rows.slice(0, 1)])
    both = [ed.release(rows, plan), ed.release(more, plan)]
    assert not ed.audit(both).is_refused
    found = ed.audit(both, contained=[[0, 1]])
    assert found.subtraction.status == "found"
    assert found.is_judged
    assert found.is_refused
    assert found.verdict.startswith("Not safe: ")


def test_no_plan_promises_anything_about_releases_of_two(planned):
    plan, [release, *others] = planned
    assert "no plan promises" not in " ".join(ed.audit([release, *others]).to_dict()["warnings"])
    schema = plan.schema
    other = ed.plan(ed.estimate(people_of(4), schema), ell=2, releases=1, records=2000)
    found = ed.audit([release, ed.release(people_of(5), other)]).to_dict()
    words = "The releases were made under 2 plans: no plan promises anything about linking them."
    assert words in found["warnings"]


def test_closeness_to_a_plan_is_the_loop_over_its_classes(planned):
    plan, releases = planned
    result = ed.audit(releases, closeness_to=plan)
    found = result.closeness
    assert found.allowed == 0.3
    assert found.reference == "what the plan says about the class"
    assert found.holds
    assert found.distance <= found.bound <= 0.3
    references = plan.promises[0].references
    tables = []
    for release in releases:
        published = open_published(release)
        tables.append((published.grouping.class_of.tolist(), published.counts.tolist()))
    truth = [oracle.furthest(tables, base, references[base].tolist()) for base in range(plan.n_classes)]
    assert found.distance == pytest.approx(float(max(distance for distance in truth if distance is not None)))
    # As if they were somebody else's: read by their labels, with the plan's schema.
    foreign = ed.audit([release.table for release in releases], closeness_to=plan)
    assert foreign.closeness.distance == pytest.approx(found.distance)
    # Both readings against the plan's own references, for everybody and every group.
    chances = [oracle.shares(row) for row in references.tolist()]
    led = []
    for base in range(plan.n_classes):
        own = references[base].tolist()
        # every release publishes the plan's classes, so the others of a class fall as its reference says
        by_bayes = oracle.led_by_bayes(tables, base, own, [chances[base]] * len(tables))
        led.append((oracle.surest_and_gain(oracle.led_by_shares(tables, base), own),
                    oracle.surest_and_gain(by_bayes, own)))  # fmt: skip
    for number, reading in enumerate(result.readings):
        surest, gain = (max(each[number][part] for each in led if each[number]) for part in (0, 1))
        assert reading.share_surest == pytest.approx(float(surest))
        assert reading.share_after - reading.share_before == pytest.approx(float(gain))
    assert result.reference == "what the plan says about the class"
    assert result.baseline == pytest.approx(float(max(max(row) for row in chances)))
    strict = ed.audit(releases, closeness=0.001, closeness_to=plan)
    assert not strict.holds
    assert "what the plan says about the class" in strict.verdict


def test_promised_closeness_is_not_passed_over(planned):
    _, releases = planned
    result = ed.audit(releases, ell=2)
    assert any(line.words.startswith("Closeness is promised (0.3)") for line in result.assumptions)


def test_a_plan_without_references_cannot_be_compared_with():
    past = pa.table({"age": [0] * 40 + [1] * 40, "disease": list(VALUES) * 20})
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive="disease")
    plan = ed.plan(ed.estimate(past, schema), ell=2, releases=1, records=500)
    with pytest.raises(ParameterError, match="nothing that shares"):
        ed.audit([skewed(9)], closeness=0.2, closeness_to=plan, columns=COLUMNS)
