"""What the page of the journal says."""

import statistics

from bench.rooms.figures import table


def values(document):
    figures = document["figures"]
    mib = lambda count: f"{count / 2**20:,.0f}"
    rows = [(str(run["topics"]), f"{statistics.median(run['bursts']) / 1e6:.2f}", f"{min(run['bursts']) / 1e6:.2f}",
             f"{run['sustained'] / 1e6:.2f}", f"{run['read'] / 1e6:.2f}", f"{run['kept'] / 1e6:.1f}", f"{run['expired'] / 1e6:.1f}",
             mib(run["taken_bytes"]), mib(run["foretold_bytes"]), mib(run["most_bytes"]), f"{run['memory_kib'][0]:,}",
             f"{run['memory_kib'][-1]:,}", f"{run['index_bytes'] / 1024:,.0f}", f"{run['opened_ms']:.0f}") for run in figures["runs"]]
    return {
        "load": f"{figures['load_average']:.0f}", "millions": f"{document['settings']['items'] / 1e6:g}",
        "rows": table(["topics", "burst M/s, median", "least", "sustained M/s", "read M/s", "kept, M", "deleted, M", "segments MiB", "foretold", "most MiB",
                       "memory KiB, begin", "end", "index KiB", "opened in ms"], rows),
    }
