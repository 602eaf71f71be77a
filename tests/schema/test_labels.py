"""Labels as people write them: what each means, and that no text whatsoever is misread or brings us down."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elldelta.errors import ParameterError
from elldelta.schema.domains import Bins, Categories, Dates, Integers
from elldelta.schema.hierarchy import Hierarchy
from elldelta.schema.label_columns import ColumnRules, rules_of, understand_column
from elldelta.schema.labels import normalized, parse_days, parse_number, read_on
from elldelta.schema.schema import Column


def holds(spans, value):
    """Whether a value lies in one of the spans: by the definition of an interval."""
    return any(
        (span.low is None or value > span.low or (value == span.low and span.has_low))
        and (span.high is None or value < span.high or (value == span.high and span.has_high))
        for span in spans
    )


def number(text):
    return read_on("number", normalized(text))


@pytest.mark.parametrize(
    ("label", "inside", "outside"),
    [
        ("[20-40]", [20, 30.5, 40], [19, 41]),
        ("20-40", [20, 40], [19, 41]),
        ("[20, 40[", [20, 39.9], [40]),
        ("[20,40)", [20, 39.9], [40]),
        ("(20,40]", [20.1, 40], [20]),
        ("]20;40]", [20.1, 40], [20]),
        ("(20, 40)", [20.1, 39.9], [20, 40]),
        (">=65", [65, 1000], [64.9]),
        ("≥ 65", [65], [64.9]),
        (">65", [65.1], [65]),
        ("<18", [17.9, -5], [18]),
        ("<= 18", [18], [18.1]),
        ("65+", [65, 120], [64]),
        ("-5-3", [-5, 0, 3], [-6, 4]),
        ("-5--3", [-5, -3], [-2, 3]),
        ("-5..3", [-5, 3], [-6]),
        ("20 \N{EN DASH} 40", [20, 40], [41]),
        ("\N{MINUS SIGN}5 to 3", [-5, 3], [-6]),
        ("20\N{NO-BREAK SPACE}-\N{NO-BREAK SPACE}40", [20, 40], [41]),
        ("[65, inf)", [65, 1e9], [64]),
        ("(-∞; 3]", [-1e9, 3], [4]),
        ("1.5-2.5", [1.5, 2, 2.5], [1.4]),
        ("{1, 3}", [1, 3], [2]),
        ("1|3", [1, 3], [2]),
        ("1, 2, 3", [1, 2, 3], [1.5]),
        ("1e2-2e2", [100, 200], [99]),
    ],
)
def test_ranges_of_numbers(label, inside, outside):
    spans = number(label).spans
    assert number(label).doubt == ""
    assert all(holds(spans, Decimal(str(value))) for value in inside)
    assert not any(holds(spans, Decimal(str(value))) for value in outside)


@pytest.mark.parametrize(
    "label",
    ["40-20", "[5,5)", "10--5", "1-2-3", "--5", "20-", "-", "[20-40", "20-40]", "[,]", "1e9999", "abc", ""],
)
def test_what_is_no_range_of_numbers(label):
    assert number(label) is None


@pytest.mark.parametrize("label", ["1,5", "1,234", "01-02", "(20-40)", "007"])
def test_doubts_about_numbers_are_told(label):
    assert number(label).doubt


@pytest.mark.parametrize(
    ("label", "first", "last"),
    [
        ("1990-01..1990-06", "1990-01-01", "1990-06-30"),
        ("1990-01/1990-06", "1990-01-01", "1990-06-30"),
        ("1990-01 - 1990-06", "1990-01-01", "1990-06-30"),
        ("1990-02", "1990-02-01", "1990-02-28"),
        ("2000-02", "2000-02-01", "2000-02-29"),
        ("1990", "1990-01-01", "1990-12-31"),
        ("1990-1991", "1990-01-01", "1991-12-31"),
        ("1990-05-17", "1990-05-17", "1990-05-17"),
        ("1990-05-17 00:00:00", "1990-05-17", "1990-05-17"),
        ("[1990-01-01, 1990-06-01)", "1990-01-01", "1990-05-31"),
        ("(1990-01-01, 1990-06-01]", "1990-01-02", "1990-06-01"),
        ("[1990-01, 1990-06[", "1990-01-01", "1990-05-31"),
    ],
)
def test_ranges_of_dates(label, first, last):
    spans = read_on("date", normalized(label)).spans
    for day, wanted in (
        (dt.date.fromisoformat(first), True),
        (dt.date.fromisoformat(last), True),
        (dt.date.fromisoformat(first) - dt.timedelta(days=1), False),
        (dt.date.fromisoformat(last) + dt.timedelta(days=1), False),
    ):
        assert holds(spans, day.toordinal()) == wanted


@pytest.mark.parametrize("label", ["1990-02-30", "1990-13", "0000", "1990-05-17 13:00", "17.05.1990"])
def test_what_is_no_date(label):
    assert read_on("date", label) is None


def test_ends_of_time():
    assert parse_days("9999-12") is not None
    assert parse_days("9999") is not None
    assert parse_days("0001-01-01") == (1, 2)


def test_long_numbers_are_not_rounded():
    long = "1234567890123456789012345678901234.5"
    assert parse_number(long) == Decimal(long)
    column = understand_column("x", [{long, long[:-1] + "6"}])
    assert column.runs.first[0] != column.runs.first[1]


def column_of(*found, **rules):
    return understand_column("x", [set(found)], ColumnRules(**rules))


def meaning(column, label):
    return next(each for each in column.meanings if each.label == label)


def positions(column, label):
    return column.runs.mask(column.code_of[label]).tolist()


def test_whole_numbers_have_nothing_between_them():
    column = column_of("20-29", "30-39", "*")
    assert column.kind == "whole numbers"
    assert [each.meaning for each in column.meanings] == ["every value", "20 to 29", "30 to 39"]
    assert column.runs.is_named.tolist() == [False, True, True, False]


def test_real_numbers_have():
    column = column_of("20.5-29.5", "30-39", "*")
    assert column.kind == "numbers"
    between = ~(column.runs.mask(1) | column.runs.mask(2))
    assert between.tolist() == [True, False, True, False, True]
    assert column_of("(20, 21)", "5").kind == "numbers"  # no whole number lies inside


def test_codes_with_stars():
    column = column_of("5600**", "56001*", "560012", "570000", "*")
    assert column.kind == "text"
    wide, narrow, one, other = (
        set(_named(column, label)) for label in ("5600**", "56001*", "560012", "570000")
    )
    assert one < narrow < wide  # each with codes that no other label names
    assert not wide & other
    assert set(_named(column, "*")) > wide | other


def test_stars_without_any_plain_code_are_classes_of_their_own():
    column = column_of("5600**", "5601**", "560***")
    assert not any(
        a and b for a, b in zip(positions(column, "5600**"), positions(column, "5601**"), strict=True)
    )
    wider = positions(column, "560***")
    assert all(b for a, b in zip(positions(column, "5600**"), wider, strict=True) if a)


def test_one_star_for_any_number_of_characters_is_refused():
    assert meaning(column_of("56*", "56001"), "56*").problem
    assert not meaning(column_of("5600*", "56001"), "5600*").problem


def test_codes_with_leading_zeros_are_text():
    assert column_of("01234", "56001").kind == "text"
    assert column_of("1234", "56001").kind == "whole numbers"
    assert meaning(column_of("01-02", "3-4"), "01-02").problem
    assert not column_of("01-02", "3-4", kind="number").problems


def test_sets_without_braces_need_known_members():
    column = column_of("a", "b", "a,b", "c, d", "{e, f}", "e|f", "a;e")
    assert [each.label for each in column.problems] == ["c, d"]
    assert meaning(column, "e|f").meaning == "one of 2 values"
    assert not column_of("c, d", separators="sets").problems
    values = column_of("c, d", "c", separators="values")
    assert meaning(values, "c, d").is_plain
    declared = column_of("Korea, South", "Korea", values=("Korea, South",))
    assert meaning(declared, "Korea, South").is_plain


@pytest.mark.parametrize("label", ["1-2", ">=65", "65+", "[1, 2]", "1990-01..1990-02", "low..high"])
def test_ranges_in_a_column_of_text_are_refused(label):
    assert meaning(column_of(label, "blue", "red"), label).problem
    assert not column_of(label, "blue", "red", kind="text", separators="values").problems


def test_ordered_values_have_runs():
    column = column_of(
        "low..mid", "high", kind="text", values=("low", "mid", "high"), is_ordered=True, is_closed=True
    )
    assert not column.problems
    assert positions(column, "low..mid") == [True, True, False]
    assert positions(column, "high") == [False, False, True]


def test_values_outside_a_closed_list_are_refused():
    column = column_of("a", "b", "{a, c}", kind="text", values=("a",), is_closed=True)
    assert [each.label for each in column.problems] == ["b", "{a, c}"]
    assert column.runs.n_positions == 1


def test_ancestors_come_from_the_hierarchy():
    hierarchy = Hierarchy((("a", "1-2", "*"), ("b", "1-2", "*"), ("c", "other", "*")))
    column = column_of("1-2", "c", "*", hierarchy=hierarchy)
    assert not column.problems
    assert positions(column, "1-2")[:3] == [True, True, False]
    numbers = Hierarchy((("1", "low", "*"), ("2", "low", "*"), ("3", "high", "*")))
    column = column_of("low", "3", "1-3", hierarchy=numbers)
    assert column.kind == "whole numbers"
    assert not column.problems


def test_empty_cells_follow_the_policy():
    assert column_of(None, "", "F").problems
    category = column_of(None, "", "F", "*", nulls="category")
    assert positions(category, None) == positions(category, "")
    assert positions(category, "*")[-1]
    unknown = column_of(None, "F", nulls="unknown")
    assert all(positions(unknown, None))


def test_unknown_rules_are_refused():
    with pytest.raises(ParameterError):
        ColumnRules(kind="numbers")


def test_a_kind_that_does_not_fit_is_told_per_label():
    column = column_of("20-30", "blue", kind="number")
    assert [each.label for each in column.problems] == ["blue"]


DOMAINS = [
    Column("x", Integers(-5, 30)),
    Column("x", Integers(0, 99, 5), nulls="category"),
    Column("x", Dates(dt.date(1990, 1, 1), dt.date(1992, 5, 1), "month"), nulls="category"),
    Column("x", Dates(dt.date(1990, 1, 1), dt.date(1990, 3, 1), "day")),
    Column("x", Bins((0, 0.5, 10, 20))),
    Column("x", Categories(("F", "M", "X, or Y", 'the "other"')), nulls="category"),
]


@pytest.mark.parametrize("column", DOMAINS, ids=lambda column: column.domain.kind)
@given(data=st.data())
def test_labels_of_our_own_releases_are_read_back(column, data):
    ends = st.tuples(st.integers(0, column.size - 1), st.integers(0, column.size - 1)).map(sorted)
    chosen = data.draw(st.lists(ends, min_size=1, max_size=6))
    singles = list(column.value_labels)
    spelt = {column.label(low, high): set(range(low, high + 1)) for low, high in chosen}
    understood = understand_column("x", [{*spelt, *singles}])
    assert not understood.problems
    alone = [set(_named(understood, label)) for label in singles]
    for label, members in spelt.items():
        if label == "*":
            continue
        wanted = set().union(*(alone[member] for member in members))
        assert wanted <= set(_named(understood, label))
        for other in set(range(column.size)) - members:
            assert not alone[other] & set(_named(understood, label))


GROUPED = Hierarchy((("a", "x, y", "*"), ("b", "x, y", "*"), ("c", "other", "*"), ("d, e", "other", "*")))
DESCRIBED = [
    *DOMAINS,
    Column("x", Categories(("low", "mid", "high", "1-2"), ordered=True), nulls="category"),
    Column("x", Categories(("a", "b", "c", "d, e")), hierarchy=GROUPED),
    Column("x", Integers(1, 4), hierarchy=Hierarchy(tuple((str(n), "ab"[n > 2], "*") for n in range(1, 5)))),
]


@pytest.mark.parametrize("column", DESCRIBED, ids=str)
def test_with_a_schema_all_labels_of_our_own_are_read_back(column):
    singles = list(column.value_labels)
    spelt = {
        column.label(low, high): set(range(low, high + 1))
        for low in range(column.size)
        for high in range(low, column.size)
    }
    understood = understand_column("x", [{*spelt, *singles}], rules_of(column))
    assert not understood.problems
    alone = [set(_named(understood, label)) for label in singles]
    for label, members in spelt.items():
        named = set(_named(understood, label))
        assert all((not alone[place].isdisjoint(named)) == (place in members) for place in range(column.size))
        assert all(alone[place] <= named for place in members)


def _named(column, label):
    return [place for place, inside in enumerate(positions(column, label)) if inside]


PIECES = st.sampled_from(
    [
        *'*[](){},;|-><=+. /"–−\u00a0\n\x00aébn01',
        "..",
        "20",
        "40",
        "1990",
        "01",
        "12",
        "1.5",
        "inf",
        "to",
        "e5",
    ]
)
LABELS = st.one_of(st.text(max_size=12), st.lists(PIECES, max_size=7).map("".join))


@given(
    st.lists(st.one_of(st.none(), LABELS), min_size=1, max_size=8),
    st.sampled_from(["auto", "number", "date", "text"]),
)
@example(["\n"], "auto")
@example(['"', '""'], "text")
@example(["{,}", "{a}", "{}"], "auto")
def test_no_text_brings_us_down_or_loses_a_label(found, kind):
    column = understand_column("x", [found, found[:1]], ColumnRules(kind=kind, nulls="unknown"))
    assert {each.label for each in column.meanings} == set(found)
    for code, each in enumerate(column.meanings):
        # Either it means something, or it says why not; nothing is silently empty.
        assert bool(each.problem) != bool(column.runs.mask(code).any())
        assert each.problem or each.meaning


@given(
    st.decimals(-1000, 1000, places=2),
    st.decimals(0, 1000, places=2),
    st.sampled_from(
        ["{}-{}", "{} - {}", "{}..{}", "[{}, {}]", "[{};{}[", "({},{}]", "{} – {}", "[{}-{}]", "]{}, {}["]
    ),
    st.decimals(-2000, 2000, places=3),
)
def test_every_spelling_of_a_range_means_its_numbers(low, width, spelling, asked):
    high = low + width
    text = spelling.format(low, high)
    reading = number(text)
    open_low, open_high = text[0] in "(]", text[-1] in "[)"
    if width == 0 and (open_low or open_high):
        assert reading is None
        return
    inside = (low < asked or (low == asked and not open_low)) and (
        asked < high or (asked == high and not open_high)
    )
    for value, wanted in ((asked, inside), (low, not open_low), (high, not open_high)):
        assert holds(reading.spans, value) == wanted


@pytest.mark.parametrize(
    "label",
    [
        *(
            "C50-C59",
            "20K-40K",
            "$20 to $40",
            "01.02.1990-05.03.1990",
            "20-40 years",
            "A-M",
            "10%..20%",
            "5600xx",
        ),
        *(
            "10%..20%",
            "5**1",
            "under 18",
            "65 and over",
            "between 20 and 40",
            "red/blue",
            "red or blue",
            "blue & red",
        ),
    ],
)
def test_what_may_be_generalized_in_another_form_is_not_taken_for_a_value(label):
    assert meaning(column_of(label, "blue", "red"), label).problem
    if "*" not in label:
        assert meaning(column_of(label, "blue", "red", kind="text"), label).is_plain


@pytest.mark.parametrize(
    "label", ["Married-civ-spouse", "Never-married", "Assoc-acdm", "T-shirt", "M/W", "Ålesund"]
)
def test_ordinary_names_are_values(label):
    assert meaning(column_of(label, "blue", "red"), label).is_plain


@pytest.mark.parametrize("label", ["NA", "nan", "None", "?", "-", "N/A", "Any"])
def test_what_tools_write_for_missing_values_follows_the_policy(label):
    assert meaning(column_of(label, "20-30"), label).problem
    assert column_of(label, "20-30").kind == "whole numbers"
    unknown = column_of(label, "20-30", nulls="unknown")
    assert all(positions(unknown, label))
    category = column_of(label, None, "20-30", nulls="category")
    assert positions(category, label) == positions(category, None)
    assert meaning(column_of(label, "x", kind="text"), label).is_plain
    assert meaning(column_of(label, "x", values=(label,)), label).is_plain
