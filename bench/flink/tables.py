"""What the page beside Flink says, and its picture."""

import json
import statistics

from bench.flink import ideal
from bench.flink.judge import FASTER, FLOORS, SMALLER, complete, good, latency, memory, p99, pairs
from bench.rooms import noise, pictures as drawing
from bench.rooms.figures import spread, table
from bench.rooms.noise import disturbances

# As which the picture shows results that did not come, in seconds.
ENDLESS = 10


def told(settings):
    chains = {"all": "chained", "apart": "chained behind sources", "none": "not chained"}[settings["chains"]]
    sources = {"level": "a source for each level", "each": "a source for each supplier"}[settings["sources"]]
    return (f"{sources}, {chains}, parallelism {settings['parallelism']}, buffer timeout {settings['buffer']} ms, "
            f"{settings['collector']} collector, heap {settings['heap']} MiB, {settings['scheduling']} scheduling")


def said(verdict):
    outcome = verdict.outcome.upper() if verdict.outcome == noise.MISSED else verdict.outcome
    return f"{outcome}, {verdict.remark}" if verdict.remark else outcome


def copies(settings, streams):
    """Streams by level."""
    return {"high": settings["high"], "middle": streams, "low": settings["low"]}


def load(document, streams):
    """In per cent of all processors, what the operators take by their stated costs."""
    settings, taken = document["settings"], 0
    for level, count in copies(settings, streams).items():
        first, *rest = (settings["costs_us"][name] if name else 0 for name in settings["operators"][level])
        taken += count * 1000 / settings["periods_ms"][level] * (settings["suppliers"][level] * first + sum(rest))
    return f"{100 * taken / 1e6 / settings['processors']:.0f}"


def slower(document, streams):
    """What Verge's operators took at the median, by their stated costs; 1 where that was not measured."""
    return statistics.median([report.get("took") or 1 for report in good(document, "verge", streams)] or [1])


def schedule_alone(settings, streams, factor):
    """By level: p99 if nothing but operators took time, and they so many times their stated costs, in ms."""
    cost = lambda name: settings["costs_us"][name] * factor if name else 0
    levels = []
    for level, count in copies(settings, streams).items():
        first, *rest = settings["operators"][level]
        levels.append(ideal.Level(count, settings["suppliers"][level], 1e3 * settings["periods_ms"][level], cost(first),
                                  tuple(cost(name) for name in rest if name)))
    return dict(zip(settings["points"], ideal.p99_ms(levels, settings["processors"])))


def rows(document):
    for streams in document["settings"]["streams"]:
        least = schedule_alone(document["settings"], streams, slower(document, streams))
        for level in document["settings"]["points"]:
            of = lambda key: lambda report: report["levels"][level][key]
            limit = lambda report: p99(report, level)
            cells = []
            for system in ("verge", "flink"):
                reports = good(document, system, streams)
                cells += [spread(map(key, reports), 2) for key in (of("p50_ms"), limit, of("p999_ms"), of("max_ms"))]
                cells.append(spread([100 * of("results")(r) / of("expected")(r) for r in reports], 1))
            (ratios, _), (floors, _) = pairs(document, streams, limit), pairs(document, streams, limit, FLOORS)
            flinks = list(map(limit, good(document, "flink", streams)))
            reach = f"{statistics.median(flinks) / least[level]:.1f}" if flinks else "-"
            yield (streams, load(document, streams), level, *cells, spread(ratios, 1), said(latency(document, streams, level)), spread(floors, 1),
                   f"{least[level]:.2f}", reach)


def floor_rows(document):
    for streams in document["settings"]["streams"]:
        for way in FLOORS:
            reports = good(document, way, streams)
            cells = [spread([p99(report, level) for report in reports], 2) for level in document["settings"]["points"]]
            yield (streams, load(document, streams), way, *cells, spread([100 * report["processor_share"] for report in reports], 1))


def resources(document):
    for streams in document["settings"]["streams"]:
        cells = []
        for system in ("verge", "flink"):
            reports = good(document, system, streams)
            cells += [spread([r["resident_highest_kib"] / 1024 for r in reports], 1), spread([r["resident_kib"] / 1024 for r in reports], 1),
                      spread([100 * r["processor_share"] for r in reports], 1),
                      spread([sum(row["results"] for row in r["levels"].values()) / document["settings"]["seconds"] for r in reports]),
                      spread([sum(row["expected"] - row["results"] for row in r["levels"].values()) for r in reports]),
                      spread([r["supplied_late_ms"] for r in reports], 1), spread([100 * r["stolen_share"] for r in reports], 1)]
        ratios, _ = pairs(document, streams, lambda report: report["resident_highest_kib"])
        yield (streams, *cells, spread(ratios, 1), said(memory(document, streams)))


