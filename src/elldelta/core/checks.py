"""Checks of the parameters that every part shares: what comes back is a plain number in its range."""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING

from elldelta.errors import ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_RECORDS = 10**12
"""Plans are not made for more records, and searches for a number of records end here."""


def check_whole(
    name: str,
    value: object,
    least: int = 1,
    most: int | None = None,
    of: str = "",
    *,
    parameter: str | tuple[str, ...] = (),
) -> int:
    """Returns `value` if it is a whole number, of any type that is one, in least..most.

    >>> check_whole("ell", 4.0)
    Traceback (most recent call last):
    ...
    elldelta.errors.ParameterError: ell must be a whole number, 1 or more. It is 4.0, a float. Write 4.
    """
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    span = f", {least:,} or more" if most is None else f" from {least:,} to {most:,}"
    is_written_wrongly = isinstance(value, float) and value.is_integer()
    raise ParameterError(
        f"{capitalized(name)} must be a whole number{span}{of}.",
        found=f"It is {described(value)}.",
        remedy=f"Write {value:.0f}." if is_written_wrongly else "Choose a number in that range.",
        parameter=parameter,
    )


def capitalized(noun: str) -> str:
    """A noun at the beginning of a sentence; ell, p and beta stay as they are."""
    return f"T{noun[1:]}" if noun.startswith("the ") else noun


def check_real(
    value: object,
    is_inside: Callable[[float], bool],
    problem: str,
    remedy: str = "",
    *,
    parameter: str | tuple[str, ...] = (),
) -> float:
    """Returns `value` if it is a number in a range; `problem` says what is wrong otherwise."""
    with suppress(OverflowError):  # a whole number that is no float lies in no range
        if not isinstance(value, bool) and isinstance(value, Real) and is_inside(float(value)):
            return float(value)
    raise ParameterError(problem, found=f"It is {described(value)}.", remedy=remedy, parameter=parameter)


def check_ell(ell: object, n_values: int) -> int:
    """Returns `ell` if it is a whole number in 1..n_values."""
    return check_whole("ell", ell, 1, n_values, ", the number of sensitive values")


def check_delta(delta: object) -> float:
    """Returns `delta` if it lies strictly between 0 and 1."""
    return check_real(
        delta,
        lambda delta: 0.0 < delta < 1.0,
        "delta must lie strictly between 0 and 1.",
        "A usual choice is 0.01 per release.",
    )


def check_eta(eta: object) -> float:
    """Returns `eta` if it lies in [0, 1)."""
    return check_real(
        eta,
        lambda eta: 0.0 <= eta < 1.0,
        "eta, the error of P in total variation, must lie in [0, 1).",
        "0 means that P is taken as exact; certificates need no eta at all.",
    )


def check_releases(releases: object) -> int:
    """Returns `releases` if it is a whole number of at least 1."""
    return check_whole("the number of releases", releases)


def check_p(p: object, p_ell: float, ell: int) -> float:
    """Returns `p` if it lies in (0, p_ell]; a p above p_ell by rounding alone becomes p_ell."""
    if p_ell <= 0.0:
        raise ParameterError(
            f"No p is possible: fewer than ell = {counted(ell, 'sensitive value')} with positive "
            "probability.",
            found=f"The ell-th largest marginal p_ell is {p_ell}.",
            remedy="Choose a smaller ell.",
        )
    number = check_real(
        p,
        lambda p: 0.0 < p <= p_ell * (1.0 + 1e-12),
        f"p must lie in (0, {p_ell!r}], where the upper end is p_ell, "
        f"the {ell}-th largest marginal probability.",
        "Choose a smaller p, or give beta = p / p_ell in (0, 1].",
    )
    return min(number, p_ell)


def check_p_or_beta(p: float | None, beta: float | None) -> None:
    """Refuses both of them, and neither."""
    if (p is None) == (beta is None):
        raise ParameterError(
            "Give either p or beta.",
            found="Neither was given." if p is None else "Both were given.",
            remedy="Beta is p as a share of the largest p there is; 0.01 is a good start.",
            parameter=("p", "beta"),
        )


def check_beta(beta: object) -> float:
    """Returns `beta` if it lies in (0, 1]."""
    return check_real(
        beta,
        lambda beta: 0.0 < beta <= 1.0,
        "beta must lie in (0, 1], because p = beta p_ell.",
        "The paper uses 0.01 and 0.02.",
    )


def described(value: object) -> str:
    """A parameter for a message: what it is if that is short, otherwise only its type."""
    kind = type(value).__name__
    if isinstance(value, int) and not isinstance(value, bool):  # Python writes no number of 5,000 digits
        return f"{value}" if abs(value) < 10**30 else "a number of more than 30 digits"
    text = repr(value)
    return f"{text}, a {kind}" if len(text) < 30 and "\n" not in text else f"of the type {kind}"
