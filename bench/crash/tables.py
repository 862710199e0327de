"""What the page of a broker's death says, and its picture."""

import statistics

from bench.rooms import pictures as drawing
from bench.rooms.figures import spread, table


def pictures(document):
    groups = []
    for title, key in (("Longest silence", "silence_ms"), ("Peak latency", "peak_ms")):
        rows = []
        for name, runs in document["figures"]["systems"].items():
            values = [run[key] for run in runs if run[key]]
            if values:
                rows.append((name, statistics.median(values), min(values), max(values)))
        groups.append((title, rows))
    return {"crash.svg": drawing.bars("The death of a broker: ten topics with a message every 50 ms",
                                      "Median of all deaths, line: smallest to largest.", "ms", groups)}


def values(document):
    systems, settings = document["figures"]["systems"], document["settings"]
    rows = []
    for name, runs in systems.items():
        column = lambda key, digits=1: spread([run[key] for run in runs], digits)
        rows.append((settings["shown"][name], len(runs), column("silence_ms"), column("peak_ms"), column("calm_max_ms"), sum(run["lost"] > 0 for run in runs),
                     column("lost", 0), max(run["longest_run"] for run in runs), column("repeated", 0)))
    never = [f"{settings['shown'][name]}: {sum(not run['back'] for run in runs)}" for name, runs in systems.items() if not all(run["back"] for run in runs)]
    return {
        "before_to_s": f"{settings['before_s']} to {settings['before_s'] + 0.5}", "absent": [f"Left out: {line}." for line in settings["absent"]],
        "deaths": table(["broker", "deaths", "silence ms", "peak ms", "largest before ms", "runs with losses", "lost messages", "longest run of losses",
                         "came again"], rows),
        "never": f"Runs after which a topic never came back: {', '.join(never)}." if never else "",
    }
