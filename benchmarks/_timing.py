"""How long a call takes: the best of a few, after a warm-up."""

import time


def best_time(call, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
