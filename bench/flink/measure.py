#!/usr/bin/env python3
"""The graph of CPEP, figure 2.6, in Verge, in Apache Flink and on bare threads (the floor), in turn, at five loads. Flink's settings are tried
first, and the best are used. Writes bench/results/flink.md, flink.json and flink.svg, or where RESULTS says. ROUNDS is how often everything is measured, `--quick`
once and shortly, STREAMS the numbers of middle streams, FULL what 15 of them take of the processors (0.75: what is handed over comes on
top), FLINK settings that are not tried but given; `--page` writes page and picture anew from flink.json. BENCH, JAVA and MVN are the
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

from bench.flink import ideal
from bench.rooms import pictures
from bench.rooms.common import (KEPT_AWAKE, QUICK, awake, command, commit, disturbances, machine, options, origin, program, read_results, realtime_limit, said,
                    share_stolen, spread, stolen, throttle, to_repository, undisturbed, write_results)

OPTIONS = options(__doc__, "quick", "page")
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
# As which the picture shows results that did not come, in seconds.
ENDLESS = 10
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
# How bare threads can do it.
FLOORS = ("chained", "handed over")
# As the default of `realtime.gather`.
GATHER_US = 200
OPERATORS = {"high": ("EKF", "CAT1", "AES1"), "middle": ("FFT", "CAT2", None), "low": (None, "CAT3", "AES2")}
FASTER, SMALLER = 5, 20
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


def processor_share(streams):
    """Of all processors, what the operators take by their stated costs."""
    high = HIGH * 200 * (2 * COSTS["EKF"] + COSTS["CAT1"] + COSTS["AES1"])
    middle = streams * 100 * (4 * COSTS["FFT"] + COSTS["CAT2"])
    low = LOW * 50 * (COSTS["CAT3"] + COSTS["AES2"])
    return (high + middle + low) / 1e6 / PROCESSORS


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


def complete(report):
    """Of the results that are expected, the smallest share of a level that came."""
    return min(row["results"] / row["expected"] for row in report["levels"].values() if row["expected"])


def p99(report, level):
    """Endless where more than 1 % of the results had not come at the end."""
    row = report["levels"][level]
    return row["p99_ms"] if row["results"] >= 0.99 * row["expected"] else math.inf


def slowness(report):
    """What trials are compared by: the geometric mean of the levels' p99. Those that lose results come last."""
    if "failed" in report:
        return math.inf
    late = math.exp(statistics.fmean(math.log(max(row["p99_ms"], 1e-3)) for row in report["levels"].values() if row["expected"]))
    return late if complete(report) >= 0.99 else 1e6 * late


def told(settings):
    chains = {"all": "chained", "apart": "chained behind sources", "none": "not chained"}[settings["chains"]]
    sources = {"level": "a source for each level", "each": "a source for each supplier"}[settings["sources"]]
    return (f"{sources}, {chains}, parallelism {settings['parallelism']}, buffer timeout {settings['buffer']} ms, "
            f"{settings['collector']} collector, heap {settings['heap']} MiB, {settings['scheduling']} scheduling")


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


def good(runs, system, streams):
    return [run["report"] for run in runs if (run["system"], run["streams"]) == (system, streams) and "failed" not in run["report"]]


def pairs(runs, streams, of, others=("verge",)):
    """Flink's value over that of Verge, or over the least of the others, round by round."""
    ratios = []
    for number in range(ROUNDS):
        reports = {run["system"]: run["report"] for run in runs if (run["round"], run["streams"]) == (number, streams)}
        some = [reports.get(system, {"failed": "not measured"}) for system in ("flink", *others)]
        if not any("failed" in report for report in some):
            flinks, least = of(some[0]), min(map(of, some[1:]))
            # Where the other has no value, nothing is won, whatever Flink has.
            ratios.append(0.0 if least == math.inf else flinks / least)
    return ratios


def reaches(ratios, target):
    return statistics.median(ratios) >= target


def verdict(ratios, target, floor_ratios=()):
    if not ratios:
        return "not measured"
    if reaches(ratios, target):
        return "met"
    return "MISSED" if not floor_ratios or reaches(floor_ratios, target) else "MISSED, by the floor too"


def slower(runs, streams):
    """What Verge's operators took at the median, by their stated costs; 1 where that was not measured."""
    return statistics.median([report.get("took") or 1 for report in good(runs, "verge", streams)] or [1])


