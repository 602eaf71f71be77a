"""Models that strangers have sent, and what may be told about them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.agency.server.errors import TooLargeError
from elldelta.errors import RefusedError
from elldelta.model import model_from_bytes, promise_to_the_past, rounded

if TYPE_CHECKING:
    from elldelta.model import Model
    from elldelta.schema.schema import Column


class CheckedModel(NamedTuple):
    """What may be known of a model that is whole."""

    digest: str
    schema_digest: str
    summary: dict[str, Any]


def check_model(content: bytes, most_cells: int, most_epsilon: float | None = None) -> CheckedModel:
    """Reads a model.

    Raises:
        FileError: It is not a model, or damaged.
        TooLargeError: It has more cells.
        RefusedError: Its past records are not protected with at most so large an epsilon, if there is one.
    """
    model = read_limited(content, most_cells)
    check_epsilon(model, most_epsilon)
    return CheckedModel(model.digest, model.schema.digest, _summary(model))


def check_epsilon(model: Model, most_epsilon: float | None) -> None:
    """Refuses a model that does not protect its past records with at most so large an epsilon, if any."""
    epsilon = sum(each.epsilon for each in model.noise)
    if most_epsilon is not None and not 0.0 < epsilon <= most_epsilon:
        raise RefusedError(
            f"This service takes only models that protect the past, with epsilon {most_epsilon:g} at most.",
            found=f"Its epsilon is {epsilon:g}, if all its estimates share people."
            if model.noise
            else "Its counts are exact.",
            remedy=f"Estimate it with --epsilon {most_epsilon:g}, and upload that.",
        )


def read_limited(content: bytes, most_cells: int) -> Model:
    """A model, unless its table has more cells; a small file may unpack to a huge one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.suppress(pa.ArrowException, OSError):  # what reads the model says what is wrong
        _check_size(pq.read_metadata(pa.BufferReader(content)).num_rows, most_cells)
    model = model_from_bytes(content)
    _check_size(len(model.ranks) * model.schema.n_values, most_cells)
    return model


def answered(model: Model, secret: bytes) -> Model:
    """The model from which questions about costs are answered: noise or rounding hides every count."""
    import numpy as np

    return model if model.noise else rounded(model, np.random.default_rng(list(secret)))


def _check_size(n_cells: int, most: int) -> None:
    if n_cells > most:
        raise TooLargeError(
            "The model is too large.",
            found=f"Its table has {n_cells} cells; the service plans with at most {most}.",
            remedy="Use coarser values, or ask whoever runs the service for a larger limit.",
        )


def _summary(model: Model) -> dict[str, Any]:
    schema, told = model.schema, (int if model.noise else two_digits)
    return {
        "quasi_identifiers": [_column(column) for column in schema.quasi_identifiers],
        "sensitive": _column(schema.sensitive),
        **(
            {"sensitives": [_column(column) for column in schema.sensitives]} if schema.also_sensitive else {}
        ),
        "combinations": schema.n_combinations,
        "combinations_with_records": told(len(model.ranks)),
        "past_records": told(model.n_records),
        **({"protection": promise_to_the_past(model.noise)} if model.noise else {}),
    }


def two_digits(number: int) -> int:
    """A number with two digits and zeros."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return number // step * step


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": type(column.domain).__name__.lower(),
        "values": column.size,
        "has_hierarchy": column.hierarchy is not None,
    }
