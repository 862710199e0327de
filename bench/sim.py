#!/usr/bin/env python3
"""How much faster than life a pair with 100 topics (bench/sim.toml) is simulated, on one processor. Writes
bench/results/sim.md. RUNS is how often."""

import json
import os
import platform
import statistics
import subprocess

RUNS = int(os.environ.get("RUNS", "9"))
COMMAND = ["./target/release/verge", "sim", "bench/sim.toml", "--seeds", "40", "--jobs", "1", "--for", "60s"]


def once():
    done = subprocess.run(COMMAND + ["--format", "json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def shell(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout.strip()


def main():
    reports = [once() for _ in range(RUNS)]
    factors = sorted(report["times_real_time"] for report in reports)
    messages = sum(topic["published"] for topic in reports[0]["topics"])
    median = statistics.median(factors)
    real = statistics.median(report["real_s"] for report in reports)
    page = f"""# Simulation speed

`{" ".join(COMMAND)}`, {RUNS} times, at commit {shell("git rev-parse --short=12 HEAD")}, on
{shell("grep -m1 'model name' /proc/cpuinfo | cut -d: -f2").strip()} ({os.cpu_count()} shared processors, one used), Linux {platform.release()}.

A pair, six publishers, two subscribers, 100 topics with {messages / reports[0]["simulated_s"]:.0f} messages published per second, a crash of the primary
in every run, all checkers on.

| | times real time |
|---|---|
| slowest | {factors[0]:.0f} |
| median | {median:.0f} |
| fastest | {factors[-1]:.0f} |

The median run simulated {messages / real / 1e6:.2f} million messages per second, from publisher to subscribers.
"""
    with open("bench/results/sim.md", "w") as file:
        file.write(page)
    print(page)


main()
