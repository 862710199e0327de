"""What the page of sites says."""

import statistics

from bench.rooms.figures import spread, table
from bench.sites.judge import best, of, uses

NAMES = {"verge": "Verge", "nats": "NATS", "nats-jetstream": "NATS, with JetStream", "zenoh": "Zenoh"}


def by_system(reports, key=lambda report: report["system"]):
    found = {}
    for report in reports:
        found.setdefault(key(report), []).append(report)
    return found.items()


def total(reports, *keys):
    return [f"{sum(report[key] for report in reports):,}" for key in keys]


def values(document):
    parts = ("hops", "topics", "local", "wire", "pair", "alone", "router", "drain", "discovery", "cut", "paths")
    hops, topics, local, wire, pair, alone, router, drain, discovery, cut, paths = (of(document, part) for part in parts)
    milli = lambda rows, key: spread([row[key] / 1e3 for row in rows], 3)
    cost = lambda rows, name: spread([row["us_per_message"][name] for row in rows], 1)
    echoes = [report["echo"] for report in hops]
    hop_rows = [("bare connection", milli(echoes, "p50_us"), milli(echoes, "p99_us"), "-", "-", "-", "-")] if hops else []
    for (system, two), rows in by_system([row for report in hops for row in report["rows"]], lambda row: (row["system"], row["two"])):
        name = f"{NAMES[system]}, {'two sites, one router' if two else 'one broker'}"
        hop_rows.append((name, milli(rows, "p50_us"), milli(rows, "p99_us"), milli(rows, "max_us"), cost(rows, "north"),
                         *((cost(rows, "router"), cost(rows, "south")) if two else ("-", "-"))))
    time = lambda latency, key: "-" if not latency or not latency["count"] else f"{latency[key] / 1e3:.2f}"
    local_rows = [(row["topics"], row["crossing"], f"{row['bytes_per_second']:,.0f}", time(row["here"], "p50_us"), time(row["elsewhere"], "p50_us"),
                   time(row["elsewhere"], "p99_us")) for report in local for row in report["rows"]]
    taken = lambda row: tuple(f"{100 * row['processor'][name]:.1f}" for name in ("north", "router", "south"))
    topic_rows = [(row["topics"], *taken(row), *(f"{row[key] / 1e3:.2f}" for key in ("p50_us", "p99_us", "max_us")), *total([row], "published", "missing", "twice"))
                  for report in topics for row in report["rows"]]
    placed = lambda figures: tuple(f"{figures[name]:,.0f}" for name in ("north", "router", "south"))
    wire_rows = [(NAMES[report["system"]], *placed(report["bytes_per_message"]), *placed(report["idle_bytes_per_second"])) for report in wire]
    deaths = [("Verge, a pair: its primary", pair), ("Verge, alone, of two that a service names", alone),
              *((f"{NAMES[system]}, one of two", rows) for system, rows in by_system(router)), ("Verge, gives its topics away", drain)]
    death_rows = [(name, spread([silence for report in reports for silence in report["silence_ms"]]), *total(reports, "published", "missing", "twice", "out_of_order"))
                  for name, reports in deaths if reports]
    seconds = lambda reports, key: spread([report[key] for report in reports if report[key] is not None], 1) or "-"
    cut_rows = [(NAMES[system], *total(reports, "published", "missing", "twice", "out_of_order", "missed_out_of_order"), seconds(reports, "live_s"), seconds(reports, "all_live_s"),
                 *total(reports, "old"), seconds(reports, "old_begins_s"), seconds(reports, "old_ends_s")) for system, reports in by_system(cut)]
    link = lambda delay, lost: f"{delay} ms{f', {lost:.0%} lost' if lost else ''}"
    path_rows = [("both" if len(row["paths"]) > 1 else row["paths"][0], *(link(*one) if uses(row, place) else "-" for place, one in enumerate(row["links"])),
                  f"{best(row)}", *(f"{row[key] / 1e3:.1f}" for key in ("p50_us", "p99_us", "max_us")), *total([row], "published", "missing", "twice", "out_of_order"),
                  f"{row['bytes_per_message']:,.0f}") for row in paths]
    before = {}
    for run in document["figures"]["runs"]:
        if run["commit"] != document["commit"]:
            before.setdefault(run["commit"], {})[run["part"]] = None
    kept = [f"{', '.join(parts)} at commit {by}" for by, parts in before.items()]
    drained = spread([report["seconds"] for report in drain], 1)
    return {
        "hops": table(["way", "p50 ms", "p99 ms", "longest ms", "publishing site, µs a message", "router", "receiving site"], hop_rows),
        "topics": table(["topics", "publishing site, % of a processor", "router", "receiving site", "p50 ms", "p99 ms", "longest ms", "published", "missing", "twice"], topic_rows),
        "topics_ms": topics[0]["period_ms"] if topics else "",
        "local": table(["topics", "of them wanted elsewhere", "bytes/s from the site", "p50 ms at home", "p50 ms elsewhere", "p99 ms"], local_rows),
        "wire": table(["system", "publishing site, bytes a message", "router", "receiving site", "idle: publishing site, bytes/s", "router", "receiving site"],
                      wire_rows),
        "deaths": table(["router", "silence ms", "published", "missing", "twice", "out of order"], death_rows),
        "kept": f"Measured before: {'; '.join(kept)}." if kept else "",
        "drained": f"{drain[0]['topics']} topics were given away in {drained} s." if drain else "",
        "discovery": table(["topic", "how often", "median ms", "longest ms"],
                           [(name, len(times), f"{statistics.median(times):.0f}", f"{max(times):.0f}") for report in discovery
                            for name, times in (("new", report["new_ms"]), ("has its router", report["known_ms"]))]),
        "cuts": table(["system", "published", "missing", "twice", "out of order", "backlog out of order", "first topic live again s", "last", "older than 1 s", "the first came at s", "the last"],
                      cut_rows),
        "paths": table(["way", "direct link", "link to the other router", "link from there", "sum of delays ms, of the best", "p50 ms", "p99 ms", "longest ms", "published", "missing", "twice",
                        "out of order", "publishing site, bytes a message"], path_rows),
        "cut_s": cut[0]["cut_s"] if cut else "",
        "hop_load": f"{hops[0]['topics']} topics, one message each {hops[0]['period_ms']} ms" if hops else "",
    }
