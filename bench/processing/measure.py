"""Event processing on the shipped threads, after CPEP §2.6: levels, sharing, shedding, what it takes from
operator to operator, and who hands over between levels. ROUNDS is how often each setting is measured; the settings of a part are
interleaved. SECONDS_PER_RUN is how long each. `--quick`: once."""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys

from bench.rooms.code import OPERATORS
from bench.rooms.host import awake, throttle
from bench.rooms.options import QUICK, program

ABOUT = "operators by level, from light load to a full host"
PROGRAMS = ["verge-bench-awake", "verge-bench-processing"]
CODE = (*OPERATORS, "crates/host")
VARIABLES = ("ROUNDS", "SECONDS_PER_RUN")
SWITCHES, SEVERAL = (), {}
OTHERS, UNTHROTTLED = False, True

PROGRAM = program("BENCH", "verge-bench-processing")
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
SECONDS = float(os.environ.get("SECONDS_PER_RUN", "1" if QUICK else "2"))
HIGH, LOW = 3, 12
MIDDLE = [3, 6, 9, 12, 15]
# Frames of CPEP §2.6: points of high, middle and low streams.
FRAMES = [512, 1024, 2048]
# Frame lengths whose spectra are computed equally well.
LENGTHS = [6, 8, 9, 10, 12, 15, 16, 18, 20, 24]
# Of all processors.
FULL = 0.97
# From so many streams on nothing keeps processors awake: they are, and to what would Linux gives 50 ms of each second.
BUSY_FROM = 12
# What Linux comes with.
LIMITED = "950000"
COPIES = [4, 8, 12, 16]
SHED_COPIES = [8, 12, 16, 20]
RELATIVE_MS = [5.5, 7.0, 8.5, 10.0]


def order(name, plan):
    done = subprocess.run([PROGRAM, json.dumps({name: plan})], capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"the measurement failed: {done.stderr}")
    return json.loads(done.stdout)


def load(**changes):
    plan = {"copies": [HIGH, 3, LOW], "shared_graph": False, "points": FRAMES, "seconds": SECONDS, "warm_up": 0.6, "seed": 1,
            "prioritization": True, "sharing": True, "shed": False, "within_ms": 1000.0, "validity_periods": 2,
            "apart_ms": 1.0, "drift": 0.0, "mover_threads": False, "workers": os.cpu_count()}
    return order("load", plan | changes)


def interleaved(part, settings, rounds):
    """Reports by setting, the settings one after another in each round, each round with other phases."""
    reports = {name: [] for name in settings}
    for turn in range(rounds):
        print(f"{part}: round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, changes in settings.items():
            calm = changes.get("copies", [0, 0, 0])[1] < BUSY_FROM
            with awake() if calm else contextlib.nullcontext():
                reports[name].append(load(seed=turn + 1, **changes))
    return reports


def middle_frame():
    """Points of middle frames with which 15 streams take FULL of all processors."""
    shares = {streams: statistics.median(load(copies=[HIGH, streams, LOW], points=[512, 12 * 1024, 2048], seed=s,
                                              seconds=1.0)["processor_share"] for s in range(3))
              for streams in (3, 9)}
    each = (shares[9] - shares[3]) / 6
    room = (FULL - (shares[3] - 3 * each)) / MIDDLE[-1]
    return 1024 * max((n for n in LENGTHS if n <= 12.3 * room / each), default=LENGTHS[0])


def levels(points):
    settings = {}
    for streams in MIDDLE:
        for prioritization in (True, False):
            settings[f"{streams} {'on' if prioritization else 'off'}"] = {
                "copies": [HIGH, streams, LOW], "points": [512, points, 2048], "prioritization": prioritization}
    found = interleaved("levels", settings, ROUNDS)
    with throttle(LIMITED) as value:
        if value == LIMITED:
            found |= {f"{name}, limited": some
                      for name, some in interleaved("levels, limited", {f"{MIDDLE[-1]} on": settings[f"{MIDDLE[-1]} on"]}, ROUNDS).items()}
    return found


def memory():
    with awake():
        return {str(streams): [load(copies=[HIGH, streams, LOW])] for streams in MIDDLE}


def sharing():
    settings = {f"{copies} {'on' if on else 'off'}": {"copies": [copies, 0, 0], "shared_graph": True,
                "points": [512, 1024, 0], "sharing": on} for copies in COPIES for on in (True, False)}
    return interleaved("sharing", settings, ROUNDS)


def absolute():
    # A pair that was held up by more than a period stays one period apart unless something is shed.
    settings = {f"{copies} {'on' if on else 'off'} {'shed' if shed else 'mark'}": {
        "copies": [copies, 0, 0], "shared_graph": True, "points": [512, 1024, 0], "sharing": on, "shed": shed,
        "validity_periods": 1} for copies in SHED_COPIES for on in (True, False) for shed in (False, True)}
    return interleaved("absolute shedding", settings, max(1, ROUNDS // 2))


def relative(points):
    settings = {f"{within} {'shed' if shed else 'mark'}": {
        "copies": [HIGH, 12, LOW], "points": [512, points, 2048], "shed": shed, "within_ms": within, "apart_ms": 20.0,
        "drift": 0.005} for within in RELATIVE_MS for shed in (False, True)}
    return interleaved("relative shedding", settings, max(1, ROUNDS // 2))


def movers():
    settings = {f"{copies} {'threads' if threads else 'workers'}": {
        "copies": [copies, 0, 0], "shared_graph": True, "points": [512, 1024, 0], "mover_threads": threads}
        for copies in (COPIES[1], COPIES[-1]) for threads in (False, True)}
    return interleaved("movers", settings, ROUNDS + 1)


def hand_over():
    rounds = 5_000 if QUICK else 20_000
    return {name: [order("hand_over", {"rounds": rounds, "realtime": realtime}) for _ in range(ROUNDS)]
            for name, realtime in (("a thread for each level", True), ("one thread for all", False))}


def measure(_chosen):
    if not shutil.which(PROGRAM):
        sys.exit(f"there is no {PROGRAM}: cargo build --release --bin verge-bench-processing, or make bench")
    with awake():
        points = middle_frame()
    print(f"middle frames: {points} points", file=sys.stderr, flush=True)
    found = {"levels": levels(points), "memory": memory(), "sharing": sharing(), "absolute": absolute(), "relative": relative(points), "movers": movers()}
    # One thread that is busy all of the time; a program that spins on a processor of the same core would slow it down.
    found["hand_over"] = hand_over()
    settings = {"rounds": ROUNDS, "seconds": SECONDS, "points": points, "high": HIGH, "low": LOW, "workers": os.cpu_count(), "limited": LIMITED,
                "busy_from": BUSY_FROM}
    return {"settings": settings, "figures": found}
