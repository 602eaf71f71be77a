import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.oracles.boxes import sibling_runs
from tests.schema.read_back import read_back

import elldelta as ed
from elldelta.engines.cells import spelling
from elldelta.errors import FileError, ParameterError, SchemaError
from elldelta.files import CsvFormat
from elldelta.model import with_hierarchies
from elldelta.model.model import reordered
from elldelta.schema.hierarchies import (
    code_hierarchy,
    date_hierarchy,
    integer_hierarchy,
    read_hierarchies,
    read_rows,
    write_hierarchy,
)
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema
from elldelta.schema.schema_file import read_schema, write_schema

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not there")

EDUCATION = (
    ("HS-grad", "High School", "Secondary", "*"),
    ("Bachelors", "Undergraduate", "Higher", "*"),
    ("11th", "High School", "Secondary", "*"),
    ("Masters", "Graduate", "Higher", "*"),
    ("Some-college", "Undergraduate", "Higher", "*"),
    ("Doctorate", "Graduate", "Higher", "*"),
)
LEVELS = Categories(("HS-grad", "Bachelors", "11th", "Masters", "Some-college", "Doctorate"))
AGE_ROWS = tuple((str(n), f"{n // 5 * 5}-{n // 5 * 5 + 4}", f"{n // 10 * 10}-{n // 10 * 10 + 9}", "*")
                 for n in range(1, 101))  # fmt: skip


def problems_of(rows, domain=None, lines=()):
    return {problem.kind: problem for problem in HierarchyRows(tuple(rows), tuple(lines)).problems(domain)}


# Random hierarchies whose names try to look like labels, numbers and each other.
names = st.one_of(
    st.sampled_from(
        ["A", "B", "C", "*", "(missing)", "A or (missing)", "0-4", "1", "2-3", "{A, B}", "A..B", '"A"', "5**",
         "[0, 2)", "[1, 3]", " A", "a,b", "2001", "2001-01", "Other", "<=2", "2+", ">=1", "<2",
         "<=2001-01", ">=2000"]
    ),
    st.text(alphabet='AB,{}"*.-([ 01', min_size=1, max_size=4),
).map(spelling).filter(bool)  # fmt: skip
domains = st.one_of(
    st.builds(lambda low, n, width: Integers(low, low + n, width), st.integers(-4, 4), st.integers(0, 9),
              st.integers(1, 3)),
    st.builds(lambda n: Bins(tuple(range(n + 1))), st.integers(1, 8)),
    st.builds(lambda n, unit: Dates(dt.date(2000, 12, 28), dt.date(2000, 12, 28) + dt.timedelta(n), unit),
              st.integers(0, 9), st.sampled_from(["day", "month", "year"])),
    st.builds(Categories, st.lists(names, min_size=1, max_size=8, unique=True).map(tuple), st.booleans()),
)  # fmt: skip


def leaf_of(domain, place):
    return domain.values[place] if isinstance(domain, Categories) else domain.label(place, place)


@st.composite
def hierarchies(draw, domain):
    """Rows for a domain: groups are runs where there is an order, anything where there is none."""
    size = domain.size
    is_free = isinstance(domain, Categories) and not domain.ordered
    group_of = list(range(size))
    columns = [[leaf_of(domain, place) for place in range(size)]]
    for _ in range(draw(st.integers(0, 3))):
        n_groups = max(group_of) + 1
        if is_free:
            merged = draw(st.lists(st.integers(0, n_groups - 1), min_size=n_groups, max_size=n_groups))
        else:
            steps = draw(st.lists(st.booleans(), min_size=n_groups, max_size=n_groups))
            merged = np.cumsum(steps).tolist()
        merged = np.unique(merged, return_inverse=True)[1].tolist()
        group_of = [merged[group] for group in group_of]
        spelt = draw(st.lists(names, min_size=max(group_of) + 1, max_size=max(group_of) + 1, unique=True))
        columns.append([spelt[group] for group in group_of])
    columns.append([draw(names)] * size)
    rows = list(zip(*columns, strict=True))
    return tuple(draw(st.permutations(rows)))


@st.composite
def columns_with_hierarchies(draw):
    domain = draw(domains)
    rows = draw(hierarchies(domain))
    policy = draw(st.sampled_from(["refuse", "category"]))
    try:
        return Column("column", domain, policy, hierarchy=Hierarchy(rows))
    except SchemaError as refusal:
        assert "means other values" in refusal.found or "mean other values" in refusal.found  # noqa: PT017
        return Column("column", domain, policy, hierarchy=plainly_named(rows))