def schedule_alone(streams, factor):
    """By level: p99 if nothing but operators took time, and they so many times their stated costs, in ms."""
    cost = lambda name: COSTS[name] * factor if name else 0
    levels = [ideal.Level(count, SUPPLIERS[level], 1e3 * PERIODS[level], cost(OPERATORS[level][0]),
                          tuple(cost(name) for name in OPERATORS[level][1:] if name))
              for level, count in copies(streams).items()]
    return dict(zip(POINTS, ideal.p99_ms(levels, PROCESSORS)))


def rows(runs):
    for streams in STREAMS:
        least = schedule_alone(streams, slower(runs, streams))
        for level in POINTS:
            of = lambda key: lambda report: report["levels"][level][key]
            limit = lambda report: p99(report, level)
            cells = []
            for system in ("verge", "flink"):
                reports = good(runs, system, streams)
                cells += [spread(map(key, reports), 2) for key in (of("p50_ms"), limit, of("p999_ms"), of("max_ms"))]
                cells.append(spread([100 * of("results")(r) / of("expected")(r) for r in reports], 1))
            ratios, floors = pairs(runs, streams, limit), pairs(runs, streams, limit, FLOORS)
            flinks = list(map(limit, good(runs, "flink", streams)))
            reach = f"{statistics.median(flinks) / least[level]:.1f}" if flinks else "-"
            yield (f"| {streams} | {100 * processor_share(streams):.0f} | {level} | {' | '.join(cells)} | {spread(ratios, 1)} | "
                   f"{verdict(ratios, FASTER, floors)} | {spread(floors, 1)} | {least[level]:.2f} | {reach} |")


def floor_rows(runs):
    for streams in STREAMS:
        for way in FLOORS:
            reports = good(runs, way, streams)
            cells = [spread([p99(report, level) for report in reports], 2) for level in POINTS]
            yield (f"| {streams} | {100 * processor_share(streams):.0f} | {way} | {' | '.join(cells)} | "
                   f"{spread([100 * report['processor_share'] for report in reports], 1)} |")


def resources(runs):
    for streams in STREAMS:
        cells = []
        for system in ("verge", "flink"):
            reports = good(runs, system, streams)
            cells += [spread([r["resident_highest_kib"] / 1024 for r in reports], 1), spread([r["resident_kib"] / 1024 for r in reports], 1),
                      spread([100 * r["processor_share"] for r in reports], 1),
                      spread([sum(row["results"] for row in r["levels"].values()) / SECONDS for r in reports]),
                      spread([sum(row["expected"] - row["results"] for row in r["levels"].values()) for r in reports]),
                      spread([r["supplied_late_ms"] for r in reports], 1), spread([100 * r["stolen_share"] for r in reports], 1)]
        ratios = pairs(runs, streams, lambda report: report["resident_highest_kib"])
        yield f"| {streams} | {' | '.join(cells)} | {spread(ratios, 1)} | {verdict(ratios, SMALLER)} |"


def draw(runs):
    lines = []
    for system in ("verge", "flink"):
        for level in POINTS:
            points = []
            for streams in STREAMS:
                values = [p99(report, level) for report in good(runs, system, streams)]
                if values:
                    points.append((f"{streams} ({100 * processor_share(streams):.0f} %)", min(statistics.median(values), 1e3 * ENDLESS)))
            lines.append((f"{system} {level}", points))
    return pictures.percentiles("Figure 2.6: p99 of each level, Verge and Apache Flink",
                                "By middle streams, and what the operators take of the processors by their stated costs. "
                                + (f"Median of {ROUNDS} rounds." if ROUNDS > 1 else "One round.")
                                + f" {ENDLESS} s: results did not come.", "ms, from due to result", lines)


