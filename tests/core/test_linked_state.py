"""A running state against every group of releases, asked one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_exposure import plain, released
from tests.oracles import exposure as oracle

from elldelta.core.linked_state import NOBODY, LinkedState, least_left


@given(released(), st.integers(1, 3), st.data())
def test_one_more_release_leaves_what_the_worst_group_leaves(releases, min_records, data):
    """The last release is new; those before are kept in as many states as somebody likes."""
    *before, new = releases
    kept_in = [data.draw(st.integers(0, 2)) for _ in before]
    asked = data.draw(st.none() | st.lists(st.sampled_from(range(3)), min_size=1, unique=True))
    n_cells, n_values = new.partition.n_quasi_identifiers, new.counts.shape[1]
    states = [LinkedState.empty(n_cells, n_values, min_records) for _ in range(3)]
    for place, release in zip(kept_in, before, strict=True):
        states[place] = states[place].joined(release.counts[release.partition.class_of])
    cells = [np.arange(n_cells)] * 3
    rows = new.counts[new.partition.class_of]
    found = least_left(rows, states, cells, also_in=asked, min_records=min_records)
    own = len(before)
    also_in = [own] if asked is None else [place for place, state in enumerate(kept_in) if state in asked]
    for cell, number in enumerate(found.tolist()):
        left = oracle.least_left(plain(releases), cell, own, also_in, min_records)
        assert number == (NOBODY if left is None else left)


def test_more_values_than_a_word_has_bits():
    counts = np.ones((1, 130), dtype=np.int64)
    state = LinkedState.empty(1, 130, 1).joined(counts)
    counts[0, 100:] = 0
    assert least_left(counts, [state], [np.array([0])]).tolist() == [100]
