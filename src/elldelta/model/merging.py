"""Adding models up: two years, two countries, or the regions of one."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING

from elldelta.errors import ParameterError, RefusedError
from elldelta.files import loaded
from elldelta.model.counts import merge_counts
from elldelta.model.model import Model
from elldelta.model.noise import scaled
from elldelta.model.past import Past
from elldelta.model.regions import read_past

if TYPE_CHECKING:
    from collections.abc import Iterable


def merge_models(models: Iterable[Past | str | os.PathLike[str]]) -> Model:
    """Adds up models with the same schema, or their files and folders: two years, two countries.

    Of a model by region that is the model of all its regions, as it would have been estimated in one file.
    """
    if isinstance(models, Past | str | os.PathLike):
        raise ParameterError(
            "Merging takes a list of models.",
            found="It is a single one.",
            remedy="Give [first, second, ...].",
        )
    given = [loaded(model, Past, read_past, "Model").whole() for model in models]  # type: ignore[type-abstract]
    noisy = [model for model in given if model.noise]
    if not noisy:
        return Model(merge_counts(model.counts for model in given))
    if len(noisy) < len(given):
        raise RefusedError(
            "Models with noise and exact ones are not merged.",
            found=f"{len(noisy)} of {len(given)} protect their past records.",
            remedy="Estimate all of them with epsilon: what is merged protects nobody better than its parts.",
        )
    finest = max(Fraction(model.counts.n_records, model.n_records) for model in noisy)
    return Model(
        merge_counts(scaled(model.counts, finest * model.n_records) for model in noisy),
        tuple(protection for model in noisy for protection in model.noise),
    )
