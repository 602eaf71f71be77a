"""Use cases: an owner works with the agency's server, from its own machine.

Nothing the server says is believed because the server says it: a plan counts with a signature of a key that
the owner knows, or that such a key vouches for, a ledger with an intact chain, a receipt if it is about what
was sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import ValidationError

from elldelta.agency.http import MOST_FILE_BYTES, shown, unexpected
from elldelta.agency.receipt import Receipt, read_receipt, receipt_path
from elldelta.agency.registration import registration_of
from elldelta.agency.views import Admitted, PlanView, ProgressView, StateView, View
from elldelta.core.checks import check_whole
from elldelta.errors import ElldeltaError, FileError, ParameterError, RefusedError, RemoteError, counted
from elldelta.files import (
    AtomicFiles,
    TrustedKeys,
    as_bytes,
    check_writable,
    is_digest,
    json_object,
    read_public_keys,
    trusted,
)
from elldelta.ledger import check_plan, parse_chain
from elldelta.plan.plan import Plan
from elldelta.plan.signature import given_plan, other_plan, signature_path, verified_signature
from elldelta.release import manifest_path, read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.agency.http import AgencyServer, Answer
    from elldelta.agency.registration import Registration
    from elldelta.engines import Progress
    from elldelta.ledger import LedgerChain
    from elldelta.plan.signature import PlanSignature
    from elldelta.release import Manifest

V = TypeVar("V", bound=View)

CONFLICT, MOST_PARTS, MOST_LISTED = 409, 1000, 100_000
"""The status of a refusal; parts of a list, and entries, that are looked at: no agency has a longer one."""

_MOST_WORDS = 2000
"""Characters of one text of the server that are shown."""


@dataclass(frozen=True)
class FetchedPlan:
    """A plan that was fetched and checked.

    Attributes:
        plan: The plan.
        signature: What the agency says about it, under its signature.
        view: What the server says about it now.
        is_first_key: Whether its key was believed because it came first.
    """

    plan: Plan
    signature: PlanSignature
    view: PlanView
    is_first_key: bool


@dataclass(frozen=True)
class RemoteStatus:
    """A plan, its progress, and how many releases are published or one's own."""

    plan: PlanView
    progress: ProgressView
    registered: int


