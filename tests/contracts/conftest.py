"""Shared by the contracts: the engine under test."""

import pytest


def pytest_collection_modifyitems(items):
    """A contract's subclass may name those of its tests that are slow there and fast on another engine."""
    for item in items:
        if item.name in getattr(getattr(item, "cls", None), "rarely", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="class")
def engine(request):
    """The engine of a contract's subclass, started once for all its tests."""
    with request.cls.start() as engine:
        yield engine
