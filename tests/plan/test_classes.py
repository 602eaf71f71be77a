"""Classes in terms of the schema: runs of what occurred become runs of everything."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core.partition import Partition
from elldelta.plan.classes import Runs


@given(st.data())
def test_runs_keep_their_combinations_and_do_not_begin_with_somebody(data):
    ranks = np.array(sorted(data.draw(st.sets(st.integers(0, 200), min_size=1, max_size=30))))
    first = data.draw(st.sets(st.integers(1, ranks.size - 1))) if ranks.size > 1 else set()
    partition = Partition.from_starts([0, *sorted(first)], ranks.size)
    runs = Runs.from_partition(partition, ranks)
    assert runs.starts[0] == 0
    assert runs.class_of(None, ranks).tolist() == partition.class_of.tolist()
    occurred = set(ranks.tolist())
    for start, place in zip(runs.starts[1:].tolist(), sorted(first), strict=True):
        before, after = int(ranks[place - 1]), int(ranks[place])
        # Where there is room, it lies between what occurred; a combination joins the nearest one that did.
        assert start not in occurred or after - before <= 2
        assert abs((start - before) - (after - start + 1)) <= 1
