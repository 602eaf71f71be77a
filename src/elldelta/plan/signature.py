"""Signatures of plans: an owner checks offline that a plan is the agency's.

A signature lies beside its plan, as `plan.json.sig`. What is signed is not the file but what it says: the
version of the format, the digest of the plan, the population that it is about, whether it still counts, and
until when the signature may be used. The digest covers everything a plan says, so a plan that is written down
differently (other white space) keeps its signature, and a plan that says anything else does not.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import (
    ALGORITHM,
    AtomicFiles,
    MisfitError,
    as_bytes,
    check_format,
    damaged_signature,
    holds,
    is_digest,
    loaded,
    read_json,
    record_from,
    sign,
    trusted,
)
from elldelta.plan.plan import KIND as PLAN_KIND
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.files import PrivateKey, PublicKey, TrustedKeys

FORMAT_VERSION = 1
"""Version of the document; others are refused."""

KIND = "elldelta plan signature"

PlanStatus = Literal["issued", "superseded", "withdrawn"]

_PURPOSE = b"elldelta/plan-signature\n"
"""What every signed text begins with: a signature of this key under anything else is none of a plan."""

_MOST_NAME = 200


@dataclass(frozen=True)
class PlanSignature:
    """What the agency says about a plan, under its signature.

    Attributes:
        plan_digest: The plan.
        key_id: The key that has signed.
        signature: The signature.
        population: The people that the plan is about, by the name that the agency has for them; None if it
            does not say.
        status: Whether the plan still admitted releases when this was signed.
        expires: Until when the signature may be used; None for ever.
    """

    plan_digest: str
    key_id: str
    signature: str
    population: str | None = None
    status: PlanStatus = "issued"
    expires: dt.datetime | None = None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The signature") -> Self:
        """Reads what `sign_plan` wrote; whether it holds is for `verify` to say.

        Raises:
            FileError: The document is no signature, is damaged, or of another version.
        """
        if document.get("kind") != KIND:
            raise FileError(
                f"{source} is not the signature of a plan.",
                found="It is JSON of another kind.",
                remedy="Fetch the signature from the agency.",
            )
        check_format(source, document.get("format"), FORMAT_VERSION)
        if document.get("algorithm") != ALGORITHM:
            raise FileError(
                f"{source} uses a method that is not known here.",
                found=f"Plans are signed with {ALGORITHM}.",
                remedy="Update elldelta.",
            )
        try:
            signature = record_from(cls, document)
        except MisfitError:
            raise damaged_signature(source) from None
        if signature.to_dict() != document:  # one key too many, or a moment in another spelling
            raise damaged_signature(source)
        return signature

    def __post_init__(self) -> None:
        is_named = self.population is None or (
            0 < len(self.population) <= _MOST_NAME and self.population.isprintable()
        )
        if not is_named or not is_digest(self.plan_digest) or not is_digest(self.key_id):
            raise ParameterError(
                f"The name of a population has 1 to {_MOST_NAME} printable characters.",
                found="It is another text.",
            )

    def to_dict(self) -> dict[str, Any]:
        """The signature as plain JSON values."""
        return {
            "kind": KIND,
            **self._signed_content(),
            "algorithm": ALGORITHM,
            "key_id": self.key_id,
            "signature": self.signature,
        }

    def verify(self, keys: PublicKey | TrustedKeys, *, source: str = "The signature") -> Self:
        """Checks that a trusted key has signed exactly this.

        Raises:
            FileError: The signature is damaged.
            RefusedError: It is by another key, or does not hold.
        """
        known = trusted(keys)
        key = known.named(self.key_id)
        if key is None:
            raise RefusedError(
                f"{source} was made with another key.",
                found=f"It names the key {self.key_id}; the agency's key is {known.words}.",
                remedy="If the agency has a new key, fetch its keys with 'elldelta remote key', and compare "
                "the new name with the agency by another way than this one, for example on the telephone.",
            )
        if not holds(key, _PURPOSE, self._signed_content(), self.signature, source):
            raise RefusedError(
                f"{source} does not hold.",
                found="It was not made by the owner of the agency's key, or has been changed.",
                remedy="Do not use the plan; fetch it again from the agency.",
            )
        return self

    def check_usable(self, now: dt.datetime, *, source: str = "The signature") -> None:
        """Refuses to make something new with a plan that was withdrawn, or whose signature has expired.

        Raises:
            RefusedError: It must not be used any more.
        """
        if self.status != "issued":
            raise RefusedError(
                f"The agency has {'withdrawn' if self.status == 'withdrawn' else 'replaced'} this plan.",
                found=f"{source} says that it is {self.status}; it admits no further release.",
                remedy="Fetch another plan from the agency: elldelta remote plans.",
            )
        if self.expires is not None and self.expires <= now:
            raise RefusedError(
                f"{source} has expired.",
                found=f"It could be used until {_as_utc_text(self.expires)}.",
                remedy="Fetch the plan again from the agency: elldelta remote plan. If it still counts, it "
                "comes with a new signature.",
            )

    def _signed_content(self) -> dict[str, Any]:
        """What is signed."""
        return {
            "format": FORMAT_VERSION,
            "plan_digest": self.plan_digest,
            "population": self.population,
            "status": self.status,
            "expires": None if self.expires is None else _as_utc_text(self.expires),
        }


def sign_plan(
    plan: Plan,
    key: PrivateKey,
    *,
    population: str | None = None,
    status: PlanStatus = "issued",
    expires: dt.datetime | None = None,
) -> dict[str, Any]:
    """Signs a plan; the document that is returned lies beside it as `plan.json.sig`.

    Args:
        plan: The plan.
        key: The agency's private key.
        population: The people that it is about, by a name.
        status: Whether it still admits releases.
        expires: Until when the signature may be used, to the second; None for ever.
    """
    if expires is not None:
        expires = expires.astimezone(dt.UTC).replace(microsecond=0)
    unsigned = PlanSignature(plan.digest, key.id, "", population, status, expires)
    return replace(unsigned, signature=sign(key, _PURPOSE, unsigned._signed_content())).to_dict()


def verified_signature(
    document: Mapping[str, Any], keys: PublicKey | TrustedKeys, *, source: str = "The signature"
) -> PlanSignature:
    """What a signature document says, once it is clear that a trusted key says so.

    Raises:
        FileError: The document is no signature, is damaged, or of another version.
        RefusedError: It is by another key, or does not hold.
    """
    return PlanSignature.from_dict(document, source=source).verify(keys, source=source)


def signature_path(plan: str | os.PathLike[str]) -> Path:
    """Where the signature of a plan lies: beside it, with `.sig` added to its name."""
    path = Path(plan)
    return path.with_name(path.name + ".sig")


def read_signed_plan(
    path: str | os.PathLike[str], keys: PublicKey | TrustedKeys
) -> tuple[Plan, PlanSignature]:
    """Reads a plan that the agency has signed, and its signature, which lies beside it.

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
    return _read_with_signature(path, beside, keys)


