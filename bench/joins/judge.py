"""Whether many sites can join at once."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

REQUEST_P99_MS, OPEN_SECONDS = 20, 10


def judge(document):
    runs = document["figures"]["runs"]
    most = max((run["joins"] for run in runs), default=0)
    disturbed = lambda chosen: [is_disturbed(document) or is_disturbed(run) for run in chosen]
    largest = [run for run in runs if run["joins"] == most]
    return [bound(f"a request takes {REQUEST_P99_MS} ms at most in the 99th percentile, with 256 under way", [run["all"]["p99_ms"] for run in runs],
                  lambda ms: ms <= REQUEST_P99_MS, 1, "ms", disturbed(runs)),
            bound(f"{most:,} joins at once: all ways are open within {OPEN_SECONDS} s", [run["open_s"] for run in largest],
                  lambda seconds: seconds <= OPEN_SECONDS, 1, "s", disturbed(largest))]
