"""How fast a journal keeps items of 64 bytes, in bursts and as fast as goes, and what it takes of disk and memory while most of them are deleted
again. RUNS is how often (3), ITEMS how many (20 million). `--quick`: once, 2 million. FOLDER is where the journal is."""

import json
import os
import subprocess
import sys

from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK, TARGET, program

ABOUT = "how fast a journal keeps items, and what it takes of disk and memory"
PROGRAMS = ["verge-bench-journal"]
CODE = ("crates/contract", "crates/host/src/journal.rs", "crates/journal")
VARIABLES = ("RUNS", "ITEMS", "FOLDER")
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

PROGRAM = program("BENCH", "verge-bench-journal")
RUNS = 1 if QUICK else int(os.environ.get("RUNS", "3"))
ITEMS = 2_000_000 if QUICK else int(os.environ.get("ITEMS", "20000000"))
FOLDER = os.environ.get("FOLDER", f"{TARGET}/bench-journal")
TOPICS = (1, 100)


def once(topics):
    done = subprocess.run([PROGRAM, FOLDER, str(ITEMS), str(topics)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"the measurement failed: {done.stderr}")
    return json.loads(done.stdout) | {"topics": topics}


def measure(_chosen):
    runs = [undisturbed(lambda topics=topics: once(topics)) for _ in range(RUNS) for topics in TOPICS]
    return {"settings": {"runs": RUNS, "items": ITEMS}, "figures": {"runs": runs, "load_average": os.getloadavg()[0]}}