def plainly_named(rows):
    """The same groups under names that tell their level, and can mean nothing else."""
    return Hierarchy(
        tuple((leaf, *(f"level {n}: {name}" for n, name in enumerate(groups))) for leaf, *groups in rows)
    )


def runs_of(column):
    return [(low, high) for low in range(column.size) for high in range(low, column.size)]


@given(columns_with_hierarchies())
def test_every_label_is_read_back_and_no_two_are_equal(column):
    seen = set()
    for low, high in runs_of(column):
        label = column.label(low, high)
        expected = np.zeros(column.size, dtype=bool)
        expected[low : high + 1] = True
        assert np.array_equal(read_back(column, label), expected)
        assert label not in seen
        seen.add(label)


@given(columns_with_hierarchies())
def test_a_run_that_is_a_group_has_the_name_of_the_lowest_such_group(column):
    rows = column.hierarchy.rows
    plain = Column("column", column.domain, column.nulls)
    for low, high in runs_of(column):
        shown = column.label(low, high)
        names_of_run = [
            rows[low][level]
            for level in range(1, len(rows[0]) - 1)
            if high < len(rows) and [p for p, row in enumerate(rows) if row[level] == rows[low][level]]
            == list(range(low, high + 1))
        ]  # fmt: skip
        is_whole = (low, high) == (0, column.size - 1)
        if high < len(rows) and low < high and not is_whole and names_of_run:
            assert shown in (names_of_run[0], '"' + names_of_run[0].replace('"', '""') + '"')
        elif high < len(rows):
            assert shown == plain.label(low, high)


@given(columns_with_hierarchies())
def test_cuts_follow_the_hierarchy_and_missing_values_stand_alone(column):
    tree, rows = column.cut_tree, column.hierarchy.rows
    assert tree.size == column.size
    for low, high in runs_of(column):
        if high >= len(rows) or low == high:
            continue
        path_low, path_high = rows[low], rows[high]
        common = min(level for level in range(len(path_low)) if path_low[level] == path_high[level])
        # A run of whole children of the lowest common group, or of the group itself.
        is_clean = all(
            place in range(low, high + 1)
            for place, row in enumerate(rows)
            for other in (path_low, path_high)
            if row[common - 1] == other[common - 1]
        )
        assert (low, high) in sibling_runs(tree.levels.tolist()) or not is_clean
    if column.has_missing and column.size > 1:
        last = column.size - 1
        assert tree.depths[last - 1] == tree.depths[:last].max()


def depth_first(rows, level):
    """The definition: groups in the order of their first value, each followed by its own groups."""
    if level == 0:
        return list(rows)
    found = {}
    for row in rows:
        found.setdefault(row[level], []).append(row)
    return [row for group in found.values() for row in depth_first(group, level - 1)]


@given(st.data())
def test_unordered_categories_are_arranged_depth_first_and_stay_so(data):
    domain = Categories(tuple(data.draw(st.lists(names, min_size=1, max_size=8, unique=True))))
    rows = data.draw(hierarchies(domain))
    hierarchy = plainly_named(rows)
    place = {value: index for index, value in enumerate(domain.values)}
    given_order = sorted(hierarchy.rows, key=lambda row: place[row[0]])
    column = Column("c", domain, hierarchy=hierarchy)
    assert column.hierarchy.rows == tuple(depth_first(given_order, hierarchy.n_levels - 1))
    assert column.domain.values == tuple(row[0] for row in column.hierarchy.rows)
    assert Column("c", column.domain, hierarchy=column.hierarchy) == column


@given(columns_with_hierarchies())
def test_schemas_with_hierarchies_survive_json_and_toml(column):
    schema = Schema((column,), Column("s", Integers(0, 1)))
    for copy in (
        Schema.from_dict(json.loads(json.dumps(schema.to_dict()))),
        Schema.from_toml(schema.to_toml()),
    ):
        assert copy == schema
        assert copy.digest == schema.digest
    assert schema.digest != Schema((Column("column", column.domain, column.nulls),), schema.sensitive).digest


