"""How long a call takes: the best of a few, after a warm-up, in processor time.

Whatever else the machine does counts little then. All threads are added up.
"""

import time


def best_time(call, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
