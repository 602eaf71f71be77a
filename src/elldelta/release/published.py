"""A release as an outsider reads it: its classes, and the counts of the sensitive values in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.diversity import class_diversities
from elldelta.core.overlay import NO_CLASS
from elldelta.errors import DataError, FileError, ParameterError
from elldelta.plan.classes import class_labels
from elldelta.plan.label_boxes import LabelBoxes
from elldelta.release.counts import count_release
from elldelta.release.manifest import content_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.engines.table import Progress, Table
    from elldelta.plan.classes import Cover
    from elldelta.release.counts import ReleaseCounts
    from elldelta.release.manifest import Manifest
    from elldelta.schema.schema import Column, Schema


@dataclass(frozen=True, eq=False)
class Published:
    """A release that was read back and understood.

    Attributes:
        name: Words for it, for tables and messages.
        schema: What its columns mean.
        classes: Its classes.
        counts: Records by class and sensitive value.
        manifest: What the release says about itself, if it came with a manifest.
    """

    name: str
    schema: Schema
    classes: Cover
    counts: NDArray[np.int64]
    manifest: Manifest | None = None

    @property
    def n_records(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    @property
    def labels(self) -> list[tuple[str, ...]]:
        """What the release shows for each class."""
        return class_labels(self.schema, self.classes)


def read_published(
    table: Table,
    name: str,
    schema: Schema,
    manifest: Manifest | None = None,
    progress: Progress | None = None,
) -> Published:
    """Reads a release: by the classes of its manifest where there is one, else by its labels alone.

    Raises:
        FileError: The content is not what the manifest says.
        DataError: A label or a sensitive value does not fit the schema.
    """
    found = count_release(table, schema.names, schema.sensitive.name, progress=progress)
    if manifest is None:
        classes: Cover = LabelBoxes.parse(schema, found.labels)
        rows = np.arange(len(found.labels))
    else:
        classes = manifest.classes
        number = {labels: index for index, labels in enumerate(manifest.labels)}
        if len(number) < manifest.classes.n_classes:
            raise _not_as_described(name, "Two of its classes have the same labels.")
        known: list[int | None] = [number.get(labels) for labels in found.labels]  # type: ignore[arg-type]
        if None in known:
            raise _not_as_described(
                name, f"{known.count(None)} sets of labels name no class of the manifest."
            )
        rows = np.array(known, dtype=np.int64)
    counts = np.zeros((classes.n_classes, schema.n_values), dtype=np.int64)
    counts[np.ix_(rows, _positions(schema.sensitive, found))] = found.dense()
    published = Published(name, schema, classes, counts, manifest)
    if manifest is not None and published_digest(published) != manifest.content_digest:
        raise _not_as_described(name, "Its records are not those that the manifest describes.")
    return published


def published_digest(published: Published) -> str:
    """The digest of the content of a release."""
    values = published.schema.sensitive.released_values().to_pylist()
    return content_digest(published.labels, values, published.counts)


def values_left(releases: Sequence[Published], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """For people with these combinations who are in all releases: how many sensitive values are left.

    0 where nobody can be in all releases.
    """
    left: NDArray[np.int64] | None = None
    for release in releases:
        class_of = release.classes.class_of(release.schema, ranks)
        shown = release.counts[class_of]
        shown[class_of == NO_CLASS] = 0
        left = shown if left is None else np.minimum(left, shown)
    if left is None:
        raise ParameterError("Linking needs at least one release.", found="None was given.")
    return class_diversities(left)


def _positions(sensitive: Column, found: ReleaseCounts) -> NDArray[np.int64]:
    """The position of each sensitive value that occurs, told by how releases spell it."""
    spelt: list[Any] = sensitive.released_values().to_pylist()
    number = {None if value is None else str(value): position for position, value in enumerate(spelt)}
    unknown = [value for value in found.values if value not in number]
    if unknown:
        raise DataError(
            f"The sensitive column {sensitive.name!r} holds values that the schema does not know.",
            found=f"{len(unknown)} different values.",
            remedy="Use the schema that the release was made with.",
        )
    return np.array([number[value] for value in found.values], dtype=np.int64)


def _not_as_described(name: str, found: str) -> FileError:
    return FileError(
        f"The release {name} is not the one its manifest describes.",
        found=found,
        remedy="Fetch both again from whoever published them.",
    )
