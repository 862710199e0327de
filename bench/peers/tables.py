"""What the page beside other brokers says, and its pictures."""

import statistics

from bench.rooms import figures, pictures as drawing
from bench.rooms.figures import spread
from bench.rooms.noise import disturbances


def rows_of(results, kind):
    """Case, broker, reports that succeeded, failures; in the order of measuring."""
    mine = [row for row in results if row["kind"] == kind]
    for case in dict.fromkeys(row["case"] for row in mine):
        for name in dict.fromkeys(row["broker"] for row in results):
            runs = [row["report"] for row in mine if row["case"] == case and row["broker"] == name]
            if runs:
                good = [run for run in runs if "failed" not in run]
                yield case, name, good, [run["failed"] for run in runs if "failed" in run]


def table(results, kind, columns):
    """Columns: title, what of a report, digits."""
    rows = []
    for case, name, good, failed in rows_of(results, kind):
        cells = [spread([of(run) for run in good], digits) for _, of, digits in columns]
        if failed:
            cells[0] += f", failed {len(failed)} times: {failed[0].splitlines()[-1] if failed[0] else 'no reason given'}"
        rows.append((case, name, *cells))
    return figures.table(["case", "broker", *(title for title, _, _ in columns)], rows)


def troubles(results):
    """What connections met with, and messages that are none of the load."""
    lines = []
    for row in results:
        report = row["report"]
        told = list(dict.fromkeys(report.get("troubles", [])))
        told += [f"{report[key]} strange messages" for key in ("strange", "bulk_strange") if report.get(key)]
        if told:
            lines.append(f"- {row['kind']}, {row['case']}, {row['broker']}, round {row['round'] + 1}: {'; '.join(told)}")
    return lines


def groups(results, kind, of, wanted=lambda case: True):
    found = {}
    for case, name, good, _ in rows_of(results, kind):
        values = [of(run) for run in good]
        if values and wanted(case) and min(values) > 0:
            found.setdefault(case, []).append((name, statistics.median(values), min(values), max(values)))
    return list(found.items())


def origins(results):
    """By kind: its commit, and how many rounds it has."""
    found = {}
    for row in results:
        _, rounds = found.get(row["kind"], ("", 0))
        found[row["kind"]] = row["commit"], max(rounds, 1 + row["round"])
    return found


def rounds_of(results, *kinds):
    """How many rounds these kinds have, in words."""
    counts = {rounds for kind, (_, rounds) in origins(results).items() if kind in kinds} or {1}
    few, many = min(counts), max(counts)
    if many == 1:
        return "One round"
    return f"Median of {many} rounds" if few == many else f"Median of {few} to {many} rounds"


def draw(results):
    cpu = lambda run: run["broker_us_per_delivered"]
    lines = []
    for case, name, good, _ in rows_of(results, "urgent"):
        if good and case == "bulk of 64 B":
            middle = lambda key: statistics.median(run["latency"][key] for run in good)
            lines.append((name, [(title, middle(key)) for title, key in
                                 (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us"))]))
    return {
        "peers-urgent.svg": drawing.percentiles(
            "Urgent messages while bulk saturates the broker", f"10 topics at 10 Hz beside one publisher of 64 B without pause. {rounds_of(results, 'urgent')}.",
            "us, from due to arrival", lines),
        "peers-cpu.svg": drawing.bars(
            "Processor time of the broker per message",
            f"Flood and the workload of table 3.2. {rounds_of(results, 'flood', 'frame')}, line: smallest to largest.",
            "us per message", [(f"flood, {case}", rows) for case, rows in groups(results, "flood", cpu)] + groups(results, "frame", cpu)),
        "peers-flood.svg": drawing.bars(
            "Messages per second, one publisher to one subscriber", f"As many as go, on shared processors. {rounds_of(results, 'flood')}, line: smallest to largest.",
            "messages per second", groups(results, "flood", lambda run: run["delivered_per_s"])),
    }


def told_of_kept(document):
    """Kinds that were measured by another commit, or in other rounds, than the command says."""
    kept = {}
    for kind, measured_by in origins(document["figures"]["runs"]).items():
        if measured_by != (document["commit"], document["settings"]["rounds"]):
            kept.setdefault(measured_by, []).append(kind)
    return " ".join(f"Kept from commit {commit} ({rounds} {'round' if rounds == 1 else 'rounds'}): {', '.join(sorted(kinds))}."
                   for (commit, rounds), kinds in sorted(kept.items()))


def pictures(document):
    return draw(document["figures"]["runs"])


def scheduling(priority):
    return (f"Brokers have SCHED_FIFO priority {priority}, loads with a schedule {priority + 5}, those that send as much as goes {priority - 5}, "
            f"so that brokers have what they can use of the processors, and what is urgent {priority + 10}"
            if priority else "All have ordinary scheduling")


def columns():
    """By kind."""
    latency = lambda key, of="latency": lambda report: report[of][key]
    maybe = lambda key: lambda report: report["latency"] and report["latency"][key]
    missing = ("missing", lambda r: r["missing"], 0)
    cost = ("broker us per message", lambda r: r["broker_us_per_delivered"], 3)
    resident = ("resident MB", lambda r: r["broker_resident_bytes"] / 1e6, 1)
    load = ("load, %", lambda r: 100 * r["load_share"], 0)
    percent = ("broker, % of a processor", lambda r: 100 * r["broker_share"], 0)
    per_second = ("delivered per second", lambda r: r["delivered_per_s"], 0)
    round_trips = [*((title, latency(key, "round_trip"), digits) for title, key, digits in
                     (("p50", "p50_us", 1), ("p99", "p99_us", 1), ("p99.9", "p999_us", 1), ("max", "max_us", 0))), missing]
    return {
        "urgent": [("p50", latency("p50_us"), 0), ("p99", latency("p99_us"), 0), ("p99.9", latency("p999_us"), 0), ("max", latency("max_us"), 0),
                   ("urgent missing", lambda r: r["urgent_missing"], 0), ("bulk delivered per second", lambda r: r["delivered_per_s"], 0),
                   ("bulk missing", lambda r: r["bulk_missing"], 0), percent, load, resident],
        "flood": [per_second, cost, percent, load, resident, missing],
        "pingpong": round_trips,
        "apart": round_trips,
        "fanout": [("p50", maybe("p50_us"), 0), ("p99", maybe("p99_us"), 0), ("max", maybe("max_us"), 0), cost, per_second, missing],
        "frame": [("messages per second", lambda r: r["published_per_s"], 0), ("p50", latency("p50_us"), 0), ("p99", latency("p99_us"), 0),
                  ("p99.9", latency("p999_us"), 0), ("urgent p99", latency("p99_us", "urgent"), 0), ("in time %", lambda r: 100 * r["in_time"], 3), cost,
                  resident, ("load late p99", latency("p99_us", "load_late"), 0), missing,
                  ("topics beyond their loss bound", lambda r: r["broken_loss_bounds"], 0)],
    }


def values(document):
    runs, settings = document["figures"]["runs"], document["settings"]
    measured = dict.fromkeys(run["broker"] for run in runs)
    shown = "; ".join(settings["versions"][name] for name in measured if settings["versions"].get(name))
    return {
        "disturbances": disturbances(run["report"] for run in runs), "kept": told_of_kept(document), "versions": f"{shown}. " if shown else "",
        "scheduling": scheduling(settings["priority"]), "absent": [f"Left out: {line}." for line in settings["absent"]], "troubles": troubles(runs),
        **{kind: table(runs, kind, some) for kind, some in columns().items()},
    }
