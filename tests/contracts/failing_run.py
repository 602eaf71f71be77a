"""A run in a process of its own that meets a full disk or Ctrl-C: `failing_run MODE OUTPUT WRITTEN`."""

import contextlib
import itertools
import json
import os
import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from elldelta.engines import connect
from elldelta.errors import ElldeltaError
from elldelta.files import AtomicFiles
from elldelta.model.counting import count
from elldelta.release.publishable import Publishable
from elldelta.release.quarantine import write_quarantine
from elldelta.release.rows import write_release
from elldelta.schema.schema import Categories, Column, Integers, Schema


def children():
    """The processes that this one has started: an engine may write in one of them."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += map(int, (task / "children").read_text().split())
    return found


def main(mode, output, written):
    highest = 4 if written == "quarantine" else 9
    schema = Schema((Column("a", Integers(0, highest)),), Column("s", Categories(("x", "y"))))
    n = 200_000 if mode == "full" or os.environ["ENGINE"] == "spark" else 2_000_000
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "a": rng.integers(0, 10, n),
            "s": pa.array(["x", "y"]).take(pa.array(rng.integers(0, 2, n))),
            "name": rng.integers(0, 2**60, n),
        }
    )
    with connect(os.environ["ENGINE"], **json.loads(os.environ["ENGINE_SETTINGS"])) as engine:
        if mode == "count":
            # Enough work that the interrupt always comes in the middle of it.
            table = pa.concat_tables([table] * (2000 if engine.name == "duckdb" else 10))
            print("ready", flush=True)  # noqa: T201
        counted = count(engine.open(table), schema, unknown="quarantine")
        counts = counted.counts
        shown = counts.by_class(np.zeros(counts.n_combinations, int), 1)
        content = Publishable(schema, None, [("*",)], shown, counts.accounting)
        if mode == "full":
            for process in (os.getpid(), *children()):
                resource.prlimit(process, resource.RLIMIT_FSIZE, (100, 100))
        print("ready", flush=True)  # noqa: T201
        with AtomicFiles() as files:
            for turn in itertools.count():  # as long as it takes until the failure comes
                path = output.replace("TURN", str(turn))
                if written == "quarantine":
                    write_quarantine(counted, path, files)
                else:
                    write_release(content, path, files)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ElldeltaError as refusal:
        print(refusal)  # noqa: T201
        sys.exit(refusal.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
