"""A new key of the agency: what the old one has signed can still be checked; it signs nothing any more."""

import stat

import pytest
from tests.agency.registrations import full, make_plan
from tests.agency.server.service import Clock, Service
from tests.agency.server.visitor import visitor

from elldelta.agency.receipt import Receipt
from elldelta.agency.server.services.parties import create_token
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency, prepare, renew_key
from elldelta.cli.main import execute
from elldelta.errors import FileError, RefusedError
from elldelta.files import PublicKey, TrustedKeys, read_private_key, read_public_key
from elldelta.plan.signature import verified_signature


class Again(Service):
    """The service once more: everybody is there already."""

    def __init__(self, settings, tokens):
        super().__init__(settings, Clock())
        self._known = tokens

    def add(self, name, role):
        self.tokens[name] = self._known[name]


def test_old_plans_keep_their_key_and_new_ones_have_the_new_one(settings):
    with Service(settings, Clock()) as service:
        old_plan = service.issue()
        old_key = service.agency.key.public_key
        tokens = service.tokens
    told = renew_key(settings)
    assert told[0] == old_key != told[1]
    with Again(settings, tokens) as service:
        new_key = service.agency.key.public_key
        assert new_key == told[1]
        assert service.get(None, "/key").json()["id"] == new_key.id
        new_plan = service.issue(make_plan(ell=3))
        for plan, key, other in ((old_plan, old_key, new_key), (new_plan, new_key, old_key)):
            told = service.get("owner", f"/plans/{plan.digest}/key").json()
            given = PublicKey.from_pem(told["public_key"].encode())
            assert given == key
            assert told["id"] == key.id
            signature = service.get("owner", f"/plans/{plan.digest}/signature").json()
            assert verified_signature(signature, given).plan_digest == plan.digest
            with pytest.raises(RefusedError):
                verified_signature(signature, other)
            person = visitor(service, "owner")
            assert person.send("GET", f"/plans/{plan.digest}/key.pem").content == key.to_pem()
            assert f'/plans/{plan.digest}/key.pem"' in person.send("GET", f"/plans/{plan.digest}").text
            person.__exit__(None, None, None)
        admitted = service.register("owner", old_plan, full(old_plan), key="1", status=201).json()
        assert admitted["key_id"] == new_key.id


def test_whoever_trusts_one_of_the_keys_can_follow_to_all_others(settings):
    with Service(settings, Clock()) as service:
        tokens, keys = service.tokens, [service.agency.key.public_key]
    keys += [renew_key(settings)[1] for _ in range(3)]
    with Again(settings, tokens) as service:
        links = service.get(None, "/key").json()["links"]
    for key in keys:
        assert set(TrustedKeys.of(key, links).keys.values()) == set(keys)
    # The second one was stolen: nobody who trusts the newest one is led to it any more.
    for path in settings.former_keys.glob(f"{keys[1].id.removeprefix('sha256:')}.*"):
        path.unlink()
    with Again(settings, tokens) as service:
        links = service.get(None, "/key").json()["links"]
    assert set(TrustedKeys.of(keys[3], links).keys.values()) == {keys[0], keys[2], keys[3]}


def test_repeats_and_receipts_are_signed_with_the_key_of_today(settings):
    with Service(settings, Clock()) as service:
        plan, tokens = service.issue(), service.tokens
        first = service.register("owner", plan, full(plan), key="1", status=201).json()
    renew_key(settings)
    with Again(settings, tokens) as service:
        key = service.agency.key
        again = service.register("owner", plan, full(plan), key="1", status=201).json()
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


def test_a_key_that_was_removed_because_it_was_stolen_is_given_to_nobody(settings):
    with Service(settings, Clock()) as service:
        plan, tokens = service.issue(), service.tokens
    renew_key(settings)
    for path in settings.former_keys.iterdir():
        path.unlink()
    with Again(settings, tokens) as service:
        service.get("owner", f"/plans/{plan.digest}/key", status=404)


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
    [kept] = settings.former_keys.glob("*.pem")
    assert read_public_key(kept) == old.public_key
    assert b"PRIVATE" not in kept.read_bytes()


def test_keys_can_be_renewed_again_and_again(tmp_path):
    settings = Settings(folder=tmp_path)
    prepare(settings)
    former = [renew_key(settings)[0].id for _ in range(3)]
    agency = Agency.open(settings)
    assert set(agency.former_keys) == set(former)
    assert all(agency.public_key(name).id == name for name in (*former, agency.key.id))
    agency.close()
