import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.errors import ParameterError
from elldelta.paper import compose

deltas = st.lists(st.floats(1e-6, 0.5), min_size=1, max_size=6)


@given(deltas)
def test_sum_capped_at_one_in_any_order(values):
    result = compose(5, values)
    assert result.delta == pytest.approx(min(1.0, sum(values)))
    assert result.delta == compose(5, values[::-1]).delta
    assert result.releases == len(values)


@given(st.floats(1e-6, 0.9), st.integers(1, 9))
def test_equal_releases_cost_t_delta(delta, releases):
    assert compose(5, [delta] * releases).delta == pytest.approx(min(1.0, releases * delta))
    assert compose(5, [delta] * releases).delta <= compose(5, [delta] * (releases + 1)).delta


def test_the_conditions_travel_with_the_result():
    text = " ".join(compose(3, [0.1, 0.2]).conditions)
    assert "same classes" in text
    assert "witness" in text
    assert "independent draws" in text


@pytest.mark.parametrize(("ell", "values"), [(0, [0.1]), (3, []), (3, [0.0]), (3, [1.0])])
def test_bad_input(ell, values):
    with pytest.raises(ParameterError):
        compose(ell, values)
