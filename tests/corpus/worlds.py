"""Random small worlds of the corpus: columns, past records, and the tables of owners, all from one seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import elldelta as ed
from elldelta.schema.hierarchy import HierarchyRows

DISEASES = ("acne", "asthma", "cold", "flu", "gout", "lupus", "mumps", "rash", "stroke")
GROUPS = ("skin", "lung", "lung", "lung", "joints", "joints", "rare", "skin", "heart")
JOBS = ("baker", "clerk", "cook", "driver", "judge", "nurse")
TOWNS = ("Aldby", "Birk", "Corby", "Dale", "Esk", "Firth", "Glen")
COUNTIES = ("east", "east", "middle", "middle", "west", "west", "west")

TOWN_TREE = HierarchyRows(tuple((*pair, "*") for pair in zip(TOWNS, COUNTIES, strict=True)))
DISEASE_TREE = HierarchyRows(tuple((*pair, "*") for pair in zip(DISEASES, GROUPS, strict=True)))


@dataclass(frozen=True)
class Shape:
    """What a world has.

    Attributes:
        quasi_identifiers: Its quasi-identifiers.
        sensitive: Its sensitive columns.
        tree: Whether towns have a hierarchy.
        groups: Whether like diseases count as one.
        changes: Quasi-identifiers that may change for somebody.
        missing: The share of cells that are empty.
    """

    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...] = ("disease",)
    tree: bool = False
    groups: bool = False
    changes: tuple[str, ...] = ()
    missing: float = 0.0


def random_shape(rng: np.random.Generator, *, most_sensitive: int = 3, groups: bool | None = None) -> Shape:
    """One to four quasi-identifiers and one to three sensitive columns."""
    names = rng.permutation(["age", "sex", "town", "admitted"])[: rng.choice([1, 2, 2, 3, 3, 4])].tolist()
    n_sensitive = min(most_sensitive, int(rng.choice([1, 1, 1, 2, 3])))
    sensitive = ("disease", "job", "income")[:n_sensitive]
    grouped = bool(rng.random() < 0.2) if groups is None else groups
    return Shape(
        tuple(names),
        sensitive,
        tree=bool(rng.random() < 0.5),
        groups=grouped and n_sensitive == 1,
        missing=float(rng.choice([0.0, 0.0, 0.0, 0.01])),
    )


class World:
    """People whose values depend a little on who they are."""

    def __init__(self, rng: np.random.Generator, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self._skew = {
            "disease": rng.dirichlet(np.full(len(DISEASES), 3.0), 3),
            "job": rng.dirichlet(np.full(len(JOBS), 4.0), 3),
            "income": rng.dirichlet(np.full(5, 4.0), 3),
        }
        self._n_people = 0

    def born(self, n: int, *, records_per_person: float = 1.0) -> pd.DataFrame:
        """Records of people who were not there before; some people have several."""
        rng = self.rng
        kind = rng.integers(0, 3, n)
        drawn = {name: _drawn(rng, chances, kind) for name, chances in self._skew.items()}
        columns = {
            "age": 20 + (rng.integers(0, 12, n) + 3 * kind) % 18,
            "sex": np.array(["F", "M"])[rng.integers(0, 2, n)],
            "town": np.array(TOWNS)[rng.integers(0, len(TOWNS), n)],
            "admitted": np.datetime64("2024-03-01") + rng.integers(0, 14, n).astype("timedelta64[D]"),
            "disease": np.array(DISEASES)[drawn["disease"]],
            "job": np.array(JOBS)[drawn["job"]],
            "income": 1000 * drawn["income"],
        }
        who = self._n_people + np.sort(rng.integers(0, max(1, round(n / records_per_person)), n))
        if records_per_person == 1.0:
            who = self._n_people + np.arange(n)
        self._n_people += n
        names = (*self.shape.quasi_identifiers, *self.shape.sensitive)
        table = pd.DataFrame({"who": [f"p{number}" for number in who], **{n: columns[n] for n in names}})
        if records_per_person > 1.0:  # a person is in one place
            for name in self.shape.quasi_identifiers:
                table[name] = table.groupby("who")[name].transform("first")
        if self.shape.missing:
            for name in names:
                if not name.startswith("i") and name not in ("age", "admitted"):
                    table.loc[rng.random(n) < self.shape.missing, name] = None
        return table

    def everything(self, n: int) -> pd.DataFrame:
        """Past records in which every value occurs, so that domains hold whatever owners have."""
        table = self.born(n)
        whole = {"age": range(20, 38), "sex": "FM", "town": TOWNS, "disease": DISEASES, "job": JOBS}
        whole["admitted"] = pd.date_range("2024-03-01", periods=14)
        whole["income"] = range(0, 5000, 1000)
        for name in table.columns[1:]:
            values = list(whole[name])
            table.loc[: len(values) - 1, name] = values
        return table

    def schema(self, past: pd.DataFrame) -> ed.Schema:
        """What the columns mean."""
        shape, trees = self.shape, {}
        if shape.tree and "town" in shape.quasi_identifiers:
            trees["town"] = TOWN_TREE
        if shape.groups:
            trees["disease"] = DISEASE_TREE
        return ed.Schema.infer(
            past,
            shape.quasi_identifiers,
            shape.sensitive if len(shape.sensitive) > 1 else shape.sensitive[0],
            hierarchies=trees or None,
            widen={name: "no" for name in shape.quasi_identifiers if name in ("age", "admitted")},
            bins={"income": "values"} if "income" in shape.sensitive else None,
            changes=shape.changes,
        )


def _drawn(rng: np.random.Generator, chances: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """A value for everybody, by the chances of their kind."""
    return (rng.random(len(kind))[:, np.newaxis] > np.cumsum(chances, axis=1)[kind][:, :-1]).sum(axis=1)
