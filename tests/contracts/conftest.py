"""Shared by the contracts: the engine under test."""

import pytest


def pytest_collection_modifyitems(items):
    """A contract's subclass may name those of its tests that are slow there, or the few that are not rare."""
    for item in items:
        contract = getattr(item, "cls", None)
        often = getattr(contract, "often", None)
        if item.name in getattr(contract, "rarely", ()) or (often is not None and item.name not in often):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="class")
def engine(request):
    """The engine of a contract's subclass, started once for all its tests."""
    with request.cls.start() as engine:
        yield engine
