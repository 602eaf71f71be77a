"""Files in an order are the same bytes, however many threads have written them."""

import pyarrow as pa

from elldelta.engines.duckdb import connect

N_ROWS = 600_000
"""Several row groups, each with few of the labels: a coded column would tell which thread came first."""


def written(path, threads):
    labels = pa.array([f"label {number:02}" for number in range(40)]).dictionary_encode()
    with connect(threads=threads) as engine:
        given = engine.put(pa.table({"number": pa.array(range(40)), "label": labels}))
        rows = f"range({N_ROWS}) AS numbers(i) JOIN {given} ON number = i % 40"
        query = f"SELECT label, i AS kept FROM {rows} ORDER BY number, i"  # noqa: S608 (names made here)
        assert engine.write(query, path, "parquet", ordered=True) == N_ROWS
    return path.read_bytes()


def test_coded_texts_do_not_tell_which_thread_came_first(tmp_path):
    one, *others = (written(tmp_path / f"{at}.parquet", threads) for at, threads in enumerate((1, 4, 4, 2)))
    assert all(other == one for other in others)
