"""Whether the simulator is as fast as README says."""

from bench.rooms.verdicts import bound

# "Hundreds of times faster than life."
TIMES = 100


def judge(document):
    factors = [report["times_real_time"] for report in document["figures"]["reports"]]
    return [bound(f"at least {TIMES} times as fast as life", factors, lambda value: value >= TIMES, 0, "times")]
