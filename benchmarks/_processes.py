"""Work in processes of their own: commands of ours, and the peers in their own environment."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DRIVERS = Path(__file__).parent / "peer_drivers"
PEERS = Path(os.environ.get("ELLDELTA_PEERS", ROOT / ".venv-peers")) / "bin" / "python"
"""The Python of the environment that `make bench` makes from peers.txt."""
STARVED = 10
"""A process may take so many times the processor time that it is allowed."""

_MEASURED = """
import resource, sys, time
import duckdb, pyarrow.parquet
import elldelta.release.release
from elldelta.cli.main import execute
passed, used = time.perf_counter(), time.process_time()
code = execute(sys.argv[1:])
passed, used = time.perf_counter() - passed, time.process_time() - used
sys.stdout.write(f"{code} {passed} {used} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
"""


def run_command(*arguments):
    """One of our commands in a process of its own: time that passes, processor time, peak memory in bytes.

    Python has started and libraries are loaded when the clock starts. A shell starts it: a process begins
    with the peak of the one that starts it, and this one may be large.
    """
    finished = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", _MEASURED, *map(str, arguments), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    code, passed, used, peak = finished.stdout.splitlines()[-1].split()
    assert code == "0", finished.stdout
    return {
        "passed_seconds": float(passed),
        "seconds": float(used),
        "peak_bytes": int(peak) * (1024 if sys.platform != "darwin" else 1),
    }


def run_own(**request):
    """What our side of a comparison answers; see `_own`."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._own", json.dumps(request)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_peer(driver, *, seconds=None, **request):
    """What a peer's driver answers, or what became of it; never an error of ours.

    A peer may use half of the machine's memory and so many seconds of its processor. Other work on the
    machine makes it slower; a peer that gets next to nothing of the processor is ended as well.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    try:
        done = subprocess.run(
            [PEERS, DRIVERS / f"{driver}.py", json.dumps({"memory": memory, "seconds": seconds, **request})],
            capture_output=True,
            text=True,
            timeout=None if seconds is None else STARVED * seconds,
            check=False,
        )
        is_late = done.returncode == -signal.SIGXCPU
    except subprocess.TimeoutExpired:
        is_late = True
    if is_late:
        return {"problem": f"does not finish within {seconds} s", "at_least_seconds": seconds}
    if done.returncode or not done.stdout.strip():
        return {"problem": "is ended by the system"}
    return json.loads(done.stdout.splitlines()[-1])
