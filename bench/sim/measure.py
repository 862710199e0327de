#!/usr/bin/env python3
"""How much faster than life a pair with 100 topics (bench/sim/pair.toml) is simulated, on one processor. Writes
bench/results/sim.md and sim.json. RUNS is how often, `--quick` once and with few seeds."""

import json
import os
import statistics
import subprocess

from bench.rooms.common import QUICK, command, commit, machine, options, origin, program, share_stolen, stolen, to_repository, write_results

options(__doc__, "quick")
RUNS = int(os.environ.get("RUNS", "1" if QUICK else "9"))
COMMAND = [program("VERGE", "verge"), "sim", "bench/sim/pair.toml", "--seeds", "8" if QUICK else "40", "--jobs", "1", "--for", "60s"]


def once():
    done = subprocess.run(COMMAND + ["--format", "json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    to_repository()
    before, by_commit = stolen(), commit()
    reports = [once() for _ in range(RUNS)]
    factors = sorted(report["times_real_time"] for report in reports)
    messages = sum(topic["published"] for topic in reports[0]["topics"])
    median = statistics.median(factors)
    real = statistics.median(report["real_s"] for report in reports)
    page = f"""# Simulation speed

Command: `{command("RUNS")}`. {origin(by_commit, machine(), share_stolen(before, stolen()))}

`verge {" ".join(COMMAND[1:])}`, {RUNS} times, on one of the processors. A pair, six publishers, two subscribers, 100 topics with {messages / reports[0]["simulated_s"]:.0f} messages published per second, a crash of the primary
in every run, all checkers on.

| | times real time |
|---|---|
| slowest | {factors[0]:.0f} |
| median | {median:.0f} |
| fastest | {factors[-1]:.0f} |

The median run simulated {messages / real / 1e6:.2f} million messages per second, from publisher to subscribers.
"""
    write_results({"sim.md": page, "sim.json": json.dumps(reports, indent=1)})
    print(page)


if __name__ == "__main__":
    main()
