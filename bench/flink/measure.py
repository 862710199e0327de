"""The graph of CPEP, figure 2.6, in Verge, in Apache Flink and on bare threads (the floor), in turn, at five loads. Flink's settings are tried
first, and the best are used. ROUNDS is how often everything is measured, `--quick` once and shortly, STREAMS the numbers of middle streams, FULL what
15 of them take of the processors (0.75: what is handed over comes on top), FLINK settings that are not tried but given. BENCH, JAVA and MVN are the
programs; without Java or Maven it says SKIPPED."""

import ctypes
import glob
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

from bench.flink.judge import FLOORS, complete
from bench.flink.tables import told
from bench.rooms.code import OPERATORS as CODE_OF_OPERATORS
from bench.rooms.host import awake
from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK, program
from bench.rooms.processes import said

ABOUT = "the graph of CPEP, figure 2.6, beside Apache Flink"
PROGRAMS = ["verge-bench-awake", "verge-bench-processing"]
CODE = (*CODE_OF_OPERATORS, "crates/host")
VARIABLES = ("ROUNDS", "STREAMS", "FULL", "FLINK")
SWITCHES, SEVERAL = (), {}
OTHERS, UNTHROTTLED = False, True

PROGRAM = program("BENCH", "verge-bench-processing")
JAVA = os.environ.get("JAVA", "java")
MVN = os.environ.get("MVN", "mvn")
PROJECT = "bench/flink"
JAR = f"{PROJECT}/target/flink-beside-verge.jar"
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
SECONDS = 2 if QUICK else 15
# A virtual machine compiles what it runs often, so Flink has longer to begin.
WARM_UP = {"verge": 1, "flink": 3 if QUICK else 15}
TRIAL = {"warm-up": 3, "seconds": 2} if QUICK else {"warm-up": 10, "seconds": 10}
DRAIN = 1 if QUICK else 3
# It has nothing to wait for but its own operators.
FLOOR_DRAIN = 1
PATIENCE_SECONDS = 120
PROCESSORS = os.cpu_count()
HIGH, LOW = 3, 12
STREAMS = [int(word) for word in os.environ.get("STREAMS", "3 6 9 12 15").split()]
TRIAL_STREAMS = sorted(STREAMS)[len(STREAMS) // 2]
# Four bytes each.
POINTS = {"high": 512, "middle": 1024, "low": 2048}
# Microseconds on two processors, so that 15 middle streams are work for 90 % of them; FULL makes them less.
COSTS = {"EKF": 40, "CAT1": 10, "AES1": 20, "FFT": 279, "CAT2": 20, "CAT3": 10, "AES2": 40}
FULL = float(os.environ.get("FULL", "0.75"))
COSTS = {name: cost * PROCESSORS / 2 * FULL / 0.9 for name, cost in COSTS.items()}
# Milliseconds between readings of a supplier, and suppliers of a stream.
PERIODS = {"high": 5, "middle": 10, "low": 20}
SUPPLIERS = {"high": 2, "middle": 4, "low": 2}
# As the default of `realtime.gather`.
GATHER_US = 200
OPERATORS = {"high": ("EKF", "CAT1", "AES1"), "middle": ("FFT", "CAT2", None), "low": (None, "CAT3", "AES2")}
# Classes of the Java library that Flink looks into; its own start script opens more of them.
OPENED = ["java.lang", "java.net", "java.io", "java.nio", "java.time", "java.util", "java.util.concurrent",
          "java.util.concurrent.atomic", "java.util.concurrent.locks"]
PR_SET_TIMERSLACK = 29
PRIORITY = 49

# What is not tried but given, as {"chains": "apart"}.
GIVEN = json.loads(os.environ.get("FLINK", "{}"))
FIRST = {"sources": "level", "chains": "all", "parallelism": PROCESSORS, "buffer": 0, "collector": "Parallel", "heap": 256,
         "scheduling": "ordinary"} | GIVEN
# What is tried, one after another; each begins with the best so far. With one source for a level and no parallelism, the middle level
# would be more than one thread can do.
LAYOUTS = [(sources, chains, parallelism) for sources in ("level", "each") for chains in ("all", "apart", "none")
           for parallelism in (PROCESSORS, 1) if (sources, parallelism) != ("level", 1)]
STAGES = [
    ("scheduling", [{"scheduling": name} for name in ("ordinary", "SCHED_RR", "SCHED_FIFO")]),
    ("layout", [{"sources": sources, "chains": chains, "parallelism": parallelism} for sources, chains, parallelism in LAYOUTS]),
    ("buffer timeout", [{"buffer": 0}, {"buffer": 1}]),
    ("collector", [{"collector": name} for name in ("Parallel", "Serial", "G1", "Z")]),
    ("heap", [{"heap": 64}, {"heap": 256}, {"heap": 1024}]),
]


def build():
    """Where something is missing for it: what."""
    for name, path in (("java", JAVA), ("mvn", MVN)):
        if not shutil.which(path):
            return f"there is no {path} (apt-get install openjdk-17-jdk-headless maven)"
    parts = glob.glob(f"{PROJECT}/src/**/*.java", recursive=True) + [f"{PROJECT}/pom.xml"]
    if os.path.exists(JAR) and os.path.getmtime(JAR) > max(map(os.path.getmtime, parts)):
        return None
    # Nothing is asked of anybody if all is there already.
    for words in (["--offline"], []):
        done = subprocess.run([MVN, "-q", "-B", *words, "-f", f"{PROJECT}/pom.xml", "clean", "package"], capture_output=True, text=True)
        if done.returncode == 0:
            return None
    print(done.stdout[-3000:], file=sys.stderr)
    return "Maven could not build it, see above; the first time it needs the network"


def ran(words, before=None):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, preexec_fn=before)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {PATIENCE_SECONDS} s"}
    if done.returncode:
        # Without the places in the code, of which Java has many: causes, the deepest last.
        causes = [line for line in done.stderr.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "... "))]
        return {"failed": "\n".join(causes)[-1000:] or f"exit code {done.returncode}"}
    return json.loads(done.stdout)