def _read_with_signature(
    path: str | os.PathLike[str], beside: Path, keys: PublicKey | TrustedKeys | None
) -> tuple[Plan, PlanSignature]:
    """Also without a key a signature is not overlooked: it must be one, and be about this plan."""
    source = f"The signature {beside}"
    signature = PlanSignature.from_dict(read_json(beside, "plan signature"), source=source)
    if keys is not None:
        signature.verify(keys, source=source)
    document = read_json(path, PLAN_KIND, columns=True)
    if document.get("digest") != signature.plan_digest:
        raise other_plan(source)
    return Plan.from_dict(document, source=f"The plan {os.fspath(path)}"), signature


def given_plan(
    plan: Plan | str | os.PathLike[str],
    agency_key: PublicKey | TrustedKeys | str | os.PathLike[str] | None = None,
    *,
    to_use: bool = True,
    now: dt.datetime | None = None,
) -> tuple[Plan, tuple[Path, ...]]:
    """A plan that is given as it is or as its file, and the files that it comes from.

    Args:
        plan: The plan, or its file.
        agency_key: The agency's public key, or its file: then nothing else of the plan is read before its
            signature, which lies beside it, holds.
        to_use: Whether something new is to be made with it: then it must not have ended.
        now: The moment; by default that of the clock.
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
    if agency_key is not None:
        read, signature = read_signed_plan(plan, trusted(agency_key))
    elif files[1].exists():
        read, signature = _read_with_signature(plan, files[1], None)
    else:
        return read_plan(files[0]), files
    if to_use:
        signature.check_usable(now or dt.datetime.now(dt.UTC), source=f"The signature {files[1]}")
    return read, files


def write_signature(
    document: Mapping[str, Any], plan: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Writes a signature beside its plan."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(signature_path(plan)).write_bytes(as_bytes(document))


def _as_utc_text(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def other_plan(source: str) -> RefusedError:
    """The refusal of a signature that is not about the plan that is at hand."""
    return RefusedError(
        f"{source} is about another plan.",
        found="The agency has not signed this plan.",
        remedy="Do not use the plan; fetch plan and signature again from the agency.",
    )
