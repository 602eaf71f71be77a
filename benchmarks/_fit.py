"""Fitting time as a power of size."""

import time

import numpy as np

from benchmarks._result import Fact


def exponent(sizes, values):
    """The slope of the straight line through the logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def grown(quantity, sizes, make, allowed):
    times = {}
    for call in make(min(sizes)).values():
        call()  # compiles
    for n in sizes:
        for step, call in make(n).items():
            times.setdefault(step, []).append(best(call))
    yield from fitted(quantity, sizes, times, allowed)


def fitted(quantity, sizes, times, allowed):
    for step, seconds in times.items():
        slope = exponent(sizes, seconds)
        print(f"  {quantity}: {step}: {', '.join(f'{each:.3g}' for each in seconds)} s, exponent {slope:.2f}")
        yield Fact(
            "growth",
            {"quantity": quantity, "step": step, "sizes": list(sizes), "seconds": seconds, "exponent": slope},
        )
        yield f"exponent of time over {quantity}: {step}", slope, allowed


def best(call):
    """The best of a few calls; one is enough for what takes long."""
    times = []
    while not times or (len(times) < 5 and sum(times) < 3.0):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
