#!/usr/bin/env python3
"""When modules that do not end are stopped, by what their code does, and what asking the clock costs those that end. Writes
bench/results/modules.md and modules.json, or where RESULTS says. RUNS is how often each kind is stopped (200). `--quick`: 20 times."""

import json
import os
import subprocess
import sys

from bench.rooms.common import QUICK, command, commit, machine, options, origin, program, share_stolen, stolen, to_repository, write_results

options(__doc__, "quick")
PROGRAM = program("BENCH", "verge-bench-modules")
RUNS = 20 if QUICK else int(os.environ.get("RUNS", "200"))
ALLOWED = 1.2


def page(report, by, taken):
    budget = report["budget_us"]
    end = lambda kind: kind["stopped_us"]["median"]
    # Others were stopped before something that could not be interrupted.
    slowest = min((kind for kind in report["stopped"] if end(kind) > budget / 2), key=lambda kind: kind["fuel_per_us"])
    latest = max(report["stopped"], key=end)
    beyond = [kind["kind"] for kind in report["stopped"] if end(kind) > ALLOWED * budget]
    lines = [
        "# Modules that do not end",
        "",
        f"Command: `{command('RUNS')}`. {origin(by, machine(), taken)} "
        f"On average {os.getloadavg()[0]:.0f} threads wanted a processor in the last minute, those of other programs included.",
        "",
        f"Each kind of loop ran {report['runs']} times with a budget of {budget / 1000:g} ms. *Stopped* is the time of the processor until the "
        "run was stopped, *anew* what the module then took to begin anew, and *by the wall* both as a clock on the wall has it, with whatever else "
        f"had the processor meanwhile. The pace by which slices are cut is {report['pace']} fuel in a microsecond. Code that is stopped early would go "
        "on with something that cannot be interrupted and might not end in time.",
        "",
        f"The slowest code burned {slowest['fuel_per_us']:.0f} fuel in a microsecond in the median: {slowest['kind']}. "
        f"The latest end was at {end(latest):,.0f} us in the median: {latest['kind']}. "
        + (f"Beyond {ALLOWED} of the budget in the median: {', '.join(beyond)}." if beyond else f"No kind took more than {ALLOWED} of its budget in the median."),
        "",
        "| code | fuel/us, median | least | stopped us, median | 99 % | max | anew us, median | max | by the wall us, median | max |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in report["stopped"]:
        stopped_us, anew, took = kind["stopped_us"], kind["anew_us"], kind["took_us"]
        lines.append(f"| {kind['kind']} | {kind['fuel_per_us']:,.0f} | {kind['fuel_per_us_least']:,.0f} | {stopped_us['median']:,.0f} | "
                     f"{stopped_us['p99']:,.0f} | {stopped_us['max']:,.0f} | {anew['median']:,.0f} | {anew['max']:,.0f} | {took['median']:,.0f} | "
                     f"{took['max']:,.0f} |")
    lines += [
        "",
        "## What asking costs",
        "",
        f"A module that adds up numbers, with the clock and as if one slice were enough for everything, in turns; medians. The wall's clock takes "
        f"{report['clock_ns'][0]:,.0f} ns here, the processor's {report['clock_ns'][1]:,.0f} ns.",
        "",
        "| numbers | fuel | without us | with us | ratio |",
        "|---|---|---|---|---|",
    ]
    for row in report["asking"]:
        lines.append(f"| {row['rounds']:,} | {row['fuel']:,} | {row['without_us']:.2f} | {row['with_us']:.2f} | {row['with_us'] / row['without_us']:.3f} |")
    return "\n".join(lines) + "\n"


def main():
    to_repository()
    by, before = commit(), stolen()
    done = subprocess.run([PROGRAM, str(RUNS)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"the measurement failed: {done.stderr}")
    report = json.loads(done.stdout)
    text = page(report, by, share_stolen(before, stolen()))
    write_results({"modules.md": text, "modules.json": json.dumps(report, indent=1) + "\n"})
    print(text)


if __name__ == "__main__":
    main()
