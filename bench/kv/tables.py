"""The page of bench/kv/measure.py: tables, pictures, targets, and the figures of In-ConcReTeS beside ours."""

import statistics

from bench.rooms import pictures
from bench.rooms.common import disturbances, spread, write_results

# Of the raw data that In-ConcReTeS published: iterations whose reads succeeded, in percent, by tasks, lanes and period.
SOURCE_CONTROL = {
    (1, 1, 800): (100, 98.8, 0.80), (1, 1, 200): (100, 99.8, 0.20), (1, 1, 50): (99.96, 97.3, 0.05),
    (4, 1, 800): (100, 34.9, 0.80), (4, 1, 200): (100, 29.2, 0.20), (4, 1, 50): (100, 12.4, 0.05),
    (4, 3, 800): (100, 20.0, 0.80), (4, 3, 50): (100, 15.9, 0.05),
}
# Its table of the automotive workload: the weakest of four nodes in percent, mean and worst coordination in milliseconds.
SOURCE_AUTOMOTIVE = {
    270: (100, 8.34, 28.97), 363: (100, 12.21, 23.64), 476: (100, 14.87, 32.88), 573: (99.85, 17.50, 35.36), 689: (100, 17.89, 35.62),
    744: (99.96, 19.72, 35.86), 849: (99.74, 20.43, 36.59), 905: (44.82, 23.49, 41.82),
}
STORES = ("verge", "redis", "etcd")
TARGET_READ_NS = 200
TARGET_905 = {"share": 0.999, "mean_ms": 5, "worst_ms": 15}
TARGET_PERIOD_SHARE = 0.2


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


class Page:
    """Rows of all rounds, by what they measure."""

    def __init__(self, found):
        self.found, self.runs = found, found["runs"]

    def groups(self, part, *keys):
        """Cells of a part: what of them is in `keys`, and their reports."""
        grouped = {}
        for run in self.runs:
            if run["part"] == part:
                grouped.setdefault(tuple(run[key] for key in keys), []).append(run["report"])
        return grouped.items()

    def nodes(self, reports, key, scale=1.0):
        """A figure of every correct node in every round."""
        return [scale * node[key] for report in reports if "failed" not in report for node in report["nodes"] if key in node]

    def row(self, head, reports, columns):
        cells = [spread(self.nodes(reports, key, scale), digits) for _, key, scale, digits in columns]
        failed = [report["failed"] for report in reports if "failed" in report]
        if failed:
            cells[0] += f", failed {len(failed)} times: {failed[0].splitlines()[-1]}"
        good = [report for report in reports if "failed" not in report]
        agree = f"{sum(report['differ'] for report in good)} of {sum(report['compared'] for report in good):,}"
        return f"| {' | '.join([*head, *cells, agree])} |"

    def table(self, part, heads, columns, head):
        """Heads: their titles and what of a cell they show. `head` makes the first cells of them."""
        groups = self.groups(part, *[key for _, key in heads])
        if not groups:
            return ["Not measured.", ""]
        titles = [name for name, _ in heads] + [name for name, *_ in columns] + ["differ"]
        return ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|",
                *[self.row([str(cell) for cell in head(values)], reports, columns) for values, reports in groups], ""]


SHARES = [("reads, % of iterations", "read_share", 100, 2), ("writes, %", "write_share", 100, 2)]
TIMES = [("reads mean us", "read_mean_us", 1, 1), ("writes mean us", "write_mean_us", 1, 1)]
COORDINATION = [("coordination mean ms", "coordination_mean_ms", 1, 2), ("worst ms", "coordination_worst_ms", 1, 2)]
COST = [("node CPU, ms per job", "cpu_ms_per_job", 1, 3), ("% of a processor", "cpu_share", 100, 1)]
FAULTS = {None: "none", "dead": "one dead", "liar": "one lies", "two dead": "two dead", "two liars": "two lie", "late": "one sends 30 ms late",
          "lossy": "one loses 30 % of what it sends", "corrupt": "one corrupts 5 % of what it sends"}
