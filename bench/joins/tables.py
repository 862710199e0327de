"""What the page of joins says."""

from bench.rooms.figures import spread, table


def values(document):
    figures = document["figures"]
    sizes = {}
    for run in figures["runs"]:
        sizes.setdefault((run["routers"], run["joins"]), []).append(run)
    rows = []
    for (routers, joins), runs in sizes.items():
        of = lambda *keys: spread([run[keys[0]] if len(keys) == 1 else run[keys[0]][keys[1]] for run in runs], 1)
        first = runs[0]
        rows.append((f"{joins:,}", routers, of("open_s"), of("quiet_s"), f"{first['all']['count']:,}", of("all", "p50_ms"), of("all", "p99_ms"), of("all", "max_ms"),
                     of("reads", "p99_ms"), of("lists", "p99_ms"), of("writes", "p99_ms"), f"{first['nodes']:,}", f"{first['watches']:,}"))
    one = figures["runs"][0]
    return {
        "load": f"{figures['load_average']:.0f}", "sites": one["sites"], "topics": f"{one['topics']:,}",
        "rows": table(["joins", "routers", "all open s", "nobody asks any more s", "requests", "p50 ms", "p99 ms", "longest ms", "reads p99 ms", "lists p99 ms", "writes p99 ms",
                       "nodes", "watches"], rows),
    }
