"""The linkage audit across the registered releases of a plan: exact, and computed once for every state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.services.jobs import JobView, enqueue, job_view, last_done
from elldelta.agency.server.services.ledger import n_registered, registered_under
from elldelta.agency.server.services.plans import find_plan, load_plan, lock_plan
from elldelta.audit.evidence import Evidence
from elldelta.audit.measures import summarize
from elldelta.files import digest

if TYPE_CHECKING:
    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency


def ask_audit(agency: Agency, caller: Caller, plan_digest: str) -> JobView:
    """The audit of what is registered now: the job that has done it, or the one that will.

    Raises:
        ConflictError: Nothing is registered yet.
    """
    with agency.database.reading() as session:
        find_plan(session, plan_digest)
        releases = n_registered(session, plan_digest)
        subject = digest({"kind": "audit", "plan": plan_digest, "releases": releases})
        done = last_done(session, subject)
        if done is not None:
            return job_view(done)
    if not releases:
        raise ConflictError(
            "There is nothing to link yet.",
            found="No release is registered under this plan.",
            remedy="Wait until owners have registered theirs.",
        )
    with agency.database.writing() as session:
        lock_plan(session, plan_digest)  # of several who ask at the same time one begins the job
        done = last_done(session, subject)
        if done is not None:  # in the meantime
            return job_view(done)
        arguments = {"plan": plan_digest, "releases": releases}
        return job_view(
            enqueue(session, agency, caller, "audit", subject, arguments, plan_digest=plan_digest)
        )


def run_audit(agency: Agency, plan_digest: str, releases: int) -> dict[str, Any]:
    """Links the first so many releases of a plan as anybody who holds them could."""
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        entries = registered_under(session, agency, plan_digest)[:releases]
    published = [
        replace(item.published, name=f"{item.owner} ({number})") for number, item in enumerate(entries, 1)
    ]
    audit = summarize(Evidence.from_published(published), plan.ell)
    return {"plan": plan_digest, "releases": len(entries), "audit": audit.to_dict(labels=True)}
