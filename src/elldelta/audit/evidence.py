"""The folder that somebody signs before releases are published: a page, the same as PDF, and all digests.

Nothing in it is new: releases are verified against their plan, linked with what is published, and looked up
in the ledger. What was found is one sealed record, and page and PDF say what the record says, in the words of
those who sign (`elldelta.audit.evidence_page`). What only people know, they type once, in a small TOML file.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta._version import __version__
from elldelta.audit.audit import audit
from elldelta.audit.evidence_form import read_about
from elldelta.audit.evidence_page import risk_upper, sections_of
from elldelta.audit.result import LIMITS
from elldelta.audit.subtraction import contained_of
from elldelta.errors import FileError, InputError, ParameterError, RefusedError, counted
from elldelta.files import (
    ALGORITHM,
    AtomicFiles,
    as_bytes,
    check_format,
    check_writable,
    damaged_signature,
    digest_of_parts,
    holds,
    read_json,
    seal,
    sign,
    trusted,
    unseal,
)
from elldelta.ledger import check_line, verify_ledger
from elldelta.pages.printed import as_html, as_pdf
from elldelta.plan.signature import given_plan, signature_path
from elldelta.release import each_once, manifest_path, open_published, verify_published

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elldelta.audit.result import Audit
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat, PrivateKey, PublicKey, TrustedKeys
    from elldelta.plan.plan import Plan
    from elldelta.release import Published

KIND = "evidence"
FORMAT_VERSION = 1
RECORD = "evidence.json"
SIGNATURE = "evidence.json.sig"
PAGE = "evidence.html"
PDF = "evidence.pdf"
CRATE = "ro-crate-metadata.json"

_SIGNATURE_KIND = "elldelta evidence signature"
_PURPOSE = b"elldelta/evidence-signature\n"


def evidence(
    releases: Sequence[str | os.PathLike[str]],
    plan: str | os.PathLike[str],
    *,
    about: str | os.PathLike[str],
    to: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    published: Sequence[str | os.PathLike[str]] = (),
    agency_key: str | os.PathLike[str] | None = None,
    key: PrivateKey | None = None,
    now: dt.datetime | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Checks releases once more and writes the folder that somebody signs, whole or not at all.

    Args:
        releases: The files of releases that are to be published, with their manifests beside them.
        plan: The file of their plan.
        about: What only people know, a TOML file; `write_form` makes one to fill in.
        to: The folder; it must not be there.
        ledger: The ledger that has admitted the releases.
        published: What is published already and can be linked with them.
        agency_key: The agency's public key: then the plan must carry its signature.
        key: A private key to sign the evidence with.
        now: The moment; by default that of the clock.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the reading is.

    Returns:
        The record, as it is written to `evidence.json`. If linking breaks a promise, or somebody is found
        more easily than the form accepts, `holds` is false, the page says what is wrong, and the folder is
        not signed.

    Raises:
        FileError: A file is missing, damaged, or not about the others.
        RefusedError: A release is not what its manifest and its plan say, or the ledger has not admitted it.
    """
    folder, moment = Path(to), (now or dt.datetime.now(dt.UTC)).replace(microsecond=0)
    _check_packages()
    check_writable(folder, overwrite=False, folder=True)
    known, files = given_plan(plan, agency_key, to_use=False)
    answers = read_about(about, known)
    items, published = each_once(releases), each_once(published) if published else []
    sources = _sources([*files, *map(manifest_path, map(Path, items)), Path(about)])
    read: dict[str, Any] = {"csv_format": csv_format, "engine": engine, "progress": progress}
    opened = [open_published(item, **read) for item in items]
    parts = _release_parts(items, opened, known, answers["threshold"], has_ledger=ledger is not None)
    reference = known if known.promises_closeness else None
    read |= {"closeness_to": reference, "contained": contained_of(answers["contained"])}
    linked = audit([*published, *items], **read)  # no ell is named: the strictest promise counts
    content = {
        **_findings(linked, parts, answers, is_answered=read["contained"] is not None),
        "made": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        "plan": _plan_part(known, files, is_checked=agency_key is not None),
        "published": [{"release": Path(path).name, "digest": _file_digest(Path(path))} for path in published],
        "ledger": None if ledger is None else _ledger_part(ledger, known, opened),
    }
    return _write(folder, content, linked, moment, sources, key)


