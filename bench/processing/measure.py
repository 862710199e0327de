#!/usr/bin/env python3
"""Event processing on the shipped threads, after CPEP §2.6: levels, sharing, shedding, what it takes from
operator to operator, and who hands over between levels. Writes bench/results/processing.md and processing.json, or where RESULTS says. ROUNDS is how
often each setting is measured; the settings of a part are interleaved. `--quick`: once."""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys

from bench.rooms.common import QUICK, awake, command, commit, machine, options, origin, program, realtime_limit, share_stolen, spread, stolen, throttle, to_repository, write_results

options(__doc__, "quick")
PROGRAM = program("BENCH", "verge-bench-processing")
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
SECONDS = 1.0 if QUICK else float(os.environ.get("SECONDS_PER_RUN", "2"))
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


def measure(part, settings, rounds):
    """Reports by setting, the settings one after another in each round, each round with other phases."""
    reports = {name: [] for name in settings}
    for turn in range(rounds):
        print(f"{part}: round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, changes in settings.items():
            calm = changes.get("copies", [0, 0, 0])[1] < BUSY_FROM
            with awake() if calm else contextlib.nullcontext():
                reports[name].append(load(seed=turn + 1, **changes))
    return reports


def of(reports, level, key):
    return [report["levels"][level][key] for report in reports]


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
    found = measure("levels", settings, ROUNDS)
    with throttle(LIMITED) as value:
        if value == LIMITED:
            found |= {f"{name}, limited": some
                      for name, some in measure("levels, limited", {f"{MIDDLE[-1]} on": settings[f"{MIDDLE[-1]} on"]}, ROUNDS).items()}
    return found


def memory():
    with awake():
        return {str(streams): [load(copies=[HIGH, streams, LOW])] for streams in MIDDLE}


def sharing():
    settings = {f"{copies} {'on' if on else 'off'}": {"copies": [copies, 0, 0], "shared_graph": True,
                "points": [512, 1024, 0], "sharing": on} for copies in COPIES for on in (True, False)}
    return measure("sharing", settings, ROUNDS)


def absolute():
    # A pair that was held up by more than a period stays one period apart unless something is shed.
    settings = {f"{copies} {'on' if on else 'off'} {'shed' if shed else 'mark'}": {
        "copies": [copies, 0, 0], "shared_graph": True, "points": [512, 1024, 0], "sharing": on, "shed": shed,
        "validity_periods": 1} for copies in SHED_COPIES for on in (True, False) for shed in (False, True)}
    return measure("absolute shedding", settings, max(1, ROUNDS // 2))


def relative(points):
    settings = {f"{within} {'shed' if shed else 'mark'}": {
        "copies": [HIGH, 12, LOW], "points": [512, points, 2048], "shed": shed, "within_ms": within, "apart_ms": 20.0,
        "drift": 0.005} for within in RELATIVE_MS for shed in (False, True)}
    return measure("relative shedding", settings, max(1, ROUNDS // 2))


def movers():
    settings = {f"{copies} {'threads' if threads else 'workers'}": {
        "copies": [copies, 0, 0], "shared_graph": True, "points": [512, 1024, 0], "mover_threads": threads}
        for copies in (COPIES[1], COPIES[-1]) for threads in (False, True)}
    return measure("movers", settings, ROUNDS + 1)


def hand_over():
    rounds = 5_000 if QUICK else 20_000
    return {name: [order("hand_over", {"rounds": rounds, "realtime": realtime}) for _ in range(ROUNDS)]
            for name, realtime in (("a thread for each level", True), ("one thread for all", False))}


def head(data):
    points = data["points"]
    return [
        "# Event processing on the shipped threads",
        "",
        f"Command: `{data['command']}`. {origin(data['commit'], machine(), data['stolen'])}",
        "",
        "One process, `stream::Router` and `host::Workers` as in a broker, without broker and network: a data thread (SCHED_FIFO 50)",
        f"supplies on time and takes results, {os.cpu_count()} workers for each level (SCHED_FIFO 49, 47, 45) on the same processors. Latency is from",
        "the instant at which the latest reading of a result was due to be supplied until the data thread has the result, so a late",
        "supplier counts. Median (smallest … largest) of the rounds. The graphs are those of `examples/graphs/`; points are `f32`, four",
        "times the bytes of CPEP §2.6, and the filter (`ekf`) runs once for each point of a frame. The suppliers of a stream begin",
        f"within 1 ms of each other and are valid for two periods where nothing else is said, streams anywhere in their periods. {realtime_limit()} "
        f"*Limited*: {LIMITED}, as Linux comes.",
        f"Below {BUSY_FROM} middle streams processors are kept awake by programs of SCHED_IDLE. Where ordinary programs run and real-time threads",
        "take all, Linux gives them 50 ms of each second, which are in p99.",
        "",
        "## Levels",
        "",
        f"CPEP, figure 2.6: {HIGH} high streams (2 suppliers, 512 points, 5 ms), 3 to 15 middle ones (4 suppliers, 10 ms), {LOW} low ones (2 suppliers,",
        f"2048 points, 20 ms). Middle frames have {points} points instead of CPEP's 1024: shipped spectra are so fast that 15 such streams",
        "would take a tenth of this host; so 15 streams nearly fill it. Prioritization *off*: all outputs have level 0, where the earliest",
        "deadline goes first. *Results*: of those expected. *Supplied late*: the worst delay of the data thread itself.",
        "",
        "| middle streams | prioritization | processors % | high p50 ms | high p99 ms | high p99.9 ms | middle p99 ms | low p99 ms | results high/middle/low % | supplied late ms | stolen % |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]


def level_rows(reports):
    for name, some in reports.items():
        streams, on = name.split(maxsplit=1)
        came = "/".join(f"{100 * statistics.median(r['levels'][level]['results'] / r['levels'][level]['expected'] for r in some):.0f}"
                        for level in ("high", "middle", "low"))
        yield (f"| {streams} | {on} | {spread((100 * r['processor_share'] for r in some), 0)} | {spread(of(some, 'high', 'p50_ms'), 2)} | "
               f"{spread(of(some, 'high', 'p99_ms'), 2)} | {spread(of(some, 'high', 'p999_ms'), 2)} | {spread(of(some, 'middle', 'p99_ms'), 2)} | "
               f"{spread(of(some, 'low', 'p99_ms'), 2)} | {came} | {spread((r['supplied_late_ms'] for r in some), 1)} | "
               f"{spread((100 * r['stolen_share'] for r in some), 1)} |")


def page(data):
    found, lines = data["levels"], head(data)
    lines += level_rows(found)
    ratio = lambda on: [later["levels"]["high"]["p99_ms"] / first["levels"]["high"]["p99_ms"]
                        for first, later in zip(found[f"3 {on}"], found[f"15 {on}"])]
    best = lambda on: min(of(found[f"15 {on}"], "high", "p99_ms")) / min(of(found[f"3 {on}"], "high", "p99_ms"))
    lines += [
        "",
        f"High p99 at 15 middle streams over that at 3, by rounds: {spread(ratio('on'), 2)} with prioritization, {spread(ratio('off'), 2)} without; "
        f"of the best rounds {best('on'):.2f} and {best('off'):.2f}.",
        "",
        "Resident memory with CPEP's frames (512, 1024 and 2048 points, four bytes each):",
        "",
        "| middle streams | resident MiB | processors % | high p99 ms | middle p99 ms | low p99 ms |",
        "|---|---|---|---|---|---|",
    ]
    for streams, (report,) in data["memory"].items():
        p99 = " | ".join(f"{report['levels'][level]['p99_ms']:.2f}" for level in ("high", "middle", "low"))
        lines.append(f"| {streams} | {report['resident_highest_kib'] / 1024:.1f} | {100 * report['processor_share']:.0f} | {p99} |")
    lines += [
        "",
        "## Sharing",
        "",
        "CPEP, figure 2.7, all suppliers 10 ms, s1 to s4 512 points, s5 to s8 1024. *Off*: each output has operators of its own.",
        "",
        "| copies | sharing | processors % | high p99 ms | middle p99 ms | low p50 ms | low p99 ms | resident MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, some in data["sharing"].items():
        copies, on = name.split()
        lines.append(f"| {copies} | {on} | {spread((100 * r['processor_share'] for r in some), 0)} | {spread(of(some, 'high', 'p99_ms'), 2)} | "
                     f"{spread(of(some, 'middle', 'p99_ms'), 2)} | {spread(of(some, 'low', 'p50_ms'), 2)} | {spread(of(some, 'low', 'p99_ms'), 2)} | "
                     f"{spread((r['resident_highest_kib'] / 1024 for r in some), 1)} |")
    for copies in COPIES:
        pairs = list(zip(data["sharing"][f"{copies} on"], data["sharing"][f"{copies} off"]))
        less = lambda value: spread((100 * (1 - value(on) / value(off)) for on, off in pairs), 0)
        lines += ["" if copies == COPIES[0] else None,
                  f"- {copies} copies: sharing takes {less(lambda r: r['processor_share'])} % less processor time; low p50 is "
                  f"{less(lambda r: r['levels']['low']['p50_ms'])} % less, low p99 {less(lambda r: r['levels']['low']['p99_ms'])} %."]
    lines += [
        "",
        "## Shedding what is out of date",
        "",
        "CPEP, figure 2.7, with A = 10 ms. *Valid* results were true when they came, in % of all that are expected. Where results are only",
        "marked, inputs that were once held up by more than a period stay a period apart, and all that is made of them is out of date.",
        "",
        "| copies | sharing | action | processors % | valid high % | valid middle % | valid low % | valid of all, Mbit/s of readings |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, some in data["absolute"].items():
        copies, on, action = name.split()
        valid = lambda level: spread((100 * r["levels"][level]["valid"] / r["levels"][level]["expected"] for r in some), 0)
        # Bytes of the readings that a result is made of, as CPEP §2.6 counts: one for each point.
        bits = {"high": 4 * 512, "middle": 2 * 512 + 2 * 1024, "low": 2 * 512 + 2 * 1024, "sealed": 2 * 1024}
        rate = [sum(8 * bits[level] * r["levels"][level]["valid"] / SECONDS for level in bits) / 1e6 for r in some]
        lines.append(f"| {copies} | {on} | {action} | {spread((100 * r['processor_share'] for r in some), 0)} | {valid('high')} | "
                     f"{valid('middle')} | {valid('low')} | {spread(rate, 0)} |")
    lines += [
        "",
        "## Shedding what is too far apart",
        "",
        f"CPEP, figure 2.6, with 12 middle streams of {data['points']} points, whose suppliers begin anywhere in their periods and whose clocks differ by up to",
        "0.5 %; R of high and low streams is 5 ms. *Ideal*: 1200 consistent results per second.",
        "",
        "| R ms | action | consistent middle results/s | of all middle results % | processors % | middle p99 ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, some in data["relative"].items():
        within, action = name.split()
        good = [r["levels"]["middle"]["consistent"] / SECONDS for r in some]
        share = [100 * r["levels"]["middle"]["consistent"] / max(r["levels"]["middle"]["results"], 1) for r in some]
        lines.append(f"| {within} | {action} | {spread(good, 0)} | {spread(share, 0)} | "
                     f"{spread((100 * r['processor_share'] for r in some), 0)} | {spread(of(some, 'middle', 'p99_ms'), 2)} |")
    lines += [
        "",
        "## From operator to operator",
        "",
        "Nanoseconds, medians of the rounds. *Queue alone*: end of a run to beginning of the next in `LevelQueue`, with the clock readings",
        "of a worker and without those of the measurement. *Threads*: the same in `Workers`, one message at a time, to operators that do nothing; between levels a silent",
        "operator of the upper level runs in between, and with a thread for each level the kernel wakes and switches to the lower one.",
        "*One more step*: what an operator more with its result takes of a thread that always has something to do.",
        "",
        "| threads | queue alone, within | between | threads, within | between | one more step, within | between |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, some in data["hand_over"].items():
        keys = ("queue_within", "queue_between", "threads_within", "threads_between", "step_within", "step_between")
        around = lambda r, key: r["clock"]["p50"] if key.startswith("queue") else 0
        lines.append(f"| {name} | {' | '.join(spread((r[key]['p50'] - around(r, key) for r in some), 0) for key in keys)} |")
    lines += [
        "",
        "## Who hands over",
        "",
        "CPEP, figure 2.7, the graph whose levels have operators in common. *Workers*: the last duty of a worker that has nothing to run, as",
        "shipped. *Threads*: one more thread for each level, between its priority and the next.",
        "",
        "| copies | movers | high p50 ms | high p99 ms | middle p99 ms | low p99 ms | switches/ms | processors % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, some in data["movers"].items():
        copies, who = name.split()
        lines.append(f"| {copies} | {who} | {spread(of(some, 'high', 'p50_ms'), 3)} | {spread(of(some, 'high', 'p99_ms'), 2)} | "
                     f"{spread(of(some, 'middle', 'p99_ms'), 2)} | {spread(of(some, 'low', 'p99_ms'), 2)} | "
                     f"{spread((r['switches_per_ms'] for r in some), 1)} | {spread((100 * r['processor_share'] for r in some), 1)} |")
    notes = sorted({note for part in ("levels", "sharing") for some in data[part].values() for r in some for note in r["notes"]})
    lines += [""] + [f"Note: {note}." for note in notes]
    text = "\n".join(line for line in lines if line is not None).rstrip() + "\n"
    write_results({"processing.md": text, "processing.json": json.dumps(data, indent=1)})
    print(text)


def main():
    to_repository()
    if not shutil.which(PROGRAM):
        sys.exit(f"there is no {PROGRAM}: cargo build --release --bin verge-bench-processing, or make bench")
    before, by_commit = stolen(), commit()
    with throttle("-1"):
        with awake():
            points = middle_frame()
        print(f"middle frames: {points} points", file=sys.stderr, flush=True)
        found = {"points": points, "levels": levels(points), "memory": memory(), "sharing": sharing(),
                 "absolute": absolute(), "relative": relative(points), "movers": movers()}
        # One thread that is busy all of the time; a program that spins on a processor of the same core would slow it down.
        found["hand_over"] = hand_over()
        found |= {"command": command("ROUNDS", "SECONDS_PER_RUN"), "commit": by_commit, "stolen": share_stolen(before, stolen())}
        page(found)


if __name__ == "__main__":
    main()
