"""The closing block: the same five lines end what `plan`, `release`, `audit` and `evidence` print."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.cli import output
from elldelta.errors import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from elldelta.plan.plan import Plan
    from elldelta.release import Manifest
    from elldelta.schema.column import Column


@dataclass(frozen=True)
class Closing:
    """What somebody must know at the end, in five lines.

    Attributes:
        promised: The promise, in one sentence.
        found: What was checked, and found; a refusal stands here.
        lost: The information loss.
        left_out: Records that are left out, and why.
        do_next: One command that works as it stands, but for words in capitals.
    """

    promised: str
    found: str
    lost: str
    left_out: str
    do_next: str

    def print(self) -> None:
        """Prints the lines, with their names in front."""
        output.print_text(
            *(
                f"{field.name.replace('_', ' ').capitalize() + ':':<10}{getattr(self, field.name)}"
                for field in fields(self)
            )
        )


def of_plan(plan: Plan, made: Mapping[str, Any], path: Path) -> Closing:
    """What closes `elldelta plan`.

    Args:
        plan: The plan.
        made: What its making has found: the loss, the expected records of classes, what the model left out.
        path: Its file.
    """
    from elldelta.plan.words import chance_in_short, in_one_sentence
    from elldelta.release.words import left_out_words

    columns = (
        (_called(sensitive), column.ell, None if column.closeness is None else column.closeness.limit)
        for sensitive, column in zip(plan.schema.sensitives, plan.columns, strict=True)
    )
    asked = {
        "--ledger LEDGER --owner NAME": plan.owners is not None,
        "--key KEY --announced NAME": plan.moving is not None,
        "--person COLUMN": plan.persons,
    }
    options = " ".join(option for option, is_asked in asked.items() if is_asked).split()
    sizes = [f"{made[name]:,.0f}" for name in ("smallest_class", "largest_class")]
    return Closing(
        in_one_sentence(
            columns,
            releases=plan.releases,
            failure_upper=None if plan.is_certified else plan.failure_upper,
            by_ledger=plan.owners is not None,
        ),
        f"{counted(plan.n_classes, 'class', 'classes')} with {' to '.join(dict.fromkeys(sizes))} "
        f"expected records; {chance_in_short(plan)}."
        + ("" if plan.moving is None else " Owners must not share people."),
        _lost(made["loss"]),
        f"{_capital(left_out_words(made['left_out']))} (of the past records).",
        do_next(
            f"Send {path.name} to every owner, who publishes with it",
            *("release", "TABLE", "--plan", path.name, *options, "-o", "RELEASE"),
        ),
    )


def of_release(manifest: Manifest, do_next: str) -> Closing:
    """What closes `elldelta release`."""
    from elldelta.plan.words import in_one_sentence
    from elldelta.release.words import formulas_in_words, left_out_words

    units = [(manifest.schema.sensitive.name, manifest.ell, manifest.diversity, manifest.closeness)]
    units += [(unit["column"], unit["ell"], unit["diversity"], unit["closeness"]) for unit in manifest.also]
    account, is_certified = manifest.records, manifest.plan_kind == "certified"
    found = [
        f"{counted(manifest.classes_published, 'class holds', 'classes hold')} records"
        + (
            f" (the plan has {manifest.classes_planned:,})"
            if manifest.classes_published < manifest.classes_planned
            else ""
        )
    ]
    for name, ell, diversity, near in units:
        if diversity is not None and (ell > 1 or near is None):
            found.append(f"at least {counted(diversity, 'value')} of {name!r} in each ({ell} promised)")
        if diversity is not None and near is not None:
            found.append(
                f"shares of {name!r} at most {near['distance']:.3f} from the plan's reference "
                f"({near['allowed']:g} allowed)"
            )
    if manifest.ledger is not None:
        found.append(f"admitted by the ledger as release {manifest.ledger['sequence']:,}")
    elif is_certified:
        found.append(f"safe to publish {manifest.beside}")
    shown = [f"{account['read']:,} read, {account['released']:,} released"]
    if account["repeated"]:
        shown.append(f"{counted(account['repeated'], 'repeats', 'repeat')} another of the person")
    if account["lingering"]:
        shown.append(f"{account['lingering']:,} of the released have gone")
    return Closing(
        in_one_sentence(
            (
                (_called(column), ell, near and near["limit"])
                for column, (_, ell, _, near) in zip(manifest.schema.sensitives, units, strict=True)
            ),
            releases=manifest.releases,
            failure_upper=None if is_certified else manifest.failure_upper,
            by_ledger=manifest.ledger is not None,
        ),
        " ".join([f"{'; '.join(found)}.", *formulas_in_words(manifest)]),
        _lost(manifest.loss),
        f"{_capital(left_out_words(account['left_out']))} ({', '.join(shown)}).",
        do_next,
    )


def of_audit(found: Mapping[str, Any], report: Path | None, again: Sequence[str]) -> Closing:
    """What closes `elldelta audit`.

    Args:
        found: The document of the audit.
        report: The page that was written, if one was.
        again: What the same command needs once more, as its files are there now.
    """
    columns = [found, *found.get("also", ())]
    alone, is_judged = len(found["releases"]) == 1, all(column["judged"] for column in columns)
    words = [found["verdict"]]
    for column in columns:
        if column["judged"] and not column["holds"] and (column["diversity_min_any"] or 0) >= column["ell"]:
            words.append(f"At least {counted(column['diversity_min_any'], 'value')} are left.")
        words += [] if alone else _untried(column["subtraction"])
    if (people := found["targets"]) is not None:
        words.append(
            f"Of {counted(people['targets'], 'target')}, {people['in_all']:,} can be in all releases; "
            f"{people['below']:,} are left with fewer than {counted(found['ell'], 'value')}, "
            f"{people['exposed']:,} with one."
        )
    words += [warning for warning in found["warnings"] if warning not in words]
    more = ["--details"] if report is not None else ["--report", str(_unused(Path("audit.html")))]
    names = [item["name"] for item in found["releases"]]
    step = _answered(found["next_steps"][0], found["subtraction"], names)
    step = f"{step} For everything that was found:"
    if not is_judged:
        step, more = "Give their plan (--closeness-to). Without it, judge values only:", ["--ell", "2"]
    whom = "whoever is in the release" if alone else "everybody, whichever of these releases they are in"
    return Closing(
        f"{_capital(' and '.join(map(_asked, columns)))} for {whom}.",
        " ".join(words),
        _losses(found["releases"]),
        _left_out(found["releases"]),
        f"{step} {output.again(more, again)}",
    )


def of_gate(found: Mapping[str, Any]) -> Closing:
    """What closes `elldelta audit --before`."""
    new = found["before"]
    step = _answered(found["subtraction"]["question"], found["subtraction"], [*found["published"], new], new)
    return Closing(
        f"{_capital(_asked(found))} for whoever is in {found['before']}, whichever others they are in.",
        " ".join([found["verdict"], *_untried(found["subtraction"])]),
        _losses([found["release"]]),
        _left_out([found["release"]]),
        f"{step} For everything that was found: {output.again(['--details'])}".lstrip(),
    )


def of_evidence(record: Mapping[str, Any], do_next: str, *, is_signed: bool) -> Closing:
    """What closes `elldelta evidence`."""
    from elldelta.audit.evidence_page import risk_upper
    from elldelta.plan.words import in_one_sentence
    from elldelta.release.published import ROWS_ONLY

    plan, releases = record["plan"], record["releases"]
    risk, threshold = max(item["risk_highest"] for item in releases), record["about"]["threshold"]
    limit = f" Identification risk: at most {risk_upper(risk)}; the form accepts {threshold:g}."
    state = "Signed." if is_signed else "Not signed." if record["holds"] else "Not signed: it does not hold."
    named = [{**item, "name": item["release"], "described_by": "manifest"} for item in releases]
    notes = [f" {item['release']}: {ROWS_ONLY}" for item in releases if ROWS_ONLY in item["sentences"]]
    reasons = {"missing": "suppressed", "outside": "quarantined", "unpublished": "left_out"}
    return Closing(
        in_one_sentence(
            ((repr(item["column"]), item["ell"], item.get("closeness")) for item in plan["columns"]),
            releases=plan["releases"],
            failure_upper=None if plan["kind"] == "certified" else plan["failure_upper"],
            by_ledger=record["ledger"] is not None,
        ),
        f"{record['verdict']}{limit if risk <= threshold else ''} {state}{''.join(notes)}",
        _losses(named),
        _left_out(
            [
                {**item, "records_left_out": {key: item[f"records_{name}"] for key, name in reasons.items()}}
                for item in named
            ]
        ),
        do_next,
    )


def evidence_next(
    record: Mapping[str, Any],
    folder: Path,
    *,
    plan: Path,
    releases: Sequence[Path],
    published: Sequence[Path],
    csv: Sequence[str],
) -> str:
    """What to do with evidence: read and verify it, or see in an audit what breaks the promise."""
    if record["holds"]:
        return do_next(
            f"Read {folder / 'evidence.pdf'}. Before publishing",
            "verify",
            *map(str, releases),
            "--plan",
            str(plan),
        )
    more = [part for answer in record["about"]["contained"] or () for part in ("--contained", answer)]
    if any("closeness" in column for column in record["plan"]["columns"]):
        more += ["--closeness-to", str(plan)]
    more += [part for each in csv for part in ("--csv", each)]
    files = map(str, [*published, *releases])
    report = str(_unused(Path("audit.html")))
    return do_next("Publish nothing yet. See why", "audit", *files, *more, "--report", report)


def do_next(words: str, *arguments: str) -> str:
    """What to do, and the command that does it."""
    return f"{words}: {shlex.join(['elldelta', *arguments])}"


def _unused(path: Path) -> Path:
    """The path, or one like it that is not there yet."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found


