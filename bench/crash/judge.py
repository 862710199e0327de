"""Whether a pair loses nothing when a broker dies, and its subscribers are served in time all the same."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound, exact


def judge(document):
    disturbed, deadline = is_disturbed(document), document["settings"]["period_ms"]
    verdicts = []
    for name in ("verge", "verge-silent"):
        runs, shown = document["figures"]["systems"].get(name), document["settings"]["shown"].get(name)
        if not runs:
            continue
        peaks = [run["peak_ms"] for run in runs if run["back"]]
        verdicts += [
            exact(f"{shown}: nothing lost", [run["lost"] for run in runs], lambda lost: lost == 0),
            exact(f"{shown}: every topic comes back", [sum(not run["back"] for run in runs)], lambda count: count == 0, unit="runs without"),
            bound(f"{shown}: every message within its deadline of {deadline} ms, also after the death", peaks, lambda peak: peak <= deadline, 1,
                  "ms", [disturbed] * len(peaks)),
        ]
    return verdicts
