"""What a plan promises, in words, and what must be true for it.

The words are part of the file and of its digest. They are written when a plan is made and never reworded; a
file in other words than these is refused, because nobody else's promise counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.errors import counted
from elldelta.plan.closeness import Closeness
from elldelta.plan.columns import APART

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from elldelta.parameters import Movers
    from elldelta.plan.columns import ColumnPlan
    from elldelta.plan.plan import Plan
    from elldelta.schema.column import Column
    from elldelta.schema.schema import Schema


NEGLIGIBLE = 1e-9
"""Smaller chances of a refusal are not told apart."""

DO_NOT_SHARE = (
    "Owners do not share people: classes that moved up differently can be subtracted from each other. Owners "
    "who share people use a plan with fixed classes, made without a merge risk."
)
"""A condition of plans whose classes move."""


COUNT_PERSONS = (
    "Every linked release counts persons, not records: its owner names the column that tells them apart."
)
"""A condition of plans from past records of people who have several."""


def promise_of(plan: Plan) -> str:
    """What a plan promises."""
    columns = zip(plan.columns, plan.schema.sensitives, strict=True)
    sentences = [sentence for pair in columns for sentence in _sentences(plan, *pair)]
    if plan.is_certified and plan.k > max(plan.ells) * plan.min_records:
        sentences.append(f"No published class holds fewer than {counted(plan.k, 'record')}.")
    return " ".join((*sentences, *(_chances_of_passing(plan) if plan.is_certified else ())))


def in_one_sentence(
    columns: Iterable[tuple[str, int, float | None]],
    *,
    releases: int,
    failure_upper: float | None,
    by_ledger: bool,
) -> str:
    """What is promised of linked releases, in one sentence.

    Args:
        columns: Of every sensitive column its name, the values that are left, and the closeness or None.
        releases: How many releases may be linked.
        failure_upper: How likely the promise fails; None if it holds for certain.
        by_ledger: Whether one ledger admits all releases, and any number may be linked.
    """
    kept = []
    for name, ell, closeness in columns:
        if ell > 1 or closeness is None:
            kept.append(f"at least {counted(ell, 'value')} of {name} are left")
        if closeness is not None:
            kept.append(f"shares of {name} are within {100 * closeness:g} points of the plan's reference")
    which = (
        f"any {counted(releases, 'linked release')} of the plan" if releases > 1 else "a release of the plan"
    )
    if by_ledger:
        which = "any linked releases that one ledger has admitted"
    surely = "for certain"
    if failure_upper is not None:
        surely = f"except with probability at most {rounded_up(failure_upper)}"
    words = f"{' and '.join(kept)} for whoever is in {which}, {surely}, if the plan's conditions are true."
    return words[0].upper() + words[1:]


def _sentences(plan: Plan, column: ColumnPlan, sensitive: Column) -> list[str]:
    """What is promised of one sensitive column."""
    is_certified, t = plan.is_certified, plan.releases
    made = "that pass the certificate of this plan" if is_certified else "made with this plan"
    one = f"release {made.replace('that pass', 'that passes')}"
    several = t > 1 or plan.owners is not None
    moves = _who_moves(plan.schema, plan.movers)
    who = f"every person who is in all of them{moves}" if several else "every person in it"
    values = "values" if sensitive.value_groups is None else "groups of values"
    left = f"{who} among at least {column.ell} {values} of {sensitive.name!r}"
    if sensitive.has_missing:
        left += " (a missing one counts as a value)"
    which = f"Any {t} releases {made}, linked together, leave" if t > 1 else f"A {one} leaves"
    after = f"After linking any {t} releases {made}" if t > 1 else f"With any {one}"
    if plan.owners is not None:
        which = "Releases of this plan that one ledger has admitted, linked in any way, leave"
        after = "After linking releases of this plan that one ledger has admitted"
    if not is_certified:
        return [
            f"{which} {left}, except with probability at most {rounded_up(column.failure_upper)} "
            f"(asked for: {plan.delta:g} per release). Each release needs at least "
            f"{counted(plan.records, 'record')}."
        ]
    sentences = [f"{which} {left}, for certain."] if column.promises_values else []
    if column.closeness is not None:
        someone = "a person who is in all of them" if several else "a person in it"
        near = column.closeness.words(sensitive.name, someone)
        sentences.append(f"For certain: {after[0].lower()}{after[1:]}, {near}.")
    return sentences


def _chances_of_passing(plan: Plan) -> list[str]:
    """How likely owners are refused and, where classes move, what happens to those that do not pass."""
    failure = plan.failure_upper
    if plan.moving is None:
        return [_chance_of_fixed(plan, failure)]
    moving, shows, at_most = plan.moving, "shows too few values", "with probability at most"
    if plan.k > max(plan.ells) * plan.min_records:
        shows = "does not pass"
    if plan.promises_closeness:
        shows, at_most = "is estimated not to pass", "with a chance of at most"
    reads = "one release" if plan.owners is None else "one release and all that its ledger admitted before"
    each = f"In a release of at least {counted(plan.records, 'record')} a class {shows}"
    if plan.owners is not None:
        each = (
            f"If {counted(plan.owners, 'owner publishes', 'owners publish')} "
            f"{counted(plan.records, 'record')} each, a class of one of them {shows}"
        )
    return [
        f"{each} {at_most} {moving.merge_risk:g}. It is then published together with its "
        "neighbour in the tree of this plan, and some others are by chance (decoys), so that a merged class "
        "does not tell why it was merged, unless it has too few people to pass.",
        f"Somebody reads {reads}, and knows who is in which class, but neither values nor the owner's key. "
        "It moves their odds of any two tables that differ inside one merged class, one step above a class "
        f"of this plan, by a factor of at most K_1 = {rounded_up(moving.k1)}; every further step multiplies "
        f"it by {1.0 / moving.q:g}, and the factors of several merged classes, and of several releases, "
        "multiply.",
        f"{_refused_if_moving(plan)} if not even all classes together pass: "
        + (
            f"with probability at most {rounded_up(failure) if failure > NEGLIGIBLE else f'{NEGLIGIBLE:g}'}."
            if not plan.promises_closeness
            else f"estimated, with a chance of at most {plan.delta:g}."
        ),
    ]


def chance_in_short(plan: Plan) -> str:
    """How likely a release is refused, or the promise fails, as part of a sentence."""
    if not plan.is_certified:
        return f"the promise fails with probability at most {rounded_up(plan.failure_upper)}"
    if plan.promises_closeness:
        return f"a release is refused with an estimated chance of at most {plan.delta:g}"
    which, failure = "a release", plan.failure_upper
    if plan.moving is not None or plan.owners is not None:
        which = "a release" if plan.n_planned == 1 else f"one of {counted(plan.n_planned, 'release')}"
    else:
        failure /= plan.releases
    at_most = rounded_up(failure) if failure > NEGLIGIBLE else f"{NEGLIGIBLE:g}"
    return (
        f"{which} of {counted(plan.records, 'record')} or more is refused with probability at most {at_most}"
    )


def _refused_if_moving(plan: Plan) -> str:
    if plan.n_planned == 1:
        return f"A release of at least {counted(plan.records, 'record')} is refused"
    return (
        f"One of {counted(plan.n_planned, 'release')} of at least "
        f"{counted(plan.records, 'record')} each is refused"
    )


def _chance_of_fixed(plan: Plan, failure: float) -> str:
    refused = "refused, or leaves out the classes that do not pass and says so"
    if plan.promises_closeness:
        return (
            f"A release of at least {counted(plan.records, 'record')} is estimated to pass, except "
            "with a chance of "
            f"at most {plan.delta:g}; one that does not is {refused}."
        )
    if plan.owners is not None:
        return (
            f"If {counted(plan.owners, 'owner publishes', 'owners publish')} "
            f"{counted(plan.records, 'record')} each, the ledger admits them all, "
            f"except with probability at most {rounded_up(failure)}; one that does not pass is {refused}."
        )
    return (
        f"A release of at least {counted(plan.records, 'record')} passes, except with probability at most "
        f"{rounded_up(failure / plan.releases)}; one that does not is {refused}."
    )


def conditions_of(plan: Plan) -> tuple[str, ...]:
    """What must be true for the promise to hold."""
    conditions = _conditions_of_kind(plan)
    if plan.is_certified or plan.releases > 1:  # several releases may be linked
        conditions = (*conditions, plan.about_changes, *_same_values(plan))
    if plan.promises_closeness:
        conditions = (*conditions, Closeness.CONDITION)
    if len(plan.columns) > 1:
        conditions = (*conditions, APART)
    return conditions


def _same_values(plan: Plan) -> tuple[str, ...]:
    names = " and of ".join(repr(name) for name in plan.schema.sensitive_names)
    return (f"Everybody has the same value of {names} in every linked release.",)


def _conditions_of_kind(plan: Plan) -> tuple[str, ...]:
    distribution = "independent draws from the distribution of the model"
    promised = [
        f"{counted(column.ell, 'value')} of {name!r}"
        for column, name in zip(plan.columns, plan.schema.sensitive_names, strict=True)
        if column.promises_values
    ]
    others = f" that shows fewer than {' or '.join(promised)}" if promised else ""
    sought = "such groups" if promised else "groups that show one value"
    if plan.is_certified:
        return (
            "Every linked release passes the certificate of this plan; 'elldelta verify' checks it.",
            f"At most {counted(plan.releases, 'release is', 'releases are')} linked, or one ledger "
            "has admitted all of them."
            if plan.owners is None
            else "Where several releases are linked, one ledger has admitted all of them.",
            f"No release minus another may isolate a group{others}; 'elldelta audit' looks for {sought}.",
            *(() if plan.moving is None else (DO_NOT_SHARE,)),
            *((COUNT_PERSONS,) if plan.persons else ()),
            f"Only the chance of passing assumes that records are {distribution}.",
        )
    return (
        "All linked releases use this plan's classes, fixed before anybody's records were seen.",
        f"Each release's records are {distribution}.",
        f"Each release has at least {counted(plan.records, 'record')}, a number not chosen by "
        "looking at them.",
        "Releases may share people in any way, and may even be copies of each other, but no release minus "
        f"another may isolate a group{others}.",
    )


def rounded_up(probability: float) -> str:
    """A probability in three digits that is never smaller than the number itself.

    >>> rounded_up(0.0294056), rounded_up(0.01)
    ('0.0295', '0.01')
    """
    from decimal import ROUND_CEILING, Context, Decimal

    exact = Decimal(repr(float(probability)))  # 0.01 itself is a little more than 1/100
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).plus(exact)):g}"


def _who_moves(schema: Schema, movers: Movers | None) -> str:
    """Words for the promise: which changes it covers."""
    if movers is None:
        return ""
    return (
        ", whatever changes about them in between,"
        if movers == "any"
        else f", also if {_named(schema.changing)} change{_s(schema.changing)} in between,"
    )


def about_changes(schema: Schema, movers: Movers | None) -> str:
    """What is assumed about changes of people, in a sentence."""
    if movers == "any":
        return "Everything about a person may change between releases, except the sensitive value."
    if movers is None:
        return (
            "Nobody's quasi-identifiers change between releases: the promise is about people who stay in "
            "their class. Declare columns that change ('changes = true' in the schema)."
        )
    same = [name for name in schema.names if name not in schema.changing]
    rest = f"; {_named(same)} stay{_s(same)} the same for everybody in all linked releases" if same else ""
    changing = f"{_named(schema.changing)} change{_s(schema.changing)}"
    return f"Of the quasi-identifiers of a person only {changing}{rest}."


def _named(columns: Sequence[str]) -> str:
    """Columns by name, as a sentence lists them."""
    *most, last = map(repr, columns)
    return f"{', '.join(most)} and {last}" if most else last


def _s(columns: Sequence[str]) -> str:
    """The end of a verb after the names of columns."""
    return "s" if len(columns) == 1 else ""
