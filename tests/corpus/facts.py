"""What came out, as short plain values: numbers, and digests of what is long. No words, which may change."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import elldelta as ed

CLOSE = 1e-8
"""How far apart two real numbers may be that count as equal, relative to the larger one."""


def digest(value: Any) -> str:
    """A few characters that stand for a value."""
    content = value if isinstance(value, bytes) else json.dumps(_listed(value)).encode()
    return hashlib.sha256(content).hexdigest()[:12]


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(map(_listed, value)) if isinstance(value, list | tuple) else value


def of_plan(plan: ed.Plan) -> dict[str, Any]:
    """Classes, witnesses, allowances and what is promised."""
    allowances = [
        np.maximum(0, column.witnesses.counts - column.ell) // plan.releases for column in plan.columns
    ]
    return {
        "classes": plan.n_classes,
        "class of": digest(plan.class_of(np.arange(plan.schema.n_combinations))),
        "hulls": digest(plan.classes.hulls(plan.schema)),
        "records": plan.records,
        "ell": list(plan.ells),
        "releases": plan.releases,
        "delta": plan.delta,
        "p": plan.columns[0].p,
        "failure": plan.columns[0].failure_upper,
        "risk": None if plan.moving is None else plan.moving.merge_risk,
        "min": plan.min_records,
        "witnesses": [digest(column.witnesses.values) for column in plan.columns],
        "cells": [float(column.witness_cells.sum()) for column in plan.columns],
        "allowances": [digest(np.array(each, dtype=np.int64)) for each in allowances],
        **_closeness([column.closeness for column in plan.columns]),
    }


def _closeness(promised: list[Any]) -> dict[str, Any]:
    if not any(each is not None for each in promised):
        return {}
    told = [None if each is None else [each.limit, each.to, digest(each.references)] for each in promised]
    return {"close": told}


def of_release(made: ed.Release) -> dict[str, Any]:
    """What was written, and what its manifest says in numbers."""
    manifest = made.manifest
    names = ("read", "released", "suppressed", "quarantined", "left_out")
    found = {
        "file": _written(made.place),
        "records": [getattr(manifest, f"records_{name}") for name in names],
        "classes": manifest.classes_published,
        "diversity": [manifest.diversity, *(unit["diversity"] for unit in manifest.also)],
        "loss": manifest.loss,
    }
    if manifest.moving is not None:
        found["moving"] = [manifest.moving[name] for name in sorted(manifest.moving)]
    if manifest.persons is not None:
        found["persons"] = [manifest.persons[name] for name in sorted(manifest.persons)]
    near = [manifest.closeness, *(unit.get("closeness") for unit in manifest.also)]
    if any(near):
        found["distance"] = [None if each is None else each["distance"] for each in near]
    return found


def _written(path: Path) -> str:
    """A file, by its bytes if these are ours alone; Parquet by what it holds, row by row."""
    if path.suffix == ".csv":
        return digest(path.read_bytes())
    table = pq.read_table(path)
    rows = [list(map(str, column)) for column in table.to_pydict().values()]
    return digest([table.column_names, list(map(str, table.schema.types)), rows])


def of_verification(found: Any) -> list[Any]:
    """What anybody finds in the release alone."""
    return [found.records, found.classes, found.ell, found.diversity, found.k, found.is_certified]


def of_audit(found: ed.Audit) -> dict[str, Any]:
    """The verdict and the numbers behind it, for every sensitive column."""
    told = found.to_dict()
    facts = {name: told[name] for name in VERDICT}
    facts["alone"] = [[each[name] for name in ALONE] for each in told["releases"]]
    facts["histogram"] = digest([list(bar.values()) for bar in told["histogram"]])
    facts["linked"] = list(told["linked"].values())
    names = ("share_surest", "share_before", "share_after")
    facts["readings"] = [[reading[name] for name in names] for reading in told["readings"]]
    facts["members"] = list(told["memberships"].values())
    for name in ("closeness", "subtraction", "targets"):
        if told[name] is not None:
            facts[name] = numbers_of(told[name])
    if "series" in told:
        facts["series"] = [[each["diversity_min"], each["groups_below"]] for each in told["series"]]
    if found.also:
        facts["also"] = [of_audit(column) for column in found.also]
    return facts


VERDICT = (
    "ell", "holds", "diversity_min", "diversity_min_any", "classes_linked", "classes_without_common_value",
    "classes_below_any", "share_below", "share_exposed", "surest_share",
)  # fmt: skip
ALONE = ("records", "classes", "diversity", "k", "t_closeness")


def of_gate(found: Any) -> list[Any]:
    """Whether one more release may be published, and how many of its classes forbid it."""
    return [found.holds, found.ell, found.diversity_min, len(found.classes)]


def numbers_of(document: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a document, without its words and lists."""
    return {name: value for name, value in document.items() if isinstance(value, int | float | bool)}


def plain(value: Any) -> Any:
    """The value as JSON has it, with real numbers of nine digits, and no fact about what is not there."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    return value


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Every fact that is another one now."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            yield from differences(before.get(name), now.get(name), f"{place} > {name}" if place else name)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif not _same(before, now):
        yield f"{place}: it was {before!r} and is {now!r}"


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, float) or isinstance(now, float):
        kinds = isinstance(before, int | float) and isinstance(now, int | float)
        return kinds and math.isclose(before, now, rel_tol=CLOSE, abs_tol=1e-15)
    return type(before) is type(now) and before == now
