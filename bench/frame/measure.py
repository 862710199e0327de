"""The workload of FRAME, table 3.2, under its four configurations, calm and with SIGKILL of the primary, at the sizes of FRAME §3.6 and
then upwards until it breaks. RUNS is how often each of these sizes is measured, SECONDS_PER_RUN how long, TOPICS are the sizes, UPWARD the larger
ones, POLICIES the configurations. `--quick`: a look. `--more`: only the sizes in UPWARD, beside what was measured before. VERGE is the program."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench.frame.judge import faults
from bench.rooms import document
from bench.rooms.code import BROKER
from bench.rooms.host import machine
from bench.rooms.options import QUICK, program

ABOUT = "the workload of FRAME, table 3.2, by policy, with and without a crash, up to where it breaks"
PROGRAMS = ["verge"]
CODE = BROKER
VARIABLES = ("RUNS", "SECONDS_PER_RUN", "TOPICS", "UPWARD", "POLICIES")
SWITCHES, SEVERAL = ("more",), {}
OTHERS = UNTHROTTLED = False

VERGE = program("VERGE", "verge")
# Of the workload; a demo may have others.
CATEGORIES = ("c0", "c1", "c2", "c3", "c4", "c5")
words = lambda name, given, quick: os.environ.get(name, quick if QUICK else given).split()
RUNS = int(words("RUNS", "3", "1")[0])
SECONDS = int(words("SECONDS_PER_RUN", "5", "4")[0])
TOPICS = [int(word) for word in words("TOPICS", "1525 4525 7525 10525 13525", "1525 13525")]
UPWARD = [int(word) for word in words("UPWARD", "20025 30025 45025 60025 75025 90025 120025", "30025 60025")]
POLICIES = words("POLICIES", "frame+ frame fcfs fcfs-", "frame+ frame fcfs fcfs-")
# Beyond its own time, a demo starts brokers, registers topics, and waits for the last messages.
PATIENCE_SECONDS = 90
# What breaks upwards has broken if it does so in so many runs, of at most one less than twice as many.
AGREEING = 1 if QUICK else 2
# Shown of a crash: one topic of each kind, from so long before until so long after it, in seconds.
TRACED = ("c0/0", "c2/0", "c5/0")
BEFORE, AFTER = 1.0, 1.5


def perform(topics, policy, crash):
    """One demo: its report, and the messages of the traced topics around the crash; or why there is no report."""
    folder = tempfile.mkdtemp(prefix="verge-bench-")
    trace = os.path.join(folder, "trace.csv")
    order = [VERGE, "demo", "--topics", str(topics), "--seconds", str(SECONDS), "--format", "json", "--policy", policy]
    order += ["--leave-dead", "--trace", trace] if crash else ["--calm"]
    # A group of its own, so that the demo's processes end with it whatever happens; and its files with its folder.
    child = subprocess.Popen(order, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True, env=os.environ | {"TMPDIR": folder})
    try:
        out, said = child.communicate(timeout=SECONDS + PATIENCE_SECONDS)
        if child.returncode not in (0, 1):
            return {"failed": reason(said)}
        return figures(json.loads(out), traced(trace) if crash else None)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {SECONDS + PATIENCE_SECONDS} s"}
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def reason(said):
    """What a process of the demo said last before it ended, or else the trouble itself."""
    text = said.split("\n\na.log:")[0]
    told = text.split("it said:")[-1].split("\n") if "it said:" in text else text.split("\n")
    lines = [line.strip() for line in told if line.strip()]
    return lines[-1][:300] if lines else "no reason given"


def traced(path):
    """By topic: number, creation in seconds from the crash, latency in milliseconds."""
    found = {topic: [] for topic in TRACED}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["topic"] in found and -BEFORE <= float(row["created_s"]) <= AFTER:
                found[row["topic"]].append((int(row["number"]), float(row["created_s"]), float(row["latency_ms"])))
    return {topic: sorted(messages) for topic, messages in found.items()}


def figures(report, messages):
    """What is compared, from one report."""
    rows = {row["category"]: row for row in report["categories"] if row["category"] in CATEGORIES}
    local = [row for name, row in rows.items() if name != "c5"]
    total = lambda key: sum(row[key] for row in rows.values())
    # Without a fault, what did not come at all was not in time either. Upon a crash contracts say what may be lost.
    of = "sent" if messages is None else "received"
    return {
        "categories": {name: {
            "kept": 100 * row["topics_kept"] / row["topics"],
            "in_time": 100 * (row["received"] - row["late"]) / max(row[of], 1),
            **{key: row[key] for key in ("topics", "sent", "received", "lost", "late", "longest_run")},
            "p50_ms": row["latency"]["p50_ms"], "p99_ms": row["latency"]["p99_ms"], "max_ms": row["latency"]["max_ms"],
        } for name, row in rows.items()},
        "in_time": 100 * (total("received") - total("late")) / max(total(of), 1),
        "losses_kept": all(row["topics_kept"] == row["topics"] for row in rows.values()),
        "urgent_p99_ms": max(rows[name]["latency"]["p99_ms"] for name in ("c0", "c1")),
        "local_p99_ms": max(row["latency"]["p99_ms"] for row in local),
        "local_max_ms": max(row["latency"]["max_ms"] for row in local),
        "published": 100 * report["published_share"],
        "behind_ms": report["publisher_behind_ms"],
        "processors": report["processors"],
        "mib": report["broker_mib"],
        "copied": 100 * report["replicated_share"],
        "silence_ms": report["silence_ms"],
        "outages_ms": report["outages_ms"],
        "stolen_share": report["stolen_share"],
        "messages": messages,
    }


class Measuring:
    """The runs so far."""

    def __init__(self, runs):
        self.began, self.commit, self.runs = time.monotonic(), document.commit(), runs

    def take(self, topics, policy, crash, upward=False):
        taken = perform(topics, policy, crash)
        self.runs.append({"topics": topics, "policy": policy, "crash": crash, "upward": upward, "commit": self.commit, "figures": taken})
        told = taken.get("failed") or f"in time {taken['in_time']:.3f} %, losses kept: {taken['losses_kept']}"
        print(f"{time.monotonic() - self.began:6.0f} s: {topics} {policy} {'crash' if crash else 'calm'}: {told}", file=sys.stderr, flush=True)
        return taken

    def climb(self, topics, policy):
        """Whether a larger size holds: what one run says, unless it breaks, and then what most say."""
        broken = held = 0
        while broken < AGREEING and held < AGREEING:
            calm, crash = (self.take(topics, policy, crash, True) for crash in (False, True))
            if not faults(calm) and not faults(crash):
                held += 1
                if not broken:
                    return True
            else:
                broken += 1
        return held > broken

    def usual(self):
        """The sizes of FRAME, interleaved, so that a slow spell of the machine hits all alike; and another one begins each time."""
        for number in range(RUNS):
            for topics in TOPICS:
                turn = number % len(POLICIES)
                for policy in POLICIES[turn:] + POLICIES[:turn]:
                    for crash in (False, True):
                        self.take(topics, policy, crash)

    def upward(self):
        climbing = list(POLICIES)
        for topics in UPWARD:
            climbing = [policy for policy in climbing if self.climb(topics, policy)]


def measure(chosen):
    if not shutil.which(VERGE):
        sys.exit(f"there is no {VERGE}: cargo build --release --bin verge, or make bench")
    settings = {"runs_each": RUNS, "seconds": SECONDS, "topics": TOPICS, "policies": POLICIES, "processors": os.cpu_count(), "kept": []}
    known = document.load(document.path_of("frame")) if chosen.more else None
    if known and known["machine"] != machine():
        sys.exit("what was measured before is from another machine: measure all of it here, without --more")
    if known:
        mine = {key: known[key] for key in ("command", "commit", "date", "stolen_share")} | {"minutes": known["figures"]["minutes"]}
        settings = known["settings"] | {"kept": [*known["settings"]["kept"], mine]}
    measuring = Measuring(known["figures"]["runs"] if known else [])
    if not known:
        measuring.usual()
    measuring.upward()
    return {"settings": settings, "figures": {"runs": measuring.runs, "minutes": (time.monotonic() - measuring.began) / 60}}
