"""Plans by the paper's bound have the most classes that their records pay for; by trying everything."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.oracles import paper

import elldelta as ed
from elldelta.core.ladder import ladder, rounded_total
from elldelta.core.sample_size import Mechanism
from elldelta.errors import RefusedError
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.schema.schema import Categories, Column, Integers, Schema

tables = st.integers(1, 4).flatmap(
    lambda n_values: st.lists(
        st.lists(st.integers(0, 40), min_size=n_values, max_size=n_values).filter(any), min_size=1, max_size=6
    )
)


def model_of(table):
    rows, values = np.nonzero(table)
    n = table[rows, values]
    schema = Schema(
        quasi_identifiers=(Column("place", Integers(0, len(table) - 1)),),
        sensitive=Column("value", Categories(tuple(f"v{value}" for value in range(table.shape[1])))),
    )
    return Model(Counts.from_cells(schema, rows, values, n, Accounting(int(n.sum()), int(n.sum()))))


@settings(max_examples=150, deadline=None)
@given(tables, st.data())
def test_no_partition_that_the_records_pay_for_has_more_classes(table, data):
    total, marginal = sum(map(sum, table)), [sum(column) for column in zip(*table, strict=True)]
    ell = data.draw(st.integers(1, sum(1 for cell in marginal if cell)))
    shares = [cell / total for cell in marginal]
    # Counts are told rounded down, so only rungs matter as p: for each the most classes and its records.
    points = []
    for rung in ladder(total)[1:].tolist():
        n_classes = paper.most_contiguous_classes(table, ell, rung)
        if n_classes:
            mechanism = Mechanism.create(shares, len(table), ell, rung / rounded_total(total))
            points.append((mechanism.records(0.05), n_classes))
    assume(points)
    fewest = min(records for records, _ in points)
    n_records = data.draw(st.integers(fewest, max(records for records, _ in points) + 5))
    best = max(n_classes for records, n_classes in points if records <= n_records)
    wish = {"ell": ell, "releases": 1, "delta": 0.05, "kind": "paper"}
    plan = ed.plan(model_of(np.array(table)), records=n_records, **wish)
    assert plan.n_classes == best
    assert plan.failure_upper <= 0.05
    if fewest > 1:
        with pytest.raises(RefusedError) as caught:
            ed.plan(model_of(np.array(table)), records=fewest - 1, **wish)
        assert "records" in caught.value.remedy
