"""Verdicts: a target, the figure beside it, and whether it was met, missed, or lies within noise."""

from typing import NamedTuple

from bench.rooms import noise
from bench.rooms.figures import spread


class Verdict(NamedTuple):
    target: str
    figure: str
    outcome: str
    remark: str = ""


def bound(target, rounds, holds, digits=2, unit="", disturbed=(), remark=""):
    """Of a figure that differs from round to round."""
    rounds = list(rounds)
    return Verdict(target, shown(rounds, digits, unit), noise.outcome(rounds, holds, disturbed), remark)


def exact(target, counts, holds, digits=0, unit="", remark=""):
    """Of what no noise excuses."""
    counts = list(counts)
    return Verdict(target, shown(counts, digits, unit), noise.exact(counts, holds), remark)


def shown(values, digits, unit):
    """Without a figure there is no unit either. Rounds that failed have none."""
    there = [value for value in values if value is not None]
    figure = f"{spread(there, digits)} {unit}".rstrip() if there else "-"
    return f"{figure}, {len(values) - len(there)} of {len(values)} failed" if len(there) < len(values) else figure


def has_missed(verdicts):
    return any(verdict.outcome == noise.MISSED for verdict in verdicts)
