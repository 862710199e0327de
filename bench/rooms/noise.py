"""The rules of noise, for all measurements. While measuring: what the hypervisor disturbed is measured again. While judging: rounds that do
not agree decide nothing, and neither does a miss that was disturbed."""

from bench.rooms.host import share_stolen, stolen
from bench.rooms.options import QUICK

# A measurement during which the hypervisor takes more of the processors than this is disturbed, and made again at most so many times.
STOLEN_MOST, REPEATS = 0.01, 0 if QUICK else 2

MET, MISSED, NOISE, NOT_MEASURED = "met", "missed", "within noise", "not measured"


def outcome(rounds, holds, disturbed=()):
    """Whether a bound holds, of one value for each round: met if it holds in every round, missed if not. Within noise if it holds in some
    rounds and not in others, so that the bound lies within what rounds differ by; and if every round that misses it was `disturbed`
    (one truth for each round). A round without a value has failed, and misses every bound."""
    if not rounds:
        return NOT_MEASURED
    disturbed = list(disturbed) or [False] * len(rounds)
    assert len(disturbed) == len(rounds), "one truth for each round"
    misses = [was for value, was in zip(rounds, disturbed) if value is None or not holds(value)]
    if not misses:
        return MET
    return NOISE if len(misses) < len(rounds) or all(misses) else MISSED


def exact(counts, holds):
    """Of what must hold in every round whatever the host does, as that nothing is lost: one round that breaks it has missed it."""
    if not counts:
        return NOT_MEASURED
    return MET if all(map(holds, counts)) else MISSED


def together(outcomes):
    """Of what must be met in several cases: the worst of them. Cases are no rounds; that one holds says nothing of another."""
    for one in (MISSED, NOISE, NOT_MEASURED):
        if one in outcomes:
            return one
    return MET if outcomes else NOT_MEASURED


def is_disturbed(report):
    """Whether what a report or a document tells was disturbed all the same: `stolen_share` is what the hypervisor took meanwhile."""
    return report.get("stolen_share", 0) > STOLEN_MOST


def undisturbed(measure):
    """The report of the try during which the hypervisor took least, with what it took and the tries that were made."""
    tries = []
    while not tries or (tries[-1][0] > STOLEN_MOST and len(tries) <= REPEATS):
        before = stolen()
        report = measure()
        tries.append((share_stolen(before, stolen()), report))
    taken, report = min(tries, key=lambda one: one[0])
    return report | {"stolen_share": taken, "tries": len(tries)}


def disturbances(reports):
    """A sentence about the repetitions, from the reports alone, since another command may have made them."""
    reports = list(reports)
    again = [report["tries"] - 1 for report in reports if report["tries"] > 1]
    worst = max((report["stolen_share"] for report in reports), default=0)
    if not again:
        return f"None of {len(reports)} measurements was made again; it took up to {100 * worst:.1f} % of one."
    return (f"{len(again)} of {len(reports)} measurements, during which it took more than {100 * STOLEN_MOST:g} %, were made again, at most "
            f"{['once', 'twice'][max(again) - 1]}, and the try with the least counts; after that it had taken up to {100 * worst:.1f} % of one.")
