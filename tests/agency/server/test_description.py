"""The OpenAPI document: complete, with examples that fit, and with the roles."""

import pytest
from tests.agency.server.expected_rights import API

DIGEST = "sha256:" + "5e" * 32
VERBS = {"get", "put", "post", "delete"}


@pytest.fixture
def document(service):
    return service.get(None, "/openapi.json").json()


def operations(document):
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            assert verb in VERBS
            yield verb.upper(), path, operation


def test_every_route_is_described_with_who_may_call_it(document):
    described = {(verb, path): operation for verb, path, operation in operations(document)}
    assert set(described) == set(API) - {("GET", "/openapi.json")}
    for key, operation in described.items():
        assert operation["summary"]
        assert operation["description"]
        assert operation.get("x-roles") == (sorted(API[key]) if API[key] else None), key
        assert ("security" in operation) == (API[key] is not None)


def test_every_answer_has_an_example(document):
    for verb, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                assert "example" in content or "examples" in content, (verb, path, status, kind)


def test_every_body_has_an_example(document):
    for verb, path, operation in operations(document):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            assert "example" in content, (verb, path, kind)


def test_the_examples_of_bodies_are_accepted_by_their_own_description(document, service):
    """What the document shows as an example is not refused as malformed."""
    service.add_model()
    for verb, path, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None or path.endswith("/releases"):
            continue
        filled = (
            path.replace("{digest}", DIGEST)
            .replace("{content}", DIGEST)
            .replace("{name}", "region")
            .replace("{id}", "1")
        )
        role = sorted(API[verb, path])[0]
        answer = service.ask(role, verb, filled.removeprefix("/api/v1"), json=content["example"])
        assert answer.status_code in (200, 201, 202, 404, 409), (path, answer.text)


def test_examples_of_answers_have_the_fields_of_their_schema(document):
    for verb, path, operation in operations(document):
        for answer in operation["responses"].values():
            for content in answer.get("content", {}).values():
                reference = content.get("schema", {}).get("$ref")
                if reference is not None:
                    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
                    shown, fields = set(content["example"]), schema["properties"]
                    # The framework leaves out what is null in an example.
                    nullable = {
                        name for name, field in fields.items() if {"type": "null"} in field.get("anyOf", ())
                    }
                    assert shown <= set(fields), (verb, path)
                    assert set(fields) - shown <= nullable, (verb, path)
