"""What is known about people who are looked for in releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.errors import DataError
from elldelta.schema.label_columns import ColumnRules
from elldelta.schema.labels import EVERYTHING, MISSING_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class BackgroundKnowledge:
    """What is known about people: per column the texts that occur, and which of them each person has.

    Attributes:
        texts: The texts of each column; `*` stands for what is not known.
        codes: The number of the text of each person in each column.
    """

    texts: tuple[tuple[str, ...], ...]
    codes: NDArray[np.int64]

    @classmethod
    def from_table(
        cls, people: pa.Table, columns: Iterable[str], rules: Mapping[str, ColumnRules] | None = None
    ) -> BackgroundKnowledge:
        """The people of a table; a column that is missing, or a cell that is empty or NA, is not known."""
        import pyarrow as pa

        texts, codes = [], []
        for name in columns:
            cells = pa.nulls(people.num_rows, pa.string())
            is_text = True
            if name in people.column_names:
                try:
                    cells = people.column(name).cast(pa.string()).combine_chunks()
                except pa.ArrowException:
                    is_text = False
            if (
                not is_text
            ):  # raised out here, so that no Arrow message, which may quote a cell, hangs on to it
                raise DataError(
                    f"Column {name!r} of the targets cannot be read as text.",
                    remedy="Give numbers, dates or texts.",
                )
            coded = cells.fill_null(EVERYTHING).dictionary_encode()
            column_rules = (rules or {}).get(name, ColumnRules())
            unknown = {*MISSING_TOKENS, *column_rules.missing} - {*column_rules.values}
            distinct = coded.dictionary.to_pylist()
            texts.append(tuple(EVERYTHING if text.strip(" ") in unknown else text for text in distinct))
            codes.append(coded.indices.to_numpy(zero_copy_only=False))
        return cls(tuple(texts), np.stack(codes, axis=1).astype(np.int64))

    @classmethod
    def from_positions(cls, schema: Schema, positions: NDArray[np.int64]) -> BackgroundKnowledge:
        """One person per combination of positions of a schema."""
        texts, codes = [], []
        for place, column in enumerate(schema.quasi_identifiers):
            distinct, code = np.unique(positions[:, place], return_inverse=True)
            texts.append(tuple(column.labels(distinct, distinct)))
            codes.append(code.reshape(-1))
        return cls(tuple(texts), np.stack(codes, axis=1).astype(np.int64))
