"""Audits, gates and targets against the definition: every combination of quasi-identifiers in turn."""

import functools
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from tests.oracles import exposure as oracle
from tests.oracles import foreign as definition
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.audit.audit import audit, audit_before
from elldelta.audit.columns import ForeignColumns
from elldelta.audit.reader import ReleaseReader
from elldelta.audit.releases import Topic
from elldelta.audit.targets import find_people, values_left
from elldelta.engines.duckdb import connect
from elldelta.errors import DataError, ParameterError, RefusedError
from elldelta.schema.label_columns import ColumnRules

AGES = range(5)
JOBS = ("p", "q", "r")
VALUES = ("flu", "gout", "mumps", "rash")
COLUMNS = ForeignColumns(("age", "job"), "disease", rules={"age": ColumnRules(kind="number")})


@pytest.fixture(scope="module")
def engine():
    with connect() as running:
        yield running


def random_release(rng, *, disjoint=False):
    """Classes as (age label, job label, set of ages, set of jobs), each with the values of its records."""
    classes = {}
    if disjoint:
        cut = rng.randrange(1, 5)
        halves = [(range(cut), f"0-{cut - 1}" if cut > 1 else "0")]
        halves.append((range(cut, 5), f"{cut}-4" if cut < 4 else "4"))
        for ages, label in halves:
            for jobs in rng.choice(([JOBS], [("p",), ("q", "r")], [("p", "q"), ("r",)])):
                spelt = "*" if len(jobs) == 3 else jobs[0] if len(jobs) == 1 else f"{{{', '.join(jobs)}}}"
                classes[label, spelt] = (frozenset(ages), frozenset(jobs))
    else:
        # every value is named somewhere, so that all combinations exist
        classes["0-4", "{p, q, r}"] = (frozenset(AGES), frozenset(JOBS))
        for _ in range(rng.randrange(1, 5)):
            low = rng.randrange(5)
            high = rng.randrange(low, 5)
            jobs = rng.sample(JOBS, rng.randrange(1, 3))
            age = rng.choice([str(low) if low == high else f"[{low}-{high}]", "*"])
            job = rng.choice([jobs[0] if len(jobs) == 1 else "{" + ", ".join(jobs) + "}", "*"])
            ages = frozenset(AGES) if age == "*" else frozenset(range(low, high + 1))
            classes[age, job] = (ages, frozenset(JOBS) if job == "*" else frozenset(jobs))
    return {
        labels: (sets, [rng.choice(VALUES) for _ in range(rng.randrange(1, 4))])
        for labels, sets in classes.items()
    }


def table_of(release):
    rows = [(*labels, value) for labels, (_, values) in release.items() for value in values]
    return pa.table(dict(zip(("age", "job", "disease"), map(list, zip(*rows, strict=True)), strict=True)))


def shown(release, combination, values=VALUES):
    """What a release shows about a combination."""
    classes = [sets for sets, _ in release.values()]
    counts = [{value: held.count(value) for value in values} for _, held in release.values()]
    return definition.visible(classes, counts, combination, values)


COMBINATIONS = list(itertools.product(AGES, JOBS))


def as_plain(releases):
    """The releases over single combinations, for the oracle of exposure."""
    return [
        (list(range(len(COMBINATIONS))), [list(shown(release, where)) for where in COMBINATIONS])
        for release in releases
    ]


@pytest.mark.parametrize("seed", range(quick_or_all(10, 20)))
def test_an_audit_of_overlapping_and_suppressed_classes_is_the_loop_over_people(engine, seed):
    rng = random.Random(seed)
    releases = [random_release(rng) for _ in range(rng.randrange(1, 4))]
    ell = rng.randrange(1, 5)
    result = audit([table_of(release) for release in releases], ell=ell, columns=COLUMNS, engine=engine)
    plain = as_plain(releases)
    cells = range(len(COMBINATIONS))
    fewest = [oracle.fewest_in_any_group(plain, cell) for cell in cells]
    assert result.diversity_min_any == min((n for n in fewest if n), default=None)
    assert result.holds == (result.diversity_min_any is None or result.diversity_min_any >= ell)
    linked = [oracle.linked(plain, cell) for cell in cells]
    left = [sum(n > 0 for n in row) for row in linked if row is not None and any(row)]
    assert result.diversity_min == min(left, default=None)
    assert [item.records for item in result.releases] == [
        sum(len(held) for _, held in release.values()) for release in releases
    ]
    assert (result.worst[0].values_left if result.worst else None) == result.diversity_min_any
    own = [sum(n > 0 for n in row) for _, rows in plain[:1] for row in rows if any(row)]
    assert result.releases[0].diversity == min(own)


