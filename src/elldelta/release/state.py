"""The file of an owner's state: what it says about itself. Who is in it is read in engines only."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError
from elldelta.files import check_format, unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from elldelta.plan.plan import Plan

FORMAT_VERSION = 1
METADATA_KEY = b"elldelta.state"
COLUMNS = ("who", "val", "home", "shown", "has_left", "waited")


def read_told(path: Path, plan: Plan) -> dict[str, Any]:
    """What a state says for an agency: its digest, the state before it, who came and who went.

    Numbers of records by published class and value: nothing about a person.

    Raises:
        FileError: It is no state of a table under this plan.
    """
    head = read_head(path)
    if head["plan"] != plan.digest:
        raise FileError(
            f"The state {path} does not belong to this release.",
            found="It is that of another plan.",
            remedy="Give the state that was written with the release.",
        )
    return {**head["told"], "state": state_digest(path)}


def read_head(path: Path) -> dict[str, Any]:
    """What a state says about itself."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = f"The state {path}"
    try:
        head: dict[str, Any] = json.loads((pq.read_schema(path).metadata or {})[METADATA_KEY])
        version, _ = head["format"], [head[name] for name in ("plan", "owner", "person", "told")]
    except OSError as problem:
        raise unreadable(path, "state", problem) from None
    except (pa.ArrowException, LookupError, TypeError, ValueError, RecursionError):
        raise FileError(
            f"{source} is not a state.",
            found="It is not a file that a release has written for its owner.",
            remedy="Give the file that was written with the last release (`state`).",
        ) from None
    check_format(source, version, FORMAT_VERSION)
    return head


def state_digest(path: Path) -> str:
    """The digest of a state, which the owner's line in the ledger names."""
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise unreadable(path, "state", problem) from None
