"""Whether the store does what it should: every iteration without a fault and with up to f, coordination in time, reads that are cheap and alike."""

from bench.rooms import noise
from bench.rooms.verdicts import Verdict, bound

READ_NS = 200
LARGE = {"keys": 905, "share": 0.999, "mean_ms": 5, "worst_ms": 15}
PERIOD_MS, PERIOD_SHARE = 50, 0.2
# A size that fails: fewer of a node's reads or writes succeed.
FAILS_BELOW = 0.999
FAULTS = {None: "none", "dead": "one dead", "liar": "one lies", "two dead": "two dead", "two liars": "two lie", "late": "one sends 30 ms late",
          "lossy": "one loses 30 % of what it sends", "corrupt": "one corrupts 5 % of what it sends"}


def title(run):
    """A cell in words."""
    size = f"{run['tasks']} tasks, {run['lanes']} lanes" if run["load"] == "control" else f"{run['keys']} keys, {run['lanes']} lanes"
    fault = f", {FAULTS[run['fault']]}" if run["fault"] else ""
    return f"{run['part']}, {run['store']}, ({run['nodes']},{run['faults']}), {size}, {run['period_ms']} ms{fault}"


def brief(report):
    if "failed" in report:
        return f"FAILED: {report['failed']}"
    weakest = lambda key: 100 * min(node[key] for node in report["nodes"])
    words = [f"reads {weakest('read_share'):.2f} %, writes {weakest('write_share'):.2f} %"]
    if "coordination_worst_ms" in report["nodes"][0]:
        mean, worst = (max(node[f"coordination_{key}_ms"] for node in report["nodes"]) for key in ("mean", "worst"))
        words.append(f"coordination {mean:.2f} mean, {worst:.2f} ms worst")
    return ", ".join([*words, f"{report['differ']} of {report['compared']} differ"])


def fails(report):
    """Whether a node of a cell has failed too often."""
    return "failed" in report or any(min(node["read_share"], node["write_share"]) < FAILS_BELOW for node in report["nodes"])


def nodes(reports, key):
    """A figure of every correct node in every round."""
    return [node[key] for report in reports if "failed" not in report for node in report["nodes"] if key in node]


def worst(runs, key, of=max):
    """By round, the worst of the correct nodes, or nothing where it failed; and whether that round was disturbed."""
    return [of(nodes([run["report"]], key), default=None) for run in runs], [noise.is_disturbed(run["report"]) for run in runs]


def whole(words, runs):
    """Every correct node succeeds in every iteration of every cell."""
    cells = {}
    for run in runs:
        cells.setdefault(title(run), []).append(run["report"])
    full = lambda report: "failed" not in report and all(node["read_share"] == node["write_share"] == 1 for node in report["nodes"])
    outcomes = {name: noise.outcome(reports, full, [noise.is_disturbed(report) for report in reports]) for name, reports in cells.items()}
    missed = [name for name, one in outcomes.items() if one != noise.MET]
    shown = "; ".join(f"{name}: {', '.join(map(brief, cells[name]))}" for name in missed)
    return Verdict(words, f"{len(cells) - len(missed)} of {len(cells)} cells" + (f". Not: {shown}" if shown else ""), noise.together(outcomes.values()))


def judge(document):
    runs = [run for run in document["figures"]["runs"] if run["store"] == "verge"]

    def of(**wanted):
        return [run for run in runs if all(run[key] == value for key, value in wanted.items())]

    network = of(part="network", load="control")
    verdicts = [whole(words, some) for words, some in (
        ("100 % of iterations, control workload", of(part="control")),
        ("the same with one dead or one lying node", of(part="faults", fault="dead") + of(part="faults", fault="liar")),
        ("the same on links of 100 Mbit/s with 0.2 to 0.5 ms", [run for run in network if not run["fault"]]),
        ("there with one node that is dead, late, lossy or corrupts", [run for run in network if run["fault"]])) if some]
    return [*verdicts, *coordination(of), *beyond(of(part="faults")), *reads(of(part="reads")), *alike(runs)]


def coordination(of):
    """How long nodes coordinate, and how much that leaves out."""
    slowest, disturbed = worst(of(part="keys", keys=100, nodes=4), "coordination_worst_ms")
    limit = PERIOD_SHARE * PERIOD_MS
    if slowest:
        yield bound(f"worst coordination under {PERIOD_SHARE:.0%} of the period at {PERIOD_MS} ms and 100 keys", slowest, lambda ms: ms < limit, 2, "ms",
                    disturbed)
    large = of(part="automotive", keys=LARGE["keys"], fault=None)
    weakest, disturbed = worst(large, "read_share", min)
    if not weakest:
        return
    yield bound(f"{LARGE['keys']} keys, {PERIOD_MS} ms: every node at {LARGE['share']:.1%} or above (source: 44.8 %)", [share and 100 * share for share in weakest],
                lambda share: share >= 100 * LARGE["share"], 2, "%", disturbed)
    for words, key in (("mean", "mean_ms"), ("worst", "worst_ms")):
        values, disturbed = worst(large, f"coordination_{key}")
        yield bound(f"{LARGE['keys']} keys: {words} coordination under {LARGE[key]} ms on each node", values, lambda ms, key=key: ms < LARGE[key], 2, "ms",
                    disturbed)


def beyond(runs):
    """More faults than f."""
    for run in runs:
        if run["fault"] in ("two dead", "two liars"):
            alarms, wrong = (sum(nodes([run["report"]], key)) for key in ("alarms", "wrong"))
            told = "failed" not in run["report"] and (alarms or all(node["read_share"] < 1 for node in run["report"]["nodes"]))
            yield Verdict(f"{FAULTS[run['fault']]}, more than f: not in silence",
                          f"{int(alarms)} alarms, {int(wrong)} values were wrong before; {brief(run['report'])}", noise.exact([told], bool))


def reads(runs):
    reports = [run["report"] for run in runs]
    if reports:
        yield bound(f"reads from shared memory under {READ_NS} ns at the median",
                    [None if "failed" in report else report["shared_memory"]["p50_ns"] for report in reports], lambda ns: ns < READ_NS, 0, "ns",
                    map(noise.is_disturbed, reports))


def alike(runs):
    """What no noise excuses."""
    ours = [run["report"] for run in runs if "failed" not in run["report"] and not (run["fault"] or "").startswith("two")]
    if ours:
        compared = sum(report["compared"] for report in ours)
        counts = {"releases differ": sum(report["differ"] for report in ours), "values were wrong": int(sum(nodes(ours, "wrong"))),
                  "alarms": int(sum(nodes(ours, "alarms")))}
        yield Verdict("correct nodes read the same, and nothing that no correct node wrote",
                      f"of {compared:,} releases: " + ", ".join(f"{count} {words}" for words, count in counts.items()),
                      noise.exact(list(counts.values()), lambda count: count == 0))
