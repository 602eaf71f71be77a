"""How the tables of a contract come to where an engine reads them, and what is asked only of able engines."""

import pytest


class Placement:
    """A contract has tables in memory and files; an engine that reads neither has them placed elsewhere."""

    def place(self, engine, table):
        """The source from which the engine reads a table in memory."""
        return table

    def place_file(self, engine, path):
        """The source from which the engine reads the rows of a file."""
        return path


def needs(engine, capability):
    """Skips what an engine says that it cannot do; another test sees that it then refuses."""
    if capability not in engine.capabilities:
        pytest.skip(f"the engine {engine.name} does not have the capability {capability!r}, and says so")
