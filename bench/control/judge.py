"""Whether commands hold up no message, and are done soon."""

import statistics

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

P99_TIMES_MOST, SET_UP_SECONDS_MOST = 2, 1.0


def of(document, case):
    """What came of the rounds of a case that did not fail."""
    return [run["report"] for run in document["figures"]["runs"] if run["case"] == case and "failed" not in run["report"]]


def all_of(document, case):
    """What came of all of them, and whether they were disturbed."""
    reports = [run["report"] for run in document["figures"]["runs"] if run["case"] == case]
    return reports, list(map(is_disturbed, reports))


def has_failed(report):
    """What was measured without the commands that should be there has failed as well."""
    return "failed" in report or "failed" in report.get("commands", {})


def judge(document):
    calm, (busy, disturbed), (fresh, fresh_disturbed) = of(document, "calm"), all_of(document, "busy"), all_of(document, "set-up")
    p99 = lambda report: report["latency"]["p99_us"]
    usual = max(statistics.median(map(p99, calm)), 1) if calm else None
    figure = lambda report, of: None if has_failed(report) else of(report)
    times = [figure(report, lambda report: p99(report) / usual) for report in busy] if usual else []
    return [
        bound("100 % in time beside commands", [figure(report, lambda report: 100 * report["in_time"]) for report in busy], lambda share: share >= 100, 4,
              "%", disturbed),
        bound("p99 beside commands at most twice the calm one", times, lambda value: value <= P99_TIMES_MOST, 2, "times",
              disturbed if times else ()),
        bound(f"{document['settings']['topics']} exact subscriptions within 1 s", [report.get("subscriptions_s") for report in fresh],
              lambda value: value < SET_UP_SECONDS_MOST, 3, "s", fresh_disturbed),
    ]