ALARMS = [("jobs complete", "complete", 1, 0), ("of", "jobs", 1, 0), ("alarms", "alarms", 1, 0)]


def control(page):
    def head(values):
        tasks, lanes, period, store = values
        source = SOURCE_CONTROL.get((tasks, lanes, period))
        return [tasks, lanes, period, f"{store} (source {source[STORES.index(store)]:g} %)" if source else store]
    heads = [("I", "tasks"), ("C", "lanes"), ("T ms", "period_ms"), ("store", "store")]
    return page.table("control", heads, SHARES + TIMES + COORDINATION + COST[1:], head)


def single(page):
    heads = [("I", "tasks"), ("C", "lanes"), ("T ms", "period_ms"), ("store", "store")]
    return page.table("single", heads, SHARES + TIMES + COST[1:], list)


def faults(page):
    heads = [("fault", "fault"), ("store", "store")]
    return page.table("faults", heads, SHARES + TIMES + COORDINATION + ALARMS, lambda values: [FAULTS[values[0]], values[1]])


def network(page):
    heads = [("load", "load"), ("T ms", "period_ms"), ("fault", "fault"), ("store", "store")]
    load = {"control": "4 controllers", "uniform": "905 keys"}
    return page.table("network", heads, SHARES + TIMES + COORDINATION + ALARMS + COST[1:],
                      lambda values: [load[values[0]], values[1], FAULTS[values[2]], values[3]])


def automotive(page):
    def head(values):
        keys, store, fault = values
        source = SOURCE_AUTOMOTIVE.get(keys) if store == "verge" and not fault else None
        return [keys, f"{store} (source {source[0]:g} %, {source[1]:g}, {source[2]:g} ms)" if source else store, FAULTS[fault]]
    heads = [("keys", "keys"), ("store", "store"), ("fault", "fault")]
    return page.table("automotive", heads, SHARES + COORDINATION + COST, head)


def scaling(page, part, heads):
    columns = SHARES[:1] + COORDINATION + COST + [("jobs complete", "complete", 1, 0), ("of", "jobs", 1, 0)]
    return page.table(part, heads, columns, lambda values: list(values))


def over_links(page):
    rows = page.found["links"]
    if not rows:
        return ["Not measured.", ""]
    lines = ["| n, f | keys | kB a node sends in a job | 100 Mbit/s, ms | 1 Gbit/s, ms | rounds last at most, ms |", "|---" * 6 + "|"]
    for nodes, faults in dict.fromkeys((row["nodes"], row["faults"]) for row in rows):
        for keys in dict.fromkeys(row["keys"] for row in rows):
            mine = {row["megabits"]: row for row in rows if (row["nodes"], row["faults"], row["keys"]) == (nodes, faults, keys)}
            took = lambda row: row.get("failed") or (f"{row['coordination_ms']:.2f}" if row["complete"] else "does not fit")
            one = mine[1000000]
            sizes = f"{one['bytes'] / 1e3:,.1f}" if "bytes" in one else "-"
            rounds = f"{one['round_ms'] * (faults + 1):.1f}" if "round_ms" in one else "-"
            lines.append(f"| {nodes}, {faults} | {keys} | {sizes} | {took(mine[100])} | {took(mine[1000])} | {rounds} |")
    return lines + [""]


def reads(page):
    memory = [report["shared_memory"] for _, reports in page.groups("reads", "keys") for report in reports if "failed" not in report]
    if not memory:
        return ["Not measured.", ""]
    of = lambda key, digits=0: spread([one[key] for one in memory], digits)
    return [f"{memory[0]['reads']:,} reads of {memory[0]['keys']} keys in turn, while four nodes and their tasks run beside it: median "
            f"{of('p50_ns')} ns, p99 {of('p99_ns')} ns, p99.9 {of('p999_ns')} ns, each with two looks at the clock, which alone take "
            f"{of('clock_p50_ns')} ns at the median. Without looks in between a read takes {of('mean_ns', 1)} ns on average, what interrupted it "
            f"included. {of('failed')} found nothing.", ""]


