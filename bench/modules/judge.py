"""Whether modules that do not end are stopped in time."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

# Of the budget, in the median of a kind's runs. The processor's time is measured, so what else ran does not count.
ALLOWED = 1.2


def judge(document):
    report = document["figures"]
    latest = max(report["stopped"], key=lambda kind: kind["stopped_us"]["median"])
    used = [latest["stopped_us"]["median"] / report["budget_us"]]
    return [bound(f"every kind is stopped within {ALLOWED} of its budget in the median", used, lambda value: value <= ALLOWED, 3,
                  f"of the budget ({latest['kind']})", [is_disturbed(document)])]
