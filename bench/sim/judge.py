"""Whether the simulator is as fast as README says, and what it simulated is right."""

from bench.rooms.verdicts import bound, exact

# "Hundreds of times faster than life."
TIMES = 100


def judge(document):
    reports = document["figures"]["reports"]
    return [bound(f"at least {TIMES} times as fast as life", [report["times_real_time"] for report in reports], lambda value: value >= TIMES, 0, "times"),
            exact("no checker finds anything", [len(report["violations"]) for report in reports], lambda count: count == 0)]
