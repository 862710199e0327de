"""What the page of operators' memories says."""

import statistics

from bench.rooms.figures import table


def medians(rounds):
    """Of each number."""
    return {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}


def values(document):
    rows = []
    for name, kinds in document["figures"]["operators"].items():
        protected, alone = medians(kinds["protected"]), medians(kinds["alone"])
        each = protected["bytes"] / protected["copies"] if protected["copies"] else 0
        rows.append((name, f"{protected['runs']:.0f}", f"{protected['copies']:.1f}", f"{each:.0f}", f"{protected['bytes'] / 1e3:.1f}",
                     f"{protected['cpu_ms']:.1f}", f"{alone['cpu_ms']:.1f}"))
    return {"operators": table(["operator", "messages/s", "copies/s", "bytes each", "kB/s", "CPU ms/s", "alone"], rows)}
