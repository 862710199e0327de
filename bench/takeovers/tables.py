"""What the page of takeovers from a primary that lives says."""

from bench.rooms.figures import table
from bench.takeovers.judge import of


def values(document):
    by = {row["part"]: row["commit"] for row in document["figures"]["runs"]}
    kept = lambda part: f"Kept from commit {by[part]}. " if by.get(part, document["commit"]) != document["commit"] else ""
    compilers = [("yes" if row["rights"] else "no", f"{row['minutes']:g}", row["takeovers"], f"{row['sent']:,}", row["missing"], row["late"],
                  f"{row['patience_ms']:.0f}") for row in of(document, "compilers")]
    links = [(f"{row['loss']:g}", f"{row['delay']} ± {row['off']}", f"{row['seconds']:g}", row["takeovers"], f"{row['sent']:,}", row["missing"], row["late"])
             for row in of(document, "links")]
    return {
        "compilers_kept": kept("compilers"), "links_kept": kept("links"),
        "compilers": table(["real-time rights", "minutes", "false takeovers", "messages", "missing", "late", "patience ms"], compilers),
        "links": table(["loss %", "delay ms", "seconds", "false takeovers", "messages", "missing", "late"], links),
    }
