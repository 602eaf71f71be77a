"""Reads cells of any Arrow type as whole numbers, real numbers, days or text.

The same value may arrive as a number from Parquet, as text from CSV and as a float from a data frame whose
column once held a gap; a domain must find it at the same position each time. Not-a-number and blank text
count as missing wherever a number or a date is expected.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

_INTEGER_TEXT = r"^[+-]?[0-9]{1,18}([.]0*)?$"
REAL_PATTERN = "[+-]?([0-9]{1,100}([.][0-9]{0,100})?|[.][0-9]{1,100})([eE][+-]?0*1?[0-9]{1,2})?"
"""A real number as text, to be matched whole. Up to 100 digits on either side and exponents up to 199: such a
number fits a double on every engine, and reading it can neither overflow nor fail."""
_LARGEST_EXACT_FLOAT = 2.0**53
SPACES = " \t\n\r\v\f"
"""What is trimmed from numbers and in SQL: every database has these, whatever its encoding."""
_ALL_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))


class UnreadableTypeError(TypeError):
    """Cells of this Arrow type are never what the domain holds, whatever their values."""


class Cells(NamedTuple):
    """Cells read as numbers; where `null` or not `readable`, the number means nothing."""

    numbers: NDArray[Any]
    null: NDArray[np.bool_]
    readable: NDArray[np.bool_]


def as_integers(values: pa.Array) -> Cells:
    """Reads cells as whole numbers (int64); floats and text count when they are whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _plain(values)
    if _is_text(values.type):
        text = _trimmed(values)
        readable = _mask(pc.match_substring_regex(text, _INTEGER_TEXT))
        digits = pc.replace_substring_regex(_only(text, readable), r"^[+]|[.]0*$", "")
        return Cells(_numbers(digits.cast(pa.int64()), np.int64), _blank(text), readable)
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type):
        null = _mask(values.is_null())
        if pa.types.is_uint64(values.type):
            fits = _mask(pc.less(values, pa.scalar(2**63, pa.uint64())))
            return Cells(_numbers(_only(values, fits).cast(pa.int64()), np.int64), null, fits)
        return Cells(_numbers(values.cast(pa.int64()), np.int64), null, ~null)
    reals = as_reals(values)
    with np.errstate(invalid="ignore"):
        whole = reals.readable & (np.floor(reals.numbers) == reals.numbers)
        whole &= np.abs(reals.numbers) <= _LARGEST_EXACT_FLOAT
    return Cells(np.where(whole, reals.numbers, 0).astype(np.int64), reals.null, whole)


