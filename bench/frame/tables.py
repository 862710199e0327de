"""What the page of the workload says: the tables beside FRAME's own, where it breaks, and a picture of the crash."""

import statistics

from bench.frame.judge import IN_TIME, PUBLISHED, faults, mostly, percent
from bench.rooms import pictures as drawing
from bench.rooms.figures import confidence, spread

# Deadline in milliseconds and losses tolerated, as FRAME, table 3.2, has them.
CATEGORIES = {"c0": "50, 0", "c1": "50, 3", "c2": "100, 0", "c3": "100, 3", "c4": "100, ∞", "c5": "500, 0"}
NAMES = {"frame+": "FRAME+", "frame": "FRAME", "fcfs": "FCFS", "fcfs-": "FCFS−", "shipped": "as shipped"}
ORDER = ["frame+", "frame", "fcfs", "fcfs-"]
# A processor that is used more than this is full: a broker's thread rests for 6 % of the time, and Linux keeps 5 % from real time.
FULL = 0.92

# FRAME, table 3.4: topics whose losses were tolerated, in per cent, with confidence intervals. 100 where nothing is said.
KEPT_7525 = {"fcfs": dict.fromkeys(("c0", "c1", "c2", "c3", "c5"), "0")}
KEPT_13525 = KEPT_7525 | {
    "frame": {"c0": "80.0 ± 30.1", "c1": "80.0 ± 30.1", "c2": "73.2 ± 30.7", "c3": "79.3 ± 29.9", "c5": "80.0 ± 30.1"},
    "fcfs-": {"c2": "78.4 ± 13.3", "c3": "99.3 ± 0.5"},
}
SOURCE_KEPT = {1525: {}, 4525: {}, 7525: KEPT_7525, 10525: KEPT_7525, 13525: KEPT_13525}
# FRAME, table 3.5: messages in time without a fault, in per cent, for FRAME+, FRAME, FCFS and FCFS−.
SOURCE_IN_TIME = {
    1525: {},
    4525: {"c0": "100 99.9 99.9 100", "c1": "100 99.9 99.9 100", "c2": "100 100 100 100", "c3": "100 100 99.9 100",
           "c4": "100 100 99.9 100", "c5": "100 100 100 100"},
    7525: {"c0": "100 99.9 0.2 99.9", "c1": "100 99.9 0.2 99.9", "c2": "100 99.9 0.0 99.9", "c3": "100 99.9 0.0 99.9",
           "c4": "100 99.9 0.0 99.9", "c5": "100 100 0.0 100"},
    10525: {"c0": "100 99.9 0.2 99.8", "c1": "100 99.9 0.2 99.8", "c2": "99.9 99.9 0.072 99.9", "c3": "99.9 99.9 0.072 99.9",
            "c4": "99.9 99.9 0.069 99.9", "c5": "100 100 0.0 100"},
    13525: {"c0": "98.4±2.9 85.4±21.7 0.1 99.4±0.36", "c1": "98.4±2.9 85.3±21.7 0.2 99.5±0.23",
            "c2": "97.6±4.4 83.7±21.9 0.00026 98.3±1.0", "c3": "97.6±4.4 83.8±21.9 0.00099 98.3±1.1",
            "c4": "97.6±4.4 83.8±21.9 0.00066 98.3±1.1", "c5": "98.6±2.8 86.1±21.8 0.0 100"},
}


def source_kept(topics, policy, category):
    return SOURCE_KEPT[topics].get(policy, {}).get(category, "100") if topics in SOURCE_KEPT and policy in ORDER else "-"


def source_in_time(topics, policy, category):
    if topics not in SOURCE_IN_TIME or policy not in ORDER:
        return "-"
    cells = SOURCE_IN_TIME[topics].get(category, "100 100 100 100").split()
    return cells[ORDER.index(policy)].replace("±", " ± ")


def interval(values):
    """The mean, and half of its 95 % confidence interval where the runs differ."""
    middle, half = confidence(values)
    if not half:
        return percent(middle)
    return f"{percent(middle)} ± {half:.2g}"


