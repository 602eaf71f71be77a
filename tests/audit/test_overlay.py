"""Releases laid over each other by their labels, against enumeration of every combination."""

import itertools
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.oracles import foreign as oracle
from tests.switch import quick_or_all

from elldelta.audit.columns import ForeignColumns
from elldelta.audit.overlay import Overlay
from elldelta.audit.releases import read_release, understand
from elldelta.audit.targets import find_people
from elldelta.engines.duckdb import connect
from elldelta.errors import DataError, ParameterError
from elldelta.schema.label_columns import ColumnRules

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


COLUMNS = ForeignColumns(
    ("age", "code", "sex"),
    "ill",
    rules={
        "age": ColumnRules(values=tuple(map(str, AGES))),
        "code": ColumnRules(values=tuple(CODES)),
        "sex": ColumnRules(values=tuple(SEXES)),
    },
)


def _laid(engine, made, people):
    releases = [
        read_release(engine.open(_table(rows)), f"r{number}", COLUMNS)
        for number, (rows, _, _) in enumerate(made)
    ]
    return Overlay.from_releases(releases, COLUMNS, people=people)


def _people(rows):
    return _table(rows, COLUMNS.quasi_identifiers)


@pytest.mark.parametrize("seed", range(quick_or_all(20, 40)))
def test_every_combination_sees_what_the_definition_says(engine, seed):
    rng = random.Random(seed)
    made = [_release(rng) for _ in range(rng.randint(1, 4))]
    combinations = list(itertools.product(AGES, CODES, SEXES))
    everybody = _people([tuple(map(str, each)) for each in combinations])
    overlay = _laid(engine, made, everybody)
    found = find_people(overlay, everybody)
    wanted = oracle.cells([classes for _, classes, _ in made], (AGES, CODES, SEXES))
    assert found.person.tolist() == [n for n, each in enumerate(combinations) if each in wanted]
    assert found.n_outside == len(combinations) - len(wanted)
    for person, rows in zip(found.person.tolist(), found.rows.tolist(), strict=True):
        for (_, classes, own), table, row in zip(made, found.tables, rows, strict=True):
            assert tuple(table[row]) == oracle.visible(classes, own, combinations[person], overlay.values)
    # those are linked, and no other cell
    linked = [shown.row_of[overlay.sought.linked] for shown in overlay.sought.layers]
    assert set(zip(*(rows.tolist() for rows in linked), strict=True)) == set(map(tuple, found.rows.tolist()))


@pytest.mark.parametrize("seed", range(quick_or_all(8, 16)))
def test_partly_known_people_can_be_in_all_cells_that_agree(engine, seed):
    """Some values stand for all that no label tells apart from them: other ages, codes and sexes."""
    rng = random.Random(1000 + seed)
    made = [_release(rng) for _ in range(2)]
    codes = [*CODES, "1999", "1099", "1009", "1019", "2999", "2099", "2009", "9999"]
    everybody = list(itertools.product(map(str, [-50, *AGES, 50]), codes, [*SEXES, "Z"]))
    people = [
        tuple(value if rng.random() < 0.6 else rng.choice([None, "*"]) for value in rng.choice(everybody))
        for _ in range(20)
    ]
    sought = _people([*everybody, *people])
    found = find_people(_laid(engine, made, sought), sought)
    rows_of = {}
    for person, rows in zip(found.person.tolist(), map(tuple, found.rows.tolist()), strict=True):
        rows_of.setdefault(person, set()).add(rows)
    for number, person in enumerate(people, len(everybody)):
        wanted = set()
        for place, combination in enumerate(everybody):
            if all(known in (None, "*", value) for known, value in zip(person, combination, strict=True)):
                wanted |= rows_of.get(place, set())
        assert rows_of.get(number, set()) == wanted


AGE = ForeignColumns(("age",), "ill")


def _read(engine, rows, name="r", *, columns=AGE, names_in_file=("age", "ill")):
    return read_release(engine.open(_table(rows, names_in_file)), name, columns)


def _tables(overlay):
    """What each release shows about the linked cells."""
    return [release.counts[release.partition.class_of].tolist() for release in overlay.releases]


def test_suppressed_records_can_be_anybodys(engine):
    release = _read(engine, [("20-29", "flu"), ("30-39", "cold"), ("*", "cancer")])
    overlay = Overlay.from_releases([release], AGE)
    assert overlay.values == ("cancer", "cold", "flu")
    assert sorted(map(tuple, _tables(overlay)[0])) == [(1, 0, 1), (1, 1, 0)]
    # Somebody whom no other class contains can only be among the suppressed: shown, but not linked.
    [shown] = overlay.layers
    [outside] = set(range(len(shown.row_of))) - set(overlay.linked.tolist())
    assert shown.table[shown.row_of[outside]].tolist() == [1, 0, 0]
    assert shown.n_overlapping == 2
    assert not overlay.is_disjoint


