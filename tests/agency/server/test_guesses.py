"""An attacker who knows all of a table but one record guesses that record, and compares hashes of lines.

It knows the plan, the owner, the software and all that it is shown; only the line itself it does not see.
"""

import json
import re
from unittest import mock

import numpy as np
import pytest
from tests.agency.registrations import context_of, make_plan, make_registration

from elldelta.agency.admission import check_registration
from elldelta.agency.registration import validate_registration
from elldelta.core.certificate import certify
from elldelta.core.promises import Shown
from elldelta.ledger.ledger import OpenLedger

PLAN = make_plan()
KNOWN = np.full((PLAN.n_classes, 6), 3)
RECORDS = list(np.ndindex(KNOWN.shape))
LAST = (2, 4)
PLACES = ("", "/ledger", "/releases", "/progress")
CONSTANT = "0" * 64


def with_record(record):
    counts = KNOWN.copy()
    counts[record] += 1
    return counts


def line_hash(record, owner, nonce):
    """The hash of the first line of a ledger, if this is the last record of its owner."""
    examined = validate_registration(PLAN, make_registration(PLAN, with_record(record)), owner=owner)
    context = context_of(PLAN, examined, owner, ())
    return check_registration(examined, context, owner=owner, nonce=nonce).entry.hash


def guessed(seen, owner):
    """The records that a hash among all that was seen confirms, with any nonce that was seen."""
    digits = set(re.findall("[0-9a-f]{64}", seen))
    return {
        record
        for record in RECORDS
        for nonce in {*digits, CONSTANT}
        if line_hash(record, owner, nonce).removeprefix("sha256:") in digits
    }


@pytest.fixture(params=["a constant", "at random"])
def confirmed(request):
    """What is guessed: the record with nonces that are no secret, so the attack works; else nothing."""
    if request.param == "at random":
        yield set()
        return
    with (
        mock.patch("elldelta.agency.server.services.releases.new_nonce", return_value=CONSTANT),
        mock.patch("elldelta.ledger.admission.new_nonce", return_value=CONSTANT),
    ):
        yield {LAST}


def test_the_service_confirms_no_guess(service, confirmed):
    service.issue(PLAN)
    service.add("spy", "owner")
    service.register("owner", PLAN, with_record(LAST), status=201)
    seen = service.register("spy", PLAN, KNOWN, status=201).text
    seen += "".join(service.get("spy", f"/plans/{PLAN.digest}{place}").text for place in PLACES)
    assert '"kind":"sealed"' in seen
    assert guessed(seen, "owner") == confirmed


def test_a_file_confirms_no_guess(tmp_path, confirmed):
    """The attacker is the next owner and keeps its own line, which names the hash of the one before."""
    entries = []
    with OpenLedger.open(tmp_path / "ledger", PLAN.digest, PLAN.promises) as ledger:
        for owner, counts in (("owner", with_record(LAST)), ("spy", KNOWN)):
            examined = validate_registration(PLAN, make_registration(PLAN, counts), owner=owner)
            verdict = certify(PLAN.promises, Shown.of(examined.counts))
            admission = ledger.check(verdict, owner=owner, content_digest=examined.content_digest)
            entries.append(ledger.commit(admission, {}))
    [hidden, own] = (tmp_path / "ledger").read_text().splitlines()[1:]
    assert json.loads(own)["previous"] == entries[0].hash != entries[1].hash
    assert guessed(own, "owner") == confirmed
    assert guessed(hidden, "owner") == {LAST}  # whoever reads the line needs no guess