def fetch_keys(server: AgencyServer) -> TrustedKeys:
    """The keys that the server says are the agency's, the present one first.

    Raises:
        RemoteError: There is no key, or not the one that its name says.
    """
    document = server.get("key").json()
    text = document.get("public_keys")
    if not isinstance(text, str):
        raise unexpected("It tells no key.")
    try:
        keys = TrustedKeys.from_pem(text.encode("utf-8", "replace"), source="The key of the server")
    except FileError as problem:
        raise unexpected(problem.problem) from None
    if document.get("id") != keys.keys[0].id:
        raise unexpected("The key is not the one that it names.")
    return keys


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
        agency_key: A file of the agency's public keys, which came by another way.
        trust_first_key: A file for the keys. If it is not there, the server's are believed this once and
            written into it; if it is, it counts like `agency_key`.
        overwrite: Whether existing files may be replaced; never the file of the key.

    Raises:
        RemoteError: The server does not answer, or not with this plan.
        RefusedError: The plan is not signed with the agency's key.
    """
    check_plan_digest(plan_digest)
    for path in (output, signature_path(output)):
        check_writable(path, overwrite=overwrite)
    keys, is_first = _chosen_keys(server, agency_key, trust_first_key)
    signature = server.get("plans", plan_digest, "signature").json()
    source = "The signature of the server"
    signed = verified_signature(signature, keys, source=source)
    if signed.plan_digest != plan_digest:
        raise other_plan(source)
    view = _plan_view(server, plan_digest)
    if signed.population is not None and signed.population != view.population:
        raise unexpected("The plan is signed for another population than the one it names.")
    content = server.get("plans", plan_digest, "file", most_bytes=MOST_FILE_BYTES).content
    document = json_object(content, columns=True)
    if document is None or document.get("digest") != plan_digest:
        raise unexpected("It is no plan, or another one than the one that was asked for.")
    plan = Plan.from_dict(document, source="The plan of the server")
    with AtomicFiles(overwrite=overwrite) as files:
        if is_first and trust_first_key is not None:
            files.stage(trust_first_key).write_bytes(keys.to_pem())
        files.stage(signature_path(output)).write_bytes(as_bytes(signature))
        files.stage(output).write_bytes(content)
    return FetchedPlan(plan, signed, view, is_first)


def list_plans(server: AgencyServer, population: str | None = None) -> tuple[PlanView, ...]:
    """The plans that the agency has issued."""
    query = {"population": population} if population is not None else {}
    return tuple(_read(PlanView, item) for item in _listed(server, "plans", query=query))


def report_progress(server: AgencyServer, plan_digest: str, records: int) -> ProgressView:
    """Tells the agency how many records one has."""
    check_plan_digest(plan_digest)
    if records != 0:
        check_whole("the number of records", records)
    answer = server.put("plans", plan_digest, "progress", document={"records": records})
    return _read(ProgressView, answer.json())


def plan_status(server: AgencyServer, plan_digest: str) -> RemoteStatus:
    """What the agency says about a plan now."""
    check_plan_digest(plan_digest)
    plan = _plan_view(server, plan_digest)
    progress = _read(ProgressView, server.get("plans", plan_digest, "progress").json())
    return RemoteStatus(plan, progress, len(_listed(server, "plans", plan_digest, "releases")))


def fetch_ledger(
    server: AgencyServer,
    plan_digest: str,
    output: Path,
    *,
    plan: Path | None = None,
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
    known = None if plan is None else given_plan(plan, to_use=False)[0]
    source = "The ledger of the server"
    content = server.get("plans", plan_digest, "ledger", most_bytes=MOST_FILE_BYTES).content
    chain = parse_chain(content, source)
    if chain.tail or not chain.ends_in_newline or chain.header.plan_digest != plan_digest:
        raise FileError(
            f"{source} is damaged, or is about another plan.",
            found=f"{counted(chain.n_lines, 'line is', 'lines are')} intact.",
            remedy="Tell the agency, and keep the ledger that you have.",
        )
    if known is not None:
        check_plan(chain, known.digest, known.promises, source)
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(output).write_bytes(content)
    return chain


def register_release(
    server: AgencyServer,
    release: Path,
    plan: Path,
    *,
    state: Path | None = None,
    agency_key: Path | None = None,
    keep_receipt: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> tuple[Receipt, bool]:
    """Registers a release with the agency; repeating it never registers it twice.

    The release is checked on this machine first. What is sent is which classes are published together and the
    counts that the release shows to everybody; if it is sent again, the agency knows it by its content. Of a
    table that is published again it is also how many records came and went; the state stays here.

    Args:
        server: The agency's server.
        release: The release, with its manifest beside it.
        plan: The plan it was made with.
        state: Of a table that is published again, the state that was written with the release.
        agency_key: The agency's public key: plan and receipt must then carry its signature.
        keep_receipt: Whether the agency's answer is written beside the release.
        overwrite: Whether the receipt of another registration may be replaced.
        progress: Is told how far the reading is.

    Returns:
        The agency's answer, and False if the same release had its line before.

    Raises:
        RefusedError: The release does not keep what the plan asks, or the agency does not admit it; never
            after the agency has admitted it.
        RemoteError: There is no answer, or it is about something else, or it is not signed by the agency.
    """
    keys = None if agency_key is None else trusted(agency_key)
    known, _ = given_plan(plan, keys, to_use=False)
    registration = registration_of(release, known, state=state, progress=progress)
    if keep_receipt:
        _check_receipt(receipt_path(release), registration, overwrite=overwrite)
    try:
        answer = server.post("plans", registration.plan_digest, "releases", content=registration.to_bytes())
    except RemoteError as problem:
        raise RemoteError(
            problem.problem,
            found=f"{problem.found} It is not known whether the release was registered.",
            remedy="Run the same command again; a release is never registered twice.",
        ) from None
    receipt, is_new = _receipt(answer, server, registration.digest, registration)
    _keep_receipt(receipt, receipt_path(release) if keep_receipt else None, keys)
    return receipt, is_new


def fetch_receipt(
    server: AgencyServer, release: Path, *, agency_key: Path | None = None, overwrite: bool = False
) -> Receipt:
    """Fetches the receipt of a release that was registered, and writes it beside the release.

    Args:
        server: The agency's server.
        release: The release, with its manifest beside it.
        agency_key: The agency's public key: the receipt must then carry its signature.
        overwrite: Whether a receipt that is there may be replaced.

    Raises:
        RemoteError: The agency knows no such release of this owner, or the receipt is not signed by it.
    """
    path = receipt_path(release)
    check_writable(path, overwrite=overwrite)
    manifest = read_manifest(manifest_path(release))
    keys = None if agency_key is None else trusted(agency_key)
    named = ("plans", manifest.plan_digest, "releases", manifest.content_digest, "receipt")
    receipt, _ = _receipt(server.get(*named), server, None, manifest)
    _keep_receipt(receipt, path, keys)
    return receipt


def report_state(server: AgencyServer, release: Path, state: Literal["published", "voided"]) -> StateView:
    """Tells the agency that a release was published, or that it never was and never will be.

    Raises:
        RemoteError: The agency knows no such release of this owner, or was told the opposite before.
    """
    manifest = read_manifest(manifest_path(release))
    named = ("plans", manifest.plan_digest, "releases", manifest.content_digest, "state")
    view = _read(StateView, server.put(*named, document={"state": state}).json())
    if view.state != state:
        raise unexpected("It has noted something else.")
    return view


def write_registration(
    release: Path,
    plan: Path,
    target: Path,
    *,
    state: Path | None = None,
    agency_key: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Registration:
    """Writes what `register_release` would send into a file, for whoever uploads it on the agency's pages.

    Args:
        release: The release, with its manifest beside it.
        plan: The plan it was made with.
        target: The file to write.
        state: See `register_release`.
        agency_key: The agency's public key: the plan must then carry its signature.
        overwrite: Whether the file may be replaced.
        progress: Is told how far the reading is.

    Raises:
        RefusedError: The release does not keep what the plan asks.
    """
    check_writable(target, overwrite=overwrite)
    known, _ = given_plan(plan, agency_key, to_use=False)
    registration = registration_of(release, known, state=state, progress=progress)
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(target).write_bytes(registration.to_bytes())
    return registration


def check_plan_digest(text: str) -> str:
    """Returns the digest of a plan, or says what one looks like."""
    if not is_digest(text):
        raise ParameterError(
            "A plan is named by its digest: sha256: and 64 hexadecimal digits.",
            found="It is something else.",
            remedy="Take it from the agency's list: elldelta remote plans.",
        )
    return text


def _chosen_keys(
    server: AgencyServer, agency_key: Path | None, trust_first_key: Path | None
) -> tuple[TrustedKeys, bool]:
    """The keys of a file that was named, or the server's own if they are to be believed this once.

    Returns:
        The keys, and whether they are the server's own, which are still to be written.
    """
    if (agency_key is None) == (trust_first_key is None):
        raise ParameterError(
            "A plan is checked with the agency's key.",
            found="No key was named, or in two ways.",
            remedy="Name the file of the agency's key. If you have none yet, trust the first key that the "
            "server shows, and compare its name with the agency on the telephone.",
            parameter=("agency_key", "trust_first_key"),
        )
    path = Path(agency_key or trust_first_key or "")
    if agency_key is not None or path.exists():
        return read_public_keys(path), False
    check_writable(path, overwrite=False)
    return fetch_keys(server), True


def _listed(server: AgencyServer, *path: str, query: Mapping[str, str] | None = None) -> list[Any]:
    """All entries of a list, which the server tells part by part."""
    entries: list[Any] = []
    asked = dict(query or {})
    for _ in range(MOST_PARTS):
        document = server.get(*path, query=asked).json()
        part, following = document.get("entries"), document.get("next")
        if not isinstance(part, list) or len(entries) + len(part) > MOST_LISTED:
            raise unexpected(f"It is no list of {path[-1]}.")
        entries += part
        if following is None:
            return entries
        if not isinstance(following, str):
            break
        asked["after"] = following
    raise unexpected(f"Its list of {path[-1]} does not end.")


def _keep_receipt(receipt: Receipt, path: Path | None, keys: TrustedKeys | None) -> None:
    """Keeps the receipt, also one that cannot be checked, which is then said: the release has its line."""
    problem: ElldeltaError | None = None
    if keys is not None:
        try:
            receipt.verify(keys, source="The receipt of the server")
        except ElldeltaError as error:
            problem = error
            if path is not None and _is_signed(path, keys):
                path = None  # the one that is there is better
    if path is not None:
        with AtomicFiles(overwrite=True) as files:
            files.stage(path).write_bytes(receipt.to_bytes())
    if problem is not None:
        kept = f" Its receipt is kept in {path}." if path is not None else ""
        raise RemoteError(
            f"The server says that it has admitted the release, but: {problem.problem}",
            found=f"{problem.found} The release may have line {receipt.sequence} of the ledger.{kept}",
            remedy=problem.remedy,
        )


def _is_signed(path: Path, keys: TrustedKeys) -> bool:
    """Whether a receipt is there that the agency has signed."""
    try:
        read_receipt(path).verify(keys)
    except ElldeltaError:
        return False
    return True


def _receipt(
    answer: Answer, server: AgencyServer, sent: str | None, release: Registration | Manifest
) -> tuple[Receipt, bool]:
    """The receipt, if the answer admits this release and nothing else, or the agency's refusal."""
    if answer.status == CONFLICT:
        problem, found, remedy = answer.problem()
        if not problem:
            raise unexpected("It refuses the release without a reason.")
        raise RefusedError(f"The agency refuses the release: {problem}", found=found, remedy=remedy)
    admitted = _read(Admitted, answer.fine().json())
    try:
        receipt = Receipt(
            server=server.url,
            plan_digest=admitted.plan,
            registration_digest=sent,
            **admitted.model_dump(exclude={"plan", "is_new"}),
        )
        is_ours = receipt.is_about(release)
    except ParameterError:
        is_ours = False
    if not is_ours:
        raise unexpected("Its receipt is not about the release that was sent.")
    return receipt, admitted.is_new


