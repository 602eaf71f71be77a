"""What is compiled, how often, and how long it is kept."""

import sys
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from tests.core.test_boxes import CRITERIA, random_case
from tests.planned import make_boxes

from elldelta import core
from elldelta.core import closeness_kernels, kernels, occupancy_kernels
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize import boxes_kernels
from elldelta.core.generalize.bounds import ClosenessBound, SharpBound

HOME = Path(core.__file__).parent


class Moved:
    """A type that an earlier version had elsewhere."""


def test_machine_code_of_other_sources_is_not_run(tmp_path):
    before = kernels._KeptCode(tmp_path, "sum", "digest of the sources")
    before.save("signature", "machine code")
    assert before.load("signature") == "machine code"
    after = kernels._KeptCode(tmp_path, "sum", "digest of other sources")
    assert after.load("signature") is None
    after.save("signature", "other code")
    assert after.load("signature") == "other code"


def test_what_names_a_type_that_is_gone_is_compiled_again(tmp_path, monkeypatch):
    gone = ModuleType("elldelta_gone")
    gone.Moved = Moved
    monkeypatch.setitem(sys.modules, "elldelta_gone", gone)
    monkeypatch.setattr(Moved, "__module__", "elldelta_gone")
    kept = kernels._KeptCode(tmp_path, "sum", "digest")
    kept.save(Moved, "machine code")
    monkeypatch.delitem(sys.modules, "elldelta_gone")
    with pytest.raises(ModuleNotFoundError):  # what the compiler's own cache does
        IndexDataCacheFile(tmp_path, "sum", "other digest").load("signature")
    assert kept.load("signature") is None
    kept.save("signature", "other code")
    assert kept.load("signature") == "other code"


def test_the_digest_covers_all_that_is_compiled():
    every = {path.relative_to(HOME).as_posix() for path in HOME.rglob("*kernels.py")}
    assert every < set(kernels.SOURCES)
    assert len(kernels.sources_digest()) == 64
    for function in (kernels.greedy_ends, boxes_kernels.advance, occupancy_kernels.class_failures):
        assert function._cache._cache_file._source_stamp == kernels.sources_digest()


@pytest.fixture
def signatures(monkeypatch):
    """The types of arguments that compiled functions are called with, by the name of the function."""
    found = {}
    for module, name in (
        (boxes_kernels, "advance"),
        (occupancy_kernels, "class_failures"),
        (closeness_kernels, "each_too_far_chance"),
    ):
        seen, function = found.setdefault(name, set()), getattr(module, name)

        def noted(*args, _seen=seen, _function=function, **kwargs):
            _seen.add(tuple(map(numba.typeof, (*args, *kwargs.values()))))
            return _function(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)
    return found


def test_whatever_is_asked_for_is_compiled_once(signatures):
    table, positions, sizes = random_case(3)
    counts = JointDistribution.from_counts(table)
    rows, values = np.nonzero(table)
    offsets = np.searchsorted(rows, np.arange(len(table) + 1))
    sparse = JointDistribution.from_cells(offsets, values, table[rows, values], table.shape[1])
    close = ClosenessBound(0.5, reference=counts.value_marginal)
    each = {"per_class": True, "checked_by": "owner"}
    criteria = (
        *CRITERIA.values(),
        SharpBound(1, 500, 2, 0.1, closeness=close, **each),
        SharpBound(2, 500, 2, 0.1, k=5, **each),
    )
    for criterion in criteria:
        for distribution in (counts, JointDistribution.from_probabilities(table / table.sum())):
            make_boxes(distribution, positions, sizes, criterion)
    make_boxes(counts, positions, sizes, SharpBound(2, 500, 2, 0.1, fewest_past=3, rounds_down=True, **each))
    assert {name: len(seen) for name, seen in signatures.items()} == dict.fromkeys(signatures, 1)
    make_boxes(sparse, positions, sizes, criteria[0])
    assert len(signatures["advance"]) == 2, "dense and sparse"
