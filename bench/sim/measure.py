"""How much faster than life a pair with 100 topics (bench/sim/pair.toml) is simulated, on one processor. RUNS is how often, `--quick` once and
with few seeds."""

import json
import os
import subprocess

from bench.rooms.options import QUICK, program

ABOUT = "how much faster than life the simulator is"
PROGRAMS = ["verge"]
CODE = ("crates/broker", "crates/client", "crates/contract", "crates/endpoint", "crates/engine", "crates/sim", "crates/simulation", "crates/wire")
VARIABLES = ("RUNS",)
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

RUNS = int(os.environ.get("RUNS", "1" if QUICK else "9"))
WORDS = ["sim", "bench/sim/pair.toml", "--seeds", "8" if QUICK else "40", "--jobs", "1", "--for", "60s"]


def once():
    done = subprocess.run([program("VERGE", "verge"), *WORDS, "--format", "json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(_chosen):
    return {"settings": {"runs": RUNS, "simulated": " ".join(WORDS)}, "figures": {"reports": [once() for _ in range(RUNS)]}}
