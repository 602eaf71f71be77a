"""Use cases: an owner works with the agency's server, from its own machine.

Nothing the server says is believed because the server says it: a plan counts with a signature of a key that
the owner knows, a ledger with an intact chain, a receipt if it is about what was sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.agency.http import MOST_FILE_BYTES, remote_error, shown, unexpected
from elldelta.agency.receipt import Receipt, read_receipt, receipt_path
from elldelta.agency.registration import registration_of
from elldelta.core.checks import check_whole
from elldelta.errors import FileError, ParameterError, RefusedError, RemoteError
from elldelta.files import (
    AtomicFiles,
    PublicKey,
    as_bytes,
    check_writable,
    digest,
    is_digest,
    read_public_key,
)
from elldelta.ledger.chain import LedgerHeader, check_plan, check_state, parse_chain
from elldelta.plan.plan import Plan
from elldelta.plan.signature import signature_path, signed_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.agency.http import AgencyServer, Answer
    from elldelta.agency.registration_file import Registration
    from elldelta.engines.table import Engine, Progress
    from elldelta.ledger.chain import LedgerChain

CONFLICT = 409
MOST_PARTS = 1000
MOST_LISTED = 100_000
"""Parts of a list, and entries, that are looked at; a longer list is no list of an agency."""


@dataclass(frozen=True)
class RemotePlan:
    """What the server says about a plan; words of the server are without control characters."""

    digest: str
    population: str
    status: str
    ell: int
    releases: int
    records: int
    classes: int
    guarantee: str
    promise: str


@dataclass(frozen=True)
class RemoteProgress:
    """How far the owners of a plan are.

    Attributes:
        needed: N, the records that every release needs.
        own: What the caller has reported, or None.
        owners_reached: How many owners have reached N.
    """

    needed: int
    own: int | None
    owners_reached: int


@dataclass(frozen=True)
class RemoteStatus:
    """A plan, its progress, and how many releases are registered."""

    plan: RemotePlan
    progress: RemoteProgress
    registered: int


@dataclass(frozen=True, eq=False)
class FetchedPlan:
    """A plan that was fetched.

    Attributes:
        plan: The plan.
        key: The key that has signed it.
        is_first: Whether the key was trusted because it was the first to come.
    """

    plan: Plan
    key: PublicKey
    is_first: bool


@dataclass(frozen=True)
class RegisteredRelease:
    """What became of a registration.

    Attributes:
        receipt: The agency's answer.
        is_new: False if the same release had its line before.
        path: Where the receipt lies; None if it was not to be written.
    """

    receipt: Receipt
    is_new: bool
    path: Path | None


def fetch_key(server: AgencyServer) -> PublicKey:
    """The key that the server says is the agency's.

    Raises:
        RemoteError: There is no key, or not the one that its name says.
    """
    document = server.get("key").json()
    text = document.get("public_key")
    if not isinstance(text, str):
        raise unexpected("It tells no key.")
    try:
        key = PublicKey.from_pem(text.encode("utf-8", "replace"), source="The key of the server")
    except FileError as problem:
        raise unexpected(problem.problem) from None
    if document.get("id") != key.id:
        raise unexpected("The key is not the one that it names.")
    return key


def fetch_plan(
    server: AgencyServer,
    plan_digest: str,
    output: Path,
    *,
    agency_key: Path | None = None,
    trust_first_key: Path | None = None,
    overwrite: bool = False,
) -> FetchedPlan:
    """Fetches a plan with its signature, checks both, and writes them; all files or none.

    Args:
        server: The agency's server.
        plan_digest: Which plan.
        output: Where the plan is to lie; its signature lies beside it.
        agency_key: The agency's public key, which came by another way.
        trust_first_key: A file for the key. If it is not there, the server's key is believed this once and
            written into it; if it is, it counts like `agency_key`.
        overwrite: Whether existing files may be replaced; never the file of the key.

    Raises:
        RemoteError: The server does not answer, or not with this plan.
        RefusedError: The plan is not signed with the agency's key.
    """
    check_plan_digest(plan_digest)
    output = Path(output)
    for path in (output, signature_path(output)):
        check_writable(path, overwrite=overwrite)
    key, is_first = _trusted_key(server, agency_key, trust_first_key)
    signature = server.get("plans", plan_digest, "signature").json()
    if signed_digest(signature, key, source="The signature of the server") != plan_digest:
        raise RefusedError(
            "The signature of the server is about another plan.",
            found="The agency has not signed the plan that was asked for.",
            remedy="Ask the agency which plan is theirs.",
        )
    content = server.get("plans", plan_digest, "file", most_bytes=MOST_FILE_BYTES).content
    plan = _plan_of(content, plan_digest)
    with AtomicFiles(overwrite=overwrite) as files:
        if is_first and trust_first_key is not None:
            files.stage(trust_first_key).write_bytes(key.to_pem())
        files.stage(signature_path(output)).write_bytes(as_bytes(signature))
        files.stage(output).write_bytes(content)
    return FetchedPlan(plan, key, is_first)


def list_plans(server: AgencyServer, population: str | None = None) -> tuple[RemotePlan, ...]:
    """The plans that the agency has issued."""
    query = {"population": population} if population is not None else {}
    return tuple(_remote_plan(item) for item in _listed(server, "plans", query=query))


def report_progress(server: AgencyServer, plan_digest: str, records: int) -> RemoteProgress:
    """Tells the agency how many records one has."""
    check_plan_digest(plan_digest)
    if records != 0:
        check_whole("the number of records", records)
    answer = server.put("plans", plan_digest, "progress", document={"records": records})
    return _remote_progress(answer.json())


def plan_status(server: AgencyServer, plan_digest: str) -> RemoteStatus:
    """What the agency says about a plan now."""
    check_plan_digest(plan_digest)
    details = server.get("plans", plan_digest).json().get("plan")
    plan = _remote_plan(details)
    if plan.digest != plan_digest:
        raise unexpected("It is about another plan.")
    progress = _remote_progress(server.get("plans", plan_digest, "progress").json())
    releases = _listed(server, "plans", plan_digest, "releases")
    return RemoteStatus(plan, progress, len(releases))


def fetch_ledger(
    server: AgencyServer,
    plan_digest: str,
    output: Path,
    *,
    plan: Plan | None = None,
    overwrite: bool = False,
) -> LedgerChain:
    """Fetches the ledger of a plan and writes it, if its chain is intact.

    Args:
        server: The agency's server.
        plan_digest: Which plan.
        output: Where the ledger is to lie.
        plan: The plan; then its terms are compared too.
        overwrite: Whether an existing file may be replaced.

    Raises:
        FileError: The chain is broken, or is about another plan.
    """
    check_plan_digest(plan_digest)
    check_writable(output, overwrite=overwrite)
    source = "The ledger of the server"
    content = server.get("plans", plan_digest, "ledger", most_bytes=MOST_FILE_BYTES).content
    chain = parse_chain(content, source)
    if chain.tail or not chain.ends_in_newline or chain.header.plan_digest != plan_digest:
        raise FileError(
            f"{source} is damaged, or is about another plan.",
            found=f"{chain.n_lines} lines are intact.",
            remedy="Tell the agency, and keep the ledger that you have.",
        )
    if plan is not None:
        terms = plan.terms
        check_plan(chain, LedgerHeader.of(plan.digest, terms), source)
        check_state(chain, terms, source)
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(output).write_bytes(content)
    return chain


def register_release(
    server: AgencyServer,
    release: Path,
    plan: Plan,
    *,
    agency_key: PublicKey | None = None,
    keep_receipt: bool = True,
    overwrite: bool = False,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> RegisteredRelease:
    """Registers a release with the agency; repeating it never registers it twice.

    The release is checked on this machine first. What is sent is the manifest and the counts that the release
    shows to everybody, under a key that follows from them: whether an answer got lost or the command is run
    again, the agency knows that it is the same registration.

    Args:
        server: The agency's server.
        release: The release, with its manifest beside it.
        plan: The plan it was made with.
        agency_key: The agency's public key: the receipt must then carry its signature.
        keep_receipt: Whether the agency's answer is written beside the release.
        overwrite: Whether the receipt of another registration may be replaced.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Raises:
        RefusedError: The release does not keep what the plan asks, or the agency does not admit it.
        RemoteError: There is no answer, or it is about something else.
    """
    registration = registration_of(release, plan, engine=engine, progress=progress)
    path = receipt_path(release)
    if keep_receipt:
        _check_receipt(path, registration, overwrite=overwrite)
    answer = _sent(server, plan, registration)
    receipt, is_new = _receipt_of(answer, server, plan, registration, agency_key)
    if keep_receipt:
        with AtomicFiles(overwrite=True) as files:
            files.stage(path).write_bytes(receipt.to_bytes())
    return RegisteredRelease(receipt, is_new, path if keep_receipt else None)


def write_registration(
    release: Path,
    plan: Plan,
    target: Path,
    *,
    overwrite: bool = False,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Registration:
    """Writes what `register_release` would send into a file, for whoever uploads it on the agency's pages.

    Args:
        release: The release, with its manifest beside it.
        plan: The plan it was made with.
        target: The file to write.
        overwrite: Whether it may be replaced.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Raises:
        RefusedError: The release does not keep what the plan asks.
    """
    check_writable(target, overwrite=overwrite)
    registration = registration_of(release, plan, engine=engine, progress=progress)
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(target).write_bytes(registration.to_bytes())
    return registration


def idempotency_key(registration: Registration) -> str:
    """The key of a registration: the same whenever the same release is sent under the same plan.

    The agency keeps keys apart by owner, and knows a release by its content even under another key.
    """
    named = {
        "plan": registration.plan_digest,
        "content": registration.content_digest,
        "registration": registration.digest,
    }
    return digest(["elldelta registration key", named]).removeprefix("sha256:")


def check_plan_digest(text: str) -> str:
    """Returns the digest of a plan, or says what one looks like."""
    if not is_digest(text):
        raise ParameterError(
            "A plan is named by its digest: sha256: and 64 hexadecimal digits.",
            found="It is something else.",
            remedy="Take it from the agency's list: elldelta remote plans.",
        )
    return text


def _listed(server: AgencyServer, *path: str, query: Mapping[str, str] | None = None) -> list[Any]:
    """All entries of a list, which the server tells part by part."""
    entries: list[Any] = []
    asked = dict(query or {})
    for _ in range(MOST_PARTS):
        document = server.get(*path, query=asked).json()
        part, following = document.get(path[-1]), document.get("next")
        if not isinstance(part, list) or len(entries) + len(part) > MOST_LISTED:
            raise unexpected(f"It is no list of {path[-1]}.")
        entries += part
        if following is None:
            return entries
        if not isinstance(following, str):
            break
        asked["after"] = following
    raise unexpected(f"Its list of {path[-1]} does not end.")


def _trusted_key(
    server: AgencyServer, agency_key: Path | None, trust_first_key: Path | None
) -> tuple[PublicKey, bool]:
    """The key that a plan must be signed with, and whether it is believed because it comes first."""
    if agency_key is not None and trust_first_key is None:
        return read_public_key(agency_key), False
    if trust_first_key is None or agency_key is not None:
        raise ParameterError(
            "A plan is checked with the agency's key.",
            found="No key was named, or in two ways.",
            remedy="Give --agency-key FILE. If you have no key yet: --trust-first-key FILE, and compare its "
            "name with the agency on the telephone.",
        )
    if Path(trust_first_key).exists():
        return read_public_key(trust_first_key), False
    check_writable(trust_first_key, overwrite=False)
    return fetch_key(server), True


def _sent(server: AgencyServer, plan: Plan, registration: Registration) -> Answer:
    try:
        return server.post(
            "plans",
            plan.digest,
            "releases",
            content=registration.to_bytes(),
            key=idempotency_key(registration),
        )
    except RemoteError as problem:
        raise RemoteError(
            problem.problem,
            found=f"{problem.found} It is not known whether the release was registered.",
            remedy="Run the same command again; a release is never registered twice.",
        ) from None


def _receipt_of(
    answer: Answer, server: AgencyServer, plan: Plan, registration: Registration, key: PublicKey | None
) -> tuple[Receipt, bool]:
    """The receipt, if the answer is about what was sent; else the agency's refusal."""
    if answer.status == CONFLICT and answer.json().get("accepted") is False:
        problem, found, remedy = answer.problem()
        if not problem:
            raise unexpected("It refuses the release without a reason.")
        raise RefusedError(f"The agency refuses the release: {problem}", found=found, remedy=remedy)
    if not answer.is_fine:
        raise remote_error(answer)
    document = answer.json()
    sequence, own, owner = document.get("sequence"), document.get("hash"), document.get("owner")
    if (
        document.get("accepted") is not True
        or type(sequence) is not int
        or sequence < 1
        or not isinstance(own, str)
        or not is_digest(own)
        or not isinstance(owner, str)
        or document.get("plan") != plan.digest
        or document.get("content_digest") != registration.content_digest
        or not _is_signed_or_not(document.get("key_id"), document.get("signature"))
    ):
        raise unexpected("Its receipt is not about the release that was sent.")
    receipt = Receipt(
        server=server.url,
        owner=shown(owner),
        plan_digest=plan.digest,
        content_digest=registration.content_digest,
        registration_digest=registration.digest,
        sequence=sequence,
        hash=own,
        key_id=document.get("key_id"),
        signature=document.get("signature"),
    )
    if key is not None:
        receipt.verify(key, source="The receipt of the server")
    return receipt, document.get("is_new") is not False


