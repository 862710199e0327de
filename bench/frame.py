#!/usr/bin/env python3
"""The workload of the source's table 3.2 at several numbers of topics: latency, processor time and memory of the
broker, calm and with the crash. Writes bench/results/frame.md and frame.json."""

import json
import os
import platform
import statistics
import subprocess
import sys

RUNS = int(os.environ.get("RUNS", "3"))
TOPICS = [1525, 4525, 7525, 10525, 13525]
SECONDS = os.environ.get("SECONDS_PER_RUN", "16")
URGENT = ["c0", "c1"]
LOCAL = ["c0", "c1", "c2", "c3", "c4"]


def run(topics, calm):
    """One demo; its report."""
    command = ["./target/release/verge", "demo", "--topics", str(topics), "--seconds", SECONDS, "--format", "json"]
    if calm:
        command.append("--calm")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"the demo failed: {done.stderr}")
    return json.loads(done.stdout)


def figures(report):
    """What is compared, from one report."""
    rows = {row["category"]: row for row in report["categories"]}
    local = [rows[name] for name in LOCAL]
    received = sum(row["received"] for row in local)
    late = sum(row["late"] for row in local)
    worst = lambda names, key: max(rows[name]["latency"][key] for name in names)
    return {
        "losses_kept": report["losses_kept"],
        "in_time": 1 - late / max(received, 1),
        "urgent_p50_ms": worst(URGENT, "p50_ms"),
        "urgent_p99_ms": worst(URGENT, "p99_ms"),
        "local_p99_ms": worst(LOCAL, "p99_ms"),
        "local_max_ms": worst(LOCAL, "max_ms"),
        "cpu": report["broker_cpu"],
        "mib": report["broker_mib"],
        "replicated": report["replicated_share"],
        "silence_ms": report["silence_ms"],
        "outage_ms": report["outages_ms"][0] if report["outages_ms"] else None,
    }


def median(runs, key):
    values = [run[key] for run in runs if run[key] is not None]
    return statistics.median(values) if values else None


def spread(runs, key, digits=2):
    values = [run[key] for run in runs if run[key] is not None]
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} … {max(values):.{digits}f})"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    results = {}
    for round_number in range(RUNS):
        # Interleaved, so that a slow spell of the machine hits all sizes alike.
        for topics in TOPICS:
            for calm in (True, False):
                key = f"{topics} {'calm' if calm else 'crash'}"
                print(f"run {round_number + 1} of {RUNS}: {key}", file=sys.stderr, flush=True)
                results.setdefault(key, []).append(figures(run(topics, calm)))

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    lines = [
        "# The workload of table 3.2",
        "",
        f"Command: `make bench` (`RUNS={RUNS} SECONDS_PER_RUN={SECONDS}`). Commit {commit}. Machine: {os.cpu_count()} processors, "
        f"{platform.machine()}, {platform.system()} {platform.release()}, a shared virtual machine.",
        "",
        "Both brokers (SCHED_FIFO 50), the publisher and both subscribers (SCHED_FIFO 10) share the processors. Policy FRAME. Median (smallest … largest) of",
        "the runs. *Urgent* is the worse of the two 50 ms categories, *local* the worst of the five categories at the edge.",
        "Latency is from creation to the subscriber's application, warm-up included. *Silence* is the longest time without a message of",
        "a 50 ms topic around SIGKILL of the primary; *outage* is how long publishers had no primary.",
        "",
        "## Calm",
        "",
        "| topics | loss contracts kept | in time % | urgent p50 ms | urgent p99 ms | local p99 ms | local max ms | primary CPU | primary MiB | copied % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for topics in TOPICS:
        runs = results[f"{topics} calm"]
        kept = sum(run["losses_kept"] for run in runs)
        lines.append(
            f"| {topics} | {kept}/{len(runs)} | {100 * median(runs, 'in_time'):.3f} | {spread(runs, 'urgent_p50_ms')} | "
            f"{spread(runs, 'urgent_p99_ms')} | {spread(runs, 'local_p99_ms')} | {spread(runs, 'local_max_ms', 1)} | "
            f"{spread(runs, 'cpu', 3)} | {spread(runs, 'mib', 1)} | {100 * median(runs, 'replicated'):.1f} |"
        )
    lines += [
        "",
        "## SIGKILL of the primary, restart, planned handover",
        "",
        "| topics | loss contracts kept | in time % | silence ms | outage ms | urgent p99 ms | local max ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for topics in TOPICS:
        runs = results[f"{topics} crash"]
        kept = sum(run["losses_kept"] for run in runs)
        lines.append(
            f"| {topics} | {kept}/{len(runs)} | {100 * median(runs, 'in_time'):.3f} | {spread(runs, 'silence_ms', 1)} | "
            f"{spread(runs, 'outage_ms', 1)} | {spread(runs, 'urgent_p99_ms')} | {spread(runs, 'local_max_ms', 1)} |"
        )
    os.makedirs("bench/results", exist_ok=True)
    with open("bench/results/frame.md", "w") as page:
        page.write("\n".join(lines) + "\n")
    with open("bench/results/frame.json", "w") as data:
        json.dump(results, data, indent=1)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
