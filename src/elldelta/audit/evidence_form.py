"""The form about a publication: what only people know, typed once, in a small TOML file."""

from __future__ import annotations

import datetime as dt
import os
import tomllib
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError, ParameterError
from elldelta.files import AtomicFiles, read_text
from elldelta.plan.signature import given_plan

if TYPE_CHECKING:
    from elldelta.plan.plan import Plan

THRESHOLD = 0.09
"""The identification risk that is compared with, unless somebody says another: a class of 12."""

_TEXTS = ("title", "publisher", "recipients", "people", "purpose", "setting", "outputs")
_OTHERS = ("review", "expires", "threshold", "quasi_identifiers", "signatures", "contained")
_UNANSWERED = "?"
NOT_STATED = "[not stated]"
"""What the page shows where the form was left blank."""

FORM = """\
# What only people know about a publication. Fill it in once; 'elldelta evidence' puts it on the page.
title      = ""   # what is published, such as "Discharges of 2025"
publisher  = ""   # who publishes it
recipients = ""   # "public", or who gets it and under which agreement
people     = ""   # who may use it, and what they were taught or have signed
purpose    = ""   # what it is for, and why less would not do
setting    = ""   # where it is used: a public site, a secure room, a project space
outputs    = ""   # what may leave that place, and who looks at it first
threshold  = {threshold}   # the largest identification risk that you accept; 0.09 is a class of 12
contained  = "?"   # is all of a table, or of one class, also in another? "no", or which: "a.csv,b.csv"
review     = {review}   # when somebody looks at this again
expires    = {expires}   # after this day the evidence counts no more
signatures = ["Privacy officer", "Owner of the data"]   # who signs

[quasi_identifiers]   # why each may be known to others, or where else it is published
{columns}
"""


def write_form(
    plan: str | os.PathLike[str], to: str | os.PathLike[str], *, today: dt.date | None = None
) -> None:
    """Writes a form for what only people know, with the columns of a plan, to be filled in."""
    known, _ = given_plan(plan, to_use=False)
    day = today or dt.datetime.now(dt.UTC).date()
    columns = "\n".join(f'{_key(name)} = ""' for name in known.schema.names)
    text = FORM.format(
        threshold=THRESHOLD,
        review=day + dt.timedelta(days=365),
        expires=day + dt.timedelta(days=3 * 365),
        columns=columns,
    )
    with AtomicFiles() as files:
        files.stage(to).write_text(text, encoding="utf-8")


def read_about(path: str | os.PathLike[str], plan: Plan) -> dict[str, Any]:
    """What only people know, checked; what is blank is marked as not stated.

    Raises:
        FileError: Something is not what it must be.
    """
    remedy = "Let a new form be written, and fill it in."
    try:
        answers = tomllib.loads(read_text(path, "form", remedy=remedy))
    except (ValueError, RecursionError):  # or nested deeper than any form
        raise FileError(
            f"{os.fspath(path)} is not TOML.", found="It cannot be read.", remedy=remedy
        ) from None
    reasons = answers.setdefault("quasi_identifiers", {})
    reasons = reasons if isinstance(reasons, dict) else {"quasi_identifiers": None}
    blank = [name for name in _TEXTS if _is_blank(answers, name)]
    blank += [f"quasi_identifiers.{name}" for name in plan.schema.names if _is_blank(reasons, name)]
    wrong = [name for name in _TEXTS if not _is_text(answers[name])]
    wrong += [name for name in ("review", "expires") if type(answers.get(name)) is not dt.date]
    threshold = answers.setdefault("threshold", THRESHOLD)
    if type(threshold) not in (int, float) or not 0.0 < threshold <= 1.0:
        wrong.append("threshold")
    answer = answers.get("contained", _UNANSWERED)
    names = [answer] if isinstance(answer, str) else answer
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        wrong.append("contained")
        names = []
    answers["contained"] = [each.strip() for each in names if each.strip() not in ("", _UNANSWERED)]
    wrong += [f"quasi_identifiers.{name}" for name in plan.schema.names if not _is_text(reasons[name])]
    signers = answers.setdefault("signatures", [])
    if not isinstance(signers, list) or not all(map(_is_text, signers)):
        wrong.append("signatures")
    unknown = sorted({*answers} - {*_TEXTS, *_OTHERS} | {*reasons} - {*plan.schema.names})
    if wrong or unknown:
        found = [f"Not of the right kind: {', '.join(wrong)}."] if wrong else []
        found += [f"Not known here: {', '.join(unknown)}."] if unknown else []
        raise FileError(f"The form {os.fspath(path)} cannot be used.", found=" ".join(found), remedy=remedy)
    dates = {name: f"{answers[name]}" for name in ("review", "expires")}
    return {**answers, **dates, "not_stated": blank}


def _is_blank(answers: dict[str, Any], name: str) -> bool:
    """Whether an answer is blank; it is then marked as not stated."""
    is_blank = isinstance(answers.setdefault(name, ""), str) and not answers[name].strip()
    answers[name] = NOT_STATED if is_blank else answers[name]
    return is_blank


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _key(name: str) -> str:
    """A column as a key of TOML."""
    if name.isascii() and name.replace("_", "").replace("-", "").isalnum():
        return name
    if '"' in name or "\\" in name or not name.isprintable():
        raise ParameterError("A column's name cannot be written into the form.", found="It holds quotes.")
    return f'"{name}"'
