"""Whether results come so much sooner than in Flink, and in so much less memory. Rounds are compared with each other; where bare threads miss
a target as well, that is said."""

import math
import statistics

from bench.rooms import noise
from bench.rooms.verdicts import bound

FASTER, SMALLER = 5, 20
# How bare threads can do it.
FLOORS = ("chained", "handed over")


def complete(report):
    """Of the results that are expected, the smallest share of a level that came."""
    return min(row["results"] / row["expected"] for row in report["levels"].values() if row["expected"])


def p99(report, level):
    """Endless where more than 1 % of the results had not come at the end."""
    row = report["levels"][level]
    return row["p99_ms"] if row["results"] >= 0.99 * row["expected"] else math.inf


def good(document, system, streams):
    return [run["report"] for run in document["figures"]["runs"] if (run["system"], run["streams"]) == (system, streams) and "failed" not in run["report"]]


def pairs(document, streams, of, others=("verge",)):
    """Flink's value over that of Verge, or over the least of the others, round by round, or nothing where those failed and Flink did not; and
    whether one of them was disturbed."""
    ratios, disturbed = [], []
    for number in range(document["settings"]["rounds"]):
        reports = {run["system"]: run["report"] for run in document["figures"]["runs"] if (run["round"], run["streams"]) == (number, streams)}
        some = [reports.get(system, {"failed": "not measured"}) for system in ("flink", *others)]
        if "failed" in some[0]:
            continue
        disturbed.append(any(map(noise.is_disturbed, some)))
        if any("failed" in report for report in some[1:]):
            ratios.append(None)
            continue
        flinks, least = of(some[0]), min(map(of, some[1:]))
        # Where the other has no value, nothing is won, whatever Flink has.
        ratios.append(0.0 if least == math.inf else flinks / least)
    return ratios, disturbed


def latency(document, streams, level):
    of = lambda report: p99(report, level)
    ratios, disturbed = pairs(document, streams, of)
    floors = [ratio for ratio in pairs(document, streams, of, FLOORS)[0] if ratio is not None]
    verdict = bound(f"{streams} middle streams, {level}: Flink's p99 at least {FASTER} times Verge's", ratios, lambda ratio: ratio >= FASTER, 1, "times",
                    disturbed)
    by_floor = verdict.outcome != noise.MET and floors and statistics.median(floors) < FASTER
    if not by_floor:
        return verdict
    return verdict._replace(remark="by the floor too" if verdict.outcome == noise.MISSED else "the floor misses it too")


def memory(document, streams):
    ratios, disturbed = pairs(document, streams, lambda report: report["resident_highest_kib"])
    return bound(f"{streams} middle streams: Flink's highest resident memory at least {SMALLER} times Verge's", ratios, lambda ratio: ratio >= SMALLER, 1,
                 "times", disturbed)


def judge(document):
    streams = document["settings"]["streams"]
    return [*(latency(document, count, level) for count in streams for level in document["settings"]["points"]),
            *(memory(document, count) for count in streams)]