def test_education_shows_the_names_a_reader_knows():
    column = Column("education", LEVELS, "category", hierarchy=Hierarchy(EDUCATION))
    assert column.domain.values == (
        "HS-grad", "11th", "Bachelors", "Some-college", "Masters", "Doctorate",
    )  # fmt: skip
    assert column.label(2, 3) == "Undergraduate"
    assert column.label(0, 1) == "High School"  # the lowest of High School and Secondary
    assert column.label(2, 5) == "Higher"
    assert column.label(1, 2) == "{11th, Bachelors}"
    assert column.label(2, 6) == "Higher or (missing)"
    assert column.label(0, 5) == "{HS-grad, 11th, Bachelors, Some-college, Masters, Doctorate}"
    assert column.label(0, 6) == "*"
    assert read_back(column, "Undergraduate").tolist() == [False, False, True, True, False, False, False]
    assert read_back(column, "Secondary").tolist() == [True, True, False, False, False, False, False]
    for not_a_label in ("Graduate or Undergraduate", "high school"):
        assert read_back(column, not_a_label) is None


def test_stars_of_codes_need_no_quotes():
    domain = Categories(("560012", "560034", "110001"), ordered=True)
    column = Column("code", domain, hierarchy=code_hierarchy(domain.values, [4, 2]))
    assert column.label(0, 1) == "5600**"
    assert read_back(column, "5600**").tolist() == [True, True, False]


def test_leaves_that_the_domain_does_not_have_are_left_out():
    column = Column("age", Integers(17, 90), hierarchy=Hierarchy(AGE_ROWS))
    assert len(column.hierarchy.rows) == 74
    assert column.label(0, 2) == "15-19"
    assert column.label(3, 7) == "20-24"
    assert column.label(3, 8) == "20-25"


def test_coarser_positions_take_the_group_that_their_leaves_agree_on():
    days = date_hierarchy(dt.date(2019, 12, 1), dt.date(2021, 2, 27))
    months = Column("day", Dates(dt.date(2019, 12, 1), dt.date(2021, 2, 1), "month"), hierarchy=days)
    assert months.label(1, 12) == "2020"
    assert months.label(0, 0) == "2019-12"
    tens = Column("age", Integers(20, 39, 5), hierarchy=Hierarchy(AGE_ROWS))
    assert tens.label(0, 1) == "20-29"
    assert set(problems_of(AGE_ROWS, Integers(17, 90, 5))) == {"torn"}


@pytest.mark.parametrize(
    ("rows", "kind", "count", "lines"),
    [
        ([("a", "x", "*"), ("b", "*"), ("c", "x", "*")], "ragged", 1, (2,)),
        ([("a", "x", "*"), ("b", "x", "*"), ("a", "y", "*")], "duplicate", 1, (1, 3)),
        ([("a", "x", "*"), ("b", "x", "*"), ("c", "y", "+")], "root", 2, (3,)),
        ([("a", "x", "u", "*"), ("b", "x", "v", "*"), ("c", "y", "v", "*")], "name", 1, (1, 2)),
        ([("a", "", "*"), ("b", "x", "*")], "unnamed", 1, (1,)),
        ([("a",), ("b",)], "shallow", 2, ()),
        ([], "empty", 1, ()),
    ],
)
def test_rows_that_contradict_themselves_are_told_with_their_lines(rows, kind, count, lines):
    problem = problems_of(rows)[kind]
    assert (problem.count, problem.lines) == (count, lines)
    with pytest.raises(SchemaError, match="contradicts itself"):
        Hierarchy(tuple(rows))


def test_all_problems_are_told_at_once():
    rows = [
        ("1", "low", "*"), ("2", "high", "*"), ("3", "low", "*"), ("3", "low", "*"), ("4", "*"),
        ("5", "high", "+"),
    ]  # fmt: skip
    found = problems_of(rows, Integers(1, 9), lines=[1, 2, 3, 4, 7, 8])
    assert {kind: problem.count for kind, problem in found.items()} == {
        "ragged": 1, "duplicate": 1, "root": 2, "missing": 5, "interrupted": 2,
    }  # fmt: skip
    assert found["ragged"].lines == (7,)
    assert found["missing"].names[:2] == ("4", "6")
    with pytest.raises(SchemaError) as refusal:
        HierarchyRows(tuple(rows), (1, 2, 3, 4, 7, 8), "The hierarchy x.csv").checked(Integers(1, 9))
    for words in ("(1)", "(5)", "line 7", "5 values of the column have no row", "lines 3, 4"):
        assert words in refusal.value.found
    assert "x.csv" in refusal.value.problem


