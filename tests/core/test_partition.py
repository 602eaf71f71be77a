import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from elldelta.core import distribution as tables
from elldelta.core import partition as partition_module
from elldelta.core.distribution import JointDistribution
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_every_quasi_identifier_is_in_exactly_one_class(numbers):
    _, class_of = np.unique(numbers, return_inverse=True)
    partition = Partition(class_of)
    members = np.concatenate(list(partition))
    assert sorted(members.tolist()) == list(range(len(numbers)))
    assert len(partition) == len(set(numbers))
    for index, part in enumerate(partition):
        assert (partition.class_of[part] == index).all()


@pytest.mark.parametrize("class_of", [[], [0, 2], [1, 1], [-1, 0], [[0, 1]]])
def test_gaps_and_empties_are_refused(class_of):
    with pytest.raises(ParameterError):
        Partition(np.array(class_of, dtype=int))


@pytest.mark.parametrize("starts", [[], [1], [0, 0], [0, 3, 2], [0, 5]])
def test_bad_starts_are_refused(starts):
    with pytest.raises(ParameterError):
        Partition.from_starts(starts, 5)


def test_partition_is_frozen_and_independent_of_its_source():
    source = np.array([0, 0, 1])
    partition = Partition(source)
    source[:] = 7
    assert partition.class_of.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.class_of[0] = 1


@given(
    npst.arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(0, 9)),
    st.randoms(use_true_random=False),
)
def test_class_masses_equal_a_loop(table, random):
    table[0, 0] += 1
    _, class_of = np.unique([random.randrange(4) for _ in table], return_inverse=True)
    partition = Partition(class_of)
    masses = JointDistribution.from_counts(table).generalized(partition).mass
    for row, part in zip(masses, partition, strict=True):
        assert row.tolist() == table[part].sum(axis=0).tolist()
        assert masses.dtype == np.int64


def test_admissibility_and_snapping_agree():
    distribution = JointDistribution.from_counts([[5, 1, 0], [0, 2, 4], [3, 3, 2]])
    partition = Partition.from_starts([0, 2], 3)
    # class 0: 5 3 4 -> second largest 4; class 1: 3 3 2 -> second largest 3
    assert partition.snapped_p(distribution, 2) == 3 / 20
    assert partition.is_admissible(distribution, 2, 3 / 20)
    assert not partition.is_admissible(distribution, 2, 4 / 20)


def test_partition_of_another_size_is_refused():
    with pytest.raises(ParameterError, match="covers 3"):
        JointDistribution.from_counts([[1, 1]]).generalized(Partition.single(3))


def test_equality_and_hash_follow_the_assignment():
    assert Partition.from_starts([0, 2], 4) == Partition(np.array([0, 0, 1, 1]))
    assert hash(Partition.from_starts([0, 2], 4)) == hash(Partition(np.array([0, 0, 1, 1])))
    assert Partition.from_starts([0, 2], 4) != Partition.from_starts([0, 1], 4)


def test_starts_only_for_runs():
    with pytest.raises(ParameterError, match="contiguous"):
        _ = Partition(np.array([0, 1, 0])).starts


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_compiled_class_sums_equal_plain_ones(monkeypatch, dtype):
    rng = np.random.default_rng(3)
    table = rng.integers(0, 9, (500, 7)).astype(dtype)
    for class_of in (np.sort(rng.integers(0, 40, 500)), rng.integers(0, 40, 500)):
        partition = Partition(np.unique(class_of, return_inverse=True)[1])
        plain = partition_module.sum_by_class(table, partition)
        with monkeypatch.context() as patch:
            patch.setattr(tables, "LARGE_TABLE", 1)
            compiled = partition_module.sum_by_class(table, partition)
        assert (plain == compiled).all()
        assert compiled.dtype == dtype


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20))
def test_merged_classes_are_those_of_several_members(numbers):
    grouping = Partition(np.unique(numbers, return_inverse=True)[1])
    found = partition_module.merged_classes(grouping)
    assert found == [members.tolist() for members in grouping if members.size > 1]


@given(
    npst.arrays(np.int64, st.integers(0, 40), elements=st.sampled_from([0, 1, 7, 65535, 65536, 70001, 2**33]))
)
def test_the_order_of_many_numbers_is_that_of_a_stable_sort(numbers):
    for given_numbers in (numbers, numbers[numbers < 2**32], numbers[numbers < 2**16]):
        expected = np.argsort(given_numbers, kind="stable").tolist()
        assert partition_module.stable_order(given_numbers).tolist() == expected
