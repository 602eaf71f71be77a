"""A large table of patients, made by the engine from a seed: quasi-identifiers, disease, two more columns.

50 diseases with falling frequencies; 3 quasi-identifiers with 30 x 2 x 50 = 3000
combinations. The rows come in no order.
"""

import duckdb

N_COMBINATIONS = 30 * 2 * 50
COLUMNS = ("postal_code", "gender", "age", "disease")


def make_table(path, n_rows, seed=1):
    """Writes the table as Parquet; the same seed gives the same records."""
    draw = [f"hash(i * 8 + {place} + {seed} * 1000003)" for place in range(5)]
    uniform = f"(CAST({draw[3]} % 1000000007 AS DOUBLE) / 1000000007)"
    disease = f"CAST(floor(50 * {uniform} * sqrt({uniform})) AS INTEGER)"
    query = f"""
        SELECT '01' || lpad(CAST({draw[0]} % 30 AS VARCHAR), 3, '0') AS postal_code,
               CASE {draw[1]} % 2 WHEN 0 THEN 'F' ELSE 'M' END AS gender,
               CAST(20 + {draw[2]} % 50 AS INTEGER) AS age,
               'disease ' || lpad(CAST({disease} AS VARCHAR), 2, '0') AS disease,
               CAST({draw[4]} % 100000 AS DOUBLE) / 100 AS cost
        FROM range({n_rows}) AS numbers(i)
    """  # noqa: S608 (numbers made here)
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT PARQUET, COMPRESSION ZSTD)")
    return path