def test_missing_leaves_of_an_enormous_domain_are_counted_not_listed():
    assert problems_of(AGE_ROWS, Integers(0, 2**61))["missing"].count == 2**61 + 1 - 100


def test_an_interrupted_group_is_only_wrong_where_there_is_an_order():
    rows = [("a", "x", "*"), ("b", "y", "*"), ("c", "x", "*")]
    assert set(problems_of(rows, Categories(("a", "b", "c"), ordered=True))) == {"interrupted"}
    assert problems_of(rows, Categories(("a", "b", "c"))) == {}


SHIFTED = tuple((str(n), f"{(n - 1) // 5 * 5}-{(n - 1) // 5 * 5 + 4}", "*") for n in range(1, 31))


@pytest.mark.parametrize(
    ("rows", "domain", "count"),
    [
        (SHIFTED, Integers(1, 30), 6),  # 0-4 holds 1 to 5: the reader would leave out 5
        (SHIFTED, Integers(3, 27), 6),
        ([("2000", "2001", "*"), ("2001", "2001", "*")],
         Dates(dt.date(2000, 1, 1), dt.date(2001, 1, 1), "year"), 1),
        ([("Other", "Other", "*"), ("b", "Other", "*"), ("c", "y", "*")], Categories(("Other", "b", "c")), 1),
        ([("a", "x", "x", "*"), ("b", "x", "x", "*"), ("c", "y", "x", "*"), ("d", "z", "z", "*")],
         Categories(("a", "b", "c", "d")), 2),
        ([("a", "*", "*"), ("b", "*", "*"), ("c", "x", "*")], Categories(("a", "b", "c")), 1),
    ],
)  # fmt: skip
def test_a_name_that_means_other_values_is_refused(rows, domain, count):
    assert problems_of(rows, domain)["ambiguous"].count == count
    with pytest.raises(SchemaError, match="Rename these groups"):
        Column("c", domain, hierarchy=Hierarchy(tuple(rows)))


def test_of_misleading_groups_only_those_of_a_file_are_named_where_values_must_not_be():
    rows = (("Other", "Other", "*"), ("b", "Other", "*"), ("c", "y", "*"))
    for lines, is_named in (((1, 2, 3), True), ((), False)):
        with pytest.raises(SchemaError, match="Rename these groups") as refused:
            HierarchyRows(rows, lines).checked(Categories(("Other", "b", "c")), naming=False)
        assert ("'Other'" in refused.value.found) == is_named


def test_a_hierarchy_of_the_sensitive_column_says_which_values_are_alike():
    rows = (("a", "x", "*"), ("b", "y", "*"), ("c", "x", "*"))
    column = Column("s", Categories(("a", "b", "c")), "category", hierarchy=Hierarchy(rows))
    schema = Schema((Column("age", Integers(0, 9)),), column)
    assert schema.sensitive.domain.values == ("a", "c", "b")
    groups = schema.sensitive.value_groups.tolist()
    assert groups[:2] == [groups[0]] * 2
    assert schema.sensitive.n_groups == 3  # x, y, and a missing value
    assert schema.sensitive.value_labels == ("a", "c", "b", "(missing)")


# Files.


@pytest.mark.parametrize(
    "content",
    [
        b"a;x;*\nb;x;*\n",
        "\ufeffa;x;*\r\nb;x;*".encode(),
        "a;x;*\nb;x;*\n".encode("utf-16"),
        b'"a";"x";"*"\n\nb;x;*\n',
        b"a,x,*\nb,x,*\n",
        b"a\tx\t*\nb\tx\t*\n",
    ],
)
def test_files_are_read_as_people_have_them(tmp_path, content):
    path = tmp_path / "h.csv"
    path.write_bytes(content)
    assert read_rows(path).rows == (("a", "x", "*"), ("b", "x", "*"))


