"""Whether lazy copies are fewer than periodic ones, and keep every loss bound all the same."""

import statistics

from bench.rooms.verdicts import exact

LAZY, PERIODIC = "lazy (all)", "periodic 25 ms"


def saved(document):
    """By size: the share of bytes that lazy copies do not send, of those that periodic ones do."""
    def median(policy, topics):
        found = [run["bytes_per_s"] for run in document["figures"]["runs"] if (run["policy"], run["topics"]) == (policy, topics) and not run["swapped"]]
        return statistics.median(found) if found else None

    pairs = [(median(LAZY, topics), median(PERIODIC, topics)) for topics in document["settings"]["sizes"]]
    return [1 - lazy / periodic for lazy, periodic in pairs if lazy is not None and periodic]


def bounds(document, policy=LAZY):
    """Loss bounds that were kept, and all, over every crash."""
    rows = [row for run in document["figures"]["runs"] if run["policy"] == policy for row in run["categories"].values()]
    return sum(row["kept"] for row in rows), sum(row["topics"] for row in rows)


def judge(document):
    kept, contracts = bounds(document)
    return [
        # Sizes are no rounds.
        exact("lazy copies of all messages send fewer bytes than periodic ones at 25 ms, at each size", [100 * share for share in saved(document)],
              lambda share: share > 0, 1, "% fewer"),
        exact("they keep every loss bound", [contracts - kept] if contracts else [], lambda broken: broken == 0, unit="broken",
              remark=f"of {contracts} over all crashes"),
    ]
