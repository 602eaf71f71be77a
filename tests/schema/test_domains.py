import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import tables as oracle
from tests.schema.read_back import read_back

from elldelta.engines.cells import spelling
from elldelta.errors import DataError, ParameterError, SchemaError
from elldelta.schema.domains import NULL, UNKNOWN
from elldelta.schema.label_columns import rules_of, understand_column
from elldelta.schema.labels import category_set
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers

# Texts that try to look like labels: separators, quotes, ranges, the whole domain, nothing.
nasty = st.one_of(
    st.text(alphabet='AB,{}"*.-()[ \n\\é', max_size=6),
    st.sampled_from(
        ["*", "(missing)", "A or (missing)", "..", "1-2", "A..B", '""', "{A, B}", "[0, 1)", " ", ""]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
).map(spelling)
integers = st.builds(
    lambda low, span, width: Integers(low, low + span, width),
    st.integers(-50, 50),
    st.integers(0, 40),
    st.integers(1, 7),
)
dates = st.builds(
    lambda low, span, unit: Dates(low, low + dt.timedelta(days=span), unit),
    st.dates(dt.date(1890, 1, 1), dt.date(2100, 1, 1)),
    st.integers(0, 900),
    st.sampled_from(["day", "month", "year"]),
)
categories = st.builds(
    Categories, st.lists(nasty, min_size=1, max_size=6, unique=True).map(tuple), st.booleans()
)
bins = st.lists(
    st.one_of(st.integers(-99, 99).map(float), st.floats(-1e6, 1e6)), min_size=2, max_size=8, unique=True
).map(
    lambda edges: Bins(tuple(sorted({edge + 0.0 for edge in edges}))) if len(set(edges)) > 1 else Bins((0, 1))
)
columns = st.builds(
    Column,
    st.just("column"),
    st.one_of(integers, dates, categories, bins),
    st.sampled_from(["category", "refuse", "suppress"]),
)


@given(columns, st.data())
def test_parsing_a_label_gives_back_its_positions(column, data):
    low = data.draw(st.integers(0, column.size - 1))
    high = data.draw(st.integers(low, column.size - 1))
    expected = np.zeros(column.size, dtype=bool)
    expected[low : high + 1] = True
    assert np.array_equal(read_back(column, column.label(low, high)), expected)


@given(columns)
def test_labels_of_different_runs_differ(column):
    n = min(column.size, 8)
    runs = [(low, high) for low in range(n) for high in range(low, n)]
    assert len({column.label(*run) for run in runs}) == len(runs)


@given(columns, nasty)
def test_text_that_is_no_label_has_a_problem_and_others_a_meaning(column, text):
    understood = understand_column("c", [{text}], rules_of(column))
    assert bool(understood.problems) != bool(understood.runs.mask(0).any())


@given(st.lists(nasty, min_size=1, max_size=5, unique=True).map(tuple), st.data())
def test_any_set_of_unordered_categories_can_be_parsed(values, data):
    chosen = data.draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
    column = Column("c", Categories(values))
    mask = read_back(column, category_set(chosen))
    assert {values[place] for place in np.flatnonzero(mask)} == set(chosen)


@pytest.mark.parametrize(
    ("domain", "low", "high", "label"),
    [
        (Integers(0, 99), 23, 41, "23-41"),
        (Integers(0, 99), 23, 23, "23"),
        (Integers(-5, 99), 1, 8, "-4..3"),
        (Integers(-9, 99), 0, 8, "<=-1"),
        (Integers(-9, -1), 3, 8, "-6+"),
        (Integers(0, 97, 5), 19, 19, "95-97"),
        (Integers(0, 97, 5), 18, 19, "90+"),
        (Integers(0, 97, 5), 0, 3, "<=19"),
        (Integers(0, 1), 0, 0, "0"),
        (Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1), "month"), 1, 5, "1990-02..1990-06"),
        (Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1), "month"), 0, 5, "<=1990-06"),
        (Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1), "year"), 5, 9, ">=1995"),
        (Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1), "year"), 1, 1, "1991"),
        (Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1)), 31, 31, "1990-02-01"),
        (Categories(("F", "M", "X")), 0, 0, "F"),
        (Categories(("A", "B", "C")), 0, 1, "{A, B}"),
        (Categories(("a,b", "*", "c")), 0, 1, '{"a,b", "*"}'),
        (Categories(("01000", "01100", "02000"), ordered=True), 0, 1, "01000..01100"),
        (Bins((0, 10, 20.5, 100)), 1, 1, "[10, 20.5)"),
        (Bins((0, 10, 20.5, 100)), 1, 2, ">=10"),
        (Bins((0, 10, 20.5, 100)), 0, 1, "<20.5"),
        (Bins((0, 10, 20.5, 100)), 2, 2, "[20.5, 100]"),
        (Bins((0, 10, 20.5, 100, 200)), 1, 2, "[10, 100)"),
    ],
)
def test_labels_are_what_a_reader_expects(domain, low, high, label):
    assert Column("c", domain).label(low, high) == label


