"""One of our errors for one of Spark's, whose texts and stack traces quote cells."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from elldelta.errors import DataError, ElldeltaError, FileError, InternalError
from elldelta.files import unwritable

if TYPE_CHECKING:
    from pathlib import Path

_DISK_SIGNS = {
    errno.ENOSPC: "No space left",
    errno.EFBIG: "File too large",
    errno.EDQUOT: "Disk quota exceeded",
    errno.EACCES: "Permission denied",
    errno.EROFS: "Read-only file system",
}
_CANCELLED = ("cancelled part of cancelled job group", "OPERATION_CANCELED", "was canceled", "was cancelled")
_MEANINGS: dict[tuple[str, ...], tuple[type[ElldeltaError], str, str, str]] = {
    ("OutOfMemoryError", "No space left", "File too large", "Disk quota exceeded"): (
        FileError,
        "There is not enough memory or temporary space for this table.",
        "Spark reached its limits.",
        "Make room, or give it more: --spark-conf spark.driver.memory=4g, spark.executor.memory=4g.",
    ),
    ("maxResultSize",): (
        FileError,
        "The counts are too large for the driver of Spark.",
        "They pass its limit for results.",
        "Raise it: --spark-conf spark.driver.maxResultSize=4g",
    ),
    (
        "Py4JNetworkError", "SparkContext was shut down", "stopped SparkContext",
        "Answer from Java side is empty", "StatusCode.UNAVAILABLE", "has been stopped", "Connection refused",
        "INVALID_HANDLE.SESSION", "All masters are unresponsive", "Application was killed",
    ): (
        FileError,
        "Spark ended, or the connection to it was lost.",
        "It does not answer any more.",
        "Check that the cluster runs and has enough memory, then try again: nothing was written.",
    ),
    (
        "FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER", "is not a Parquet file", "ParquetDecodingException",
        "Could not read footer", "FileNotFoundException", "FILE_NOT_EXIST", "could not read page",
        "EOFException", "can not read class org.apache.parquet", "corrupt", "Unknown compression",
        "PATH_NOT_FOUND", "ParquetCryptoRuntimeException", "Could not verify CRC",
    ): (
        FileError,
        "A file of the table cannot be read.",
        "It is damaged, incomplete, was changed meanwhile, or not every worker sees it.",
        "Check that the files are whole and lie where driver and workers find them.",
    ),
    (
        "CAST_INVALID_INPUT", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "ARITHMETIC_OVERFLOW",
        "DATATYPE_MISMATCH", "INCOMPATIBLE_COLUMN_TYPE", "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
        "PARQUET_TYPE_ILLEGAL", "PARQUET_TYPE_NOT_SUPPORTED", "CANNOT_MERGE", "ArrowInvalid",
        "UNSUPPORTED_DATA_TYPE", "DATETIME_OVERFLOW", "INVALID_UTF8_STRING",
    ): (
        DataError,
        "The table holds values that cannot be converted.",
        "A column has a type that Spark does not know, or other types in other files.",
        "Give all parts of a table the same types; convert strange ones.",
    ),
}  # fmt: skip


def translated(error: BaseException, writing: Path | None = None) -> BaseException:
    """An error that says what to do; the text of Spark's is looked at, never passed on."""
    words = f"{type(error).__name__} {error}"
    if any(sign in words for sign in _CANCELLED):
        return KeyboardInterrupt()
    number = next((n for n, sign in _DISK_SIGNS.items() if sign in words), None)
    if number is not None and writing is not None:
        return unwritable(writing, OSError(number, ""))
    for signs, (kind, problem, found, remedy) in _MEANINGS.items():
        if any(sign in words for sign in signs):
            return kind(problem, found=found, remedy=remedy)
    return bug()


def bug() -> InternalError:
    """The error for what nobody has foreseen."""
    return InternalError(
        "The engine refused a query.",
        found="Its message is withheld, because it may quote records.",
        remedy="Please report what you did, without the data.",
    )
