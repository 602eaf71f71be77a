"""What strangers have sent is read and checked in processes apart, so that no answer waits for it.

Reading a few megabytes of JSON holds up everything else in a process for a second, whether it is a
registration or not. The functions here run in a small pool of processes, which begin with the first of them
and end with the one that started them. They are given bytes and return what is found in them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as TooLateError
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from elldelta.agency.admission import ledger_chain
from elldelta.agency.registration import Examined, Registration, examine
from elldelta.agency.server.errors import BusyError, TooLargeError
from elldelta.agency.server.tables import View
from elldelta.errors import RefusedError
from elldelta.files import json_object
from elldelta.model import model_from_bytes, promise_to_the_past, rounded
from elldelta.plan.plan import Plan
from elldelta.plan.planner import Planner
from elldelta.plan.several import wish_of
from elldelta.plan.wish import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elldelta.model import Model
    from elldelta.schema.schema import Column

_Asked = ParamSpec("_Asked")
_Found = TypeVar("_Found")

N_PROCESSES = 2
"""Processes of a pool."""


class CheckPool:
    """A few processes for the functions below.

    Args:
        seconds: How long somebody waits for an answer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None

    def run(
        self, function: Callable[_Asked, _Found], *arguments: _Asked.args, **options: _Asked.kwargs
    ) -> _Found:
        """Calls a function of this module in one of the processes; its errors are raised here.

        Raises:
            BusyError: It took too long, or its process has died.
        """
        executor = self._started()
        try:
            future = executor.submit(function, *arguments, **options)
            return future.result(self._seconds)
        except TooLateError:
            future.cancel()
            raise BusyError("Too much is being checked; nothing was changed.") from None
        except BrokenProcessPool:  # one needed more memory than there is, or was killed
            with self._lock:
                if self._executor is executor:
                    self._executor = None
            executor.shutdown(wait=False, cancel_futures=True)
            raise BusyError("The check was interrupted; nothing was changed.") from None

    def close(self) -> None:
        """Ends the processes."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ProcessPoolExecutor(
                    N_PROCESSES,
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_begin,
                    initargs=(os.getpid(),),
                )
            return self._executor


def _begin(parent: int) -> None:
    """What a process of the pool does first: it leaves signals, and the processor, to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(5)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


class CheckedRegistration(NamedTuple):
    """A registration that is whole: its digests, and the release or why it is refused."""

    digest: str
    content_digest: str
    found: Examined | RefusedError


def check_registration_bytes(plan_file: bytes, content: bytes, owner: str) -> CheckedRegistration:
    """Reads a registration and compares it with its plan.

    Raises:
        InputError: It is malformed, or is not what it says.
    """
    registration = Registration.from_bytes(content)
    found: Examined | RefusedError
    try:
        found = examine(_plan(plan_file), registration, owner=owner)
    except RefusedError as error:
        found = error
    return CheckedRegistration(registration.digest, registration.content_digest, found)


@lru_cache(maxsize=8)
def _plan(file: bytes) -> Plan:
    return Plan.from_dict(json_object(file) or {})


class CheckedLedger(NamedTuple):
    """What a ledger says whose every line is intact: releases that count, room that is left, conditions."""

    n_releases: int
    least: int
    full: int
    classes: int
    conditions: tuple[str, ...]


def check_ledger(plan_file: bytes, lines: Sequence[bytes]) -> CheckedLedger:
    """Checks every line of a ledger, and what they leave together.

    Raises:
        FileError: A line was changed, removed, or is none of this plan's ledger.
    """
    chain = ledger_chain(_plan(plan_file), lines)
    room = chain.room
    return CheckedLedger(
        chain.n_releases, int(room.min()), int((room == 0).sum()), room.size, tuple(chain.conditions)
    )


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
                bound="paper",
                shape="runs",
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
