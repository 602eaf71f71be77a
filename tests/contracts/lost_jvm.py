"""A run whose JVM is killed in the middle of something: `lost_jvm DOING SIGNAL...`."""

import itertools
import os
import signal
import sys
import threading
import time

from elldelta.engines import connect
from elldelta.errors import ElldeltaError

COUNTING = "SELECT id % 5000 AS k, COUNT(*) AS n FROM RANGE(300000000) GROUP BY id % 5000"


def job(number, progress=None):
    time.sleep(0.5)
    return number


def main(doing, *signals):
    with connect("spark", master="local[2]") as engine:
        pid = engine._spark.sparkContext._gateway.proc.pid
        begun = threading.Event()

        def kill():
            begun.wait()
            for name in signals:
                time.sleep(1)
                os.kill(pid, signal.Signals[name])

        threading.Thread(target=kill, daemon=True).start()
        for turn in itertools.count():
            if doing == "count":
                engine.store(COUNTING, lambda _: None)
            else:
                list(engine.run_each(job, 2, lambda _: None))
            # In the next turn: by now Spark has a connection by which it tells what its workers add up.
            begun.set()
            print("done", turn, flush=True)  # noqa: T201


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ElldeltaError as refusal:
        print(refusal, file=sys.stderr)  # noqa: T201
        sys.exit(refusal.exit_code)