def _called(column: Column) -> str:
    return f"{column.name!r}{' (a missing one counts as a value)' if column.has_missing else ''}"


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _lost(loss: float | None) -> str:
    if loss is None:
        return "Not measured: there is no record."
    return f"{loss:.4f} of the information (0: nothing, 1: everything)."


def _losses(releases: Iterable[Mapping[str, Any]]) -> str:
    """The loss of one release, or of the one that loses most."""
    measured = [item for item in releases if item["loss"] is not None]
    if not measured:
        return _lost(None)
    most = max(measured, key=lambda item: item["loss"])
    words = _lost(most["loss"])[:-1] + (f", by {most['name']}" if len(measured) > 1 else "")
    described_by = {item["described_by"] for item in measured}
    if described_by == {"manifest"}:
        return f"{'At most ' if len(measured) > 1 else ''}{words}."
    # Without a manifest the range is another one, and a loss over it may be smaller than over the same range.
    from elldelta.audit.documents import range_of_loss

    return f"{'Highest measured: ' if len(measured) > 1 else ''}{words}; {range_of_loss(described_by)}."


def _left_out(releases: Sequence[Mapping[str, Any]]) -> str:
    """The records that releases leave out, by release."""
    from elldelta.release.words import left_out_words

    words, silent = [], []
    for item in releases:
        if sum(item["records_left_out"].values()):
            words.append(f"{item['name']}: {left_out_words(item['records_left_out'])}")
        if item["described_by"] != "manifest":
            silent.append(item["name"])
    if silent:
        words.append(f"{', '.join(silent)}: not known, without a manifest")
    return f"{'; '.join(words) or 'None'}."