def test_everything_nothing_and_both():
    column = Column("c", Integers(1, 3), "category")
    assert column.label(0, 3) == "*"
    assert column.label(0, 2) == "1-3"
    assert column.label(3, 3) == "(missing)"
    assert column.label(1, 3) == "2+ or (missing)"
    assert column.label(1, 3, closed=True) == "2-3 or (missing)"
    assert column.label(0, 1) == "<=2"
    with pytest.raises(ParameterError):
        column.label(0, 4)
    assert read_back(Column("c", Integers(1, 3)), "(missing)") is None
    assert read_back(Column("c", Integers(1, 3)), "2 or (missing)") is None


@given(columns, st.data())
def test_a_range_with_one_end_ends_where_the_domain_ends(column, data):
    """Next to labels that name both ends: what is open reaches no further, and nobody lives beyond."""
    low = data.draw(st.integers(0, column.size - 1))
    high = data.draw(st.integers(low, column.size - 1))
    both = [column.label(low, high, closed=closed) for closed in (False, True)]
    understood = understand_column("c", [set(both)], rules_of(column))
    assert not understood.problems
    first, second = (understood.runs.mask(understood.code_of[label]) for label in both)
    assert (first == second).all()


def test_a_widened_domain_names_no_end_that_nobody_reached():
    """Mothers of 21 to 35 where there is room for all ages from 0 to 120."""
    age = Column("age", Integers(0, 120))
    assert [age.label(*ends) for ends in ((0, 21), (22, 28), (29, 120))] == ["<=21", "22-28", "29+"]
    assert age.label(0, 120) == "*"
    without_schema = understand_column("age", [{"<=21", "22-28", "29+"}])
    assert [each.meaning for each in without_schema.meanings] == ["22 to 28", "29 and above", "up to 21"]


def test_a_range_that_cuts_through_a_width_means_its_numbers():
    column = Column("c", Integers(0, 99, 5))
    understood = understand_column("c", [{"20-28", "20-29", "20-24"}], rules_of(column))
    narrow, middle, wide = (understood.runs.mask(code) for code in range(3))
    assert not understood.problems
    assert (wide & middle).sum() > (middle & narrow).sum() > 0
    assert not (middle & ~wide).any()


cells_as_text = st.one_of(
    st.none(),
    nasty,
    st.integers(-60, 100).map(str),
    st.floats(-200, 200).map(repr),
    st.dates(dt.date(1889, 1, 1), dt.date(2101, 1, 1)).map(str),
    st.sampled_from(
        [" 7 ", "+7", "07", "7.", "7.0", "7e0", "1e999", "1_0", "nan", "inf", "2001-02-30", "２"]
    ),
)


@given(columns, st.lists(cells_as_text, max_size=12))
def test_text_is_found_where_the_definition_puts_it(column, texts):
    expected = [_number(oracle.position(column, text)) for text in texts]
    found = column.encode(pa.array(texts, pa.string())).tolist()
    for text, ours, theirs in zip(texts, found, expected, strict=True):
        # "7e0" is a real number, not a whole one; months may be written without a day.
        if column.domain.kind == "integers" and text and "e" in text.lower():
            continue
        if column.domain.kind == "dates" and text and len(text.strip(" ")) < 10:
            continue
        assert ours == theirs


@given(columns, st.lists(st.one_of(st.none(), st.integers(-60, 100)), max_size=12))
def test_numbers_are_found_at_the_same_place_in_every_type(column, numbers):
    if column.domain.kind not in {"integers", "bins"}:
        return
    expected = [_number(oracle.position(column, number)) for number in numbers]
    for kind in (pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view()):
        cells = pa.array(numbers, pa.int64())
        cells = cells.cast(pa.string()).cast(kind) if kind == pa.string_view() else cells.cast(kind)
        assert column.encode(cells).tolist() == expected
    assert column.encode(pa.array(numbers, pa.int64()).dictionary_encode()).tolist() == expected