def copies(streams):
    """Streams by level."""
    return {"high": HIGH, "middle": streams, "low": LOW}


def verge(streams, seed, seconds=SECONDS):
    costs = {name: cost for name, cost in COSTS.items() if name not in ("EKF", "FFT")}
    costs |= {f"{name}{number}": COSTS[name] for name, count in (("EKF", 2), ("FFT", 4)) for number in range(1, count + 1)}
    plan = {"copies": list(copies(streams).values()), "shared_graph": False, "points": list(POINTS.values()), "seconds": seconds,
            "warm_up": WARM_UP["verge"], "seed": seed, "prioritization": True, "sharing": True, "shed": False, "within_ms": 1000.0,
            "validity_periods": 2, "apart_ms": 1.0, "drift": 0.0, "mover_threads": False, "workers": PROCESSORS, "costs_us": costs,
            "gather_us": GATHER_US, "drain": DRAIN}
    return ran([PROGRAM, json.dumps({"load": plan})])


def floor(way, streams, seed, seconds=SECONDS):
    """Bare threads of the same priorities that burn what the operators take, and nothing else."""
    levels = [{"name": level, "streams": count, "suppliers": SUPPLIERS[level], "period_ms": PERIODS[level],
               "costs_us": [COSTS[name] if name else 0 for name in OPERATORS[level]]}
              for level, count in copies(streams).items()]
    plan = {"levels": levels, "handed_over": way == "handed over", "workers": PROCESSORS, "seconds": seconds, "warm_up": WARM_UP["verge"],
            "drain": FLOOR_DRAIN, "seed": seed, "apart_ms": 1.0}
    return ran([PROGRAM, json.dumps({"floor": plan})])


def as_scheduled(name):
    """For the virtual machine: how all its threads are scheduled, and sleeping threads are woken on time."""
    def act():
        if name != "ordinary":
            os.sched_setscheduler(0, getattr(os, name), os.sched_param(PRIORITY))
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    return act


