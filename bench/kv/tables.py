"""What the page of the store says: tables, pictures, and the figures of In-ConcReTeS beside ours."""

import statistics

from bench.kv.judge import FAULTS, title
from bench.rooms import pictures as drawing
from bench.rooms.figures import spread
from bench.rooms.noise import disturbances

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


class Page:
    """Rows of all rounds, by what they measure."""

    def __init__(self, document):
        self.found, self.runs = document["settings"] | document["figures"], document["figures"]["runs"]

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
    return lines


def draw(page):
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
    return {
        "kv-keys.svg": drawing.percentiles("Coordination by number of keys", f"Every node writes every key in every job; {rounds}.",
                                            "ms from the release of a job until its values are in the store", lines),
        "kv-reads.svg": drawing.bars("What the reads of an iteration take", f"19 numbers, control workload; {rounds}, line: nodes.",
                                      "us, mean", bars),
    }


def seconds(page):
    """How long iterations counted."""
    found = sorted({run["seconds"] for run in page.runs})
    if not found:
        return "no time"
    long = [run["part"] for run in page.runs if run["seconds"] == found[-1]]
    rest = f", those of part {', '.join(sorted(set(long)))} for {found[-1]:g} s" if len(found) > 1 else ""
    return f"{found[0]:g} s{rest}"


def pictures(document):
    return draw(Page(document))


def values(document):
    page, settings = Page(document), document["settings"]
    return {
        "disturbances": disturbances(run["report"] for run in page.runs if "tries" in run["report"]), "seconds": seconds(page),
        "versions": "; ".join(word for word in settings["versions"].values() if word) or "No other store",
        "absent": "".join(f" Left out: {store}, since there is no {program}." for store, program in settings["absent"].items()),
        "control": control(page), "single": single(page), "faults": faults(page), "network": network(page), "automotive": automotive(page),
        "keys": scaling(page, "keys", [("n", "nodes"), ("f", "faults"), ("keys", "keys"), ("T ms", "period_ms")]),
        "lanes": scaling(page, "lanes", [("lanes", "lanes"), ("keys of each", "keys")]),
        "reads": reads(page), "links": over_links(page), "refusals": refusals(page),
    }
