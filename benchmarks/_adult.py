"""UCI Adult as the issue's figures use it: education in its natural order, other categories by frequency."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from elldelta.model.model import estimate
from elldelta.schema.domains import Categories
from elldelta.schema.schema import Column, Schema

ADULT = Path(__file__).parents[2] / "shared" / "data" / "adult.csv"

EDUCATION = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip


def adult_table():
    return pa.csv.read_csv(ADULT)


def adult_model(*names):
    """The empirical distribution over some quasi-identifiers; occupation is sensitive."""
    table = adult_table()
    inferred = Schema.infer(table, names, "occupation")
    columns = tuple(
        Column("education", Categories(EDUCATION, ordered=True)) if column.name == "education" else column
        for column in inferred.quasi_identifiers
    )
    schema = Schema(columns, inferred.sensitive)
    return estimate(table, schema)


def owners(model, n_owners, n_records, seed):
    """Owners whose records are drawn from the model, as tables of counts over its combinations."""
    rng = np.random.default_rng(seed)
    dense = model.counts.dense()
    chances = dense.ravel() / dense.sum()
    return [rng.multinomial(n_records, chances).reshape(dense.shape) for _ in range(n_owners)]
