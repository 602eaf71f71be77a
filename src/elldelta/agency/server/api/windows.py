"""How callers ask for a part of a list: `after` or `before` an entry, and at most so many."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from elldelta.agency.server.api.bodies import LARGEST
from elldelta.agency.server.services.names import DIGEST_PATTERN, NAME_PATTERN
from elldelta.agency.server.services.paging import Window
from elldelta.agency.server.services.tokens import ID_PATTERN

_AFTER = "The part of the list after this entry: `next` of the part before."
_BEFORE = "The part of the list before this entry: `previous` of the part after."

Limit = Annotated[
    int | None,
    Query(ge=1, le=LARGEST, description="At most so many entries; the service has a limit of its own."),
]
AfterNumber = Annotated[int | None, Query(ge=0, le=LARGEST, description=_AFTER)]
BeforeNumber = Annotated[int | None, Query(ge=0, le=LARGEST, description=_BEFORE)]
AfterName = Annotated[str | None, Query(pattern=NAME_PATTERN, description=_AFTER)]
BeforeName = Annotated[str | None, Query(pattern=NAME_PATTERN, description=_BEFORE)]
AfterDigest = Annotated[str | None, Query(pattern=DIGEST_PATTERN, description=_AFTER)]
BeforeDigest = Annotated[str | None, Query(pattern=DIGEST_PATTERN, description=_BEFORE)]
AfterToken = Annotated[str | None, Query(pattern=ID_PATTERN, description=_AFTER)]
BeforeToken = Annotated[str | None, Query(pattern=ID_PATTERN, description=_BEFORE)]


def _by_number(after: AfterNumber = None, before: BeforeNumber = None, limit: Limit = None) -> Window:
    return Window(after, before, limit)


def _by_name(after: AfterName = None, before: BeforeName = None, limit: Limit = None) -> Window:
    return Window(after, before, limit)


def _by_digest(after: AfterDigest = None, before: BeforeDigest = None, limit: Limit = None) -> Window:
    return Window(after, before, limit)


def _by_token(after: AfterToken = None, before: BeforeToken = None, limit: Limit = None) -> Window:
    return Window(after, before, limit)


NumberWindow = Annotated[Window, Depends(_by_number)]
NameWindow = Annotated[Window, Depends(_by_name)]
DigestWindow = Annotated[Window, Depends(_by_digest)]
TokenWindow = Annotated[Window, Depends(_by_token)]