def _check_packages() -> None:
    """Refuses to begin where the end could not be written."""
    missing = [name for name in ("cryptography", "fpdf", "rocrate") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            "Evidence needs packages that are not installed.",
            found=f"Without: {', '.join(missing)}.",
            remedy="Run: pip install 'elldelta[evidence]'",
        )


def verify_evidence(
    path: str | os.PathLike[str], keys: PublicKey | TrustedKeys | None = None
) -> dict[str, Any]:
    """Reads a record, and checks the files around it and, with a key, the signature.

    Raises:
        FileError: A file is missing or damaged.
        RefusedError: It was not signed with this key, or a file is not the one that was signed.
    """
    record = Path(path)
    sealed = read_json(record, KIND)
    content = unseal(KIND, FORMAT_VERSION, sealed, f"The evidence {record}")
    if keys is None:
        return content
    beside = record.with_name(SIGNATURE)
    source, known = f"The signature {beside}", trusted(keys)
    document = read_json(beside, "signature of evidence")
    if document.get("kind") != _SIGNATURE_KIND:
        raise damaged_signature(source)
    check_format(source, document.get("format"), FORMAT_VERSION)
    key = known.named(str(document.get("key_id")))
    signed = {name: document.get(name) for name in ("format", "evidence_digest", "files")}
    if key is None or not holds(key, _PURPOSE, signed, str(document.get("signature")), source):
        raise RefusedError(
            f"{source} does not hold.",
            found="It was made with another key, or has been changed.",
            remedy="Ask whoever made the evidence for it once more.",
        )
    problem = _unsigned(record, sealed["digest"], signed)
    if problem is not None:
        raise RefusedError(
            f"The evidence beside {record} is not what was signed.",
            found=problem,
            remedy="Ask whoever made the evidence for it once more.",
        )
    return {**content, "key_id": document["key_id"]}


def _unsigned(record: Path, digest: str, signed: Mapping[str, Any]) -> str | None:
    """What of a folder a signature is not about, in words; None if it is about the record and all files."""
    files = signed["files"] if isinstance(signed["files"], dict) else {}
    if record.name != RECORD or digest != signed["evidence_digest"] or RECORD not in files:
        return f"{record.name} is not the record that was signed."
    others = sorted({path.name for path in record.parent.iterdir()} - {*files, SIGNATURE})
    if others:
        return (
            f"{counted(len(others), 'file')} in the folder without a signature: "
            f"{', '.join(map(repr, others[:3]))}."
        )
    for name, digest_signed in files.items():
        if not (record.parent / name).is_file() or _file_digest(record.parent / name) != digest_signed:
            return f"{name} is missing, or has been changed."
    return None


def _sources(paths: Sequence[Path]) -> list[Path]:
    """The files that are copied into the folder; no two may have one name there."""
    sources = [path for path in paths if path.exists()]
    taken = {name.casefold() for name in (RECORD, SIGNATURE, PAGE, PDF, CRATE)}
    for path in sources:
        if path.name.casefold() in taken:
            raise ParameterError(
                "Two files would have the same name in the folder of the evidence.",
                found=f"Another one is called {path.name}, too.",
                remedy="Give plan, form and releases different names, and none of those of the evidence.",
            )
        taken.add(path.name.casefold())
    return sources


def _plan_part(plan: Plan, files: Sequence[Path], *, is_checked: bool) -> dict[str, Any]:
    return {
        **plan.summary(),
        "digest": plan.digest,
        "promise": plan.promise,
        "past_promise": plan.past_promise,
        "conditions": list(plan.conditions),
        "quasi_identifiers": list(plan.schema.names),
        "sensitive": list(plan.schema.sensitive_names),
        "signed": is_checked,
        "signature_unchecked": not is_checked and signature_path(files[0]).exists(),
        "values": plan.schema.n_values,
    }


