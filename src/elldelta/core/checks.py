"""Range checks for the parameters that every part of the core shares."""

from __future__ import annotations

import math
from numbers import Real

from elldelta.errors import ParameterError


def check_ell(ell: int, n_values: int) -> int:
    """Returns `ell` if it is a whole number in 1..n_values."""
    if isinstance(ell, bool) or not _is_whole(ell) or not 1 <= ell <= n_values:
        raise ParameterError(
            f"ell must be a whole number from 1 to {n_values}, the number of sensitive values.",
            found=f"ell is {ell}.",
            remedy="Choose an ell in that range.",
        )
    return int(ell)


def check_delta(delta: float) -> float:
    """Returns `delta` if it lies strictly between 0 and 1."""
    if not _is_number(delta) or not 0.0 < delta < 1.0:
        raise ParameterError(
            "delta must lie strictly between 0 and 1.",
            found=f"delta is {delta}.",
            remedy="A usual choice is 0.01 per release.",
        )
    return float(delta)


def check_releases(releases: int) -> int:
    """Returns `releases` if it is a whole number of at least 1."""
    return check_count("the number of releases", releases)


def check_count(name: str, value: int) -> int:
    """Returns `value` if it is a whole number of at least 1."""
    if isinstance(value, bool) or not _is_whole(value) or value < 1:
        raise ParameterError(
            f"{name[0].upper()}{name[1:]} must be a whole number, 1 or more.", found=f"It is {value}."
        )
    return int(value)


def check_p(p: float, p_ell: float, ell: int) -> float:
    """Returns `p` if it lies in (0, p_ell]; a p above p_ell by rounding alone becomes p_ell."""
    if p_ell <= 0.0:
        raise ParameterError(
            f"No p is possible: fewer than ell = {ell} sensitive values have positive probability.",
            found=f"The ell-th largest marginal p_ell is {p_ell}.",
            remedy="Choose a smaller ell.",
        )
    if not _is_number(p) or not 0.0 < p <= p_ell * (1.0 + 1e-12):
        raise ParameterError(
            f"p must lie in (0, {p_ell!r}], where the upper end is p_ell, "
            f"the {ell}-th largest marginal probability.",
            found=f"p is {p}.",
            remedy="Choose a smaller p, or give beta = p / p_ell in (0, 1].",
        )
    return min(float(p), p_ell)


def check_beta(beta: float) -> float:
    """Returns `beta` if it lies in (0, 1]."""
    if not _is_number(beta) or not 0.0 < beta <= 1.0:
        raise ParameterError(
            "beta must lie in (0, 1], because p = beta p_ell.",
            found=f"beta is {beta}.",
            remedy="The paper uses 0.01 and 0.02.",
        )
    return float(beta)


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    try:
        return int(value) == value  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError, OverflowError):
        return False
