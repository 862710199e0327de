"""What the page of meetings says."""

from bench.rooms.figures import table


def values(document):
    report = document["figures"]
    us = lambda row: tuple(f"{row['us'][key]:,.1f}" for key in ("median", "p99", "max"))
    matching = [(row["dimensions"], f"{row['interests']:,}", f"{row['leading']:,}", f"{row['matches']:,.1f}", *us(row)) for row in report["matching"]]
    clusters = [(row["dimensions"], row["what"], *us(row), f"{row['pieces']:.1f}", f"{row['peers']:.0%}") for row in report["clusters"]]
    return {
        "matching": table(["dimensions", "interests", "with a leading wildcard", "matches", "µs, median", "99 %", "max"], matching),
        "clusters": table(["dimensions", "interest of", "µs, median", "99 %", "max", "pieces", "of the peers"], clusters),
    }