def test_names_may_hold_separators_quotes_and_line_breaks(tmp_path):
    hierarchy = Hierarchy((('a;"b', "x,y", "*"), ("c\nd", "x,y", "*"), ("ü", "x,y", "*")))
    write_hierarchy(hierarchy, tmp_path / "h.csv")
    read = read_rows(tmp_path / "h.csv")
    assert read.checked() == hierarchy
    assert read.lines == (1, 2, 4)
    (tmp_path / "latin.csv").write_bytes("ü;*\n".encode("latin-1"))
    assert read_rows(tmp_path / "latin.csv", CsvFormat("latin-1")).rows == (("ü", "*"),)
    with pytest.raises(FileError, match="utf-8"):
        read_rows(tmp_path / "latin.csv")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,x\tz\nb,y\tz\n", "separator"),
        (b"a\nb\n", "separator"),
        (b'"a;x;*\n', "quotes"),
    ],
)
def test_files_that_cannot_be_understood_are_refused(tmp_path, content, words):
    (tmp_path / "h.csv").write_bytes(content)
    with pytest.raises(FileError, match=words):
        read_rows(tmp_path / "h.csv")
    with pytest.raises(FileError, match="There is no hierarchy"):
        read_rows(tmp_path / "none.csv")


def test_lines_without_a_separator_are_reported_and_not_guessed_away(tmp_path):
    (tmp_path / "h.csv").write_text("a;x;*\nb,x,*\nc;x;*\n")
    assert [
        problem.lines for problem in read_rows(tmp_path / "h.csv").problems() if problem.kind == "ragged"
    ] == [(2,)]


TOML = """\
format = 1
[[quasi_identifiers]]
name = "g"
kind = "categories"
values = ["a", "b", "c"]
{line}
[[sensitive]]
name = "s"
kind = "integers"
low = 0
high = 3
"""


def test_a_schema_may_name_a_file_beside_it(tmp_path):
    (tmp_path / "g.csv").write_text("a;x;*\nb;y;*\nc;x;*\n")
    (tmp_path / "schema.toml").write_text(TOML.format(line='hierarchy_file = "g.csv"'))
    schema = read_schema(tmp_path / "schema.toml")
    assert schema.quasi_identifiers[0].domain.values == ("a", "c", "b")
    write_schema(schema, tmp_path / "copy.toml")
    (tmp_path / "g.csv").unlink()
    assert read_schema(tmp_path / "copy.toml") == schema


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('hierarchy = [["a", "x", "*"], ["b", "*"]]', "line 6: (1) 1 row has another number"),
        ('hierarchy = [["a", "*"], ["b", "*"]]', "line 6: 1 value of the column has no row: 'c'"),
        ("hierarchy = [[1]]", "line 6: It is a whole number"),
        ('hierarchy = "x"', "line 6: It is a text"),
        ('hierarchy = ["x"]', "line 6: It is a text"),
        ("hierarchy_file = 5", "line 6: It is a whole number"),
        ('hierarchy = [["a", "*"]]\nhierarchy_file = "g.csv"', "line 7: Two are given"),
        ('hierarchy_file = "g.csv"', "line 6: 2 values of the column have no row"),
    ],
)
def test_a_wrong_hierarchy_in_a_schema_is_refused_with_its_line(tmp_path, line, words):
    (tmp_path / "g.csv").write_text("a;x;*\n")
    (tmp_path / "schema.toml").write_text(TOML.format(line=line))
    with pytest.raises(SchemaError) as refusal:
        read_schema(tmp_path / "schema.toml")
    assert words in refusal.value.found


def test_a_document_that_somebody_sent_makes_us_read_no_file(tmp_path):
    (tmp_path / "g.csv").write_text("a;*\nb;*\nc;*\n")
    text = TOML.format(line=f'hierarchy_file = "{(tmp_path / "g.csv").as_posix()}"')
    with pytest.raises(SchemaError, match="hierarchy_file"):
        Schema.from_toml(text)


# Made by a rule.


def test_ranges_of_numbers_nest_and_tell_the_truth():
    rows = integer_hierarchy(17, 90, [5, 10, 20]).rows
    assert rows[0] == ("17", "17-19", "17-19", "17-19", "*")
    assert rows[3] == ("20", "20-24", "20-29", "20-39", "*")
    assert rows[-1] == ("90", "90", "90", "80-90", "*")
    assert problems_of(rows, Integers(17, 90)) == {}
    assert integer_hierarchy(17, 30, [5], start=17).rows[4] == ("21", "17-21", "*")
    assert problems_of(integer_hierarchy(-7, 7, [2, 4]).rows, Integers(-7, 7)) == {}
    for widths in ([], [1], [5, 12], [10, 5], [5, 5]):
        with pytest.raises(ParameterError, match="Widths"):
            integer_hierarchy(0, 9, widths)
    with pytest.raises(ParameterError, match="leaves"):
        integer_hierarchy(0, 10**9, [5])


