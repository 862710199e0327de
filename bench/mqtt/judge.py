"""Whether the gateway loses nothing and costs less than mosquitto."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound, exact


def reports(document, kind, case, broker):
    """In the order of the rounds."""
    return [row["report"] for row in sorted(document["figures"]["runs"], key=lambda row: row["round"])
            if (row["kind"], row["case"], row["broker"]) == (kind, case, broker)]


def cases(document, kind):
    return list(dict.fromkeys(row["case"] for row in document["figures"]["runs"] if row["kind"] == kind))


def judge(document):
    runs = [row["report"] for row in document["figures"]["runs"] if row["broker"] == "verge"]
    lost = [run["missing"] for run in runs if "missing" in run] + [run["urgent_published"] - run["urgent_delivered"] for run in runs
                                                                   if "urgent_published" in run]
    verdicts = [exact("no message missing, and no urgent one lost", [sum(lost)] if lost else [], lambda count: count == 0)]
    for case in cases(document, "throughput"):
        pairs = zip(reports(document, "throughput", case, "verge"), reports(document, "throughput", case, "mosquitto"))
        ratios = [verge["delivered_per_broker_s"] / other["delivered_per_broker_s"] for verge, other in pairs]
        verdicts.append(bound(f"{case}: more messages per processor second than mosquitto", ratios, lambda ratio: ratio > 1, 2, "times",
                              [is_disturbed(document)] * len(ratios)))
    return verdicts