def page(data):
    runs, best, tried, given = data["runs"], data["settings"], data["tried"], data["given"]
    flinks = [run["report"] for run in runs if run["system"] == "flink" and "failed" not in run["report"]]
    steps = {system: [run["report"]["step_ns"] for run in runs if run["system"] == system and "failed" not in run["report"]]
             for system in ("verge", "flink")}
    costs = ", ".join(f"{name} {cost:g}" for name, cost in COSTS.items())
    versions = f"Apache Flink {flinks[0]['flink']}, Java {flinks[0]['java']}" if flinks else "Flink did not run"
    notes = sorted({note for run in runs for note in run["report"].get("notes", [])})
    failures = [f"{run['system']}, {run['streams']} middle streams, round {run['round'] + 1}: {run['report']['failed'].splitlines()[-1]}"
                for run in runs if "failed" in run["report"]]
    lines = [
        "# Verge beside Apache Flink",
        "",
        f"Command: `{data['command']}`. {origin(data['commit'], data['machine'], data['stolen'])} {disturbances(run['report'] for run in runs)} {versions}.",
        "",
        f"CPEP, figure 2.6, with {HIGH} high streams (2 suppliers, {POINTS['high']} points, 5 ms), {min(STREAMS)} to {max(STREAMS)} middle ones (4 suppliers, "
        f"{POINTS['middle']} points, 10 ms) and {LOW} low ones (2 suppliers, {POINTS['low']} points, 20 ms), four bytes a point. Operators take a "
        f"stated time of a processor, the same in both: so many steps of one arithmetic loop, whose speed each program measures when it starts "
        f"({spread(steps['verge'], 3)} ns a step in Verge's program, {spread(steps['flink'], 3)} in Flink's). Microseconds: {costs}. A result is the "
        f"bytes of what it is made of. *Load* is what the operators take of all processors by these costs.",
        "",
        "Both are one process on all processors, and supply their own readings at planned times. Latency counts from the time at which the latest "
        "reading of a result was due until the result has arrived, so whatever is held up counts, sources included. Streams begin anywhere in their "
        f"periods, otherwise in each round, suppliers of a stream within 1 ms. Warm-up: {WARM_UP['verge']} s in Verge, {WARM_UP['flink']} s in Flink. Readings of {SECONDS} s "
        f"count; their results are awaited for {DRAIN} s more while the load goes on, and those that are missing then are *unfinished*: percentiles "
        f"are of the others, and *inf* stands for p99 where they are more than 1 %. Joins take the newest of each input in both. Median (smallest … largest) of the rounds, which alternate.",
        "",
        f"Verge: `stream::Router` and `host::Workers` as in a broker, {PROCESSORS} workers for each level, with SCHED_FIFO where the host grants it; "
        f"the data thread rests as `realtime.gather` says by itself, up to {GATHER_US} us where operators keep all processors. Flink: "
        f"its local runtime in one virtual machine, job manager included, checkpoints off, object reuse on, network memory 16 MiB, managed memory "
        f"1 MiB, timer slack 1 ns; {told(best)}, which were the best of the settings tried below.",
        "",
        f"{KEPT_AWAKE} {data['realtime_limit']}",
        "",
        "![p99 of each level by load](flink.svg)",
        "",
        "## Latency, ms",
        "",
        f"Target: Flink's p99 at least {FASTER} times Verge's, at every load and level; by the median of the rounds' ratios. *Schedule alone* is p99 if "
        f"nothing but operators took time, of the schedule by which Verge runs them (calculated by `bench/flink/ideal.py`: the more urgent level always "
        f"first, within a level the oldest reading, processors change at once; median over 30 ways in which streams may begin), with operators that take what they took in Verge's program: "
        f"the median of their runs is {' … '.join(f'{edge(slower(runs, streams) for streams in STREAMS):.3f}' for edge in (min, max))} times the stated "
        f"cost, since a processor is not always as fast as at its best. Where Flink's p99 over that is less than {FASTER}, no implementation of that "
        f"schedule meets the target. *Flink/floor* is the same ratio for the floor below, whichever of its two ways was faster in that round.",
        "",
        "| middle streams | load % | level | Verge p50 | p99 | p99.9 | max | results % | Flink p50 | p99 | p99.9 | max | results % | p99, Flink/Verge | target | Flink/floor | schedule alone | Flink/that |",
        "|---" * 18 + "|",
        *rows(runs),
        "",
        "## The floor: p99, ms",
        "",
        "Bare threads with the priorities of Verge's levels, two below each other, that burn what the operators take; there are no payloads, no graph, no "
        "checks, and results go to nobody. *Chained*: each thread of a level has streams of its own, sleeps until their next reading is due and does itself "
        "whatever follows, as Flink's chains do. *Handed over*: one thread above all levels sleeps until a reading is due and wakes a free thread of its level. "
        "This is what threads cost here, and no bound: each level is served in order of arrival, and not by the age of readings.",
        "",
        "| middle streams | load % | way | high | middle | low | processors % |",
        "|---" * 7 + "|",
        *floor_rows(runs),
        "",
        "## Memory, processor time, throughput",
        "",
        f"Target: Flink's highest resident memory at least {SMALLER} times Verge's. *Late*: the longest by which a source supplied late.",
        "",
        "| middle streams | Verge highest MiB | MiB at the end | processors % | results/s | unfinished | late ms | stolen % "
        "| Flink highest MiB | MiB at the end | processors % | results/s | unfinished | late ms | stolen % | highest, Flink/Verge | target |",
        "|---" * 17 + "|",
        *resources(runs),
        "",
        "## Flink's settings",
        "",
        f"Tried once each with {TRIAL_STREAMS} middle streams ({TRIAL['warm-up']} s of warm-up, {TRIAL['seconds']} s), kind by kind, each beginning with the best so "
        f"far. They are compared by the geometric mean of the three p99; those that lose more than 1 % of the results of a level come last, and of the heaps "
        f"the smallest counts that is within 10 % of the best. *Chained*: sources run what is behind them, and nothing is handed over from thread to "
        f"thread before a join of several sources, or at all if a level has one. *Chained behind sources*: sources have threads of their own, as Verge's "
        f"readings come from another thread than operators run in.{' Given: ' + json.dumps(given) + '.' if given else ''}",
        "",
        "| kind | settings | high p99 ms | middle p99 ms | low p99 ms | least results % | collecting ms | highest MiB |",
        "|---" * 8 + "|",
    ]
    for trial in tried:
        report, settings = trial["report"], told(trial["settings"])
        settings = f"**{settings}**" if trial["settings"] == best else settings
        if "failed" in report:
            lines.append(f"| {trial['stage']} | {settings} | failed: {report['failed'].splitlines()[-1]} | | | | | |")
            continue
        values = " | ".join(f"{report['levels'][level]['p99_ms']:.2f}" for level in POINTS)
        lines.append(f"| {trial['stage']} | {settings} | {values} | {100 * complete(report):.1f} | {report['collecting_ms']} | "
                     f"{report['resident_highest_kib'] / 1024:.0f} |")
    lines += [""] + [f"Note: {note}." for note in notes] + [f"Failed: {line}." for line in failures]
    return "\n".join(lines).rstrip() + "\n"


