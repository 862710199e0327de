"""Whether commands hold up no message, and are done soon."""

import statistics

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

P99_TIMES_MOST, SET_UP_SECONDS_MOST = 2, 1.0


def of(document, case):
    """What came of the rounds of a case that did not fail."""
    return [run["report"] for run in document["figures"]["runs"] if run["case"] == case and "failed" not in run["report"]]


def judge(document):
    calm, busy, fresh = (of(document, case) for case in ("calm", "busy", "set-up"))
    disturbed = lambda reports: [is_disturbed(report) for report in reports]
    p99 = lambda report: report["latency"]["p99_us"]
    usual = max(statistics.median(map(p99, calm)), 1) if calm else None
    times = [p99(report) / usual for report in busy] if usual else []
    return [
        bound("100 % in time beside commands", [100 * report["in_time"] for report in busy], lambda share: share >= 100, 4, "%", disturbed(busy)),
        bound("p99 beside commands at most twice the calm one", times, lambda value: value <= P99_TIMES_MOST, 2, "times",
              disturbed(busy) if times else ()),
        bound(f"{document['settings']['topics']} exact subscriptions within 1 s", [report["subscriptions_s"] for report in fresh],
              lambda value: value < SET_UP_SECONDS_MOST, 3, "s", disturbed(fresh)),
    ]
