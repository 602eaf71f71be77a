"""Classes that are known only by their labels: what a release shows when it comes without a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from elldelta.core.overlay import MOST_CELLS, overlay_boxes
from elldelta.errors import DataError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class LabelBoxes:
    """One class per set of labels: all combinations of the positions that its labels name.

    Combinations that no class covers have nobody in the release.

    Attributes:
        masks: Per quasi-identifier, the positions that each of its labels names: labels x positions.
        label_of: The label of each class in each quasi-identifier: classes x quasi-identifiers.
    """

    shape: ClassVar[str] = "labels"

    masks: tuple[NDArray[np.bool_], ...]
    label_of: NDArray[np.int64]

    @classmethod
    def parse(cls, schema: Schema, labels: Sequence[Sequence[str | None]]) -> LabelBoxes:
        """Understands the labels of a release by its schema.

        Raises:
            DataError: A label does not fit the schema; says in which column, and how many.
        """
        masks, columns = [], []
        for place, column in enumerate(schema.quasi_identifiers):
            distinct = sorted({row[place] for row in labels}, key=lambda label: (label is None, label))
            understood, n_wrong = [], 0
            for label in distinct:
                try:
                    understood.append(column.parse_label("" if label is None else label))
                except DataError:
                    n_wrong += 1
            if n_wrong:
                raise DataError(
                    f"Labels of column {column.name!r} do not fit the schema.",
                    found=f"{n_wrong} of {len(distinct)} different labels are not understood.",
                    remedy="Use the schema that the release was made with.",
                )
            number = {label: index for index, label in enumerate(distinct)}
            masks.append(np.array(understood, dtype=bool).reshape(len(distinct), column.size))
            columns.append([number[row[place]] for row in labels])
        return cls(tuple(masks), np.array(columns, dtype=np.int64).reshape(len(masks), len(labels)).T)

    @classmethod
    def from_hulls(cls, schema: Schema, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> LabelBoxes:
        """Boxes given by their ends, in terms of labels."""
        masks, columns = [], []
        for place, size in enumerate(schema.sizes):
            ends = np.stack((lows[:, place], highs[:, place]), axis=1)
            distinct, label_of = np.unique(ends, axis=0, return_inverse=True)
            positions = np.arange(size)
            masks.append((positions >= distinct[:, :1]) & (positions <= distinct[:, 1:]))
            columns.append(label_of.reshape(-1))
        return cls(tuple(masks), np.stack(columns, axis=1).astype(np.int64))

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.label_of)

    def class_of(self, schema: Schema, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination, or -1 for one that no class covers."""
        if schema.n_combinations > MOST_CELLS:
            raise RefusedError(
                "There are too many combinations to look up classes by their labels.",
                found=f"{schema.n_combinations} combinations, at most {MOST_CELLS} are possible.",
                remedy="Give the manifests of the releases, or use wider ranges in the schema.",
            )
        cells, coordinates = overlay_boxes([self.masks], [self.label_of])
        sizes = [int(coordinate.max()) + 1 for coordinate in coordinates]
        positions = schema.unrank(ranks)
        places = [coordinate[positions[:, place]] for place, coordinate in enumerate(coordinates)]
        return cells[0][np.ravel_multi_index(places, sizes)]

    def hulls(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier."""
        lows = [mask.argmax(axis=1) for mask in self.masks]
        highs = [mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1) for mask in self.masks]
        picked = [
            np.stack([ends[place][self.label_of[:, place]] for place in range(len(self.masks))], axis=1)
            for ends in (lows, highs)
        ]
        return picked[0], picked[1]
