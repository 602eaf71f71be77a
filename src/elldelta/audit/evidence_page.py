"""What was found about releases, in the words of those who sign: sections made from the record alone.

Singling out, linkability and inference are the three questions of the Article 29 Working Party (Opinion
05/2014). Every section says what its numbers show and what they do not. None of them says that a law is kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from elldelta.errors import counted
from elldelta.pages.charts import histogram_words
from elldelta.pages.page import percent, share_upper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from elldelta.pages.printed import Block, Section

_NOT_PROMISED = (
    "Nothing is promised against what somebody knows from elsewhere, such as that a value is not this one.",
    "That a person is in a table at all may be known or learned; the promise is about the sensitive value.",
    "What is true of most people is learned about everybody, whatever the number of values that are left.",
    "Releases of the same people that are not named here, and follow another plan, are not in these numbers.",
    "It is no statement about any law: whether the table is anonymous in its sense is for people to decide.",
)

_CHECKLIST = (
    ("Which columns could be known to a recipient, and why", "answered by the publisher, under Columns"),
    ("How easily a person is singled out", "computed, under Singling out and Identification risk"),
    ("What linking with other releases adds", "computed, for the releases that are named here"),
    ("What linking with sources outside adds", "open: only the expert knows these sources"),
    ("How sure somebody can be of a sensitive value", "computed, under Inference"),
    ("Who receives the data, and what binds them", "said by the publisher, under Five Safes"),
    ("Whether the risk is very small for the anticipated recipient", "open: the expert's judgement"),
    ("Methods and results are documented", "this page, the record and the digests"),
    ("When the determination is made again", "said by the publisher: review and expiry"),
)


def sections_of(record: Mapping[str, Any], picture: Figure) -> tuple[str, str, str, list[Section]]:
    """Title, verdict, footer and sections of the page about a record.

    Args:
        record: What `elldelta.audit.evidence.evidence` sealed.
        picture: How many records are left with how many values.
    """
    about = record["about"]
    title = f"Evidence: {about['title']}"
    verdict, surest = record["verdict"], record["linked"]["surest"]
    footer = f"Made by {record['software']} on {record['made'][:10]}. Record {record['digest'][:23]}..."
    sections: list[Section] = [
        *([("How far linking leads", [{"text": surest}])] if surest else []),
        ("Who publishes what to whom", _who(record)),
        ("Columns", _columns(record)),
        ("The promise", _promise(record)),
        ("What was checked, and found", _found(record, picture)),
        ("Singling out", _singling_out(record)),
        ("Linkability", _linkability(record)),
        ("Inference", _inference(record)),
        ("Identification risk", _risk(record)),
        ("Five Safes", _five_safes(record)),
        ("Checklist for an expert determination", [{"header": ("question", "where"), "rows": _CHECKLIST}]),
        ("What was lost", _lost(record["releases"])),
        ("What this does not promise, and rests on", [{"list": [*_NOT_PROMISED, *record["limits"]]}]),
        ("Ledger", _ledger(record["ledger"])),
        ("Versions and digests", _digests(record)),
        ("Names and signatures", _signatures(about)),
    ]
    return title, verdict, footer, sections


def _who(record: Mapping[str, Any]) -> list[Block]:
    about = record["about"]
    rows = [(name, about[name]) for name in ("publisher", "recipients", "purpose")]
    rows += [("releases", ", ".join(item["release"] for item in record["releases"]))]
    rows += [("date", record["made"][:10]), ("review", about["review"]), ("expires", about["expires"])]
    left = ", ".join(about["not_stated"])
    blanks = [{"text": f"Not stated in the form: {left}."}] if left else []
    return [*blanks, {"header": ("what", "said"), "rows": rows}]


def _columns(record: Mapping[str, Any]) -> list[Block]:
    plan, reasons = record["plan"], record["about"]["quasi_identifiers"]
    rows = [(name, "quasi-identifier, made coarse", reasons[name]) for name in plan["quasi_identifiers"]]
    rows += [(name, "sensitive, published as it is", "what is protected") for name in plan["sensitive"]]
    text = "Columns that are not listed are not published. The reasons are the publisher's."
    return [{"header": ("column", "what happens to it", "reason"), "rows": rows}, {"text": text}]


def _promise(record: Mapping[str, Any]) -> list[Block]:
    plan = record["plan"]
    texts = (plan["promise"], plan["past_promise"], _covered(record))
    return [
        *({"text": text} for text in texts if text),
        {"text": "What must be true for that:"},
        {"list": plan["conditions"]},
        {"text": _signed(plan)},
    ]


def _covered(record: Mapping[str, Any]) -> str:
    """What the promise does not cover of what is named here; an empty text if nothing."""
    plan, n_named = record["plan"], len(record["releases"]) + len(record["published"])
    if record["ledger"] is not None or n_named == 1:
        return ""
    if plan["owners"] is not None:
        return (
            f"{counted(n_named, 'release is', 'releases are')} named here and no ledger: the "
            "promise is about releases that one ledger "
            "has admitted. What linking shows is computed below."
        )
    if n_named <= plan["releases"]:
        return ""
    return (
        f"{counted(n_named, 'release is', 'releases are')} named here, and the promise is about at "
        f"most {plan['releases']}. What "
        "linking all of them shows is computed below."
    )


def _signed(plan: Mapping[str, Any]) -> str:
    if plan["signed"]:
        return "The plan carries a signature of an agency, which was checked with the agency's key."
    if plan["signature_unchecked"]:
        return "A signature lies beside the plan; it was not checked."
    return "The plan does not carry a signature of an agency."


def _found(record: Mapping[str, Any], picture: Figure) -> list[Block]:
    linked = record["linked"]
    rows = [
        (
            item["release"],
            item["records"],
            item["classes"],
            item["diversity"],
            item["k"],
            "yes" if item["certified"] else "no certificate in this plan",
            item["records_suppressed"] + item["records_quarantined"] + item["records_left_out"],
        )
        for item in record["releases"]
    ]
    others = ", ".join(item["release"] for item in record["published"]) or "none was named"
    header = (
        *("release", "records", "classes", "fewest values in a class", "fewest records in a class"),
        *("certificate holds", "records left out"),
    )
    return [
        {"text": "Every release was read again and compared with its manifest and with the plan."},
        {"header": header, "rows": rows},
        {"text": f"Linked with what is published already: {others}."},
        {"picture": picture, "words": histogram_words(linked["histogram"], linked["ell"])},
        {"list": [f"{item['release']}: {line}" for item in record["releases"] for line in item["sentences"]]},
    ]


def _singling_out(record: Mapping[str, Any]) -> list[Block]:
    sizes = [(item["k"], "records") for item in record["releases"] if item["persons"] is None]
    sizes += [
        (item["persons"]["persons_per_class"], "persons")
        for item in record["releases"]
        if item["persons"] is not None
    ]
    fewest, kind = min(sizes)
    sentence = (
        f"Every class of these releases holds at least {fewest:,} {kind}: by the quasi-identifiers alone "
        f"nobody is told apart from {fewest - 1:,} others."
        if fewest > 1
        else "A class of these releases holds a single person's record: whoever is known to be in it is told "
        "apart from all others, and what the class shows is theirs."
    )
    return [
        {"text": "Can one person's record be told apart from all others?"},
        {"text": sentence},
        {
            "text": "That shows nothing about people whose whole class shares a value. A value that occurs "
            "once in a class points at one record for whoever knows that value."
        },
    ]


def _by_column(record: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """What linking shows of each sensitive column, and the words to begin with where there are several."""
    linked = record["linked"]
    also = linked.get("also", ())
    return [(f"Of '{column['column']}':" if also else "", column) for column in (linked, *also)]


def _linkability(record: Mapping[str, Any]) -> list[Block]:
    n_releases = len(record["releases"]) + len(record["published"])
    together = (
        "One release was read by itself; whoever is in it"
        if n_releases == 1
        else f"{counted(n_releases, 'release was', 'releases were')} put side by side, in every "
        "group of them. Whoever is in some"
    )
    blocks: list[Block] = [
        {"text": "Can records about one person in several tables be put together, and what does that show?"}
    ]
    for of, linked in _by_column(record):
        left = linked["diversity_min_any"]
        values = f"is left with at least {counted(left, 'sensitive value')} ({linked['ell']} promised)."
        blocks.append({"text": f"{of} {together} {values}".strip()})
        blocks.append({"text": f"{of} {linked['subtraction']['words']}".strip()})
    if n_releases > 1:
        answer = "; ".join(record["about"]["contained"]) or "not answered"
        blocks.append(
            {
                "text": "Is one table's population, or a class of it, contained in another's? The "
                f"publisher's answer: {answer}."
            }
        )
    return [
        *blocks,
        {
            "text": "This is about the releases that are named here. Linking with other sources by the "
            "quasi-identifiers is possible, and leads to classes, not to records."
        },
    ]


def _inference(record: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [{"text": "Can the sensitive value of somebody be inferred, with what certainty?"}]
    for of, linked in _by_column(record):
        rows = [(linked["reference"], percent(linked["baseline"]), "–", "what it is compared with")]
        for reading in linked["readings"]:
            most = "" if reading["is_exact"] else "at most "
            largest, after = (f"{most}{percent(reading[name])}" for name in ("share_surest", "share_after"))
            gain = f"from {percent(reading['share_before'])} to {after}"
            rows.append((reading["name"], largest, gain, reading["condition"]))
        near = linked["closeness"]
        limit = (
            "The plan sets no limit on how sure a guess can be; closeness would."
            if near is None
            else f"Also, {near['words']}."
        )
        blocks += [
            *([{"text": of}] if of else []),
            {
                "header": ("read by", "largest share", "largest gain", "a probability if"),
                "rows": rows,
            },
            {"text": limit},
        ]
    text = (
        "The number of values that are left bounds what can be excluded, not how likely each of them is: "
        "look at the largest share and the largest gain, in both readings."
    )
    return [*blocks, {"text": text}]


def _risk(record: Mapping[str, Any]) -> list[Block]:
    threshold = record["about"]["threshold"]
    rows = [
        (
            item["release"],
            risk_upper(item["risk_highest"]),
            "–" if item["risk_mean"] is None else risk_upper(item["risk_mean"]),
            "–" if item["records_above"] is None else f"{item['records_above']:,} of {item['records']:,}",
            "ABOVE" if item["risk_highest"] > threshold else "not above",
        )
        for item in record["releases"]
    ]
    above = any(item["risk_highest"] > threshold for item in record["releases"])
    enough = math.ceil(1.0 / threshold - 1e-9)
    judged = (
        f"At least one release lies above the threshold. No class of a plan made with --k {enough} does."
        if above
        else "No release lies above the threshold."
    )
    return [
        {
            "text": f"One divided by the size of a class: the chance that a record of the class is that of "
            f"somebody who is known to be in the table. The threshold that was set is {threshold:g}."
        },
        {"header": ("release", "highest", "mean", "records above", "threshold"), "rows": rows},
        {
            "text": f"{judged} The number does not show what is learned without knowing the record, which is "
            "under Inference; and it is an upper bound for somebody who does not know who is in the table."
        },
    ]


def risk_upper(risk: float) -> str:
    """An identification risk in four digits, never too small."""
    return f"{share_upper(risk, 4):.4f}"


def _five_safes(record: Mapping[str, Any]) -> list[Block]:
    about = record["about"]
    fewest = [linked["diversity_min_any"] for _, linked in _by_column(record)]
    values = "value" if fewest == [1] else "values"
    data = (
        f"At least {' and '.join(map(str, fewest))} {values} left after linking; see above for all numbers."
    )
    rows = (
        ("Safe projects", about["purpose"], "said"),
        ("Safe people", about["people"], "said"),
        ("Safe settings", about["setting"], "said"),
        ("Safe data", data, "computed"),
        ("Safe outputs", about["outputs"], "said"),
    )
    return [{"header": ("dimension", "answer", "how it is known"), "rows": rows}]


def _lost(releases: Sequence[Mapping[str, Any]]) -> list[Block]:
    rows = []
    for item in releases:
        moving = item["moving"]
        rows.append(
            (
                item["release"],
                f"{item['records']:,} of {item['records_read']:,}",
                item["records_suppressed"],
                item["records_quarantined"],
                item["records_left_out"],
                "–" if item["persons"] is None else f"{item['persons']['records_repeated']:,}",
                "–" if moving is None else f"{moving['classes_together']:,}",
                "–" if item["loss"] is None else f"{item['loss']:.4f}",
            )
        )
    header = (
        *("release", "records published", "missing value", "outside the domain", "class not published"),
        "repeats a person's value",
        *("planned classes published together", "information loss (0 to 1)"),
    )
    sentences = [f"{item['release']}: {' '.join(item['manifest_sentences'])}" for item in releases]
    return [{"header": header, "rows": rows}, {"text": "What the manifests say:"}, {"list": sentences}]


def _ledger(ledger: Mapping[str, Any] | None) -> list[Block]:
    if ledger is None:
        return [{"text": "No ledger was named."}]
    rooms = [
        f" The fullest class can lose {counted(promise['room_min'], 'more value')} of {promise['column']!r}; "
        f"{promise['classes_without_room']:,} of {counted(ledger['classes'], 'class', 'classes')} "
        "can lose none."
        for promise in ledger["promises"]
        if "room_min" in promise  # closeness has no room to count
    ]
    chain = (
        f"The ledger has {counted(ledger['lines'], 'line')} with the one that opens it; its chain is intact."
        f"{''.join(rooms)} Last line: {ledger['head']}"
    )
    return [{"text": ledger["promise"]}, {"list": ledger["conditions"]}, {"text": chain}]


def _digests(record: Mapping[str, Any]) -> list[Block]:
    rows = [("this record (evidence.json)", record["digest"]), ("plan", record["plan"]["digest"])]
    for item in record["releases"]:
        rows += [
            (f"{item['release']}: file", item["file_digest"]),
            (f"{item['release']}: content", item["content_digest"]),
            (f"{item['release']}: written by", item["software"]),
        ]
    rows += [(f"{item['release']} (published): file", item["digest"]) for item in record["published"]]
    return [{"header": ("what", "digest or version"), "rows": [*rows, ("evidence by", record["software"])]}]


def _signatures(about: Mapping[str, Any]) -> list[Block]:
    rows = [(role, "", "", "") for role in about["signatures"] or ["Privacy officer"]]
    text = "Whoever signs has read what this does not promise, and decides."
    return [{"text": text}, {"header": ("role", "name", "date", "signature"), "rows": rows}]
