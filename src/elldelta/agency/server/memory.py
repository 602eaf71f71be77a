"""Remembers a few values that are expensive to read and never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Remembered(Generic[_Key, _Value]):
    """The values that were used last, by key; safe between threads.

    Args:
        most: What all of them together may weigh.
        weigh: The weight of a value; otherwise each weighs 1.
    """

    def __init__(self, most: int, weigh: Callable[[_Value], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """The value of a key, made now if it is not remembered."""
        found = self.peek(key)
        if found is not None:
            return found
        made = make()
        weight = self._weigh(made)
        with self._lock:
            if key in self._values:  # somebody else was faster
                self._weight -= self._values.pop(key)[1]
            self._values[key] = made, weight
            self._weight += weight
            while self._weight > self._most:
                self._weight -= self._values.popitem(last=False)[1][1]
        return made

    def peek(self, key: _Key) -> _Value | None:
        """The value of a key, if it is remembered."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]
