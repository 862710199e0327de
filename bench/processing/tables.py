"""What the page of event processing says."""

import statistics

from bench.processing.judge import by_size, of
from bench.rooms.figures import spread, table

# Bytes of the readings that a result is made of, as CPEP §2.6 counts: one for each point.
BYTES = {"high": 4 * 512, "middle": 2 * 512 + 2 * 1024, "low": 2 * 512 + 2 * 1024, "sealed": 2 * 1024}


def share(reports, digits=0):
    return spread((100 * report["processor_share"] for report in reports), digits)


def levels(found):
    for name, some in found.items():
        streams, on = name.split(maxsplit=1)
        came = "/".join(f"{100 * statistics.median(r['levels'][level]['results'] / r['levels'][level]['expected'] for r in some):.0f}"
                        for level in ("high", "middle", "low"))
        yield (streams, on, share(some), spread(of(some, "high", "p50_ms"), 2), spread(of(some, "high", "p99_ms"), 2), spread(of(some, "high", "p999_ms"), 2),
               spread(of(some, "middle", "p99_ms"), 2), spread(of(some, "low", "p99_ms"), 2), came, spread((r["supplied_late_ms"] for r in some), 1),
               spread((100 * r["stolen_share"] for r in some), 1))


def growth(found):
    """High p99 with most middle streams over that with fewest, by rounds and of the best rounds, with prioritization and without."""
    told = []
    for way in ("on", "off"):
        sizes = by_size(found, way)
        few, many = of(sizes[min(sizes)], "high", "p99_ms"), of(sizes[max(sizes)], "high", "p99_ms")
        told.append((spread([later / first for first, later in zip(few, many)], 2), f"{min(many) / min(few):.2f}"))
    (with_levels, best_with), (without, best_without) = told
    return f"{with_levels} with prioritization, {without} without; of the best rounds {best_with} and {best_without}"


def memory(found):
    for streams, (report,) in found.items():
        yield (streams, f"{report['resident_highest_kib'] / 1024:.1f}", f"{100 * report['processor_share']:.0f}",
               *(f"{report['levels'][level]['p99_ms']:.2f}" for level in ("high", "middle", "low")))


def sharing(found):
    for name, some in found.items():
        copies, on = name.split()
        yield (copies, on, share(some), spread(of(some, "high", "p99_ms"), 2), spread(of(some, "middle", "p99_ms"), 2), spread(of(some, "low", "p50_ms"), 2),
               spread(of(some, "low", "p99_ms"), 2), spread((r["resident_highest_kib"] / 1024 for r in some), 1))


def saved(found):
    for copies in dict.fromkeys(name.split()[0] for name in found):
        pairs = list(zip(found[f"{copies} on"], found[f"{copies} off"]))
        less = lambda value: spread((100 * (1 - value(on) / value(off)) for on, off in pairs), 0)
        yield (f"- {copies} copies: sharing takes {less(lambda r: r['processor_share'])} % less processor time; low p50 is "
               f"{less(lambda r: r['levels']['low']['p50_ms'])} % less, low p99 {less(lambda r: r['levels']['low']['p99_ms'])} %.")


def absolute(found, seconds):
    for name, some in found.items():
        copies, on, action = name.split()
        valid = lambda level: spread((100 * r["levels"][level]["valid"] / r["levels"][level]["expected"] for r in some), 0)
        rate = [sum(8 * BYTES[level] * r["levels"][level]["valid"] / seconds for level in BYTES) / 1e6 for r in some]
        yield (copies, on, action, share(some), valid("high"), valid("middle"), valid("low"), spread(rate, 0))


def relative(found, seconds):
    for name, some in found.items():
        within, action = name.split()
        good = [r["levels"]["middle"]["consistent"] / seconds for r in some]
        of_all = [100 * r["levels"]["middle"]["consistent"] / max(r["levels"]["middle"]["results"], 1) for r in some]
        yield (within, action, spread(good, 0), spread(of_all, 0), share(some), spread(of(some, "middle", "p99_ms"), 2))


def hand_over(found):
    keys = ("queue_within", "queue_between", "threads_within", "threads_between", "step_within", "step_between")
    for name, some in found.items():
        around = lambda r, key: r["clock"]["p50"] if key.startswith("queue") else 0
        yield (name, *(spread((r[key]["p50"] - around(r, key) for r in some), 0) for key in keys))


def movers(found):
    for name, some in found.items():
        copies, who = name.split()
        yield (copies, who, spread(of(some, "high", "p50_ms"), 3), spread(of(some, "high", "p99_ms"), 2), spread(of(some, "middle", "p99_ms"), 2),
               spread(of(some, "low", "p99_ms"), 2), spread((r["switches_per_ms"] for r in some), 1), share(some, 1))


def values(document):
    found, seconds = document["figures"], document["settings"]["seconds"]
    notes = sorted({note for part in ("levels", "sharing") for some in found[part].values() for r in some for note in r["notes"]})
    return {
        "levels": table(["middle streams", "prioritization", "processors %", "high p50 ms", "high p99 ms", "high p99.9 ms", "middle p99 ms", "low p99 ms",
                         "results high/middle/low %", "supplied late ms", "stolen %"], levels(found["levels"])),
        "growth": growth(found["levels"]),
        "memory": table(["middle streams", "resident MiB", "processors %", "high p99 ms", "middle p99 ms", "low p99 ms"], memory(found["memory"])),
        "sharing": table(["copies", "sharing", "processors %", "high p99 ms", "middle p99 ms", "low p50 ms", "low p99 ms", "resident MiB"],
                         sharing(found["sharing"])),
        "saved": list(saved(found["sharing"])),
        "absolute": table(["copies", "sharing", "action", "processors %", "valid high %", "valid middle %", "valid low %",
                           "valid of all, Mbit/s of readings"], absolute(found["absolute"], seconds)),
        "relative": table(["R ms", "action", "consistent middle results/s", "of all middle results %", "processors %", "middle p99 ms"],
                          relative(found["relative"], seconds)),
        "hand_over": table(["threads", "queue alone, within", "between", "threads, within", "between", "one more step, within", "between"],
                           hand_over(found["hand_over"])),
        "movers": table(["copies", "movers", "high p50 ms", "high p99 ms", "middle p99 ms", "low p99 ms", "switches/ms", "processors %"],
                        movers(found["movers"])),
        "notes": [f"Note: {note}." for note in notes],
    }