@pytest.mark.parametrize("seed", range(quick_or_all(6, 12)))
def test_the_gate_is_the_loop_over_groups_with_the_new_release(engine, seed):
    rng = random.Random(100 + seed)
    releases = [random_release(rng, disjoint=seed % 2 == 0) for _ in range(rng.randrange(1, 4))]
    ell = rng.randrange(1, 5)
    *published, new = [table_of(release) for release in releases]
    result = audit_before(new, published, ell=ell, columns=COLUMNS, engine=engine)
    plain, last = as_plain(releases), len(releases) - 1
    fewest = [oracle.fewest_in_any_group(plain, cell, last) for cell in range(len(COMBINATIONS))]
    assert result.diversity_min == min((n for n in fewest if n), default=None)
    assert result.holds == all(n == 0 or n >= ell for n in fewest)
    if seed % 2 == 0:  # disjoint classes are named by their own labels
        failing = {
            labels
            for labels, (sets, _) in releases[last].items()
            for where, n in zip(COMBINATIONS, fewest, strict=True)
            if where[0] in sets[0] and where[1] in sets[1] and 0 < n < ell
        }
        assert {item.labels for item in result.classes} == failing
        document = result.to_dict()
        assert document["classes_below"] == len(failing)
        assert not result.to_dict(public=True)["classes"]


@pytest.mark.parametrize("seed", range(quick_or_all(6, 12)))
def test_targets_are_left_with_what_some_combination_that_fits_leaves(engine, seed):
    rng = random.Random(200 + seed)
    releases = [random_release(rng, disjoint=seed % 3 == 0) for _ in range(rng.randrange(1, 3))]
    known = [(rng.choice([*AGES, None]), rng.choice([*JOBS, None])) for _ in range(12)]
    people = pa.table({"age": [age for age, _ in known], "job": [job for _, job in known]})
    reading = ReleaseReader(columns=COLUMNS, engine=engine)
    overlay = reading.gather([table_of(release) for release in releases], people)
    found = values_left(overlay, find_people(overlay, people))
    for person, (age, job) in enumerate(known):
        fitting = [where for where in COMBINATIONS if age in (None, where[0]) and job in (None, where[1])]
        rows = [
            [min(numbers) for numbers in zip(*(shown(each, where) for each in releases), strict=True)]
            for where in fitting
        ]
        counts = dict(zip(overlay.values, found[person].tolist(), strict=True))
        for place, value in enumerate(VALUES):
            most = max(row[place] for row in rows)
            assert (counts.get(value, 0) > 0) == (most > 0)
            if len(fitting) == 1:
                assert counts.get(value, 0) == most
            assert counts.get(value, 0) >= most


@pytest.mark.parametrize("seed", range(6))
def test_targets_who_move_are_looked_for_where_they_are_in_each_release(engine, seed):
    rng = random.Random(300 + seed)
    releases = [random_release(rng, disjoint=seed % 2 == 0) for _ in range(2)]
    known = [(rng.choice(AGES), rng.choice(AGES), rng.choice(JOBS)) for _ in range(20)]
    first, second, job = (list(column) for column in zip(*known, strict=True))
    people = pa.table({"age": first, "age@2": second, "job": job, "name": list(range(20))})
    overlay = ReleaseReader(columns=COLUMNS, engine=engine).gather(
        [table_of(each) for each in releases], people
    )
    found = values_left(overlay, find_people(overlay, people))
    for person, (before, after, same) in enumerate(known):
        rows = [shown(releases[0], (before, same)), shown(releases[1], (after, same))]
        counts = dict(zip(overlay.values, found[person].tolist(), strict=True))
        for place, value in enumerate(VALUES):
            assert counts.get(value, 0) == min(row[place] for row in rows)
    total = audit(
        [table_of(each) for each in releases], ell=2, columns=COLUMNS, targets=people, engine=engine
    )
    assert total.targets.targets == 20
    assert total.targets.partly_known == 0
    n_left = np.count_nonzero(found, axis=1)
    assert total.targets.below == int(((n_left > 0) & (n_left < 2)).sum())