def targets(page):
    """Each target, whether it was met, and by what."""
    lines = ["| target | measured | met |", "|---|---|---|"]

    def target(words, measured, is_met):
        lines.append(f"| {words} | {measured} | {'yes' if is_met else '**no**'} |")

    def good(**wanted):
        return [run for run in page.runs if run["store"] == "verge" and all(run[key] == value for key, value in wanted.items())]

    def whole(runs):
        """Cells of which every correct node succeeded in every iteration, and those of which not."""
        full = lambda report: "failed" not in report and all(n["read_share"] == n["write_share"] == 1 for n in report["nodes"])
        missed = [run for run in runs if not full(run["report"])]
        shown = "; ".join(f"{title(run)}: {brief(run['report'])}" for run in missed)
        return f"{len(runs) - len(missed)} of {len(runs)} cells" + (f". Not: {shown}" if shown else ""), not missed

    for words, runs in (("100 % of iterations, control workload", good(part="control")),
                        ("the same with one dead or one lying node", good(part="faults", fault="dead") + good(part="faults", fault="liar")),
                        ("the same on links of 100 Mbit/s with 0.2 to 0.5 ms", good(part="network", load="control", fault=None)),
                        ("there with one node that is dead, late, lossy or corrupts",
                         [run for run in good(part="network", load="control") if run["fault"]])):
        if runs:
            target(words, *whole(runs))
    hundred = [run["report"] for run in good(part="keys", keys=100, nodes=4)]
    slowest = page.nodes(hundred, "coordination_worst_ms")
    if slowest:
        target(f"worst coordination under {TARGET_PERIOD_SHARE:.0%} of the period at 50 ms and 100 keys", f"{max(slowest):.2f} ms",
               max(slowest) < TARGET_PERIOD_SHARE * 50)
    for run in good(part="faults"):
        if run["fault"] in ("two dead", "two liars"):
            alarms, wrong = (sum(page.nodes([run["report"]], key)) for key in ("alarms", "wrong"))
            target(f"{FAULTS[run['fault']]}, more than f: not in silence",
                   f"{int(alarms)} alarms, {int(wrong)} values were wrong before; {brief(run['report'])}",
                   alarms or all(node["read_share"] < 1 for node in run["report"].get("nodes", [])))
    large = [run["report"] for run in good(part="automotive", keys=905, fault=None)]
    weakest, mean, slowest = (page.nodes(large, key) for key in ("read_share", "coordination_mean_ms", "coordination_worst_ms"))
    if weakest:
        target(f"905 keys, 50 ms: every node at {TARGET_905['share']:.1%} or above (source: 44.8 %)", f"{100 * min(weakest):.2f} %",
               min(weakest) >= TARGET_905["share"])
        target(f"905 keys: mean coordination under {TARGET_905['mean_ms']} ms", f"{max(mean):.2f} ms on the slowest node",
               max(mean) < TARGET_905["mean_ms"])
        target(f"905 keys: worst coordination under {TARGET_905['worst_ms']} ms", f"{max(slowest):.2f} ms", max(slowest) < TARGET_905["worst_ms"])
    memory = [run["report"]["shared_memory"]["p50_ns"] for run in good(part="reads") if "failed" not in run["report"]]
    if memory:
        target(f"reads from shared memory under {TARGET_READ_NS} ns at the median", f"{statistics.median(memory):.0f} ns",
               statistics.median(memory) < TARGET_READ_NS)
    ours = [run["report"] for run in good() if "failed" not in run["report"] and not (run["fault"] or "").startswith("two")]
    if ours:
        counts = [sum(report[key] for report in ours) for key in ("differ", "compared")]
        wrong, alarms = (int(sum(page.nodes(ours, key))) for key in ("wrong", "alarms"))
        target("correct nodes read the same, and nothing that no correct node wrote",
               f"{counts[0]} of {counts[1]:,} releases differ, {wrong} values were wrong, {alarms} alarms",
               not counts[0] and not wrong and not alarms)
    return lines + [""]


