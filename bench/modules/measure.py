"""When modules that do not end are stopped, by what their code does, and what asking the clock costs those that end. RUNS is how often each
kind is stopped (200). `--quick`: 20 times."""

import json
import os
import subprocess
import sys

from bench.rooms.options import QUICK, program

ABOUT = "when modules that do not end are stopped"
PROGRAMS = ["verge-bench-modules"]
CODE = ("crates/wasm",)
VARIABLES = ("RUNS",)
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

PROGRAM = program("BENCH", "verge-bench-modules")
RUNS = 20 if QUICK else int(os.environ.get("RUNS", "200"))


def measure(_chosen):
    done = subprocess.run([PROGRAM, str(RUNS)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"the measurement failed: {done.stderr}")
    return {"settings": {"runs": RUNS}, "figures": json.loads(done.stdout) | {"load_average": os.getloadavg()[0]}}
