"""Columns of whole numbers in JSON documents: read into arrays and written from arrays, not number by number.

A plan of 50,000 classes holds millions of numbers. In its file they stand as lists, as in any JSON; in memory
there is no Python object for each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_LONG = re.compile(rb'(?<=":)\[(-?[0-9][-0-9,]{1000,})\]')
"""A long list of whole numbers that is the value of a key."""
_MISPLACED = re.compile(rb"[0-9]-|-(?![0-9])")
_FEW, _AT_ONCE = 1000, 1 << 18
_LARGEST = 10**18


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of whole numbers.

    Attributes:
        numbers: The numbers, read-only.
        read: How they stand in the document that they come from, between the brackets; None: from none, or
            nobody needs it any more.
    """

    numbers: NDArray[np.integer[Any]]
    read: memoryview | None = None

    @classmethod
    def of(cls, numbers: NDArray[np.integer[Any]]) -> NumberColumn | list[int]:
        """What stands for an array in a document: a column, or a list if it is short."""
        return cls(numbers) if numbers.size > _FEW else numbers.tolist()

    def forget_text(self) -> None:
        """Lets go of the document that they come from; they are written in one way only."""
        object.__setattr__(self, "read", None)

    @property
    def text(self) -> bytes | memoryview:
        """The only way in which they are written, between the brackets."""
        import msgspec

        if self.read is not None:
            return self.read
        starts = range(0, self.numbers.size, _AT_ONCE)
        lists = (self.numbers[start : start + _AT_ONCE].tolist() for start in starts)
        return b",".join(msgspec.json.encode(numbers)[1:-1] for numbers in lists)


def taken_out(content: bytes) -> tuple[bytes, Sequence[NumberColumn]]:
    """A JSON document without its long columns of whole numbers, and these.

    In the place of each stands an object with one key, "", and the number of the column.
    """
    rest: list[bytes | memoryview] = []
    columns: list[NumberColumn] = []
    whole, end = memoryview(content), 0
    for match in _LONG.finditer(content):
        numbers = _numbers(content, *match.span(1))
        if numbers is not None and numbers.size > _FEW:  # as they are written
            rest += [whole[end : match.start()], b'{"":%d}' % len(columns)]
            columns.append(NumberColumn(numbers, whole[slice(*match.span(1))]))
            end = match.end()
    return b"".join((*rest, whole[end:])), columns


def _numbers(content: bytes, start: int, stop: int) -> NDArray[np.integer[Any]] | None:
    """The numbers of a list; None if they could be written in another way."""
    import numpy as np

    if content[stop - 1 : stop] == b"," or content.find(b",,", start, stop) >= 0:
        return None
    if content.find(b"-", start, stop) >= 0 and _MISPLACED.search(content, start, stop):
        return None
    found: NDArray[np.integer[Any]] = np.empty(content.count(b",", start, stop) + 1, dtype=np.int32)
    n_found, n_characters, begin = 0, found.size - 1, start
    while begin < stop:
        end = content.find(b",", begin + _AT_ONCE, stop)
        end = stop if end < 0 else end
        some = np.fromstring(content[begin:end], dtype=np.int64, sep=",")
        sizes = np.abs(some)
        if not 0 <= sizes.min() <= sizes.max() < _LARGEST:
            return None
        if sizes.max() > np.iinfo(found.dtype).max:
            found = found.astype(np.int64)
        found[n_found : n_found + some.size] = some
        n_found, begin = n_found + some.size, end + 1
        n_characters += some.size + int(np.count_nonzero(some < 0))
        power = 10
        while (longer := int(np.count_nonzero(sizes >= power))) > 0:
            n_characters, power = n_characters + longer, 10 * power
    if n_found != found.size or n_characters != stop - start:  # zeros before a number, or -0
        return None
    found.setflags(write=False)
    return found