def flink(settings, streams, seed, seconds=SECONDS, warm_up=WARM_UP["flink"]):
    words = [JAVA, f"-Xms{settings['heap']}m", f"-Xmx{settings['heap']}m", f"-XX:+Use{settings['collector']}GC",
             "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED),
             "-cp", f"{JAR}:{PROJECT}/target/lib/*", "verge.flink.Main"]
    for level, count in copies(streams).items():
        costs = [COSTS[name] if name else 0 for name in OPERATORS[level]]
        words += [f"--{level}", ",".join(map(str, [count, 4 * POINTS[level], *costs]))]
    for name, value in (("sources", settings["sources"]), ("chains", settings["chains"]), ("parallelism", settings["parallelism"]),
                        ("buffer-timeout-ms", settings["buffer"]), ("seed", seed), ("seconds", seconds), ("warm-up", warm_up), ("drain", DRAIN)):
        words += [f"--{name}", str(value)]
    return ran(words, as_scheduled(settings["scheduling"]))


def slowness(report):
    """What trials are compared by: the geometric mean of the levels' p99. Those that lose results come last."""
    if "failed" in report:
        return math.inf
    late = math.exp(statistics.fmean(math.log(max(row["p99_ms"], 1e-3)) for row in report["levels"].values() if row["expected"]))
    return late if complete(report) >= 0.99 else 1e6 * late


def best_settings():
    """The best, and what was tried: stage, settings, report."""
    best, tried, known = dict(FIRST), [], {}
    for stage, changes in STAGES:
        found = []
        for change in changes:
            settings = best | change | GIVEN
            key = json.dumps(settings, sort_keys=True)
            if key not in known:
                print(f"trial, {stage}: {told(settings)}", file=sys.stderr, flush=True)
                try:
                    known[key] = flink(settings, TRIAL_STREAMS, 1, TRIAL["seconds"], TRIAL["warm-up"])
                except subprocess.SubprocessError as error:
                    known[key] = {"failed": f"{error}, as where the host grants no real-time priority"}
                tried.append({"stage": stage, "settings": settings, "report": known[key]})
            found.append((slowness(known[key]), settings))
        least = min(slow for slow, _ in found)
        if least == math.inf:
            sys.exit(f"Flink failed with all settings: {tried[-1]['report']['failed']}")
        # The first that is about as good, so the smallest heap.
        best = next(settings for slow, settings in found if slow <= (1.1 * least if stage == "heap" else least))
    return best, tried


def runs_with(best):
    runs = []
    for number in range(ROUNDS):
        for streams in STREAMS:
            print(f"round {number + 1} of {ROUNDS}: {streams} middle streams", file=sys.stderr, flush=True)
            systems = [("verge", lambda: verge(streams, number + 1)), ("flink", lambda: flink(best, streams, number + 1))]
            systems += [(way, lambda way=way: floor(way, streams, number + 1)) for way in FLOORS]
            with awake():
                for system, act in systems[::-1] if number % 2 else systems:
                    runs.append({"round": number, "streams": streams, "system": system, "report": undisturbed(act)})
    return runs


def measure(_chosen):
    missing = build()
    if missing:
        print(f"SKIPPED: {missing}")
        return None
    if not shutil.which(PROGRAM):
        sys.exit(f"there is no {PROGRAM}: cargo build --release --bin verge-bench-processing, or make bench-flink")
    with awake():
        best, tried = best_settings()
    settings = {"rounds": ROUNDS, "seconds": SECONDS, "warm_up_s": WARM_UP, "drain_s": DRAIN, "streams": STREAMS, "high": HIGH, "low": LOW, "points": POINTS,
                "periods_ms": PERIODS, "suppliers": SUPPLIERS, "operators": OPERATORS, "costs_us": COSTS, "processors": PROCESSORS, "gather_us": GATHER_US,
                "trial": TRIAL, "trial_streams": TRIAL_STREAMS, "given": GIVEN, "best": best, "java": said([JAVA, "-version"])}
    return {"settings": settings, "figures": {"tried": tried, "runs": runs_with(best)}}