class Runs:
    """Those of one kind."""

    def __init__(self, results, upward):
        self.results = results
        self.runs = [run for run in results["runs"] if run["upward"] == upward]
        self.sizes = list(dict.fromkeys(run["topics"] for run in self.runs))

    def of(self, topics, policy, crash):
        """Those that have figures, and why the others have none."""
        mine = [run["figures"] for run in self.runs if (run["topics"], run["policy"], run["crash"]) == (topics, policy, crash)]
        return [run for run in mine if "failed" not in run], [run["failed"] for run in mine if "failed" in run]

    def policies(self, topics):
        return [policy for policy in self.results["policies"] if any(
            run["topics"] == topics and run["policy"] == policy for run in self.runs)]


def full(run, processors):
    """Whose processor was full, of those that were read while all was calm."""
    used = run["processors"]
    said = ", ".join(f"{name.replace('_', ' ')} {share:.2f}" for name, share in used.items() if name != "host")
    others = max(2 * used["host"] - sum(used.values()), 0)
    said += f", everything else on the host {others:.2f}"
    whose = [name.replace("_", " ") for name, share in used.items() if name != "host" and share >= FULL]
    if used["host"] >= FULL * processors:
        whose.append(f"all {processors} processors of the host")
    return f"{'full: ' + ', '.join(whose) if whose else 'none was full'} ({said}; host {used['host']:.2f} of {processors})"


