"""What the page at the edge of admission says."""

import statistics

from bench.edge.judge import ran as admitted, refused as turned_away
from bench.rooms.figures import table


def shapes(ran):
    for shape in sorted({one["shape"] for one in ran}):
        own = [one for one in ran if one["shape"] == shape]
        span = lambda of, digits=0: f"{min(map(of, own)):.{digits}f} to {max(map(of, own)):.{digits}f}"
        ratio = [one["worst_ms"] / one["edge_ms"] for one in own]
        yield (shape, len(own), span(lambda one: one["tcp"] + one["tls"] + one["mqtt"]), span(lambda one: one["publishers"] * one["topics_each"]),
               span(lambda one: one["bytes"]), span(lambda one: one["edge_ms"], 1), f"{statistics.median(ratio):.2f}", f"{max(ratio):.2f}",
               f"{100 * statistics.median(one['used'] for one in own):.0f} %", sum(one["late"] > 0 for one in own))


def values(document):
    reports, ran, refused = document["figures"]["reports"], admitted(document), turned_away(document)
    late = [one for one in ran if one["late"]]
    why = "; ".join(sorted({f"seed {one['seed']}: {one['refused']}" for one in refused}))
    return {
        "minutes": f"{document['figures']['minutes']:.0f}", "workloads": len(reports), "kept": f"{len(ran) - len(late)} of {len(ran)}",
        "late_messages": f"{sum(one['late'] for one in late)} of {sum(one['received'] for one in ran)}",
        "missing": sum(one["expected"] - one["received"] for one in ran), "again": sum(one["tries"] > 1 for one in reports),
        "never": len(reports) - len(ran) - len(refused), "refused": f"{len(refused)}", "why": f": {why}" if why else "",
        "shapes": table(["shape", "workloads", "subscribers", "topics", "bytes", "shortest deadline admitted, ms", "worst latency by it: median", "most",
                         "processor used: median", "late"], shapes(ran)),
        "late": table(["seed", "shape", "deadline, ms", "worst, ms", "late", "load late itself, ms", "stolen", "tries"],
                      [(one["seed"], one["shape"], f"{one['deadline_ms']:.2f}", f"{one['worst_ms']:.2f}", f"{one['late']} of {one['received']}",
                        f"{one['load_late_ms']:.2f}", f"{100 * one['stolen_share']:.1f} %", one["tries"]) for one in late]),
    }