def test_columns_and_spellings_may_differ(engine):
    columns = ForeignColumns(("age",), "ill", names={"second": {"age": "alter"}, "*": {"ill": "krankheit"}})
    first = _read(engine, [("20-29", "flu"), ("20-29", "cold")], "first", columns=columns)
    second = _read(
        engine, [("[20, 30[", " flu "), ("30+", "cold")], "second",
        columns=columns, names_in_file=("alter", "krankheit"),
    )  # fmt: skip
    overlay = Overlay.from_releases([first, second], columns)
    assert overlay.values == ("cold", "flu")
    assert ([1, 1], [0, 1]) in list(zip(*_tables(overlay), strict=True))
    assert overlay.labels == (
        ("age", "20-29", "20 to 29"), ("age", "30+", "30 and above"), ("age", "[20, 30[", "20 to 29"),
    )  # fmt: skip


def test_one_class_in_several_spellings_is_one_class(engine):
    release = _read(engine, [("20-29", "flu"), ("[20, 30[", "cold"), ("20 - 29", "flu"), ("30-39", "flu")])
    [own] = Overlay.from_releases([release], AGE).layers
    assert own.labels == (("20 - 29",), ("30-39",))
    assert own.counts.tolist() == [[1, 2], [0, 1]]
    assert own.n_overlapping == 0


def test_numbers_are_one_sensitive_value_however_they_are_written(engine):
    first, second = _read(engine, [("1", "1")], "a"), _read(engine, [("1", "1.0")], "b")
    assert understand([first, second], AGE).values == ("1",)


def test_upper_and_lower_case_are_told(engine):
    first, second = _read(engine, [("1", "Flu")], "a"), _read(engine, [("1", "flu")], "b")
    plain = understand([first, second], AGE)
    assert plain.values == ("Flu", "flu")
    assert "1 sensitive value" in plain.notes[0].words


def test_absent_columns_are_as_if_suppressed(engine):
    columns = replace(COLUMNS, names={"b": {"code": "", "sex": ""}}, rules={})
    full = read_release(engine.open(_table([("1", "1001", "F", "x")])), "a", columns)
    part = read_release(engine.open(_table([("1", "x")], ("age", "ill"))), "b", columns)
    assert _tables(Overlay.from_releases([full, part], columns)) == [[[1]], [[1]]]


def test_missing_sensitive_values_follow_the_policy(engine):
    rows = [("1", None), ("1", "NA"), ("1", "x"), ("2", "?")]
    refused = replace(AGE, sensitive_nulls="refuse")
    with pytest.raises(DataError, match="3 records"):
        understand([_read(engine, rows, columns=refused)], refused)
    counted = replace(AGE, sensitive_nulls="category")
    said = understand([_read(engine, rows, columns=counted)], counted)
    assert said.values == ("x", None)
    assert "count as a value" in said.notes[0].words
    left_out = understand([_read(engine, rows)], AGE)
    assert left_out.values == ("x",)
    assert "3 records" in left_out.notes[0].words
    other = replace(AGE, sensitive_missing=("x",))
    assert understand([_read(engine, rows, columns=other)], other).values == ("?", "NA")


def test_doubtful_labels_are_listed_and_values_are_not(engine):
    release = _read(engine, [("1-2", "x"), ("canary", "x"), ("canary, other", "x")])
    understanding = understand([release], AGE)
    assert not understanding.is_clear
    with pytest.raises(DataError) as refused:
        Overlay.from_releases([release], AGE)
    assert "'1-2'" in str(refused.value)
    assert "1 other label" in str(refused.value)
    assert "canary" not in str(refused.value)
    assert "canary" not in str(understanding.to_dict())
    said = replace(AGE, rules={"age": ColumnRules(kind="text", separators="values")})
    assert Overlay.from_releases([release], said).layers[0].n_overlapping == 0


def test_rules_and_maps_for_other_columns_are_refused(engine):
    release = _read(engine, [("1", "x")])
    with pytest.raises(ParameterError, match="rules for columns"):
        understand([release], replace(AGE, rules={"height": ColumnRules()}))
    with pytest.raises(ParameterError, match="not linked"):
        _read(engine, [("1", "x")], columns=replace(AGE, names={"r": {"height": "age"}}))


def test_releases_without_a_record_show_nothing(engine):
    empty = pa.table({"age": pa.array([], pa.string()), "ill": pa.array([], pa.string())})
    nothing = read_release(engine.open(empty), "nothing", AGE)
    with pytest.raises(DataError, match="no record"):
        understand([nothing], AGE)
    other = _read(engine, [("20-29", "flu")])
    assert _tables(Overlay.from_releases([nothing, other], AGE)) == [[[0]], [[1]]]
