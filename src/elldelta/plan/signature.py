"""Signatures of plans: an owner checks offline that a plan is the agency's.

A signature lies beside its plan, as `plan.json.sig`. What is signed is not the file but what it says: the
version of the format and the digest of the plan. The digest covers everything a plan says, so a plan that is
written down differently (other white space) keeps its signature, and a plan that says anything else does not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import (
    ALGORITHM,
    AtomicFiles,
    PublicKey,
    as_bytes,
    damaged_signature,
    holds,
    is_digest,
    loaded,
    read_json,
    read_public_key,
    sign,
)
from elldelta.plan.plan import KIND as PLAN_KIND
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.files import PrivateKey

FORMAT_VERSION = 1
"""Version of the document; old versions are read for ever, newer ones refused."""

KIND = "elldelta plan signature"

_PURPOSE = b"elldelta/plan-signature\n"
"""What every signed text begins with: a signature of this key under anything else is none of a plan."""

_KEYS = frozenset({"kind", "format", "algorithm", "key_id", "plan_digest", "signature"})


def sign_plan(plan: Plan, key: PrivateKey) -> dict[str, Any]:
    """Signs a plan; the document that is returned lies beside it as `plan.json.sig`."""
    return {
        "kind": KIND,
        "format": FORMAT_VERSION,
        "algorithm": ALGORITHM,
        "key_id": key.id,
        "plan_digest": plan.digest,
        "signature": sign(key, _PURPOSE, _said(plan.digest)),
    }


def signed_digest(
    document: Mapping[str, Any], public_key: PublicKey, *, source: str = "The signature"
) -> str:
    """The digest of the plan that a signature document vouches for, once it is clear that it does.

    Raises:
        FileError: The document is no signature, is damaged, or of a newer version.
        RefusedError: It is by another key, or does not hold.
    """
    _check_form(document, source)
    if document["key_id"] != public_key.id:
        raise RefusedError(
            f"{source} was made with another key.",
            found=f"It names the key {document['key_id']}; the agency's key is {public_key.id}.",
            remedy="Ask the agency, by another way than this one, which key is theirs.",
        )
    if not holds(public_key, _PURPOSE, _said(document["plan_digest"]), document["signature"], source):
        raise RefusedError(
            f"{source} does not hold.",
            found="It was not made by the owner of the agency's key, or has been changed.",
            remedy="Do not use the plan; fetch it again from the agency.",
        )
    return str(document["plan_digest"])


def signature_path(plan: str | os.PathLike[str]) -> Path:
    """Where the signature of a plan lies: beside it, with `.sig` added to its name."""
    path = Path(plan)
    return path.with_name(path.name + ".sig")


def read_signed_plan(path: str | os.PathLike[str], public_key: PublicKey) -> Plan:
    """Reads a plan that the agency has signed; its signature lies beside it.

    The signature is checked before anything of the plan is interpreted.

    Raises:
        FileError: Plan or signature is missing or damaged.
        RefusedError: The agency has not signed this plan.
    """
    beside = signature_path(path)
    if not beside.exists():
        raise FileError(
            f"The plan {os.fspath(path)} comes without a signature.",
            found=f"There is no file {beside}.",
            remedy="Fetch the signature from the agency and put it beside the plan.",
        )
    source = f"The signature {beside}"
    vouched = signed_digest(read_json(beside, "plan signature"), public_key, source=source)
    document = read_json(path, PLAN_KIND)
    if document.get("digest") != vouched:
        raise other_plan(source)
    return Plan.from_dict(document, source=f"The plan {os.fspath(path)}")


def given_plan(
    plan: Plan | str | os.PathLike[str], agency_key: PublicKey | str | os.PathLike[str] | None = None
) -> tuple[Plan, tuple[Path, ...]]:
    """A plan that is given as it is or as its file, and the files that it comes from.

    Args:
        plan: The plan, or its file.
        agency_key: The agency's public key, or its file: then nothing else of the plan is read before its
            signature, which lies beside it, holds.
    """
    if isinstance(plan, Plan):
        if agency_key is not None:
            raise ParameterError(
                "The signature of a plan is checked where it is read.",
                found="A key was given, and a plan that is no file.",
                remedy="Give the file of the plan, with its signature beside it.",
            )
        return plan, ()
    if not isinstance(plan, str | os.PathLike):
        loaded(plan, Plan, read_plan)  # refuses it
    files = (Path(plan), signature_path(plan))
    if agency_key is None:
        return read_plan(files[0]), files
    key = agency_key if isinstance(agency_key, PublicKey) else read_public_key(agency_key)
    return read_signed_plan(plan, key), files


def write_signature(
    document: Mapping[str, Any], plan: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Writes a signature beside its plan."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(signature_path(plan)).write_bytes(as_bytes(document))


def _said(plan_digest: str) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, "plan_digest": plan_digest}


def _check_form(document: Mapping[str, Any], source: str) -> None:
    """Refuses a document that is not exactly what `sign_plan` writes."""
    if document.get("kind") != KIND:
        raise FileError(
            f"{source} is not the signature of a plan.",
            found="It is JSON of another kind.",
            remedy="Fetch the signature from the agency.",
        )
    version = document.get("format")
    if type(version) is not int or version != FORMAT_VERSION:
        raise FileError(
            f"{source} is of a version that is not known here.",
            found=f"The newest version known is {FORMAT_VERSION}.",
            remedy="Update elldelta.",
        )
    if document.get("algorithm") != ALGORITHM:
        raise FileError(
            f"{source} uses a method that is not known here.",
            found=f"Plans are signed with {ALGORITHM}.",
            remedy="Update elldelta.",
        )
    digests = (document.get("key_id"), document.get("plan_digest"))
    if (
        document.keys() != _KEYS
        or not all(is_digest(value) for value in digests)
        or type(document["signature"]) is not str
    ):
        raise damaged_signature(source)


def other_plan(source: str) -> RefusedError:
    """The refusal of a signature that is not about the plan that is at hand."""
    return RefusedError(
        f"{source} is about another plan.",
        found="The agency has not signed this plan.",
        remedy="Do not use the plan; fetch plan and signature again from the agency.",
    )