def rounds_of(document):
    rounds = document["settings"]["rounds"]
    return f"Median of {rounds} rounds." if rounds > 1 else "One round."


def pictures(document):
    lines = []
    for system in ("verge", "flink"):
        for level in document["settings"]["points"]:
            points = []
            for streams in document["settings"]["streams"]:
                values = [p99(report, level) for report in good(document, system, streams)]
                if values:
                    points.append((f"{streams} ({load(document, streams)} %)", min(statistics.median(values), 1e3 * ENDLESS)))
            lines.append((f"{system} {level}", points))
    return {"flink.svg": drawing.percentiles("Figure 2.6: p99 of each level, Verge and Apache Flink",
                                "By middle streams, and what the operators take of the processors by their stated costs. "
                                + rounds_of(document)
                                + f" {ENDLESS} s: results did not come.", "ms, from due to result", lines)}


def trials(document):
    for trial in document["figures"]["tried"]:
        report, settings = trial["report"], told(trial["settings"])
        settings = f"**{settings}**" if trial["settings"] == document["settings"]["best"] else settings
        if "failed" in report:
            yield (trial["stage"], settings, f"failed: {report['failed'].splitlines()[-1]}", "", "", "", "", "")
            continue
        yield (trial["stage"], settings, *(f"{report['levels'][level]['p99_ms']:.2f}" for level in document["settings"]["points"]),
               f"{100 * complete(report):.1f}", report["collecting_ms"], f"{report['resident_highest_kib'] / 1024:.0f}")


def values(document):
    ideal.check()
    runs, settings = document["figures"]["runs"], document["settings"]
    flinks = [run["report"] for run in runs if run["system"] == "flink" and "failed" not in run["report"]]
    steps = {system: spread([run["report"]["step_ns"] for run in runs if run["system"] == system and "failed" not in run["report"]], 3)
             for system in ("verge", "flink")}
    failures = [f"{run['system']}, {run['streams']} middle streams, round {run['round'] + 1}: {run['report']['failed'].splitlines()[-1]}"
                for run in runs if "failed" in run["report"]]
    notes = sorted({note for run in runs for note in run["report"].get("notes", [])})
    slow = [slower(document, streams) for streams in settings["streams"]]
    five = ("p50", "p99", "p99.9", "max", "results %")
    seven = ("highest MiB", "MiB at the end", "processors %", "results/s", "unfinished", "late ms", "stolen %")
    return {
        "disturbances": disturbances(run["report"] for run in runs),
        "versions": f"Apache Flink {flinks[0]['flink']}, Java {flinks[0]['java']}" if flinks else "Flink did not run",
        "fewest": min(settings["streams"]), "most": max(settings["streams"]), "verge_step_ns": steps["verge"], "flink_step_ns": steps["flink"],
        "costs": ", ".join(f"{name} {cost:g}" for name, cost in settings["costs_us"].items()), "best": told(settings["best"]), "faster": FASTER,
        "smaller": SMALLER, "slower": f"{min(slow):.3f} … {max(slow):.3f}", "trial_warm_up_s": settings["trial"]["warm-up"],
        "given": f" Given: {json.dumps(settings['given'])}." if settings["given"] else "",
        "latencies": table(["middle streams", "load %", "level", "Verge p50", *five[1:], "Flink p50", *five[1:], "p99, Flink/Verge", "target", "Flink/floor",
                            "schedule alone", "Flink/that"], rows(document)),
        "floors": table(["middle streams", "load %", "way", "high", "middle", "low", "processors %"], floor_rows(document)),
        "resources": table(["middle streams", f"Verge {seven[0]}", *seven[1:], f"Flink {seven[0]}", *seven[1:], "highest, Flink/Verge", "target"],
                           resources(document)),
        "trials": table(["kind", "settings", "high p99 ms", "middle p99 ms", "low p99 ms", "least results %", "collecting ms", "highest MiB"],
                        trials(document)),
        "notes": [*(f"Note: {note}." for note in notes), *(f"Failed: {line}." for line in failures)],
    }
