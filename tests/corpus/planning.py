"""The one place of the corpus that asks for a plan."""

from __future__ import annotations

from typing import Any

import elldelta as ed


def planned(model: ed.Model, kind: str, **wish: Any) -> ed.Plan:
    """A plan of a kind."""
    return ed.plan(model, kind=kind, **wish)
