"""Releases of others over common cells, against enumeration of every combination."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from tests.oracles import foreign as oracle

from elldelta.audit.foreign_cells import cell_counts, people_cells
from elldelta.audit.foreign_release import read_foreign, understand
from elldelta.engines.duckdb import connect
from elldelta.errors import DataError, ParameterError
from elldelta.schema.foreign_columns import ColumnRules

AGES = list(range(-1, 9))  # 8 stands for all larger ages, -1 for all smaller ones
CODES = ["1001", "1002", "1011", "1012", "2001"]
SEXES = ["F", "M", "X"]
VALUES = ["a", "b", "c", "d"]


def _age(rng):
    low, high = sorted(rng.choices(range(8), k=2))
    inside = set(range(low, high + 1))
    spellings = [(f"{low}-{high}", inside), (f"[{low}, {high}]", inside), (f"[{low},{high + 1}[", inside)]
    spellings += [(f"{low}..{high}", inside), ("*", set(AGES)), (f"{low} \N{EN DASH} {high}", inside)]
    spellings += [(str(low), {low}), (f">={low}", set(range(low, 9))), (f"{low}+", set(range(low, 9)))]
    spellings += [(f"<{high + 1}", set(range(-1, high + 1))), (f"{{{low}, {high}}}", {low, high})]
    return rng.choice(spellings)


def _code(rng):
    code = rng.choice(CODES)
    kept = rng.choice([4, 4, 3, 2, 1])
    if rng.random() < 0.15:
        return "*", set(CODES)
    starred = code[:kept] + "*" * (4 - kept)
    return starred, {other for other in CODES if other.startswith(code[:kept])}


def _sex(rng):
    chosen = rng.sample(SEXES, rng.choice([1, 1, 2]))
    if rng.random() < 0.2:
        return "*", set(SEXES)
    if len(chosen) == 1:
        return chosen[0], set(chosen)
    return rng.choice(["{%s, %s}", "%s,%s", "%s|%s"]) % tuple(chosen), set(chosen)


def _release(rng):
    """Rows of text, and the classes that they form with what each was written for."""
    rows, classes, counts = [], [], []
    for _ in range(rng.randint(1, 6)):
        parts = [_age(rng), _code(rng), _sex(rng)]
        if rng.random() < 0.15:
            parts = [("*", set(AGES)), ("*", set(CODES)), ("*", set(SEXES))]
        own = {value: rng.randint(1, 3) for value in rng.sample(VALUES, rng.randint(1, 3))}
        classes.append(tuple(allowed for _, allowed in parts))
        counts.append(own)
        rows += [(*(label for label, _ in parts), value) for value, n in own.items() for _ in range(n)]
    return rows, classes, counts


def _table(rows, names=("age", "code", "sex", "ill")):
    return pa.table(
        {
            name: pa.array(column, pa.string())
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
    )


@pytest.fixture(scope="module")
def engine():
    with connect() as opened:
        yield opened


KNOWN = {
    "age": ColumnRules(values=tuple(map(str, AGES))),
    "code": ColumnRules(values=tuple(CODES)),
    "sex": ColumnRules(values=tuple(SEXES)),
}


@pytest.mark.parametrize("seed", range(60))
def test_every_combination_sees_what_the_definition_says(engine, seed):
    rng = random.Random(seed)
    made = [_release(rng) for _ in range(rng.randint(1, 4))]
    releases = [
        read_foreign(engine.open(_table(rows)), f"r{number}", ("age", "code", "sex"), "ill")
        for number, (rows, _, _) in enumerate(made)
    ]
    everybody = [tuple(map(str, each)) for each in itertools.product(AGES, CODES, SEXES)]
    understanding = understand(releases, KNOWN, people=everybody)
    counts = cell_counts(releases, understanding)
    places = people_cells(counts, everybody)
    values = list(counts.values)
    wanted = oracle.cells([classes for _, classes, _ in made], (AGES, CODES, SEXES))
    n_named = set()
    for number, combination in enumerate(itertools.product(AGES, CODES, SEXES)):
        cells = places.cells[places.starts[number] : places.starts[number + 1]].tolist()
        if combination not in wanted:
            assert cells == []
            continue
        assert places.is_named[places.starts[number]]
        (cell,) = cells
        n_named.add(cell)
        for j, (_, classes, own) in enumerate(made):
            assert tuple(counts.counts[j][cell]) == oracle.visible(classes, own, combination, values)
    assert n_named == set(np.flatnonzero(counts.is_named).tolist())


@pytest.mark.parametrize("seed", range(20))
def test_partly_known_people_can_be_in_all_cells_that_agree(engine, seed):
    rng = random.Random(1000 + seed)
    made = [_release(rng) for _ in range(2)]
    releases = [
        read_foreign(engine.open(_table(rows)), f"r{number}", ("age", "code", "sex"), "ill")
        for number, (rows, _, _) in enumerate(made)
    ]
    everybody = [tuple(map(str, each)) for each in itertools.product(AGES, CODES, SEXES)]
    people = [
        tuple(value if rng.random() < 0.6 else rng.choice([None, "*"]) for value in rng.choice(everybody))
        for _ in range(20)
    ]
    counts = cell_counts(releases, understand(releases, KNOWN, people=[*everybody, *people]))
    exact = people_cells(counts, everybody)
    partial = people_cells(counts, people)
    for number, person in enumerate(people):
        mine = slice(partial.starts[number], partial.starts[number + 1])
        wanted = set()
        for place, combination in enumerate(everybody):
            if all(known in (None, "*", value) for known, value in zip(person, combination, strict=True)):
                wanted |= set(exact.cells[exact.starts[place] : exact.starts[place + 1]].tolist())
        assert set(partial.cells[mine][partial.is_named[mine]].tolist()) == wanted


def _read(engine, rows, name="r", **options):
    return read_foreign(
        engine.open(_table(rows, options.pop("names_in_file", ("age", "ill")))),
        name,
        ("age",),
        "ill",
        **options,
    )


def test_suppressed_records_can_be_anybodys(engine):
    release = _read(engine, [("20-29", "flu"), ("30-39", "cold"), ("*", "cancer")])
    counts = cell_counts([release], understand([release]))
    named = np.flatnonzero(counts.is_named)
    assert counts.values == ("cancer", "cold", "flu")
    assert sorted(map(tuple, counts.counts[0][named].tolist())) == [(1, 0, 1), (1, 1, 0)]
    # Somebody whom no other class contains can only be among the suppressed: shown, but marked.
    (outside,) = np.flatnonzero(~counts.is_named)
    assert counts.counts[0][outside].tolist() == [1, 0, 0]
    assert counts.releases[0].n_overlapping == 2


def test_columns_and_spellings_may_differ(engine):
    first = _read(engine, [("20-29", "flu"), ("20-29", "cold")], "first")
    second = _read(
        engine, [("[20, 30[", " flu "), ("30+", "cold")], "second",
        names_in_file=("alter", "krankheit"), names={"alter": "age", "krankheit": "ill"},
    )  # fmt: skip
    counts = cell_counts([first, second], understand([first, second]))
    assert counts.values == ("cold", "flu")
    cell = next(c for c in range(counts.n_cells) if all(counts.classes_of(c)))
    assert [table[cell].tolist() for table in counts.counts] == [[1, 1], [0, 1]]
    assert counts.describe(cell) == ("20 to 29",)


def test_one_class_in_several_spellings_is_one_class(engine):
    release = _read(engine, [("20-29", "flu"), ("[20, 30[", "cold"), ("20 - 29", "flu"), ("30-39", "flu")])
    counts = cell_counts([release], understand([release]))
    (own,) = counts.releases
    assert own.labels == (("20 - 29",), ("30-39",))
    assert own.counts.tolist() == [[1, 2], [0, 1]]
    assert own.n_overlapping == 0


def test_numbers_are_one_sensitive_value_however_they_are_written(engine):
    first, second = _read(engine, [("1", "1")], "a"), _read(engine, [("1", "1.0")], "b")
    assert understand([first, second]).values == ("1",)


def test_upper_and_lower_case_are_told_and_can_be_one(engine):
    first, second = _read(engine, [("1", "Flu")], "a"), _read(engine, [("1", "flu")], "b")
    plain = understand([first, second])
    assert plain.values == ("Flu", "flu")
    assert "1 sensitive value" in plain.notes[0]
    assert understand([first, second], casefold=True).values == ("Flu",)


def test_absent_columns_are_as_if_suppressed(engine):
    full = read_foreign(engine.open(_table([("1", "1001", "F", "x")])), "a", ("age", "code", "sex"), "ill")
    part = read_foreign(
        engine.open(_table([("1", "x")], ("age", "ill"))),
        "b",
        ("age", "code", "sex"),
        "ill",
        absent=("code", "sex"),
    )
    counts = cell_counts([full, part], understand([full, part]))
    linked = [cell for cell in range(counts.n_cells) if all(counts.classes_of(cell))]
    assert [counts.is_named[cell] for cell in linked].count(True) == 1


def test_missing_sensitive_values_follow_the_policy(engine):
    release = _read(engine, [("1", None), ("1", "x")])
    with pytest.raises(DataError, match="1 record"):
        understand([release])
    assert understand([release], sensitive_nulls="category").values == ("x", None)


def test_doubtful_labels_are_listed_and_values_are_not(engine):
    release = _read(engine, [("1-2", "x"), ("canary", "x"), ("canary, other", "x")])
    understanding = understand([release])
    assert not understanding.is_clear
    with pytest.raises(DataError) as refused:
        cell_counts([release], understanding)
    assert "'1-2'" in str(refused.value)
    assert "1 other label" in str(refused.value)
    assert "canary" not in str(refused.value)
    rows = list(understanding.rows())
    assert "canary" not in str(rows)
    cell_counts([release], understand([release], {"age": ColumnRules(kind="text", separators="values")}))


def test_rules_and_maps_for_other_columns_are_refused(engine):
    release = _read(engine, [("1", "x")])
    with pytest.raises(ParameterError, match="rules for columns"):
        understand([release], {"height": ColumnRules()})
    with pytest.raises(ParameterError, match="not linked"):
        _read(engine, [("1", "x")], names={"age": "height"})


def test_releases_without_a_record_show_nothing(engine):
    nothing = read_foreign(
        engine.open(pa.table({"age": pa.array([], pa.string()), "ill": pa.array([], pa.string())})),
        "nothing",
        ("age",),
        "ill",
    )
    alone = cell_counts([nothing], understand([nothing]))
    assert alone.n_cells == 0
    assert people_cells(alone, []).cells.tolist() == []
    other = _read(engine, [("20-29", "flu")])
    both = cell_counts([nothing, other], understand([nothing, other]))
    assert [table.tolist() for table in both.counts] == [[[0]], [[1]]]
