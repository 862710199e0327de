"""Whether what FRAME promises holds at its largest size, and what has broken in a run."""

import math

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

# Upwards, less than this in time has broken, and so has a publisher that sends less than this of its schedule.
IN_TIME, PUBLISHED = 99.9, 99.0
PROMISING = {"frame+": "FRAME+", "frame": "FRAME"}


def percent(value):
    """Never rounded up to 100."""
    if value >= 100:
        return "100"
    if value > 99:
        return f"{math.floor(value * 1000) / 1000:.3f}"
    return f"{value:.1f}" if value >= 0.1 or value == 0 else f"{value:.2g}"


def faults(run):
    """What has broken in one run; nothing if it holds."""
    if "failed" in run:
        return [run["failed"]]
    found = []
    if run["published"] < PUBLISHED:
        found.append(f"the publisher sent {run['published']:.1f} % of its schedule")
    if run["in_time"] < IN_TIME:
        found.append(f"{percent(run['in_time'])} % in time")
    broken = [name for name, row in run["categories"].items() if row["kept"] < 100]
    if broken:
        found.append(f"loss contracts broken in {', '.join(broken)}")
    return found


def mostly(runs):
    """Whether most runs have broken: one may be the host's."""
    return 2 * sum(1 for run in runs if faults(run)) > len(runs)


def judge(document):
    usual = [run for run in document["figures"]["runs"] if not run["upward"]]
    largest = max((run["topics"] for run in usual), default=None)
    verdicts = []
    for policy, shown in PROMISING.items():
        for crash in (True, False):
            runs = [run["figures"] for run in usual if (run["topics"], run["policy"], run["crash"]) == (largest, policy, crash)]
            disturbed = list(map(is_disturbed, runs))
            if crash:
                kept = [None if "failed" in run else min(row["kept"] for row in run["categories"].values()) for run in runs]
                verdicts.append(bound(f"{shown}, {largest} topics, SIGKILL: every loss contract kept in each category", kept, lambda share: share >= 100, 1,
                                      "%", disturbed))
            else:
                verdicts.append(bound(f"{shown}, {largest} topics, without a fault: {IN_TIME} % in time", [run.get("in_time") for run in runs],
                                      lambda share: share >= IN_TIME, 3, "%", disturbed))
    return verdicts
