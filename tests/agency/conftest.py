"""What tests about an agency share."""

import pytest
from tests.agency.living_owners import LivingOwners


@pytest.fixture(scope="session")
def living_owners(tmp_path_factory):
    """Owners who publish their tables again, and what they send; made once."""
    return LivingOwners(tmp_path_factory.mktemp("living-owners"))
