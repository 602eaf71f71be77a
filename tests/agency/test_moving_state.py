"""What an agency keeps of the releases of a plan for people who move."""

import io
from pathlib import Path

import numpy as np

import elldelta as ed
from elldelta.agency.admission import PlanState

FOLDER = Path(__file__).parents[1] / "golden" / "0.2.0" / "movers"


def test_what_the_worst_classes_miss_is_kept_with_the_state():
    plan = ed.read_plan(FOLDER / "plan.json")
    lines = [line + b"\n" for line in (FOLDER / "releases.ledger").read_bytes().splitlines()[1:]]
    state = PlanState.of(plan, lines)
    assert state.ledger.n_releases == 2
    assert state.ledger.spent.max() > 0
    kept = PlanState.from_bytes(plan, state.n_lines, state.head, state.to_bytes())
    assert np.array_equal(kept.ledger.spent, state.ledger.spent)
    assert np.array_equal(kept.ledger.room, state.ledger.room)
    # A state that has lost it is made again from the lines.
    with np.load(io.BytesIO(state.to_bytes())) as found:
        arrays = {name: found[name] for name in found if name != "spent0"}
    forgotten = io.BytesIO()
    np.savez_compressed(forgotten, **arrays)
    assert PlanState.from_bytes(plan, state.n_lines, state.head, forgotten.getvalue()) is None