def test_dates_lie_in_months_years_and_decades():
    for unit, n_levels in (("day", 5), ("month", 4), ("year", 3)):
        low, high = dt.date(1999, 11, 30), dt.date(2001, 2, 1)
        made = date_hierarchy(low, high, unit)
        assert made.n_levels == n_levels
        assert problems_of(made.rows, Dates(low, high, unit)) == {}
        assert made.rows[0][-2:] == ("1990s", "*")
        assert made.rows[-1][-2:] == ("2000s", "*")


def test_codes_lie_in_their_prefixes():
    assert code_hierarchy(["560012", "110001"]).rows[0] == (
        "560012", "56001*", "5600**", "560***", "56****", "5*****", "*",
    )  # fmt: skip
    uneven = code_hierarchy(["A", "A1", "A12", "B12"], [2, 1])
    assert uneven.rows == (
        ("A", "A", "A", "*"),
        ("A1", "A1", "A*", "*"),
        ("A12", "A1*", "A*", "*"),
        ("B12", "B1*", "B*", "*"),
    )
    assert problems_of(uneven.rows, Categories(("A", "A1", "A12", "B12"))) == {}
    for lengths in ([2, 4], [6], [0], [2, 2]):
        with pytest.raises(ParameterError, match="Lengths"):
            code_hierarchy(["560012", "110001"], lengths)
    with pytest.raises(ParameterError, match="Codes"):
        code_hierarchy([])


# Models, plans and boxes.


def records(n=3000, seed=5):
    rng = np.random.default_rng(seed)
    missing = [None]
    return pa.table(
        {
            "education": rng.choice([*LEVELS.values, *missing], n, p=[0.3, 0.2, 0.1, 0.1, 0.2, 0.05, 0.05]),
            "age": rng.integers(17, 91, n),
            "disease": rng.choice(list("abcdef"), n, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1]),
        }
    )


PLAIN = Schema(
    (Column("education", LEVELS, "category"), Column("age", Integers(17, 90))),
    Column("disease", Categories(tuple("abcdef"))),
)


def test_a_model_in_another_order_is_what_counting_again_gives():
    table = records()
    model = ed.estimate(table, PLAIN)
    hierarchies = {"education": Hierarchy(EDUCATION), "age": Hierarchy(AGE_ROWS)}
    grouped = with_hierarchies(model, hierarchies)
    assert grouped.schema.quasi_identifiers[0].domain.values != LEVELS.values
    assert grouped == ed.estimate(table, grouped.schema)
    assert grouped != model
    backwards = Schema(PLAIN.quasi_identifiers, Column("disease", Categories(tuple("fedcba"))))
    assert reordered(model, backwards) == ed.estimate(table, backwards)
    assert reordered(grouped, PLAIN) == model


@pytest.mark.parametrize(
    "other",
    [
        Schema(PLAIN.quasi_identifiers[:1], PLAIN.sensitive),
        Schema((Column("education", LEVELS), PLAIN.quasi_identifiers[1]), PLAIN.sensitive),
        Schema((PLAIN.quasi_identifiers[0], Column("age", Integers(17, 91))), PLAIN.sensitive),
        Schema(PLAIN.quasi_identifiers, Column("disease", Categories(tuple("abcdeg")))),
        Schema(PLAIN.quasi_identifiers[::-1], PLAIN.sensitive),
    ],
)
def test_a_model_does_not_fit_other_values(other):
    with pytest.raises(SchemaError, match="another order"):
        reordered(ed.estimate(records(100), PLAIN), other)


