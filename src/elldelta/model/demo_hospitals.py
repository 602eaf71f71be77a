"""Generated hospitals for the demonstration: a population, its past, and patients whom all of them know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

POSTAL_CODES = tuple(f"5600{number:02d}" for number in range(1, 11))
GENDERS = ("F", "M", "X")
DISEASES = (
    "influenza", "hypertension", "diabetes", "asthma", "migraine", "arthritis", "gastritis", "depression",
    "anaemia", "bronchitis", "dermatitis", "pneumonia", "hepatitis", "osteoporosis", "epilepsy",
    "heart failure", "kidney stones", "thyroiditis", "glaucoma", "appendicitis",
)  # fmt: skip
MOST_AGE = 99

HOSPITALS = ("A", "B", "C")


@dataclass(frozen=True, eq=False)
class People:
    """Records as positions: postal code, gender, age and disease of each person."""

    quasi_identifiers: NDArray[np.int64]
    diseases: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.diseases)

    def table(self) -> pa.Table:
        """The records as a table with the values a hospital would write."""
        import pyarrow as pa

        postal, gender, age = self.quasi_identifiers.T
        return pa.table(
            {
                "postal_code": pa.array(np.array(POSTAL_CODES)[postal]),
                "gender": pa.array(np.array(GENDERS)[gender]),
                "age": pa.array(age),
                "disease": pa.array(np.array(DISEASES)[self.diseases]),
            }
        )

    def joined(self, other: People) -> People:
        """These people and others."""
        return People(
            np.concatenate((self.quasi_identifiers, other.quasi_identifiers)),
            np.concatenate((self.diseases, other.diseases)),
        )

    def shuffled(self, rng: np.random.Generator) -> People:
        """The same people in another order."""
        order = rng.permutation(len(self))
        return People(self.quasi_identifiers[order], self.diseases[order])


@dataclass(frozen=True, eq=False)
class Region:
    """What the demonstration starts from.

    Attributes:
        past: Past records of the region, from which the agency estimates.
        hospitals: The records of each hospital.
        common: The patients who are in every hospital's table, with the same disease.
    """

    past: People
    hospitals: tuple[People, ...]
    common: People


def make_region(
    rng: np.random.Generator, n_past: int = 100_000, n_records: int = 8_000, n_common: int = 1_000
) -> Region:
    """Draws past records and the records of three hospitals that share some patients."""
    common = _draw(rng, n_common)
    hospitals = tuple(common.joined(_draw(rng, n_records - n_common)).shuffled(rng) for _ in HOSPITALS)
    return Region(_draw(rng, n_past), hospitals, common)


def _draw(rng: np.random.Generator, n_people: int) -> People:
    """People whose disease depends on age and gender; some neighbourhoods are larger than others."""
    weights = np.linspace(1.0, 2.0, len(POSTAL_CODES))
    postal = rng.choice(len(POSTAL_CODES), n_people, p=weights / weights.sum())
    gender = rng.choice(len(GENDERS), n_people, p=[0.49, 0.49, 0.02])
    age = np.minimum(MOST_AGE, rng.gamma(4.0, 11.0, n_people).astype(np.int64))
    rank = np.arange(len(DISEASES))
    # A geometric base, tilted towards some diseases with age: everybody can have everything.
    tilt = 1.0 + 0.8 * np.sin(rank[np.newaxis, :] + age[:, np.newaxis] / 15.0 + gender[:, np.newaxis])
    chances = 0.88 ** rank[np.newaxis, :] * tilt
    cumulative = np.cumsum(chances, axis=1)
    drawn = rng.random(n_people)[:, np.newaxis] * cumulative[:, -1:]
    disease = (drawn > cumulative).sum(axis=1)
    return People(np.stack((postal, gender, age), axis=1).astype(np.int64), disease.astype(np.int64))