def _findings(
    linked: Audit, releases: Sequence[Mapping[str, Any]], answers: Mapping[str, Any], *, is_answered: bool
) -> dict[str, Any]:
    """What was found, beside what people answered."""
    holds, verdict = _verdict(linked, releases, answers["threshold"], is_answered=is_answered)
    return {
        "holds": holds,
        "verdict": verdict,
        "about": answers,
        "software": f"elldelta {__version__}",
        "releases": releases,
        "linked": _linked_part(linked),
        "limits": [*LIMITS, *(each.words for each in linked.assumptions)],
    }


def _verdict(
    linked: Audit, releases: Sequence[Mapping[str, Any]], threshold: float, *, is_answered: bool
) -> tuple[bool, str]:
    """Whether everything holds that plans promise and the form asks for, and the verdict in words."""
    broken = [] if linked.holds else [linked.verdict]
    for column in (linked, *linked.also):
        found = column.subtraction
        if found.is_open:
            broken.append(
                "Not safe while the form leaves open whether one table's population, or a class of it, is "
                f"contained in another's (contained): if {found.condition}, {found.isolates}."
            )
        n_untried = sum(pair.status == "not tried" for pair in found.pairs)
        if n_untried and not is_answered:
            broken.append(
                "Not safe while the form leaves open whether one table's population, or a class of it, is "
                f"contained in another's (contained): subtraction was not tried for {n_untried:,} of "
                f"{counted(len(found.pairs), 'pair')} of releases."
            )
    above = [item for item in releases if item["risk_highest"] > threshold]
    if above:
        risk = risk_upper(max(item["risk_highest"] for item in above))
        names = ", ".join(item["release"] for item in above)
        broken.append(
            f"Not safe by the form: in {names} the identification risk is up to {risk}, and at most "
            f"{threshold:g} is accepted."
        )
    return not broken, " ".join(dict.fromkeys(broken)) or linked.verdict


def _release_parts(
    paths: Sequence[str | os.PathLike[str]],
    releases: Sequence[Published],
    plan: Plan,
    threshold: float,
    *,
    has_ledger: bool,
) -> list[dict[str, Any]]:
    """Verifies releases against their plan; what each says about itself, and what verifying found."""
    verified = [replace(verify_published(item, plan), is_line_checked=has_ledger) for item in releases]
    return [
        {**_release_part(item, path, threshold), **found.to_dict()}
        for item, path, found in zip(releases, paths, verified, strict=True)
    ]


def _release_part(item: Published, path: str | os.PathLike[str], threshold: float) -> dict[str, Any]:
    """What a release says about itself, and how easily somebody is found in it."""
    manifest, sizes = item.manifest, item.schema.by_column(item.counts)[0].sum(axis=1)
    sizes = sizes[sizes > 0]
    persons = manifest.persons
    fewest = 0  # where nothing is published
    if sizes.size:
        fewest = int(sizes.min()) if persons is None else persons["persons_per_class"]
    risky = 1.0 / sizes > threshold
    return {
        "content_digest": manifest.content_digest,
        "file_digest": _file_digest(Path(path)),
        "records_read": manifest.records_read,
        "records_suppressed": manifest.records_suppressed,
        "records_quarantined": manifest.records_quarantined,
        "records_left_out": manifest.records_left_out,
        "moving": None if manifest.moving is None else dict(manifest.moving),
        "persons": None if persons is None else dict(persons),
        "manifest_sentences": list(manifest.sentences),
        "software": manifest.software,
        "risk_highest": 1.0 / fewest if fewest else 0.0,
        # Of persons only the fewest of any class are known.
        "risk_mean": len(sizes) / max(1, int(sizes.sum())) if persons is None else None,
        "records_above": int(sizes[risky].sum()) if persons is None else None,
    }


def _linked_part(found: Audit) -> dict[str, Any]:
    document = found.to_dict()
    names = ("surest", "surest_share", "reference", "baseline", "readings",
             "diversity_min", "diversity_min_any", "closeness", "subtraction",
             "memberships", "histogram", "curve", "ell")  # fmt: skip
    part = {name: document[name] for name in names}
    if found.also:
        others = [{**_linked_part(other), "column": other.sensitive} for other in found.also]
        part |= {"column": found.sensitive, "also": others}
    return part


