"""A new key of the agency: what the old one has signed can still be checked; it signs nothing any more."""

import stat

import pytest
from tests.agency.registrations import full, make_plan
from tests.agency.server.service import Clock, Service

from elldelta.agency.receipt import Receipt
from elldelta.agency.server.services.parties import create_token
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import prepare, renew_key
from elldelta.cli.main import execute
from elldelta.errors import FileError, RefusedError
from elldelta.files import TrustedKeys, read_private_key, read_public_keys
from elldelta.plan.signature import verified_signature


class Again(Service):
    """The service once more: everybody is there already."""

    def __init__(self, settings, tokens):
        super().__init__(settings, Clock())
        self._known = tokens

    def add(self, name, role):
        self.tokens[name] = self._known[name]


def told_keys(service):
    told = service.get(None, "/key").json()
    keys = TrustedKeys.from_pem(told["public_keys"].encode())
    assert told["id"] == keys.keys[0].id == service.agency.key.id
    assert service.send("GET", "/key.pem").content == keys.to_pem()
    return keys


def test_old_plans_keep_their_key_and_new_ones_have_the_new_one(settings):
    with Service(settings, Clock()) as service:
        old_plan = service.issue()
        old_key = service.agency.key.public_key
        tokens = service.tokens
        assert told_keys(service).keys == (old_key,)
    told = renew_key(settings)
    assert told[0] == old_key != told[1]
    with Again(settings, tokens) as service:
        new_key = service.agency.key.public_key
        assert new_key == told[1]
        keys = told_keys(service)
        assert keys.keys == (new_key, old_key)
        new_plan = service.issue(make_plan(ell=3))
        for plan, key, other in ((old_plan, old_key, new_key), (new_plan, new_key, old_key)):
            signature = service.get("owner", f"/plans/{plan.digest}/signature").json()
            for known in (key, keys):
                assert verified_signature(signature, known).plan_digest == plan.digest
            with pytest.raises(RefusedError, match="another key"):
                verified_signature(signature, other)
        admitted = service.register("owner", old_plan, full(old_plan), status=201).json()
        assert admitted["key_id"] == new_key.id


def test_a_key_that_was_removed_because_it_was_stolen_is_given_to_nobody(settings):
    with Service(settings, Clock()) as service:
        tokens, keys = service.tokens, [service.agency.key.public_key]
    keys += [renew_key(settings)[1] for _ in range(3)]
    with Again(settings, tokens) as service:
        assert told_keys(service).keys == tuple(reversed(keys))
    content = settings.former_keys.read_bytes()
    settings.former_keys.write_bytes(content.replace(keys[1].to_pem(), b""))
    with Again(settings, tokens) as service:
        assert told_keys(service).keys == (keys[3], keys[2], keys[0])


def test_repeats_and_receipts_are_signed_with_the_key_of_today(settings):
    with Service(settings, Clock()) as service:
        plan, tokens = service.issue(), service.tokens
        first = service.register("owner", plan, full(plan), status=201).json()
    renew_key(settings)
    with Again(settings, tokens) as service:
        key = service.agency.key
        again = service.register("owner", plan, full(plan), status=200).json()
        where = f"/plans/{plan.digest}/releases/{first['content_digest']}/receipt"
        fetched = service.get("owner", where).json()
        for told in (again, fetched):
            assert told["key_id"] == key.id
            names = ("owner", "content_digest", "sequence", "hash", "population", "key_id", "signature")
            receipt = Receipt(
                server="", plan_digest=told["plan"], registration_digest=None,
                **{name: told[name] for name in names},
            )  # fmt: skip
            receipt.verify(key.public_key)
            assert told["hash"] == first["hash"]
        service.post("agency", f"/plans/{plan.digest}/withdraw", {"reason": "a new model"})
        service.clock.advance(days=400)
        service.tokens["owner"] = create_token(service.agency, "owner", "", 30).token
        assert service.get("owner", where).json()["hash"] == first["hash"]
        Service.add(service, "another", "owner")
        service.get("another", where, status=404)


def test_the_signature_of_a_plan_names_its_people_and_says_when_it_has_ended(make_service):
    service = make_service(signature_days=7)
    plan, key = service.issue(), service.agency.key.public_key

    def signature():
        return verified_signature(service.get("owner", f"/plans/{plan.digest}/signature").json(), key)

    first = signature()
    assert (first.population, first.status) == ("region", "issued")
    first.check_usable(service.clock())
    service.clock.advance(days=8)
    with pytest.raises(RefusedError, match="expired"):
        first.check_usable(service.clock())
    signature().check_usable(service.clock())
    service.post("agency", f"/plans/{plan.digest}/withdraw", {"reason": "a new model"})
    assert signature().status == "withdrawn"
    with pytest.raises(RefusedError, match="withdrawn"):
        signature().check_usable(service.clock())


def test_the_command_makes_a_key_that_only_the_agency_may_read(tmp_path, capsys):
    settings = Settings(folder=tmp_path / "data")
    with pytest.raises(FileError, match="no key"):
        renew_key(settings)
    assert execute(["serve", "--data", str(settings.folder), "--new-key"]) == 2
    prepare(settings)
    old = read_private_key(settings.key_file)
    assert execute(["serve", "--data", str(settings.folder), "--new-key"]) == 0
    new = read_private_key(settings.key_file)
    told = capsys.readouterr().out
    assert new.id != old.id
    assert new.id in told.replace("\n", "")
    assert stat.S_IMODE(settings.key_file.stat().st_mode) == 0o600
    assert read_public_keys(settings.former_keys).keys == (old.public_key,)
    assert b"PRIVATE" not in settings.former_keys.read_bytes()
