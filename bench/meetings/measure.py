"""How long it takes to find the interests that a profile matches among 100 000, and the pieces of the ring that an interest has. ROUNDS is how often each is
done (5000). `--quick`: 200 times."""

import json
import os
import subprocess
import sys

from bench.rooms.options import QUICK, program

ABOUT = "finding what matches a profile, and where an interest has to be put"
PROGRAMS = ["verge-bench-meetings"]
CODE = ("crates/rendezvous",)
VARIABLES = ("ROUNDS",)
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

PROGRAM = program("BENCH", "verge-bench-meetings")
ROUNDS = 200 if QUICK else int(os.environ.get("ROUNDS", "5000"))


def measure(_chosen):
    done = subprocess.run([PROGRAM, str(ROUNDS)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"the measurement failed: {done.stderr}")
    return {"settings": {"rounds": ROUNDS}, "figures": json.loads(done.stdout)}