def _asked(column: Mapping[str, Any]) -> str:
    """What is asked of a sensitive column."""
    name, ell, near, asked = column["sensitive"], column["ell"], column["closeness"], []
    if not column.get("judged", True):
        return f"closeness of {name!r} to what only the plan says"
    if ell > 1 or near is None:
        each = " by each plan for its own releases" if len(column.get("plans", ())) > 1 else ""
        source = f"promised{each}" if ell == column["promised"] else "asked for"
        asked.append(f"at least {counted(ell, 'value')} of {name!r} left ({source})")
    if near is not None:
        asked.append(f"shares of {name!r} within {100 * near['allowed']:g} points of {near['reference']}")
    return " and ".join(asked)


def _untried(subtraction: Mapping[str, Any]) -> list[str]:
    """What must not be overlooked where releases were not subtracted from each other."""
    pairs = subtraction["pairs"]
    untried = sum(pair["status"] == "not tried" for pair in pairs)
    if not untried:
        return []
    return [f"Subtraction was not tried for {untried:,} of {counted(len(pairs), 'pair')} of releases."]


def _answered(
    words: str, subtraction: Mapping[str, Any], releases: Sequence[str], new: str | None = None
) -> str:
    """Words, and the options that answer the question about subtraction, if the words ask it.

    Args:
        words: The words.
        subtraction: What subtraction showed.
        releases: The names of the releases, in their order.
        new: The one that is not published yet: it ends its series without being named.
    """
    if not words or words != subtraction["question"]:
        return words
    alike = (subtraction["status"], subtraction["because"])
    pairs = [pair for pair in subtraction["pairs"] if (pair["status"], pair["because"]) == alike]
    worst = min(pairs, key=lambda pair: pair["diversity_min"])
    names = sorted(worst["releases"], key=releases.index)
    answers = [shlex.join(["--contained", ",".join(names)])]
    if not worst["is_series"]:
        answers.insert(0, shlex.join(["--series", ",".join(name for name in names if name != new)]))
    return f"{words} Add {' or '.join(answers)}."
