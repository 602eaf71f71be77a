"""The OpenAPI document: complete, with who needs a token, and with the one shape of errors."""

import pytest
from tests.agency.server.expected_rights import API

VERBS = {"get", "put", "post", "delete"}


@pytest.fixture
def described(service):
    document = service.get(None, "/openapi.json").json()
    operations = {}
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            assert verb in VERBS
            operations[verb.upper(), path] = operation
    return operations


def test_every_route_is_described(described):
    assert set(described) == set(API) - {("GET", "/openapi.json")}
    for key, operation in described.items():
        assert operation["summary"]
        assert operation["description"]
        assert ("security" in operation) == (API[key] is not None), key


def test_every_error_has_the_one_shape(described):
    for (verb, path), operation in described.items():
        if path.startswith("/api/"):
            for status in ("4XX", "503"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/ErrorAnswer"), (verb, path)
            assert "422" not in operation["responses"], "the framework has a shape of its own"