def test_targets_who_move_are_known_in_full(engine):
    rows = {"age": ["0-4", "5-9"], "job": ["p", "p"], "disease": ["a", "b"]}
    for people, match in (
        ({"age": [1], "age@2": [None], "job": ["p"]}, "known in full"),
        ({"age": [1], "age@3": [2], "job": ["p"]}, "names no release"),
    ):
        with pytest.raises(DataError, match=match) as refusal:
            audit(
                [pa.table(rows), pa.table({**rows, "disease": ["b", "a"]})],
                ell=2, columns=COLUMNS, targets=pa.table(people), engine=engine,
            )  # fmt: skip
        assert refusal.value.found
        assert refusal.value.remedy


def test_whom_one_looks_for_changes_nothing_about_everybody_else(engine):
    """Nobody of 99 is in the releases but for a suppressed record, which could be anybody's."""
    rows = {"age": ["0-4", "0-4", "0-4", "*"], "job": ["p", "p", "p", "*"], "disease": list("abca")}
    people = pa.table({"age": [99], "job": ["p"]})
    without = audit([pa.table(rows)], ell=2, columns=COLUMNS, engine=engine)
    sought = audit([pa.table(rows)], ell=2, columns=COLUMNS, targets=people, engine=engine)
    assert without.diversity_min_any == sought.diversity_min_any == 3
    assert without.exposure == sought.exposure
    assert sought.targets.exposed == 1
    nested = pa.table({"age": [[1]], "job": ["p"]})
    with pytest.raises(DataError, match="cannot be read as text"):
        audit([pa.table(rows)], ell=2, columns=COLUMNS, targets=nested, engine=engine)


@pytest.mark.parametrize(
    ("suppressed", "fewest", "words"),
    [
        ([2], 1, "Whoever matches only '*' is left with 1 value; a schema says who can."),
        ([2, 3], 2, "Whoever matches only '*' is left with 2 values; a schema says who can."),
        ([2, 0, 1], 3, ""),
    ],
)
def test_everybody_is_nobody_whom_only_a_star_names(engine, suppressed, fewest, words):
    rows = {
        "age": ["0-4"] * 3 + ["*"] * len(suppressed),
        "job": ["p"] * 3 + ["*"] * len(suppressed),
        "disease": [VALUES[place] for place in (0, 0, 1, *suppressed)],
    }
    found = audit([pa.table(rows)], ell=2, columns=COLUMNS, engine=engine)
    assert found.diversity_min_unnamed == fewest
    assert found.holds
    assert found.verdict.endswith(words or "(2 were asked for).")
    assert ("in every class with a label other than '*'" in found.verdict) == bool(words)
    # Where somebody says what there is, everybody is everybody.
    known = audit([pa.table(rows)], ell=2, columns=own_schema(), engine=engine)
    assert known.diversity_min_any == fewest
    assert known.holds == (fewest >= 2)
    assert known.diversity_min_unnamed is None


@functools.cache
def own_schema():
    return ed.Schema.infer(
        pa.table(
            {
                "age": [age for age, _ in COMBINATIONS] * 2,
                "job": [job for _, job in COMBINATIONS] * 2,
                "disease": [VALUES[place % 4] for place in range(2 * len(COMBINATIONS))],
            }
        ),
        quasi_identifiers=["age", "job"],
        sensitive="disease",
        widen={"age": "no"},
    )