def refusals(page):
    """Why iterations failed, by cell."""
    lines = []
    for run in page.runs:
        reasons = {}
        for node in run["report"].get("nodes", []):
            for reason, count in {**node["refusals"], **({"released too late": node["missed"]} if node["missed"] else {})}.items():
                reasons[reason] = reasons.get(reason, 0) + count
        if reasons:
            told = "; ".join(f"{count:,} times {reason}" for reason, count in sorted(reasons.items(), key=lambda one: -one[1])[:3])
            lines.append(f"- {title(run)}: {told}")
    return ["Refusals, with figures left out:", "", *lines, ""] if lines else []


def draw(page):
    """File name and picture."""
    rounds = f"{page.found['rounds']} rounds" if page.found["rounds"] > 1 else "one round"
    lines = []
    for nodes, faults in ((4, 1), (7, 2)):
        groups = [(keys, reports) for (n, keys), reports in page.groups("keys", "nodes", "keys") if n == nodes]
        for words, key, of in (("mean", "coordination_mean_ms", statistics.median), ("worst", "coordination_worst_ms", max)):
            points = [(f"{keys} keys", of(values)) for keys, reports in groups if (values := page.nodes(reports, key)) and max(values) > 0]
            lines.append((f"({nodes},{faults}) {words}", points))
    bars = []
    for (tasks, lanes, period), _ in page.groups("control", "tasks", "lanes", "period_ms"):
        rows = []
        for (t, c, p, store), reports in page.groups("control", "tasks", "lanes", "period_ms", "store"):
            values = page.nodes(reports, "read_mean_us")
            if (t, c, p) == (tasks, lanes, period) and values and min(values) > 0:
                rows.append((store, statistics.median(values), min(values), max(values)))
        if len(rows) > 1:
            bars.append((f"I={tasks}, C={lanes}, {period} ms", rows))
    drawn = {
        "kv-keys.svg": pictures.percentiles("Coordination by number of keys", f"Every node writes every key in every job; {rounds}.",
                                            "ms from the release of a job until its values are in the store", lines),
        "kv-reads.svg": pictures.bars("What the reads of an iteration take", f"19 numbers, control workload; {rounds}, line: nodes.",
                                      "us, mean", bars),
    }
    return {name: picture for name, picture in drawn.items() if picture}


