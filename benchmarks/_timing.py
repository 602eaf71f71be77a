"""How long a call takes: the best of a few, after a warm-up, in processor time.

Whatever else the machine does counts little then. All threads are added up.
"""

import time


def best_time(call, repeats=3, clock=time.process_time):
    call()
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)
