"""Releases: an owner applies a plan to its own records.

What of them may be published (`publishable`), the rows (`rows`), the manifest beside them, and the release as
anybody reads (`published`) and verifies it (`verification`). `release` does it all; called, the room is the
public verb, which can have a ledger admit the release (`elldelta.ledger.publish`).
"""

from elldelta.release.content import (
    content_digest,
    count_release,
    sensitive_texts,
    unknown_values,
    values_of_schema,
    values_shown,
)
from elldelta.release.manifest import Manifest, loss_of, manifest_path, read_manifest, recomputed
from elldelta.release.published import (
    Located,
    Published,
    each_once,
    locate_all,
    open_published,
    published_each,
)
from elldelta.release.verification import Verification, is_cut, verify_published
from elldelta.rooms import make_callable

make_callable(__name__, "elldelta.ledger.publish.release")
