"""Whether what is admitted is in time."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound, exact


def ran(document):
    """Workloads that were admitted."""
    return [one for one in document["figures"]["reports"] if one["edge_ms"] and not one["refused"]]


def refused(document):
    """Those that should have been, and were not."""
    return [one for one in document["figures"]["reports"] if one["edge_ms"] and one["refused"]]


def judge(document):
    admitted = ran(document)
    late = [one for one in admitted if one["late"]]
    # Workloads are the rounds: where each that was late was disturbed in all its tries, nothing is decided.
    share = f"{len(admitted) - len(late)} of {len(admitted)} did"
    in_time = bound("every admitted workload keeps every deadline", [one["late"] for one in late or admitted], lambda count: count == 0, 0, "late",
                    map(is_disturbed, late or admitted), share)
    return [in_time,
            exact("no message of them is missing", [sum(one["expected"] - one["received"] for one in admitted)], lambda count: count == 0),
            exact("none is refused that was expected to be admitted", [len(refused(document))], lambda count: count == 0)]
