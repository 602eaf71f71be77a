"""How the nouns of the story show themselves in a terminal and in a notebook."""

import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows

import elldelta as ed


@pytest.fixture(scope="module")
def story():
    import pandas as pd

    past = pd.DataFrame(make_rows(3000, seed=1))
    schema = ed.Schema.infer(past, quasi_identifiers=QUASI_IDENTIFIERS, sensitive=SENSITIVE)
    model = ed.estimate(past, schema)
    plan = ed.plan(model, ell=3, releases=2, records=2500)
    release = ed.release(past, plan, name="spring")
    return {
        "Schema": schema,
        "Model": model,
        "Plan": plan,
        "Release": release,
        "Audit": ed.audit([release, ed.release(past, plan, name="autumn")]),
    }


NOUNS = ("Schema", "Model", "Plan", "Release", "Audit")


@pytest.mark.parametrize("noun", NOUNS)
def test_a_terminal_shows_at_most_ten_lines(story, noun):
    lines = repr(story[noun]).splitlines()
    assert lines[0] == noun
    assert 3 <= len(lines) <= 10
    assert max(map(len, lines)) <= 200


@pytest.mark.parametrize("noun", NOUNS)
def test_a_notebook_shows_the_same_facts_and_needs_no_network(story, noun):
    shown = story[noun]._repr_html_()
    for name in story[noun].facts():
        assert f">{name}</th>" in shown
    assert "<script" not in shown
    assert 'src="http' not in shown
    assert ("<svg" in shown) == (noun in {"Model", "Plan", "Audit"})


def test_what_is_shown_is_what_is_there(story):
    assert "spring, autumn" in repr(story["Audit"])
    assert story["Plan"].promise[:60] in repr(story["Plan"])
    assert story["Plan"].conditions[0] in story["Plan"]._repr_html_().replace("&#39;", "'")
    assert f"records: {3000:,}" in repr(story["Model"])
    assert story["Schema"].digest in repr(story["Schema"])


def test_no_record_is_shown(story):
    # somebody who prints a release into a log prints no row of it
    assert SENSITIVE not in repr(story["Release"])