@pytest.mark.parametrize("seed", range(quick_or_all(5, 10)))
def test_a_schema_and_labels_alone_lead_to_the_same_audit(engine, seed):
    rng = random.Random(300 + seed)
    releases = [random_release(rng, disjoint=True) for _ in range(3)]
    tables = [table_of(release) for release in releases]
    known = [(rng.choice([*AGES, None]), rng.choice([*JOBS, None])) for _ in range(12)]
    people = pa.table({"age": [age for age, _ in known], "job": [job for _, job in known]})
    by_schema = ReleaseReader(columns=own_schema(), engine=engine).gather(tables, people)
    by_labels = ReleaseReader(columns=COLUMNS, engine=engine).gather(tables, people)
    first = audit(tables, ell=3, columns=own_schema(), engine=engine)
    second = audit(tables, ell=3, columns=COLUMNS, engine=engine)
    assert first.exposure == second.exposure
    assert first.curve == second.curve
    assert first.left_out == second.left_out
    for one, other in zip(first.readings, second.readings, strict=True):  # logarithms in another order
        assert (one.name, one.condition) == (other.name, other.condition)
        if one.share_surest is None or other.share_surest is None:
            assert one == other
        else:
            numbers = [(each.share_surest, each.share_before, each.share_after) for each in (one, other)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)
            assert one.is_exact == other.is_exact
    left = [values_left(each, find_people(each, people)) for each in (by_schema, by_labels)]
    order = [by_schema.values.index(value) for value in by_labels.values]
    assert left[0][:, order].tolist() == left[1].tolist()