def _check_receipt(path: Path, registration: Registration, *, overwrite: bool) -> None:
    """Refuses before anything is sent if the receipt of another release is in the way."""
    check_writable(path, overwrite=True)
    if not overwrite and path.exists() and not read_receipt(path).is_about(registration):
        check_writable(path, overwrite=False)


def _plan_view(server: AgencyServer, plan_digest: str) -> PlanView:
    """What the server says about one plan."""
    plan = _read(PlanView, server.get("plans", plan_digest).json().get("plan"))
    if plan.digest != plan_digest:
        raise unexpected("It is about another plan.")
    return plan


def _read(kind: type[V], document: object) -> V:
    """What the server tells, as a view; words of the server are without control characters."""
    try:
        return kind.model_validate_json(json.dumps(_printable(document)), strict=True)
    except ValidationError as problem:
        where = ".".join(str(part) for part in problem.errors()[0]["loc"])
        raise unexpected(f"It is no answer of the kind that was asked for: {shown(where)}.") from None


def _printable(document: object) -> object:
    """A document of the server with texts that may be printed, and whole numbers that a machine holds."""
    if isinstance(document, dict):
        return {shown(name): _printable(value) for name, value in document.items()}
    if isinstance(document, list):
        return [_printable(value) for value in document]
    if isinstance(document, str):
        return shown(document, most=_MOST_WORDS)
    return None if isinstance(document, int) and abs(document) >= 2**63 else document


def ending(plan: PlanView) -> str:
    """That a plan has been withdrawn or superseded, in words; empty if it counts."""
    if plan.status == "issued":
        return ""
    why = f" The agency says why: {plan.reason}" if plan.reason else ""
    return f"This plan is {plan.status}: it admits no further release.{why}"
