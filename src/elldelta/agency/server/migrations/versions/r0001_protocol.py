"""The protocol: parties, populations, requests, plans, progress, the ledger, jobs.

A revision never imports the tables of today: it says what they were.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from elldelta.agency.server.migrations import make_append_only

revision = "0001"
down_revision = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Makes the first tables."""
    _parties()
    _populations()
    _plans()
    _requests()
    _ledger()
    _jobs()


def _parties() -> None:
    op.create_table(
        "parties",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("password_hash", sa.String(200)),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("disabled_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_parties"),
        sa.UniqueConstraint("name", name="uq_parties_name"),
        sa.CheckConstraint("role IN ('agency', 'owner', 'client', 'auditor')", name=op.f("ck_parties_role")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("party_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("note", sa.String(200), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("revoked_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_tokens_party_id"),
    )
    op.create_index("ix_tokens_party_id", "tokens", ["party_id"])
    op.create_table(
        "logins",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("party_id", sa.Integer, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_logins"),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_logins_party_id"),
    )
    op.create_index("ix_logins_party_id", "logins", ["party_id"])
    op.create_index("ix_logins_expires_at", "logins", ["expires_at"])


def _populations() -> None:
    op.create_table(
        "populations",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        # The model that counts now; SQLite lets a column name a table that is made later.
        sa.Column("model_id", sa.Integer),
        sa.PrimaryKeyConstraint("id", name="pk_populations"),
        sa.UniqueConstraint("name", name="uq_populations_name"),
        *(
            [sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_populations_model_id")]
            if op.get_bind().dialect.name == "sqlite"
            else []
        ),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("population_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("file", sa.LargeBinary, nullable=False),
        sa.Column("summary", sa.JSON, nullable=False),
        sa.Column("uploaded_by", sa.Integer, nullable=False),
        sa.Column("uploaded_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.ForeignKeyConstraint(["population_id"], ["populations.id"], name="fk_models_population_id"),
        sa.ForeignKeyConstraint(["uploaded_by"], ["parties.id"], name="fk_models_uploaded_by"),
    )
    op.create_index("ix_models_population_id", "models", ["population_id"])
    if op.get_bind().dialect.name != "sqlite":
        op.create_foreign_key("fk_populations_model_id", "populations", "models", ["model_id"], ["id"])


def _plans() -> None:
    op.create_table(
        "plans",
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("population_id", sa.Integer, nullable=False),
        sa.Column("file", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("superseded_by", sa.String(71)),
        sa.Column("reason", sa.String(1000)),
        sa.Column("issued_at", _MOMENT, nullable=False),
        sa.Column("ended_at", _MOMENT),
        sa.Column("ell", sa.Integer, nullable=False),
        sa.Column("delta", sa.Double),
        sa.Column("releases", sa.Integer, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("guarantee", sa.String(16), nullable=False),
        sa.Column("promise", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_plans"),
        sa.ForeignKeyConstraint(["population_id"], ["populations.id"], name="fk_plans_population_id"),
        sa.ForeignKeyConstraint(["superseded_by"], ["plans.digest"], name="fk_plans_superseded_by"),
        sa.CheckConstraint("status IN ('issued', 'superseded', 'withdrawn')", name=op.f("ck_plans_status")),
    )
    op.create_index("ix_plans_population_id", "plans", ["population_id"])
    op.create_table(
        "progress",
        sa.Column("plan_digest", sa.String(71), nullable=False),
        sa.Column("party_id", sa.Integer, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("reported_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("plan_digest", "party_id", name="pk_progress"),
        sa.ForeignKeyConstraint(["plan_digest"], ["plans.digest"], name="fk_progress_plan_digest"),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_progress_party_id"),
    )


def _requests() -> None:
    op.create_table(
        "requests",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("population_id", sa.Integer, nullable=False),
        sa.Column("client_id", sa.Integer, nullable=False),
        sa.Column("wishes", sa.JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(1000)),
        sa.Column("plan_digest", sa.String(71)),
        sa.Column("filed_at", _MOMENT, nullable=False),
        sa.Column("decided_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_requests"),
        sa.ForeignKeyConstraint(["population_id"], ["populations.id"], name="fk_requests_population_id"),
        sa.ForeignKeyConstraint(["client_id"], ["parties.id"], name="fk_requests_client_id"),
        sa.ForeignKeyConstraint(["plan_digest"], ["plans.digest"], name="fk_requests_plan_digest"),
        sa.CheckConstraint("status IN ('filed', 'planned', 'declined')", name=op.f("ck_requests_status")),
    )
    op.create_index("ix_requests_population_id", "requests", ["population_id"])
    op.create_index("ix_requests_client_id", "requests", ["client_id"])


def _ledger() -> None:
    op.create_table(
        "ledger_lines",
        sa.Column("plan_digest", sa.String(71), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(71), nullable=False),
        sa.Column("line", sa.LargeBinary, nullable=False),
        sa.Column("added_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("plan_digest", "sequence", name="pk_ledger_lines"),
        sa.ForeignKeyConstraint(["plan_digest"], ["plans.digest"], name="fk_ledger_lines_plan_digest"),
    )
    op.create_table(
        "registrations",
        sa.Column("plan_digest", sa.String(71), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("party_id", sa.Integer, nullable=False),
        sa.Column("content_digest", sa.String(71), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("plan_digest", "sequence", name="pk_registrations"),
        sa.ForeignKeyConstraint(
            ["plan_digest", "sequence"],
            ["ledger_lines.plan_digest", "ledger_lines.sequence"],
            name="fk_registrations_plan_digest_sequence",
        ),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_registrations_party_id"),
        sa.UniqueConstraint(
            "plan_digest",
            "party_id",
            "content_digest",
            name="uq_registrations_plan_digest_party_id_content_digest",
        ),
    )
    op.create_index("ix_registrations_party_id", "registrations", ["party_id"])
    op.create_table(
        "answers",
        sa.Column("party_id", sa.Integer, nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("request_digest", sa.String(71), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("answered_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("party_id", "key", name="pk_answers"),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_answers_party_id"),
    )
    make_append_only("ledger_lines")
    make_append_only("registrations")


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(71), nullable=False),
        sa.Column("arguments", sa.JSON, nullable=False),
        sa.Column("request_id", sa.Integer),
        sa.Column("plan_digest", sa.String(71)),
        sa.Column("created_by", sa.Integer, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("progress", sa.Double, nullable=False),
        sa.Column("step", sa.String(100), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(64)),
        sa.Column("heartbeat_at", _MOMENT),
        sa.Column("finished_at", _MOMENT),
        sa.Column("result", sa.JSON),
        sa.Column("error", sa.JSON),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name="fk_jobs_request_id"),
        sa.ForeignKeyConstraint(["plan_digest"], ["plans.digest"], name="fk_jobs_plan_digest"),
        sa.ForeignKeyConstraint(["created_by"], ["parties.id"], name="fk_jobs_created_by"),
        sa.CheckConstraint("kind IN ('preview', 'plan', 'audit')", name=op.f("ck_jobs_kind")),
        sa.CheckConstraint("status IN ('queued', 'running', 'done', 'failed')", name=op.f("ck_jobs_status")),
    )
    op.create_index("ix_jobs_subject", "jobs", ["subject"])
    op.create_index("ix_jobs_request_id", "jobs", ["request_id"])
    op.create_index("ix_jobs_status_created_at", "jobs", ["status", "created_at"])
