"""Of a registration only the counts are kept, which nobody can fill with anything; running states."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

import numpy as np
import sqlalchemy as sa
from alembic import op

from elldelta.agency.server.migrations import change_append_only

revision = "0004"
down_revision = "0003"

_REGISTRATIONS = sa.table(
    "registrations",
    sa.column("plan_digest", sa.String),
    sa.column("sequence", sa.Integer),
    sa.column("document", sa.LargeBinary),
    sa.column("counts", sa.LargeBinary),
    sa.column("n_bytes", sa.Integer),
    sa.column("grouping", sa.String),
)
_PLANS = sa.table("plans", sa.column("digest", sa.String), sa.column("file", sa.LargeBinary))


def upgrade() -> None:
    """Puts the counts of every registration in the place of its document."""
    op.create_table(
        "ledger_states",
        sa.Column("plan_digest", sa.String(71), nullable=False),
        sa.Column("n_lines", sa.Integer, nullable=False),
        sa.Column("head", sa.String(71), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("plan_digest", name="pk_ledger_states"),
        sa.ForeignKeyConstraint(["plan_digest"], ["plans.digest"], name="fk_ledger_states_plan_digest"),
    )
    with change_append_only("registrations"):
        op.add_column(
            "registrations", sa.Column("grouping", sa.String(71), nullable=False, server_default="")
        )
        op.add_column("registrations", sa.Column("counts", sa.LargeBinary, nullable=False, server_default=""))
        op.add_column("registrations", sa.Column("n_bytes", sa.Integer, nullable=False, server_default="0"))
        _fill(op.get_bind())
        op.drop_column("registrations", "document")
    op.create_index("ix_registrations_content_digest", "registrations", ["content_digest"])


def _fill(connection: sa.Connection) -> None:
    table = _REGISTRATIONS.c
    n_values: dict[str, int] = {}
    keys = connection.execute(sa.select(table.plan_digest, table.sequence)).all()
    for plan, sequence in keys:  # one by one: documents may be large
        here = (table.plan_digest == plan) & (table.sequence == sequence)
        document = json.loads(connection.execute(sa.select(table.document).where(here)).scalar_one())
        if plan not in n_values:
            file = connection.execute(sa.select(_PLANS.c.file).where(_PLANS.c.digest == plan)).scalar_one()
            n_values[plan] = _n_values(json.loads(file))
        counts = _counts(document, n_values[plan])
        merged = json.dumps(_merged(document), separators=(",", ":"))
        content = zlib.compress(counts.astype("<i8").tobytes())
        connection.execute(
            sa.update(_REGISTRATIONS)
            .where(here)
            .values(
                counts=content,
                n_bytes=len(content),
                grouping="sha256:" + hashlib.sha256(merged.encode()).hexdigest(),
            )
        )


def _n_values(plan: dict[str, Any]) -> int:
    """The number of sensitive values of a plan."""
    from elldelta.schema.schema import Schema

    return Schema.from_dict(plan["schema"]).n_values


def _merged(document: dict[str, Any]) -> list[list[int]]:
    """Base classes that are published together, as a line of a ledger says it."""
    groups: dict[int, list[int]] = {}
    for base, group in enumerate(document["manifest"]["classes"].get("group_of", ())):
        groups.setdefault(group, []).append(base)
    return sorted(members for members in groups.values() if len(members) > 1)


def _counts(document: dict[str, Any], n_values: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """What the published classes show, numbered by their first base class."""
    classes, cells = document["manifest"]["classes"], document["cells"]
    rows = np.array(cells["classes"], dtype=np.int64)
    if classes["shape"] == "merged":
        _, first = np.unique(classes["group_of"], return_index=True)
        n_classes, rows = first.size, first.argsort().argsort()[rows]
    else:
        n_classes = len(classes["starts"] if classes["shape"] == "runs" else classes["lows"])
    table = np.zeros((n_classes, n_values), dtype=np.int64)
    table[rows, cells["values"]] = cells["counts"]
    return table
