"""Whether Verge is as near to the bare relay, and as far before the other brokers, as it should be. Figures of a round are compared with
those of the others in that round."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

PEERS = ("mosquitto", "nats", "zenoh", "redis")
TOPICS, COST_TIMES = "13525 topics", 2
URGENT_US = 1000
ROUND_TRIP_TIMES = 1.1


def rounds(document, kind, case):
    """By round, then by broker."""
    found = {}
    for run in document["figures"]["runs"]:
        if (run["kind"], run["case"]) == (kind, case):
            found.setdefault(run["round"], {})[run["broker"]] = run["report"]
    return [found[number] for number in sorted(found)]


def cases(document, kind):
    return list(dict.fromkeys(run["case"] for run in document["figures"]["runs"] if run["kind"] == kind))


def beside(document, kind, case, others, of):
    """By round, Verge's figure over the least of the others' that did not fail, and whether one of them was disturbed."""
    ratios, disturbed = [], []
    for reports in rounds(document, kind, case):
        some = [reports[name] for name in others if name in reports and "failed" not in reports[name]]
        if "verge" in reports and some:
            ratios.append(None if "failed" in reports["verge"] else of(reports["verge"]) / min(map(of, some)))
            disturbed.append(any(map(is_disturbed, [reports["verge"], *some])))
    return ratios, disturbed


def ratio(document, words, kind, case, others, of, holds):
    ratios, disturbed = beside(document, kind, case, others, of)
    return bound(words, ratios, holds, 2, "times", disturbed)


def judge(document):
    verdicts = []
    for case in cases(document, "urgent"):
        reports = [row["verge"] for row in rounds(document, "urgent", case) if "verge" in row]
        verdicts.append(bound(f"urgent messages beside {case}: p99 below {URGENT_US / 1000:g} ms", [None if "failed" in report else report["latency"]["p99_us"] / 1000 for report in reports],
                              lambda ms: ms < URGENT_US / 1000, 2, "ms", map(is_disturbed, reports)))
    for case in cases(document, "pingpong"):
        for shown, key in (("p50", "p50_us"), ("p99.9", "p999_us")):
            of = lambda report, key=key: report["round_trip"][key]
            verdicts.append(ratio(document, f"round trips of {case}: {shown} at most {ROUND_TRIP_TIMES} times the relay's", "pingpong", case, ["relay"], of,
                                  lambda times: times <= ROUND_TRIP_TIMES))
            verdicts.append(ratio(document, f"round trips of {case}: {shown} lower than every peer's", "pingpong", case, PEERS, of, lambda times: times < 1))
    if TOPICS in cases(document, "frame"):
        verdicts.append(ratio(document, f"{TOPICS}: at most {COST_TIMES} times the relay's processor time", "frame", TOPICS, ["relay"],
                              lambda report: report["broker_us_per_delivered"], lambda times: times <= COST_TIMES))
        verdicts.append(ratio(document, f"{TOPICS}: p99.9 lower than every peer's", "frame", TOPICS, PEERS, lambda report: report["latency"]["p999_us"],
                              lambda times: times < 1))
    return verdicts
