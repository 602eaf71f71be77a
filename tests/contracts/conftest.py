"""Shared by the contracts: the engine under test."""

import pytest


@pytest.fixture(scope="class")
def engine(request):
    """The engine of a contract's subclass, started once for all its tests."""
    with request.cls.start() as engine:
        yield engine