def text(page, drawn):
    found = page.found
    picture = lambda name, words: [f"![{words}]({name})", ""] if name in drawn else []
    versions = "; ".join(str(word) for word in [found["versions"]["redis"], *found["versions"]["etcd"]] if word)
    absent = "".join(f" Left out: {store}, since there is no {program}." for store, program in found["absent"].items())
    return "\n".join([
        "# The key-value store beside Redis and etcd", "",
        f"Command: `{found['command']}`. Commit {found['commit']}. Machine: "
        f"{found['machine']}, a shared virtual machine; the hypervisor took {100 * found['stolen']:.1f} % of its processors meanwhile. "
        f"{disturbances(run['report'] for run in page.runs if 'tries' in run['report'])} Iterations count for "
        f"{seconds(page)}.", "",
        f"{versions}.{absent} All nodes are processes on this host, with the tasks of each in a process of its own; they "
        "share its processors, and except where it says so all is on 127.0.0.1, with no network between them. Lanes and Redis have SCHED_FIFO priority 1, tasks 17 to 20; etcd, which "
        "starves itself under SCHED_FIFO, has niceness -20. Processors are kept awake by programs of SCHED_IDLE. The first 2 s are ignored. Figures are medians (smallest … largest) over the "
        "correct nodes of all rounds. An iteration counts if all its reads (writes) succeeded; one that was released a period late or more "
        "counts as failed. *Coordination* is from the release of a job until its values are in the store, *worst* since the lane began, "
        "*CPU* is that of the node's process (lanes, connections, helpers). *Differ* is how many of the releases at which correct nodes have "
        "read the newest values they have not read the same.", "",
        # What a person has to say of this measurement ("remark" in the figures).
        *([found["remark"], ""] if found.get("remark") else []),
        "Redis has an instance for each node and lane; a task writes to its own, asks all, and takes what three of four say. etcd has one cluster "
        "with a member for each node, linearizable reads, keys that live 20 s, its log in memory. Both get all commands of an iteration at once "
        "(a pipeline; a transaction, by the JSON gateway), except where it says so. Replicas write over each other in etcd, so a liar is not masked there, and is not "
        "measured.", "",
        "## Targets", "", *targets(page),
        "## Control workload", "", "I controllers of inverted pendulums in each of C lanes, 19 numbers read and written in each period T. "
        "In-ConcReTeS, whose figures are those of the *source*, measured on four single-board computers.", "", *control(page), *picture("kv-reads.svg", "times of reads by store"),
        "### One command at a time", "", "The same, where each command is given when the one before it has been answered, as clients do by default.", "",
        *single(page),
        "## With a fault", "", "I = 4, C = 1, T = 50 ms. After a third of the time the node and its tasks are killed (SIGKILL), or lie from then on: "
        "a node of the store tells every other one something else, an instance of Redis is given wrong values. Two faulty nodes are more than "
        "f = 1; *alarms* are jobs after which a correct node has found so.", "", *faults(page),
        "## On links of their own", "", "Each node and its tasks in a network namespace of its own, with a link of 100 Mbit/s to a switch in user "
        "space (`bench/kv/wire.py`), and 0.2 to 0.5 ms from one to the other. Faults begin after a third of the time; figures are of the nodes "
        "without one. What is corrupted passes the checksums of TCP. *Late* and *lossy* befall the frames of the network, which TCP sends again.", "",
        *network(page),
        "## Automotive workload", "", "Four tasks of 50, 100, 200 and 1000 ms, values of 1 to 16 bytes as in engine controllers. Every task writes "
        "a quarter of the keys, and reads them and those of the next one (I3, I4). Sizes beyond those of In-ConcReTeS grow until a node fails in one of a "
        "thousand iterations.", "", *automotive(page),
        "## Keys and nodes", "", "One task on each node reads and writes all keys in each period.", "",
        *scaling(page, "keys", [("n", "nodes"), ("f", "faults"), ("keys", "keys"), ("T ms", "period_ms")]),
        *picture("kv-keys.svg", "coordination by number of keys"),
        "## Lanes", "", "300 keys in each lane, T = 100 ms; lanes share the period evenly.", "",
        *scaling(page, "lanes", [("lanes", "lanes"), ("keys of each", "keys")]),
        "## Reads from shared memory", "", *reads(page),
        "## On links of a stated speed", "", "The shipped core on virtual time (`verge-bench-kv links`), T = 50 ms, all nodes on one switch, 0.2 ms "
        "from node to node beside the time on the links: what coordination takes a network. Processors take no time here; the tables above "
        "say what they take on this host.", "", *over_links(page),
        *refusals(page),
    ]).rstrip() + "\n"


def seconds(page):
    """How long iterations counted."""
    found = sorted({run["seconds"] for run in page.runs})
    long = [run["part"] for run in page.runs if run["seconds"] == found[-1]]
    rest = f", those of part {', '.join(sorted(set(long)))} for {found[-1]:g} s" if len(found) > 1 else ""
    return f"{found[0]:g} s{rest}"


def write(found):
    page = Page(found)
    drawn = draw(page)
    words = text(page, drawn)
    write_results(drawn | {"kv.md": words})
    print(words)
