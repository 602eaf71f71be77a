"""What a manifest says, in words: what became of the records, what is shown, and what is promised."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

from elldelta.errors import counted
from elldelta.schema.domains import Categories

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elldelta.release.manifest import Manifest, Updated
    from elldelta.schema.column import Column

_FORMULA = re.compile(r"[=+@\t\r-](?![\d.,]+$)")
"""How a text begins that spreadsheets compute when they open a CSV file; a number is none."""


def sentences_of(manifest: Manifest) -> tuple[str, ...]:
    """What became of the records and what is promised, in words."""
    is_certified = manifest.plan_kind == "certified"
    # Who has left a table that lives may still be shown: these are no part of what was read.
    read = f" of {counted(manifest.records_read, 'record')}"
    if manifest.update is not None:
        read = " record" if manifest.records_released == 1 else " records"
    classes = counted(manifest.classes_published, "class", "classes")
    if manifest.classes_published < manifest.classes_planned:
        classes += f"; the plan has {manifest.classes_planned:,}"
    sentences = [f"Released {manifest.records_released:,}{read} in {classes}."]
    if manifest.diversity is None:
        sentences.append("No class has a record.")
    elif manifest.closeness is None or manifest.ell > 1:
        sentences.append(
            f"Every class shows at least {counted(manifest.diversity, 'value')}; {manifest.ell} were "
            "promised." + (" A missing value counts as one." if manifest.schema.sensitive.has_missing else "")
        )
    sentences += [
        f"Of {unit['column']!r} every class shows at least {counted(unit['diversity'] or 0, 'value')}; "
        f"{unit['ell']} were promised. Which values of two columns are one person's is not told."
        for unit in manifest.also
    ]
    if manifest.closeness is not None and manifest.diversity is not None:
        near = manifest.closeness
        linked = (
            f", {near['limit']:g} after linking {counted(manifest.releases, 'release')}"
            if manifest.releases > 1
            else ""
        )
        sentences.append(
            f"No class is further than {near['distance']:.3f} from what the plan says of its values; "
            f"{near['allowed']:g} is allowed{linked}."
        )
    sentences += _choice(manifest)
    if manifest.update is not None and "classes_changed" in manifest.update:
        sentences += _updated(manifest.update)
    if is_certified and manifest.ledger is None:
        sentences.append(f"Certified: safe to publish {manifest.beside}.")
    elif is_certified and manifest.ledger is not None:
        again = "" if manifest.update is None else " It may be published again, with the state."
        sentences.append(
            f"Certified, and admitted by the ledger as release {manifest.ledger['sequence']}.{again}"
        )
    if manifest.persons is not None:
        sentences.append(
            f"By the owner's count {counted(manifest.persons['persons'], 'person')}, at least "
            f"{manifest.persons['persons_per_class']:,} in every class; each is shown once per value, "
            f"{counted(manifest.persons['records_repeated'], 'record repeats', 'records repeat')} one."
        )
    if manifest.weights is not None:
        sentences.append(
            f"{manifest.weights['column']!r} is the mean weight of the class"
            f"{' and value' if manifest.weights['per'] == 'value' else ''}, shared with neighbours where "
            f"there are fewer than {counted(manifest.weights['fewest'], 'record')}. Total weights are "
            f"rounded to multiples of {manifest.weights['step']:,g}, so that no record's weight is told."
        )
    sentences += _account(manifest)
    sentences += formulas_in_words(manifest)
    return tuple(sentences)


def formulas_in_words(manifest: Manifest) -> list[str]:
    """What whoever opens the release must do where spreadsheets would compute its texts."""
    columns = [*manifest.schema.quasi_identifiers, *manifest.schema.sensitives]
    taken = [repr(column.name) for column in columns if _has_formulas(column)]
    if not taken:
        return []
    return [
        f"In a CSV file spreadsheets take texts of {', '.join(taken)} that begin with = + - or @ for "
        "formulas: import them as text."
    ]


def _has_formulas(column: Column) -> bool:
    """Whether its name, or a text that somebody chose for its cells, is a formula to a spreadsheet."""
    texts = [column.name]
    if isinstance(column.domain, Categories):
        texts += column.domain.values
    if column.hierarchy is not None:
        texts += (label for row in column.hierarchy.rows for label in row)
    # Some take wide characters for the plain ones.
    return any(_FORMULA.match(unicodedata.normalize("NFKC", text)) for text in texts)


REASONS = {
    "missing": "with a missing value",
    "outside": "with a value outside its domain",
    "unpublished": "in classes that are not published",
}
"""Why records are left out, in words."""


def left_out_words(left_out: Mapping[str, int]) -> str:
    """How many records are left out, and why.

    >>> left_out_words({"missing": 1200, "outside": 0, "unpublished": 3})
    '1,203 records: 1,200 with a missing value, 3 in classes that are not published'
    >>> left_out_words({"missing": 0})
    'none'
    """
    listed = [f"{number:,} {REASONS[reason]}" for reason, number in left_out.items() if number]
    return f"{counted(sum(left_out.values()), 'record')}: {', '.join(listed)}" if listed else "none"


def _account(manifest: Manifest) -> Iterator[str]:
    """What became of the records that are not shown, and how much information is lost."""
    if manifest.records_lost:
        yield f"Left out: {left_out_words(manifest.records['left_out'])}."
    if manifest.loss is not None:
        yield f"Information loss: {manifest.loss:.4f} (0 is exact; a record that is left out counts 1)."


def _choice(manifest: Manifest) -> Iterator[str]:
    """How the classes were chosen, and what that tells, in words."""
    moved = manifest.moving
    if moved is not None:
        yield (
            f"Of {counted(moved['classes_planned'], 'planned class', 'planned classes')} "
            f"{moved['classes_together']:,} are published "
            "together with neighbours in the plan's tree, by chance or because one shows too little by "
            "itself. Which of the two, the release does not tell for certain, unless a class has too few "
            "people to pass."
        )
        yield (
            "To somebody who reads this release alone, the choice of classes changes the odds of two tables "
            f"that differ inside one class by a factor of at most {math.ceil(moved['odds_upper']):,}. Owners "
            "who share people should use a plan with fixed classes."
        )
    elif manifest.leave_out:
        yield (
            f"{counted(manifest.records_left_out, 'record is', 'records are')} left out, with the "
            "classes that did not pass. "
            "Whoever knows that somebody is in a missing class learns that it did not pass."
        )
    elif manifest.update is None:
        yield "The classes are the plan's: which ones are published depends on nobody's values."


def _updated(update: Updated) -> Iterator[str]:
    """What has changed since the last release, in words."""
    yield (
        f"Since the last release {counted(update['classes_changed'], 'class has', 'classes have')} changed, "
        f"{update['classes_unchanged']:,} had no change, {update['classes_waiting']:,} wait, "
        f"{update['classes_withheld']:,} are withheld."
    )
    yield (
        f"Records: {update['records_joined']:,} came and {update['records_left']:,} went; "
        f"{update['records_waiting']:,} wait to come, {update['records_lingering']:,} to go, "
        f"{update['records_moved']:,} are shown in the class they have left; {update['records_returned']:,} "
        "came back and are not shown again. The longest wait is "
        f"{counted(update['longest_wait'], 'release')}."
    )
