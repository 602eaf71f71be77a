"""Property tests here import Arrow late: a deadline per example would fail by chance."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
