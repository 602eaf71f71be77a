"""Tables, processes and settings that comparisons with the peers share."""

import json
import math
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from benchmarks._processes import PEERS, run_own, run_peer
from benchmarks._tables_data import COLUMNS, FIRST_AGE, FIRST_CODE, N_AGES, N_CODES, make_people

NAMES, SENSITIVE = list(COLUMNS[:3]), COLUMNS[3]
ELL, RELEASES = 5, 2
FASTER = 1 / 20
"""What our time may be at most, as a share of a peer's, where the project has promised it."""
MOST_SUPPRESSED = 1
"""Per cent of the records that anjana may leave out."""


@contextmanager
def workbench(size):
    """A place to compare in; None, with a word, where the peers are not installed."""
    if not PEERS.exists():
        print("  the peers are not installed (`make bench` installs them into .venv-peers); not compared")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="elldelta-peers-") as folder:
        yield Workbench(Path(folder), size.peer_seconds)


def versions():
    asked = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in "
    asked += "('pycanon', 'anjana', 'anonypyx', 'numpy', 'pandas')}))"
    done = subprocess.run([PEERS, "-c", asked], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class Workbench:
    """Makes tables once, runs both sides, and remembers what takes too long."""

    def __init__(self, folder, seconds):
        self.folder = folder
        self.seconds = seconds
        self.known = {}

    def table(self, n_rows, **options):
        name = "_".join([str(n_rows), *(f"{key}{value}" for key, value in sorted(options.items()))])
        path = self.folder / f"people_{name}.parquet"
        return path if path.exists() else make_people(path, n_rows, **options)

    def own(self, step, **request):
        return run_own(step=step, columns=NAMES, sensitive=SENSITIVE, **request)

    def peer(self, driver, n_rows, *, times=1, **request):
        print(f"  {driver}, {n_rows:,} records ...", flush=True)
        asked = {"columns": NAMES, "sensitive": SENSITIVE, "ell": ELL, **request}
        answer = run_peer(driver, seconds=times * self.seconds, **asked)
        if "at_least_seconds" in answer:
            self.known[driver] = n_rows
        return answer

    def is_hopeless(self, driver, n_rows, shape):
        """Whether it took too long with fewer records already, or with as many and fewer combinations."""
        return self.known.get(driver, math.inf) < n_rows + bool(shape)


def levels(shape):
    """What anjana wants besides: levels for whole columns, from exact to nothing, all written as ranges."""
    codes = range(FIRST_CODE, FIRST_CODE + shape.get("n_codes", N_CODES))
    ages = range(FIRST_AGE, FIRST_AGE + shape.get("n_ages", N_AGES))
    hierarchies = {
        "postal_code": [list(codes), *(_ranges(codes, width) for width in (5, 10, 100)), ["*"] * len(codes)],
        "gender": [["F", "M"], ["*", "*"]],
        "age": [list(ages), *(_ranges(ages, width) for width in (5, 10, 25)), ["*"] * len(ages)],
    }
    return {"hierarchies": hierarchies, "suppressed": MOST_SUPPRESSED}


def _ranges(numbers, width):
    lows = [number - (number - numbers[0]) % width for number in numbers]
    return [f"{low}-{min(low + width - 1, numbers[-1])}" for low in lows]
