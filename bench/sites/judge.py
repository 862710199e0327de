"""Whether two sites and their routers reach what they are to."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound, exact

# Above a bare connection, in milliseconds.
HOPS_P50_MS, HOPS_P99_MS = 0.15, 0.5
ROUTER_MOST = 1.3
# Of a message with the most topics beside one with the fewest: what a process takes grows no faster than its topics.
LINEAR_MOST = 1.1
# Beside a period and a wide round trip.
PAIR_MS = 50
# Beside the session.
ALONE_MS = 1000
# Beside the links, for what brokers and uplinks take; and the delay of a link in the middle.
PATH_MS, MIDDLE_MS = 10, 125
# Round trips to the service, and what is beside them.
TRIPS, BESIDE_MS = 8, 100
# Of an idle site's bytes: what uplinks and routers say to each other whatever is published differs by so much.
IDLE_MOST = 0.1


def of(document, part):
    return [run["report"] for run in document["figures"]["runs"] if run["part"] == part]


def row(report, two, system="verge"):
    return next(row for row in report["rows"] if (row["system"], row["two"]) == (system, two))


def router_share(report):
    return row(report, True)["us_per_message"]["router"] / row(report, False)["us_per_message"]["north"]


def growth(report):
    """For each process, what a message costs with the most topics, beside what it costs with the fewest."""
    few, many = report["rows"][0], report["rows"][-1]
    return [many["processor"][name] / many["topics"] / (few["processor"][name] / few["topics"]) for name in ("north", "router", "south")]


def uses(report, link):
    """Whether messages go by a link: the direct one, or one of the two around."""
    return ("direct" if link == 0 else "around") in report["paths"]


def best(report):
    """The delay of the better one of a report's paths, in milliseconds."""
    direct, to, onward = (delay for delay, _ in report["links"])
    return min([direct] * ("direct" in report["paths"]) + [to + onward] * ("around" in report["paths"]))


def judge(document):
    hops, pair, alone, drain, local = (of(document, part) for part in ("hops", "pair", "alone", "drain", "local"))
    paths = of(document, "paths")
    both, single = ([report for report in paths if len(report["paths"]) == count] for count in (2, 1))
    slow = [report["p99_us"] / 1e3 for report in single if report["paths"] == ["around"] and report["links"][1][0] == MIDDLE_MS]
    cases = [report for report in both if report["links"][0][0] != MIDDLE_MS]
    cut = [report for report in of(document, "cut") if report["system"] == "verge"]
    disturbed = [is_disturbed(document) or is_disturbed(report) for report in hops]
    above = lambda key: [(row(report, True)[key] - report["echo"][key]) / 1e3 for report in hops]
    wide = 2 * document["settings"]["delay_ms"]
    found = [ms for report in of(document, "discovery") for key in ("new_ms", "known_ms") for ms in report[key]]
    lacks = lambda reports, *keys: [sum(report[key] for key in keys) for report in reports]
    idle = [report["rows"][0]["bytes_per_second"] for report in local]
    at_home = [next(row for row in report["rows"][1:] if row["crossing"] == 0)["bytes_per_second"] for report in local]
    return [
        bound("two hops take at most 0.15 ms more than a bare connection, in the median", above("p50_us"), lambda ms: ms <= HOPS_P50_MS, 3, "ms", disturbed),
        bound("and 0.5 ms in the 99th percentile", above("p99_us"), lambda ms: ms <= HOPS_P99_MS, 3, "ms", disturbed),
        bound("a router takes at most 1.3 times what a broker takes for a message", map(router_share, hops), lambda share: share <= ROUTER_MOST, 2, "",
              disturbed),
        exact("what a message costs a site or a router grows by a tenth at most with sixteen times as many topics", [share for report in of(document, "topics") for share in growth(report)],
              lambda share: share <= LINEAR_MOST, 2),
        bound("nothing leaves a site that nobody elsewhere wants: as many bytes as from an idle one, and a tenth at most",
              [here / there - 1 for here, there in zip(at_home, idle)], lambda more: more <= IDLE_MOST, 2),
        bound(f"a router that is a pair: silence of a period, a wide round trip and {PAIR_MS} ms at most",
              [silence - report["period_ms"] - wide for report in pair for silence in report["silence_ms"]], lambda ms: ms <= PAIR_MS, 0, "ms beside"),
        exact("nothing missing, nothing twice", lacks(pair, "missing", "twice"), lambda count: count == 0),
        bound("a router that is alone: silence of its session and a second at most",
              [silence - 1000 * report["session_s"] for report in alone for silence in report["silence_ms"]], lambda ms: ms <= ALONE_MS, 0, "ms beside"),
        exact("nothing missing, nothing twice, then", lacks(alone, "missing", "twice"), lambda count: count == 0),
        exact("a router gives all topics away, and nothing is missing or twice",
              [report["missing"] + report["twice"] + (not report["drained"]) for report in drain], lambda count: count == 0),
        bound(f"from when a topic has a publisher and a subscriber to the first message: {TRIPS} round trips to the service and {BESIDE_MS} ms at most", found,
              lambda ms: ms <= TRIPS * wide + BESIDE_MS, 0, "ms"),
        exact(f"by two paths at once: in the median the delay of the better one, and {PATH_MS} ms at most", [report["p50_us"] / 1e3 - best(report) for report in both],
              lambda ms: ms <= PATH_MS, 1, "ms beside"),
        exact("all eight cases beat, in the 99th percentile, one path of two links with 125 ms and 1 % lost each", [report["p99_us"] / 1e3 - ms for ms in slow for report in cases],
              lambda ms: ms < 0, 0, "ms above it"),
        exact("nothing missing, nothing twice, by two paths", lacks(both, "missing", "twice"), lambda count: count == 0),
        exact("after a cut everything comes, once, and backlog in order", lacks(cut, "missing", "twice", "missed_out_of_order"), lambda count: count == 0),
    ]