@given(dates, st.lists(st.one_of(st.none(), st.dates(dt.date(1889, 1, 1), dt.date(2101, 1, 1)))))
def test_dates_are_found_at_the_same_place_in_every_type(domain, days):
    column = Column("c", domain)
    expected = [_number(oracle.position(column, day)) for day in days]
    for kind in (pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("s"), pa.string()):
        assert column.encode(pa.array(days, pa.date32()).cast(kind)).tolist() == expected


def test_whole_floats_are_integers_and_others_are_not():
    column = Column("c", Integers(0, 9))
    cells = pa.array([1.0, 1.5, float("nan"), float("inf"), None, 1e300, -0.0])
    assert column.encode(cells).tolist() == [1, UNKNOWN, NULL, UNKNOWN, NULL, UNKNOWN, 0]


def test_very_large_numbers_are_outside_and_do_not_wrap():
    column = Column("c", Integers(0, 2**61))
    assert column.encode(pa.array([2**61, 2**61 + 1])).tolist() == [2**61, UNKNOWN]
    assert column.encode(pa.array([2**64 - 1], pa.uint64())).tolist() == [UNKNOWN]
    assert column.encode(pa.array(["99999999999999999999"])).tolist() == [UNKNOWN]


def test_shorter_dates_are_read_as_far_as_the_unit_needs():
    month = Column("c", Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1), "month"))
    year = Column("c", Dates(dt.date(1990, 1, 1), dt.date(1999, 1, 1), "year"))
    texts = pa.array(["1990-03", "1990", "1990-03-04", "1990-03-04T10:11:12", "1990-3", ""])
    assert month.encode(texts).tolist() == [2, UNKNOWN, 2, 2, UNKNOWN, NULL]
    assert year.encode(texts).tolist() == [0, 0, 0, 0, UNKNOWN, NULL]


def test_a_type_that_never_fits_is_named_and_its_values_are_not():
    for domain in (Integers(0, 9), Bins((0, 1)), Dates(dt.date(1990, 1, 1), dt.date(1991, 1, 1))):
        with pytest.raises(DataError, match="list") as refusal:
            Column("age", domain).encode(pa.array([["secret"]]))
        assert "age" in str(refusal.value)
        assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Integers(5, 4),
        lambda: Integers(0, 9, 0),
        lambda: Integers(0.0, 9),
        lambda: Integers(0, 2**70),
        lambda: Integers(True, 9),
        lambda: Dates(dt.date(2001, 1, 1), dt.date(2000, 1, 1)),
        lambda: Dates(dt.date(2001, 1, 1), dt.date(2002, 1, 1), "week"),
        lambda: Dates("2001-01-01", dt.date(2002, 1, 1)),
        lambda: Categories(()),
        lambda: Categories(("a", "b", "a")),
        lambda: Categories(("a", 1)),
        lambda: Categories(("a",), ordered="yes"),
        lambda: Bins((1,)),
        lambda: Bins((1, 1)),
        lambda: Bins((2, 1)),
        lambda: Bins((0, float("inf"))),
        lambda: Bins((0, "1")),
        lambda: Column("", Integers(0, 1)),
        lambda: Column("a", Integers(0, 1), "ignore"),
        lambda: Column("a", "integers"),
    ],
)
def test_impossible_domains_are_refused(make):
    with pytest.raises(SchemaError) as refusal:
        make()
    assert refusal.value.problem
    assert refusal.value.found


def test_released_values_keep_numbers_and_gaps():
    assert Column("s", Integers(3, 5), "category").released_values().to_pylist() == [3, 4, 5, None]
    assert Column("s", Categories(("a", "*"))).released_values().to_pylist() == ["a", "*"]
    assert Column("s", Bins((0, 1, 2.5))).released_values().to_pylist() == ["[0, 1)", "[1, 2.5]"]
    assert Column("s", Integers(0, 7, 5)).released_values().to_pylist() == ["0-4", "5-7"]


def _number(place):
    return {oracle.UNKNOWN: UNKNOWN, oracle.NULL: NULL}.get(place, place)
