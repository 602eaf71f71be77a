"""Releases: an owner applies a plan to its own records.

What of them may be published (`publishable`), the rows and where they go (`rows`, `database_table`), the
manifest beside them, and the release as anybody reads and verifies it (`published`). `release` does it all.
"""

from elldelta.release.database_table import manifest_table, read_table_manifest
from elldelta.release.manifest import Manifest, content_digest, manifest_path, read_manifest
from elldelta.release.published import (
    Published,
    Verification,
    count_release,
    read_published,
    sensitive_texts,
    unknown_values,
    verify_published,
)