def test_problems_of_all_columns_come_before_the_plan(tmp_path):
    (tmp_path / "age.csv").write_text("17;*\n18;*\n")
    (tmp_path / "edu.csv").write_text("HS-grad;*\n")
    model = ed.estimate(records(100), PLAIN)
    with pytest.raises(SchemaError) as refusal:
        with_hierarchies(
            model, read_hierarchies({"age": tmp_path / "age.csv", "education": tmp_path / "edu.csv"})
        )
    assert "Column 'age': 72 values" in refusal.value.found
    assert "Column 'education': 5 values" in refusal.value.found
    with pytest.raises(ParameterError, match="no quasi-identifier"):
        with_hierarchies(model, {"disease": Hierarchy((("a", "*"),))})


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1000), st.sampled_from([2, 3]))
def test_every_box_is_a_group_or_a_run_of_siblings(seed, ell):
    grouped = with_hierarchies(
        ed.estimate(records(seed=seed), PLAIN),
        {"education": Hierarchy(EDUCATION), "age": Hierarchy(AGE_ROWS)},
    )
    plan = ed.plan(grouped, ell=ell, releases=1, records=20_000, delta=0.01)
    assume(plan.n_classes > 1)
    assert plan.classes.shape == "boxes"
    lows, highs = plan.classes.hulls(plan.schema)
    for place, column in enumerate(plan.schema.quasi_identifiers):
        for low, high in set(zip(lows[:, place].tolist(), highs[:, place].tolist(), strict=True)):
            assert (low, high) in sibling_runs(column.cut_tree.levels.tolist())
    assert ed.Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_boxes_without_the_hierarchy_would_cut_elsewhere():
    model = ed.estimate(records(), PLAIN)
    grouped = with_hierarchies(model, {"age": Hierarchy(AGE_ROWS)})
    tree = grouped.schema.quasi_identifiers[1].cut_tree
    lows, highs = ed.plan(model, ell=2, releases=1, records=20_000, delta=0.01).classes.hulls(PLAIN)
    allowed = sibling_runs(tree.levels.tolist())
    assert not set(zip(lows[:, 1].tolist(), highs[:, 1].tolist(), strict=True)) <= allowed


def test_one_column_with_a_hierarchy_is_cut_along_it():
    schema = Schema((PLAIN.quasi_identifiers[1],), PLAIN.sensitive)
    model = with_hierarchies(ed.estimate(records(), schema), {"age": Hierarchy(AGE_ROWS)})
    plan = ed.plan(model, ell=4, releases=1, records=500, delta=0.01)
    assert plan.classes.shape == "boxes"
    assert {label for (label,) in plan.labels} & {"20-24", "20-29", "30-39"}


def test_a_release_shows_groups_and_can_be_audited_by_its_labels():
    table = records()
    model = with_hierarchies(
        ed.estimate(table, PLAIN), {"education": Hierarchy(EDUCATION), "age": Hierarchy(AGE_ROWS)}
    )
    plan = ed.plan(model, ell=5, releases=1, records=3000, delta=0.01)
    release = ed.release(table, plan)
    shown = set(release.table.column("education").to_pylist())
    for label in shown:
        assert read_back(model.schema.quasi_identifiers[0], label).any()
    assert shown & {"Undergraduate", "Graduate", "High School", "Higher"}


def test_inferring_takes_hierarchies_and_quotes_no_cell_when_they_do_not_fit():
    table = records()
    hierarchies = {"education": HierarchyRows(EDUCATION), "age": HierarchyRows(AGE_ROWS)}
    schema = Schema.infer(table, ["education", "age"], "disease", hierarchies=hierarchies)
    assert schema.quasi_identifiers[0].hierarchy.n_levels == 4
    assert schema.quasi_identifiers[0].has_missing
    assert schema.quasi_identifiers[0].label(0, 5) != "*"
    canary = table.set_column(0, "education", pa.array(["canary-cell"] * len(table)))
    with pytest.raises(SchemaError, match="1 value of the column has no row") as refusal:
        Schema.infer(canary, ["education", "age"], "disease", hierarchies=hierarchies)
    assert "canary" not in str(refusal.value)
    with pytest.raises(ParameterError, match="without a role"):
        Schema.infer(table, ["age"], "disease", hierarchies=hierarchies)
    with pytest.raises(SchemaError, match="different roots"):
        Schema.infer(table, ["age"], "disease", hierarchies={"age": HierarchyRows((("1", "*"), ("2", "+")))})


@needs_shared_data
def test_the_hierarchies_of_adult_fit_adult():
    columns = ["sex", "race", "marital-status", "education", "native-country", "workclass"]
    rows = read_hierarchies({name: SHARED / f"adult_hierarchy_{name}.csv" for name in (*columns, "age")})
    schema = Schema.infer(str(SHARED / "adult.csv"), [*columns, "age"], "occupation", widen={"age": "no"})
    for column in schema.quasi_identifiers:
        found = {problem.kind: problem.count for problem in rows[column.name].problems(column.domain)}
        assert found == ({"ambiguous": 25} if column.name == "age" else {})
    # In that file 15-19 holds 16 to 20, and so on for every range.
    age = schema.quasi_identifiers[-1]
    with pytest.raises(SchemaError, match="'15-19' holds 17-20"):
        Column("age", age.domain, hierarchy=Hierarchy(rows["age"].rows))
