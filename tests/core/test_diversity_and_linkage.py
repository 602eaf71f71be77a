import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.oracles import paper

from elldelta.core.diversity import diversity, k_anonymity
from elldelta.core.linkage import NOTHING_TO_LINK, ReleasedCounts, fewest_in_any_group, link
from elldelta.core.partition import Partition
from elldelta.errors import DistributionError, ParameterError

small_tables = npst.arrays(
    np.int64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(0, 2)
)


@given(small_tables)
def test_diversity_equals_the_definition(table):
    assert diversity(table) == paper.diversity(table.tolist())


@given(small_tables, st.randoms(use_true_random=False))
def test_diversity_ignores_order_and_names(table, random):
    rows, columns = list(range(table.shape[0])), list(range(table.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    assert diversity(table[rows][:, columns]) == diversity(table)


def test_empty_classes_do_not_count():
    assert diversity([[0, 0], [1, 1]]) == 2
    assert k_anonymity([[0, 0], [1, 4]]) == 5
    assert diversity([[0, 0]]) is None
    assert k_anonymity([[0, 0]]) is None


@pytest.mark.parametrize("table", [[], [[]], [[1], [1, 2]], [[-1]], [[0.5]], [1, 2]])
def test_bad_tables(table):
    with pytest.raises(DistributionError):
        diversity(table)


@st.composite
def released(draw):
    """t releases over the same quasi-identifiers, each with classes of its own."""
    n_rows, n_values = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    releases = []
    for _ in range(draw(st.integers(1, 3))):
        numbers = draw(st.lists(st.integers(0, 2), min_size=n_rows, max_size=n_rows))
        _, class_of = np.unique(numbers, return_inverse=True)
        table = draw(npst.arrays(np.int64, (n_rows, n_values), elements=st.integers(0, 2)))
        releases.append(ReleasedCounts.from_table(table, Partition(class_of)))
    return releases


@given(released())
def test_linkage_equals_the_definition(releases):
    linkage = link(releases)
    maps = [release.partition.class_of.tolist() for release in releases]
    tables = [release.counts.tolist() for release in releases]
    expected = [paper.linked_values(maps, tables, q) for q in range(len(maps[0]))]
    for q, values in enumerate(expected):
        row = linkage.linked_of[q]
        if values is None:
            assert row == NOTHING_TO_LINK
            assert linkage.diversities[q] == 0
            continue
        assert {s: n for s, n in enumerate(linkage.counts[row].tolist()) if n} == values
        assert linkage.diversities[q] == len(values)
        assert linkage.classes[row].tolist() == [class_of[q] for class_of in maps]
    left = [len(values) for values in expected if values]
    assert linkage.diversity == (min(left) if left else None)


@given(released())
def test_more_releases_never_leave_more_values(releases):
    alone = link(releases[:1]).diversities
    assert (link(releases).diversities <= alone).all()


@given(released())
def test_order_of_releases_does_not_matter(releases):
    assert (link(releases).diversities == link(releases[::-1]).diversities).all()


def test_table_2_of_the_paper():
    """Two releases, each 2-diverse; together they name the disease of (Female, 560010)."""
    # quasi-identifiers: (Male, 560012), (Male, 560011), (Female, 560010), (Female, 560008)
    # diseases: heart disease, lung infection, osteoporosis, cervical cancer, bowel syndrome, dysentery
    first = ReleasedCounts(
        Partition(np.array([0, 0, 1, 2])),
        np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]]),
    )
    second = ReleasedCounts(
        Partition(np.array([0, 0, 1, 2])),
        np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]]),
    )
    assert diversity(first.counts) == diversity(second.counts) == 2
    linkage = link([first, second])
    assert linkage.diversities.tolist() == [0, 0, 1, 0]
    assert linkage.diversity == 1
    assert np.flatnonzero(linkage.counts[linkage.linked_of[2]]).tolist() == [3]


def test_a_linkage_without_a_common_value_is_counted_apart():
    one = ReleasedCounts(Partition.single(1), np.array([[1, 0]]))
    other = ReleasedCounts(Partition.single(1), np.array([[0, 1]]))
    linkage = link([one, other])
    assert linkage.diversity is None
    assert linkage.n_without_common_value == 1


def test_bad_links():
    one = ReleasedCounts(Partition.single(2), np.array([[1, 0]]))
    with pytest.raises(ParameterError, match="at least one"):
        link([])
    with pytest.raises(ParameterError, match="sensitive values"):
        link([one, ReleasedCounts(Partition.single(2), np.array([[1, 0, 1]]))])
    with pytest.raises(ParameterError, match="quasi-identifiers"):
        link([one, ReleasedCounts(Partition.single(3), np.array([[1, 0]]))])
    with pytest.raises(ParameterError, match="rows"):
        ReleasedCounts(Partition.single(2), np.array([[1, 0], [1, 1]]))


def test_adding_a_release_cannot_make_a_verdict_safer():
    """{a,b}, {b,c}, {c,d} for one q: nobody is in all three, but the first two leave a single value."""
    shown = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    releases = [ReleasedCounts(Partition.single(1), np.array([row])) for row in shown]
    assert link(releases[:2]).diversity == 1
    assert link(releases).diversity is None
    empty = ReleasedCounts(Partition.single(1), np.array([[0, 0, 0, 0]]))
    for group in (releases, [*releases[:2], empty]):
        assert fewest_in_any_group(group).tolist() == [1]
