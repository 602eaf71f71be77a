"""JSON documents under a digest: one way to seal, check and read plans, manifests and whatever comes next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.errors import ElldeltaError, FileError
from elldelta.files.canonical import canonical_json, digest

if TYPE_CHECKING:
    from collections.abc import Mapping


def seal(kind: str, version: int, content: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the kind, the version of the format, and the digest of everything."""
    document = {"kind": f"elldelta {kind}", "format": version, **content}
    return {**document, "digest": digest(document)}


def unseal(kind: str, version: int, document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Checks what `seal` added and returns the rest.

    Raises:
        FileError: It is another kind of document, of a newer version, or does not match its digest.
    """
    if document.get("kind") != f"elldelta {kind}":
        raise FileError(
            f"{source} is not a {kind}.",
            found="It is JSON of another kind.",
            remedy=f"Give a {kind} that elldelta has written.",
        )
    found = document.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or found > version:
        raise FileError(
            f"{source} was written by a newer elldelta.",
            found=f"Its format is {found if isinstance(found, int) else 'unreadable'}; "
            f"the newest known here is {version}.",
            remedy="Update elldelta.",
        )
    content = {key: value for key, value in document.items() if key != "digest"}
    try:
        intact = digest(content) == document.get("digest")
    except (ElldeltaError, RecursionError):  # nested deeper than anything of ours
        intact = False
    if not intact:
        raise changed(source)
    return {key: value for key, value in content.items() if key not in ("kind", "format")}


def changed(source: str) -> FileError:
    """The error for a document that somebody has edited, or a disk has damaged."""
    return FileError(
        f"{source} has been changed or damaged.",
        found="Its content does not match its digest.",
        remedy="Fetch the original from whoever made it.",
    )


def as_bytes(document: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a sealed document, as they stand in its file."""
    return canonical_json(dict(document)) + b"\n"


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Reads a JSON object from a file, or says what is wrong with the file."""
    path = Path(path)
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileError(
            f"There is no {kind} {path}.", found="The file does not exist.", remedy="Check its name."
        ) from None
    except OSError as problem:
        raise FileError(
            f"The {kind} {path} cannot be read.", found=f"The system says: {problem.strerror}."
        ) from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FileError(
            f"{path} is not a {kind}.",
            found="It is not a JSON object.",
            remedy=f"Give a {kind} that elldelta has written.",
        )
    return document
