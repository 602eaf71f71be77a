"""What the drivers share: limits, the clock, and one line of JSON at the end.

A driver runs in the environment of the peers, where elldelta is not installed. It gets one argument, a
request in JSON: the table (Parquet), the names of its columns, what is wanted, how much memory it may use.
The clock runs for the work alone: starting Python, importing the peer and loading the table are left out, to
the peers' advantage. It is the processor's clock, so that whatever else the machine does counts little; the
time that passes is kept beside it. A driver that uses too much of the processor is ended by the system.
"""

import contextlib
import json
import re
import resource
import sys
import time
from pathlib import Path

REPEATS_BELOW_SECONDS = 10.0
"""Work that is shorter is done three times, and the best time counts."""


def serve(work):
    """Calls `work(request)`, which returns what it found, with its time."""
    request = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    if request["seconds"] is not None:
        # At the first limit comes a signal that says why, at the second one that does not.
        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"] + 10))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # peers print as they go
            answer = work(request)
    except MemoryError:
        answer = {"problem": "runs out of memory"}
    except Exception as error:  # noqa: BLE001 (what a peer cannot do is a result)
        answer = {"problem": f"fails ({type(error).__name__})"}
    answer["peak_bytes"] = peak_bytes()
    print(json.dumps(answer))


def peak_bytes():
    """The most memory of this program; `getrusage` begins with the peak of the one that has started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1])


def timed(call):
    """What a call returns, and the processor time and the time that it takes at best."""
    times = []
    while not times or (len(times) < 3 and times[0][0] < REPEATS_BELOW_SECONDS):
        start, passed = time.process_time(), time.perf_counter()
        result = call()
        times.append((time.process_time() - start, time.perf_counter() - passed))
    return result, {
        "seconds": min(each[0] for each in times),
        "passed_seconds": min(each[1] for each in times),
    }
