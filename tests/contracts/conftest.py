"""Shared by the contracts: the engine under test. Starting one takes time: no deadline per example."""

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="class")
def engine(request):
    """The engine of a contract's subclass, started once for all its tests."""
    with request.cls.start() as engine:
        yield engine