def own_release(seed, kind):
    """A release with a manifest (labels of runs overlap), and what it shows about every combination."""
    rng = random.Random(seed)
    n = 600
    records = pa.table(
        {
            "age": [rng.choice(AGES) for _ in range(n)],
            "job": [rng.choice(JOBS) for _ in range(n)],
            "disease": [rng.choice(VALUES) for _ in range(n)],
        }
    )
    model = ed.estimate(records, own_schema())
    plan = ed.plan(model, ell=2, releases=1, records=n // 2, kind=kind)
    made = ed.release(records.slice(0, n // 2), plan)
    values = made.table.column("disease").to_pylist()
    labels = list(zip(*(made.table.column(name).to_pylist() for name in ("age", "job")), strict=True))
    class_of = plan.classes.class_of(plan.schema, np.arange(len(COMBINATIONS)))
    named = [plan.labels[number] for number in class_of]
    by_combination = [
        [
            sum(label == own and value == each for label, each in zip(labels, values, strict=True))
            for value in VALUES
        ]
        for own in named
    ]
    assert len(set(class_of.tolist())) > 2
    return made, by_combination


@pytest.mark.parametrize("kind", ["paper", "certified"])
@pytest.mark.parametrize("seed", range(quick_or_all(2, 4)))
def test_a_release_with_a_manifest_and_one_without_are_linked_by_combination(engine, seed, kind):
    """The classes of the one are those of its manifest, whatever its labels; the other is read by labels."""
    rng = random.Random(400 + seed)
    own, by_combination = own_release(seed, kind)
    theirs = random_release(rng)
    order = [own_schema().ranks([[age, own_schema().quasi_identifiers[1].domain.values.index(job)]])[0]
             for age, job in COMBINATIONS]  # fmt: skip
    plain = [
        (list(range(len(COMBINATIONS))), [by_combination[rank] for rank in order]),
        *as_plain([theirs]),
    ]
    people = pa.table({"age": [age for age, _ in COMBINATIONS], "job": [job for _, job in COMBINATIONS]})
    overlay = ReleaseReader(engine=engine).gather([own, table_of(theirs)], people)
    result = audit([own, table_of(theirs)], ell=3, engine=engine)
    cells = range(len(COMBINATIONS))
    fewest = [oracle.fewest_in_any_group(plain, cell) for cell in cells]
    linked = [oracle.linked(plain, cell) for cell in cells]
    left = [0 if row is None else sum(n > 0 for n in row) for row in linked]
    assert result.diversity_min_any == min(n for n in fewest if n)
    assert result.diversity_min == min((n for n in left if n), default=None)
    assert result.n_values == len(VALUES)
    assert np.count_nonzero(values_left(overlay, find_people(overlay, people)), axis=1).tolist() == left
    assert "1 releases" not in str(result.assumptions)
    assert any("no manifest says so" in line.words for line in result.assumptions)
    again = audit([own, own], ell=3, engine=engine)  # each found by its combination, or laid by its classes
    people_too = audit([own, own], ell=3, targets=people, engine=engine)
    assert again.exposure == people_too.exposure
    assert again.curve == people_too.curve
    assert again.left_out == people_too.left_out


def test_releases_with_other_schemas_are_not_linked(engine):
    own, _ = own_release(1, "certified")
    records = pa.table({"age": [0, 7], "job": ["p", "q"], "disease": ["flu", "gout"]})
    other = ed.Schema.infer(records, ["age", "job"], "disease")
    theirs = table_of(random_release(random.Random(1)))
    with pytest.raises(DataError, match="one schema"):
        audit([own, theirs], ell=2, columns=other, engine=engine)


def test_the_same_records_under_other_classes_are_subtracted(engine):
    """The worked example: {c1 ∪ c2}, {c3} against {c1}, {c2 ∪ c3}."""
    held = {0: ["flu", "gout", "mumps"], 1: ["rash"], 2: ["flu", "gout", "rash"]}

    def table(label_of):
        rows = [(label_of[age], "p", value) for age, values in held.items() for value in values]
        columns = map(list, zip(*rows, strict=True))
        return pa.table(dict(zip(("age", "job", "disease"), columns, strict=True)))

    tables = [table({0: "0-1", 1: "0-1", 2: "2"}), table({0: "0", 1: "1-2", 2: "1-2"})]
    alone = audit(tables, ell=1, columns=COLUMNS, engine=engine)
    assert (alone.subtraction.status, alone.subtraction.because) == ("possible", "unanswered")
    assert alone.holds
    assert alone.diversity_min_any >= 1
    result = audit(tables, ell=2, columns=COLUMNS, contained=[(0, 1)], engine=engine)
    first, second = sorted(result.subtraction.smallest, key=lambda group: group.how)
    assert (first.records, first.diversity, first.how) == (1, 1, "first minus second")
    assert first.labels == ((("0-1", "p"),), (("0", "p"),))
    assert (second.records, second.diversity, second.how) == (1, 1, "second minus first")
    assert second.labels == ((("2", "p"),), (("1-2", "p"),))
    assert {first.status, second.status} == {result.subtraction.status} == {"found"}
    assert not result.holds
    more = pa.concat_tables([tables[1].slice(1), tables[1].slice(6)])  # one flu less, one rash more
    with pytest.raises(DataError, match="can be contained in the other"):
        audit([tables[0], more], ell=2, columns=COLUMNS, contained=[(0, 1)], engine=engine)


def test_linking_is_compared_with_a_model_or_with_the_releases(engine):
    schema = own_schema()
    rng = random.Random(5)
    past = pa.table(
        {
            "age": [rng.choice(AGES) for _ in range(400)],
            "job": [rng.choice(JOBS) for _ in range(400)],
            "disease": [rng.choice(VALUES) for _ in range(400)],
        }
    )
    model = ed.estimate(past, schema)
    tables = [table_of(random_release(random.Random(seed), disjoint=True)) for seed in (1, 2)]
    pooled = audit(tables, ell=2, columns=schema, engine=engine)
    modelled = audit(tables, ell=2, columns=schema, model=model, engine=engine)
    assert pooled.reference == "the overall distribution of the releases"
    assert modelled.reference == "the model of 400 past records"
    for found in (pooled, modelled):
        shares, bayes = found.readings
        assert (shares.name, bayes.name) == ("shares of linked records", "Bayes' rule")
        assert bayes.condition.startswith(
            "the other people of each release are independent draws from the reference"
        )
        assert 0.25 <= bayes.share_after - bayes.share_before <= bayes.share_surest <= 1
    assert pooled.readings[0].share_surest == modelled.readings[0].share_surest
    assert pooled.readings[1] != modelled.readings[1]
    with pytest.raises(DataError, match="schema"):
        audit(tables, ell=2, columns=COLUMNS, model=model, engine=engine)


def test_the_public_document_has_no_label_and_no_small_count(engine):
    tables = [table_of(random_release(random.Random(seed), disjoint=True)) for seed in (3, 4)]
    result = audit(tables, ell=3, columns=COLUMNS, engine=engine)
    full, public = result.to_dict(labels=True), result.to_dict(labels=True, public=True)
    assert full.keys() == public.keys()
    assert full["worst_classes"][0]["labels"]
    assert full["labels"]
    assert not public["worst_classes"]
    assert not public["labels"]
    for item, told in zip(full["releases"], public["releases"], strict=True):
        assert told["k"] is told["entropy"] is told["t_closeness"] is None
        assert told["records"] % 10 == 0
        assert item["records"] <= told["records"] < item["records"] + 10
    assert full["share_below"] <= public["share_below"] <= full["share_below"] + 0.01
    assert (public["share_below"] * 100) == pytest.approx(round(public["share_below"] * 100))
    assert full["holds"] == public["holds"]
    assert not any(item["labels"] for item in result.to_dict()["worst_classes"])


def test_what_cannot_be_asked_is_refused(engine, tmp_path):
    table = table_of(random_release(random.Random(1), disjoint=True))
    with pytest.raises(ParameterError, match="at least one release"):
        audit([], ell=2)
    with pytest.raises(ParameterError, match="no ell"):
        audit([table], columns=COLUMNS, engine=engine)
    with pytest.raises(DataError, match="without a manifest"):
        audit([table], ell=2, engine=engine)
    with pytest.raises(ParameterError, match="nothing to write about targets"):
        audit([table], ell=2, columns=COLUMNS, targets_output=tmp_path / "x.csv", engine=engine)
    with pytest.raises(DataError, match="no column of a quasi-identifier"):
        audit([table], ell=2, columns=COLUMNS, targets=pa.table({"name": ["a"]}), engine=engine)
    with pytest.raises(RefusedError, match="values_left"):
        audit(
            [table], ell=2, columns=COLUMNS, targets=pa.table({"age": ["1"], "values_left": ["a"]}),
            targets_output=tmp_path / "x.csv", engine=engine,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
    overlapping = table_of(random_release(random.Random(2)))
    with pytest.raises(DataError, match="do not overlap"):
        audit([overlapping] * 2, ell=2, columns=COLUMNS, contained=[(0, 1)], engine=engine)


def test_table_2_of_the_paper(engine):
    """Both hospitals show two diseases in every class, and together give the common patient away."""

    def table(rows):
        columns = map(list, zip(*rows, strict=True))
        return pa.table(dict(zip(("gender", "postal_code", "disease"), columns, strict=True)))

    first = table(
        [
            ("Male", "5600**", "heart disease"),
            ("Male", "5600**", "lung infection"),
            ("Female", "560010", "osteoporosis"),
            ("Female", "560010", "cervical cancer"),
        ]
    )
    second = table(
        [
            ("Female", "560008", "irritable bowel syndrome"),
            ("Female", "560008", "lung infection"),
            ("Female", "560010", "cervical cancer"),
            ("Female", "560010", "amoebic dysentery"),
        ]
    )
    columns = ForeignColumns(
        ("gender", "postal_code"), "disease", rules={"postal_code": ColumnRules(kind="text")}
    )
    result = audit([first, second], ell=2, columns=columns, engine=engine)
    assert [item.diversity for item in result.releases] == [2, 2]
    assert result.diversity_min == 1
    assert result.share_exposed == 1.0
    people = pa.table({"gender": ["Female"], "postal_code": ["560010"]})
    overlay = ReleaseReader(columns=columns, engine=engine).gather([first, second], people)
    left = values_left(overlay, find_people(overlay, people))[0]
    assert dict(zip(overlay.values, left.tolist(), strict=True))["cervical cancer"] == 1
    assert left.sum() == 1


def test_warnings_are_told_by_their_topic(engine):
    """A release given twice is a warning for everybody; how labels were understood is no warning."""
    release = pa.table({"age": ["20-29", "20-29"], "disease": ["flu", "cold"]})
    columns = ForeignColumns(quasi_identifiers=("age",), sensitive="disease")
    result = audit([release, release.slice(0)], ell=2, columns=columns, engine=engine)
    assert [line.topic for line in result.assumptions if line.is_warning] == [Topic.SAME_CONTENT]
    document = result.to_dict()
    [warning] = document["warnings"]
    assert warning in document["assumptions"]
    assert len(document["assumptions"]) > len(document["warnings"])
    assert result.to_dict(public=True)["warnings"] == [warning]
