"""Whether a journal keeps items fast enough, takes what was foretold of the disk, and no more memory the longer it runs."""

import statistics

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound, exact

# Items of 64 bytes in a second, in a burst, on one processor.
BURST_LEAST = 2_000_000
DISK_MOST = 0.05
# The index grows with the segments that are there, and no further.
GROWTH_KIB_MOST = 4_096


def judge(document):
    runs = document["figures"]["runs"]
    disturbed = [is_disturbed(document) or is_disturbed(run) for run in runs]
    bursts = [statistics.median(run["bursts"]) / 1e6 for run in runs]
    disk = [100 * abs(run["taken_bytes"] / run["foretold_bytes"] - 1) for run in runs]
    growth = [run["memory_kib"][-1] - run["memory_kib"][0] for run in runs]
    return [bound("at least 2 million items in a second of a burst, in the median", bursts, lambda value: value >= BURST_LEAST / 1e6, 2,
                  "million", disturbed),
            exact("the disk that segments take is within 5 % of what was foretold", disk, lambda value: value <= 100 * DISK_MOST, 1, "%"),
            exact("memory grows by 4 MiB at most", growth, lambda value: value <= GROWTH_KIB_MOST, 0, "KiB")]