def measured(best):
    runs = []
    for number in range(ROUNDS):
        for streams in STREAMS:
            print(f"round {number + 1} of {ROUNDS}: {streams} middle streams", file=sys.stderr, flush=True)
            systems = [("verge", lambda: verge(streams, number + 1)), ("flink", lambda: flink(best, streams, number + 1))]
            systems += [(way, lambda way=way: floor(way, streams, number + 1)) for way in FLOORS]
            with awake():
                for system, measure in systems[::-1] if number % 2 else systems:
                    runs.append({"round": number, "streams": streams, "system": system, "report": undisturbed(measure)})
    return runs


def measure_all():
    """Everything that the page says."""
    before = stolen()
    with awake():
        best, tried = best_settings()
    runs = measured(best)
    return {"command": command("ROUNDS", "STREAMS", "FULL", "FLINK"), "commit": commit(), "machine": machine(), "stolen": share_stolen(before, stolen()),
            "realtime_limit": realtime_limit(), "java": said([JAVA, "-version"]), "given": GIVEN, "settings": best, "costs_us": COSTS,
            "tried": tried, "runs": runs}


def main():
    global ROUNDS, STREAMS
    to_repository()
    if OPTIONS.page:
        data = read_results("flink.json")
        if data["costs_us"] != COSTS:
            sys.exit("those were measured with other costs of operators: measure again, or give the FULL of then")
        ROUNDS = 1 + max(run["round"] for run in data["runs"])
        STREAMS = sorted({run["streams"] for run in data["runs"]})
    else:
        missing = build()
        if missing:
            print(f"SKIPPED: {missing}")
            return
        if not shutil.which(PROGRAM):
            sys.exit(f"there is no {PROGRAM}: cargo build --release --bin verge-bench-processing, or make bench-flink")
        data = measure_all()
    ideal.check()
    text, drawn = page(data), draw(data["runs"])
    write_results({"flink.md": text, "flink.json": json.dumps(data, indent=1)} | ({"flink.svg": drawn} if drawn else {}))
    print(text)


if __name__ == "__main__":
    with throttle("-1"):
        main()
