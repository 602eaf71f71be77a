"""elldelta: publish tables about people so that several releases, linked together, give nobody away.

The story, and the names that tell it::

    import elldelta as ed

    schema = ed.Schema.infer(past, quasi_identifiers=["postal_code", "gender", "age"], sensitive="disease")
    model = ed.estimate(past, schema)                            # P(Q, S), from past records
    plan = ed.plan(model, ell=5, releases=2, records=30_000)     # classes and a promise, from P alone
    release = ed.release(hospital_a, plan)                       # an owner's table, generalized and checked
    audit = ed.audit([release, other_release])                   # what an adversary sees who links them

Files: `read_plan`, `write_plan`, `read_model`, `write_model`, `release_to_file`, `verify`.

Underneath, `elldelta.core` is the mathematics on arrays, `elldelta.data` the tables and files, and
`elldelta.app` one use case per module. Names are loaded when they are first used, so that importing the
package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elldelta._version import __version__

if TYPE_CHECKING:
    from elldelta.app.audit import audit as audit
    from elldelta.app.audit import verify as verify
    from elldelta.app.estimate import estimate as estimate
    from elldelta.app.plan import plan as plan
    from elldelta.app.release import Release as Release
    from elldelta.app.release import release as release
    from elldelta.app.release import release_to_file as release_to_file
    from elldelta.data.model import Model as Model
    from elldelta.data.model import merge_models as merge_models
    from elldelta.data.model import read_model as read_model
    from elldelta.data.model import write_model as write_model
    from elldelta.data.plan_file import Plan as Plan
    from elldelta.data.plan_file import read_plan as read_plan
    from elldelta.data.plan_file import write_plan as write_plan
    from elldelta.data.schema import Schema as Schema

_HOMES = {
    "Model": "elldelta.data.model",
    "Plan": "elldelta.data.plan_file",
    "Release": "elldelta.app.release",
    "Schema": "elldelta.data.schema",
    "audit": "elldelta.app.audit",
    "estimate": "elldelta.app.estimate",
    "merge_models": "elldelta.data.model",
    "plan": "elldelta.app.plan",
    "read_model": "elldelta.data.model",
    "read_plan": "elldelta.data.plan_file",
    "release": "elldelta.app.release",
    "release_to_file": "elldelta.app.release",
    "verify": "elldelta.app.audit",
    "write_model": "elldelta.data.model",
    "write_plan": "elldelta.data.plan_file",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (computed from the table above)


def __getattr__(name: str) -> Any:  # noqa: ANN401 (whatever the name stands for)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'elldelta' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
