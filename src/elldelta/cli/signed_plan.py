"""Reads the plan that a command was given, with the agency's signature if its key was given too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from elldelta.plan.plan import Plan


def read_plan_file(path: Path, agency_key: Path | None) -> Plan:
    """The plan; with a key nothing else is read before the signature beside the plan holds."""
    from elldelta.plan.plan import read_plan
    from elldelta.plan.signature import read_public_key, read_signed_plan

    if agency_key is None:
        return read_plan(path)
    return read_signed_plan(path, read_public_key(agency_key))
