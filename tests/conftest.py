"""Settings for all tests: a slow machine must not fail a property test, so no example has a deadline."""

from hypothesis import settings

pytest_plugins = ["tests.postgresql"]

settings.register_profile("elldelta", deadline=None)
settings.load_profile("elldelta")
