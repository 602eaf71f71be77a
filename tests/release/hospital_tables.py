"""Small tables about patients, made from a seed and written without the package under test."""

import csv
import datetime as dt
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

POSTAL_CODES = (
    "01001",
    "01002",
    "01003",
    "01004",
    "01005",
)  # a reader that makes numbers of them loses a zero
GENDERS = ("F", "M")
AGES = range(30, 42)
DISEASES = ("flu", "asthma", "migraine, chronic", 'the "big" one', "épilepsie", "gout", "angina")
QUASI_IDENTIFIERS = ("postal_code", "gender", "age")
SENSITIVE = "disease"
NAMES = (*QUASI_IDENTIFIERS, SENSITIVE, "ward", "admitted", "cost")
"""Quasi-identifiers, the sensitive column, and three columns that nobody asked for."""

SMALL_PLAN = ("--ell", "3", "--releases", "2", "--records", "2500", "--delta", "0.01")


def make_rows(n, seed, *, without=()):
    """Records whose disease depends on who has it; `without` leaves out combinations of two columns."""
    rng = random.Random(seed)
    rows = []
    while len(rows) < n:
        postal_code = rng.choices(POSTAL_CODES, weights=(5, 4, 3, 2, 1))[0]
        gender, age = rng.choice(GENDERS), rng.choice(AGES)
        if (postal_code, age) in without:
            continue
        weights = [4 + (age - 30) * (place % 3) / 4 + (gender == "F") * (place % 2) for place in range(7)]
        rows.append(
            {
                "postal_code": postal_code,
                "gender": gender,
                "age": age,
                "disease": rng.choices(DISEASES, weights=weights)[0],
                "ward": f"ward {rng.randrange(40)}",
                "admitted": dt.date(2020, 1, 1) + dt.timedelta(days=rng.randrange(700)),
                "cost": round(rng.uniform(10, 9000), 2),
            }
        )
    return rows


def write_csv(path, rows, *, encoding="utf-8", names=None):
    """Writes records as the standard library does; None is an empty field."""
    names = list(names or rows[0])
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path, rows):
    """Writes records as Arrow does."""
    pq.write_table(to_arrow(rows), path)
    return path


def to_arrow(rows):
    """Records as an Arrow table."""
    return pa.table({name: [row[name] for row in rows] for name in rows[0]})


def write_table(path, rows):
    """Writes records to CSV or Parquet, as the name says."""
    return (write_csv if path.suffix == ".csv" else write_parquet)(path, rows)


def read_rows(path):
    """The rows of a release as tuples of texts (None where nothing is), in their order, with the header."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        return tuple(header), [tuple(field or None for field in row) for row in rows]
    table = pq.read_table(path)
    rows = zip(*table.to_pydict().values(), strict=True)
    return tuple(table.column_names), [tuple(None if v is None else str(v) for v in row) for row in rows]


def people(n_people, seed):
    """A frame with two quasi-identifiers, six diseases of which two are rare, and a column to keep."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 40, n_people),
            "zip": np.array(["A", "B", "C", "D"])[rng.integers(0, 4, n_people)],
            "disease": np.array(["flu", "hiv", "cold", "gout", "acne", "mumps"])[
                rng.choice(6, n_people, p=[0.3, 0.1, 0.2, 0.2, 0.1, 0.1])
            ],
            "ward": np.array(["b", "B", "é", "Z", " "])[rng.integers(0, 5, n_people)],
        }
    )
