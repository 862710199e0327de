#!/usr/bin/env python3
"""Counts the instructions that fixed scenarios of the shipped code take per message, and compares them with
bench/results/instructions.json. `--json`: as JSON. `--accept`: writes what was counted as the new baseline. Ends with 1 if a
scenario takes more than it may, with 2 if it cannot be counted. It builds nothing; BENCH is the program, BASELINE the file."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.instructions.judge import ACCEPT, compare, judge
from bench.rooms.document import commit
from bench.rooms.options import program
from bench.rooms.processes import said

PROGRAM = program("BENCH", "verge-bench-instructions")
BASELINE = os.environ.get("BASELINE", "bench/results/instructions.json")
# A multiple of the program's batches of 16.
MESSAGES = 20000
# The function that is counted, with all that it calls.
COUNTED = "verge_bench_instructions::measured*"


class Trouble(Exception):
    """What cannot be counted, and what to do."""


def run(words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        raise Trouble(f"{words[0]} is not there: cargo build --release -p verge-bench-instructions") from None
    if done.returncode:
        raise Trouble(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def count(scenario):
    """Instructions per message."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "counts")
        run(["valgrind", "--quiet", "--tool=callgrind", f"--toggle-collect={COUNTED}", f"--callgrind-out-file={out}",
             PROGRAM, scenario, str(MESSAGES)])
        with open(out) as file:
            totals = [int(line.split()[1]) for line in file if line.startswith("totals:")]
    if len(totals) != 1 or totals[0] < MESSAGES:
        raise Trouble(f"{scenario}: callgrind counted {totals}, which is nothing: does a function match {COUNTED}?")
    return round(totals[0] / MESSAGES, 1)


def read_baseline():
    try:
        with open(BASELINE) as file:
            found = json.load(file)
        counts = {name: float(value) for name, value in found["instructions_per_message"].items()}
        return counts, found.get("rustc")
    except FileNotFoundError:
        return {}, None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Trouble(f"{BASELINE} is no baseline ({error!r}); write it anew with `{ACCEPT}`") from None


def show(rows):
    print(f"{'scenario':<14}{'instructions per message':>26}{'baseline':>12}{'difference':>12}")
    for name, value, before, percent in rows:
        known = "-" if before is None else f"{before:,.1f}"
        print(f"{name:<14}{value:>26,.1f}{known:>12}{'-' if percent is None else f'{percent:+.2f} %':>12}")


def write(counted):
    changed = "+" if said(["git", "status", "--porcelain", "--untracked-files=no"]) else ""
    found = {"commit": commit() + changed, "rustc": said(["rustc", "--version"]), "valgrind": said(["valgrind", "--version"]),
             "messages": MESSAGES, "instructions_per_message": counted}
    with open(BASELINE, "w") as file:
        json.dump(found, file, indent=2)
        file.write("\n")
    print(f"{BASELINE} is the baseline now; commit it", file=sys.stderr)


def main():
    asked = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    asked.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked.add_argument("--accept", action="store_true", help="write what was counted as the new baseline")
    asked = asked.parse_args()
    if not shutil.which("valgrind"):
        print("SKIPPED: instructions are not counted, since valgrind is not installed (apt-get install valgrind)", file=sys.stderr)
        return 0
    try:
        known, rustc = read_baseline()
    except Trouble:
        if not asked.accept:
            raise
        known, rustc = {}, None
    rows = compare({name: count(name) for name in run([PROGRAM, "list"]).split()}, known)
    if asked.json:
        print(json.dumps([dict(zip(("scenario", "instructions_per_message", "baseline", "difference_percent"), row))
                          for row in rows], indent=2))
    else:
        show(rows)
    if asked.accept:
        write({name: value for name, value, _, _ in rows})
        return 0
    wrong, remarks = judge(rows, known)
    for line in remarks + wrong:
        print(line, file=sys.stderr)
    here = said(["rustc", "--version"])
    if (wrong or remarks) and rustc not in (None, here):
        print(f"the baseline was counted with {rustc}, this is {here}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        sys.exit(2)
