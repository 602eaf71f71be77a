"""A new key of the agency: what the old one has signed can still be checked; it signs nothing any more."""

import stat

import pytest
from tests.agency.registrations import full, make_plan
from tests.agency.server.service import Clock, Service
from tests.agency.server.visitor import visitor

from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency, prepare, renew_key
from elldelta.cli.main import execute
from elldelta.errors import FileError, RefusedError
from elldelta.files import PublicKey, read_private_key, read_public_key
from elldelta.plan.signature import signed_digest


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
            assert signed_digest(signature, given) == plan.digest
            with pytest.raises(RefusedError):
                signed_digest(signature, other)
            person = visitor(service, "owner")
            assert person.send("GET", f"/plans/{plan.digest}/key.pem").content == key.to_pem()
            assert f'/plans/{plan.digest}/key.pem"' in person.send("GET", f"/plans/{plan.digest}").text
            person.__exit__(None, None, None)
        admitted = service.register("owner", old_plan, full(old_plan), key="1", status=201).json()
        assert admitted["key_id"] == new_key.id


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
    [kept] = settings.former_keys.iterdir()
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
