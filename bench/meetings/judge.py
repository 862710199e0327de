"""Whether profiles and interests meet quickly enough."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

# Microseconds.
MATCH_US = 100
CLUSTERS_US = {2: 50, 6: 1000}


def judge(document):
    report, disturbed = document["figures"], [is_disturbed(document)]
    found = [bound(f"a profile of {row['dimensions']} dimensions finds what it matches among {row['interests']:,} interests, a tenth with a leading wildcard, within {MATCH_US} µs in the median",
                   [row["us"]["median"]], lambda us: us <= MATCH_US, 1, "µs", disturbed) for row in report["matching"]]
    return found + [bound(f"the pieces of {row['what']} in {row['dimensions']} dimensions are found within {CLUSTERS_US[row['dimensions']]} µs in the median", [row["us"]["median"]],
                          lambda us, most=CLUSTERS_US[row["dimensions"]]: us <= most, 1, "µs", disturbed) for row in report["clusters"] if row["dimensions"] in CLUSTERS_US]