def _ledger_part(path: str | os.PathLike[str], plan: Plan, releases: Sequence[Published]) -> dict[str, Any]:
    chain = verify_ledger(path, plan_digest=plan.digest, promises=plan.promises)
    held = {entry.content_digest for entry in chain.active}
    missing = [item.name for item in releases if item.manifest.content_digest not in held]
    if missing:
        raise RefusedError(
            "The ledger has not admitted these releases.",
            found=f"It has no line of {', '.join(missing)}.",
            remedy="Release with the ledger, or name the one that admitted them.",
            parameter="ledger",
        )
    for item in releases:
        if item.manifest.ledger is not None:  # others may have a receipt
            line = item.manifest.ledger
            check_line(chain, item, line["hash"], line["owner"], plan, f"The ledger {os.fspath(path)}")
    document = chain.to_dict()
    names = ("promises", "promise", "conditions", "classes", "sealed")
    return {**{name: document[name] for name in names}, "lines": chain.n_lines, "head": chain.head}


def _write(
    folder: Path,
    content: Mapping[str, Any],
    linked: Audit,
    moment: dt.datetime,
    sources: Sequence[Path],
    key: PrivateKey | None,
) -> dict[str, Any]:
    """Writes the folder, and returns the sealed record; only what holds is signed."""
    record = seal(KIND, FORMAT_VERSION, content)
    title, verdict, footer, sections = sections_of(record, linked.plot())
    with AtomicFiles() as files:
        staged = files.stage(folder, folder=True)
        (staged / RECORD).write_bytes(as_bytes(record))
        (staged / PAGE).write_text(as_html(title, verdict, sections, footer), encoding="utf-8")
        (staged / PDF).write_bytes(as_pdf(title, verdict, sections, footer, made=moment))
        for path in sources:
            shutil.copyfile(path, staged / path.name)
        names = sorted(path.name for path in staged.iterdir())
        digests = {name: _file_digest(staged / name) for name in names}
        (staged / CRATE).write_bytes(as_bytes(_crate(staged, record, digests)))
        digests[CRATE] = _file_digest(staged / CRATE)
        if key is not None and record["holds"]:
            signed = {"format": FORMAT_VERSION, "evidence_digest": record["digest"], "files": digests}
            document = {"kind": _SIGNATURE_KIND, "algorithm": ALGORITHM, "key_id": key.id, **signed}
            document["signature"] = sign(key, _PURPOSE, signed)
            (staged / SIGNATURE).write_bytes(as_bytes(document))
    return record


def _crate(folder: Path, record: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    """The folder described for machines, as an RO-Crate; releases are named and not copied."""
    from rocrate.rocrate import ROCrate

    crate = ROCrate()
    crate.name = record["about"]["title"]
    crate.description = record["verdict"]
    crate.datePublished = dt.datetime.fromisoformat(record["made"])
    crate.publisher = crate.add(_thing(crate, "#publisher", "Organization", record["about"]["publisher"]))
    for name, digest in digests.items():
        crate.add_file(folder / name, name, properties={"sha256": digest.removeprefix("sha256:")})
    for number, item in enumerate(record["releases"]):
        thing = _thing(crate, f"#release-{number + 1}", "Dataset", item["release"])
        thing["sha256"], thing["size"] = item["file_digest"].removeprefix("sha256:"), item["records"]
        crate.root_dataset.append_to("mentions", crate.add(thing))
    document: dict[str, Any] = crate.metadata.generate()
    return document


def _thing(crate: Any, name: str, kind: str, words: str) -> Any:  # noqa: ANN401 (rocrate has no types)
    from rocrate.model.contextentity import ContextEntity

    return ContextEntity(crate, name, properties={"@type": kind, "name": words})


def _file_digest(path: Path) -> str:
    """The digest of a file."""
    if not path.exists():
        raise FileError(f"{path} is not there.", found="There is no such file.", remedy="Check its name.")
    return digest_of_parts(_blocks(path))


def _blocks(path: Path) -> Any:  # noqa: ANN401 (bytes, piece by piece)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block