def comparison(runs, crash, of, source):
    """Per size a table: categories by policies, ours and the paper's."""
    lines = []
    for topics in runs.sizes:
        policies = runs.policies(topics)
        lines += [f"### {topics} topics", "", "| D, L | " + " | ".join(f"{NAMES[policy]} | source" for policy in policies) + " |",
                  "|---" * (1 + 2 * len(policies)) + "|"]
        for category, shown in CATEGORIES.items():
            cells = []
            for policy in policies:
                good, failed = runs.of(topics, policy, crash)
                ours = interval([of(run["categories"][category]) for run in good]) if good else "-"
                cells += [ours + (f", failed {len(failed)} times" if failed else ""), source(topics, policy, category)]
            lines.append(f"| {shown} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def costs(runs):
    """Processors by configuration."""
    lines = ["| topics | policy | primary | backup | both brokers | publisher | subscribers | host | copied % | MiB of a broker | "
             "urgent p99 ms | local p99 ms | local max ms |", "|---" * 13 + "|"]
    used = lambda *names: lambda run: sum(run["processors"][name] for name in names)
    columns = [(used("primary"), 3), (used("backup"), 3), (used("primary", "backup"), 3), (used("publisher"), 3),
               (used("edge_subscriber", "cloud_subscriber"), 3), (used("host"), 2), (lambda run: run["copied"], 1), (lambda run: run["mib"], 0),
               (lambda run: run["urgent_p99_ms"], 2), (lambda run: run["local_p99_ms"], 2), (lambda run: run["local_max_ms"], 1)]
    for topics in runs.sizes:
        for policy in runs.policies(topics):
            good, _ = runs.of(topics, policy, False)
            lines.append(f"| {topics} | {NAMES[policy]} | " + " | ".join(spread([of(run) for run in good], digits) for of, digits in columns) + " |")
    return lines + [""]


def crashes(runs):
    lines = ["| topics | policy | silence ms | outage ms | urgent max ms | local max ms | lost, all | lost of L = 0 | longest run by L = 0, 3, ∞ |",
             "|---" * 9 + "|"]
    of_category = lambda key, names, how: lambda run: how(run["categories"][name][key] for name in names)
    columns = [(lambda run: run["silence_ms"], 1), (lambda run: (run["outages_ms"] or [None])[0], 1),
               (of_category("max_ms", ("c0", "c1"), max), 1), (lambda run: run["local_max_ms"], 1),
               (of_category("lost", tuple(CATEGORIES), sum), 0), (of_category("lost", ("c0", "c2", "c5"), sum), 0)]
    for topics in runs.sizes:
        for policy in runs.policies(topics):
            good, _ = runs.of(topics, policy, True)
            runs_of = lambda *names: max((run["categories"][name]["longest_run"] for run in good for name in names), default="-")
            longest = f"{runs_of('c0', 'c2', 'c5')}, {runs_of('c1', 'c3')}, {runs_of('c4')}"
            lines.append(f"| {topics} | {NAMES[policy]} | " + " | ".join(spread([of(run) for run in good], digits) for of, digits in columns)
                         + f" | {longest} |")
    return lines + [""]


def held_before(usual, policy):
    """The largest of FRAME's sizes up to which a policy holds."""
    held = None
    for topics in sorted(usual.sizes):
        runs = [run["figures"] for run in usual.runs if (run["topics"], run["policy"]) == (topics, policy)]
        if mostly(runs):
            break
        held = topics
    return held


def upwards(runs, usual, processors):
    """Every larger size, and then where each policy broke."""
    lines = ["| topics | messages/s | policy | calm: in time % | published % | crash: in time % | loss contracts kept, calm; crash | "
             "primary | backup | host | holds |", "|---" * 11 + "|"]
    ends = {}
    for topics in runs.sizes:
        for policy in runs.policies(topics):
            calm, no_calm = runs.of(topics, policy, False)
            crash, no_crash = runs.of(topics, policy, True)
            # Runs come in pairs, and most of the pairs decide.
            pairs = list(zip(*([run["figures"] for run in runs.runs if (run["topics"], run["policy"], run["crash"]) == (topics, policy, kind)]
                               for kind in (False, True))))
            broken = [pair for pair in pairs if faults(pair[0]) or faults(pair[1])]
            holds = 2 * len(broken) < len(pairs)
            ends.setdefault(policy, []).append((topics, holds, broken[0] if broken else None))
            kept = lambda good: f"{sum(run['losses_kept'] for run in good)}/{len(good)}"
            share = lambda good, name: spread([run["processors"][name] for run in good], 2)
            lowest = lambda good, key: percent(min(run[key] for run in good)) if good else "-"
            failed = f", {len(no_calm + no_crash)} runs failed" if no_calm or no_crash else ""
            lines.append(
                f"| {topics} | {rate(topics):,} | {NAMES[policy]} | {lowest(calm, 'in_time')} | {lowest(calm, 'published')} | "
                f"{lowest(crash, 'in_time')} | {kept(calm)}; {kept(crash)}{failed} | {share(calm, 'primary')} | {share(calm, 'backup')} | "
                f"{share(calm, 'host')} | {'yes' if holds else '**no**'} |")
    lines += ["", "### Where it breaks", ""]
    for policy, sizes in ends.items():
        held = [topics for topics in [held_before(usual, policy)] if topics] + [topics for topics, holds, _ in sizes if holds]
        until = f"holds at {max(held)} topics ({rate(max(held)):,} messages per second)" if held else "holds at none of these sizes"
        lost = next(((topics, pair) for topics, holds, pair in sizes if not holds), None)
        if not lost:
            lines.append(f"- {NAMES[policy]} {until}, the largest that was tried.")
            continue
        topics, (calm, crash) = lost
        said = "; ".join(f"{kind}: {', '.join(faults(run))}" for kind, run in (("calm", calm), ("crash", crash)) if faults(run))
        shown = next((run for run in (calm, crash) if "failed" not in run), None)
        where = f" Processors, {full(shown, processors)}." if shown else ""
        lines.append(f"- {NAMES[policy]} {until} and breaks at {topics}: {said}.{where}")
    return lines + [""]


def rate(topics):
    """Messages per second: categories 0 and 1, 2 to 4, and 5."""
    return 400 + (topics - 25) // 3 * 30 + 10


def missing(messages):
    """When the numbers were created that did not come: between those that did."""
    found = []
    for (number, created, _), (later, then, _) in zip(messages, messages[1:]):
        found += [created + (then - created) * step / (later - number) for step in range(1, later - number)]
    return found


def shown_sizes(results):
    """The size of the figure in FRAME §3.6, and the smallest one beyond FRAME's sizes at which a policy broke, or the largest tried."""
    runs = [run for run in results["runs"] if run["crash"] and run["figures"].get("messages")]
    usual = sorted({run["topics"] for run in runs if not run["upward"]})
    broken = [run["topics"] for run in results["runs"] if run["upward"] and faults(run["figures"])]
    upward = {run["topics"] for run in runs if run["upward"]}
    first = [7525 if 7525 in usual else usual[-1]] if usual else []
    return first + ([min(upward & set(broken), default=max(upward))] if upward else [])


def draw(results):
    rows = []
    sizes = shown_sizes(results)
    for policy in results["policies"]:
        cells = []
        for topics in sizes:
            found = [run["figures"]["messages"]["c0/0"] for run in results["runs"] if run["crash"] and run["topics"] == topics
                     and run["policy"] == policy and run["figures"].get("messages")]
            cells.append((found[0], missing(found[0])) if found else None)
        rows.append((NAMES[policy], cells))
    return drawing.messages("Upon the crash: every message of one urgent topic",
                             "Category 0: a message every 50 ms, none may be lost. Of one run each. Red marks are losses.",
                             [f"{topics} topics" for topics in sizes], rows, 50) if sizes else None


def saving(runs):
    """What FRAME costs beside FCFS, at the size at which FRAME §3.6 says it."""
    shares = {}
    for policy in ("frame", "fcfs"):
        good, _ = runs.of(7525, policy, False)
        shares[policy] = statistics.median(run["processors"]["primary"] for run in good) if good else None
    if not shares["frame"] or not shares["fcfs"]:
        return []
    saved = round(100 * (1 - shares["frame"] / shares["fcfs"]))
    found = f"uses {abs(saved)} % {'less' if saved > 0 else 'more'} of a processor than" if saved else "uses as much of a processor as"
    return [f"At 7525 topics the primary of FRAME {found} that of FCFS; in FRAME §3.6, threads for delivery use more than 50 % less.", ""]


def moves(runs):
    """Says where nothing failed and the reign moved all the same."""
    calm = [run for run in runs.runs if not run["crash"] and "failed" not in run["figures"]]
    moved = [run for run in calm if run["figures"]["outages_ms"]]
    if not moved:
        return [f"In none of the {len(calm)} calm runs of these sizes did the reign move.", ""]
    told = ", ".join(f"{run['topics']} topics with {NAMES[run['policy']]} ({max(run['figures']['outages_ms']):.1f} ms)" for run in moved)
    return [f"In {len(moved)} of the {len(calm)} calm runs of these sizes the reign moved although no broker had died, since one had to wait for longer than "
            f"`detection` grants: {told}. The times are how long publishers had no primary; 0.0 is a change without a gap, as while topics "
            "are registered.", ""]


def overload(results):
    """Said of FCFS, from what was measured."""
    runs = [run for run in results["runs"] if run["policy"] == "fcfs"]
    usual = [run for run in runs if not run["upward"]]
    if not usual:
        return ""
    worst = max((run["figures"]["processors"]["primary"] for run in usual if "failed" not in run["figures"]), default=0)
    sizes = sorted({run["topics"] for run in usual})
    broken = [topics for topics in sizes if mostly([run["figures"] for run in usual if run["topics"] == topics])]
    if broken:
        return f"FCFS breaks at {broken[0]} topics here, within the sizes of FRAME §3.6; its primary used up to {worst:.2f} of a processor at these."
    return (f"FCFS is not overloaded at any of the sizes of FRAME §3.6 here: its primary used at most {worst:.2f} of a processor up to {sizes[-1]} topics. "
            "What was seen of FCFS there from 7525 topics on is therefore not seen at these sizes; where policies differ is found by the larger "
            "ones below.")


def kept(settings):
    """Says what was measured before, on the same machine."""
    return " ".join(f"Before: `{one['command']}`, {one['minutes']:.0f} minutes, commit {one['commit']}, {100 * one['stolen_share']:.1f} % taken."
                    for one in settings["kept"])


def results(document):
    return document["settings"] | document["figures"]


def pictures(document):
    return {"frame-crash.svg": draw(results(document))}


def values(document):
    found = results(document)
    usual, larger = Runs(found, False), Runs(found, True)
    return {
        "minutes": f"{found['minutes']:.0f}", "kept": kept(found), "overload": overload(found),
        "intervals": "One run, so there are no confidence intervals of ours; FRAME §3.6 has 10 runs." if found["runs_each"] < 2 else
                     f"Mean ± half of the 95 % confidence interval of {found['runs_each']} runs (none where all were equal), beside those of FRAME "
                     "§3.6 of 10 (*source*).",
        "losses": comparison(usual, True, lambda row: row["kept"], source_kept),
        "in_time": comparison(usual, False, lambda row: row["in_time"], source_in_time),
        "costs": costs(usual), "saving": saving(usual), "crashes": crashes(usual), "larger": bool(larger.sizes),
        "published_least": f"{PUBLISHED:g}", "in_time_least": f"{IN_TIME:g}", "moves": moves(larger) if larger.sizes else [],
        "upwards": upwards(larger, usual, found["processors"]) if larger.sizes else [],
    }