def _is_signed_or_not(key_id: object, signature: object) -> bool:
    """Whether these are the parts of a signature, or both are missing, as from an older server."""
    if key_id is None or signature is None:
        return key_id is signature
    return is_digest(key_id) and isinstance(signature, str)


def _check_receipt(path: Path, registration: Registration, *, overwrite: bool) -> None:
    """Refuses before anything is sent if the receipt of another release is in the way."""
    check_writable(path, overwrite=True)
    if overwrite or not path.exists():
        return
    there = read_receipt(path)
    if (there.plan_digest, there.content_digest) != (registration.plan_digest, registration.content_digest):
        check_writable(path, overwrite=False)


def _plan_of(content: bytes, plan_digest: str) -> Plan:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise unexpected("It is no plan.")
    if document.get("digest") != plan_digest:
        raise unexpected("It is another plan than the one that was asked for.")
    return Plan.from_dict(document, source="The plan of the server")


def _remote_plan(item: Any) -> RemotePlan:  # noqa: ANN401 (whatever the server has sent)
    if not isinstance(item, dict) or not is_digest(item.get("digest")):
        raise unexpected("It describes no plan.")
    return RemotePlan(
        digest=item["digest"],
        population=shown(item.get("population"), most=100),
        status=shown(item.get("status"), most=100),
        ell=_whole(item, "ell"),
        releases=_whole(item, "releases"),
        records=_whole(item, "records"),
        classes=_whole(item, "classes"),
        guarantee=shown(item.get("guarantee"), most=100),
        promise=shown(item.get("promise"), most=2000),
    )


def _remote_progress(document: Mapping[str, Any]) -> RemoteProgress:
    own = document.get("own")
    return RemoteProgress(
        needed=_whole(document, "needed"),
        own=None if own is None else _whole(document, "own"),
        owners_reached=_whole(document, "owners_reached"),
    )


def _whole(document: Mapping[str, Any], name: str) -> int:
    value = document.get(name)
    if type(value) is not int or not 0 <= value < 2**63:
        raise unexpected(f"It tells no number for {name}.")
    return value
