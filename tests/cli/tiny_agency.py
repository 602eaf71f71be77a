"""A small agency over HTTP: the interface of the real one, with its admission behind it.

For tests of the owner's side. `spoil` changes or breaks answers.
"""

import json
import re
from urllib.parse import parse_qs, unquote

from tests import local_server
from tests.agency.registrations import Agency

from elldelta.agency.admission import ledger_export
from elldelta.agency.receipt import sign_admission
from elldelta.agency.registration import Registration
from elldelta.errors import ElldeltaError, RefusedError
from elldelta.files import PrivateKey, TrustedKeys, as_bytes
from elldelta.plan.signature import sign_plan

TOKENS = {"token-of-hospital-a": "A", "token-of-hospital-b": "B", "token-of-hospital-c": "C"}


class TinyAgency:
    def __init__(self, *plans):
        self.key = PrivateKey.create()
        self.former = []
        self.status, self.expires = "issued", None
        self.plans = {plan.digest: plan for plan in plans}
        self.agency = Agency(*plans)
        self.progress = {}
        self.sent = []
        self.receipts = {}
        self.states = []
        self.requests = []
        self.spoil = None

    def answer(self, verb, address, headers, body):
        """The status and the content of an answer."""
        path, _, query = address.partition("?")
        if path == "/api/v1/key":
            keys = TrustedKeys(tuple(key.public_key for key in (self.key, *self.former)))
            return 200, {"id": self.key.id, "algorithm": "Ed25519", "public_keys": keys.to_pem().decode()}
        owner = TOKENS.get(headers.get("authorization", "").removeprefix("Bearer "))
        if owner is None:
            return 401, error("You have to say who you are.", "The token is not known.", "Send a valid one.")
        if path == "/api/v1/plans":
            return 200, self.page(query, [self.view(plan) for plan in self.plans.values()])
        found = re.fullmatch(r"/api/v1/plans/([^/]+)(?:/(?:releases/[^/]+/)?(\w+))?", path)
        plan = self.plans.get(unquote(found[1])) if found else None
        if plan is None:
            return 404, error("There is no such plan.", "", "Check its name.")
        return getattr(self, f"_{verb.lower()}_{found[2] or 'plan'}")(plan, owner, headers, body)

    def page(self, query, entries):
        """One entry of a list at a time, named by its place."""
        place = int(parse_qs(query).get("after", ["-1"])[0]) + 1
        following = str(place) if place + 1 < len(entries) else None
        return {"entries": entries[place : place + 1], "next": following}

    def view(self, plan):
        return {
            "digest": plan.digest, "population": "region", "status": self.status, "ell": plan.columns[0].ell,
            "releases": plan.releases, "records": plan.records, "classes": plan.n_classes,
            "kind": plan.kind, "promise": plan.promise, "superseded_by": None, "reason": None,
            "delta": plan.delta, "issued": "2026-01-01T00:00:00Z", "ended": None, "closeness": None,
        }  # fmt: skip

    def _get_plan(self, plan, owner, headers, body):
        return 200, {"plan": self.view(plan), "conditions": list(plan.conditions)}

    def _get_file(self, plan, owner, headers, body):
        return 200, as_bytes(plan.to_dict())

    def _get_signature(self, plan, owner, headers, body):
        ending = {"expires": self.expires} if self.status == "issued" else {"status": self.status}
        return 200, sign_plan(plan, self.key, population="region", **ending)

    def _get_progress(self, plan, owner, headers, body):
        reached = [n for n in self.progress.values() if n >= plan.records]
        own = self.progress.get(owner)
        return 200, {"plan": plan.digest, "needed": plan.records, "owners_reached": len(reached),
                     "own_records": own, "owners": None}  # fmt: skip

    def _put_progress(self, plan, owner, headers, body):
        self.progress[owner] = json.loads(body)["records"]
        return self._get_progress(plan, owner, headers, body)

    def _get_releases(self, plan, owner, headers, body):
        return 200, {
            "entries": [{"sequence": n + 1} for n in range(len(self.agency.lines(plan)))],
            "next": None,
        }

    def _get_ledger(self, plan, owner, headers, body):
        return 200, ledger_export(plan, self.agency.lines(plan))

    def renew_key(self):
        """Makes a new key; the old one is told with it, as the real agency does."""
        self.former.insert(0, self.key)
        self.key = PrivateKey.create()

    def _put_state(self, plan, owner, headers, body):
        self.states.append((owner, json.loads(body)["state"]))
        return 200, {"plan": plan.digest, "content_digest": "", "state": self.states[-1][1]}

    def _get_receipt(self, plan, owner, headers, body):
        [told] = [told for key, told in self.receipts.items() if key[:2] == (plan.digest, owner)]
        return 200, sign_admission(self.key, told)

    def _post_releases(self, plan, owner, headers, body):
        self.sent.append((owner, body))
        try:
            admission = self.agency.register(plan, Registration.from_bytes(body), owner)
        except RefusedError as refusal:
            return 409, error(refusal.problem, refusal.found, refusal.remedy)
        except ElldeltaError as problem:
            return 422, error(problem.problem, problem.found, problem.remedy)
        entry = admission.entry
        told = {
            "is_new": admission.is_new, "plan": plan.digest, "owner": owner,
            "sequence": entry.sequence, "hash": entry.hash, "content_digest": entry.content_digest,
            "population": "region",
        }  # fmt: skip
        self.receipts[plan.digest, owner, entry.content_digest] = {**told, "is_new": False}
        return 201 if admission.is_new else 200, sign_admission(self.key, told)

    def serving(self):
        """A server that answers as the agency does, unless it is spoilt; yields its address."""

        def handle(handler, body):
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.requests.append((handler.command, handler.path, headers))
            status, content = self.answer(handler.command, handler.path, headers, body)
            if not isinstance(content, bytes):
                content = json.dumps(content).encode()
            if self.spoil is not None:
                spoilt = self.spoil(handler, handler.path.partition("?")[0], status, content)
                if spoilt is None:
                    return
                status, content = spoilt
            local_server.reply(handler, content, status)

        return local_server.serving(handle)


def error(problem, found, remedy):
    return {"error": {"problem": problem, "found": found, "remedy": remedy}}
