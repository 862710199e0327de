"""Whether memories are copied no more often than `processing.snapshots` says, and results come at all."""

from bench.rooms.verdicts import bound, exact

SNAPSHOT_SECONDS = 0.1


def judge(document):
    seconds = document["settings"]["seconds"]
    # One more may fall into the time that is counted.
    most = 1 / SNAPSHOT_SECONDS + 1 / seconds
    runs = {name: kinds["protected"] for name, kinds in document["figures"]["operators"].items()}
    return [
        *(bound(f"{name}: at most a copy every 100 ms", [run["copies"] for run in rounds], lambda value: value <= most, 1, "a second")
          for name, rounds in runs.items()),
        exact("each operator is copied", [run["copies"] for rounds in runs.values() for run in rounds], lambda value: value > 0, 1, "a second"),
    ]
