"""Large tables of patients, made by the engine from a seed: the same seed gives the same records.

50 diseases with falling frequencies; 3 quasi-identifiers with 30 x 2 x 50 = 3000 combinations, as many as in
the paper. The rows come in no order.
"""

import duckdb

N_CODES, N_AGES, N_DISEASES = 30, 50, 50
FIRST_AGE, FIRST_CODE = 20, 1000
N_COMBINATIONS = N_CODES * 2 * N_AGES
COLUMNS = ("postal_code", "gender", "age", "disease")


def make_table(path, n_rows, seed=1):
    """A table with one more column, a cost; postal codes are texts that begin with a zero."""
    code = f"'01' || lpad(CAST({_draw(0, seed)} % {N_CODES} AS VARCHAR), 3, '0')"
    cost = f"CAST({_draw(4, seed)} % 100000 AS DOUBLE) / 100"
    return _write(path, f"{_columns(code, N_AGES, seed)}, {cost} AS cost", 0, n_rows)


def make_people(path, n_rows, seed=1, first=0, n_codes=N_CODES, n_ages=N_AGES):
    """A table whose postal codes are numbers, so that every tool can make ranges of them.

    Two tables of one seed share the people whose numbers, from `first` on, lie in both.
    """
    code = f"CAST({FIRST_CODE} + {_draw(0, seed)} % {n_codes} AS INTEGER)"
    return _write(path, _columns(code, n_ages, seed), first, first + n_rows)


def _draw(place, seed):
    return f"hash(i * 8 + {place} + {seed} * 1000003)"


def _columns(code, n_ages, seed):
    uniform = f"(CAST({_draw(3, seed)} % 1000000007 AS DOUBLE) / 1000000007)"
    disease = f"CAST(floor({N_DISEASES} * {uniform} * sqrt({uniform})) AS INTEGER)"
    return f"""
        {code} AS postal_code,
        CASE {_draw(1, seed)} % 2 WHEN 0 THEN 'F' ELSE 'M' END AS gender,
        CAST({FIRST_AGE} + {_draw(2, seed)} % {n_ages} AS INTEGER) AS age,
        'disease ' || lpad(CAST({disease} AS VARCHAR), 2, '0') AS disease"""


def _write(path, columns, first, end):
    query = f"SELECT {columns} FROM range({first}, {end}) AS numbers(i)"  # noqa: S608 (numbers made here)
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT PARQUET, COMPRESSION ZSTD)")
    return path
