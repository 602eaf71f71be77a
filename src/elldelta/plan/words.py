"""What a plan promises, in words, and what must be true for it.

The words are part of the file and of its digest. They are written when a plan is made and never reworded; a
file in other words than these is refused, because nobody else's promise counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.core.generalize.bounds import FEWEST_EXPECTED
from elldelta.plan.closeness import Closeness
from elldelta.plan.several import slicing_conditions

if TYPE_CHECKING:
    from elldelta.plan.plan import Plan


def promise_of(plan: Plan) -> str:
    """What a plan promises."""
    if plan.schema.also_sensitive:
        return " ".join(dict.fromkeys(part for face in plan.faces for part in _sentences(face)))
    return " ".join(_sentences(plan))


def _sentences(plan: Plan) -> list[str]:
    from elldelta.plan.movers import who_moves

    is_certified, t = plan.is_certified, plan.releases
    made = "that pass the certificate of this plan" if is_certified else "made with this plan"
    one = f"release {made.replace('that pass', 'that passes')}"
    several = t > 1 or plan.owners is not None
    moves = who_moves(plan.schema, plan.movers)
    who = f"every person who is in all of them{moves}" if several else "every person in it"
    values = "values" if plan.schema.sensitive.value_groups is None else "groups of values"
    left = f"{who} among at least {plan.ell} {values} of {plan.schema.sensitive.name!r}"
    if plan.schema.sensitive.has_missing:
        left += " (a missing one counts as a value)"
    which = f"Any {t} releases {made}, linked together, leave" if t > 1 else f"A {one} leaves"
    after = f"After linking any {t} releases {made}" if t > 1 else f"With any {one}"
    if plan.owners is not None:
        which = "Releases of this plan that one ledger has admitted, linked in any way, leave"
        after = "After linking releases of this plan that one ledger has admitted"
    parts = [f"{which} {left}"] if plan.promises_values else []
    if plan.closeness is not None:
        someone = "a person who is in all of them" if several else "a person in it"
        near = plan.closeness.words(plan.schema.sensitive.name, someone)
        parts.append(f"{after}, {near}")
    if is_certified:
        told = [f"{part}, for certain." for part in parts]
        if plan.closeness is not None:
            told[-1] = f"For certain: {parts[-1][0].lower()}{parts[-1][1:]}."
        return [*told, _chance_of_passing(plan)]
    return [
        f"{parts[0]}, except with probability at most {rounded_up(plan.failure_upper)} "
        f"(asked for: {plan.delta:g} per release). Each release needs at least {plan.records} records."
    ]


def _chance_of_passing(plan: Plan) -> str:
    if plan.owners is not None:
        return (
            f"If {plan.owners} owners publish {plan.records} records each, a class has to be merged by "
            f"one of them with probability at most {plan.waiting_risk:g}."
        )
    if plan.closeness is not None:
        return (
            f"With {plan.records} records each class with more than {FEWEST_EXPECTED} of them is "
            f"estimated to fail with a chance of at most {plan.waiting_risk:g}; an owner merges the "
            "classes that do, or leaves their records out."
        )
    if plan.waiting_risk is not None:
        return (
            f"With {plan.records} records each class fails with probability at most "
            f"{plan.waiting_risk:g}; an owner merges the classes that do."
        )
    return (
        f"A release of at least {plan.records} records passes, except with probability at most "
        f"{rounded_up(plan.failure_upper / plan.releases)}."
    )


def conditions_of(plan: Plan) -> tuple[str, ...]:
    """What must be true for the promise to hold."""
    own = _own_conditions(plan)
    if plan.is_certified or plan.releases > 1:  # several releases may be linked
        own = (*own, plan.about_changes, *_same_values(plan))
    if any(face.closeness is not None for face in (plan, *plan.also)):
        own = (*own, Closeness.CONDITION)
    if plan.schema.also_sensitive:
        own = (*own, *slicing_conditions(plan.schema))
    return own


def _same_values(plan: Plan) -> tuple[str, ...]:
    names = " and of ".join(repr(name) for name in plan.schema.sensitive_names)
    return (f"Everybody has the same value of {names} in every linked release.",)


def _own_conditions(plan: Plan) -> tuple[str, ...]:
    distribution = "independent draws from the distribution of the model"
    others = f", or others with at least {plan.ell} values" if plan.promises_values else ""
    if plan.also:
        others = ", or others with at least as many values of each column as are promised"
    if plan.is_certified:
        return (
            "Every linked release passes the certificate of this plan; 'elldelta verify' checks it.",
            f"At most {plan.releases} releases are linked, or one ledger has admitted all of them."
            if plan.owners is None
            else "Where several releases are linked, one ledger has admitted all of them.",
            "Subtracting releases shows no smaller group: where all people of classes in one "
            f"release are in a class of another, that class holds nobody else{others}. 'elldelta audit' "
            "looks for such groups.",
            f"Only the chance of passing assumes that records are {distribution}.",
        )
    return (
        "All linked releases use this plan's classes, fixed before anybody's records were seen.",
        f"Each release's records are {distribution}.",
        f"Each release has at least {plan.records} records, a number not chosen by looking at them.",
        "Releases may share people in any way, and may even be copies of each other.",
    )


def rounded_up(probability: float) -> str:
    """A probability in three digits that is never smaller than the number itself.

    >>> rounded_up(0.0294056)
    '0.0295'
    """
    from decimal import ROUND_CEILING, Context, Decimal

    exact = Decimal(probability)
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).plus(exact)):g}"