def as_reals(values: pa.Array) -> Cells:
    """Reads cells as real numbers (float64); infinite numbers are not readable."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _plain(values)
    if _is_text(values.type):
        text = _trimmed(values)
        readable = _mask(pc.match_substring_regex(text, f"^(?:{REAL_PATTERN})$"))
        numbers = _numbers(_only(text, readable).cast(pa.float64()), np.float64)
        return Cells(numbers, _blank(text), readable & np.isfinite(numbers))
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if not (is_number or pa.types.is_decimal(values.type) or pa.types.is_null(values.type)):
        raise UnreadableTypeError(str(values.type))
    numbers = _numbers(values.cast(pa.float64(), safe=False), np.float64)
    null = _mask(values.is_null()) | np.isnan(numbers)
    return Cells(numbers, null, np.isfinite(numbers) & ~null)


def as_days(values: pa.Array, text_suffixes: Sequence[str] = ()) -> Cells:
    """Reads cells as days since 1970-01-01 (int64); text as YYYY-MM-DD, a time of day after it is ignored.

    Args:
        values: The cells.
        text_suffixes: What may be missing from the end of a text: `("-01",)` reads 1990-06 as its first day.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _plain(values)
    if _is_text(values.type):
        text = _trimmed(values)
        day = pc.replace_substring_regex(text, r"^(\d{4}-\d{2}-\d{2})[ T].*$", r"\1")
        for suffix in text_suffixes:
            shorter = _mask(
                pc.match_substring_regex(day, r"^\d{4}(-\d{2}){" + str(2 - len(suffix) // 3) + "}$")
            )
            day = pc.if_else(pa.array(shorter), pc.binary_join_element_wise(day, suffix, ""), day)
        whole = _mask(pc.match_substring_regex(day, r"^\d{4}-\d{2}-\d{2}$"))
        seconds = pc.strptime(_only(day, whole), format="%Y-%m-%d", unit="s", error_is_null=True)
        # strptime turns 30 February into 1 March: what it read must be what was written.
        same = _mask(pc.equal(pc.strftime(seconds, format="%Y-%m-%d"), day))
        days = _numbers(seconds.cast(pa.int64()), np.int64) // 86_400
        return Cells(days, _blank(text), whole & same)
    if pa.types.is_timestamp(values.type):
        values = pc.floor_temporal(values, unit="day").cast(pa.date32())
    if not (pa.types.is_date(values.type) or pa.types.is_null(values.type)):
        raise UnreadableTypeError(str(values.type))
    null = _mask(values.is_null())
    return Cells(_numbers(values.cast(pa.date32()).cast(pa.int32()), np.int64), null, ~null)


def as_text(values: pa.Array) -> pa.Array:
    """Reads cells as text, unchanged; numbers, dates and truth values in their Arrow spelling.

    Engines hand out moments in different units: parts of a second are spelt only where there are any.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _plain(values)
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        raise UnreadableTypeError(str(values.type))
    if pa.types.is_float32(values.type) or pa.types.is_float64(values.type):
        # Engines group -0.0 and 0.0 together, and hand out either.
        values = pc.add(values, pa.scalar(0.0, values.type))
    try:
        text = values.cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise UnreadableTypeError(str(values.type)) from None
    if pa.types.is_timestamp(values.type):
        text = pc.replace_substring_regex(text, r"([.][0-9]*?)0+(Z?)$", r"\1\2")
        text = pc.replace_substring_regex(text, r"[.](Z?)$", r"\1")
    return text


def spelling(text: str) -> str:
    """The one spelling of a category: composed (NFC), and without spaces around it."""
    return unicodedata.normalize("NFC", text).strip()


def as_spelled(values: pa.Array) -> pa.Array:
    """Reads cells as text in one spelling, as `spelling` does."""
    import pyarrow.compute as pc

    return pc.utf8_trim(pc.utf8_normalize(as_text(values), form="NFC"), _ALL_SPACES)


def plain_spelling(text: pa.Array) -> pa.Array:
    """Texts with one spelling of truth values and of whole numbers: `true` for TRUE, `5` for 5.0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_truth = _mask(pc.match_substring_regex(text, "^(?i:true|false)$"))
    text = pc.if_else(pa.array(is_truth), pc.utf8_lower(text), text)
    return pc.replace_substring_regex(text, r"^([+-]?(?:0|[1-9][0-9]*))[.]0*$", r"\1")


def among(values: pa.Array, tokens: Sequence[str], *, by_number: bool) -> NDArray[np.bool_]:
    """Which cells are one of some texts, such as NA; `elldelta.engines.sql.among` says the same in SQL.

    Args:
        values: The cells; spaces around a text do not count.
        tokens: The texts. Dates are meant as days, whatever the time of day.
        by_number: Whether texts that are numbers are compared as such, so that 99 is 99.0.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _plain(values)
    if pa.types.is_timestamp(values.type):
        values = pc.floor_temporal(values, unit="day").cast(pa.date32())
    found = _mask(pc.is_in(as_spelled(values), value_set=pa.array(tokens, pa.string())))
    numbers = numbers_among(tokens)
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if numbers and (is_number or pa.types.is_decimal(values.type) or (by_number and _is_text(values.type))):
        reals = as_reals(values)
        found |= reals.readable & np.isin(reals.numbers, numbers)
    return found


def numbers_among(tokens: Sequence[str]) -> list[float]:
    """The texts that are numbers, as such."""
    return [float(token) for token in tokens if re.fullmatch(REAL_PATTERN, token)]


def _plain(values: pa.Array) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _is_text(arrow_type: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type)
    )


def _trimmed(text: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_trim(text.cast(pa.string()), SPACES)


def _only(values: pa.Array, keep: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(keep), values, pa.scalar(None, values.type))


def _blank(text: pa.Array) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    return _mask(pc.fill_null(pc.equal(text, ""), fill_value=True))


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = values.fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    return mask


def _numbers(values: pa.Array, dtype: type[np.generic]) -> NDArray[Any]:
    numbers: NDArray[Any] = values.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype)
    return numbers
