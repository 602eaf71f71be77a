"""The one switch of the tests: `make test` leaves out what is rare and slow, `.ci/run` leaves out nothing."""

import os

SWITCH = "ELLDELTA_TEST_ALL"
IS_ON = os.environ.get(SWITCH, "") not in ("", "0")


def quick_or_all(quick, everything):
    """How much is tried: as much as `make test` has time for, or everything."""
    return everything if IS_ON else quick
