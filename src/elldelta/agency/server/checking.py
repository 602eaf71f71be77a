"""Models that strangers have sent, and what may be told about them."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.agency.server.errors import TooLargeError
from elldelta.agency.server.tables import View
from elldelta.errors import RefusedError
from elldelta.model import model_from_bytes, promise_to_the_past, rounded
from elldelta.plan.planner import Planner
from elldelta.plan.several import wish_of
from elldelta.plan.wish import Wish

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


class PaperCost(View):
    """What the paper's bound says, with two digits.

    Attributes:
        fewest_records: The records that one class for everybody needs; None if no number is enough.
        classes: The classes that the records named give; None if none, or if it takes too long to tell.
        is_searched: Whether the classes were looked for at all.

    Of several sensitive columns it is the most records that one needs, and the fewest classes that one gives.
    """

    fewest_records: int | None
    classes: int | None
    is_searched: bool


def paper_cost(content: bytes, secret: bytes, wishes: dict[str, Any], most_cells: int) -> PaperCost:
    """What a wish costs by the paper's bound, from rounded counts: about right, and no way to the true ones.

    Args:
        content: The file of a model.
        secret: What the rounding is drawn from: the same model is always rounded alike.
        wishes: The wish, as plain values; of its records as many as are to be planned with.
        most_cells: Tables above this are not searched for classes.
    """
    model, wish = _rounded(content, secret), Wish.from_dict(wishes)
    is_searched = len(model.ranks) * model.schema.n_values <= most_cells
    if model.schema.also_sensitive:
        places = range(len(model.schema.sensitives))
        faces = [(model.face(place), wish_of(wish, model.schema, place)) for place in places]
    else:
        faces = [(model, wish)]
    found = [_paper_cost(*face, is_searched=is_searched) for face in faces]
    fewest, classes = (
        None if None in numbers else choice(numbers)
        for choice, numbers in zip((max, min), zip(*found, strict=True), strict=True)
    )
    return PaperCost(fewest_records=fewest, classes=classes, is_searched=is_searched)


def _paper_cost(model: Model, wish: Wish, *, is_searched: bool) -> tuple[int | None, int | None]:
    """What the paper's bound gives for one sensitive column: the fewest records, and the classes."""
    fewest, classes = None, None
    try:
        planner = Planner(
            model,
            Wish(
                ell=wish.ell,
                delta=wish.release_failure,
                releases=wish.releases,
                beta=1.0,
                kind="paper",
                fewest_past=1 if model.noise else wish.fewest_past,
            ),
        )
        fewest = two_digits(planner.records(), up=True)
        if is_searched and wish.records is not None:
            classes = two_digits(planner.plan("paper", wish.records).n_classes)
    except RefusedError:
        pass  # what is not known stays None
    return fewest, classes


@lru_cache(maxsize=2)
def _rounded(content: bytes, secret: bytes) -> Model:
    return answered(model_from_bytes(content), secret)


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


def two_digits(number: int, *, up: bool = False) -> int:
    """A number with two digits and zeros."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // step) * step if up else number // step * step


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": type(column.domain).__name__.lower(),
        "values": column.size,
        "has_hierarchy": column.hierarchy is not None,
    }
