"""What a manifest says of texts that a spreadsheet computes instead of showing them."""

import pytest
from tests.release.hospital_tables import people

import elldelta as ed
from elldelta.schema.schema import Schema


def warnings_of(text="flu", name="disease"):
    """What is said of a release with this disease, in a column of this name, and with ages below 0."""
    past, table = (
        people(n, seed)
        .assign(age=lambda rows: rows["age"] - 40, disease=lambda rows: rows["disease"].replace("flu", text))
        .rename(columns={"disease": name})
        for n, seed in ((3000, 0), (1000, 1))
    )
    assert text in set(table[name])
    schema = Schema.infer(past, ["age", "zip"], name, widen={"age": "no"})
    plan = ed.plan(ed.estimate(past, schema), ell=2, releases=1, records=1000)
    return [words for words in ed.release(table, plan).manifest.sentences if "formulas" in words]


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+cmd|'/c calc'!A0", "-2+3", "\uff1d1+1"])
def test_texts_that_are_formulas_come_with_a_warning(text):
    [words] = warnings_of(text)
    assert "'disease'" in words
    assert "'age'" not in words  # numbers below 0 are no formulas, nor are ranges of them


def test_a_name_that_is_a_formula_comes_with_a_warning():
    [words] = warnings_of(name="=disease")
    assert "'=disease'" in words


@pytest.mark.parametrize("text", ["-5", "+3.5", "a=b", "<=21"])
def test_numbers_and_marks_elsewhere_come_without(text):
    assert not warnings_of(text)
