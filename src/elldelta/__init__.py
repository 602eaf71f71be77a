"""elldelta: publish tables about people so that several releases, linked together, give nobody away.

The story, and the names that tell it::

    import elldelta as ed

    schema = ed.Schema.infer(past, quasi_identifiers=["postal_code", "gender", "age"], sensitive="disease")
    model = ed.estimate(past, schema)                            # P(Q, S), from past records
    plan = ed.plan(model, ell=5, releases=2, records=30_000)     # classes and a promise, from P alone
    release = ed.release(hospital_a, plan)                       # an owner's table, generalized and checked
    audit = ed.audit([release, other_release])                   # what an adversary sees who links them

Nouns: `Schema`, `Model`, `Plan`, `Release`, `Ledger`, `UpdatePolicy`, `Audit`. More verbs: `frontier`,
`compose` plans; `verify` a release; `audit_before` publishing one, `targets`, `report`; `check` any table.
Wherever an object is taken, so is the path of its file (`ed.release("a.parquet", "plan.json")`). `connect`
starts another engine.
`elldelta.paper` has the paper's results, `elldelta.errors` what can go wrong.

The folders are the rooms of the same story, each built on those before it: `core`, `files`, `pages`,
`engines`, `schema`, `model`, `plan`, `release`, `ledger`, `audit`, `agency`, `cli`. Names are loaded when
they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elldelta._version import __version__

if TYPE_CHECKING:
    from elldelta.audit.audit import audit as audit
    from elldelta.audit.audit import audit_before as audit_before
    from elldelta.audit.audit import targets as targets
    from elldelta.audit.check import check as check
    from elldelta.audit.evidence import evidence as evidence
    from elldelta.audit.page import report as report
    from elldelta.audit.result import Audit as Audit
    from elldelta.engines import connect as connect
    from elldelta.engines.sources import Query as Query
    from elldelta.engines.sources import TableName as TableName
    from elldelta.errors import DataError as DataError
    from elldelta.errors import DistributionError as DistributionError
    from elldelta.errors import ElldeltaError as ElldeltaError
    from elldelta.errors import FileError as FileError
    from elldelta.errors import InputError as InputError
    from elldelta.errors import InternalError as InternalError
    from elldelta.errors import ParameterError as ParameterError
    from elldelta.errors import RefusedError as RefusedError
    from elldelta.errors import RemoteError as RemoteError
    from elldelta.errors import SchemaError as SchemaError
    from elldelta.files.csv_format import CsvFormat as CsvFormat
    from elldelta.ledger.ledger import Ledger as Ledger
    from elldelta.ledger.publish import release as release
    from elldelta.ledger.updates import UpdatePolicy as UpdatePolicy
    from elldelta.ledger.verification import verify as verify
    from elldelta.model.merging import merge_models as merge_models
    from elldelta.model.model import Model as Model
    from elldelta.model.model import estimate as estimate
    from elldelta.model.model import read_model as read_model
    from elldelta.model.model import write_model as write_model
    from elldelta.model.regions import estimate_by_region as estimate_by_region
    from elldelta.model.regions import split_model as split_model
    from elldelta.plan.compose import compose as compose
    from elldelta.plan.frontier import frontier as frontier
    from elldelta.plan.plan import Plan as Plan
    from elldelta.plan.plan import read_plan as read_plan
    from elldelta.plan.plan import write_plan as write_plan
    from elldelta.plan.planner import plan as plan
    from elldelta.release.release import Release as Release
    from elldelta.schema.schema import Schema as Schema
    from elldelta.schema.schema_file import read_schema as read_schema
    from elldelta.schema.schema_file import write_schema as write_schema

_HOMES = {
    "Audit": "elldelta.audit.result",
    "CsvFormat": "elldelta.files.csv_format",
    "Ledger": "elldelta.ledger.ledger",
    "UpdatePolicy": "elldelta.ledger.updates",
    "Model": "elldelta.model.model",
    "Plan": "elldelta.plan.plan",
    "Query": "elldelta.engines.sources",
    "Release": "elldelta.release.release",
    "Schema": "elldelta.schema.schema",
    "TableName": "elldelta.engines.sources",
    "audit": "elldelta.audit.audit",
    "audit_before": "elldelta.audit.audit",
    "check": "elldelta.audit.check",
    "compose": "elldelta.plan.compose",
    "connect": "elldelta.engines",
    "estimate": "elldelta.model.model",
    "estimate_by_region": "elldelta.model.regions",
    "evidence": "elldelta.audit.evidence",
    "frontier": "elldelta.plan.frontier",
    "merge_models": "elldelta.model.merging",
    "plan": "elldelta.plan.planner",
    "read_model": "elldelta.model.model",
    "read_plan": "elldelta.plan.plan",
    "read_schema": "elldelta.schema.schema_file",
    "release": "elldelta.ledger.publish",
    "report": "elldelta.audit.page",
    "split_model": "elldelta.model.regions",
    "targets": "elldelta.audit.audit",
    "verify": "elldelta.ledger.verification",
    "write_model": "elldelta.model.model",
    "write_plan": "elldelta.plan.plan",
    "write_schema": "elldelta.schema.schema_file",
}
_HOMES |= dict.fromkeys(
    ("DataError", "DistributionError", "ElldeltaError", "FileError", "InputError", "InternalError",
     "ParameterError", "RefusedError", "RemoteError", "SchemaError"),
    "elldelta.errors",
)  # fmt: skip

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (computed from the table above)


def __getattr__(name: str) -> Any:  # noqa: ANN401 (whatever the name stands for)
    if name in ("audit", "errors", "paper", "plan", "release"):
        return import_module(f"elldelta.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'elldelta' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
