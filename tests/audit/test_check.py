"""What one table shows by itself, beside the definitions and beside another tool."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elldelta as ed
from elldelta.audit.columns import ForeignColumns
from elldelta.errors import DataError, ParameterError, SchemaError
from elldelta.schema.hierarchy import HierarchyRows

ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult.csv"

PEER = {
    ("sex,race", "occupation"): (87, 10, 7, 0.3249624441807344, 17.722532588454378, 3.132721992807618),
    ("sex,race", "age"): (87, 33, 27, 0.09193571485872032, 16.61799065420561, 2.868920576218943),
    ("sex,marital-status", "workclass"): (
        9,
        3,
        2,
        0.2192162323453352,
        10.399092970521542,
        2.4335337882457293,
    ),
    ("sex,race,age", "occupation"): (1, 1, 1, 0.9952589350838804, 557.5555555555555, 6.325354086356356),
}
"""k, ell, entropy ell rounded down, t, beta, delta as pycanon 1.3.6 gives them. Its c of recursive diversity
is left out: it puts the rarest value first where the definition puts the most frequent one."""


@pytest.mark.skipif(not ADULT.exists(), reason="the shared data is not beside this checkout")
@pytest.mark.parametrize(("columns", "sensitive"), PEER)
def test_adult_is_measured_as_pycanon_measures_it(columns, sensitive):
    k, ell, entropy, t, beta, delta = PEER[columns, sensitive]
    found = ed.check(ADULT, columns.split(","), sensitive)
    assert (found.records, found.k, found.ell, int(found.entropy_ell)) == (30_162, k, ell, entropy)
    assert (found.t if found.t_ordered is None else found.t_ordered) == pytest.approx(t, rel=1e-12)
    assert found.beta == pytest.approx(beta, rel=1e-12)
    assert found.delta_disclosure == pytest.approx(delta, rel=1e-12)


rows = st.lists(
    st.tuples(st.sampled_from(["x", "y", None]), st.integers(0, 2), st.sampled_from("abcd")),
    min_size=1,
    max_size=40,
)


@given(rows)
def test_every_measure_is_its_definition(people):
    table = pa.table(
        {"q": [q for q, _, _ in people], "r": [r for _, r, _ in people], "s": [s for *_, s in people]}
    )
    found = ed.check(table, ["q", "r"], "s")
    classes = defaultdict(Counter)
    for q, r, s in people:
        classes[q, r][s] += 1
    whole = Counter(s for *_, s in people)
    share = {s: Fraction(n, len(people)) for s, n in whole.items()}
    shares = [{s: Fraction(n[s], n.total()) for s in whole} for n in classes.values()]
    assert (found.records, found.classes) == (len(people), len(classes))
    assert found.k == min(n.total() for n in classes.values())
    assert found.ell == min(len(n) for n in classes.values())
    assert found.lacking == sum(len(n) < len(whole) for n in classes.values())
    assert found.t == pytest.approx(float(max(sum(abs(f[s] - share[s]) for s in whole) for f in shares) / 2))
    assert found.beta == pytest.approx(float(max(f[s] / share[s] - 1 for f in shares for s in whole)))
    assert found.best_guess == pytest.approx(float(max(max(f.values()) for f in shares)))
    logs = [abs(math.log(f[s] / share[s])) for f in shares for s in whole if f[s]]
    assert found.delta_disclosure == pytest.approx(max(logs))
    entropies = [-sum(p * math.log(p) for p in f.values() if p) for f in shares]
    assert found.entropy_ell == pytest.approx(math.exp(min(entropies)))
    ranked = [sorted(n.values(), reverse=True) for n in classes.values()]
    assert found.recursive_c == pytest.approx(max(r[0] / sum(r[found.ell - 1 :]) for r in ranked))
    assert found.t_ordered is None


def test_numbers_are_ordered_as_numbers():
    table = pa.table({"q": ["x", "x", "y", "y"], "s": ["9", "10", "10", "100"]})
    # 9, 10, 100: each class has half on either side of one step
    assert ed.check(table, ["q"], "s").t_ordered == pytest.approx((0.25 + 0.25) / 2)


@pytest.mark.parametrize("names", ["q,r", [], ["q", "q"], ["q", "s"]])
def test_names_that_make_no_sense_are_refused(names):
    with pytest.raises(ParameterError):
        ed.check(pa.table({"q": ["x"], "r": ["y"], "s": ["z"]}), names, "s")


def test_a_table_without_a_record_is_refused():
    with pytest.raises(DataError, match="no record"):
        ed.check(pa.table({"q": pa.array([], pa.string()), "s": pa.array([], pa.string())}), ["q"], "s")


@pytest.mark.parametrize(
    "text", [None, "", "NA", " NA", "\tNA", "NA\u00a0", "(missing)", "\u00a0", "\u200b", "N\u200bA"]
)
def test_what_looks_like_no_value_counts_for_nothing_anywhere(tmp_path, text):
    """One reading: `check` and `audit` leave it out, and a schema in which it were a value is not made."""
    rows = {"age": ["1"] * 6, "d": ["a", "b", text] * 2}
    table = pa.table({"age": rows["age"], "d": pa.array(rows["d"], pa.string())})
    pq.write_table(table, tmp_path / "t.parquet")
    found = ed.check(table, ["age"], "d")
    assert (found.ell, found.left_out) == (2, 2)
    audited = ed.audit([tmp_path / "t.parquet"], columns=ForeignColumns(("age",), "d"), ell=3)
    assert not audited.holds
    if text is None or text.strip() in {"", "NA"}:
        assert ed.Schema.infer(table, ["age"], "d", widen={"age": "no"}).n_values == 2
    else:
        with pytest.raises(SchemaError, match="look like missing ones"):
            ed.Schema.infer(table, ["age"], "d", widen={"age": "no"})
    told = ed.Schema.infer(table, ["age"], "d", widen={"age": "no"}, na={"d": [text or ""]})
    assert told.n_values == 2


def test_groups_of_like_values_are_counted_besides(tmp_path):
    table = pa.table({"age": ["1", "1", "1", "2", "2"], "disease": ["lung", "skin", "flu", "lung", "skin"]})
    rows = HierarchyRows((("lung", "cancer", "*"), ("skin", "cancer", "*"), ("flu", "infection", "*")))
    found = ed.check(table, ["age"], "disease", groups=rows)
    assert (found.ell, found.ell_groups) == (2, 1)
    assert found.to_dict()["ell_groups"] == 1
    assert ed.check(table, ["age"], "disease").ell_groups is None
    with pytest.raises(DataError, match="in no group") as refused:
        ed.check(table, ["age"], "disease", groups=HierarchyRows(rows.rows[:2]))
    assert "flu" not in str(refused.value)
